"""pastmaster: lifelong policy reuse in reinforcement learning, with guarantees."""

from pastmaster import domains
from pastmaster.clustering import (
    Assignment,
    Clustering,
    LowerBound,
    Sensitivity,
    assign,
    clustering_cost,
    cost_lower_bound,
    exhaustive_clustering,
    greedy_clustering,
    mhav,
    regret_bound,
    search_clusterings,
    sensitivity,
)
from pastmaster.continual import ContinualRun, ContinualTransfer, plot_streams
from pastmaster.env import TabularEnv
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError, RepositoryError, TaskError
from pastmaster.mdp import TabularMDP
from pastmaster.policies import load_sb3
from pastmaster.repository import Repository
from pastmaster.reuse import (
    RECOMMENDED,
    Exp3Transfer,
    FixedPolicy,
    ProbabilisticPolicyReuse,
    QLearning,
    RegretBalancing,
    RegretGuarantee,
    TransferRun,
    TsallisINF,
    decay,
    plot_curves,
    transfer,
)
from pastmaster.solve import Solution, solve
from pastmaster.tasks import CrossValueEstimate, GymTask, SB3Learning, estimate_cross_values
from pastmaster.values import Bounds, cross_values, evaluate, model_difference, policy_distance, return_bounds

__version__ = "0.1.0"

__all__ = [
    "RECOMMENDED",
    "Assignment",
    "Bounds",
    "Clustering",
    "ContinualRun",
    "ContinualTransfer",
    "CrossValueEstimate",
    "DamagedError",
    "Exp3Transfer",
    "FixedPolicy",
    "GymTask",
    "InvalidInputError",
    "LowerBound",
    "PastmasterError",
    "ProbabilisticPolicyReuse",
    "QLearning",
    "RegretBalancing",
    "RegretGuarantee",
    "Repository",
    "RepositoryError",
    "SB3Learning",
    "Sensitivity",
    "Solution",
    "TabularEnv",
    "TabularMDP",
    "TaskError",
    "TransferRun",
    "TsallisINF",
    "assign",
    "clustering_cost",
    "cost_lower_bound",
    "cross_values",
    "decay",
    "domains",
    "estimate_cross_values",
    "evaluate",
    "exhaustive_clustering",
    "greedy_clustering",
    "load_sb3",
    "mhav",
    "model_difference",
    "plot_curves",
    "plot_streams",
    "policy_distance",
    "regret_bound",
    "return_bounds",
    "search_clusterings",
    "sensitivity",
    "solve",
    "transfer",
]
