"""Tables in the ARFF format: a header that names the columns, then a line of cells to each row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pastmaster.clustering.csv_table import lines_of
from pastmaster.errors import InvalidInputError
from pastmaster.tables import cut, shown

QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s'\"]\S*)\s+(\S.*)", re.IGNORECASE)
CELL = re.compile(rf"\s*({QUOTED}|[^,'\"]*?)\s*(,|$)")
ESCAPED = re.compile(r"\\(.)")


class Row(NamedTuple):
    """The cells of one row, None where a value is missing, and the line it is on."""

    line: int
    cells: list[str | None]


def read_arff(place: str, text: str, wanted: Sequence[str]) -> Iterator[Row]:
    """The rows of a table, of each the wanted columns in that order; ``place`` begins the errors, which name lines.

    Names of columns are told apart without regard to case. Sparse rows and rows with weights are refused.
    """
    lines = ((number, line.strip()) for number, line in enumerate(lines_of(text), 1))
    told = ((number, line) for number, line in lines if line and not line.startswith("%"))
    names = _header(place, told)
    for name in wanted:
        if names.count(name.casefold()) != 1:
            found = "no" if name.casefold() not in names else "more than one"
            raise InvalidInputError(f"{place} has {found} attribute {cut(name)!r}, must have one")
    columns = [names.index(name.casefold()) for name in wanted]
    for number, line in told:
        cells = _cells(place, number, line)
        if len(cells) != len(names):
            raise InvalidInputError(
                f"{place}: line {number} has {len(cells)} cells, must have {len(names)}, one to each attribute"
            )
        yield Row(number, [cells[j] for j in columns])


def _header(place: str, lines: Iterator[tuple[int, str]]) -> list[str]:
    """The names of the columns, in lower case; reads up to ``@data``."""
    names = list[str]()
    for number, line in lines:
        word = line.split(maxsplit=1)[0].casefold()
        found = ATTRIBUTE.fullmatch(line)
        if word == "@data" and names:
            return names
        if word == "@attribute" and found is not None:
            names.append(_plain(found[1]).casefold())
        elif word != "@relation":
            wanted = "@relation, @attribute NAME TYPE, or @data after the attributes"
            raise InvalidInputError(f"{place}: line {number} is {shown(line)}, must be {wanted}")
    raise InvalidInputError(f"{place} has no line @data, must have one, and the rows after it")


def _cells(place: str, number: int, line: str) -> list[str | None]:
    """The cells of a line; commas in quotes do not separate them."""
    if line.startswith("{"):
        raise InvalidInputError(f"{place}: line {number} is a sparse row, must have all its cells")
    if "'" not in line and '"' not in line:
        return [None if cell == "?" else cell for cell in map(str.strip, line.split(","))]
    cells, at, more = list[str | None](), 0, True
    while more:
        found = CELL.match(line, at)
        if found is None:
            raise InvalidInputError(
                f"{place}: line {number} has quotes that do not fit, must close each before a comma"
            )
        cells.append(None if found[1] == "?" else _plain(found[1]))
        at, more = found.end(), found[2] == ","
    return cells


def _plain(cell: str) -> str:
    """A cell without its quotes."""
    return ESCAPED.sub(r"\1", cell[1:-1]) if cell[:1] in ("'", '"') else cell
