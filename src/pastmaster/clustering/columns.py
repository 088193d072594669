"""Choose columns of a table: a good choice by local search, and a proof that none is better.

    least over S, |S| <= most, must in S:   price |S| + sum_i min_{j in S} c[i, j]

It is the k-median problem (price 0), facility location (no limit), and with costs 0 and infinity set cover.

1. *Search.* Greedy, then exchanges in the spirit of FasterPAM, from several starts.
2. *Prices* on tasks bound what any choice costs (``_column_kernels``). Columns whose inclusion lifts the bound above
   the best cost known are closed.
3. *Proof.* A tree over what is left, with the same bound at every node.

The bound is a proof: every rounding error is charged against it, and no solver's tolerances are in it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import BoolArray, FloatArray, LongArray
from pastmaster.clustering import _column_kernels as kernels, _exchange_kernels as exchanges

TOLERANCE = 1e-9  # of the cost: choices that may be better by less than that are not looked for
STARTS = 8  # of the local search
SMALL_TABLE = 2_000_000  # entries of a table up to which all starts are made
ROUNDS, STEPS = 5, 100  # of the ascent before the tree is begun
NODE = 7  # steps at each node of the tree
LOOK = 0.05  # seconds between two looks at the clock


class Choice(NamedTuple):
    """Columns, what they cost (infinite if they do not serve all tasks), and what no choice can be below."""

    columns: LongArray
    cost: float
    lower_bound: float
    interrupted: bool = False


@dataclass(frozen=True, eq=False)
class ColumnProblem:
    """The problem: costs [M, N] by column, at least 0, infinite where a column cannot serve a task.

    ``most`` columns at most are kept, each at a ``price``; those in ``must`` are, those not ``allowed`` [M] are not.
    ``whole``: what choices cost is a multiple of the price, as it is in a set cover, so bounds can be rounded up.
    """

    costs: FloatArray
    most: int
    allowed: BoolArray
    must: tuple[int, ...] = ()
    price: float = 0.0
    whole: bool = False

    def solved(self, rng: np.random.Generator, deadline: float, certify: bool = True, start: Any = ()) -> Choice:
        """The best choice found, and, if ``certify``, a bound; both take time until the deadline at most.

        ``start`` are columns that the search begins with. Ctrl-C ends it with the best so far.
        """
        search = _Search(self, deadline)
        interrupted = False
        try:
            search.start(rng, np.asarray(start, np.int64))
            if certify and search.room > 0:
                search.prove()
        except KeyboardInterrupt:
            interrupted = True
        if search.room == 0:
            search.lower = search.cost * (1.0 - 4.0 * kernels.EPS * (search.n_tasks + 4))  # a sum, rounded
        cost = search.cost if search.cost < search.beyond else math.inf
        if self.whole:
            search.lower = self.price * math.ceil(search.lower / self.price)
        return Choice(search.columns, cost, search.lower, interrupted)


class _Search:
    """The best choice so far, and the least that any choice costs. Columns that must be kept come first."""

    def __init__(self, problem: ColumnProblem, deadline: float) -> None:
        self.deadline, self.price, self.whole = deadline, problem.price, problem.whole
        finite = np.isfinite(problem.costs)
        self.costs = problem.costs if finite.all() else np.where(finite, problem.costs, 0.0)
        dearest = self.costs.max(axis=0).sum() + problem.price * len(problem.costs)
        self.beyond = float(2.0 * dearest + 1.0)
        if not finite.all():
            self.costs[~finite] = self.beyond
        self.n_tasks, self.must = self.costs.shape[1], np.array(problem.must, np.int64)
        self.free = problem.allowed.copy()
        self.free[self.must] = False
        self.room = min(problem.most - len(self.must), int(self.free.sum()))
        self.cap = self.costs[self.must].min(axis=0, initial=self.beyond)
        self.base = self.price * len(self.must)
        self.columns, self.cost, self.lower = self.must, self.base + float(self.cap.sum()), self.base
        self._state = np.empty(self.n_tasks), np.empty(self.n_tasks), np.empty(self.n_tasks, np.int64)

    @property
    def tolerance(self) -> float:
        """How much better a choice must be to be looked for."""
        return (1.0 - 1e-6) * self.price if self.whole else max(TOLERANCE, 1e-13 * self.n_tasks) * self.cost

    def start(self, rng: np.random.Generator, columns: LongArray) -> None:
        """Local search from a greedy choice, from the given one, and from random ones."""
        self.improve(np.empty(0, np.int64), greedy=True)
        free, given = np.flatnonzero(self.free), columns[self.free[columns]][: self.room]
        if len(given):
            self.improve(given, greedy=True)
        size = min(self.room, max(1, len(self.columns) - len(self.must)))
        for _ in range(STARTS if self.costs.size <= SMALL_TABLE else 1):
            if size == 0 or time.perf_counter() > self.deadline:
                break
            self.improve(rng.choice(free, size, replace=False), begin=int(rng.integers(len(self.costs))))

    def improve(self, columns: LongArray, begin: int = 0, greedy: bool = False) -> None:
        """Mend a choice of free columns by local search, and take it if it is the best so far."""
        kept, allowed = np.zeros(len(self.must) + self.room, np.int64), self.free.copy()
        n_kept = len(self.must) + len(columns)
        kept[:n_kept] = np.concatenate([self.must, columns])
        allowed[columns] = False
        if greedy:
            near = self.costs[kept[:n_kept]].min(axis=0, initial=self.beyond)
            n_kept = exchanges.greedy(self.costs, allowed, kept, n_kept, self.price, near)
        n_kept, total = exchanges.improve(
            self.costs, allowed, kept, len(self.must), n_kept, self.price, self.beyond, begin, *self._state
        )
        cost = float(total + self.price * n_kept)
        if cost < self.cost:
            self.cost, self.columns = cost, kept[:n_kept].copy()

    def prove(self) -> None:
        """Prices on tasks raise the bound and close columns; then the tree."""
        columns, u = np.flatnonzero(self.free), self.costs[self.columns].min(axis=0, initial=self.beyond)
        best = np.array([self.cost - self.base, math.inf, 0.0, -1.0])
        for _ in range(ROUNDS):
            costs = self.costs[columns]
            rows, active = np.ascontiguousarray(costs.T), np.ones(len(columns), np.bool_)
            worth, share, room = np.empty(len(columns)), np.zeros(len(columns)), min(self.room, len(columns))
            target = self.cost - self.tolerance - self.base
            bound = kernels.ascend(costs, rows, active, self.cap, room, self.price, u, target, STEPS, worth, share)
            self.lower = max(self.lower, min(self.base + bound, self.base + float(best[kernels.CUT])))
            if bound >= target or time.perf_counter() > self.deadline:
                return
            likely = np.argsort(-share, kind="stable")[:room]
            self.improve(columns[likely[share[likely] > 0.5 if self.price else slice(None)]])
            kernels.fix(worth, active, room, bound, self.cost - self.tolerance - self.base, best)
            columns = columns[active]
        best[kernels.COST] = self.cost - self.base
        self._explore(columns, u, best)

    def _explore(self, columns: LongArray, u: FloatArray, best: FloatArray) -> None:
        """The tree over these columns, with prices ``u`` to begin with."""
        costs, room = self.costs[columns], min(self.room, len(columns))
        rows = np.ascontiguousarray(costs.T)
        caps, prices = np.empty((room + 1, self.n_tasks)), np.empty((room + 1, self.n_tasks))
        caps[0], prices[0] = self.cap, u
        active = np.ones((room + 1, len(columns)), np.bool_)
        column, kept, lower = np.zeros(room + 1, np.int64), np.zeros(room + 1, np.int64), np.full(room + 1, -math.inf)
        tolerance, nodes = self.tolerance, 1
        while best[kernels.LEVEL] >= 0 and time.perf_counter() < self.deadline:
            begun = time.perf_counter()
            kernels.explore(
                costs, rows, room, self.price, tolerance, NODE, caps, prices, active, column, lower, kept, best, nodes
            )
            nodes = 2 * nodes if time.perf_counter() - begun < LOOK / 2 else nodes
        if best[kernels.KEPT] >= 0:
            self.cost = self.base + float(best[kernels.COST])
            self.columns = np.concatenate([self.must, columns[kept[: int(best[kernels.KEPT])]]])
        left = lower[: int(best[kernels.LEVEL]) + 1].min(initial=math.inf)
        self.lower = max(self.lower, self.base + float(min(left, best[kernels.CUT])))
