"""Which few policies of a table, against FasterPAM, the greedy portfolio and the textbook integer program."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import kmedoids
import numpy as np

import pastmaster
from benchmarks.measure import Row, machine, show, write
from pastmaster.clustering.losses import losses_of

TABLES = 200
SECONDS = 30.0
KINDS = ("uniform", "groups", "factors", "run times", "places")
SAME = 1 + 1e-9
Array = Any


class Case(NamedTuple):
    """A table, how many columns to keep, and what tasks lose under each."""

    kind: str
    scores: Array
    k: int

    @property
    def losses(self) -> Array:
        return losses_of(self.scores)

    def cost(self, columns: Array) -> float:
        return float(self.losses[:, columns].min(axis=1).mean())


def run() -> None:
    rows = [*against(), *sizes(), *large(), *small()]
    write("keep", machine("kmedoids"), rows)


def scores(kind: str, n_tasks: int, n_policies: int, rng: np.random.Generator) -> Array:
    """A random table of a kind: no structure at all, groups of tasks, a few factors, run times with a cap, places."""
    noise = rng.normal(size=(n_tasks, n_policies))
    if kind == "uniform":
        return rng.random((n_tasks, n_policies))
    if kind == "groups":
        n_groups = int(rng.integers(2, 20))
        return rng.normal(size=(n_groups, n_policies))[rng.integers(n_groups, size=n_tasks)] + 0.3 * noise
    if kind == "factors":
        rank = int(rng.integers(2, 6))
        return rng.normal(size=(n_tasks, rank)) @ rng.normal(size=(rank, n_policies)) + 0.2 * noise
    if kind == "run times":
        hardness, slowness = rng.normal(0, 2, size=(n_tasks, 1)), rng.normal(0, 0.5, size=(1, n_policies))
        return -np.minimum(np.exp(hardness + slowness + 1.5 * noise), 50.0)
    between = rng.random((n_tasks, 1, 2)) - rng.random((1, n_policies, 2))
    return -np.sqrt((between**2).sum(axis=-1))


def case(seed: int, *, logarithmic: bool) -> Case:
    """N from 20 to 500 and M from 5 to 200, all sizes or all magnitudes equally likely; k from 2 to 10, below M."""
    rng = np.random.default_rng([18, seed])
    if logarithmic:
        n_tasks, n_policies = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((20, 501), (5, 201)))
    else:
        n_tasks, n_policies = int(rng.integers(20, 501)), int(rng.integers(5, 201))
    kind = KINDS[seed % len(KINDS)]
    return Case(kind, scores(kind, n_tasks, n_policies, rng), min(int(rng.integers(2, 11)), n_policies - 1))


class Outcome(NamedTuple):
    """What one method found: the mean loss, whether that is proven, and the seconds."""

    cost: float
    proven: bool
    seconds: float


def timed(method: Callable[[Case], tuple[float, bool]], given: Case) -> Outcome:
    """What a method finds; of one that is quick, the best time of five."""
    times = list[float]()
    while not times or (len(times) < 5 and times[0] < 0.5):
        begun = time.perf_counter()
        cost, proven = method(given)
        times.append(time.perf_counter() - begun)
    return Outcome(cost, proven, min(times))


def ours(given: Case) -> tuple[float, bool]:
    found = pastmaster.keep(given.scores, k=given.k, time_limit=SECONDS, rng=0)
    return found.mean_loss, found.is_optimal


def faster_pam(given: Case) -> float:
    """The best of ten starts. Its matrix must be square: policies are points that any medoid serves for nothing."""
    n_tasks, n_policies = given.losses.shape
    square = np.zeros((n_tasks + n_policies, n_tasks + n_policies))
    square[:n_tasks, :n_tasks] = 10.0 * given.losses.sum()  # a task cannot be a medoid
    square[:n_tasks, n_tasks:] = given.losses
    rng, costs = np.random.default_rng(0), []
    for _ in range(10):
        start = n_tasks + rng.choice(n_policies, given.k, replace=False)
        found = kmedoids.fasterpam(square, start.astype(np.uint64), n_cpu=1).medoids.astype(int)
        costs.append(given.cost(found[found >= n_tasks] - n_tasks))
    return min(costs)


def portfolio(given: Case) -> float:
    """Greedy: each time the column that lowers the mean loss most."""
    losses, kept = given.losses, list[int]()
    least = np.full(len(losses), losses.max())
    for _ in range(given.k):
        kept.append(int(np.minimum(losses, least[:, None]).mean(axis=0).argmin()))
        least = np.minimum(least, losses[:, kept[-1]])
    return given.cost(kept)


def textbook(given: Case) -> tuple[float, bool]:
    """y_j: column j is kept; x_ij <= y_j: task i is served by it. HiGHS, with the gap that we prove."""
    from scipy import optimize, sparse

    losses = given.losses
    n_tasks, n_policies = losses.shape
    x = sparse.eye_array(n_tasks * n_policies)
    y = sparse.csr_array(np.tile(np.eye(n_policies), (n_tasks, 1)))
    served = sparse.hstack(
        [sparse.csr_array((n_tasks, n_policies)), sparse.kron(sparse.eye_array(n_tasks), np.ones(n_policies))]
    )
    size = np.concatenate([np.ones(n_policies), np.zeros(n_tasks * n_policies)])[None]
    found = optimize.milp(
        np.concatenate([np.zeros(n_policies), losses.ravel() / n_tasks]),
        constraints=[
            optimize.LinearConstraint(sparse.csr_array(served), 1.0, 1.0),
            optimize.LinearConstraint(sparse.csr_array(sparse.hstack([-y, x])), -np.inf, 0.0),
            optimize.LinearConstraint(size, given.k, given.k),
        ],
        integrality=np.concatenate([np.ones(n_policies), np.zeros(n_tasks * n_policies)]),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": SECONDS, "mip_rel_gap": 1e-6},
    )
    cost = np.inf if found.x is None else given.cost(np.flatnonzero(found.x[:n_policies] > 0.5))
    return cost, found.status == 0


def against() -> Iterator[Row]:
    """Two hundred tables: who finds the least, who proves it, and how fast."""
    results = []
    ours(case(TABLES, logarithmic=True))  # compiles
    for seed in range(TABLES):
        given = case(seed, logarithmic=True)
        peers = {"FasterPAM": faster_pam(given), "greedy": portfolio(given)}
        results.append((given, timed(ours, given), peers, timed(textbook, given)))
        print(seed, given.kind, given.scores.shape, given.k, *results[-1][1:], flush=True)
    for name in ("FasterPAM", "greedy", "textbook"):
        costs = [(own.cost, peer.get(name, book.cost)) for _, own, peer, book in results]
        above = sum(own > SAME * other for own, other in costs)
        worse = [other / own - 1 for own, other in costs if other > SAME * own > 0]
        mean = f"{100 * np.mean([min(w, 10.0) for w in worse]):.1f}%" if worse else "-"
        figure = f"below in {len(worse)}, above in {above} of {TABLES}"
        yield Row(f"mean loss against {name}; how far below", figure, "", mean, "never above", above == 0)
    proven = sum(own.proven for _, own, _, _ in results)
    theirs = sum(book.proven for *_, book in results)
    share = f"{proven} of {TABLES}"
    yield Row(
        f"proven optimal within {SECONDS:.0f} s", share, f"{theirs} of {TABLES}", "", ">= 95%", proven >= 0.95 * TABLES
    )
    both = [(own.seconds, book.seconds) for _, own, _, book in results if own.proven and book.proven]
    ratios = np.array([book / own for own, book in both])
    times = show(sum(own for own, _ in both)), show(sum(book for _, book in both))
    ratio = f"{np.median(ratios):.0f} (median), {ratios.min():.1f} (least)"
    yield Row(
        f"time where both prove it ({len(both)} tables), in all", *times, ratio, ">= 10", bool(ratios.min() >= 10)
    )


def sizes() -> Iterator[Row]:
    """The share that is proven if all sizes up to 500 x 200 are equally likely, by kind."""
    for kind in KINDS:
        cases = [case(seed, logarithmic=False) for seed in range(1000, 1000 + TABLES // 2)]
        found = [timed(ours, given) for given in cases if given.kind == kind]
        proven, slowest = sum(outcome.proven for outcome in found), max(outcome.seconds for outcome in found)
        yield Row(
            f"large tables, {kind}: proven", f"{proven} of {len(found)}", "", "", f"slowest {show(slowest)}", None
        )


def large() -> Iterator[Row]:
    """A table of 100,000 tasks, each kind in a process of its own."""
    for kind in KINDS[1:]:
        code = (
            "import resource, time, numpy as np, pastmaster\n"
            "from benchmarks.keep import scores\n"
            f"table = scores({kind!r}, 100_000, 200, np.random.default_rng(1))\n"
            "pastmaster.keep(table[:50], k=3, rng=0); begun = time.perf_counter()\n"
            "found = pastmaster.keep(table, k=10, rng=0, time_limit=40)\n"
            "memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "print(time.perf_counter() - begun, memory / 2**20, found.gap)"
        )
        took, memory, gap = map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())
        shown = f"{took:.0f} s, {memory:.2f} GB, within {100 * gap:.4f}%"
        met = took < 60 and memory < 2 and gap <= 0.01
        goal = "< 60 s, < 2 GB, <= 1%"
        yield Row(f"100,000 x 200, k = 10, {kind}", shown, "", "", goal, met)


def small() -> Iterator[Row]:
    """The first answer for 40 x 12 in a new process, and the next."""
    code = (
        "import time, numpy as np, pastmaster\n"
        "keep, table = pastmaster.keep, np.random.default_rng(0).random((40, 12)); begun = time.perf_counter()\n"
        "keep(table, k=3); first = time.perf_counter()\n"
        "keep(table, k=4); print(first - begun, time.perf_counter() - first)"
    )
    runs = [
        list(map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())) for _ in range(5)
    ]
    first, second = (min(times) for times in zip(*runs, strict=True))
    yield Row(
        "40 x 12, k = 3: the first answer, the next", f"{show(first)}, {show(second)}", "", "", "< 0.5 s", first < 0.5
    )
