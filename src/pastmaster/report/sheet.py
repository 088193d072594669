"""Files of a reproduction, read with care: numbers finite, sizes bounded, refusals with file and line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pastmaster.errors import DamagedError, InvalidInputError

LARGEST_FILE = 2**26
TITLE = "# title:"


@dataclass(frozen=True)
class Sheet:
    """A CSV file: its title, and its rows of text with their line numbers, the head among them."""

    path: Path
    title: str
    rows: tuple[tuple[int, list[str]], ...]

    def wrong(self, line: int, what: str) -> DamagedError:
        """The refusal of a line."""
        return DamagedError(f"{self.path}, line {line}: {what}")

    def under(self, head: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """The rows under a head whose first names are given, each as long as the head; there is at least one."""
        line, found = self.rows[0]
        if found[: len(head)] != list(head):
            raise self.wrong(line, f"the head is {','.join(found)[:80]!r}, must begin with {','.join(head)!r}")
        if len(self.rows) == 1:
            raise self.wrong(line, "there is nothing under the head")
        for line, row in self.rows[1:]:
            if len(row) != len(found):
                raise self.wrong(line, f"there are {len(row)} values, must be {len(found)}")
            yield line, row

    def number(self, line: int, name: str, text: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number between two others."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            least, most = math.isfinite(low), math.isfinite(high)
            where = f" in {low:g} .. {high:g}" if least and most else f" of at least {low:g}" if least else ""
            raise self.wrong(line, f"{name} is {text[:40]!r}, must be a finite number{where}")
        return value

    def index(self, line: int, name: str, text: str, below: int) -> int:
        """A whole number from 0 on, below another."""
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < below):
            raise self.wrong(line, f"{name} is {text[:40]!r}, must be a whole number in 0 .. {below - 1}")
        return int(text)


def read_text(path: Path) -> str:
    """A file's text, of bounded size and in UTF-8."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DamagedError(f"{path} has {path.stat().st_size:,} bytes, must have at most {LARGEST_FILE:,}")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DamagedError(f"{path}, line {line}: is not text in UTF-8") from None


def read_sheet(path: Path) -> Sheet:
    """A CSV file with at least one row; without a title it goes by its name."""
    text = read_text(path)
    title = path.stem.partition("-")[2].replace("-", " ")
    first, _, rest = text.partition("\n")
    skipped = first.startswith("#")
    if first.startswith(TITLE):
        title = first.removeprefix(TITLE).strip() or title
    reader = csv.reader(io.StringIO(rest if skipped else text, newline=""), strict=True)
    rows = []
    try:
        for row in reader:
            if row:
                rows.append((reader.line_num + skipped, row))
    except csv.Error as error:
        raise DamagedError(f"{path}, line {reader.line_num + skipped}: is not CSV: {error}") from None
    if not rows:
        raise DamagedError(f"{path}, line {1 + skipped}: there is nothing in it")
    return Sheet(path, title, tuple(rows))
