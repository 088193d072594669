"""Charts as data: learning curves, maps of tasks, distances between tasks, shares of the arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray

Indices = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Line:
    """A learning curve: episodes, mean returns and standard deviations, each [points].

    A ``reference`` does not learn: it is drawn dotted and black, without a band.
    """

    label: str
    episode: FloatArray
    mean: FloatArray
    deviation: FloatArray
    reference: bool = False


@dataclass(frozen=True, eq=False)
class Curves:
    """Learning curves in one chart."""

    kind: ClassVar[str] = "curves"
    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, eq=False)
class Tasks:
    """Clustered tasks, each [N]: a number, a name, a cell, and the index of the task that represents the cell.

    ``representatives`` is None where a cell is served by a policy that need not belong to one of its tasks.
    """

    numbers: Indices
    names: Sequence[str]
    cells: Indices
    representatives: Indices | None


@dataclass(frozen=True, eq=False)
class TaskMap:
    """Tasks as points [N, 2]; ``axes`` names the two coordinates.

    Where no task represents a cell, ``kept`` names the policy of each cell.
    """

    kind: ClassVar[str] = "map"
    title: str
    tasks: Tasks
    points: FloatArray
    axes: tuple[str, str]
    kept: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances [N, N] between tasks; with ``policies``, what the task of a row loses under that of a column [N, M].

    ``kept`` has the columns of the policies that are kept.
    """

    kind: ClassVar[str] = "distance"
    title: str
    tasks: Tasks
    values: FloatArray
    policies: Sequence[str] = ()
    kept: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Shares:
    """Who ran the episodes: the share of each arm, by label, at some episodes [points]; together they make 1."""

    kind: ClassVar[str] = "shares"
    title: str
    episode: FloatArray
    arms: dict[str, FloatArray]


Chart = Curves | TaskMap | Distances | Shares
