"""What ``repo check`` says: the damage, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pastmaster.tables import counted

if TYPE_CHECKING:
    from pastmaster.repository.check import Damage

MOST_LINES = 3  # about the file's structure: SQLite names every page
RECORDS = ("tasks", "policies", "runs", "clusterings", "streams")


def damage_lines(damage: Sequence[Damage]) -> list[str]:
    """A line for each damaged record and counter, then a few about the structure of the file, then how many."""
    problems: dict[str, list[str]] = {}
    structure = []
    for item in damage:
        if _is_record(item.place) or _is_counter(item.place):
            problems.setdefault(item.place, []).append(str(item))
        else:
            structure.append(str(item))
    records = [place for place in problems if _is_record(place)]
    counters = [place for place in problems if _is_counter(place)]
    lines = [_first_of(place, problems[place]) for place in (*records, *counters)]
    lines += structure[:MOST_LINES]
    if len(structure) > MOST_LINES:
        lines.append(f"and {len(structure) - MOST_LINES:,} more about the structure of the file")
    kinds = [counted(len(found), what) for found, what in ((records, "record"), (counters, "counter")) if found]
    kinds += ["the structure of the file"] if structure else []
    one = len(kinds) == 1 and len(problems) <= 1
    listed = " and ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
    return [*lines, f"{listed} {'is' if one else 'are'} damaged"]


def _first_of(place: str, problems: Sequence[str]) -> str:
    more = f"{counted(len(problems), 'problem')}, the first: " if len(problems) > 1 else ""
    return f"{place}: {more}{problems[0].removeprefix(f'{place}: ')}"


def _is_record(place: str) -> bool:
    """Whether a place is that of a record, like "tasks 12"."""
    table, _, number = place.partition(" ")
    return table in RECORDS and number.isdigit()


def _is_counter(place: str) -> bool:
    return place.startswith("sequences ")
