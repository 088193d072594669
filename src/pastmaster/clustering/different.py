"""Exactly k policies: where cells of a directed clustering share one, they get different ones at the least cost.

Of a search for n_clusters = k, cells may have the same best column. Keeping it twice keeps fewer than k policies. So
the cells get k different columns by an assignment of least cost (Hungarian method), where cell A under column j costs
|A| max_{i in A} D[i, j]. Columns that are equal, entry by entry, count as one. Where fewer than k are different, cells
go on sharing them, and the clustering says so.

What is proven: for these cells no other choice of different columns costs less (kind "worst": none has a smaller
largest radius). What is not: that other cells would not do better. The lower bound is that of the question without the
requirement, so it holds with it, and the gap says how much may be lost.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, LongArray
from pastmaster.clustering import _kernels as kernels
from pastmaster.clustering.question import Cells, DistanceProblem, different


def different_cells(problem: DistanceProblem, labels: IntArray) -> Cells:
    """Representatives and radii of cells 0 .. c - 1; all different if a number of policies was asked for."""
    cells = problem.cells(labels)
    c = len(cells.radii)
    if not problem.directed or problem.question.n_clusters is None or len(set(cells.representatives.tolist())) == c:
        return cells
    columns = different(problem.distance)
    if len(columns) < c:
        return cells
    reach = np.array([problem.distance[labels == cell][:, columns].max(axis=0) for cell in range(c)])
    chosen = _assigned(reach, np.bincount(labels), problem.kind)
    return Cells(columns[chosen], reach[np.arange(c), chosen])


def _assigned(reach: FloatArray, sizes: LongArray, kind: int) -> LongArray:
    """A column for each cell, all different, at the least cost; reach [cells, columns] are the radii."""
    from scipy.optimize import linear_sum_assignment

    weights: Any = sizes[:, None] * reach
    if kind == kernels.WORST:
        levels = np.unique(reach)

        def is_enough(i: int) -> bool:
            beyond = (reach > levels[i]).astype(np.float64)
            return not beyond[linear_sum_assignment(beyond)].any()

        limit = levels[bisect_left(range(len(levels)), True, key=is_enough)]
        weights = np.where(reach > limit, 2.0 * weights.sum() + 1.0, weights)
    chosen: LongArray = linear_sum_assignment(weights)[1]
    return chosen
