"""What a question about stored policies is asked of: tasks, the policies that may stand for them, and U.

Without a rule (``admission``) that is all that is stored. With one it is the landmarks and the candidates; values of
candidates in landmarks that came before them are computed when they are asked for, and stored with the candidates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import FloatArray
from pastmaster.clustering import Clustering
from pastmaster.errors import RepositoryError
from pastmaster.repository import rows
from pastmaster.repository.admission import Landmarks, landmarks
from pastmaster.repository.memory import Contents, on
from pastmaster.repository.names import distinct_names, policy_records, task_records
from pastmaster.repository.records import PolicyRecord, TaskRecord
from pastmaster.repository.worth import (
    Valued,
    Vector,
    Worth,
    distinct_policies,
    matrix,
    read_known,
    vector,
    vector_arrays,
)
from pastmaster.values import policy_distance

LANDMARKS = 10_000  # on which policies are chosen; of fewer tasks all
TRIES = 20  # to read while others write
BESIDE_WRITERS = 5  # times that missing values are computed beside others, before they must wait
Result = TypeVar("Result")


class Values(NamedTuple):
    """Tasks, the policies that may stand for them, and U."""

    tasks: list[TaskRecord]
    policies: list[PolicyRecord]
    U: FloatArray
    errors: FloatArray | None  # the standard errors of U, where values are estimates
    best: FloatArray | None = None  # the best known of each task, where policies were forgotten
    marks: Landmarks | None = None  # which of all tasks these are, where they are not all

    @classmethod
    def read(
        cls, connection: sa.Connection, tasks: list[TaskRecord], policies: list[int], U: FloatArray | None = None
    ) -> Values:
        """Of these tasks and policies; U is read if it is not given."""
        estimated = any(task.value_error > 0 or task.bounds is None for task in tasks)
        errors = matrix(connection, tasks, policies, "errors") if estimated else None
        best = np.array([task.best_value for task in tasks])
        forgot = any(task.best_value > task.value for task in tasks)
        U = matrix(connection, tasks, policies) if U is None else U
        return cls(tasks, policy_records(connection, policies), U, errors, best if forgot else None)

    @classmethod
    def of_all(cls, contents: Contents, directed: bool) -> Values:
        """Of all that is stored, or of what stands for it.

        Without ``directed`` policy j is that of record of task j. With it, all stored policies may be kept: first the
        own policy of each task, then what else is of record.
        """

        def read(connection: sa.Connection, chosen: Chosen | None, U: FloatArray | None) -> Values:
            tasks = task_records(connection, None if chosen is None else chosen.tasks)
            if directed and chosen is not None:
                return cls.read(connection, tasks, chosen.policies, U)._replace(marks=chosen.marks)
            policies = [task.policy_of_record for task in tasks]
            if directed:
                policies = distinct_policies([task.own_policy for task in tasks] + policies)[0]
            return cls.read(connection, tasks, policies)._replace(marks=None if chosen is None else chosen.marks)

        return completed(contents, lambda connection: chosen_landmarks(connection, contents, LANDMARKS), read)

    def joined(self, contents: Contents, others: list[int]) -> Values:
        """With other tasks, valued under the same policies, which count nothing in means; in order of id."""
        assert self.marks is not None
        weights = dict.fromkeys(others, 0.0) | dict(zip(self.marks.tasks, self.marks.weights.tolist(), strict=True))
        tasks = sorted(weights)
        marks = self.marks._replace(tasks=tasks, weights=np.array([weights[task] for task in tasks]))
        policies = [policy.id for policy in self.policies]
        found = contents.database.read(lambda c: Values.read(c, task_records(c, tasks), policies))
        return found._replace(marks=marks)

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


class Chosen(NamedTuple):
    """Tasks and policies by id, each of which must be valued in each; and, of landmarks, what they stand for."""

    tasks: list[int]
    policies: list[int]
    marks: Landmarks | None = None


def chosen_landmarks(connection: sa.Connection, contents: Contents, most: int) -> Chosen | None:
    """Tasks that stand for all, ``most`` or so, under every policy; None: all do, by themselves."""
    rule = contents.rule(connection)
    if rule is None:
        return None
    marks = landmarks(connection, rule, most)
    return Chosen(marks.tasks, rows.numbers(connection, "policies"), marks)


def completed(
    contents: Contents,
    choose: Callable[[sa.Connection], Chosen | None],
    read: Callable[[sa.Connection, Chosen | None, FloatArray | None], Result],
) -> Result:
    """What ``read`` finds in one snapshot in which all that ``choose`` names is valued; it is given U of that.

    Others may write meanwhile: values that are missing are computed and stored, and then all is looked at again. Where
    others always write something new before that, it is done once more as the only writer.
    """

    def look(connection: sa.Connection) -> tuple[dict[int, list[int]], list[Result]]:
        chosen = choose(connection)
        if chosen is None:
            return {}, [read(connection, None, None)]
        U = read_known(connection, chosen.tasks, chosen.policies)
        missing = {
            chosen.tasks[i]: [chosen.policies[j] for j in np.flatnonzero(np.isnan(U[i])).tolist()]
            for i in np.flatnonzero(np.isnan(U).any(axis=1)).tolist()
        }
        return missing, [] if missing else [read(connection, chosen, U)]

    def look_alone(connection: sa.Connection) -> Result:
        missing, found = look(connection)
        if missing:
            _append(connection, _valued(contents, missing, on(connection)))
            missing, found = look(connection)
        return found[0]

    for _ in range(BESIDE_WRITERS):
        missing, found = contents.database.read(look)
        if found:
            return found[0]
        with suppress(rows.NoRecordError):  # a policy was removed meanwhile
            new = _valued(contents, missing, contents.database.read)
            contents.database.write(partial(_append, new=new))
    return contents.database.write(look_alone)


def beside_writers(contents: Contents, ask: Callable[[], Result]) -> Result:
    """What ``ask`` returns; it is asked again where another process has removed a record that it needs."""
    for _ in range(TRIES):
        with suppress(rows.NoRecordError):
            return ask()
    raise RepositoryError(f"{contents.database.place} was changed by others {TRIES} times while it was read, try again")


def _valued(
    contents: Contents, missing: Mapping[int, list[int]], ask: Callable[[Any], Any]
) -> dict[int, dict[int, Worth]]:
    """What policies are worth in stored tasks, by the ids of both; tasks are read a batch at a time, by ``ask``."""

    def get(connection: sa.Connection, batch: Sequence[int]) -> list[tuple[int, Valued]]:
        there = rows.present(connection, "tasks", batch)
        return [*zip(there, contents.tasks.get(on(connection), there), strict=True)]

    found: dict[int, dict[int, Worth]] = defaultdict(dict)
    for batch in rows.batches([*missing]):
        for task, valued in ask(partial(get, batch=batch)):
            row = Vector()
            contents.value_policies(ask, row, valued, missing[task], stacked=True)
            for policy, worth in row.worths.items():
                found[policy][task] = worth
    return found


def _append(connection: sa.Connection, new: dict[int, dict[int, Worth]]) -> None:
    """Add values to the columns of policies; those that are gone, or were valued by another process, are left out."""
    there = {*rows.numbers(connection, "policies")}, {*rows.numbers(connection, "tasks")}
    for policy in sorted({*new} & there[0]):
        ((_, stored),) = rows.fetch_arrays(connection, "policies", [policy], tuple(vector_arrays("column", {})))
        ids, values = vector(stored, "column", "values", f"policies {policy}")
        _, errors = vector(stored, "column", "errors", f"policies {policy}")
        known = dict(zip(ids.tolist(), map(Worth, values.tolist(), errors.tolist()), strict=True))
        known |= {task: worth for task, worth in new[policy].items() if task in there[1] and task not in known}
        rows.replace_arrays(connection, "policies", policy, vector_arrays("column", known))
