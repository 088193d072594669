"""The result of an estimate: mean returns, intervals, the clustering they make and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, LongArray, sealed
from pastmaster.checks import as_number, called_as, chosen, within
from pastmaster.clustering import Clustering, Question
from pastmaster.clustering.bound import bounded
from pastmaster.clustering.question import DistanceProblem
from pastmaster.clustering.score_table import Scored, Scores
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.intervals import entry_limits, joint_distances
from pastmaster.estimation.returns import Returns
from pastmaster.tables import counted, frame, html_table, one_line, shown
from pastmaster.values import CrossValues, policy_distance

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Round(NamedTuple):
    """After so many episodes in all, the cells of the tasks as known then (None: no clustering was asked for)."""

    episodes: int
    labels: IntArray | None


class Interval(NamedTuple):
    """Where a number lies."""

    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class CrossValueEstimate(Scored):
    """Cross values of N tasks and M policies, estimated by episodes.

    Attributes
    ----------
    mean, low, high, episodes : ndarray
        Each entry's mean return, the ends of its interval, and the episodes used for it [N, M].
    spread, standard_error : ndarray
        The standard deviation of one return, and that of the mean, as estimated [N, M].
    confidence : float
        The chance with which each interval holds at the moment of stopping, however that moment was chosen.
    bounds, bounds_from : ndarray, tuple of str
        Bounds on a return in each task [N, 2], on which the intervals rest, and where they come from: "declared", the
        "task", or "running" (twice the range seen, which guarantees nothing).
    stopped : {"precision", "budget"}
        What ended it.
    clustering, question : or None
        The clustering that was asked for, from ``distance()``, and what was asked.
    cost_interval : Interval or None
        Where its cost lies, with its representatives and with ``confidence``, although it was chosen by the same
        episodes.
    agreement : float or None
        The share of resampled U under which no cheaper clustering was found.
    rounds, returns, paired
        How the clustering changed, the return of every episode, and whether policy j is task j's own.
    seed : int or None
        ``rng=seed`` gives the same estimate; None where a generator was given.
    tasks, policies : tuple of str
        The names of the tasks, and of the policies: as given, or their own; of those that have none, empty.

    Examples
    --------
    >>> from pastmaster import TabularMDP, estimate_cross_values
    >>> task = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
    >>> found = estimate_cross_values([task], [[0, 0], [1, 1]], budget=2, rng=0)
    >>> found.distance()
    array([[0.75, 0.  ]])
    """

    mean: CrossValues
    low: FloatArray
    high: FloatArray
    episodes: LongArray
    confidence: float
    bounds: FloatArray
    bounds_from: tuple[str, ...]
    stopped: Literal["precision", "budget"]
    paired: bool
    clustering: Clustering | None
    cost_interval: Interval | None
    agreement: float | None
    rounds: tuple[Round, ...]
    question: Question | None
    returns: Returns
    seed: int | None = None
    tasks: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()

    @property
    def guaranteed(self) -> bool:
        """Whether the intervals rest on bounds that were known before."""
        return "running" not in self.bounds_from

    @property
    def spread(self) -> FloatArray:
        """The standard deviation of one return of each entry [N, M], as estimated; 0 where all are the same."""
        return sealed(self.returns.deviation)

    @property
    def standard_error(self) -> FloatArray:
        """The standard error of ``mean`` [N, M], as estimated."""
        return sealed(self.returns.deviation / np.sqrt(self.episodes))

    def scores(self) -> Scores:
        """``mean`` as a table, with names and standard errors; ``keep(estimate)`` asks this table."""
        tasks, policies = (tuple(_called(names)) for names in (self.tasks, self.policies))
        return Scores(sealed(np.array(self.mean)), tasks, policies, self.standard_error)

    @property
    def uncertainty(self) -> float | None:
        """The part of the cost, at its highest, that more episodes may still take away: (high - low) / high."""
        if self.cost_interval is None:
            return None
        low, high = self.cost_interval
        return (high - low) / high if high > 0 else 0.0

    def distance(
        self, *, directed: bool | None = None, bias: Literal["corrected", "plug-in"] = "corrected"
    ) -> FloatArray:
        """The distances of ``policy_distance``, as estimated; ``directed`` is by default as for the clustering.

        The bias "plug-in" puts the means in. It is too large on average, since it takes maxima of noisy numbers.
        "corrected" chooses the largest in one half of the episodes and values it in the other. Before it is cut at 0 it
        is at most the truth on average, except for what looking at returns to allocate episodes adds (see the module
        ``returns``). Raises an ``InvalidInputError`` if not ``directed`` and the policies are not the tasks' own.
        """
        if directed is None:
            directed = self.clustering.directed if self.clustering is not None else not self.paired
        chosen("CrossValueEstimate.distance", "bias", bias, ("corrected", "plug-in"))
        with called_as("CrossValueEstimate.distance"):
            plugged = policy_distance(self.mean, directed=directed, paired=self.paired)  # refuses what cannot be
        return plugged if bias == "plug-in" else self.returns.distance(directed)

    def intervals(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """``low`` and ``high`` [N, M] at another confidence; with 1 - 0.05 / (N M) all entries hold at once, at 95%."""
        if not 0.0 < as_number(confidence) < 1.0:
            place = "CrossValueEstimate.intervals: confidence"
            raise InvalidInputError(f"{place} is {shown(confidence)}, must be a number between 0 and 1")
        return entry_limits(self.returns, self.bounds, 1.0 - float(confidence))

    def gap(self, *, time_limit: float = 30.0) -> float:
        """How much cheaper than this clustering the best one can be at most, with ``confidence``.

        The highest cost that this one may have, less a cost that no clustering can beat under the lowest distances
        (``cost_lower_bound``). Both come from the same intervals, which hold at once. ``time_limit`` is in seconds.
        Raises an ``InvalidInputError`` if no clustering was asked for, or one by ``max_radius``.
        """
        found, question = self.clustering, self.question
        if found is None or self.cost_interval is None or question is None or question.max_radius is not None:
            raise InvalidInputError("CrossValueEstimate.gap: there must be a clustering that was asked for by its cost")
        seconds = within("CrossValueEstimate.gap", "time_limit", time_limit, 0.0, np.inf)
        n, m = self.mean.shape
        rows, columns = (place.ravel() for place in np.indices((n, n if not found.directed else m)))
        alpha = 1.0 - self.confidence
        lowest, _ = joint_distances(self.returns, self.bounds, alpha, found.directed, (rows, columns))
        bound = bounded(DistanceProblem(sealed(lowest.reshape(n, -1)), question), found.labels, seconds)
        return max(0.0, self.cost_interval.high - bound.value)

    def __repr__(self) -> str:
        n, m = self.mean.shape
        found = "" if self.clustering is None else f"; {len(np.unique(self.clustering.representatives))} kept"
        if self.cost_interval is not None:
            found += f", cost in {self.cost_interval.low:.4g} .. {self.cost_interval.high:.4g}"
        doubt = "" if self.guaranteed else "; intervals NOT guaranteed"
        used = f"{self.episodes.sum():,} episodes"
        return one_line(f"CrossValueEstimate({counted(n, 'task')} x {counted(m, 'policy')}, {used}{found}{doubt})")

    def __str__(self) -> str:
        n, m = self.mean.shape
        used = f"{self.episodes.sum():,} episodes ({self.episodes.min()} to {self.episodes.max()} per entry)"
        parts = [f"U of {counted(n, 'task')} x {counted(m, 'policy')} from {used}, stopped by {self.stopped}"]
        if self.clustering is not None and self.cost_interval is not None:
            low, high = self.cost_interval
            parts.append(
                f"{self.clustering}; with {100 * self.confidence:g}% confidence its cost is in {low:.4g} .. {high:.4g} "
                f"({100 * (self.uncertainty or 0.0):.0f}% of it uncertain), "
                f"{100 * (self.agreement or 0.0):.0f}% of resamplings agree"
            )
        parts.append(self._bounds_words())
        return f"CrossValueEstimate({'; '.join(parts)})"

    def _bounds_words(self) -> str:
        lower, upper = self.bounds[:, 0].min(), self.bounds[:, 1].max()
        words = {"declared": "as given", "task": "from the tasks", "running": "from twice the range seen"}
        sources = " and ".join(words[source] for source in sorted(set(self.bounds_from)))
        warning = "" if self.guaranteed else ": intervals that rest on a range seen are NOT guaranteed"
        return f"returns bounded in {lower:.4g} .. {upper:.4g}, {sources}{warning}"

    def to_frame(self) -> pd.DataFrame:
        """A row to each task and policy, as a pandas DataFrame: mean, low, high and episodes.

        Policies are told by name where one has a name, else by number.
        """
        n, m = self.mean.shape
        columns = {name: np.asarray(getattr(self, name)).ravel() for name in ("mean", "low", "high", "episodes")}
        tasks, policies = _called(self.tasks) or np.arange(n).astype(str), _called(self.policies) or np.arange(m)
        return frame({"task": np.repeat(tasks, m), "policy": np.tile(policies, n)} | columns)

    def _repr_html_(self) -> str:
        policies: list[Any] = _called(self.policies) or list(range(self.mean.shape[1]))
        tasks = _called(self.tasks) or list(map(str, range(len(self.mean))))
        rows = [
            {"task": name, "best policy": policies[best], "mean return": float(self.mean[i, best])}
            | {"low": float(self.low[i, best]), "high": float(self.high[i, best]), "episodes": int(total)}
            for i, (name, best, total) in enumerate(
                zip(tasks, self.mean.argmax(axis=1), self.episodes.sum(axis=1), strict=True)
            )
        ]
        return html_table(rows, str(self))

    def plot(self) -> Figure:
        """U, the widths of its intervals and the episodes used."""
        from pastmaster.estimation.picture import draw

        return draw(self)


def _called(names: Sequence[str]) -> list[str]:
    """Names, with numbers for those that are empty; none at all if all are."""
    return [name or str(i) for i, name in enumerate(names)] if any(names) else []


def cost_interval(returns: Returns, bounds: FloatArray, clustering: Clustering, alpha: float) -> Interval:
    """Where the cost of a clustering, with its representatives, lies with a chance of 1 - alpha, however it was chosen.

    The cost is that of kind "average". Its ends are those of all distances at once (``joint_distances``).
    """
    costs = []
    for distances in kept_distances(returns, bounds, clustering, alpha):
        radii = np.zeros(clustering.n_clusters)
        np.maximum.at(radii, clustering.labels, distances)
        costs.append(clustering.size_cost + float(radii[clustering.labels].mean()))
    return Interval(*costs)


def kept_distances(
    returns: Returns, bounds: FloatArray, clustering: Clustering, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """The ends [N] of every task's distance to its representative, all at once with a chance of 1 - alpha."""
    pairs = np.arange(len(clustering.labels)), clustering.representatives[clustering.labels]
    return joint_distances(returns, bounds, alpha, clustering.directed, pairs)
