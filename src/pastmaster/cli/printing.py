"""What the commands print and draw: tables, JSON, pictures, bars."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.tables import told_apart
from pastmaster.texts import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST_CELL = 120  # letters: a name may have a thousand
PATIENCE = 2  # seconds that a person waits before a bar is drawn
NUMBER = re.compile(r"-|-?[0-9.]+(e[-+]?[0-9]+)?")


@dataclass(frozen=True)
class Output:
    """How a command gives its answer: as JSON or in words, drawn into a file, with bars on the way or without."""

    as_json: bool = False
    picture: Path | None = None
    quiet: bool = False

    @property
    def bars(self) -> bool:
        """Whether a person watches the terminal, so that progress bars are drawn."""
        return not self.quiet and sys.stderr.isatty()

    def give(self, value: Any, words: Callable[[], None], draw: Callable[[], Figure] | None = None) -> None:
        """Print ``value`` as JSON or call ``words``, which prints; then save what ``draw`` draws."""
        if self.as_json:
            print_json(value)
        else:
            words()
        if self.picture is not None and draw is not None:
            save_picture(draw(), self.picture)


def say(*lines: object, err: bool = False) -> None:
    """Print lines, in which names may come from anywhere: what a terminal would obey is shown as an escape."""
    for line in lines:
        click.echo(printable(str(line)), err=err)


def print_json(value: Any) -> None:
    """One JSON object, in which a number that is not finite is null."""
    click.echo(json.dumps(_finite(value), indent=1))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float | None) -> str:
    """A number in a table: whole where it is large."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


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


def print_records(columns: Mapping[str, str], records: Sequence[Mapping[str, Any]]) -> None:
    """A table of records: ``columns`` are heads by the name of a field; a file that no record has is left out."""
    shown = {field: head for field, head in columns.items() if head != "file" or any(one[field] for one in records)}
    print_table([*shown.values()], [[_cell(one[field]) for field in shown] for one in records])


def _cell(value: Any) -> str:
    """A field as a table shows it: of a list how much it holds."""
    if isinstance(value, list):
        return str(len(value))
    if isinstance(value, float):
        return number(value)
    return "-" if value in (None, "") else str(value)


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
    if not wanted:
        yield
        return
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
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
