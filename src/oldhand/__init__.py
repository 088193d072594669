"""oldhand: lifelong policy reuse in reinforcement learning, with guarantees."""

from oldhand import domains
from oldhand.clustering import (
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
from oldhand.continual import ContinualRun, ContinualTransfer, plot_streams
from oldhand.env import TabularEnv
from oldhand.errors import DamagedError, InvalidInputError, OldhandError, RepositoryError, TaskError
from oldhand.mdp import TabularMDP
from oldhand.policies import load_sb3
from oldhand.repository import Repository
from oldhand.reuse import (
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
from oldhand.solve import Solution, solve
from oldhand.tasks import CrossValueEstimate, GymTask, SB3Learning, estimate_cross_values
from oldhand.values import Bounds, cross_values, evaluate, model_difference, policy_distance, return_bounds

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
    "OldhandError",
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
