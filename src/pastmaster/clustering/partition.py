"""A clustering: the few tasks or policies that stand for all, and what each task loses by it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, LongArray, sealed
from pastmaster.checks import as_name, is_whole, listed
from pastmaster.clustering.cost import Kind
from pastmaster.clustering.different import different_cells
from pastmaster.clustering.doubts import Doubt, shifts
from pastmaster.clustering.over_all import OverAll, line_of
from pastmaster.clustering.question import DistanceProblem, Question, different
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng
from pastmaster.tables import WIDEST, counted, frame, html_table, shown, told_apart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pastmaster.clustering.stability import Stability

OPTIMAL = 1e-5  # a certified gap this small, relative, is called optimal: HiGHS works to 1e-6
SHOWN = 6  # tasks of a cell that a notebook names
KEPT = ("loss", "count")  # the kinds of the answers of ``keep``
REACHES = {"average": "mean radius", "worst": "largest radius", "max_diameter": "mean largest distance"}


def relative_gap(cost: float, lower_bound: float) -> float:
    """How far a cost may be above the optimum, relative to the optimum."""
    if cost <= lower_bound:
        return 0.0
    return (cost - lower_bound) / lower_bound if lower_bound > 0 else math.inf


class Covered(NamedTuple):
    """One task, its cell, the kept policy that is best for it, and what it loses under that policy.

    Tasks and policies are told by name where names are known, else by number.
    """

    task: Any
    cell: int
    policy: Any
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
        most that any member loses by that. An answer of ``keep`` may have a cell without members.
    columns, policies : ndarray, list
        The kept policies [c], by column (the same as ``representatives``), and by name where names are known.
    losses : ndarray
        What each task loses under the kept policy that is best for it [N]: at most its cell's radius.
    mean_loss, largest_loss : float
        Over all tasks, the mean by their ``weights``.
    cost, size_cost : float
        What was asked to be least, and the part of it that the number of cells makes: the regret bound g(c, T), the
        price of so many policies, or 0. Of ``keep(max_loss=...)`` both are the number of policies.
    lower_bound, possible_c : float and tuple of int, or None
        No clustering costs less; an optimal one may have these numbers of cells. None until certified.
    kind : str
        How the rest of the cost is measured: "average" (mean radius), "worst" (largest radius), "max_diameter"; of
        ``keep``, "loss" (mean loss) or "count" (it is not: only the number of policies counts).
    directed, distance : bool, ndarray
        Whether ``distance`` are losses under policies [N, M] (infinite: not tried). It is not copied.
    weights : ndarray or None
        How much each task counts in ``mean_loss`` [N]; None: all the same.
    standard_errors : ndarray or None
        Those of the scores [N, M], where some were measured several times; nan for those measured once.
    must_keep, never_keep : tuple of int
        Columns that were told to be kept, or not to be.
    max_loss : float or None
        The most that a task may lose, where ``keep(max_loss=...)`` was asked.
    price : float or None
        What a policy had to earn a task to be kept, where ``keep(price=...)`` was asked.
    over_all : OverAll or None
        What the kept policies lose over all tasks of a repository, where they were chosen on a sample of them.
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
    kind: str
    directed: bool
    distance: FloatArray = field(repr=False)
    lower_bound: float | None = None
    possible_c: tuple[int, ...] | None = None
    traces: FloatArray | None = field(default=None, repr=False)
    interrupted: bool = False
    seed: int | None = None
    task_names: tuple[str, ...] = ()
    policy_names: tuple[str, ...] = ()
    weights: FloatArray | None = field(default=None, repr=False)
    standard_errors: FloatArray | None = field(default=None, repr=False)
    must_keep: tuple[int, ...] = ()
    never_keep: tuple[int, ...] = ()
    max_loss: float | None = None
    price: float | None = None
    over_all: OverAll | None = None

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

    @classmethod
    def of_columns(
        cls, losses: FloatArray, columns: LongArray, kind: str, size_cost: float, **fields: Any
    ) -> Clustering:
        """The clustering that kept columns make: each task joins the one it loses least by, the lowest of equals."""
        kept = np.sort(columns)
        nearest = losses[:, kept].argmin(axis=1)
        serving, first = np.unique(nearest, return_index=True)
        order = np.concatenate([serving[np.argsort(first)], np.setdiff1d(np.arange(len(kept)), serving)])
        labels = np.argsort(order)[nearest].astype(np.int32)
        radii = np.zeros(len(kept))
        np.maximum.at(radii, labels, losses[np.arange(len(losses)), kept[nearest]])
        made = cls(
            sealed(labels), sealed(kept[order]), sealed(radii), size_cost, size_cost, kind, True, losses, **fields
        )
        return replace(made, cost=size_cost + made.mean_loss) if kind == "loss" else made

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
    def columns(self) -> LongArray:
        return self.representatives

    @property
    def policies(self) -> list[Any]:
        return [self.policy(j) for j in self.representatives.tolist()]

    def served(self) -> tuple[LongArray, FloatArray]:
        """The cell whose policy is best for each task (its own if equally good), and what the task loses by that."""
        tasks = np.arange(len(self.labels))
        kept = self.distance[:, self.representatives]
        best = np.where(kept[tasks, self.labels] <= kept.min(axis=1), self.labels, kept.argmin(axis=1))
        return best, kept[tasks, best]

    @property
    def losses(self) -> FloatArray:
        return self.served()[1]

    @property
    def mean_loss(self) -> float:
        return float(np.average(self.losses, weights=self.weights))

    @property
    def largest_loss(self) -> float:
        return float(self.losses.max())

    def table(self) -> list[Covered]:
        """Each task, the kept policy that is best for it (its cell's if equally good), and what it loses by that.

        Symmetric distances are at least what is lost.
        """
        best, losses = self.served()
        names = self.policies
        rows = zip(self.labels.tolist(), best.tolist(), losses.tolist(), strict=True)
        return [Covered(self.task(i), cell, names[b], loss) for i, (cell, b, loss) in enumerate(rows)]

    def doubts(self) -> list[Doubt]:
        """The scores that should be measured again, most urgent first; empty if none was measured several times.

        Each is a score by which the mean loss would move, were it wrong by two standard errors.
        """
        if self.standard_errors is None:
            return []
        weights = np.ones(len(self.labels)) if self.weights is None else self.weights
        moved = shifts(self.distance, self.representatives, self.standard_errors, weights / weights.sum())
        entries = np.argwhere(moved > 0.0)
        order = np.argsort(-moved[tuple(entries.T)], kind="stable")
        return [
            Doubt(self.task(i), self.policy(j), float(self.standard_errors[i, j]), float(moved[i, j]))
            for i, j in entries[order].tolist()
        ]

    def stability(self, *, resamples: int | None = None, rng: Rng = None) -> Stability:
        """How sure an answer of ``keep`` is, where scores were measured several times (see the module ``stability``).

        Scores are drawn anew by their standard errors, ``resamples`` times (by default 200, of large tables fewer), and
        the question is asked again: in what share of them does each policy stay, and where does the mean loss lie?
        ``rng=result.seed`` gives the same. ``InvalidInputError`` of a clustering by the paper's cost.
        """
        from pastmaster.clustering.stability import stability  # which asks again

        return stability(self, resamples, rng)

    def to_frame(self) -> pd.DataFrame:
        """``table()`` as a pandas DataFrame."""
        return frame([row._asdict() for row in self.table()])

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
        kept = f"{n_kept} of {what} kept"
        if self.over_all is not None:
            return f"{kept}, {line_of(self.over_all, WIDEST - len(kept) - 2)}"
        end = f"{self._proof()}{', interrupted' if self.interrupted else ''}"
        if self.kind in KEPT:
            shorter = f"{kept}, {self._measured()}{end}"
            longer = f"{kept} ({', '.join(told_apart(map(str, self.policies)))}), {self._measured()}{end}"
        else:
            if n_kept < self.n_clusters and n_kept == len(different(self.distance)):
                kept += f" ({self.n_clusters} groups, but no more are different)"
            shorter = f"{kept}, cost {self.cost:.4g}{end}"
            reach = f"{REACHES[self.kind]} {self.cost - self.size_cost:.3g}"
            longer = f"{kept}, cost {self.cost:.4g} (regret bound {self.size_cost:.3g} + {reach}){end}"
        return longer if len(longer) <= WIDEST else shorter

    def _measured(self) -> str:
        """What an answer of ``keep`` costs."""
        if self.kind == "count":
            return f"largest loss {self.largest_loss:.4g}, mean {self.mean_loss:.4g}"
        if not self.size_cost:
            return f"mean loss {self.mean_loss:.4g}, largest {self.largest_loss:.4g}"
        price = self.size_cost / self.n_clusters
        return f"cost {self.cost:.4g} ({self.n_clusters} x price {price:.3g} + mean loss {self.mean_loss:.3g})"

    def _proof(self) -> str:
        """What is proven, as the end of a sentence."""
        if self.gap is None:
            return ""
        if self.kind == "count":
            return ", proven fewest" if self.is_optimal else f", at least {self.lower_bound:g} are needed"
        if self.gap >= 10:
            return f", no choice costs less than {self.lower_bound:.4g}"
        return ", proven optimal" if self.is_optimal else f", within {math.ceil(1000 * self.gap) / 10:.1f}% of optimal"

    def _repr_html_(self) -> str:
        rows = []
        for cell, radius in enumerate(self.radii.tolist()):
            members = self.members(cell)
            names = ", ".join(str(self.task(i)) for i in members[:SHOWN].tolist())
            more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
            rows.append(
                {
                    "kept policy": self.policies[cell],
                    "tasks": len(members),
                    "most lost": radius,
                    "stands for": f"{names}{more}",
                }
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
