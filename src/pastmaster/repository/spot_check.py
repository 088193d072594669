"""A check of the values themselves: some of those stored are computed again, and must be the same.

A checksum tells that a value is the one that was written, not that it was right when it was written. So the policy is
valued in the task once more, as it was at first: by the model, or by episodes from the task's own seeds.

Half of the values looked at are those of record, by which tasks are judged, half are drawn from all of U: where a share
s of these is wrong, none of n drawn shows it with a chance of (1 - s)^n, for s = 0.005 and n = 1,000 that is 0.7%.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from pastmaster.arrays import Array, LongArray
from pastmaster.errors import PastmasterError
from pastmaster.repository.check import Damage, Examiner
from pastmaster.repository.database import Database
from pastmaster.repository.memory import Contents
from pastmaster.repository.worth import BETTER, Valued, Vector, Worth

MOST = 1000  # values of record, and as many of all others; where there are fewer, all are computed again


class Checked(list[Damage]):
    """The damage that a check found, as a list.

    Attributes
    ----------
    valued, values : int
        How many values were computed again, of how many that are stored; 0 of 0 where that was not asked.
    skipped : list of Damage
        The tasks in which values were to be computed again and could not be, with the reason: an environment that
        cannot be made here, for example. This is no damage.
    """

    def __init__(self, damage: list[Damage]) -> None:
        super().__init__(damage)
        self.valued = 0
        self.values = 0
        self.skipped: list[Damage] = []


class Entry(NamedTuple):
    """The worth of a policy in a task, as it is stored."""

    task: int
    policy: int
    worth: Worth


def check_values(database: Database, found: Checked, examiner: Examiner, rng: np.random.Generator) -> None:
    """Compute some of the undamaged values again, and add those that differ to what was found."""
    by_task: dict[int, list[Entry]] = defaultdict(list)
    entries = examiner.entries()
    for entry in _drawn_entries(examiner, entries, rng):
        by_task[entry.task].append(entry)
    contents = Contents(database)
    found.values = len(entries[0])
    for number in sorted(by_task):
        policies = sorted({entry.policy for entry in by_task[number]})
        try:
            valued = contents.read(contents.tasks, [number])[0]
            again = Vector()
            again.value_policies(valued, policies, contents.read(contents.policies, policies))
        except PastmasterError as error:
            found.skipped.append(Damage(f"tasks {number}", f"its values were not computed again: {error}"))
            continue
        found.valued += len(policies)
        scale = _scale(examiner, number)
        for entry in by_task[number]:
            problem = _difference(entry, again.worths[entry.policy], valued, scale)
            if problem and (damage := Damage(f"tasks {number}", problem)) not in found:
                found.append(damage)


def _drawn_entries(examiner: Examiner, entries: tuple[Array, ...], rng: np.random.Generator) -> list[Entry]:
    """Values of record of some tasks, and some of all values, where the records of both sides are whole."""
    tasks, policies = {*examiner.good("tasks")}, {*examiner.good("policies")}
    judged = [
        row for number, row in examiner.rows["tasks"].items() if number in tasks and row["policy_of_record"] in policies
    ]
    found = []
    for i in _drawn(len(judged), rng):
        row = judged[i]
        found.append(Entry(row["id"], row["policy_of_record"], Worth(row["value"], row["value_error"])))
    at = _drawn(len(entries[0]), rng)
    for task, policy, value, error in zip(*(array[at].tolist() for array in entries), strict=True):
        if task in tasks and policy in policies:
            found.append(Entry(task, policy, Worth(value, error)))
    return found


def _drawn(count: int, rng: np.random.Generator) -> LongArray:
    """Some of so many, in order; all of few."""
    if count <= MOST:
        return np.arange(count)
    return np.sort(rng.choice(count, MOST, replace=False))


def _scale(examiner: Examiner, number: int) -> float:
    """The largest return of a task, where it is known: rounding is relative to what is summed, not to the sum."""
    row = examiner.rows["tasks"][number]
    return max(abs(float(row[name] or 0.0)) for name in ("lower", "upper"))


def _difference(entry: Entry, again: Worth, valued: Valued, scale: float) -> str:
    """What is wrong with a stored worth; nothing where the two differ by rounding, which depends on the method."""
    stored = entry.worth
    for what, one, other in (("value", stored.value, again.value), ("standard error", stored.error, again.error)):
        if not abs(one - other) <= BETTER * max(scale, abs(one), abs(other)):
            how = "by its model" if valued.episodes is None else f"by the same {valued.episodes} episodes"
            return (
                f"its {what} under policy {entry.policy} is {one:.12g}, must be {other:.12g}, as computed again {how}"
            )
    return ""
