"""What ``repo check`` says: the damage, record by record, and what a repair cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pastmaster.errors import PastmasterError
from pastmaster.tables import counted, cut

if TYPE_CHECKING:
    from pastmaster.repository import Repository
    from pastmaster.repository.check import Damage

MOST_LINES = 3  # about the file's structure: SQLite names every page
ONE = {"tasks": "task", "policies": "policy", "runs": "run", "clusterings": "clustering", "streams": "stream"}
LONGEST_NAME = 60


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


def repair(repository: Repository, damage: Sequence[Damage]) -> str:
    """Remove what is damaged, as ``check`` found it; returns what it cost."""
    names, listed = _task_names(repository), _places(repository)
    before = {item.place for item in damage if _is_record(item.place)} | (listed or set())
    repository.remove_damaged()
    after = _places(repository)
    if after is None:
        return "what is left cannot be read"
    gone, counters = before - after, sorted({item.place for item in damage if _is_counter(item.place)})
    lost = [_called(number, names.get(number)) for number in _numbers(gone, "tasks")]
    lost += [counted(n, one) for table, one in ONE.items() if table != "tasks" and (n := len(_numbers(gone, table)))]
    parts = [f"removed: {', '.join(lost)}"] if lost else []
    if counters or not lost:
        parts.append(f"repaired{': ' if counters else ''}{', '.join(counters)}")
    n_before, n_after = len(_numbers(before | after, "tasks")), len(_numbers(after, "tasks"))
    of_all = f"{n_after} of {counted(n_before, 'task')}" if listed is not None else counted(n_after, "task")
    return f"{'; '.join(parts)}; {of_all} {'remains' if n_after == n_before == 1 else 'remain'}"


def _first_of(place: str, problems: Sequence[str]) -> str:
    more = f"{counted(len(problems), 'problem')}, the first: " if len(problems) > 1 else ""
    return f"{place}: {more}{problems[0].removeprefix(f'{place}: ')}"


def _is_record(place: str) -> bool:
    """Whether a place is that of a record, like "tasks 12"."""
    table, _, number = place.partition(" ")
    return table in ONE and number.isdigit()


def _is_counter(place: str) -> bool:
    return place.startswith("sequences ")


def _numbers(places: Iterable[str], table: str) -> list[int]:
    return sorted(int(place.split()[1]) for place in places if place.startswith(f"{table} "))


def _called(number: int, name: str | None) -> str:
    return f"task {number} '{cut(name, LONGEST_NAME)}'" if name else f"task {number}"


def _places(repository: Repository) -> set[str] | None:
    """The place of every record that is listed; None where they cannot be listed."""
    from pastmaster.repository import rows

    try:
        return repository.database.read(
            lambda connection: {f"{table} {n}" for table in ONE for n in rows.numbers(connection, table)}
        )
    except PastmasterError:
        return None


def _task_names(repository: Repository) -> dict[int, str]:
    """The names of the tasks that can be read."""
    try:
        return {record.id: record.name for record in repository.records()}
    except PastmasterError:
        names: dict[int, str] = {}
    try:
        ids = repository.tasks().ids
    except PastmasterError:
        return names
    for number in ids:
        try:
            names[number] = repository.record(number).name
        except PastmasterError:
            continue
    return names
