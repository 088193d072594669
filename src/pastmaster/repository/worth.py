"""What policies are worth in tasks, as stored: rows and columns of U computed, written, and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from pastmaster.arrays import Array, FloatArray
from pastmaster.errors import DamagedError
from pastmaster.estimation import estimate_values
from pastmaster.repository import rows
from pastmaster.repository.records import Stored, Task
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


def beats(one: Worth, other: Worth) -> bool:
    """Whether a value is better by more than rounding and two standard errors of the difference."""
    margin = BETTER * max(abs(one.value), abs(other.value)) + 2.0 * float(np.hypot(one.error, other.error))
    return one.value > other.value + margin


def best(worths: Mapping[int, Worth], own: int) -> int:
    """The policy to be of record: the task's own unless another is better; then the best, the earliest of equals."""
    chosen = own
    for number in sorted(worths):
        if beats(worths[number], worths[chosen]):
            chosen = number
    return chosen


@dataclass
class Vector:
    """Values by the id of what they are paired with, and how many episodes they took."""

    worths: dict[int, Worth] = field(default_factory=dict)
    episodes: int = 0

    def take(self, numbers: Sequence[int], values: FloatArray, errors: FloatArray, episodes: int) -> None:
        """Add values to the vector."""
        for number, value, error in zip(numbers, values.tolist(), errors.tolist(), strict=True):
            self.worths[number] = Worth(value, error)
        self.episodes += episodes


def vector_arrays(name: str, worths: Mapping[int, Worth]) -> dict[str, Array]:
    """A row or column as stored: ids, values and errors."""
    ids, values = np.array(list(worths), np.int64), np.array(list(worths.values())).reshape(-1, 2)
    return {f"{name}_ids": ids, f"{name}_values": values[:, 0], f"{name}_errors": values[:, 1]}


def value_row(vector: Vector, valued: Valued, numbers: Sequence[int], policies: Sequence[Stored]) -> None:
    """The values of policies in one task."""
    if not policies:
        return
    task, episodes, seed = valued
    if episodes is None:
        values = cross_values([task], policies)[0]
        vector.take(numbers, values, np.zeros(len(values)), 0)
    else:
        vector.take(numbers, *estimate_values(task, list(policies), episodes=episodes, seed=seed))


def value_column(vector: Vector, numbers: Sequence[int], tasks: Sequence[Valued], policy: Stored) -> None:
    """The values of one policy in many tasks."""
    exact = [(number, valued.task) for number, valued in zip(numbers, tasks, strict=True) if valued.episodes is None]
    if exact:
        values = cross_values([task for _, task in exact], [policy])[:, 0]
        vector.take([number for number, _ in exact], values, np.zeros(len(exact)), 0)
    for number, valued in zip(numbers, tasks, strict=True):
        if valued.episodes is not None:
            value_row(vector, valued, [number], [policy])


def read_matrix(
    connection: sa.Connection, tasks: Sequence[int], policies: Sequence[int], what: str = "values"
) -> FloatArray:
    """U [tasks, policies] by id, or its standard "errors"; ``DamagedError`` names a pair that is not there."""
    U = np.full((len(tasks), len(policies)), np.nan)
    row_of, column_of = _Places(tasks), _Places(policies)
    for i, (number, stored) in enumerate(rows.fetch_arrays(connection, "tasks", tasks, ("row_ids", f"row_{what}"))):
        ids, values = vector(stored, f"row_{what}", f"tasks {number}")
        there, where = column_of.of(ids)
        U[i, where] = values[there]
    columns = rows.fetch_arrays(connection, "policies", policies, ("column_ids", f"column_{what}"))
    for j, (number, stored) in enumerate(columns):
        ids, values = vector(stored, f"column_{what}", f"policies {number}")
        there, where = row_of.of(ids)
        U[where, j] = values[there]
    if np.isnan(U).any():
        i, j = np.argwhere(np.isnan(U))[0]
        raise DamagedError(f"the value of policy {policies[j]} in task {tasks[i]} is not there")
    return U


class _Places:
    """Where ids are in a list of them."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.order = np.argsort(np.asarray(numbers, np.int64), kind="stable")
        self.sorted = np.asarray(numbers, np.int64)[self.order]

    def of(self, ids: Array) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Which ids are in the list, and where those are."""
        if not len(self.sorted):
            return np.zeros(len(ids), np.bool_), np.empty(0, np.int64)
        near = np.minimum(np.searchsorted(self.sorted, ids), len(self.sorted) - 1)
        there = self.sorted[near] == ids
        return there, self.order[near[there]]


def vector(stored: Mapping[str, Array], name: str, place: str) -> tuple[Array, Array]:
    """Ids and values of a row or column."""
    kind, what = name.split("_")
    ids, values = stored.get(f"{kind}_ids"), stored.get(name)
    if ids is None or values is None:
        raise DamagedError(f"{place}: its {kind} of {what} is missing")
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.shape != values.shape or values.dtype != np.float64:
        raise DamagedError(f"{place}: its {kind} of {what} has shapes {ids.shape} and {values.shape}")
    return ids, values
