"""What an answer that was found on landmarks loses over all tasks.

The kept policies are valued in tasks drawn from all, and so are the others: what is best in a task is over all of them.
``clustering.over_all`` has the mathematics.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.clustering import Clustering
from pastmaster.clustering.losses import TIE, Losses
from pastmaster.clustering.over_all import CONFIDENCE, ROUNDS, OverAll, largest_share, lower_limit
from pastmaster.estimation.intervals import mean_limits
from pastmaster.repository import rows
from pastmaster.repository.admission import Landmarks
from pastmaster.repository.asked import Chosen, Values, completed
from pastmaster.repository.memory import Contents
from pastmaster.repository.names import task_records
from pastmaster.repository.schema import tasks as tasks_table

CUT, CUT_SECONDS = 8.0, 10.0  # losses beyond so many times max_loss are cut for a second bound; to prove that
AUDIT = 10_000  # tasks that are drawn for an estimate; of fewer all are looked at


class Audit(NamedTuple):
    """What an answer loses over all tasks, and the ids of those looked at that lose more than was asked."""

    told: OverAll
    above: list[int]


def audit(contents: Contents, values: Values, found: Clustering, rng: np.random.Generator) -> Audit | None:
    """What an answer loses over all tasks; None where it was found on all of them."""
    if values.marks is None or not found.directed:
        return None
    span = contents.database.read(_largest_span)
    n_tasks, audited, places = _drawn(contents, values, rng)
    losses = audited.distance(True)[:, found.representatives].min(axis=1)
    sample = losses[places]
    sampled, limit = len(sample) if n_tasks > AUDIT else 0, found.max_loss
    level = (1.0 - CONFIDENCE) / (ROUNDS if limit is not None else 1)
    mean = float(sample.mean())
    low, high = (mean, mean) if not sampled else (math.nan, math.nan)
    if sampled and span is not None:
        ends = mean_limits(sample, np.array([0, len(sample)]), np.zeros(1), np.array([span]), level)
        low, high = map(float, ends[0])
    bounded = "policies" if found.kind == "count" else "cost" if found.price else "loss"
    told = OverAll(
        n_tasks, sampled, mean, low, high, _cost_over_all(values, found, span), bounded=bounded,
        largest_loss=float(sample.max()), estimated=values.errors is not None or audited.errors is not None,
    )  # fmt: skip
    if limit is None:
        return Audit(told, [])
    above = losses > limit * (1.0 + TIE)
    n_above = int(above[places].sum())
    share = largest_share(n_above, sampled, level) if sampled else n_above / len(sample)
    beyond = [audited.tasks[i].id for i in np.flatnonzero(above)]
    return Audit(told._replace(n_above=n_above, share_above=share), beyond)


def _cost_over_all(values: Values, found: Clustering, span: float | None) -> float:
    """A bound on the cost of any choice over all tasks; nan where nothing is proven.

    At a price the best choice may have any number of policies: the bound is the least over all numbers.
    """
    proven, marks, price = found.lower_bound, values.marks, found.price or 0.0
    if proven is None or marks is None or found.kind not in ("loss", "count"):
        return math.nan
    if found.kind == "count" or len(marks.tasks) == marks.n_tasks:  # so many are needed for landmarks alone
        return proven
    if span is None:
        return math.nan
    sizes = range(1, len(values.policies) + 1) if price else (0,)
    weight, sure = float(marks.weights.max()), 1.0 - (1.0 - CONFIDENCE) / 2.0  # each of the two
    cut = min(span, CUT * marks.max_loss)
    bounds = ((proven, span), (_proven_of_cut(found, marks, cut) if cut else 0.0, cut))
    return max(
        min(price * size + lower_limit(bound - price * size, weight, most, sure) for size in sizes)
        for bound, most in bounds
    )


def _proven_of_cut(found: Clustering, marks: Landmarks, cut: float) -> float:
    """A bound on the cost of any choice on the landmarks, if no task could lose more than ``cut``."""
    losses = Losses(np.minimum(found.distance, cut), found.must_keep, found.never_keep, marks.weights)
    rng, deadline = np.random.default_rng(0), time.perf_counter() + CUT_SECONDS
    if found.price:
        made = losses.at_price(found.price, rng, deadline)
    else:
        made = losses.of_size(len(found.representatives), rng, deadline, start=found.representatives)
    return made.lower_bound or 0.0


def _largest_span(connection: sa.Connection) -> float | None:
    """The largest span of returns of a task; None where one has no known bounds."""
    lower, upper = tasks_table.c.lower, tasks_table.c.upper
    unknown = connection.execute(sa.select(tasks_table.c.id).where(lower.is_(None)).limit(1)).first()
    return None if unknown else float(connection.execute(sa.select(sa.func.max(upper - lower))).scalar() or 0.0)


def _drawn(contents: Contents, values: Values, rng: np.random.Generator) -> tuple[int, Values, LongArray]:
    """How many tasks there are, those drawn under the policies of a question, and the place of each draw there.

    Of few tasks all are drawn. What is best in a task is over all these policies, as for landmarks: all are valued.
    """
    numbers = contents.database.read(lambda connection: rows.numbers(connection, "tasks"))
    drawn = np.array(numbers)
    if len(numbers) > AUDIT:
        drawn = drawn[rng.integers(len(numbers), size=AUDIT)]
    distinct = np.unique(drawn)
    policies = [policy.id for policy in values.policies]

    def choose(connection: sa.Connection) -> Chosen:
        rows.require(connection, "policies", policies)
        return Chosen(rows.present(connection, "tasks", distinct.tolist()), policies)  # without those removed since

    def read(connection: sa.Connection, chosen: Chosen | None, U: FloatArray | None) -> Values:
        assert chosen is not None
        return Values.read(connection, task_records(connection, chosen.tasks), policies, U)

    audited = completed(contents, choose, read)
    there = np.array([task.id for task in audited.tasks])
    return len(numbers), audited, np.searchsorted(there, drawn[np.isin(drawn, there)])
