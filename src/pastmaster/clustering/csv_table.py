"""Tables of scores in .csv files, wide or long; errors name lines, counted as a text editor does, and columns."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np

from pastmaster.arrays import FloatArray, sealed
from pastmaster.clustering.score_table import LONG, Scores, averaged, is_long, names_tasks
from pastmaster.errors import InvalidInputError
from pastmaster.tables import cut, shown

MISSING = frozenset(("", "nan", "na", "n/a", "null", "none", "-", "?"))
SEPARATORS = ",;\t"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
SAVE = "save as CSV UTF-8"  # as Excel calls it
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx and .xls begin
Line = tuple[int, list[str]]  # its number, and its cells


def from_csv(place: str, content: bytes, source: str) -> Scores:
    """The table in the content of a .csv file, which ``source`` names."""
    if content.startswith(WORKBOOKS):
        raise InvalidInputError(f"{place} is {source!r}, an Excel workbook, must be text: {SAVE}")
    text = decoded(content, place, SAVE)
    header = text.lstrip("\r\n").partition("\n")[0]
    separator = max(SEPARATORS, key=re.sub(r'"[^"]*"', "", header).count)
    rows, comma = _rows(place, text, separator), separator != ","
    first = next(rows, None)
    if first is None:
        raise InvalidInputError(f"{place} is {source!r}, which has no lines, must have a header and a row to a task")
    if is_long(first[1]):
        at = [[head.casefold() for head in first[1]].index(word) for word in LONG]
        trials = (
            (cells[at[0]], cells[at[1]], _number(place, line, "score", cells[at[2]], comma)) for line, cells in rows
        )
        return averaged(place, trials, "line")
    return _wide(place, first, rows, comma)


def decoded(content: bytes, place: str, remedy: str = "save it as UTF-8") -> str:
    """Text in UTF-8, or in UTF-16 with its mark."""
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"{place}: line {line} is not text in UTF-8, must be: {remedy}") from None
    if "\0" in text[:2]:  # every other byte of plain letters
        raise InvalidInputError(f"{place}: line 1 is not text in UTF-8, but seems to be UTF-16, must be: {remedy}")
    return text


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text with their ends, as a text editor has them, one by one: a list would take much memory."""
    return (found[0] for found in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text))


def _rows(place: str, text: str, separator: str) -> Iterator[Line]:
    """The lines that are not empty, all as wide as the first."""
    reader, width = csv.reader(lines_of(text), delimiter=separator, strict=True), 0
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                width = width or len(cells)
                if len(cells) != width:
                    raise InvalidInputError(
                        f"{place}: line {reader.line_num} has {len(cells)} cells, must have {width} as the first line"
                    )
                yield reader.line_num, stripped
    except csv.Error as error:
        raise InvalidInputError(f"{place}: line {reader.line_num} is not CSV: {error}") from None


def _wide(place: str, first: Line, rest: Iterator[Line], comma: bool) -> Scores:
    """A header with the policies, and a row to each task, which may begin with its name; or numbers alone."""
    heads = first[1]
    bare = not names_tasks(heads[0]) and _is_bare(place, heads, comma)
    columns = [str(j) for j in range(len(heads))] if bare else heads
    lines, begins, others = list[int](), list[str](), list[FloatArray]()
    for line, cells in chain([first] if bare else [], rest):
        lines.append(line)
        begins.append(cells[0])
        others.append(_numbers(place, line, columns[1:], cells[1:], comma))
    if not lines:
        raise InvalidInputError(f"{place} has a header only, must have a row to each task")
    named = not bare and (names_tasks(heads[0]) or any(_as_float(cell, comma) is None for cell in begins))
    if len(heads) == named:
        raise InvalidInputError(f"{place} has no column of scores, must have one to each policy")
    values = np.array(others)
    if not named:
        begun = [_number(place, line, columns[0], cell, comma) for line, cell in zip(lines, begins, strict=True)]
        values = np.column_stack([begun, values])
    return Scores(sealed(values), tuple(begins) if named else (), () if bare else tuple(heads[named:]))


def _is_bare(place: str, heads: list[str], comma: bool) -> bool:
    """Whether the first line holds scores. Whole numbers that rise may be names, such as years."""
    if any(_as_float(cell, comma) is None for cell in heads) or heads == [str(j) for j in range(len(heads))]:
        return False
    whole = [int(cell) for cell in heads if cell.isascii() and cell.isdigit()]
    if 1 < len(heads) == len(whole) and all(one < other for one, other in pairwise(whole)):
        raise InvalidInputError(
            f"{place}: line 1 is {shown(','.join(heads))}, which may be names or scores, must be a header with the "
            "names of the policies (or pass an array)"
        )
    return True


def _numbers(place: str, line: int, heads: list[str], cells: list[str], comma: bool) -> FloatArray:
    """The cells of a row as numbers: at once where all are plain ones."""
    try:
        found = [] if any("_" in cell for cell in cells) else list(map(float, cells))
    except ValueError:
        found = []
    if len(found) != len(cells):
        found = [_number(place, line, head, cell, comma) for head, cell in zip(heads, cells, strict=True)]
    return np.array(found, np.float64)


def _as_float(cell: str, comma: bool) -> float | None:
    """A cell as a number, nan if nothing was tried; None if it is neither. Infinity is left to be refused by name."""
    if cell.casefold() in MISSING:
        return math.nan
    if comma and DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _number(place: str, line: int, head: str, cell: str, comma: bool) -> float:
    value = _as_float(cell, comma)
    if value is None:
        raise InvalidInputError(
            f"{place}: line {line}, column {cut(head)!r} is {shown(cell)}, must be a number, or empty where a policy "
            "was not tried (the columns of a long table must be called task, policy and score)"
        )
    return value
