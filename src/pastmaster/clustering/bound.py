"""A cost that no clustering can beat.

For c cells the problem is: choose c pairs (centre j, radius r); a task may join a pair that covers it, D[i, j] <= r,
and pays r; in the symmetric case the centre belongs to its own pair, so r >= D[j, j] and each centre serves once. The
cost is g(c) plus the mean of what tasks pay.

1. *Prices.* Put a price u_i >= 0 on covering task i. Whatever u, no clustering into c cells pays less than
   sum_i u_i + (the c least worths of pairs), a pair's worth being what its members pay less what they are priced at,
   with the best members: a closed form (``_bound_kernels``). Subgradient ascent raises it.
2. *Elimination.* Numbers of cells whose bound exceeds the best known cost are impossible; so are pairs whose inclusion
   would lift the bound above it.
3. *Proof.* What is left is a small integer program. Directed, pairs are columns of a table in which a task pays the
   radius of a pair that covers it, and ``columns`` chooses the best c of them. Symmetric, HiGHS solves the program.

Prices and ``columns`` bound in floating point with every rounding error charged against the bound: directed bounds are
proofs. HiGHS works to tolerances (1e-6 on integrality, 1e-7 on constraints): a part in a million of the prices and
radii is charged for them, and a symmetric bound that rests on HiGHS holds up to these tolerances.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, LongArray, sealed
from pastmaster.checks import within
from pastmaster.clustering import _bound_kernels as kernels
from pastmaster.clustering.columns import ColumnProblem
from pastmaster.clustering.partition import relative_gap
from pastmaster.clustering.programs import pair_program
from pastmaster.clustering.question import DistanceProblem, priced

EPS = 2.0**-52
ROUND = 400  # steps of ascent for every number of cells; those that stay possible get five times as many
HIGHS_TOLERANCE = 1e-6
SLICE = 30_000_000  # pairs priced before the ascent begins anew with long steps
LOOK = 0.05  # seconds between looks at the clock, or one step of the ascent
MAX_VARIABLES = 400_000  # larger integer programs are not tried
MAX_ENTRIES = 20_000_000  # nor larger tables of pairs


@dataclass(frozen=True, eq=False, repr=False)
class LowerBound:
    """A cost that no clustering can beat.

    Attributes
    ----------
    value, possible_c : float, tuple of int
        No clustering costs less; the numbers of cells that are not ruled out.
    by_c : ndarray
        by_c[c] bounds clusterings into c cells [N + 1]; by_c[0] is infinite.
    cost, labels
        The best cost known, and a clustering that has it.
    """

    value: float
    possible_c: tuple[int, ...]
    by_c: FloatArray
    cost: float
    labels: IntArray

    @property
    def gap(self) -> float:
        """How far the best known cost may be above the optimum, relative to the optimum."""
        return relative_gap(self.cost, self.value)

    def __repr__(self) -> str:
        possible = ", ".join(map(str, self.possible_c))
        if len(self.possible_c) > 4:
            possible = f"{len(self.possible_c)} from {self.possible_c[0]} to {self.possible_c[-1]}"
        return f"LowerBound(no clustering costs less than {self.value:.6g}; possible numbers of cells: {possible})"


def cost_lower_bound(
    distance: npt.ArrayLike, *, episodes: float, span: float, directed: bool = False,
    labels: npt.ArrayLike | None = None, time_limit: float = 30.0,
) -> LowerBound:  # fmt: skip
    """Bound the cost (kind "average") of every clustering from below.

    Parameters
    ----------
    distance, episodes, span, directed
        As for ``search_clusterings``.
    labels : array_like, optional
        A clustering already known [N]: the better it is, the more can be ruled out.
    time_limit : float
        About how many seconds to take.

    Returns
    -------
    LowerBound

    Raises
    ------
    InvalidInputError
        If an argument makes no sense.

    Examples
    --------
    >>> bound = cost_lower_bound([[0, 1, 9], [1, 0, 9], [9, 9, 0]], episodes=100, span=10.0)
    >>> round(bound.value, 3), bound.possible_c
    (5.426, (2,))
    """
    caller = "cost_lower_bound"
    problem = priced(caller, distance, episodes, span, directed)
    seconds = within(caller, "time_limit", time_limit, 0.0, math.inf)
    known = np.zeros(problem.n_tasks, np.int32) if labels is None else problem.labels(caller, labels)
    return bounded(problem, known, seconds)


def bounded(problem: DistanceProblem, labels: IntArray, seconds: float) -> LowerBound:
    """The bound for any cost of the number of cells."""
    deadline = time.perf_counter() + seconds
    search, counts = _Bounding(problem, labels, deadline), problem.question.counts(problem.n_tasks)
    for iterations, fresh in ((ROUND, False), (ROUND, True), (5 * ROUND, False)):
        for c in search.possible(counts):
            search.raise_prices(c, iterations, fresh, deadline)
            if time.perf_counter() > deadline:
                break
        if time.perf_counter() > deadline:
            break
    for c in sorted(search.possible(counts), key=lambda c: search.by_c[c]):
        if time.perf_counter() < deadline and search.by_c[c] < search.cost:
            search.prove(c, deadline)
    possible = tuple(search.possible(counts))
    value = min(search.cost, *(float(search.by_c[c]) for c in counts))
    return LowerBound(value, possible, sealed(search.by_c), search.cost, search.labels)


class _Pairs(NamedTuple):
    """Every pair (centre, radius) that can matter: distances in rising order, and one entry to a distinct radius."""

    near: FloatArray
    order: IntArray
    first: LongArray
    centre: LongArray
    radius: FloatArray


def _pairs_of(reach: FloatArray) -> _Pairs:
    columns = np.ascontiguousarray(reach.T)
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    near = np.take_along_axis(columns, order, axis=1)
    new = np.ones(near.shape, np.bool_)
    new[:, 1:] = near[:, 1:] > near[:, :-1]
    first = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
    return _Pairs(near, order, first, np.repeat(np.arange(len(near)), new.sum(axis=1)), near[new])


class _Bounding:
    """The bounds found so far, the best clustering known, and the prices that gave each bound."""

    def __init__(self, problem: DistanceProblem, labels: IntArray, deadline: float = math.inf) -> None:
        self.problem, self.distance, self.size_cost = problem, problem.distance, problem.size_cost
        self.n_tasks, self.symmetric = problem.n_tasks, not problem.directed
        self.pairs = _pairs_of(problem.reach)
        self.labels, self.cost = problem.descended(labels, deadline)
        self.by_c = self.size_cost.copy()
        self.by_c[0] = np.inf
        self.prices: dict[int, FloatArray] = {}

    def possible(self, counts: range) -> list[int]:
        """The numbers of cells whose bound does not exceed the best cost known."""
        return [c for c in counts if self.by_c[c] <= self.cost]

    def raise_prices(self, c: int, iterations: int, fresh: bool = False, deadline: float = math.inf) -> None:
        """Step 1 for c cells, from equal prices or from the best of the nearest c; may meet a better clustering."""
        target = self.n_tasks * (self.cost - self.size_cost[c])
        nearest = min(self.prices, key=lambda known: abs(known - c), default=None)
        u = np.full(self.n_tasks, max(target, 0.0) / self.n_tasks)
        if nearest is not None and not fresh:
            u = self.prices[nearest].copy()
        labels, cheapest, done = np.zeros(self.n_tasks, np.int32), np.inf, 0
        while done < iterations and (done == 0 or time.perf_counter() < deadline):
            steps = min(iterations - done, max(1, SLICE // len(self.pairs.radius)))
            cheapest = self._ascend(c, max(target, 0.0), u, steps, labels, cheapest, deadline)
            done += steps
        self._offer(labels, deadline)
        bounds = self._bounds(u)
        if c not in self.prices or bounds[c] > self.by_c[c]:
            self.prices[c] = u
        self.by_c = np.maximum(self.by_c, bounds)

    def _ascend(
        self, c: int, target: float, u: FloatArray, steps: int, labels: IntArray, cheapest: float, deadline: float
    ) -> float:
        """So many steps of the ascent from ``u``, which gets the best prices, while time is left; at least one step.

        Returns the least sum of radii met, whose partition is left in ``labels``. Where the clock is looked at does not
        change the steps.
        """
        progress, best_u, now = np.array([-np.inf, 1.0, 0.0, target, cheapest]), u.copy(), 1
        while steps > 0:
            begun = time.perf_counter()
            going = kernels.ascend(
                *self.pairs, self.distance, self.symmetric, c, u, best_u, progress, min(now, steps), labels
            )
            steps -= now
            ended = time.perf_counter()
            if not going or ended > deadline:
                break
            now = 2 * now if ended - begun < LOOK / 2 else now
        u[:] = best_u
        return float(progress[4])

    def _bounds(self, u: FloatArray) -> FloatArray:
        """g(c) + (sum of prices + c least worths) / N for every c, rounded down: prices bound them all at once."""
        near, order, first, _, _ = self.pairs
        worth = np.empty(len(self.pairs.radius))
        kernels.price(near, order, first, u, self.symmetric, worth)
        least = np.sort(np.minimum.reduceat(worth, first[:-1]) if self.symmetric else worth)[: self.n_tasks]
        counts = np.arange(self.n_tasks + 1)
        totals = np.zeros(self.n_tasks + 1)
        totals[1 : len(least) + 1] = np.cumsum(least)
        totals[len(least) + 1 :] = totals[len(least)]  # directed: more cells than pairs cannot lower it further
        # each worth sums at most N terms of at most max(u), or one radius; then c of them and N prices are summed
        slack = 4.0 * EPS * (self.n_tasks + counts) * (counts + 1) * (u.sum() + self.pairs.radius.max())
        values: FloatArray = self.size_cost + (u.sum() + totals - slack) / self.n_tasks
        values -= 4.0 * EPS * (np.abs(values) + self.size_cost)
        values[0] = np.inf
        return values

    def prove(self, c: int, deadline: float) -> None:
        """Steps 2 and 3 for c cells: what clustering costs less than the best known?"""
        keep = self._surviving(c)
        near, _, _, centre, radius = self.pairs
        if not self.symmetric:
            self._prove_directed(c, centre[keep], radius[keep], deadline)
            return
        if len(keep) > MAX_VARIABLES:
            return
        sizes = [int(np.searchsorted(near[centre[p]], radius[p], side="right")) for p in keep]
        if sum(sizes) + len(keep) > MAX_VARIABLES:
            return
        bound, labels = pair_program(self.problem, centre[keep], radius[keep], c, deadline)
        if labels is not None:
            self._offer(labels, deadline)
        charge = HIGHS_TOLERANCE * (self.prices[c].sum() + c * radius[keep].max(initial=0.0))
        limit = np.nextafter(self.cost, np.inf)  # pairs left out take part only in clusterings that cost more
        self.by_c[c] = max(self.by_c[c], min(limit, self.size_cost[c] + (bound - charge) / self.n_tasks))

    def _prove_directed(self, c: int, centre: LongArray, radius: FloatArray, deadline: float) -> None:
        """The same where pairs are independent: the best c columns of a table of what tasks pay under each pair."""
        if len(radius) == 0 or len(radius) * self.n_tasks > MAX_ENTRIES:
            return
        unit = 2.0 ** math.frexp(max(float(radius.max()), 2.0**-1000))[1]
        costs = np.where(self.distance[:, centre] <= radius, radius / unit, np.inf)
        problem = ColumnProblem(np.ascontiguousarray(costs.T), c, np.ones(len(radius), np.bool_))
        choice = problem.solved(np.random.default_rng(0), deadline)
        if math.isfinite(choice.cost):
            self._offer(choice.columns[costs[:, choice.columns].argmin(axis=1)].astype(np.int32), deadline)
        limit = np.nextafter(self.cost, np.inf)  # pairs left out take part only in clusterings that cost more
        bound = self.size_cost[c] + unit * choice.lower_bound / self.n_tasks
        self.by_c[c] = max(self.by_c[c], min(limit, bound - 4.0 * EPS * bound))

    def _surviving(self, c: int) -> LongArray:
        """The pairs whose inclusion does not by itself lift the bound above the best cost."""
        near, order, first, centre, radius = self.pairs
        u, worth = self.prices[c], np.empty(len(radius))
        kernels.price(near, order, first, u, self.symmetric, worth)
        chosen = np.empty(min(c, len(worth)), np.int64)
        total = u.sum() + kernels.least(worth, first, self.symmetric, c, chosen)
        replaced = np.full(len(worth), worth[chosen].max())
        if self.symmetric:
            for p in chosen:  # another radius at a chosen centre takes the place of the chosen one
                replaced[centre == centre[p]] = worth[p]
        replaced[chosen] = worth[chosen]
        slack = 1e-9 * (abs(total) + radius.max()) + 1e-9 * self.n_tasks * abs(self.cost)
        room = self.n_tasks * (self.cost - self.size_cost[c]) + slack
        return np.flatnonzero(total - replaced + worth <= room)

    def _offer(self, labels: IntArray, deadline: float) -> None:
        """Mend a clustering by descent and keep it if it is the best so far."""
        labels, cost = self.problem.descended(labels, deadline)
        if cost < self.cost:
            self.labels, self.cost = labels, cost
