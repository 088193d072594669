"""What policies are worth in tasks: rows and columns of U, computed, stored, and joined to a matrix again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array, FloatArray
from pastmaster.errors import DamagedError
from pastmaster.estimation import estimate_values
from pastmaster.estimation.jax_rollouts import is_program
from pastmaster.estimation.means import estimate_in_programs
from pastmaster.repository import rows
from pastmaster.repository.names import task_records
from pastmaster.repository.records import Stored, TaskRecord
from pastmaster.tasks import Task
from pastmaster.values import cross_values

BETTER = 1e-9  # relative: what differs by less is rounding


class Valued(NamedTuple):
    """A task to value policies in: by its model, or by so many episodes from this seed."""

    task: Task
    episodes: int | None
    seed: int


class Worth(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float

    def is_above(self, other: Worth) -> bool:
        """Whether this value is larger by more than rounding."""
        return self.value > other.value + BETTER * max(abs(self.value), abs(other.value))

    def beats(self, other: Worth) -> bool:
        """Whether this is better by more than rounding and two standard errors of the difference."""
        margin = BETTER * max(abs(self.value), abs(other.value)) + 2.0 * float(np.hypot(self.error, other.error))
        return self.value > other.value + margin

    def succeeds(self, record: Worth, own: Worth) -> bool:
        """Whether a policy of this worth becomes that of record: it beats the task's own, and is above the present."""
        return self.beats(own) and self.is_above(record)


def best(worths: Mapping[int, Worth], own: int) -> int:
    """The policy of record: the task's own, or the best of those that beat it, the earliest of equals.

    Only the own policy is protected from noise: a policy that beat it first must not keep out a better one.
    """
    found = own
    for number in sorted(worths):
        if worths[number].succeeds(worths[found], worths[own]):
            found = number
    return found


class Vector:
    """A row or column of U: values by the id of what they are paired with, and how many episodes they took."""

    def __init__(self) -> None:
        self.worths: dict[int, Worth] = {}
        self.episodes = 0

    def value_policies(self, valued: Valued, numbers: Sequence[int], policies: Sequence[Stored]) -> None:
        """Add the values of policies in one task."""
        task, episodes, seed = valued
        if episodes is None:
            self.take(numbers, cross_values([task], policies)[0])
        else:
            found = estimate_values(task, list(policies), episodes=episodes, seed=seed)
            self.take(numbers, found.mean, found.error)
            self.episodes += found.episodes

    def value_tasks(self, numbers: Sequence[int], tasks: Sequence[Valued], policy: Stored) -> None:
        """Add the values of one policy in many tasks."""
        exact = {number: valued.task for number, valued in zip(numbers, tasks, strict=True) if valued.episodes is None}
        if exact:
            self.take(list(exact), cross_values(list(exact.values()), [policy])[:, 0])
        others = [(number, valued) for number, valued in zip(numbers, tasks, strict=True) if number not in exact]
        programs = {number: valued for number, valued in others if is_program(valued.task, [policy])}
        if programs:  # all at once
            in_tasks, episodes, seeds = zip(*programs.values(), strict=True)
            found = estimate_in_programs(in_tasks, policy, episodes, seeds)
            self.take(list(programs), found.mean, found.error)
            self.episodes += found.episodes
        for number, valued in others:
            if number not in programs:
                self.value_policies(valued, [number], [policy])

    def take(self, numbers: Sequence[int], values: FloatArray, errors: FloatArray | None = None) -> None:
        """Add values that were found elsewhere."""
        errors = np.zeros(len(values)) if errors is None else errors
        self.worths |= zip(numbers, map(Worth, values.tolist(), errors.tolist()), strict=True)


def vector_arrays(name: str, worths: Mapping[int, Worth]) -> dict[str, Array]:
    """A row or column as stored: ids, values and errors."""
    ids, values = np.array(list(worths), np.int64), np.array(list(worths.values())).reshape(-1, 2)
    return {f"{name}_ids": ids, f"{name}_values": values[:, 0], f"{name}_errors": values[:, 1]}


def matrix_of_record(connection: sa.Connection) -> FloatArray:
    """U [N, N]: the value of the policy of record of task j in task i."""
    tasks = task_records(connection)
    return matrix(connection, tasks, [task.policy_of_record for task in tasks])


def matrix(
    connection: sa.Connection, tasks: Sequence[TaskRecord], policies: Sequence[int], what: str = "values"
) -> FloatArray:
    """U of these tasks and policies, or its standard "errors"; a policy may be named more than once."""
    distinct, column = distinct_policies(policies)
    U: FloatArray = read_matrix(connection, [task.id for task in tasks], distinct, what)[:, column]
    return U


def distinct_policies(policies: Iterable[int]) -> tuple[list[int], list[int]]:
    """Each id once, and where in that list every given one is."""
    place: dict[int, int] = {}
    column = [place.setdefault(number, len(place)) for number in policies]
    return list(place), column


def read_matrix(
    connection: sa.Connection, tasks: Sequence[int], policies: Sequence[int], what: str = "values"
) -> FloatArray:
    """U [tasks, policies] by id, or its standard "errors"; ``DamagedError`` names a pair that is missing."""
    U = read_known(connection, tasks, policies, what)
    if np.isnan(U).any():
        i, j = np.argwhere(np.isnan(U))[0]
        raise DamagedError(f"the value of policy {policies[j]} in task {tasks[i]} is not there")
    return U


def read_known(
    connection: sa.Connection, tasks: Sequence[int], policies: Sequence[int], what: str = "values"
) -> FloatArray:
    """U [tasks, policies] by id, or its standard "errors"; nan where a policy was not valued in a task."""
    U = np.full((len(tasks), len(policies)), np.nan)
    sides = (("tasks", tasks, policies, "row", U), ("policies", policies, tasks, "column", U.T))
    for table, own, others, kind, matrix in sides:
        if not others:
            continue
        order = np.argsort(others, kind="stable")
        ordered = np.array(others)[order]
        found = rows.fetch_arrays(connection, table, own, (f"{kind}_ids", f"{kind}_{what}"))
        for i, (number, stored) in enumerate(found):
            ids, values = vector(stored, kind, what, f"{table} {number}")
            near = np.minimum(np.searchsorted(ordered, ids), len(others) - 1)
            there = ordered[near] == ids
            matrix[i, order[near[there]]] = values[there]
    return U


def read_worths(connection: sa.Connection, tasks: Sequence[int], policies: Sequence[int]) -> FloatArray:
    """Values and standard errors [tasks, policies, 2] by id; nan where a policy was not valued in a task."""
    return np.stack([read_known(connection, tasks, policies, what) for what in ("values", "errors")], axis=-1)


def read_pairs(connection: sa.Connection, tasks: Sequence[int], policies: Sequence[int]) -> list[Worth]:
    """The worth of each of these policies in the task beside it."""
    distinct, column = distinct_policies(policies)
    worths = read_worths(connection, tasks, distinct)[np.arange(len(tasks)), np.array(column, np.int64)]
    return [Worth(*worth) for worth in worths.tolist()]


def vector(stored: Mapping[str, Array], kind: str, what: str, place: str) -> tuple[Array, Array]:
    """Ids and "values" or "errors" of a "row" or "column"."""
    ids, values = stored.get(f"{kind}_ids"), stored.get(f"{kind}_{what}")
    if ids is None or values is None:
        raise DamagedError(f"{place}: its {kind} of {what} is missing")
    if ids.shape != values.shape:
        raise DamagedError(f"{place}: its {kind} of {what} is not complete")
    return ids, values
