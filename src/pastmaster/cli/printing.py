"""What the commands print and draw: tables, JSON, pictures, bars."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.tables import told_apart
from pastmaster.texts import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST_CELL = 120  # letters: a name may have a thousand
PATIENCE = 2  # seconds that a person waits without being told what goes on
NUMBER = re.compile(r"-|-?[0-9.]+(e[-+]?[0-9]+)?")


def say(*lines: object, err: bool = False) -> None:
    """Print lines, in which names may come from anywhere: what a terminal would obey is shown as an escape."""
    for line in lines:
        click.echo(printable(str(line)), err=err)


def print_json(value: Any) -> None:
    """One JSON object."""
    click.echo(json.dumps(value, indent=1))


def print_table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """A table: texts to the left, numbers to the right, as wide as need be.

    Only the longest texts are cut, so that those of a column can still be told apart.
    """
    columns = [[name, *told_apart(map(str, cells), WIDEST_CELL)] for name, *cells in zip(head, *lines, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    texts = [any(not NUMBER.fullmatch(cell) for cell in column[1:]) for column in columns]
    for line in zip(*columns, strict=True):
        padded = (
            cell.ljust(width) if is_text else cell.rjust(width)
            for cell, width, is_text in zip(line, widths, texts, strict=True)
        )
        say("  ".join(padded).rstrip())


def save_picture(figure: Figure, path: Path) -> None:
    """Draw, and say where."""
    from pastmaster import figures

    try:
        written = figures.save(figure, figures.writable(path))
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from None
    say(f"picture: {written}", err=True)


@contextmanager
def waiting(label: str, seconds: float, wanted: bool) -> Iterator[None]:
    """A bar of the time that passes, up to ``seconds``, from the third second on; only if ``wanted``."""
    done = threading.Event()

    def draw() -> None:
        if done.wait(PATIENCE):
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task(label, total=seconds, completed=PATIENCE)
            while not done.wait(0.2):
                progress.advance(bar, 0.2)

    thread = threading.Thread(target=draw, daemon=True)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if wanted:
            thread.join()


def bars_wanted(quiet: bool) -> bool:
    """Whether a person watches the terminal, so that progress bars are drawn."""
    return not quiet and sys.stderr.isatty()
