"""How results show themselves: one line in a terminal, a table in a notebook, a frame of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from pastmaster.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

WIDEST = 100  # characters of a repr


def one_line(text: str, width: int = WIDEST) -> str:
    """A text on one line, its middle left out where it is longer than ``width``."""
    line = " ".join(text.split())
    kept = (width - 3) // 2
    return line if len(line) <= width else f"{line[: width - 3 - kept]}...{line[-kept:]}"


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
    head = "".join(f"<th>{escape(str(name))}</th>" for name in (shown[0] if shown else ()))
    body = "".join("<tr>" + "".join(map(_cell, row.values())) + "</tr>" for row in shown)
    above = f"<p>{escape(title)}</p>" if title else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(text)}</td>"


def counted(n: int, what: str) -> str:
    """A number of things in words."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{n:,} {what if n == 1 else many}"
