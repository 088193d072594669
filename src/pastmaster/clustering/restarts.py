"""The restarts of a search: a problem that any worker can be sent, and walks that can be kept."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.arrays import FloatArray
from pastmaster.clustering import _chain_kernels as chain, _kernels as kernels
from pastmaster.clustering.bound import integer_program
from pastmaster.clustering.cost import canonical_labels, filled, measure_cells
from pastmaster.clustering.greedy import default_thresholds, descended, greedy_labels

Labels = npt.NDArray[np.int32]
TRACE = 100  # points kept of a restart's best cost
SLICE = 20_000  # steps between looks at the clock
GREEDY_SHARE = 4  # one restart in so many starts from a greedy clustering
SMALL = 2000  # up to so many tasks every restart is mended by descent and the cells of all are recombined
Job = tuple[int, np.random.Generator]
"""A restart: its number and its random stream."""


@dataclass(frozen=True)
class Walk:
    """What one restart found."""

    labels: Labels
    cost: float
    trace: FloatArray
    complete: bool  # whether it ran to its end, which alone is the same every time


class Search:
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

    def __getstate__(self) -> dict[str, Any]:
        """For another process, with which it shares the clock on the wall, but neither a timer nor a flag."""
        state = self.__dict__ | {"deadline": self.deadline - time.perf_counter() + time.time()}
        del state["stop"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"stop": threading.Event()}
        self.deadline += time.perf_counter() - time.time()

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

    def recombine(self, walks: list[Walk], best: Walk) -> Labels:
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

    def restart(self, job: Job) -> Walk:
        """One walk; Ctrl-C ends it with the best it has met."""
        index, rng = job
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
            return Walk(labels, walker.best_cost, walker.trace, False)

    def saved(self, folder: Path, jobs: list[Job]) -> parallel.Saved[Job, Walk]:
        """Where walks are kept."""
        arrays = [self.distance, self.size_cost, self.ladder, self.chances]
        numbers = [self.directed, self.kind, self.plain, self.iterations, self.theta, self.n_clusters]
        key = parallel.digest("search_clusterings", arrays, numbers, jobs)
        return parallel.Saved(folder, key, _walks_to_arrays, self._walks_from_arrays)

    def _walks_from_arrays(self, arrays: Mapping[str, npt.NDArray[Any]], jobs: Sequence[Job]) -> list[Walk]:
        labels, cost, trace = arrays["labels"], arrays["cost"], arrays["trace"]
        shapes = (len(jobs), len(self.distance)), (len(jobs),), (len(jobs), TRACE)
        types = [array.dtype.str for array in (labels, cost, trace)]
        if (labels.shape, cost.shape, trace.shape) != shapes or types != ["<i4", "<f8", "<f8"]:
            raise ValueError("its walks do not fit")
        if labels.min() < 0 or labels.max() >= len(self.distance):
            raise ValueError("its labels are no labels")
        return [Walk(*walk, True) for walk in zip(labels, cost.tolist(), trace, strict=True)]

    def _walk(self, walker: _Walker) -> Walk:
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
        return Walk(labels, cost, walker.trace, not self.over)

    @property
    def over(self) -> bool:
        """Whether time is up or the user has asked to stop."""
        return self.stop.is_set() or time.perf_counter() > self.deadline


def _walks_to_arrays(walks: list[Walk]) -> dict[str, npt.NDArray[Any]] | None:
    if not all(walk.complete for walk in walks):
        return None
    return {
        "labels": np.stack([walk.labels for walk in walks]),
        "cost": np.array([walk.cost for walk in walks]),
        "trace": np.stack([walk.trace for walk in walks]),
    }


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

    def __init__(self, search: Search, start: Labels, rng: np.random.Generator) -> None:
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
