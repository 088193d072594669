"""How results show themselves: one line in a terminal, a table in a notebook, a frame of pandas."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pastmaster.errors import InvalidInputError
from pastmaster.texts import printable

if TYPE_CHECKING:
    import pandas as pd

WIDEST = 100  # characters of a repr
PART = re.compile(r"[^,/(]*[,/(]\s*|[^,/(]+$")  # of a name: up to a comma, a slash or an opening bracket
MANY = 500  # values in a container whose repr takes long


def one_line(text: str, width: int = WIDEST) -> str:
    """A text on one line, whose ends of lines become spaces, safe for a terminal and cut to ``width``."""
    return cut(" ".join(text.split()), width)


def cut(name: str, width: int = WIDEST) -> str:
    """A name as it is, safe for a terminal: ends of lines are escapes, and the middle of a long one is left out."""
    line = printable(name)
    kept = (width - 3) // 2
    return line if len(line) <= width else f"{line[: width - 3 - kept]}...{line[-kept:]}"


def told_apart(names: Iterable[str], width: int = WIDEST) -> list[str]:
    """Names that stand side by side, each cut to ``width``; where one is longer, what they have in common is left out.

    Names are compared part by part; a part ends at a comma, a slash or an opening bracket.

    Examples
    --------
    >>> told_apart(["Cart-v0(gravity=9.8, length=0.5, mass=1)", "Cart-v0(gravity=9.8, length=0.7, mass=1)"], 24)
    ['length=0.5', 'length=0.7']
    """
    lines = [printable(name) for name in names]
    n_different = len(set(lines))
    if n_different > 1 and max(map(len, lines)) > width:
        shorter = _differing_parts(lines)
        if len(set(shorter)) == n_different:
            lines = shorter
    return [cut(line, width) for line in lines]


def _differing_parts(lines: list[str]) -> list[str]:
    """Each line without the parts in which all lines are equal."""
    columns = list(zip_longest(*map(PART.findall, lines), fillvalue=""))
    differing = [column for column in columns if len(set(column)) > 1]
    found = ["".join(parts).rstrip(",/ ") for parts in zip(*differing, strict=True)]
    found = [text.rstrip(")") if "(" not in text else text for text in found]
    return [text or line for text, line in zip(found, lines, strict=True)]


def shown(value: Any) -> str:
    """A value as an error tells it: its ``repr`` on one line, not long; of errors twice that."""
    width = 2 * WIDEST if isinstance(value, BaseException) else WIDEST
    is_long = isinstance(value, list | tuple | set | frozenset | dict) and len(value) > MANY
    text = reprlib.repr(value) if is_long else repr(value)
    return one_line(text, width)


def frame(columns: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Columns by name, or rows, as a DataFrame; pandas is imported here."""
    try:
        import pandas as pd
    except ImportError:
        raise InvalidInputError("to_frame: this needs pandas: pip install pandas") from None
    return pd.DataFrame(columns if isinstance(columns, Mapping) else list(columns))


def html_table(rows: Iterable[Mapping[str, Any]], title: str = "") -> str:
    """Rows as an HTML table, under a line of text."""
    shown = list(rows)
    head = "".join(f"<th>{escape(printable(str(name)))}</th>" for name in (shown[0] if shown else ()))
    body = "".join("<tr>" + "".join(map(_cell, row.values())) + "</tr>" for row in shown)
    above = f"<p>{escape(printable(title))}</p>" if title else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(printable(text))}</td>"


def counted(n: int, what: str) -> str:
    """A number of things in words."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{n:,} {what if n == 1 else many}"
