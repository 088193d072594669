"""From scores or distances to the few policies that stand for all."""

from pastmaster.clustering import mhav
from pastmaster.clustering.aslib import read_aslib
from pastmaster.clustering.baselines import exhaustive_clustering, greedy_clustering
from pastmaster.clustering.bound import LowerBound, cost_lower_bound
from pastmaster.clustering.chain import Chain
from pastmaster.clustering.cost import regret_bound
from pastmaster.clustering.curve import KeepCurve, keep_curve
from pastmaster.clustering.doubts import Doubt
from pastmaster.clustering.over_all import OverAll
from pastmaster.clustering.partition import Clustering, Covered
from pastmaster.clustering.question import Question, clustering_cost
from pastmaster.clustering.score_table import Scores
from pastmaster.clustering.search import search_clusterings
from pastmaster.clustering.stability import Stability

__all__ = [
    "Chain",
    "Clustering",
    "Covered",
    "Doubt",
    "KeepCurve",
    "LowerBound",
    "OverAll",
    "Question",
    "Scores",
    "Stability",
    "clustering_cost",
    "cost_lower_bound",
    "exhaustive_clustering",
    "greedy_clustering",
    "keep_curve",
    "mhav",
    "read_aslib",
    "regret_bound",
    "search_clusterings",
]
