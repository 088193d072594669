"""What a question about stored policies is asked of: tasks, the policies that may stand for them, and U.

Without a rule (``admission``) that is all that is stored. With one it is the landmarks and the candidates; values of
candidates in landmarks that came before them are computed when they are asked for, and stored with the candidates.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import FloatArray
from pastmaster.clustering import Clustering
from pastmaster.clustering.losses import Losses
from pastmaster.clustering.over_all import CONFIDENCE, OverAll, lower_limit
from pastmaster.estimation.intervals import mean_limits
from pastmaster.repository import rows
from pastmaster.repository.admission import Landmarks, landmarks
from pastmaster.repository.memory import Contents
from pastmaster.repository.names import distinct_names, policy_records, task_records
from pastmaster.repository.records import PolicyRecord, TaskRecord, best_value
from pastmaster.repository.schema import tasks as tasks_table
from pastmaster.repository.worth import (
    Vector,
    Worth,
    distinct_policies,
    matrix,
    read_known,
    vector,
    vector_arrays,
)
from pastmaster.values import policy_distance

CUT, CUT_SECONDS = 8.0, 10.0  # losses beyond so many times max_loss are cut for a second bound; to prove that
AUDIT = 10_000  # tasks that are drawn for an estimate; of fewer all are looked at


class Values(NamedTuple):
    """Tasks, the policies that may stand for them, and U."""

    tasks: list[TaskRecord]
    policies: list[PolicyRecord]
    U: FloatArray
    errors: FloatArray | None  # the standard errors of U, where values are estimates
    best: FloatArray | None = None  # the best known of each task, where policies were forgotten
    marks: Landmarks | None = None  # which of all tasks these are, where they are not all

    @classmethod
    def read(cls, connection: sa.Connection, tasks: list[TaskRecord], policies: list[int]) -> Values:
        """Of these tasks and policies."""
        estimated = any(task.value_error > 0 or task.bounds is None for task in tasks)
        errors = matrix(connection, tasks, policies, "errors") if estimated else None
        best = np.array([task.best_value for task in tasks])
        forgot = any(task.best_value > task.value for task in tasks)
        U = matrix(connection, tasks, policies)
        return cls(tasks, policy_records(connection, policies), U, errors, best if forgot else None)

    @classmethod
    def of_all(cls, contents: Contents, directed: bool) -> Values:
        """Of all that is stored, or of what stands for it.

        Without ``directed`` policy j is that of record of task j. With it, all stored policies may be kept: first the
        own policy of each task, then what else is of record.
        """
        marks = completed_landmarks(contents)

        def read(connection: sa.Connection) -> Values:
            tasks = task_records(connection, None if marks is None else marks.tasks)
            policies = [task.policy_of_record for task in tasks]
            if directed and marks is not None:
                policies = rows.numbers(connection, "policies")
            elif directed:
                policies = distinct_policies([task.own_policy for task in tasks] + policies)[0]
            return cls.read(connection, tasks, policies)._replace(marks=marks)

        return contents.database.read(read)

    def distance(self, directed: bool) -> FloatArray:
        """What tasks lose under policies, or the paper's distance between tasks."""
        if not directed or self.best is None:
            return policy_distance(self.U, directed=directed, paired=not directed)
        with_best = np.column_stack([self.U, np.maximum(self.best, self.U.max(axis=1))])
        return np.ascontiguousarray(policy_distance(with_best, directed=True, paired=False)[:, :-1])

    @property
    def own(self) -> list[int]:
        """The task in which each policy was learned, by its place, or -1."""
        place = {task.own_policy: i for i, task in reversed([*enumerate(self.tasks)])}
        return [place.get(policy.id, -1) for policy in self.policies]

    @property
    def task_names(self) -> list[str]:
        """What the tasks are called."""
        return [task.name or f"task {task.id}" for task in self.tasks]

    def named(self, found: Clustering) -> Clustering:
        """A clustering with the names of tasks and policies, and, of losses, with the standard errors of values."""
        if not found.directed:
            return found.named(self.task_names, self.task_names)
        return replace(found, standard_errors=self.errors).named(self.task_names, distinct_names(self.policies))


def completed_landmarks(contents: Contents) -> Landmarks | None:
    """The tasks that stand for all, each valued under every policy; None: all tasks are, by themselves."""

    def look(connection: sa.Connection) -> tuple[Landmarks, list[int], FloatArray] | None:
        rule = contents.rule(connection)
        if rule is None:
            return None
        marks, policies = landmarks(connection, rule), rows.numbers(connection, "policies")
        return marks, policies, read_known(connection, marks.tasks, policies)

    found = contents.database.read(look)
    if found is None:
        return None
    marks, policies, U = found
    new: dict[int, dict[int, Worth]] = {}  # by policy and task
    for i in np.flatnonzero(np.isnan(U).any(axis=1)).tolist():
        missing = [policies[j] for j in np.flatnonzero(np.isnan(U[i])).tolist()]
        for policy, worth in _valued(contents, marks.tasks[i], missing).items():
            new.setdefault(policy, {})[marks.tasks[i]] = worth
    if new:
        contents.database.write(lambda connection: _append(connection, new))
    return marks


def _valued(contents: Contents, task: int, policies: list[int]) -> dict[int, Worth]:
    """What policies are worth in a stored task."""
    row, valued = Vector(), contents.read(contents.tasks, [task])[0]
    contents.value_policies(contents.database.read, row, valued, policies, stacked=True)
    return row.worths


def _append(connection: sa.Connection, new: dict[int, dict[int, Worth]]) -> None:
    """Add values to the columns of policies; those that are gone, or were valued by another process, are left out."""
    there = {*rows.numbers(connection, "policies")}, {*rows.numbers(connection, "tasks")}
    for policy in sorted({*new} & there[0]):
        stored = next(iter(rows.fetch_arrays(connection, "policies", [policy], tuple(vector_arrays("column", {})))))[1]
        ids, values = vector(stored, "column", "values", f"policies {policy}")
        _, errors = vector(stored, "column", "errors", f"policies {policy}")
        known = dict(zip(ids.tolist(), map(Worth, values.tolist(), errors.tolist()), strict=True))
        known |= {task: worth for task, worth in new[policy].items() if task in there[1] and task not in known}
        rows.replace_arrays(connection, "policies", policy, vector_arrays("column", known))


def over_all(contents: Contents, values: Values, found: Clustering, rng: np.random.Generator) -> OverAll | None:
    """What an answer loses over all tasks; None where it was found on all of them."""
    if values.marks is None or not found.directed:
        return None
    kept = [values.policies[j].id for j in found.representatives.tolist()]
    span = contents.database.read(_largest_span)
    n_tasks, drawn, losses = contents.database.read(lambda c: _drawn_losses(c, rng, kept))
    missing = {number for number, loss in losses.items() if math.isnan(loss)}
    for number in sorted(missing):
        best = contents.database.read(lambda c, n=number: best_value(rows.fetch(c, "tasks", [n])[0]))  # type: ignore[misc]
        worths = _valued(contents, number, kept)
        losses[number] = max(0.0, best - max(worth.value for worth in worths.values()))
    sample = np.array([losses[number] for number in drawn])
    mean, sampled = float(sample.mean()), len(drawn) if n_tasks > AUDIT else 0
    low, high = (mean, mean) if not sampled else (math.nan, math.nan)
    if sampled and span is not None:
        level = 1.0 - CONFIDENCE
        ends = mean_limits(sample, np.array([0, len(sample)]), np.zeros(1), np.array([span]), level)
        low, high = map(float, ends[0])
    return OverAll(n_tasks, sampled, mean, low, high, _cost_over_all(values, found, span))


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


def _drawn_losses(
    connection: sa.Connection, rng: np.random.Generator, kept: list[int]
) -> tuple[int, list[int], dict[int, float]]:
    """How many tasks there are, those drawn, and what each loses under kept policies; nan where that is not stored."""
    numbers = rows.numbers(connection, "tasks")
    drawn = numbers
    if len(numbers) > AUDIT:
        drawn = np.array(numbers)[rng.integers(len(numbers), size=AUDIT)].tolist()
    distinct = sorted({*drawn})
    known = read_known(connection, distinct, kept).max(axis=1).tolist()  # nan if one is missing
    best = [best_value(row) for row in rows.fetch(connection, "tasks", distinct)]
    losses = [value if math.isnan(value) else max(0.0, b - value) for b, value in zip(best, known, strict=True)]
    return len(numbers), drawn, dict(zip(distinct, losses, strict=True))
