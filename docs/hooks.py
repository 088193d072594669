"""What the site adds to the pages of docs/: README.md as its home page, the command's help, files outside docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "paper/README.md": "paper-package.md",
}
EXAMPLES = [str(path.relative_to(ROOT)) for path in [*ROOT.glob("examples/*.py"), *ROOT.glob("paper/examples/*.py")]]
FILES = ["LICENSE", "CITATION.cff", *EXAMPLES]
ORIGINS = {page: source for source, page in PAGES.items()}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
ALONE = ("index.md", "tutorial.md")  # tabs of one page: nothing to navigate
WIDTH = 90  # columns of the commands' help: more would not fit the page
HELP = "<!-- help of every command -->"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and files that lie outside docs/."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for name in FILES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to where their target lies in the site, and put the help of the commands where it belongs."""
    uri = page.file.src_uri
    if uri in ALONE:
        page.meta["hide"] = ["navigation"]
    origin = posixpath.dirname(ORIGINS.get(uri, f"docs/{uri}"))

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(origin, match[1]))
        return posixpath.relpath(site_path(target), posixpath.dirname(uri) or ".")

    return LINK.sub(moved, markdown).replace(HELP, command_help() if HELP in markdown else "")


def site_path(target: str) -> str:
    """Where a file of the project, by its path from the root, lies in the site."""
    return PAGES.get(target, target.removeprefix("docs/"))


def command_help() -> str:
    """The help of ``pastmaster`` and of each of its commands, as Markdown with a heading for each."""
    from pastmaster.cli import main

    return "\n\n".join(f"## {name}\n\n```text\n{text}\n```" for name, text in command_texts("pastmaster", main))


def command_texts(name: str, command: Any, parent: Any = None) -> list[tuple[str, str]]:
    """A command's full name and its help, then those of its subcommands.

    A subcommand has the context of its group, as when it is run: -h comes from there, and click remembers it.
    """
    import click

    context = click.Context(
        command, parent=parent, info_name=name, terminal_width=WIDTH, **command.context_settings
    )  # fmt: skip
    texts = [(context.command_path, context.get_help())]
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            if not found.hidden:
                texts += command_texts(part, found, context)
    return texts


LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="?canonical))\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//"""
)


def on_post_build(config: Any) -> None:
    """Refuse a site whose pages load anything from another host: it must work without a network."""
    from mkdocs.exceptions import PluginError

    for page in Path(config.site_dir).rglob("*.html"):
        if found := LOADED.search(page.read_text(encoding="utf-8")):
            raise PluginError(f"{page} loads something from another host: {found[0]}")
    for sheet in Path(config.site_dir).rglob("*.css"):
        if found := re.search(r"url\(['\"]?(?:https?:)?//[^)]*", sheet.read_text(encoding="utf-8")):
            raise PluginError(f"{sheet} loads something from another host: {found[0]}")
