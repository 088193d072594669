"""What was found out about cross values: means, intervals, the clustering they make and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray, sealed
from pastmaster.clustering import Clustering
from pastmaster.clustering.bound import bound_costs
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.intervals import entry_limits, joint_distances
from pastmaster.estimation.question import Labels, Question
from pastmaster.estimation.returns import Counts, Returns, corrected_distance
from pastmaster.values import policy_distance

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Round(NamedTuple):
    """After so many episodes in all, the cells of the tasks as far as was known then (None: nobody asked)."""

    episodes: int
    labels: Labels | None


class Interval(NamedTuple):
    """Where a number lies."""

    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class CrossValueEstimate:
    """Cross values of N tasks and M policies, as far as episodes tell.

    ``mean``, ``low``, ``high`` [N, M]: each entry's mean return and its interval, which holds with ``confidence`` at
    the moment one stopped, however that was chosen. ``episodes`` [N, M] were used. ``bounds`` [N, 2] are those of a
    return in each task that the intervals rest on, ``bounds_from`` says whence each is: "declared", the "task" or
    "running" (twice the range seen, which guarantees nothing).

    ``clustering`` is the one that was asked for, from ``distance()``; ``cost_interval`` holds the cost that it has with
    its representatives, with ``confidence``, though it was chosen by looking at the same episodes. ``agreement`` is the
    share of resampled U under which no cheaper clustering was found. ``rounds`` tells how the clustering changed.
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    episodes: Counts
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

    @property
    def guaranteed(self) -> bool:
        """Whether the intervals rest on bounds that were known before."""
        return "running" not in self.bounds_from

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
        """The distances of ``policy_distance`` [N, N], or the regrets [N, M] if ``directed``.

        "plug-in" puts the means in, and is too large on average: it takes maxima of noisy numbers. "corrected" chooses
        the largest in one half of the episodes and values it in the other; before it is cut at 0 it is at most the
        truth on average, but for what looking at returns to allocate episodes adds
        (``tasks.returns``). ``directed`` by default as for the clustering.
        """
        if directed is None:
            directed = self.clustering.directed if self.clustering is not None else not self.paired
        if bias not in ("corrected", "plug-in"):
            raise InvalidInputError(f"CrossValueEstimate.distance: bias is {bias!r}, must be 'corrected' or 'plug-in'")
        plugged = policy_distance(self.mean, directed=directed, paired=self.paired)  # refuses what cannot be
        if bias == "plug-in":
            return plugged
        return corrected_distance(self.returns.halves(self.paired), directed, self.paired)

    def intervals(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """``low`` and ``high`` [N, M] at another confidence; 1 - 0.05 / (N M), say, holds for all entries at once."""
        if not 0.0 < confidence < 1.0:
            raise InvalidInputError(
                f"CrossValueEstimate.intervals: confidence is {confidence!r}, must be between 0 and 1"
            )
        return entry_limits(self.returns, self.bounds, 1.0 - confidence)

    def gap(self, *, time_limit: float = 30.0) -> float:
        """How much cheaper than this one the best clustering can be at most, with ``confidence``.

        The highest cost this one may have, less a cost that no clustering can beat under the lowest distances
        (``cost_lower_bound``), both from the same intervals, which hold at once.
        """
        found, question = self.clustering, self.question
        if found is None or self.cost_interval is None or question is None or question.max_radius is not None:
            raise InvalidInputError("CrossValueEstimate.gap: there must be a clustering that was asked for by its cost")
        n, m = self.mean.shape
        rows, columns = (place.ravel() for place in np.indices((n, n if not found.directed else m)))
        lowest, _ = joint_distances(
            self.returns, self.bounds, 1.0 - self.confidence,
            directed=found.directed, paired=self.paired, pairs=(rows, columns),
        )  # fmt: skip
        distance = sealed(lowest.reshape(n, -1))
        counts = None if question.n_clusters is None else range(question.n_clusters, question.n_clusters + 1)
        size_cost = question.size_cost(distance)
        bound = bound_costs(distance, size_cost, found.directed, found.labels, time_limit, counts)
        return max(0.0, self.cost_interval.high - bound.value)

    def __repr__(self) -> str:
        n, m = self.mean.shape
        used = int(self.episodes.sum())
        per = f"{self.episodes.min()} to {self.episodes.max()} per entry"
        parts = [f"U of {n} tasks x {m} policies from {used:,} episodes ({per}), stopped by {self.stopped}"]
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
        whence = " and ".join(words[source] for source in sorted(set(self.bounds_from)))
        warning = "" if self.guaranteed else ": intervals that rest on a range seen are NOT guaranteed"
        return f"returns bounded in {lower:.4g} .. {upper:.4g}, {whence}{warning}"

    def plot(self) -> Figure:
        """U, the widths of its intervals and the episodes used."""
        from pastmaster.estimation.picture import draw

        return draw(self)


def cost_interval(returns: Returns, bounds: FloatArray, clustering: Clustering, alpha: float, paired: bool) -> Interval:
    """Where the cost of a clustering, with its representatives, lies with a chance of 1 - alpha, however it was chosen.

    The cost is that of kind "average". Its ends are those of all distances at once (``joint_distances``).
    """
    costs = []
    for distances in kept_distances(returns, bounds, clustering, alpha, paired):
        radii = np.zeros(clustering.n_clusters)
        np.maximum.at(radii, clustering.labels, distances)
        costs.append(clustering.size_cost + float(radii[clustering.labels].mean()))
    return Interval(*costs)


def kept_distances(
    returns: Returns, bounds: FloatArray, clustering: Clustering, alpha: float, paired: bool
) -> tuple[FloatArray, FloatArray]:
    """The ends [N] of every task's distance to its representative, all at once with a chance of 1 - alpha."""
    pairs = np.arange(len(clustering.labels)), clustering.representatives[clustering.labels]
    return joint_distances(returns, bounds, alpha, directed=clustering.directed, paired=paired, pairs=pairs)
