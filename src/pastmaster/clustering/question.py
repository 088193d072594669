"""The question that a clustering answers, asked of a family of tasks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import BoolArray, FloatArray, IntArray, LongArray
from pastmaster.checks import as_real, chosen, flag, text, whole
from pastmaster.clustering import _kernels as kernels, _local_kernels as local, cost as costs
from pastmaster.clustering.cost import KINDS, Kind
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

LOOKED_AT = 256  # tasks between two looks at the clock


@dataclass(frozen=True)
class Question:
    """What is asked of a clustering: searches, bounds and estimates share it.

    The attributes are the arguments of ``search_clusterings``. Without ``episodes``, ``n_clusters`` and ``max_radius``
    clusterings can be measured, but not searched for.

    Examples
    --------
    >>> problem = Question(n_clusters=2).about("example", [[0, 1, 9], [1, 0, 9], [9, 9, 0]])
    >>> round(problem.objective(np.array([0, 0, 1], np.int32)), 3)
    0.667
    """

    episodes: float | None = None
    span: float | None = None
    n_clusters: int | None = None
    max_radius: float | None = None
    directed: bool = False
    kind: Kind = "average"

    def check(self, caller: str, n_tasks: int, n_columns: int) -> None:
        """Refuse values that make no sense for so many tasks and columns of the distances, by name."""
        chosen(caller, "kind", self.kind, KINDS)
        if self.directed and self.kind == "max_diameter":
            raise InvalidInputError(
                f"{caller}: kind 'max_diameter' compares tasks of one cell, which needs symmetric distances"
            )
        if self.n_clusters is not None and self.max_radius is not None:
            raise InvalidInputError(
                f"{caller}: n_clusters and max_radius are both given, must be one question at a time"
            )
        if self.n_clusters is not None:
            whole(caller, "n_clusters", self.n_clusters, at_least=1, at_most=min(n_tasks, n_columns))
        if self.max_radius is not None and not as_real(self.max_radius) >= 0:
            raise InvalidInputError(f"{caller}: max_radius is {shown(self.max_radius)}, must be a number, at least 0")
        if (self.episodes is None) != (self.span is None):
            missing, given = ("episodes", "span") if self.episodes is None else ("span", "episodes")
            what = "how many a new task gets" if missing == "episodes" else "the largest less the smallest return"
            raise InvalidInputError(f"{caller}: {missing} is None, must be given where {given} is: {what}")
        if self.episodes is not None:
            costs.check_setting(caller, self.episodes, self.span)

    def check_asked(self, caller: str) -> None:
        """Refuse a question that asks for nothing."""
        if self.episodes is None and self.n_clusters is None and self.max_radius is None:
            raise InvalidInputError(
                f"{caller}: nothing is asked, must be one question: episodes and span, or n_clusters, or max_radius"
            )

    def counts(self, n_tasks: int) -> range:
        """The numbers of cells that an answer may have."""
        return range(1, n_tasks + 1) if self.n_clusters is None else range(self.n_clusters, self.n_clusters + 1)

    def size_cost(self, distance: FloatArray) -> FloatArray:
        """What c cells cost [N + 1]: g(c, T), or 0. A number not asked for costs more than any distance can."""
        counts = np.arange(len(distance) + 1)
        table = np.zeros(len(counts))
        if self.episodes is not None and self.span is not None:
            table = costs.regret_bound(counts, self.episodes, self.span)
        if self.n_clusters is None:
            return table
        return np.asarray(table[self.n_clusters] + (2.0 * distance.max() + 1.0) * np.abs(counts - self.n_clusters))

    def about(self, caller: str, distance: npt.ArrayLike) -> DistanceProblem:
        """The question about these distances; both are checked."""
        text("Question.about", "caller", caller)
        matrix = costs.checked_distance(caller, distance, flag(caller, "directed", self.directed))
        self.check(caller, *matrix.shape)
        problem = DistanceProblem(matrix, self)
        if not math.isfinite(problem.size_cost[-1]):
            raise InvalidInputError(
                f"{caller}: span is {shown(self.span)}, must be smaller: the regret bound of {len(matrix)} cells is no "
                "number"
            )
        return problem


def different(distance: FloatArray) -> LongArray:
    """The columns of a matrix that differ from those before them."""
    columns = np.ascontiguousarray(distance.T) + 0.0  # -0.0 is 0.0
    return np.array(sorted({column.tobytes(): j for j, column in reversed(list(enumerate(columns)))}.values()))


class Cells(NamedTuple):
    """For each cell, its representative [c] and its radius [c]."""

    representatives: LongArray
    radii: FloatArray


class DistanceProblem:
    """A question about a matrix of distances: what a partition then costs, and how to lower that.

    ``size_cost`` [N + 1] is the cost of each number of cells, ``kind`` the kernels' number for the kind of cost.
    """

    def __init__(self, distance: FloatArray, question: Question) -> None:
        self.distance, self.question = distance, question
        self.n_tasks, self.directed, self.kind = len(distance), question.directed, KINDS.index(question.kind)
        self.size_cost = question.size_cost(distance)

    def labels(self, caller: str, labels: npt.ArrayLike) -> IntArray:
        """Labels [N] of a person, as cells 0 .. c - 1 in the order in which they first appear."""
        return costs.canonical_labels(caller, labels, self.n_tasks)

    def state(self, labels: IntArray) -> kernels.State:
        """A kernel state that holds the partition."""
        return costs.filled(self.distance, labels, self.directed, self.kind)

    def cells(self, labels: IntArray) -> Cells:
        """Representatives and radii of the cells 0 .. c - 1, by the paper's rule with its tie-break."""
        representatives, radii = [], []
        for cell in range(int(labels.max()) + 1):
            members = np.flatnonzero(labels == cell)
            candidates = np.arange(self.distance.shape[1]) if self.directed else members
            reach = self.distance[members] if self.directed else self.distance[np.ix_(members, members)]
            reach = reach.max(axis=0)
            best = int(np.argmin(reach))
            representatives.append(int(candidates[best]))
            radii.append(float(reach[best]))
        return Cells(np.array(representatives), np.array(radii))

    def cost(self, labels: IntArray) -> float:
        """The cost of the partition."""
        return float(kernels.cost_of(self.state(labels), self.size_cost, self.kind))

    def cost_of(self, labels: IntArray, radii: FloatArray) -> float:
        """The cost of the partition if its cells had these radii, by the kinds "average" and "worst"."""
        reach = radii.max() if self.kind == kernels.WORST else (np.bincount(labels) * radii).sum() / self.n_tasks
        return float(self.size_cost[len(radii)] + reach)

    def objective(self, labels: IntArray) -> float:
        """What an answer minimises: the cost, or with ``max_radius`` the cells, and N more for each task beyond it."""
        if self.question.max_radius is None:
            return self.cost(labels)
        radii = self.cells(labels).radii
        return float(len(radii) + self.n_tasks * (radii > self.question.max_radius)[labels].sum())

    @property
    def reach(self) -> FloatArray:
        """The least radius of a cell that centre j leads and task i is in [N, M]: symmetric, j is in it too."""
        return self.distance if self.directed else np.maximum(self.distance, np.diagonal(self.distance))

    @property
    def covers(self) -> BoolArray:
        """Whether policy j may stand for task i by ``max_radius`` [N, M]."""
        return self.reach <= (np.inf if self.question.max_radius is None else self.question.max_radius)

    def descended(self, labels: IntArray, deadline: float = math.inf) -> tuple[IntArray, float]:
        """The partition after moving single tasks while that lowers the cost and time is left, and its cost."""
        state, move = self.state(self.labels("descended", labels)), kernels.new_move(*self.distance.shape)
        improved = True
        while improved:
            improved = False
            for first in range(0, self.n_tasks, LOOKED_AT):
                if time.perf_counter() > deadline:
                    break
                last = min(first + LOOKED_AT, self.n_tasks)
                improved |= local.descend(
                    state, move, self.distance, self.directed, self.kind, self.size_cost, first, last
                )
        return self.labels("descended", state.label), float(kernels.cost_of(state, self.size_cost, self.kind))


def priced(
    caller: str, distance: npt.ArrayLike, episodes: float, span: float, directed: bool, kind: Kind = "average"
) -> DistanceProblem:
    """The question of the least cost about these distances; all of it is checked."""
    costs.check_setting(caller, episodes, span)
    return Question(episodes, span, directed=directed, kind=kind).about(caller, distance)


def clustering_cost(
    distance: npt.ArrayLike, labels: npt.ArrayLike, *, episodes: float, span: float, directed: bool = False,
    kind: Kind = "average",
) -> float:  # fmt: skip
    """The cost of a clustering: the regret bound g(c, T) of its c cells, plus its mean radius.

    Parameters
    ----------
    distance, episodes, span, directed, kind
        As for ``search_clusterings``.
    labels : array_like
        The cell of each task [N], any integers: equal ones are one cell, and -1 is a cell like any other.

    Returns
    -------
    float
        In units of an episode's return.

    Raises
    ------
    InvalidInputError
        If the labels, the distances or the numbers make no sense.

    Examples
    --------
    >>> distance = [[0, 1, 9], [1, 0, 9], [9, 9, 0]]
    >>> round(clustering_cost(distance, [0, 0, 1], episodes=10_000, span=10.0), 3)
    1.143
    """
    problem = priced("clustering_cost", distance, episodes, span, directed, kind)
    return problem.cost(problem.labels("clustering_cost", labels))
