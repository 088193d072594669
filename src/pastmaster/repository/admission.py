"""The rule by which a repository stores policies, and the tasks that stand for all others: one knob, ``max_loss``.

Without it every task brings a policy, and each is valued in every task: N tasks have N^2 values. With it a policy is
stored only if its task would otherwise lose more than ``max_loss``. Write C for the policies stored so far, the
*candidates*, u(t, p) for the value of policy p in task t, and b(t) for that of the best policy known for t, its own
included. A new task t is valued under C, which is c numbers, and

    t is *covered*   if  b(t) - max over p in C of u(t, p) <= max_loss:  its own policy is forgotten,
    t is a *founder* otherwise:                                          its own policy joins C.

**What is lost.** Candidates are not removed by this, so every task met keeps a candidate within ``max_loss``: against
the full matrix, in which each task has its own policy, no task loses more than ``max_loss``, nor does the mean.

**How many candidates.** Each founder loses more than ``max_loss`` under every candidate before it. So candidates are no
more than the longest sequence of tasks in which each is further than ``max_loss`` from all before it (a packing), which
is a number of the family of tasks, and not of how many of them are met. This is the streaming way to an epsilon-net:
where what is lost from task to task is a metric, a set whose members are more than epsilon apart is at most as large as
the smallest set of balls of radius epsilon / 2 that covers the family.

**Landmarks.** The *cell* of a candidate is the tasks that have it as their own policy: its founder, and those that it
covered best when they came. A task changes its cell only if it comes again with a better policy or is given another,
neither of which looks at landmarks. So the cells are strata. In each, the tasks of the lowest priority are the
landmarks. A task's priority is SHA-256 of its digest and of a salt that is drawn when the rule is settled: with respect
to the salt the landmarks of a cell are a uniform sample of it without replacement, whatever the order in which tasks
came, and nothing need be stored for it. A cell of n of the N tasks has max(1, n L / N) landmarks or so for L in all;
each counts n / (N times how many the cell has), which makes weighted means unbiased. Policies are chosen on L = 10,000:
a choice of k of c policies is fitted to the tasks it is made on, and with 2,048 of 5,000 tasks 100 policies lost 9 to
15% more on all of them than they had to, with all 5,000 about 1%. Where L is smaller the landmarks are some of those of
a larger L.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import FloatArray
from pastmaster.errors import InvalidInputError
from pastmaster.repository import rows
from pastmaster.repository.schema import admissions, tasks
from pastmaster.repository.worth import BETTER

EXACT_UP_TO = 2000  # tasks; with more a repository without ``max_loss`` warns


class Admission(NamedTuple):
    """The most that a task may lose before its own policy is stored, and the salt of priorities."""

    max_loss: float
    salt: str

    def covers(self, best: float, found: float) -> bool:
        """Whether a task whose best known policy is worth ``best`` is served by one that is worth ``found``."""
        return best - found <= self.max_loss + BETTER * max(abs(best), abs(found))

    def priority(self, digest: str) -> bytes:
        """A task's place in the order in which landmarks are taken."""
        return hashlib.sha256(f"{self.salt} {digest}".encode()).digest()


class Landmarks(NamedTuple):
    """The ids of the tasks that stand for all, how much each counts (their sum is 1), and how many there are in all."""

    tasks: list[int]
    weights: FloatArray
    n_tasks: int
    max_loss: float


def current(connection: sa.Connection) -> Admission | None:
    """The rule in force; None: every policy is stored."""
    last = sa.select(sa.func.max(admissions.c.id)).scalar_subquery()
    found = rows.fetch_where(connection, "admissions", admissions.c.id == last)
    return None if not found else Admission(found[0]["max_loss"], found[0]["settings"]["salt"])


def settle(connection: sa.Connection, max_loss: float, place: str) -> None:
    """Put a rule in force, under a new salt, where no tasks are stored."""
    if connection.execute(sa.select(tasks.c.id).limit(1)).first():
        rule = current(connection)
        has = "None" if rule is None else f"{rule.max_loss:g}"
        raise InvalidInputError(
            f"Repository: max_loss is {max_loss:g}, must be {has} as {place} has it, or be left out: "
            "it is decided before there are tasks"
        )
    rows.insert(connection, "admissions", {"max_loss": max_loss, "settings": {"salt": secrets.token_hex(16)}}, {})


def landmarks(connection: sa.Connection, rule: Admission, most: int) -> Landmarks:
    """The tasks that stand for all, in order of id: ``most``, or one to each cell if there are more of these."""
    cells: dict[int, list[tuple[bytes, int]]] = defaultdict(list)
    n_tasks = 0
    for number, cell, digest in connection.execute(sa.select(tasks.c.id, tasks.c.own_policy, tasks.c.digest)):
        cells[cell].append((rule.priority(digest), number))
        n_tasks += 1
    found: dict[int, float] = {}
    for members in cells.values():
        wanted = max(1, min(len(members), round(most * len(members) / n_tasks)))
        found |= {number: len(members) / (n_tasks * wanted) for _, number in sorted(members)[:wanted]}
    numbers = sorted(found)
    return Landmarks(numbers, np.array([found[number] for number in numbers]), n_tasks, rule.max_loss)
