"""The best of all partitions, by trying them all: for ten tasks or fewer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pastmaster.clustering import _kernels as kernels, _local_kernels as local
from pastmaster.clustering.cost import Kind, checked_distance, checked_kind
from pastmaster.clustering.partition import Clustering, size_cost_table
from pastmaster.errors import InvalidInputError

MOST_TASKS = 10  # 115,975 partitions


def exhaustive_clustering(
    distance: npt.ArrayLike,
    *,
    episodes: float,
    span: float,
    kind: Kind = "average",
    directed: bool = False,
) -> Clustering:
    """The optimal clustering of at most ten tasks; its cost is its own lower bound."""
    matrix = checked_distance("exhaustive_clustering", distance, directed)
    kind_index = checked_kind("exhaustive_clustering", kind, directed)
    if len(matrix) > MOST_TASKS:
        raise InvalidInputError(
            f"exhaustive_clustering: distance has {len(matrix)} tasks, must have at most {MOST_TASKS}: "
            "use search_clusterings(..., certify=True)"
        )
    size_cost = size_cost_table("exhaustive_clustering", len(matrix), episodes, span)
    state, best = kernels.new_state(len(matrix), matrix.shape[1], directed), np.zeros(len(matrix), np.int32)
    local.cheapest_of_all(state, matrix, directed, kind_index, size_cost, best)
    found = Clustering.from_labels(matrix, best, episodes=episodes, span=span, kind=kind, directed=directed)
    return replace(found, lower_bound=found.cost, possible_c=(found.n_clusters,))
