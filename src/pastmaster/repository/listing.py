"""Lists of records as people see them: one line in a terminal, a table in a notebook, a frame of pandas."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pastmaster.tables import frame, html_table, one_line

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 60  # of a table in a notebook
Item = TypeVar("Item")


class Records(list[Item]):
    """A list of records, with ``to_frame()`` and a table in notebooks."""

    def to_frame(self) -> pd.DataFrame:
        """The records as a pandas DataFrame, a row to each; arrays and digests are left out."""
        return frame(map(columns, self))

    def __repr__(self) -> str:
        kind = type(self[0]).__name__ if self else "record"
        return one_line(f"<{len(self)} {kind}{'' if len(self) == 1 else 's'}: {', '.join(map(_name, self))}>")

    def _repr_html_(self) -> str:
        more = f", the first {MOST_ROWS} of them" if len(self) > MOST_ROWS else ""
        return html_table(map(columns, self[:MOST_ROWS]), f"{len(self):,} records{more}")


def columns(record: Any) -> dict[str, Any]:
    """The fields of a record that a person reads."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: value for name, value in fields.items() if not isinstance(value, np.ndarray) and "digest" not in name}


def _name(record: Any) -> str:
    shown = columns(record)
    return str(shown.get("name") or shown["id"])
