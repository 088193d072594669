"""Search-Clusterings, the paper's Algorithm 3: the cheapest partition of the tasks, found by a compiled MHAV chain.

By default a restart climbs the ladder rung by rung for half of its steps (the burn-in: on the way it measures the mean
cost E_l on each rung), then walks by MHAV with weights frozen at w_l = sum of (ladder[l+1] - ladder[l]) * (mean of E_l
and E_{l+1}), an estimate of -ln Z(lambda_l) that evens out the time spent on the rungs, and at last moves single tasks
while that helps. One restart in four starts from the best of a scan of greedy clusterings, so that the result never
costs more than those; the others start at random. In the end the cells of all restarts are recombined: a small integer
program chooses the best cover among them. ``variant="paper"`` is the paper's own: random starts, all weights 0, no
burn-in, no descent, no recombination.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from oldhand import parallel
from oldhand.clustering import _chain_kernels as chain
from oldhand.clustering import _kernels as kernels
from oldhand.clustering.bound import bound_costs, integer_program
from oldhand.clustering.cost import Kind, canonical_labels, checked_distance, checked_kind, filled, measure_cells
from oldhand.clustering.cover import fewest_labels
from oldhand.clustering.greedy import default_thresholds, descended, greedy_labels
from oldhand.clustering.mhav import check_chances, checked_ladder
from oldhand.clustering.partition import Clustering, size_cost_table
from oldhand.errors import InvalidInputError
from oldhand.mdp import FloatArray

Labels = npt.NDArray[np.int32]
RUNGS = 60
TRACE = 100  # points kept of a restart's best cost
SLICE = 20_000  # steps between looks at the clock
GREEDY_SHARE = 4  # one restart in so many starts from a greedy clustering
SMALL = 2000  # up to so many tasks every restart is mended by descent and the cells of all are recombined


def search_clusterings(
    distance: npt.ArrayLike,
    *,
    episodes: float | None = None,
    span: float | None = None,
    rng: np.random.Generator,
    directed: bool = False,
    kind: Kind = "average",
    restarts: int = 20,
    iterations: int = 100_000,
    ladder: npt.ArrayLike | None = None,
    variant: Literal["default", "paper"] = "default",
    n_clusters: int | None = None,
    max_radius: float | None = None,
    certify: bool = False,
    time_limit: float | None = None,
    certify_seconds: float = 30.0,
    alpha: float = 0.1,
    beta: float = 0.8,
    up: float = 0.5,
    theta: float = 1.0,
    n_jobs: int = 1,
    progress: bool = False,
) -> Clustering:
    """The cheapest clustering found in ``restarts`` walks of ``iterations`` steps.

    ``episodes`` and ``span`` set g(c, T). Without them, ask for ``n_clusters`` (exactly so many cells, least mean
    radius) or ``max_radius`` (no task loses more, fewest cells). ``certify`` adds a lower bound, looked for during at
    most ``certify_seconds``; a cheaper clustering met there is taken. ``time_limit`` seconds end the search early, as
    does Ctrl-C: both return the best so far. The result does not depend on ``n_jobs``, unless a limit of time cuts it
    short (recombination has one of its own, 5 s for each of three programs). With ``max_radius`` the answer comes from
    an integer program, and what sets up walks is not used.
    """
    matrix = checked_distance("search_clusterings", distance, directed)
    kind_index = checked_kind("search_clusterings", kind, directed)
    _check(matrix, episodes, n_clusters, max_radius, restarts, iterations, variant, theta, time_limit, certify, kind)
    if not (np.isfinite(certify_seconds) and certify_seconds >= 0):
        raise InvalidInputError(f"search_clusterings: certify_seconds is {certify_seconds!r}, must be at least 0")
    check_chances("search_clusterings", alpha, beta, up)
    setting = {"episodes": episodes, "span": span, "kind": kind, "directed": directed}
    rungs = checked_ladder("search_clusterings", default_ladder(matrix) if ladder is None else ladder)
    if max_radius is not None:
        seconds = certify_seconds if time_limit is None else time_limit
        labels, fewest = fewest_labels(matrix, max_radius, directed, seconds)
        found = Clustering.from_labels(matrix, labels, **setting)  # type: ignore[arg-type]
        return replace(found, possible_c=tuple(range(fewest, found.n_clusters + 1)))
    size_cost = size_cost_table("search_clusterings", len(matrix), episodes, span)
    counts = range(1, len(matrix) + 1)
    if n_clusters is not None:  # any other number of cells costs more than any distance can
        counts = range(n_clusters, n_clusters + 1)
        steps = np.abs(np.arange(len(matrix) + 1) - n_clusters)
        size_cost = size_cost[n_clusters] + (2.0 * matrix.max() + 1.0) * steps
    search = _Search(
        matrix, directed, kind_index, size_cost,
        rungs, variant == "paper", iterations, theta, np.array([alpha, beta, up]),
        math.inf if time_limit is None else time.perf_counter() + time_limit, n_clusters,
    )  # fmt: skip
    walks = parallel.run(
        lambda job: search.restart(*job),
        list(enumerate(rng.spawn(restarts))),
        n_jobs=n_jobs,
        progress=progress,
        label="clustering",
        on_interrupt=search.stop.set,
    )
    best = min(walks, key=lambda walk: walk.cost)
    labels, lower, possible = best.labels, None, None
    try:
        labels = search.recombine(walks, best)
        if certify and not search.stop.is_set():
            bound = bound_costs(matrix, size_cost, directed, labels, certify_seconds, counts)
            labels, lower, possible = bound.labels, bound.value, bound.possible_c
    except KeyboardInterrupt:
        search.stop.set()
    found = Clustering.from_labels(matrix, labels, **setting)  # type: ignore[arg-type]
    return replace(
        found,
        lower_bound=None if lower is None else min(lower, found.cost),
        possible_c=possible,
        traces=np.stack([walk.trace for walk in walks]),
        interrupted=search.stop.is_set(),
    )


def default_ladder(distance: FloatArray) -> FloatArray:
    """Rungs from where a cell costs nothing to make to where the smallest moves matter.

    Moving one task changes the cost by about mean(d) / N, so ln lambda runs from 1/10 of its inverse to 300 times it.
    """
    scale = float(distance.mean()) or 1.0
    return np.geomspace(0.1, 300.0, RUNGS) * len(distance) / scale


@dataclass(frozen=True)
class _Walk:
    """What one restart found."""

    labels: Labels
    cost: float
    trace: FloatArray


class _Search:
    """One search: its problem, its chain's settings, and the flag that ends it early."""

    def __init__(
        self,
        distance: FloatArray,
        directed: bool,
        kind_index: int,
        size_cost: FloatArray,
        ladder: FloatArray,
        plain: bool,
        iterations: int,
        theta: float,
        chances: FloatArray,
        deadline: float,
        n_clusters: int | None,
    ) -> None:
        self.distance, self.directed, self.kind, self.size_cost = distance, directed, kind_index, size_cost
        self.ladder, self.plain, self.iterations, self.theta, self.chances = ladder, plain, iterations, theta, chances
        self.deadline, self.n_clusters, self.stop = deadline, n_clusters, threading.Event()
        self.log_factorial = np.array([math.lgamma(n + 1) for n in range(len(distance) + 1)])

    def start(self, index: int, rng: np.random.Generator) -> Labels:
        """Where restart ``index`` begins: one in four (of many tasks: the first) from a greedy scan."""
        n_tasks = len(self.distance)
        greedy = index % GREEDY_SHARE == 0 if n_tasks <= SMALL else index == 0
        if greedy and not self.plain and not (index and self.over):
            levels = default_thresholds(self.distance)
            labels = greedy_labels(self.distance, self.size_cost, self.kind, self.directed, levels, rng)
        else:
            most = self.n_clusters or max(1, math.isqrt(n_tasks))
            labels = rng.integers(most, size=n_tasks).astype(np.int32)
        labels = canonical_labels("search_clusterings", labels, n_tasks)
        return labels if self.n_clusters is None else _exactly(labels, self.n_clusters, rng)

    def recombine(self, walks: list[_Walk], best: _Walk) -> Labels:
        """The best clustering that can be made of all the walks' cells, or of one walk, after descent."""
        if self.plain or self.over:
            return best.labels
        if len(self.distance) > SMALL:
            return descended(self.distance, best.labels, self.directed, self.size_cost, self.kind)[0]
        if self.kind != kernels.AVERAGE:
            return best.labels
        found = [measure_cells(self.distance, walk.labels, self.directed) for walk in walks]
        pairs = sorted({pair for cells in found for pair in zip(*(x.tolist() for x in cells), strict=True)})
        pool = np.array(pairs)
        centre, radius = pool[:, 0].astype(np.int64), pool[:, 1]
        members = [np.flatnonzero(self.distance[:, j] <= r) for j, r in zip(centre, radius, strict=True)]
        labels, cost = best.labels, best.cost
        c = int(best.labels.max()) + 1
        counts = range(max(1, c - 1), min(len(pairs), c + 1) + 1) if self.n_clusters is None else range(c, c + 1)
        for count in counts:
            seconds = min(5.0, self.deadline - time.perf_counter())
            if seconds <= 0:
                break
            made = integer_program(centre, radius, members, len(self.distance), count, not self.directed, seconds)[1]
            if made is not None:
                made, made_cost = descended(self.distance, made, self.directed, self.size_cost, self.kind)
                if made_cost < cost:
                    labels, cost = made, made_cost
        return labels

    def restart(self, index: int, rng: np.random.Generator) -> _Walk:
        """One walk; Ctrl-C ends it with the best it has met."""
        walker: _Walker | None = None
        try:
            walker = _Walker(self, self.start(index, rng), rng)
            return self._walk(walker)
        except KeyboardInterrupt:
            self.stop.set()
            labels = np.zeros(len(self.distance), np.int32) if walker is None else walker.best.copy()
            if walker is None and self.n_clusters is not None:
                labels = _exactly(labels, self.n_clusters, rng)
            walker = walker or _Walker(self, labels, rng)
            return _Walk(labels, walker.best_cost, walker.trace)

    def _walk(self, walker: _Walker) -> _Walk:
        """The burn-in, the walk and the descent."""
        burn_in = 0 if self.plain or len(self.ladder) == 1 else self.iterations // 2
        weights = np.zeros(len(self.ladder))
        rung = 0
        if burn_in:
            mean_cost = np.empty(len(self.ladder))
            for rung in range(len(self.ladder)):
                share = burn_in * (rung + 1) // len(self.ladder) - burn_in * rung // len(self.ladder)
                mean_cost[rung] = walker.stay(rung, share)
            between = 0.5 * (mean_cost[1:] + mean_cost[:-1])
            weights[1:] = np.cumsum(np.diff(self.ladder) * between)
        walker.walk(rung, weights, self.iterations - burn_in)
        labels, cost = walker.best.copy(), walker.best_cost
        if not self.plain and not self.over and len(self.distance) <= SMALL:
            labels, cost = descended(self.distance, labels, self.directed, self.size_cost, self.kind)
            walker.trace[-1] = min(walker.trace[-1], cost)
        return _Walk(labels, cost, walker.trace)

    @property
    def over(self) -> bool:
        """Whether time is up or the user has asked to stop."""
        return self.stop.is_set() or time.perf_counter() > self.deadline


def _exactly(labels: Labels, n_clusters: int, rng: np.random.Generator) -> Labels:
    """A partition with so many cells: the smallest ones merged, or random tasks set apart."""
    labels = labels.copy()
    while labels.max() + 1 > n_clusters:
        sizes = np.bincount(labels)
        smallest, next_smallest = np.argsort(sizes, kind="stable")[:2]
        labels[labels == smallest] = next_smallest
        labels = canonical_labels("search_clusterings", labels, len(labels))
    while labels.max() + 1 < n_clusters:
        crowded = np.flatnonzero(np.bincount(labels)[labels] > 1)
        labels[rng.choice(crowded)] = labels.max() + 1
    return labels


class _Walker:
    """A chain under way: the partition it is in, and the best it has met."""

    def __init__(self, search: _Search, start: Labels, rng: np.random.Generator) -> None:
        self.search, self.rng = search, rng
        self.state = filled(search.distance, start, search.directed, search.kind)
        self.trial = kernels.new_trial(*search.distance.shape)
        self.best = start.copy()
        self.best_cost = float(kernels.cost_of(self.state, search.size_cost, search.kind))
        self.trace = np.full(TRACE, self.best_cost)
        self.done = 0

    def stay(self, rung: int, steps: int) -> float:
        """Walk on one rung only; returns the mean cost there."""
        ladder, chances = self.search.ladder[rung : rung + 1], np.array([0.0, 1.0, 0.5])
        record = np.zeros((4, 1))
        self._slices(0, steps, ladder, np.zeros(1), chances, record)
        if record[0, 0] == 0:
            return float(kernels.cost_of(self.state, self.search.size_cost, self.search.kind))
        return float(record[3, 0] / record[0, 0])

    def walk(self, rung: int, weights: FloatArray, steps: int) -> None:
        """Walk by MHAV over the whole ladder."""
        record = np.zeros((4, len(self.search.ladder)))
        self._slices(rung, steps, self.search.ladder, weights, self.search.chances, record)

    def _slices(
        self, rung: int, steps: int, ladder: FloatArray, weights: FloatArray, chances: FloatArray, record: FloatArray
    ) -> None:
        search = self.search
        while steps > 0:
            try:
                if search.over:
                    return
                now = min(steps, SLICE)
                rung, self.best_cost = chain.walk(
                    self.state, self.trial, search.distance, search.directed, search.kind, search.size_cost,
                    ladder, weights, search.theta, chances, search.log_factorial,
                    rung, now, self.rng, self.best, self.best_cost, record,
                )  # fmt: skip
            except KeyboardInterrupt:
                search.stop.set()
                return
            steps -= now
            self.done += now
            place = min(TRACE - 1, self.done * TRACE // search.iterations)
            self.trace[place:] = self.best_cost


def _check(
    distance: FloatArray, episodes: float | None, n_clusters: int | None, max_radius: float | None,
    restarts: int, iterations: int, variant: str, theta: float, time_limit: float | None, certify: bool, kind: str,
) -> None:  # fmt: skip
    """Refuse settings that make no sense, by name."""
    caller = "search_clusterings"
    if n_clusters is not None and max_radius is not None:
        raise InvalidInputError(f"{caller}: n_clusters and max_radius are both given, must be one question at a time")
    if episodes is None and n_clusters is None and max_radius is None:
        raise InvalidInputError(f"{caller}: give episodes and span, or n_clusters, or max_radius")
    most = min(distance.shape)
    whole = isinstance(n_clusters, int | np.integer) and not isinstance(n_clusters, bool)
    if n_clusters is not None and not (whole and 1 <= n_clusters <= most):
        raise InvalidInputError(f"{caller}: n_clusters is {n_clusters!r}, must be in 1..{most}")
    if max_radius is not None and not max_radius >= 0:
        raise InvalidInputError(f"{caller}: max_radius is {max_radius!r}, must be at least 0")
    for name, value in (("restarts", restarts), ("iterations", iterations)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InvalidInputError(f"{caller}: {name} is {value!r}, must be a positive whole number")
    if variant not in ("default", "paper"):
        raise InvalidInputError(f"{caller}: variant is {variant!r}, must be 'default' or 'paper'")
    if not (np.isfinite(theta) and theta > 0):
        raise InvalidInputError(f"{caller}: theta is {theta!r}, must be a positive number")
    if time_limit is not None and not time_limit > 0:
        raise InvalidInputError(f"{caller}: time_limit is {time_limit!r}, must be a positive number of seconds")
    if certify and kind != "average":
        raise InvalidInputError(f"{caller}: certify needs kind 'average', got {kind!r}")
