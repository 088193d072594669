"""What the commands have in common: options, one-sentence errors, tables, JSON, pictures."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.errors import PastmasterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Command = Callable[..., Any]


def in_one_sentence(command: Command) -> Command:
    """What the library refuses is told in one sentence, with an exit code that is not 0, and no traceback."""

    @functools.wraps(command)
    def told(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except PastmasterError as error:
            raise click.ClickException(" ".join(str(error).split("\n"))) from None

    return told


def repository_argument(command: Command) -> Command:
    """The repository: a path, or a URL."""
    return click.argument("place", metavar="REPOSITORY")(command)


def seed_option(what: str) -> Callable[[Command], Command]:
    """``--seed``."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=what)


def quiet_option(what: str) -> Callable[[Command], Command]:
    """``--quiet``."""
    return click.option("--quiet", is_flag=True, help=what)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
jobs_option = click.option("--jobs", type=int, default=1, show_default=True, help="Workers; -1: one to a core.")


def _drawable(_: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a picture that cannot be drawn before any work is done."""
    from pastmaster import figures

    try:
        return None if path is None else figures.writable(path)
    except PastmasterError as error:
        raise click.BadParameter(str(error), param=option) from None


picture_option = click.option(
    "--picture",
    type=click.Path(path_type=Path),
    callback=_drawable,
    help="Draw it into this file (.png, .svg or .pdf).",
)


def say_json(value: Any) -> None:
    """One JSON object."""
    click.echo(json.dumps(value, indent=1))


def say_table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """A table: texts to the left, numbers to the right, as wide as need be."""
    cells = [[" ".join(str(cell).split()) for cell in line] for line in [head, *lines]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    left = [
        any(not re.fullmatch(r"-|-?[0-9.]+(e[-+]?[0-9]+)?", line[i]) for line in cells[1:]) for i in range(len(head))
    ]
    for line in cells:
        padded = (
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(line, widths, left, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def save_picture(figure: Figure, path: Path) -> None:
    """Draw, and say where."""
    from pastmaster import figures

    try:
        written = figures.save(figure, figures.writable(path))
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
    click.echo(f"picture: {written}", err=True)


def watched(quiet: bool) -> bool:
    """Whether somebody looks on: bars are drawn."""
    return not quiet and sys.stderr.isatty()
