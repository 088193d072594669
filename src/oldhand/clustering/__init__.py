"""From distances to the few tasks whose policies stand for all."""

from oldhand.clustering import mhav
from oldhand.clustering.bound import LowerBound, cost_lower_bound
from oldhand.clustering.cost import clustering_cost, regret_bound
from oldhand.clustering.exhaustive import exhaustive_clustering
from oldhand.clustering.greedy import greedy_clustering
from oldhand.clustering.partition import Assignment, Clustering, Covered, assign
from oldhand.clustering.search import search_clusterings
from oldhand.clustering.sensitivity import Sensitivity, sensitivity

__all__ = [
    "Assignment",
    "Clustering",
    "Covered",
    "LowerBound",
    "Sensitivity",
    "assign",
    "clustering_cost",
    "cost_lower_bound",
    "exhaustive_clustering",
    "greedy_clustering",
    "mhav",
    "regret_bound",
    "search_clusterings",
    "sensitivity",
]
