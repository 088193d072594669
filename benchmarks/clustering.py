"""Distances to clusterings, against greedy, FasterPAM and simulated annealing."""

from __future__ import annotations

import contextlib
import io
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import kmedoids
import numpy as np
from simanneal import Annealer

import pastmaster
from benchmarks.measure import Row, machine, write
from pastmaster.arrays import sealed
from pastmaster.clustering import _chain_kernels as chain, _kernels as kernels
from pastmaster.clustering.cost import canonical_labels, filled
from pastmaster.domains import surveillance, windy_corridor

EPISODES = 10_000
SEEDS = 20


class Instance(NamedTuple):
    """A benchmark: its distances and the span of a return."""

    name: str
    distance: Any
    span: float

    def cost(self, labels: Any) -> float:
        return pastmaster.clustering_cost(self.distance, labels, episodes=EPISODES, span=self.span)


def run() -> None:
    rows = [*(row for instance in instances() for row in compare(instance)), *steps(), *small(), *large()]
    write("clustering", machine("kmedoids", "simanneal"), rows)


def instances() -> Iterator[Instance]:
    yield instance("windy corridor, 100", windy_corridor.family())
    settings = ((256, 2, 16, False), (200, 3, 10, False), (300, 3, 20, False), (200, 2, 12, True))
    for n_tasks, n_targets, n_sequences, hubs in settings:
        rng = np.random.default_rng(0)
        tasks = surveillance.family(n_tasks, n_targets, rng=rng, n_sequences=n_sequences, complex=hubs)
        yield instance(f"{'complex ' if hubs else ''}surveillance, {n_targets} targets, {n_tasks}", tasks)


def instance(name: str, tasks: list[pastmaster.TabularMDP]) -> Instance:
    distance = pastmaster.policy_distance(pastmaster.cross_values(tasks, n_jobs=2))
    return Instance(name, distance, pastmaster.return_bounds(tasks).span)


def compare(case: Instance) -> Iterator[Row]:
    """Our worst of 20 seeds against the best of the peers', and the certified gap."""
    found, seconds = [], []
    for seed in range(SEEDS):
        begun = time.perf_counter()
        found.append(search(case, seed))
        seconds.append(time.perf_counter() - begun)
    worst = max(clustering.cost for clustering in found)
    took = float(np.median(seconds[1:]))
    greedy = min(greedy_cost(case, seed) for seed in range(SEEDS))
    peers = {
        "greedy": greedy,
        "FasterPAM": faster_pam(case),
        "simanneal": min(annealed(case, took, s) for s in range(3)),
    }
    best = min(peers, key=lambda name: peers[name])
    shown = ", ".join(f"{name} {cost:.4f}" for name, cost in peers.items())
    ok = worst <= peers[best] * (1 + 1e-12)
    costs = f"{min(c.cost for c in found):.4f} to {worst:.4f}"
    yield Row(f"{case.name}: cost, {SEEDS} seeds, {took:.1f} s", costs, shown, "", "<= every peer", ok)
    begun = time.perf_counter()
    bound = pastmaster.cost_lower_bound(
        case.distance, episodes=EPISODES, span=case.span, labels=min(found, key=lambda c: c.cost).labels
    )
    took = time.perf_counter() - begun
    optimal = ", proven optimal" if bound.gap <= 1e-5 else ""
    gap = f"{100 * bound.gap:.4f}%{optimal}, {took:.0f} s"
    yield Row(f"{case.name}: certified gap", gap, "", "", "<= 1% in 30 s", bound.gap <= 0.01)


def search(case: Instance, seed: int) -> pastmaster.Clustering:
    rng = np.random.default_rng(seed)
    return pastmaster.search_clusterings(case.distance, episodes=EPISODES, span=case.span, rng=rng, n_jobs=2)


def greedy_cost(case: Instance, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return pastmaster.greedy_clustering(case.distance, episodes=EPISODES, span=case.span, rng=rng).cost


def faster_pam(case: Instance) -> float:
    """The best of FasterPAM for 1 to 40 medoids, 10 starts each."""
    results = (
        kmedoids.fasterpam(case.distance, n_medoids, random_state=start, n_cpu=1)
        for n_medoids in range(1, 41)
        for start in range(10)
    )
    return min(case.cost(result.labels.astype(int)) for result in results)


class Tasks(Annealer):  # type: ignore[misc]  # simanneal ships no types
    """The same problem for simanneal, from a greedy start: move one task to another's cell or to a new one."""

    def __init__(self, case: Instance, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        start = pastmaster.greedy_clustering(case.distance, episodes=EPISODES, span=case.span, rng=self.rng)
        self.matrix, n_tasks = start.distance, len(start.distance)
        self.size_cost = pastmaster.regret_bound(np.arange(n_tasks + 1), EPISODES, case.span)
        self.kernel_state = kernels.new_state(n_tasks, n_tasks, False)
        super().__init__(initial_state=start.labels.copy())
        self.copy_strategy = "method"

    def move(self) -> None:
        i, j = self.rng.integers(len(self.state), size=2)
        self.state[i] = self.state[j] if self.rng.random() < 0.95 else self.state.max() + 1

    def energy(self) -> float:
        """The cost by our own compiled code: what is compared is the search."""
        labels = np.unique(self.state, return_inverse=True)[1].astype(np.int32)
        kernels.fill(self.kernel_state, sealed(labels), self.matrix, False, kernels.AVERAGE)
        return float(kernels.cost_of(self.kernel_state, self.size_cost, kernels.AVERAGE))


def annealed(case: Instance, seconds: float, seed: int) -> float:
    problem = Tasks(case, seed)
    begun = time.perf_counter()
    for _ in range(50):
        problem.energy()
    each = (time.perf_counter() - begun) / 50
    problem.Tmax, problem.Tmin, problem.updates = 0.1 * problem.energy(), 1e-5 * problem.energy(), 0
    problem.steps = max(10, int(seconds / each))
    with contextlib.redirect_stderr(io.StringIO()):
        return float(problem.anneal()[1])


def steps() -> Iterator[Row]:
    """Steps of the chain per second at N = 300, and how a step's time grows with the size of the cells."""
    case = next(c for c in instances() if c.name.endswith("300"))
    rng = np.random.default_rng(0)
    start = pastmaster.greedy_clustering(case.distance, episodes=EPISODES, span=case.span, rng=rng).labels
    rate = 1.0 / step_seconds(case.distance, start, case.span, 200.0)
    yield Row("MHAV steps per second and core, N = 300", f"{rate:,.0f}", "", "", ">= 1,000,000", rate >= 1e6)
    random = np.random.default_rng(1).random((2400, 2400))
    random = random + random.T
    np.fill_diagonal(random, 0)
    times = []
    for size in (10, 40, 160, 640):
        labels = np.arange(len(random)) // size
        times.append(step_seconds(random, labels, 1.0, 1e9))
    shown = ", ".join(f"{size}: {1e6 * t:.2f} µs" for size, t in zip((10, 40, 160, 640), times, strict=True))
    growth = math.log(times[3] / times[1]) / math.log(16)
    yield Row(
        f"a step by cell size (N = 2,400): {shown}", f"size^{growth:.2f}", "", "", "linear, not square", growth < 1.3
    )


def step_seconds(distance: Any, labels: Any, span: float, rung: float, iterations: int = 200_000) -> float:
    """The time of one step on one rung."""
    matrix, n_tasks = sealed(np.asarray(distance)), len(distance)
    state = filled(matrix, canonical_labels("benchmark", labels, n_tasks), False, kernels.AVERAGE)
    move = kernels.new_move(n_tasks, n_tasks)
    size_cost = pastmaster.regret_bound(np.arange(n_tasks + 1), EPISODES, span)
    log_factorial = np.array([math.lgamma(n + 1) for n in range(n_tasks + 1)])
    best, rng = state.label.copy(), np.random.default_rng(0)

    def walk(n: int) -> float:
        begun = time.perf_counter()
        chain.walk(
            state, move, matrix, False, kernels.AVERAGE, size_cost, np.array([rung]), np.zeros(1), 1.0,
            np.array([0.1, 0.8, 0.5]), log_factorial, 0, n, rng, best, np.inf, np.zeros((4, 1)),
        )  # fmt: skip
        return (time.perf_counter() - begun) / n

    walk(1000)
    return min(walk(iterations) for _ in range(3))


def small() -> Iterator[Row]:
    """How often the search finds the enumerated optimum of nine tasks."""
    hits = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        half = rng.random((9, 9)) * rng.choice([1.0, 10.0], size=(9, 9))
        distance = np.triu(half, 1) + np.triu(half, 1).T
        best = pastmaster.exhaustive_clustering(distance, episodes=1000, span=5.0)
        found = pastmaster.search_clusterings(distance, episodes=1000, span=5.0, rng=rng, restarts=4, iterations=5000)
        hits += found.cost <= best.cost * (1 + 1e-12)
    yield Row("optimum of 9 random tasks found", f"{hits} of 100 seeds", "", "", ">= 99", hits >= 99)


def large() -> Iterator[Row]:
    """A matrix of 10,000 tasks, in a process of its own."""
    code = (
        "import resource, time, numpy as np, pastmaster\n"
        "rng = np.random.default_rng(0); n = 10_000; group = rng.integers(120, size=n)\n"
        "d = 30 + 40 * rng.random((n, n))\n"
        "for a in range(0, n, 500): d[a:a + 500][group[a:a + 500, None] == group[None]] *= 0.1\n"
        "for a in range(n): d[a, a] = 0; d[a + 1:, a] = d[a, a + 1:]\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; begun = time.perf_counter()\n"
        "pastmaster.search_clusterings(d, episodes=10_000, span=100.0, rng=rng, n_jobs=2)\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(time.perf_counter() - begun, (after - before) / 2**20)"
    )
    took, memory = map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())
    shown = f"{took:.0f} s, {memory:.2f} GB beyond"
    yield Row("10,000 tasks clustered", shown, "", "", "< 300 s, < 2 GB", took < 300 and memory < 2)
