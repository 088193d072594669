"""A check of the values themselves: some of those stored are computed again, and must be the same.

A checksum tells that a value is the one that was written, not that it was right when it was written. So the policy is
valued in the task once more, as it was at first: by the model, or by episodes from the task's own seeds.

Half of the values looked at are those of record, by which tasks are judged, half are drawn from all of U: where a share
s of these is wrong, none of n drawn shows it with a chance of (1 - s)^n, for s = 0.005 and n = 1,000 that is 0.7%.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from pastmaster.arrays import LongArray
from pastmaster.errors import PastmasterError
from pastmaster.repository.check import Damage, Examiner
from pastmaster.repository.database import Database
from pastmaster.repository.memory import Contents
from pastmaster.repository.worth import BETTER, Vector, Worth

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


def check_values(database: Database, found: Checked, examiner: Examiner, rng: np.random.Generator) -> None:
    """Compute some of the undamaged values again, and add those that differ to what was found."""
    entries, judged = examiner.entries(), examiner.judged
    found.values = len(entries[0])
    drawn = np.union1d(judged[_drawn(len(judged), rng)], _drawn(len(entries[0]), rng))
    tasks, policies = {*examiner.good("tasks")}, {*examiner.good("policies")}
    by_task: dict[int, list[tuple[int, Worth]]] = defaultdict(list)
    for task, policy, value, error in zip(*(array[drawn].tolist() for array in entries), strict=True):
        if task in tasks and policy in policies:  # the records of both sides are whole
            by_task[task].append((policy, Worth(value, error)))
    contents = Contents(database)
    for task, stored in sorted(by_task.items()):
        wanted = sorted({policy for policy, _ in stored})
        try:
            valued = contents.read(contents.tasks, [task])[0]
            again = Vector()
            again.value_policies(valued, wanted, contents.read(contents.policies, wanted))
        except PastmasterError as error:
            found.skipped.append(Damage(f"tasks {task}", f"its values were not computed again: {error}"))
            continue
        found.valued += len(wanted)
        how = "by its model" if valued.episodes is None else f"by the same {valued.episodes} episodes"
        row = examiner.rows["tasks"][task]
        # rounding is relative to the largest return, where it is known: to what is summed, not to the sum
        scale = max(abs(row[name] or 0.0) for name in ("lower", "upper"))
        for policy, worth in stored:
            for what, one, other in zip(("value", "standard error"), worth, again.worths[policy], strict=True):
                if not abs(one - other) <= BETTER * max(scale, abs(one), abs(other)):
                    problem = f"its {what} under policy {policy} is {one:.12g}, must be {other:.12g}"
                    found.append(Damage(f"tasks {task}", f"{problem}, as computed again {how}"))
                    break


def _drawn(count: int, rng: np.random.Generator) -> LongArray:
    """Some of so many; all of few."""
    if count <= MOST:
        return np.arange(count)
    return rng.choice(count, MOST, replace=False)
