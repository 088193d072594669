"""oldhand: lifelong policy reuse in reinforcement learning, with guarantees."""

from oldhand import domains
from oldhand.env import TabularEnv
from oldhand.errors import InvalidInputError, OldhandError
from oldhand.mdp import TabularMDP
from oldhand.solve import Solution, solve
from oldhand.values import Bounds, cross_values, evaluate, model_difference, policy_distance, return_bounds

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "InvalidInputError",
    "OldhandError",
    "Solution",
    "TabularEnv",
    "TabularMDP",
    "cross_values",
    "domains",
    "evaluate",
    "model_difference",
    "policy_distance",
    "return_bounds",
    "solve",
]
