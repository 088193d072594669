"""A clustering: the few tasks or policies that stand for all, and what each task loses by it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, LongArray, as_floats, sealed
from pastmaster.checks import as_name, is_whole, listed
from pastmaster.clustering.cost import Kind
from pastmaster.clustering.different import different_cells
from pastmaster.clustering.question import DistanceProblem, Question, different
from pastmaster.errors import InvalidInputError
from pastmaster.tables import WIDEST, counted, frame, html_table, one_line, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

OPTIMAL = 1e-5  # a certified gap this small, relative, is called optimal: HiGHS works to 1e-6
SHOWN = 6  # tasks of a cell that a notebook names
REACHES = {"average": "mean radius", "worst": "largest radius", "max_diameter": "mean largest distance"}


def relative_gap(cost: float, lower_bound: float) -> float:
    """How far a cost may be above the optimum, relative to the optimum."""
    if cost <= lower_bound:
        return 0.0
    return (cost - lower_bound) / lower_bound if lower_bound > 0 else math.inf


class Covered(NamedTuple):
    """One task: its number, its cell, the kept policy that is best for it, and what it loses under that policy."""

    task: int
    cell: int
    policy: int
    loss: float


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """A partition of N tasks into cells, each with the policy that stands for it.

    Cells are numbered 0 .. c - 1 in the order of their first tasks.

    Attributes
    ----------
    labels : ndarray
        The cell of each task [N].
    representatives, radii : ndarray
        For each cell [c], the task (directed: the column of the distance matrix) whose policy stands for it, and the
        most that any member loses by that.
    cost, size_cost : float
        The cost, and the part of it that the number of cells makes: the regret bound g(c, T), or 0.
    kind, directed, distance
        As asked for; ``distance`` is the caller's matrix, not a copy.
    lower_bound, possible_c : float and tuple of int, or None
        No clustering costs less; an optimal one may have these numbers of cells. None until certified.
    losses : ndarray
        What each task loses under the kept policy that is best for it [N]: at most its cell's radius.
    traces, interrupted : ndarray or None, bool
        The best cost during each restart of the search [restarts, 100], and whether Ctrl-C ended it.
    seed : int or None
        ``rng=seed`` gives the same clustering; None where a generator was given.
    task_names, policy_names : tuple of str
        What rows and columns of ``distance`` are called, as ``named`` was told; empty otherwise.

    Examples
    --------
    >>> Clustering.from_labels([[0, 1, 9], [1, 0, 9], [9, 9, 0]], [0, 0, 1], episodes=10_000, span=10.0)
    2 of 3 tasks kept, cost 1.143 (regret bound 0.476 + mean radius 0.667)
    """

    labels: IntArray
    representatives: LongArray
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
    seed: int | None = None
    task_names: tuple[str, ...] = ()
    policy_names: tuple[str, ...] = ()

    @classmethod
    def from_labels(
        cls, distance: npt.ArrayLike, labels: npt.ArrayLike, *, episodes: float | None = None,
        span: float | None = None, kind: Kind = "average", directed: bool = False,
    ) -> Clustering:  # fmt: skip
        """The clustering that given labels make, such as a hand-picked one.

        The arguments are those of ``clustering_cost``; without ``episodes`` and ``span`` the number of cells costs
        nothing. Raises an ``InvalidInputError`` if there is not one label to a task, or the distances make no sense.
        """
        caller = "Clustering.from_labels"
        problem = Question(episodes, span, directed=directed, kind=kind).about(caller, distance)
        return cls.of(problem, problem.labels(caller, labels))

    @classmethod
    def of(cls, problem: DistanceProblem, labels: IntArray) -> Clustering:
        """The clustering with these cells 0 .. c - 1, as an answer to a problem.

        Of a directed question for ``n_clusters`` no policy stands for two cells while enough are different; that may
        raise the cost (see the module ``different``).
        """
        labels = problem.labels("Clustering.of", labels)
        cells, question = different_cells(problem, labels), problem.question
        cost = problem.cost(labels)
        if (cells.radii != problem.cells(labels).radii).any():
            cost = problem.cost_of(labels, cells.radii)
        size_cost = float(problem.size_cost[len(cells.radii)])
        return cls(
            sealed(labels), sealed(cells.representatives), sealed(cells.radii), cost, size_cost,
            question.kind, question.directed, problem.distance,
        )  # fmt: skip

    def named(self, tasks: Iterable[Any] = (), policies: Iterable[Any] = ()) -> Clustering:
        """The same, with names for tasks and policies, which tables and pictures then use.

        Raises an ``InvalidInputError`` if there is not one name to each. Symmetric: policies are called as the tasks.
        """
        sizes, found = self.distance.shape, []
        for kind, names, size in zip(("tasks", "policies"), (tasks, policies), sizes, strict=True):
            place = f"Clustering.named: {kind}"
            given = [as_name(name, place) for name in listed(names, place, f"a list of {size} names")]
            if given and len(given) != size:
                raise InvalidInputError(f"Clustering.named: {kind} has {len(given)} names, must have {size}")
            found.append(tuple(given))
        if not self.directed and not found[1]:
            found[1] = found[0]
        return replace(self, task_names=found[0], policy_names=found[1])

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

    def members(self, i: int) -> LongArray:
        """The tasks of cell ``i``."""
        return np.flatnonzero(self.labels == _index("members", "i", i, "a cell", self.n_clusters))

    @property
    def losses(self) -> FloatArray:
        return np.array([row.loss for row in self.table()])

    def table(self) -> list[Covered]:
        """Each task, the kept policy that is best for it (its cell's if equally good), and what it loses by that.

        Symmetric distances are at least what is lost.
        """
        tasks = np.arange(len(self.labels))
        kept = self.distance[:, self.representatives]
        best = np.where(kept[tasks, self.labels] <= kept.min(axis=1), self.labels, kept.argmin(axis=1))
        columns = (tasks, self.labels, self.representatives[best], kept[tasks, best])
        return [Covered(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """``table()`` as a pandas DataFrame, with names where they are known."""
        return frame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"task": self.task(row.task), "cell": row.cell, "policy": self.policy(row.policy), "loss": row.loss}
            for row in self.table()
        ]

    def task(self, i: int) -> Any:
        """The name of task i, or i."""
        i = _index("task", "i", i, "a task", len(self.labels))
        return self.task_names[i] if self.task_names else i

    def policy(self, j: int) -> Any:
        """The name of the policy of column j, or j."""
        j = _index("policy", "j", j, "a column", self.distance.shape[1])
        return self.policy_names[j] if self.policy_names else j

    def __repr__(self) -> str:
        what = counted(self.distance.shape[1], "policy" if self.directed else "task")
        n_kept = len(np.unique(self.representatives))  # directed: cells may share a policy
        alike = n_kept < self.n_clusters and n_kept == len(different(self.distance))
        few = f" ({self.n_clusters} cells, but no more are different)" if alike else ""
        kept = f"{n_kept} of {what} kept{few}, cost {self.cost:.4g}"
        split = f" (regret bound {self.size_cost:.3g} + {REACHES[self.kind]} {self.cost - self.size_cost:.3g})"
        proof = ""
        if self.gap is not None:
            percent = math.ceil(1000 * self.gap) / 10 if self.gap < 10 else math.inf
            proof = ", proven optimal" if self.is_optimal else f", within {percent:.1f}% of optimal"
        end = f"{proof}{', interrupted' if self.interrupted else ''}"
        line = f"{kept}{split}{end}"
        return line if len(line) <= WIDEST else f"{kept}{end}"

    def _repr_html_(self) -> str:
        losses, rows = self.losses, []
        for cell, (column, radius) in enumerate(zip(self.representatives.tolist(), self.radii.tolist(), strict=True)):
            members = self.members(cell)
            names = ", ".join(str(self.task(i)) for i in members[:SHOWN].tolist())
            more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
            mean_loss = float(losses[members].mean())
            rows.append(
                {"kept policy": self.policy(column), "tasks": len(members), "mean loss": mean_loss, "radius": radius}
                | {"stands for": f"{names}{more}"}
            )
        return html_table(rows, repr(self))

    def plot(self) -> Figure:
        """What each task loses under each policy, with the kept ones marked; each task's loss; the search's trace."""
        from pastmaster.clustering.picture import draw

        return draw(self)


def _index(method: str, name: str, value: Any, what: str, size: int) -> int:
    """The number of one of ``size`` things."""
    if not is_whole(value) or not 0 <= value < size:
        raise InvalidInputError(f"Clustering.{method}: {name} is {shown(value)}, must be {what} in 0..{size - 1}")
    return int(value)


class Assignment(NamedTuple):
    """Where new tasks belong, as ``assign`` finds it.

    Attributes
    ----------
    cells, losses : ndarray
        The cell that each new task belongs to, and what it would lose under that cell's policy.
    """

    cells: LongArray
    losses: FloatArray

    def __repr__(self) -> str:
        return one_line(f"Assignment(cells={self.cells!r}, losses={self.losses!r})")

    def to_frame(self) -> pd.DataFrame:
        """A row to each new task, as a pandas DataFrame."""
        return frame({"cell": self.cells, "loss": self.losses})


def assign(clustering: Clustering, distance_rows: npt.ArrayLike) -> Assignment:
    """Where new tasks belong, without clustering again: with the representative that each loses least by.

    Parameters
    ----------
    clustering : Clustering
    distance_rows : array_like
        The distances of n new tasks to the N old ones [n, N] (directed: what they lose under each policy [n, M]).

    Returns
    -------
    Assignment

    Raises
    ------
    InvalidInputError
        If the rows do not fit, or hold negative or infinite numbers.

    Examples
    --------
    >>> old = Clustering.from_labels([[0, 1, 9], [1, 0, 9], [9, 9, 0]], [0, 0, 1])
    >>> assign(old, [[8, 9, 2], [1, 2, 7]]).cells
    array([1, 0])
    """
    if not isinstance(clustering, Clustering):
        raise InvalidInputError(f"assign: clustering is a {type(clustering).__name__}, must be a Clustering")
    rows = as_floats(distance_rows, "assign: distance_rows")
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
