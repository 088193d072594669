"""What policies are worth in tasks: values, cross values, the policy distance, and bounds on returns.

For a policy pi in a task, V^pi(s) = E[ sum_{n >= 0} gamma^n r_n | s_0 = s ], over at most ``horizon`` steps where the
task has one. A cross value U[i, j] is the value of policy j in task i from its start. The policy distance is

    d_V(i, j) = max( V_i* - V_i^{pi_j},  V_j* - V_j^{pi_i} ),

and the directed distance its first half: what task i loses under policy j. V_i* is the largest value known of task i.
"""

from pastmaster.values.bounds import Bounds, return_bounds, task_bounds
from pastmaster.values.cross import cross_values
from pastmaster.values.distance import CrossValues, policy_distance
from pastmaster.values.evaluation import evaluate
from pastmaster.values.spread import return_spread

__all__ = [
    "Bounds",
    "CrossValues",
    "cross_values",
    "evaluate",
    "policy_distance",
    "return_bounds",
    "return_spread",
    "task_bounds",
]
