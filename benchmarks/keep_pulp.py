"""Which few policies of a table, against PuLP: the textbook model with its own solver CBC, and with HiGHS."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pulp

from benchmarks.keep import SAME, Case, Outcome, case, ours, timed
from benchmarks.measure import Row, machine, show, write

TABLES = 30  # the first of those of ``keep``
SECONDS = 15.0  # for the solver; building the model comes on top
GAP = 1e-6


def run() -> None:
    write("keep pulp", machine("pulp", "highspy"), list(against()))


def solver(name: str) -> pulp.LpSolver:
    """A solver of PuLP, on one thread, as ours."""
    made = pulp.PULP_CBC_CMD if name == "CBC" else pulp.HiGHS
    return made(msg=False, timeLimit=SECONDS, gapRel=GAP, threads=1)


def modelled(given: Case, name: str) -> Outcome:
    """y_j: column j is kept; x_ij <= y_j: task i is served by it."""
    begun, losses = time.perf_counter(), given.losses
    n_tasks, n_policies = losses.shape
    model = pulp.LpProblem("keep", pulp.LpMinimize)
    kept = [pulp.LpVariable(f"y{j}", cat="Binary") for j in range(n_policies)]
    served = [[pulp.LpVariable(f"x{i}_{j}", 0, 1) for j in range(n_policies)] for i in range(n_tasks)]
    model += pulp.lpSum(losses[i, j] * served[i][j] for i in range(n_tasks) for j in range(n_policies)) / n_tasks
    model += pulp.lpSum(kept) == given.k
    for row in served:
        model += pulp.lpSum(row) == 1
        for x, y in zip(row, kept, strict=True):
            model += x <= y
    model.solve(solver(name))
    columns = [j for j, y in enumerate(kept) if (y.value() or 0.0) > 0.5]
    cost = given.cost(columns) if len(columns) == given.k else float("inf")
    proven = model.sol_status == pulp.LpSolutionOptimal  # the status of the model calls a stop optimal too
    return Outcome(cost, proven, time.perf_counter() - begun)


def against() -> Iterator[Row]:
    """Who finds the least, who proves it, and how fast."""
    results = []
    ours(case(TABLES, logarithmic=True))  # compiles
    for seed in range(TABLES):
        given = case(seed, logarithmic=True)
        peers = {name: modelled(given, name) for name in ("CBC", "HiGHS")}
        results.append((timed(ours, given), peers))
        print(seed, given.kind, given.scores.shape, given.k, *results[-1], flush=True)
    for name in ("CBC", "HiGHS"):
        pairs = [(own, peers[name]) for own, peers in results]
        above = sum(own.cost > SAME * peer.cost for own, peer in pairs)
        below = sum(peer.cost > SAME * own.cost for own, peer in pairs)
        found = f"below in {below}, above in {above} of {TABLES}"
        yield Row(f"mean loss against PuLP with {name}", found, "", "", "never above", above == 0)
        both = [(own.seconds, peer.seconds) for own, peer in pairs if own.proven and peer.proven]
        ratios = sorted(peer / own for own, peer in both)
        own_time, peer_time = (show(sum(side)) for side in zip(*both, strict=True))
        ratio = f"{ratios[len(ratios) // 2]:.0f} (median), {ratios[0]:.1f} (least)"
        proven = sum(peer.proven for _, peer in pairs)
        what = f"time where both prove it ({len(both)} of {TABLES}; PuLP with {name} proves {proven}), in all"
        yield Row(what, own_time, peer_time, ratio, ">= 10", ratios[0] >= 10)
