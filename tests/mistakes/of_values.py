"""Mistakes in calls that solve, value and estimate."""

from __future__ import annotations

import math

import numpy as np
import right
from right import CHANCE, POLICY, TASK, Call, U, each

import pastmaster as pm
from pastmaster import estimation
from pastmaster.policies import TablePolicy
from pastmaster.values import CrossValues, task_bounds

SHORT = pm.TabularMDP([[0, 0]] * 3, [[0.0, 0.0]] * 3, gamma=0.8, horizon=4)
POLICIES_OF_SEVERAL = [
    *each("policies", [pm.solve(TASK), lambda state: 0], "is ..., must be a list of policies: pass [policy]"),
    *each("policies", ["a.zip"], "is ..., must be a list of policies"),
    ({"tasks": "x"}, "tasks is 'x', must be a task or a list of tasks"),
    ({"policies": "x"}, "policies is 'x', must be a list of policies"),
    ({"n_jobs": "x"}, "n_jobs is 'x', must be a positive number of workers, or -1 for one to a core"),
    ({"executor": "x"}, "executor is 'x', must be"),
    ({"save": 3}, "save is 3, must be the path of a folder"),
    ({"progress": "x"}, "progress is 'x', must be True or False"),
]

CALLS = {
    "solve": Call(pm.solve, lambda: {"task": TASK}).refuses(
        *each("tol", [0, -1e-9, math.nan, math.inf, None], "is ..., must be a positive number"),
        ({"task": "x"}, "task is a str, must be a TabularMDP: pass TabularMDP.from_gymnasium(env, gamma)"),
        ({"task": -1}, "task is a int, must be a TabularMDP"),
        ({"tol": "x"}, "tol is 'x', must be a positive number below 1"),
    ),
    "Solution.act": Call(pm.solve(TASK).act, lambda: {"observations": [0, 2]}, says="TablePolicy.act").refuses(
        ({"observations": "x"}, "observations have shape () and dtype <U1, must be [n] integers"),
        ({"observations": [[1.0, 2.0], [3.0]]}, "observations is ragged, must have rows of one length"),
    ),
    "evaluate": Call(pm.evaluate, lambda: {"task": TASK, "policy": POLICY}).refuses(
        ({"policy": [0, 2, 0]}, "policy[1] is action 2, must be in 0..1"),
        ({"policy": [0, 0, -1]}, "policy[2] is action -1, must be in 0..1"),
        ({"policy": [0, 1]}, "policy has shape (2,) and dtype int64, must be [3] integer actions or"),
        ({"policy": [0, 1, 0, 1]}, "policy has shape (4,) and dtype int64, must be [3] integer"),
        ({"policy": []}, "policy has shape (0,) and dtype float64, must be [3] integer actions or"),
        ({"policy": 0}, "policy is 0, a number, must be [3] integer actions or [3, 2] probabilities:"),
        ({"policy": [0.0, 1.0, 0.0]}, "policy has shape (3,) and dtype float64, must be [3] integer"),
        ({"policy": [False, True, False]}, "policy has shape (3,) and dtype bool, must be [3] integer"),
        ({"policy": ["a", "b", "c"]}, "policy has shape (3,) and dtype <U1, must be [3] integer"),
        ({"policy": [[0.5, 0.5], [0.5, 0.4], [1.0, 0.0]]}, "policy[1] is [0.5, 0.4], must be probabilities that"),
        ({"policy": [[0.5, 0.5], [0.5, 0.5], [1.5, -0.5]]}, "policy[2] is [1.5, -0.5], must be probabilities that"),
        ({"policy": [[0.5, math.nan], [0.5, 0.5], [1.0, 0.0]]}, "policy[0] is [0.5, nan], must be probabilities that"),
        ({"policy": [[0.5, 0.5], [0.5, 0.5]]}, "policy has shape (2, 2) and dtype float64, must be [3] integer"),
        ({"policy": [[0.2, 0.3, 0.5]] * 3}, "policy has shape (3, 3) and dtype float64, must be [3] integer"),
        ({"policy": [[1.0, 0.0], [1.0], [1.0, 0.0]]}, "policy is ragged, must have rows of one"),
        ({"policy": None}, "policy is None, must be an array"),
        ({"task": "x"}, "task is a str, must be a TabularMDP"),
        ({"policy": "x"}, "policy is 'x', and there is no such file, must be a policy: pass"),
        ({"policy": -1}, "policy is -1, a number, must be [3] integer actions or [3, 2] probabilities: if"),
    ),
    "return_spread": Call(pm.return_spread, lambda: {"tasks": [TASK], "policies": [POLICY]}).refuses(
        ({"tasks": "x"}, "tasks is 'x', must be a task or a list of tasks"),
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP"),
        ({"policies": "x"}, "policies is 'x', must be a list of policies"),
        ({"policies": [[1.0, 2.0], [3.0]]}, "policies[0] has shape (2,) and dtype float64, must be [3] integer"),
    ),
    "cross_values": Call(pm.cross_values, lambda: {"tasks": [TASK], "policies": [POLICY]}).refuses(
        ({"policies": [POLICY, [0, 2, 0]]}, "policies[1][1] is action 2, must be in 0..1"),
        ({"policies": [POLICY, [0, 0, -1]]}, "policies[1][2] is action -1, must be in 0..1"),
        ({"policies": [POLICY, [0, 1]]}, "policies[1] has shape (2,) and dtype int64, must be [3] integer"),
        ({"policies": [POLICY, [0, 1, 0, 1]]}, "policies[1] has shape (4,) and dtype int64, must be [3] integer"),
        ({"policies": [POLICY, []]}, "policies[1] has shape (0,) and dtype float64, must be [3] integer"),
        ({"policies": [POLICY, 0]}, "policies[1] is 0, a number, must be [3] integer actions or [3,"),
        ({"policies": [POLICY, [0.0, 1.0, 0.0]]}, "policies[1] has shape (3,) and dtype float64, must be [3] integer"),
        (
            {"policies": [POLICY, [False, True, False]]},
            "policies[1] has shape (3,) and dtype bool, must be [3] integer",
        ),
        ({"policies": [POLICY, ["a", "b", "c"]]}, "policies[1] has shape (3,) and dtype <U1, must be [3] integer"),
        (
            {"policies": [POLICY, [[0.5, 0.5], [0.5, 0.4], [1.0, 0.0]]]},
            "policies[1][1] is [0.5, 0.4], must be probabilities that",
        ),
        (
            {"policies": [POLICY, [[0.5, 0.5], [0.5, 0.5], [1.5, -0.5]]]},
            "policies[1][2] is [1.5, -0.5], must be probabilities that",
        ),
        (
            {"policies": [POLICY, [[0.5, math.nan], [0.5, 0.5], [1.0, 0.0]]]},
            "policies[1][0] is [0.5, nan], must be probabilities that",
        ),
        (
            {"policies": [POLICY, [[0.5, 0.5], [0.5, 0.5]]]},
            "policies[1] has shape (2, 2) and dtype float64, must be [3] integer",
        ),
        (
            {"policies": [POLICY, [[0.2, 0.3, 0.5]] * 3]},
            "policies[1] has shape (3, 3) and dtype float64, must be [3] integer",
        ),
        ({"policies": [POLICY, [[1.0, 0.0], [1.0], [1.0, 0.0]]]}, "policies[1] is ragged, must have rows of"),
        ({"policies": [POLICY, None]}, "policies[1] is None, must be an array"),
        ({"tasks": [TASK, SHORT]}, "tasks[1].gamma is 0.8, must be 0.5 as in tasks[0]: the tasks of"),
        (
            {"tasks": [TASK, pm.TabularMDP([[0, 0]], [[0.0, 0.0]], gamma=0.5, horizon=4)]},
            "tasks[1].n_states is 1, must be 3 as",
        ),
        (
            {"tasks": [TASK, pm.TabularMDP([[0]] * 3, [[0.0]] * 3, gamma=0.5, horizon=4)]},
            "tasks[1].n_actions is 1, must be 2 as",
        ),
        ({"tasks": [TASK, None]}, "tasks[1] is a NoneType, must be a TabularMDP"),
        ({"tasks": [TASK, "FrozenLake-v1"]}, "tasks[1] is a str, must be a TabularMDP"),
        ({"tasks": []}, "tasks is empty, must hold at least one TabularMDP"),
        ({"policies": []}, "policies is empty, must hold at least one"),
        ({"tasks": None}, "tasks is None, must be a task or a list of tasks"),
        *POLICIES_OF_SEVERAL,
        *each("n_jobs", [-2, 1.5, "2", None, True], "is ..., must be a positive number of workers, or -1"),
        ({"policies": {"a": [0, 0]}}, "policies is a dict, must be a list of policies: pass list(policies.values())"),
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP"),
        ({"policies": [[1.0, 2.0], [3.0]]}, "policies[0] has shape (2,) and dtype float64, must be [3] integer"),
    ),
    "policy_distance": Call(pm.policy_distance, lambda: {"U": U, "paired": True}).refuses(
        ({"U": [[1.0, math.nan], [0.0, 1.0]]}, "U[0, 1] is nan, must be finite"),
        ({"U": [[1.0, 0.0], [-math.inf, 1.0]], "directed": True}, "U[1, 0] is -inf, must be finite"),
        ({"U": [1.0, 2.0]}, "U has shape (2,), must be [N, M] with no empty axis"),
        ({"U": np.zeros((0, 0))}, "U has shape (0, 0), must be [N, M] with no empty axis"),
        ({"U": np.zeros((2, 0)), "directed": True}, "U has shape (2, 0), must be [N, M] with no"),
        ({"U": np.zeros((2, 2, 2))}, "U has shape (2, 2, 2), must be [N, M] with no empty axis"),
        ({"U": np.zeros((2, 3)), "paired": None}, "U has shape (2, 3), must be square unless"),
        ({"U": np.zeros((2, 3)), "directed": True}, "U has shape (2, 3), must be square unless"),
        ({"U": [[1.0, 2.0], [3.0]]}, "U is ragged, must have rows of one length"),
        ({"U": [["a"]]}, "U has dtype <U1, must hold numbers"),
        ({"U": "x"}, "U has dtype <U1, must hold numbers"),
        ({"U": -1}, "U has shape (), must be [N, M] with no empty axis"),
        ({"directed": "x"}, "directed is 'x', must be True or False"),
        ({"paired": "x"}, "paired is 'x', must be True, False or None"),
    ),
    "return_bounds": Call(pm.return_bounds, lambda: {"tasks": [TASK]}).refuses(
        ({"tasks": []}, "tasks is empty, must hold at least one TabularMDP"),
        ({"tasks": [TASK, SHORT]}, "tasks[1].gamma is 0.8, must be 0.5 as in tasks[0]: the tasks of"),
        ({"tasks": ["FrozenLake-v1"]}, "tasks[0] is a str, must be a TabularMDP or a GymTask: pass"),
        *each("kind", [None, "EXACT", 1], "is ..., must be one of 'exact', 'paper'"),
        ({"tasks": "x"}, "tasks is 'x', must be a task or a list of tasks"),
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP or a GymTask"),
        ({"kind": "x"}, "kind is 'x', must be one of 'exact', 'paper'"),
    ),
    "values.task_bounds": Call(task_bounds, lambda: {"task": TASK}).refuses(
        ({"task": "x"}, "task is a str, must be a TabularMDP or a GymTask: pass GymTask('x')"),
        ({"task": -1}, "task is a int, must be a TabularMDP or a GymTask"),
    ),
    "values.CrossValues": Call(CrossValues, lambda: {"U": U, "paired": True}).refuses(
        ({"U": "x"}, "U has dtype <U1, must hold numbers"),
        ({"U": [[1.0, 2.0], [3.0]]}, "U is ragged, must have rows of one length"),
        ({"paired": "x"}, "paired is 'x', must be True or False"),
    ),
    "estimate_cross_values": Call(
        pm.estimate_cross_values,
        lambda: {"tasks": [CHANCE], "policies": [POLICY, [0, 0, 0]], "budget": 40, "rng": 0, "bounds": (-9.0, 9.0)},
    ).refuses(
        *POLICIES_OF_SEVERAL,
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP or a GymTask"),
        ({"policies": [[1.0, 2.0], [3.0]]}, "policies[0] has shape (2,) and dtype float64, must be [2] integer"),
        ({"budget": "x"}, "budget is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        ({"clustering": "x"}, "clustering is 'x', must be options of search_clusterings, as a dict"),
        ({"clustering": {"zebra": 1}}, "clustering has 'zebra', must be of episodes, span, directed,"),
        ({"allocation": "x"}, "allocation is 'x', must be one of 'sequential', 'uniform'"),
        ({"precision": "x"}, "precision is 'x', must be a number, at least 0"),
        ({"precision": -1}, "precision is -1, must be at least 0"),
        ({"confidence": "x"}, "confidence is 'x', must be a number, in 0.5 .. 1"),
        ({"confidence": -1}, "confidence is -1, must be in 0.5 .. 1"),
        ({"paired": "x"}, "paired is 'x', must be True or False"),
        ({"bounds": "x"}, "bounds is 'x', must be (lower, upper)"),
        ({"bounds": [[1.0, 2.0], [3.0]]}, "bounds is [[1.0, 2.0], [3.0]], must be finite, lower below"),
    ),
    "estimation.estimate_values": Call(
        estimation.estimate_values, lambda: {"task": CHANCE, "policies": [POLICY], "episodes": 5, "seed": 0}
    ).refuses(
        *each("episodes", [-1, 2.5, True], "is ..., must be a whole number"),
        ({"task": "x"}, "task is a str, must be a TabularMDP or a GymTask: pass GymTask('x')"),
        ({"task": -1}, "task is a int, must be a TabularMDP or a GymTask"),
        ({"policies": "x"}, "policies is 'x', must be a list of policies"),
        ({"policies": [[1.0, 2.0], [3.0]]}, "policies[0] has shape (2,) and dtype float64, must be [2] integer"),
        ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"seed": "x"}, "seed is 'x', must be a whole number, in"),
    ),
    "estimation.episode_returns": Call(
        estimation.episode_returns,
        lambda: {
            "task": CHANCE,
            "policies": [TablePolicy(POLICY)],
            "ranges": [estimation.EpisodeRange(0, 0, 3)],
            "seed": 0,
        },
    ).refuses(
        ({"task": "x"}, "task is a str, must be a TabularMDP or a GymTask: pass GymTask('x')"),
        ({"task": -1}, "task is a int, must be a TabularMDP or a GymTask"),
        ({"policies": "x"}, "policies is 'x', must be a list of policies"),
        ({"policies": [[1.0, 2.0], [3.0]]}, "policies holds [1.0, 2.0], must hold what as_policy returns"),
        ({"ranges": "x"}, "ranges is 'x', must be a list"),
        ({"ranges": [[1.0, 2.0], [3.0]]}, "ranges[0] is [1.0, 2.0], must be an EpisodeRange"),
        ({"seed": "x"}, "seed is 'x', must be a whole number, in"),
    ),
    "CrossValueEstimate.distance": Call(lambda **given: right.estimate().distance(**given), dict).refuses(
        ({"directed": "x"}, "directed is 'x', must be True or False"),
        ({"bias": "x"}, "bias is 'x', must be one of 'corrected', 'plug-in'"),
    ),
    "CrossValueEstimate.intervals": Call(
        lambda **given: right.estimate().intervals(**given), lambda: {"confidence": 0.9}
    ).refuses(
        ({"confidence": "x"}, "confidence is 'x', must be a number between 0 and 1"),
    ),
    "CrossValueEstimate.gap": Call(lambda **given: right.estimate().gap(**given), dict).refuses(
        ({"time_limit": "x"}, "time_limit is 'x', must be a number, at least 0"),
        ({"time_limit": -1}, "time_limit is -1, must be at least 0"),
    ),
}
