"""Clusterings made without a search: a threshold scan, and descent from any start."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray
from pastmaster.clustering import _kernels as kernels, _local_kernels as local
from pastmaster.clustering.cost import (
    canonical_labels,
    check_setting,
    checked_distance,
    filled,
    partition_cost,
    regret_bound,
)
from pastmaster.clustering.partition import Clustering
from pastmaster.errors import InvalidInputError

MAX_THRESHOLDS = 256  # for up to 1,000 tasks; fewer for more, since a scan takes time in proportion to N^2
SAMPLED = 2_000_000  # distances looked at to choose them


def greedy_clustering(
    distance: npt.ArrayLike,
    *,
    episodes: float,
    span: float,
    rng: np.random.Generator,
    directed: bool = False,
    thresholds: npt.ArrayLike | None = None,
) -> Clustering:
    """The paper's baseline: for each threshold, seed cells in random order with all tasks in reach; keep the cheapest.

    By default the thresholds are the distances themselves, or 256 quantiles of them where there are more.
    """
    matrix = checked_distance("greedy_clustering", distance, directed)
    check_setting("greedy_clustering", episodes, span)
    levels = default_thresholds(matrix) if thresholds is None else np.asarray(thresholds, np.float64)
    if levels.ndim != 1 or not len(levels) or not (levels >= 0).all():
        raise InvalidInputError(
            "greedy_clustering: thresholds must be a list of at least one number that is at least 0"
        )
    size_cost = regret_bound(np.arange(len(matrix) + 1), episodes, span)
    labels = greedy_labels(matrix, size_cost, kernels.AVERAGE, directed, levels, rng)
    return Clustering.from_labels(matrix, labels, episodes=episodes, span=span, directed=directed)


def default_thresholds(distance: FloatArray) -> FloatArray:
    """The distinct distances, or evenly spread quantiles of them."""
    levels = np.unique(distance.ravel()[:: max(1, distance.size // SAMPLED)])
    most = max(16, min(MAX_THRESHOLDS, MAX_THRESHOLDS * 1000 // len(distance)))
    return levels if len(levels) <= most else np.quantile(levels, np.linspace(0, 1, most))


def greedy_labels(
    distance: FloatArray,
    size_cost: FloatArray,
    kind_index: int,
    directed: bool,
    thresholds: FloatArray,
    rng: np.random.Generator,
) -> npt.NDArray[np.int32]:
    """The cheapest threshold clustering under any cost of the number of cells."""
    best, best_cost = np.zeros(len(distance), np.int32), np.inf
    for threshold in thresholds:
        labels = local.threshold_labels(distance, rng.permutation(len(distance)), threshold, directed)
        cost = partition_cost(distance, labels, directed, kind_index, size_cost)
        if cost < best_cost:
            best, best_cost = labels, cost
    return best


def descended(
    distance: FloatArray, labels: npt.NDArray[np.int32], directed: bool, size_cost: FloatArray, kind_index: int
) -> tuple[npt.NDArray[np.int32], float]:
    """A partition after moving single tasks while that lowers the cost, and its cost."""
    labels = canonical_labels("descended", labels, len(distance))
    state = filled(distance, labels, directed, kind_index)
    trial = kernels.new_trial(*distance.shape)
    cost = local.descend(state, trial, distance, directed, kind_index, size_cost)
    return canonical_labels("descended", state.label, len(distance)), float(cost)
