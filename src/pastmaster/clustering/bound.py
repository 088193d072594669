"""A cost that no clustering can beat.

For c cells the problem is: choose c pairs (centre j, radius r); a task may join a pair that covers it, D[i, j] <= r,
and pays r; in the symmetric case the centre belongs to its own pair, so each centre serves once. The cost is g(c) plus
the mean of what tasks pay.

1. *Prices.* Put a price u_i >= 0 on covering task i. Whatever u, no clustering into c cells pays less than
   sum_i u_i + (the c least worths of pairs), a pair's worth being what its members pay less what they are priced at,
   with the best members: a closed form (``_bound_kernels``). Subgradient ascent raises it.
2. *Elimination.* Numbers of cells whose bound exceeds the best known cost are impossible; so are pairs whose inclusion
   would lift the bound above it.
3. *Proof.* What is left is a small integer program; HiGHS solves it or bounds it further.

Prices bound in floating point with every rounding error charged against the bound. HiGHS works to tolerances (1e-6
on integrality, 1e-7 on constraints): a part in a million of the prices and radii is charged for them, and a bound that
rests on HiGHS holds up to these tolerances.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, sealed
from pastmaster.clustering import _bound_kernels as kernels
from pastmaster.clustering._kernels import AVERAGE
from pastmaster.clustering.cost import canonical_labels, check_setting, checked_distance, regret_bound
from pastmaster.clustering.greedy import descended
from pastmaster.clustering.partition import relative_gap
from pastmaster.errors import InvalidInputError

EPS = 2.0**-52
ROUND = 400  # steps of ascent for every number of cells; those that stay possible get five times as many
HIGHS_TOLERANCE = 1e-6
SLICE = 30_000_000  # pairs priced between looks at the clock, about a second
MAX_VARIABLES = 400_000  # larger integer programs are not tried


@dataclass(frozen=True, eq=False, repr=False)
class LowerBound:
    """No clustering costs less than ``value``; ``possible_c`` are the numbers of cells not ruled out.

    ``by_c[c]`` bounds clusterings into c cells (by_c[0] is infinite). ``cost`` is the best cost known while bounding,
    ``labels`` a clustering that has it.
    """

    value: float
    possible_c: tuple[int, ...]
    by_c: FloatArray
    cost: float
    labels: npt.NDArray[np.int32]

    @property
    def gap(self) -> float:
        """How far the best known cost may be above the optimum, relative to the optimum."""
        return relative_gap(self.cost, self.value)

    def __repr__(self) -> str:
        possible = ", ".join(map(str, self.possible_c))
        return f"LowerBound(no clustering costs less than {self.value:.6g}; possible numbers of cells: {possible})"


def cost_lower_bound(
    distance: npt.ArrayLike,
    *,
    episodes: float,
    span: float,
    directed: bool = False,
    labels: npt.ArrayLike | None = None,
    time_limit: float = 30.0,
) -> LowerBound:
    """Bound the cost (kind "average") of every clustering from below, within about ``time_limit`` seconds.

    ``labels`` may give a clustering already known: the better it is, the more can be ruled out.
    """
    matrix = checked_distance("cost_lower_bound", distance, directed)
    check_setting("cost_lower_bound", episodes, span)
    if not (np.isfinite(time_limit) and time_limit >= 0):
        raise InvalidInputError(f"cost_lower_bound: time_limit is {time_limit!r}, must be a number of seconds")
    known = np.zeros(len(matrix), np.int32)
    if labels is not None:
        known = canonical_labels("cost_lower_bound", labels, len(matrix))
    size_cost = regret_bound(np.arange(len(matrix) + 1), episodes, span)
    return bound_costs(matrix, size_cost, directed, known, time_limit)


def bound_costs(
    distance: FloatArray,
    size_cost: FloatArray,
    directed: bool,
    labels: npt.NDArray[np.int32],
    time_limit: float,
    counts: range | None = None,
) -> LowerBound:
    """The bound for any cost of the number of cells, size_cost [N + 1]; ``counts`` limits which are looked at."""
    deadline = time.perf_counter() + time_limit
    search = _Bounding(distance, size_cost, directed, labels)
    counts = counts or range(1, len(distance) + 1)
    for iterations, fresh in ((ROUND, False), (ROUND, True), (5 * ROUND, False)):
        for c in search.possible(counts):
            search.raise_prices(c, iterations, fresh, deadline)
            if time.perf_counter() > deadline:
                break
    for c in sorted(search.possible(counts), key=lambda c: search.by_c[c]):
        left = deadline - time.perf_counter()
        if left > 0 and search.by_c[c] < search.cost:
            search.prove(c, left)
    possible = tuple(search.possible(counts))
    value = min(search.cost, *(float(search.by_c[c]) for c in counts))
    return LowerBound(value, possible, sealed(search.by_c), search.cost, search.labels)


class _Pairs(NamedTuple):
    """Every pair (centre, radius) that can matter: distances in rising order, and one entry to a distinct radius."""

    near: FloatArray
    order: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]
    centre: npt.NDArray[np.int64]
    radius: FloatArray


def _pairs_of(distance: FloatArray) -> _Pairs:
    columns = np.ascontiguousarray(distance.T)
    order = np.argsort(columns, axis=1, kind="stable").astype(np.int32)
    near = np.take_along_axis(columns, order, axis=1)
    new = np.ones(near.shape, np.bool_)
    new[:, 1:] = near[:, 1:] > near[:, :-1]
    first = np.concatenate([[0], np.cumsum(new.sum(axis=1))])
    return _Pairs(near, order, first, np.repeat(np.arange(len(near)), new.sum(axis=1)), near[new])


class _Bounding:
    """The bounds found so far, the best clustering known, and the prices that gave each bound."""

    def __init__(
        self, distance: FloatArray, size_cost: FloatArray, directed: bool, labels: npt.NDArray[np.int32]
    ) -> None:
        self.distance, self.size_cost, self.directed = distance, size_cost, directed
        self.pairs = _pairs_of(distance)
        self.n_tasks = len(distance)
        self.labels, self.cost = descended(distance, labels, directed, size_cost, AVERAGE)
        self.by_c = size_cost.copy()
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
            _, cheapest = kernels.ascend(
                *self.pairs, self.distance, not self.directed, c, max(target, 0.0), u, steps, labels, cheapest
            )
            done += steps
        self._offer(labels)
        bounds = self._bounds(u)
        if c not in self.prices or bounds[c] > self.by_c[c]:
            self.prices[c] = u
        self.by_c = np.maximum(self.by_c, bounds)

    def _bounds(self, u: FloatArray) -> FloatArray:
        """g(c) + (sum of prices + c least worths) / N for every c, rounded down: prices bound them all at once."""
        near, order, first, _, _ = self.pairs
        worth = np.empty(len(self.pairs.radius))
        kernels.price(near, order, first, u, not self.directed, worth)
        least = np.sort(worth if self.directed else np.minimum.reduceat(worth, first[:-1]))[: self.n_tasks]
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

    def prove(self, c: int, seconds: float) -> None:
        """Steps 2 and 3 for c cells: what clustering costs less than the best known?"""
        keep = self._surviving(c)
        near, _, _, centre, radius = self.pairs
        if len(keep) > MAX_VARIABLES:
            return
        sizes = [int(np.searchsorted(near[centre[p]], radius[p], side="right")) for p in keep]
        if sum(sizes) + len(keep) > MAX_VARIABLES:
            return
        members = [np.flatnonzero(self.distance[:, centre[p]] <= radius[p]) for p in keep]
        bound, labels = integer_program(
            self.pairs.centre[keep], self.pairs.radius[keep], members, self.n_tasks, c, not self.directed, seconds
        )
        if labels is not None:
            self._offer(labels)
        charge = HIGHS_TOLERANCE * (self.prices[c].sum() + c * radius[keep].max(initial=0.0))
        limit = np.nextafter(self.cost, np.inf)  # pairs left out take part only in clusterings that cost more
        self.by_c[c] = max(self.by_c[c], min(limit, self.size_cost[c] + (bound - charge) / self.n_tasks))

    def _surviving(self, c: int) -> npt.NDArray[np.int64]:
        """The pairs whose inclusion does not by itself lift the bound above the best cost."""
        near, order, first, centre, radius = self.pairs
        u, worth, symmetric = self.prices[c], np.empty(len(radius)), not self.directed
        kernels.price(near, order, first, u, symmetric, worth)
        chosen = np.empty(min(c, len(worth)), np.int64)
        total = u.sum() + kernels.least(worth, first, symmetric, c, chosen)
        replaced = np.full(len(worth), worth[chosen].max())
        if symmetric:
            for p in chosen:  # another radius at a chosen centre takes the place of the chosen one
                replaced[centre == centre[p]] = worth[p]
        replaced[chosen] = worth[chosen]
        slack = 1e-9 * (abs(total) + radius.max()) + 1e-9 * self.n_tasks * abs(self.cost)
        room = self.n_tasks * (self.cost - self.size_cost[c]) + slack
        return np.flatnonzero(total - replaced + worth <= room)

    def _offer(self, labels: npt.NDArray[np.int32]) -> None:
        """Mend a clustering by descent and keep it if it is the best so far."""
        labels, cost = descended(self.distance, labels, self.directed, self.size_cost, AVERAGE)
        if cost < self.cost:
            self.labels, self.cost = labels, cost


def integer_program(
    centre: npt.NDArray[np.int64],
    radius: FloatArray,
    members: list[npt.NDArray[np.int64]],
    n_tasks: int,
    c: int,
    symmetric: bool,
    seconds: float,
) -> tuple[float, npt.NDArray[np.int32] | None]:
    """min sum_i radius paid, with y_p: pair p is used, x_ip <= y_p: task i joins it. Returns a bound and labels.

    Every task joins a pair, c pairs are used; symmetric: a used pair holds its centre and a centre serves once.
    The bound is infinite if there is no such clustering.
    """
    from scipy import optimize, sparse

    n_pairs, pair = len(centre), np.repeat(np.arange(len(centre)), [len(m) for m in members])
    task = np.concatenate([*members, np.empty(0, np.int64)]).astype(np.int64)
    n_joins, n_variables = len(task), n_pairs + len(task)
    if n_pairs == 0:
        return np.inf, None
    join = n_pairs + np.arange(n_joins)

    def rows(n_rows: int, *entries: tuple[npt.ArrayLike, npt.ArrayLike, float]) -> sparse.csr_array:
        row, column, value = zip(*((r, k, np.full(np.size(r), v)) for r, k, v in entries), strict=True)
        table = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
        return sparse.csr_array(table, shape=(n_rows, n_variables))

    every, used = np.arange(n_joins), np.arange(n_pairs)
    constraints = [
        optimize.LinearConstraint(rows(n_tasks, (task, join, 1.0)), 1.0, np.inf),
        optimize.LinearConstraint(rows(n_joins, (every, join, 1.0), (every, pair, -1.0)), -np.inf, 0.0),
        optimize.LinearConstraint(rows(1, (np.zeros(n_pairs, int), used, 1.0)), min(c, n_pairs), c),
    ]
    if symmetric:
        own = join[task == centre[pair]]
        constraints.append(optimize.LinearConstraint(rows(n_pairs, (used, own, 1.0), (used, used, -1.0)), 0.0, 0.0))
        constraints.append(optimize.LinearConstraint(rows(int(centre.max()) + 1, (centre, used, 1.0)), -np.inf, 1.0))
    unit = 2.0 ** math.ceil(math.log2(max(float(radius.max()), 2.0**-1000)))  # HiGHS's tolerances are absolute
    result = optimize.milp(
        np.concatenate([np.zeros(n_pairs), radius[pair] / unit]),
        constraints=constraints,
        integrality=np.concatenate([np.ones(n_pairs), np.zeros(n_joins)]),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": max(seconds, 0.1), "mip_rel_gap": 1e-9},
    )
    if result.status == 2:  # infeasible
        return np.inf, None
    labels = None
    if result.x is not None:
        labels = np.zeros(n_tasks, np.int32)
        by_share = np.argsort(result.x[join], kind="stable")
        labels[task[by_share]] = pair[by_share]  # the largest share of a task is written last
    bound = result.mip_dual_bound
    known = result.status in (0, 1) and bound is not None and np.isfinite(bound)
    return (unit * float(bound) if known else -np.inf), labels
