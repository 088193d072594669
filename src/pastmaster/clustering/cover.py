"""The fewest cells whose radii stay within a limit: a minimum dominating set, solved by HiGHS, or covered greedily."""

from __future__ import annotations

import numpy as np

from pastmaster.arrays import IntArray
from pastmaster.clustering.cost import canonical_labels
from pastmaster.clustering.question import Problem
from pastmaster.errors import InvalidInputError


def fewest_labels(problem: Problem, seconds: float) -> tuple[IntArray, int]:
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
            f"{distance[i].min():g} under every policy"
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


def covering_labels(problem: Problem) -> IntArray:
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
