"""The restarts of a search: a problem that any worker can be sent, and walks that can be kept."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pastmaster import parallel
from pastmaster.arrays import Array, FloatArray, IntArray
from pastmaster.clustering import _chain_kernels as chain_kernels, _kernels as kernels
from pastmaster.clustering.baselines import default_thresholds, greedy_labels
from pastmaster.clustering.chain import Chain
from pastmaster.clustering.programs import pair_program, recombined
from pastmaster.clustering.question import DistanceProblem
from pastmaster.shield import Shield

TRACE = 100  # points kept of a restart's best cost
SLICE = 20_000  # steps between looks at the clock
WORK = 2 * 10**9  # distances that are read at most between two looks, where tasks are many
GREEDY_SHARE = 4  # one restart in so many starts from a greedy clustering
PROGRAM = 5.0  # seconds for an integer program that recombines cells
SMALL = 2000  # up to so many tasks every restart is mended by descent and the cells of all are recombined exactly
MOST_WITHIN = 2 * 10**8  # tasks times cells that are recombined, where tasks are more
SAVED = ("labels", "cost", "trace")  # of a walk
STAY = np.array([0.0, 1.0, 0.5])  # the chances of a walk that stays on its rung
Restart = tuple[int, np.random.Generator]
"""The number of a restart and its random stream."""


@dataclass(frozen=True)
class Walk:
    """What one restart found."""

    labels: IntArray
    cost: float
    trace: FloatArray
    complete: bool  # whether it ran to its end, which alone is the same every time


class Search:
    """One search: its problem, its chain's settings, and a flag that ends it early. ``plain``: only the chain."""

    def __init__(
        self,
        problem: DistanceProblem,
        chain: Chain,
        iterations: int,
        *,
        plain: bool = False,
        deadline: float = math.inf,
    ) -> None:
        self.problem, self.iterations, self.plain, self.deadline = problem, iterations, plain, deadline
        self.ladder, self.theta = chain.rungs(problem.distance, float(problem.size_cost.max())), chain.theta
        self.chances = np.array([chain.alpha, chain.beta, chain.up])
        self.n_clusters, self.stop = problem.question.n_clusters, threading.Event()
        self.log_factorial = np.array([math.lgamma(n + 1) for n in range(problem.n_tasks + 1)])

    def __getstate__(self) -> dict[str, Any]:
        """For another process, with which it shares the clock on the wall, but neither a timer nor a flag."""
        state = self.__dict__ | {"deadline": self.deadline - time.perf_counter() + time.time()}
        del state["stop"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"stop": threading.Event()}
        self.deadline += time.perf_counter() - time.time()

    def start(self, index: int, rng: np.random.Generator) -> IntArray:
        """Where restart ``index`` begins: one in four (of many tasks: the first) from a greedy scan."""
        problem, n_tasks = self.problem, self.problem.n_tasks
        greedy = index % GREEDY_SHARE == 0 if n_tasks <= SMALL else index == 0
        if greedy and not self.plain and not (index and self.over):
            labels = greedy_labels(problem, default_thresholds(problem.distance), rng, self.deadline)
        else:
            most = self.n_clusters or max(1, math.isqrt(n_tasks))
            labels = rng.integers(most, size=n_tasks).astype(np.int32)
        return self._allowed(labels, rng)

    def _allowed(self, labels: IntArray, rng: np.random.Generator) -> IntArray:
        """A partition with the number of cells asked for: the smallest ones merged, or random tasks set apart."""
        labels = self.problem.labels("search_clusterings", labels)
        if self.n_clusters is None:
            return labels
        while labels.max() + 1 > self.n_clusters:
            smallest, next_smallest = np.argsort(np.bincount(labels), kind="stable")[:2]
            labels[labels == smallest] = next_smallest
            labels = self.problem.labels("search_clusterings", labels)
        while labels.max() + 1 < self.n_clusters:
            crowded = np.flatnonzero(np.bincount(labels)[labels] > 1)
            labels[rng.choice(crowded)] = labels.max() + 1
        return labels

    def recombine(self, walks: list[Walk], best: Walk) -> IntArray:
        """The best clustering that can be made of all the walks' cells, or of one walk, after descent.

        Where tasks are many, of the cells of the best walks, as many as memory allows.
        """
        problem = self.problem
        many = problem.n_tasks > SMALL
        labels, cost = best.labels, best.cost
        if self.plain or self.over:
            return labels
        if many:
            labels, cost = problem.descended(labels, self.deadline)
        if problem.kind != kernels.AVERAGE or (many and not problem.directed):
            return labels
        pairs = self._pairs(walks, MOST_WITHIN // problem.n_tasks if many else None)
        centre, radius = np.array([j for j, _ in pairs]), np.array([r for _, r in pairs])
        c = int(best.labels.max()) + 1
        counts = range(c, c + 1)
        if self.n_clusters is None:
            counts = range(max(1, c - 1), min(len(pairs), c + 1) + 1)
        for count in counts:
            if self.over:
                break
            deadline = min(self.deadline, time.perf_counter() + PROGRAM)
            if many:
                made = recombined(problem, centre, radius, count, deadline, SMALL)
            else:
                made = pair_program(problem, centre, radius, count, deadline)[1]
            if made is None or (many and self.n_clusters is not None and len(np.unique(made)) != count):
                continue
            made, made_cost = problem.descended(made, self.deadline)
            if made_cost < cost:
                labels, cost = made, made_cost
        return labels

    def _pairs(self, walks: list[Walk], most: int | None) -> list[tuple[int, float]]:
        """The representatives and radii of the walks' cells, of the cheapest walks first, in order."""
        pairs: set[tuple[int, float]] = set()
        for walk in sorted(walks, key=lambda walk: walk.cost):
            cells = self.problem.cells(walk.labels)
            more = pairs | {*zip(cells.representatives.tolist(), cells.radii.tolist(), strict=True)}
            if pairs and most is not None and len(more) > most:
                break
            pairs = more
        return sorted(pairs)

    def restart(self, item: Restart) -> Walk:
        """One walk; Ctrl-C ends it with the best it has met."""
        index, rng = item
        walker: _Walker | None = None
        try:
            walker = _Walker(self, self.start(index, rng), rng)
            return self._walk(walker)
        except KeyboardInterrupt:
            self.stop.set()
            walker = walker or _Walker(self, self._allowed(np.zeros(self.problem.n_tasks, np.int32), rng), rng)
            return Walk(walker.labels, walker.best_cost, walker.trace, False)

    def walks(
        self, items: list[Restart], folder: Path | None, n_jobs: int, executor: Executor | None, progress: bool
    ) -> list[Walk]:
        """All walks, those kept in the folder included; Ctrl-C ends them early."""
        saved: parallel.Saved[Restart, Walk] | None = None
        if folder is not None:
            problem = self.problem
            arrays = [problem.distance, problem.size_cost, self.ladder, self.chances]
            numbers = [problem.directed, problem.kind, self.plain, self.iterations, self.theta, self.n_clusters]
            key = parallel.digest("search_clusterings", arrays, numbers, items)
            saved = parallel.Saved(folder, key, _walks_to_arrays, _walks_from_arrays)
        return parallel.run(
            self.restart,
            items,
            n_jobs=n_jobs,
            executor=executor,
            save=saved,
            progress=progress,
            label="clustering",
            on_interrupt=self.stop.set,
            caller="search_clusterings",
        )

    def _walk(self, walker: _Walker) -> Walk:
        """The burn-in, the walk and the descent."""
        burn_in = 0 if self.plain or len(self.ladder) == 1 else self.iterations // 2
        n_rungs, weights, rung = len(self.ladder), np.zeros(len(self.ladder)), 0
        if burn_in:
            mean_cost = np.empty(n_rungs)
            for rung in range(n_rungs):
                share = burn_in * (rung + 1) // n_rungs - burn_in * rung // n_rungs
                steps, total = walker.walk(0, share, self.ladder[rung : rung + 1], np.zeros(1), STAY)
                mean_cost[rung] = total / steps if steps else walker.cost
            between = 0.5 * (mean_cost[1:] + mean_cost[:-1])
            weights[1:] = np.cumsum(np.diff(self.ladder) * between)
        walker.walk(rung, self.iterations - burn_in, self.ladder, weights, self.chances)
        labels, cost = walker.labels, walker.best_cost
        if not self.plain and not self.over and self.problem.n_tasks <= SMALL:
            labels, cost = self.problem.descended(labels, self.deadline)
            walker.trace[-1] = min(walker.trace[-1], cost)
        return Walk(labels, cost, walker.trace, not self.over)

    @property
    def over(self) -> bool:
        """Whether time is up or the user has asked to stop."""
        return self.stop.is_set() or time.perf_counter() > self.deadline


def _walks_to_arrays(walks: list[Walk]) -> dict[str, Array] | None:
    if not all(walk.complete for walk in walks):
        return None
    return {name: np.stack([getattr(walk, name) for walk in walks]) for name in SAVED}


def _walks_from_arrays(arrays: Mapping[str, Array], items: Sequence[Restart]) -> list[Walk]:
    walks = zip(*(arrays[name] for name in SAVED), strict=True)
    return [Walk(labels, float(cost), trace, True) for labels, cost, trace in walks]


class _Walker:
    """A chain under way: the partition it is in, and the best it has met."""

    def __init__(self, search: Search, start: IntArray, rng: np.random.Generator) -> None:
        self.search, self.rng = search, rng
        self.state, self.move = search.problem.state(start), kernels.new_move(*search.problem.distance.shape)
        self.best, self.best_cost = start.copy(), self.cost
        self.trace = np.full(TRACE, self.best_cost)
        self.done = 0

    @property
    def labels(self) -> IntArray:
        """The best it has met; the chain leaves gaps where cells vanished."""
        return self.search.problem.labels("search_clusterings", self.best)

    @property
    def cost(self) -> float:
        """The cost of where it is."""
        return float(kernels.cost_of(self.state, self.search.problem.size_cost, self.search.problem.kind))

    def walk(
        self, rung: int, steps: int, ladder: FloatArray, weights: FloatArray, chances: FloatArray
    ) -> tuple[float, float]:
        """Walk by MHAV on a ladder; returns the steps made on its first rung and the sum of the costs met there."""
        search, problem, record = self.search, self.search.problem, np.zeros((4, len(ladder)))
        while steps > 0 and not search.over:
            try:
                now = min(steps, SLICE if problem.n_tasks <= SMALL else max(1, WORK // problem.distance.size))
                with Shield():
                    rung, self.best_cost = chain_kernels.walk(
                        self.state, self.move, problem.distance, problem.directed, problem.kind, problem.size_cost,
                        ladder, weights, search.theta, chances, search.log_factorial,
                        rung, now, self.rng, self.best, self.best_cost, record,
                    )  # fmt: skip
            except KeyboardInterrupt:
                search.stop.set()
                break
            steps -= now
            self.done += now
            place = min(TRACE - 1, self.done * TRACE // search.iterations)
            self.trace[place:] = self.best_cost
        return record[0, 0], record[3, 0]
