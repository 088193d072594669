"""The best of all partitions, by trying them all: for ten tasks or fewer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pastmaster.clustering import _kernels as kernels, _local_kernels as local
from pastmaster.clustering.cost import Kind
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.question import priced
from pastmaster.errors import InvalidInputError

MOST_TASKS = 10  # 115,975 partitions


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
