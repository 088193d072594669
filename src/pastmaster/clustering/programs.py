"""The integer program over pairs (centre, radius), for HiGHS: the best clustering that can be made of given pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, LongArray
from pastmaster.clustering.question import Problem


def pair_program(
    problem: Problem, centre: LongArray, radius: FloatArray, c: int, seconds: float
) -> tuple[float, IntArray | None]:
    """min sum_i radius paid, with y_p: pair p is used, x_ip <= y_p: task i joins it. Returns a bound and labels.

    Every task joins a pair, c pairs are used; symmetric: a used pair holds its centre and a centre serves once.
    The bound is infinite if there is no such clustering.
    """
    from scipy import optimize

    if len(centre) == 0:
        return np.inf, None
    members = [np.flatnonzero(problem.distance[:, j] <= r) for j, r in zip(centre, radius, strict=True)]
    pair, task = np.repeat(np.arange(len(centre)), [len(m) for m in members]), np.concatenate(members)
    unit = 2.0 ** math.ceil(math.log2(max(float(radius.max()), 2.0**-1000)))  # HiGHS's tolerances are absolute
    result = optimize.milp(
        np.concatenate([np.zeros(len(centre)), radius[pair] / unit]),
        constraints=_constraints(centre, pair, task, problem.n_tasks, c, not problem.directed),
        integrality=np.concatenate([np.ones(len(centre)), np.zeros(len(task))]),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": max(seconds, 0.1), "mip_rel_gap": 1e-9},
    )
    if result.status == 2:  # infeasible
        return np.inf, None
    labels = None
    if result.x is not None:
        labels = np.zeros(problem.n_tasks, np.int32)
        by_share = np.argsort(result.x[len(centre) :], kind="stable")
        labels[task[by_share]] = pair[by_share]  # the largest share of a task is written last
    bound = result.mip_dual_bound
    known = result.status in (0, 1) and bound is not None and np.isfinite(bound)
    return (unit * float(bound) if known else -np.inf), labels


def _constraints(
    centre: LongArray, pair: LongArray, task: LongArray, n_tasks: int, c: int, symmetric: bool
) -> list[Any]:
    """The constraints on the variables [y, x], x having one entry to each task that a pair may hold."""
    from scipy import optimize, sparse

    used, every = np.arange(len(centre)), np.arange(len(task))
    join = len(centre) + every

    def constraint(n_rows: int, low: float, high: float, *entries: tuple[Any, Any, float]) -> Any:
        row, column, value = zip(*((r, k, np.full(np.size(r), v)) for r, k, v in entries), strict=True)
        table = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
        matrix = sparse.csr_array(table, shape=(n_rows, len(centre) + len(task)))
        return optimize.LinearConstraint(matrix, low, high)

    constraints = [
        constraint(n_tasks, 1.0, np.inf, (task, join, 1.0)),
        constraint(len(task), -np.inf, 0.0, (every, join, 1.0), (every, pair, -1.0)),
        constraint(1, min(c, len(centre)), c, (np.zeros(len(centre), int), used, 1.0)),
    ]
    if symmetric:
        own = join[task == centre[pair]]
        constraints.append(constraint(len(centre), 0.0, 0.0, (used, own, 1.0), (used, used, -1.0)))
        constraints.append(constraint(int(centre.max()) + 1, -np.inf, 1.0, (centre, used, 1.0)))
    return constraints
