"""Clusterings made without a search: the paper's threshold scan, and for few tasks the best of all partitions."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, as_floats
from pastmaster.clustering import _kernels as kernels, _local_kernels as local
from pastmaster.clustering.cost import Kind
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.question import DistanceProblem, priced
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.tables import shown

MAX_THRESHOLDS = 256  # for up to 1,000 tasks; fewer for more, since a scan takes time in proportion to N^2
SAMPLED = 2_000_000  # distances looked at to choose them
MOST_TASKS = 10  # of an exhaustive search: 115,975 partitions


def greedy_clustering(
    distance: npt.ArrayLike, *, episodes: float, span: float, rng: Rng = None, directed: bool = False,
    thresholds: npt.ArrayLike | None = None,
) -> Clustering:  # fmt: skip
    """The paper's baseline: the cheapest of the clusterings that one threshold each makes.

    For a threshold, tasks in random order seed cells, and each takes all tasks within the threshold that are free.

    Parameters
    ----------
    distance, episodes, span, directed, rng
        As for ``search_clusterings``.
    thresholds : array_like, optional
        By default the distances themselves, or 256 quantiles of them where there are more.

    Returns
    -------
    Clustering

    Raises
    ------
    InvalidInputError
        If the distances, the episodes, the span or a threshold make no sense.

    Examples
    --------
    >>> distance = [[0, 1, 9], [1, 0, 9], [9, 9, 0]]
    >>> greedy_clustering(distance, episodes=10_000, span=10.0, rng=0).labels
    array([0, 1, 2], dtype=int32)
    """
    problem = priced("greedy_clustering", distance, episodes, span, directed)
    levels = default_thresholds(problem.distance)
    if thresholds is not None:
        levels = as_floats(thresholds, "greedy_clustering: thresholds")
    if levels.ndim != 1 or not len(levels) or not (levels >= 0).all():
        raise InvalidInputError(
            f"greedy_clustering: thresholds is {shown(thresholds)}, must be a list of numbers, all at least 0, "
            "at least one"
        )
    generator, seed = seeded("greedy_clustering", rng)
    return replace(Clustering.of(problem, greedy_labels(problem, levels, generator)), seed=seed)


def default_thresholds(distance: FloatArray) -> FloatArray:
    """The distinct distances, or evenly spread quantiles of them."""
    levels = np.unique(distance.ravel()[:: max(1, distance.size // SAMPLED)])
    most = max(16, min(MAX_THRESHOLDS, MAX_THRESHOLDS * 1000 // len(distance)))
    return levels if len(levels) <= most else np.quantile(levels, np.linspace(0, 1, most))


def greedy_labels(
    problem: DistanceProblem, thresholds: FloatArray, rng: np.random.Generator, deadline: float = math.inf
) -> IntArray:
    """The cheapest threshold clustering, of as many thresholds as there is time for."""
    best, best_cost = np.zeros(problem.n_tasks, np.int32), np.inf
    for threshold in thresholds:
        if time.perf_counter() > deadline:
            break
        order = rng.permutation(problem.n_tasks)
        labels = local.threshold_labels(problem.distance, order, threshold, problem.directed)
        cost = problem.cost(labels)
        if cost < best_cost:
            best, best_cost = labels, cost
    return best


def exhaustive_clustering(
    distance: npt.ArrayLike, *, episodes: float, span: float, kind: Kind = "average", directed: bool = False
) -> Clustering:
    """The optimal clustering of at most ten tasks, by trying every partition.

    Parameters
    ----------
    distance, episodes, span, kind, directed
        As for ``search_clusterings``.

    Returns
    -------
    Clustering
        Its cost is its own lower bound.

    Raises
    ------
    InvalidInputError
        If there are more than ten tasks, or an argument does not fit.

    Examples
    --------
    >>> exhaustive_clustering([[0, 1, 9], [1, 0, 9], [9, 9, 0]], episodes=100, span=10.0)
    2 of 3 tasks kept, cost 5.426 (regret bound 4.76 + mean radius 0.667), proven optimal
    """
    problem = priced("exhaustive_clustering", distance, episodes, span, directed, kind)
    if problem.n_tasks > MOST_TASKS:
        raise InvalidInputError(
            f"exhaustive_clustering: distance has {problem.n_tasks} tasks, must have at most {MOST_TASKS}: "
            "use search_clusterings(..., certify=True)"
        )
    state = kernels.new_state(problem.n_tasks, problem.distance.shape[1], directed)
    best = np.zeros(problem.n_tasks, np.int32)
    local.cheapest_of_all(state, problem.distance, directed, problem.kind, problem.size_cost, best)
    found = Clustering.of(problem, best)
    return replace(found, lower_bound=found.cost, possible_c=(found.n_clusters,))
