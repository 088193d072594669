"""The words: every Python block of the README and the docs runs, links lead somewhere, the reference is complete."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from made_up import write_scenario
from test_imports import ORDER

import pastmaster
from pastmaster.cli import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "paper" / "README.md", *sorted(DOCS.rglob("*.md"))]
CODE = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "paper").rglob("*.py"))]
SOURCES = [ROOT / "pyproject.toml", ROOT / "mkdocs.yml", ROOT / "CITATION.cff", *CODE]
WIDEST = 92  # columns of a code block: more would not fit the page
MISREAD = [  # phrases that readers stumbled over
    "of what could be had",
    "neither a number of episodes nor a span",
    "says it of itself",
    "goes round the circle",
    "round a circle",
    "what there is to say of",
    "can still be hidden",
    "survives anything",
    "without regret",
    "or a refusal",
    "whence",
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def examples(page: Path) -> list[list[tuple[str, str]]]:
    """The Python blocks of a page, each with the output shown under it.

    One that imports pastmaster stands alone, others continue those before.
    """
    found: list[list[tuple[str, str]]] = []
    text = page.read_text(encoding="utf-8")
    for block, output in re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL):
        if re.search(r"^import pastmaster$", block, re.MULTILINE) or not found:
            found.append([])
        found[-1].append((block, output))
    return found


EXAMPLES = [
    pytest.param(blocks, id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, blocks in enumerate(examples(page))
]


EXTRAS = ("stable_baselines3", "onnxruntime", "onnxscript", "torch", "flax", "jax", "'tree'", "'ray")
"""What blocks need that is not always installed; dm-tree, which is called tree, comes with RLlib."""


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch.onnx.export, of itself
@pytest.mark.parametrize("blocks", EXAMPLES)
def test_the_blocks_run_and_print_what_they_say(blocks, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if any('"drawer"' in block for block, _ in blocks):
        fill_drawer(tmp_path / "drawer")
    if any('"scenario"' in block for block, _ in blocks):
        write_scenario(tmp_path / "scenario")
    names: dict[str, object] = {}
    for number, (block, output) in enumerate(blocks):
        try:
            exec(compile(block, f"block {number}", "exec"), names)
        except (ImportError, pastmaster.InvalidInputError) as error:
            named = [extra for extra in EXTRAS if extra in str(error).replace("-", "_")]
            if not named or any(importlib.util.find_spec(name.strip("'")) for name in named):
                raise
            pytest.skip(str(error))
        printed = capsys.readouterr().out
        for promised in re.findall(r"^ *print\(.*\)\s+# ([\[(\d-][^:\n]*)", block, re.MULTILINE):
            assert promised in printed
        assert " ".join(output.split()) in " ".join(printed.split())


def test_blocks_fit_the_page():
    for page in PAGES:
        for block in re.findall(r"```\w+\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            assert [line for line in block.splitlines() if len(line) > WIDEST] == [], page


def test_the_guide_to_tables_shows_what_the_command_prints(tmp_path, monkeypatch):
    text = (DOCS / "tables.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text(re.search(r'write_text\("""\\\n(.*?)"""', text, re.DOTALL)[1])
    shown = re.findall(r"```console\n\$ pastmaster (.*?)\n(.*?)```", text, re.DOTALL)
    assert shown
    for command, output in shown:
        assert CliRunner().invoke(main, command.split()).output == output


def fill_drawer(folder: Path) -> None:
    """Some policies that have seen a few steps."""
    PPO = pytest.importorskip("stable_baselines3").PPO

    folder.mkdir()
    for seed in range(4):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, seed=seed, device="cpu")
        model.learn(8).save(folder / f"cart-{seed}.zip")


def test_pages_have_examples():
    for page in ("README.md", "docs/tutorial.md", "docs/clustering.md", "docs/reuse.md"):
        assert examples(ROOT / page), page


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_pages_link_only_to_what_is_there():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), (page, link)
            assert not anchor or anchor in anchors(target), (page, link)


def test_nothing_that_was_misread_is_back():
    texts = {name_of(page): " ".join(page.read_text(encoding="utf-8").split()) for page in [*PAGES, *SOURCES]}
    found = [(phrase, name) for phrase in MISREAD for name, text in texts.items() if phrase in text]
    assert found == []


def reference() -> list[str]:
    """The names on the pages of the API reference."""
    return [
        name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def test_the_reference_has_every_public_name_once():
    found = reference()
    assert len(found) == len(set(found))
    short = {name.rpartition(".")[2] for name in found}
    modules = {"domains", "errors", "policies", "mhav", "testing"}  # their contents are there
    assert set(pastmaster.__all__) - modules <= short
    for module in ("policies", "errors", "domains", "testing"):
        public = getattr(importlib.import_module(f"pastmaster.{module}"), "__all__", [])
        assert set(public) <= short


def test_every_name_of_the_reference_is_there():
    def is_there(name: str) -> bool:
        room, _, last = name.rpartition(".")
        return hasattr(importlib.import_module(room), last) or importlib.util.find_spec(name) is not None

    assert [name for name in reference() if not is_there(name)] == []


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_line_page_has_the_help_of_every_command(hooks):
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    assert hooks.HELP in page
    shown = dict(
        re.findall(r"^## (pastmaster.*?)\n\n```text\n(.*?)\n```$", hooks.command_help(), re.MULTILINE | re.DOTALL)
    )
    paths, waiting = [], [()]
    while waiting:
        path = waiting.pop()
        help_text = (
            CliRunner().invoke(main, [*path, "--help"], terminal_width=hooks.WIDTH, prog_name="pastmaster").output
        )
        assert shown[" ".join(["pastmaster", *path])] == help_text.rstrip("\n")
        paths.append(path)
        _, _, commands = help_text.partition("\nCommands:\n")
        waiting += [(*path, name) for name in re.findall(r"^  ([a-z-]+)  ", commands, re.MULTILINE)]
    assert len(paths) == len(shown) >= 15
    assert isinstance(main, click.Group)


def test_looking_at_the_help_of_all_commands_leaves_them_as_they_were(hooks):
    """click keeps the option --help of a command, with the names it had when it was first looked at."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hooks; hooks.command_help(); "
        "from pastmaster.cli import main; main(['repo', 'keep', '-h'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(DOCS)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "-h, --help" in hooks.command_help().split("## pastmaster repo keep\n")[1]


def test_the_nav_of_the_site_has_every_page(hooks):
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"[\w/-]+\.md", nav)
    pages = {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)}
    assert sorted(listed) == sorted(itertools.chain(pages, hooks.PAGES.values()))


def test_the_architecture_page_has_every_package_in_order_and_fits_on_three_pages():
    rooms, _, _ = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("\n## Decisions")
    table = [line.split("|") for line in rooms.splitlines() if line.startswith("| `")]
    assert [name for line in table for name in re.findall(r"`(\w+)`", line[1])] == list(ORDER)
    for _, packages, _, first, _ in table:
        folders = [ROOT / "src" / "pastmaster" / name for name in ("", *re.findall(r"`(\w+)`", packages))]
        for name in re.findall(r"`(\w+)`", first):
            assert any((folder / f"{name}.py").exists() for folder in folders), name
    assert len((DOCS / "architecture.md").read_text(encoding="utf-8").split()) < 1_800
