"""Clusterings made of given pairs (centre, radius) by HiGHS, and those of the fewest cells within a radius."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, LongArray
from pastmaster.clustering.cost import canonical_labels
from pastmaster.clustering.question import DistanceProblem
from pastmaster.errors import InvalidInputError


def pair_program(
    problem: DistanceProblem, centre: LongArray, radius: FloatArray, c: int, deadline: float
) -> tuple[float, IntArray | None]:
    """min sum_i radius paid, with y_p: pair p is used, x_ip <= y_p: task i joins it. Returns a bound and labels.

    Every task joins a pair, c pairs are used; symmetric: a used pair holds its centre and a centre serves once.
    The bound is infinite if there is no such clustering, and -infinite if time is up before it is found.
    """
    if len(centre) == 0:
        return np.inf, None
    members = [np.flatnonzero(problem.distance[:, j] <= r) for j, r in zip(centre, radius, strict=True)]
    pair, task = np.repeat(np.arange(len(centre)), [len(m) for m in members]), np.concatenate(members)
    unit = _unit(radius)
    constraints = _constraints(centre, pair, task, problem.n_tasks, c, not problem.directed)
    result = _solved(radius[pair] / unit, constraints, len(centre), deadline, 1e-9)
    if result is None:
        return -np.inf, None
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


def recombined(
    problem: DistanceProblem, centre: LongArray, radius: FloatArray, c: int, deadline: float, most: int
) -> IntArray | None:
    """Labels of a good clustering made of c of these pairs, where tasks are many; None if none is found in time.

    Tasks that are within the same pairs are interchangeable: each such group is one task that counts as often. With
    more than ``most`` groups, those of most tasks make the program. In the end every task joins the smallest of the
    chosen pairs that it is within, or else the centre it loses least by.
    """
    within = problem.distance[:, centre] <= radius
    patterns, counts = np.unique(np.packbits(within, axis=1), axis=0, return_counts=True)
    largest = np.sort(np.argsort(-counts, kind="stable")[:most])
    held = np.unpackbits(patterns[largest], axis=1, count=len(centre)).astype(np.bool_)
    task, pair = np.nonzero(held)
    if not held.any(axis=1).all():
        return None
    constraints = _constraints(centre, pair, task, len(held), c, symmetric=False)
    share = counts[largest] / counts[largest].sum() * len(held)
    result = _solved(share[task] * radius[pair] / _unit(radius), constraints, len(centre), deadline, 1e-4)
    if result is None or result.x is None:
        return None
    used = np.flatnonzero(result.x[: len(centre)] > 0.5)
    inside = np.where(within[:, used], radius[used], np.inf)
    nearest = problem.distance[:, centre[used]].argmin(axis=1)
    labels: IntArray = np.where(np.isfinite(inside.min(axis=1)), inside.argmin(axis=1), nearest).astype(np.int32)
    return labels


def _unit(radius: FloatArray) -> float:
    """A power of two near the largest radius: HiGHS's tolerances are absolute."""
    unit: float = 2.0 ** math.ceil(math.log2(max(float(radius.max()), 2.0**-1000)))
    return unit


def _solved(cost: FloatArray, constraints: list[Any], n_pairs: int, deadline: float, gap: float) -> Any:
    """The program with this cost of joining, as HiGHS leaves it at the deadline; None if that has passed."""
    from scipy import optimize

    left = deadline - time.perf_counter()  # to write the program down took time too
    if left <= 0.0:
        return None
    return optimize.milp(
        np.concatenate([np.zeros(n_pairs), cost]),
        constraints=constraints,
        integrality=np.concatenate([np.ones(n_pairs), np.zeros(len(cost))]),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": left, "mip_rel_gap": gap},
    )


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


def fewest_labels(problem: DistanceProblem, seconds: float) -> tuple[IntArray, int]:
    """Labels of a clustering with the fewest cells within ``max_radius``, and a bound on how few can do.

    The two agree when HiGHS finishes within ``seconds``. Each task joins the kept policy it loses least by, a kept task
    itself in the symmetric case.
    """
    from scipy import optimize, sparse

    distance, covers = problem.distance, problem.covers
    if not covers.any(axis=1).all():
        i = int(np.flatnonzero(~covers.any(axis=1))[0])
        raise InvalidInputError(
            f"search_clusterings: max_radius is {problem.question.max_radius:g}, but task {i} loses at least "
            f"{problem.reach[i].min():g} under every policy"
        )
    n_centres = distance.shape[1]
    result = optimize.milp(
        np.ones(n_centres),
        constraints=optimize.LinearConstraint(sparse.csr_array(covers.astype(float)), 1.0, np.inf),
        integrality=np.ones(n_centres),
        bounds=optimize.Bounds(0.0, 1.0),
        options={"time_limit": max(seconds, 0.1)},
    )
    kept = np.empty(0, np.int64) if result.x is None else np.flatnonzero(result.x > 0.5)
    if not covers[:, kept].any(axis=1).all():  # HiGHS ran out of time on the way
        kept = problem.cells(covering_labels(problem)).representatives
    bound = 1 if result.mip_dual_bound is None else int(np.ceil(result.mip_dual_bound - 1e-6))
    labels = distance[:, kept].argmin(axis=1).astype(np.int32)
    if not problem.directed:
        labels[kept] = np.arange(len(kept))  # a kept task leads its own cell, even where it has a twin
    return labels, min(bound, len(kept))


def covering_labels(problem: DistanceProblem) -> IntArray:
    """Cells made one by one around the policy that covers most of the tasks left; a task out of all reach is alone."""
    labels, cell = np.full(problem.n_tasks, -1, np.int32), 0
    covers = problem.covers
    while (labels < 0).any():
        left = labels < 0
        reach = covers[left].sum(axis=0)
        centre = int(reach.argmax() if problem.directed else np.where(left, reach, -1).argmax())
        joined = left & covers[:, centre]
        labels[joined if joined.any() else np.flatnonzero(left)[:1]] = cell
        cell += 1
    return canonical_labels("covering_labels", labels, problem.n_tasks)
