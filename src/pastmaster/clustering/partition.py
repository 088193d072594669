"""A clustering: the few tasks or policies that stand for all, and what each task loses by it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, sealed
from pastmaster.clustering.cost import (
    Kind,
    canonical_labels,
    check_setting,
    checked_distance,
    checked_kind,
    measure_cells,
    partition_cost,
    regret_bound,
)
from pastmaster.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIMAL = 1e-5  # a certified gap this small, relative, is called optimal: HiGHS works to 1e-6


def relative_gap(cost: float, lower_bound: float) -> float:
    """How far a cost may be above the optimum, relative to the optimum."""
    if cost <= lower_bound:
        return 0.0
    return (cost - lower_bound) / lower_bound if lower_bound > 0 else math.inf


class Covered(NamedTuple):
    """One task: its cell, the policy that stands for it, and what it loses under that policy."""

    task: int
    cell: int
    policy: int
    loss: float


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """A partition of N tasks into cells 0 .. c - 1, numbered in the order of their first tasks.

    ``representatives[i]`` is the task (directed: the column of the distance matrix) whose policy stands for cell i, and
    ``radii[i]`` the most any member loses by it. ``cost`` is ``size_cost`` + the mean radius (kind "average"), and no
    clustering costs less than ``lower_bound``, which is None until certified. ``traces`` holds the best cost during
    each restart of the search that found it. ``distance`` is the caller's matrix, not a copy.
    """

    labels: npt.NDArray[np.int32]
    representatives: npt.NDArray[np.int64]
    radii: FloatArray
    cost: float
    size_cost: float
    kind: Kind
    directed: bool
    distance: FloatArray = field(repr=False)
    lower_bound: float | None = None
    possible_c: tuple[int, ...] | None = None
    traces: FloatArray | None = field(default=None, repr=False)
    interrupted: bool = False

    @classmethod
    def from_labels(
        cls,
        distance: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        episodes: float | None = None,
        span: float | None = None,
        kind: Kind = "average",
        directed: bool = False,
    ) -> Clustering:
        """The clustering that ``labels`` [N] make: hand-picked sets, say. Without episodes and span g is 0."""
        matrix = checked_distance("Clustering.from_labels", distance, directed)
        kind_index = checked_kind("Clustering.from_labels", kind, directed)
        cells = canonical_labels("Clustering.from_labels", labels, len(matrix))
        size_cost = size_cost_table("Clustering.from_labels", len(matrix), episodes, span)
        cost = partition_cost(matrix, cells, directed, kind_index, size_cost)
        representatives, radii = measure_cells(matrix, cells, directed)
        return cls(
            sealed(cells),
            sealed(representatives),
            sealed(radii),
            cost,
            float(size_cost[len(radii)]),
            kind,
            directed,
            matrix,
        )

    @property
    def n_clusters(self) -> int:
        return len(self.radii)

    @property
    def mean_radius(self) -> float:
        """The mean over tasks of their cell's radius."""
        return float(self.radii[self.labels].mean())

    @property
    def gap(self) -> float | None:
        """How far the cost may be above the optimum, relative to it; None until certified."""
        return None if self.lower_bound is None else relative_gap(self.cost, self.lower_bound)

    @property
    def is_optimal(self) -> bool:
        """Whether no clustering costs less, proven to one part in 10^5."""
        return self.gap is not None and self.gap <= OPTIMAL

    def members(self, i: int) -> npt.NDArray[np.int64]:
        """The tasks of cell ``i``."""
        if not 0 <= i < self.n_clusters:
            raise InvalidInputError(f"Clustering.members: i is {i}, must be a cell in 0..{self.n_clusters - 1}")
        return np.flatnonzero(self.labels == i)

    def table(self) -> list[Covered]:
        """Each task, the policy that covers it, what it loses."""
        policies = self.representatives[self.labels]
        losses = self.distance[np.arange(len(self.labels)), policies]
        rows = zip(range(len(self.labels)), self.labels.tolist(), policies.tolist(), losses.tolist(), strict=True)
        return [Covered(*row) for row in rows]

    def __repr__(self) -> str:
        what = "policies" if self.directed else "tasks"
        parts = {"average": "mean radius", "worst": "largest radius", "max_diameter": "mean largest distance"}
        n_kept = len(np.unique(self.representatives))  # directed: cells may share a policy
        kept = f"{n_kept} of {self.distance.shape[1]} {what} kept, cost {self.cost:.4g}"
        split = f"g {self.size_cost:.3g} + {parts[self.kind]} {self.cost - self.size_cost:.3g}"
        proof = ""
        if self.gap is not None:
            percent = math.ceil(1000 * self.gap) / 10 if self.gap < 10 else math.inf
            proof = ", proven optimal" if self.is_optimal else f", within {percent:.1f}% of optimal"
        return f"{kept} ({split}){proof}{', interrupted' if self.interrupted else ''}"

    def plot(self) -> Figure:
        """The distances ordered by cell, a map of the tasks with representatives marked, and the search's trace."""
        from pastmaster.clustering.picture import draw

        return draw(self)


def size_cost_table(caller: str, n_tasks: int, episodes: float | None, span: float | None) -> FloatArray:
    """g(c) for c = 0 .. N; all 0 where neither episodes nor span is given."""
    if episodes is None and span is None:
        return np.zeros(n_tasks + 1)
    if episodes is None or span is None:
        missing = "episodes" if episodes is None else "span"
        raise InvalidInputError(f"{caller}: {missing} is missing, must be given together with the other")
    check_setting(caller, episodes, span)
    table: FloatArray = regret_bound(np.arange(n_tasks + 1), episodes, span)
    return table


class Assignment(NamedTuple):
    """For each new task: the cell it belongs to, and what it would lose under that cell's policy."""

    cells: npt.NDArray[np.int64]
    losses: FloatArray


def assign(clustering: Clustering, distance_rows: npt.ArrayLike) -> Assignment:
    """Where new tasks belong, without clustering anew: distance_rows [n, N] are their distances to the old tasks

    (directed: what they lose under each of the M policies). A task goes to the representative it loses least by.
    """
    rows = np.asarray(distance_rows, np.float64)
    columns = clustering.distance.shape[1]
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise InvalidInputError(f"assign: distance_rows has shape {rows.shape}, must be [n, {columns}]")
    bad = ~((rows >= 0) & np.isfinite(rows))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise InvalidInputError(f"assign: distance_rows[{i}, {j}] is {rows[i, j]}, must be finite and at least 0")
    losses = rows[:, clustering.representatives]
    cells = losses.argmin(axis=1)
    return Assignment(cells, losses[np.arange(len(rows)), cells])
