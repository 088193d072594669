"""Mistakes in calls of ``transfer``, of learners and of what it returns."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import right
from right import POLICY, TASK, Call, each

import pastmaster as pm
from pastmaster.reuse import QLearner

LEARN = {"state": 0, "action": 0, "reward": 0.0, "next_observation": 1, "terminated": False}
SPACES = {
    "observations": gym.spaces.Discrete(3),
    "actions": gym.spaces.Discrete(2),
    "gamma": 0.5,
    "rng": np.random.default_rng(0),
}
LEARNER = QLearner(pm.QLearning(), 3, 2, 0.5, np.random.default_rng(0))
BAD = [
    -0.1,
    1.1,
    math.nan,
    "0.5",
    ["0.5"],
    None,
    [],
    [[0.5]],
    [0.5, 2.0],
    [0.5, None],
    lambda n: 2.0,
    lambda n: "0.5",
]  # schedules

CALLS = {
    "transfer": Call(pm.transfer, lambda: {"task": TASK, "sources": [POLICY], "episodes": 3, "rng": 0}).refuses(
        ({"rng": -1}, "rng is -1, must be a seed (a whole number, at least 0), a"),
        ({"on_violation": "ignore"}, "on_violation is 'ignore', must be one of 'raise', 'widen',"),
        ({"bounds": "running"}, "bounds is 'running', must be (lower, upper) or None, for those of"),
        ({"bounds": 3}, "bounds is 3, must be (lower, upper)"),
        ({"bounds": (1, 0)}, "bounds is (1, 0), must be finite, lower below upper"),
        ({"bounds": (0, 0)}, "bounds is (0, 0), must be finite, lower below upper"),
        ({"bounds": (0, math.inf)}, "bounds is (0, inf), must be finite, lower below upper"),
        ({"bounds": (math.nan, 1)}, "bounds is (nan, 1), must be finite, lower below upper"),
        ({"bounds": (0, 1, 2)}, "bounds is (0, 1, 2), which holds more than 2, must be (lower, upper)"),
        ({"selector": "exp4"}, "selector is 'exp4', must be one of informed, regret-balancing,"),
        ({"selector": 3}, "selector is 3, must be a name or be called as selector(n_sources,"),
        ({"learner": "q"}, "learner is 'q', must be a QLearning(), an SB3Learning(...), for a policy"),
        (
            {"learner": pm.QLearning},
            "learner is <class 'pastmaster.reuse.q_learning.QLearning'>, must be a QLearning(),",
        ),
        ({"selector": "ppr", "share": True}, "share is True, must be False for policy reuse: its"),
        ({"sources": 3}, "sources is 3, must be a list of policies: pass [policy]"),
        ({"sources": [[0, 0]]}, "sources[0] has shape (2,) and dtype int64, must be [3] integer"),
        ({"sources": [POLICY, np.zeros((2, 3))]}, "sources[1] has shape (2, 3) and dtype float64, must be [3] integer"),
        ({"sources": np.zeros(3, int)}, "sources is an array [S], one policy, must be a list: pass"),
        ({"sources": [[0, 0, 2]]}, "sources[0][2] is action 2, must be in 0..1"),
        ({"sources": [np.full((3, 2), 0.6)]}, "sources[0][0] is [0.6, 0.6], must be probabilities that"),
        ({"horizon": 5}, "horizon is 5, but the task has its own, 4: leave it out"),
        ({"n_jobs": 0}, "n_jobs is 0, must be a positive number of workers, or -1 for one to a core"),
        ({"sources": [None]}, "sources[0] is None, must be an array, an object with a method act, a"),
        ({"sources": [gym.spaces.Discrete(2)]}, "sources[0] is Discrete(2), must be an array, an"),
        (
            {"selector": pm.Exp3Transfer(0, 5, bounds=(0, 1))},
            "selector is Exp3Transfer(..., must be a name or be called as",
        ),
        ({"sources": [0]}, "sources...must be a...pass [policy]"),
        ({"task": pm.TabularMDP}, "task is <class ..., a class, must be a TabularMDP"),
        (
            {"task": lambda x: 3, "gamma": 0.9},
            "task is <function ..., which raised TypeError(..., must make an environment when",
        ),
        ({"task": lambda: 3, "gamma": 0.9}, "task is <function ..., must be a TabularMDP, a GymTask, or a Gymnasium"),
        ({"task": "CartPole-v1", "gamma": 0.9, "horizon": "5"}, "horizon is '5', must be a whole number, at least 1"),
        ({"selector": lambda *given, **named: None}, "selector makes None, must make an object with methods ask and"),
        ({"learner": np.zeros(1000)}, "learner is array("),
        ({"task": 3}, "task is 3, must be a TabularMDP, a GymTask, or a Gymnasium environment, its id, or a"),
        (
            {"task": [[1.0, 2.0], [3.0]]},
            "task is [[1.0, 2.0], [3.0]], must be a TabularMDP, a GymTask, or a Gymnasium environment, its id,",
        ),
        ({"sources": "x"}, "sources is 'x', must be a list of policies: pass [policy]"),
        (
            {"sources": [[1.0, 2.0], [3.0]]},
            "sources[0] has shape (2,) and dtype float64, must be [3] integer actions or [3, 2] probabilities",
        ),
        ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"experience": "x"}, "experience: values has dtype <U1, must hold numbers"),
        ({"experience": -1}, "experience: values has shape (1,), must be [tasks, sources] with one task"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        ({"bounds": "x"}, "bounds is 'x', must be (lower, upper) or None, for those of the task"),
        ({"bounds": -1}, "bounds is -1, must be (lower, upper)"),
        (
            {"selector": "x"},
            "selector is 'x', must be one of informed, regret-balancing, exp3-transfer, tsallis-inf, ppr,",
        ),
        (
            {"selector": -1},
            "selector is -1, must be a name or be called as selector(n_sources, episodes, bounds=..., rng=...):",
        ),
        (
            {"learner": "x"},
            "learner is 'x', must be a QLearning(), an SB3Learning(...), for a policy FixedPolicy(policy), or an",
        ),
        (
            {"learner": [[1.0, 2.0], [3.0]]},
            "learner is [[1.0, 2.0], [3.0]], must be a QLearning(), an SB3Learning(...), for a policy",
        ),
        ({"trials": "x"}, "trials is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"share": "x"}, "share is 'x', must be True or False"),
        ({"on_violation": "x"}, "on_violation is 'x', must be one of 'raise', 'widen', 'clip'"),
        ({"gamma": "x"}, "gamma is 'x', but the task has its own, 0.5: leave it out"),
        ({"gamma": -1}, "gamma is -1, but the task has its own, 0.5: leave it out"),
        ({"horizon": "x"}, "horizon is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"horizon": 2}, "horizon is 2, but the task has its own, 4: leave it out"),
        ({"n_jobs": "x"}, "n_jobs is 'x', must be a positive number of workers, or -1 for one to a core"),
        ({"executor": "x"}, "executor is 'x', must be"),
        ({"save": 3}, "save is 3, must be the path of a folder"),
        ({"progress": "x"}, "progress is 'x', must be True or False"),
        ({"gamma": "x"}, "gamma is 'x', but the task has its own, 0.5: leave it out"),
        ({"gamma": -1}, "gamma is -1, but the task has its own, 0.5: leave it out"),
        ({"horizon": "x"}, "horizon is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"horizon": 2}, "horizon is 2, but the task has its own, 4: leave it out"),
    ),
    "Experience": Call(pm.Experience, lambda: {"values": [[0.9, 0.1], [0.2, 0.8]]}).refuses(
        ({"values": [1.0, 2.0]}, "values has shape (2,), must be [tasks, sources] with one task at"),
        ({"values": np.empty((0, 2))}, "values has shape (0, 2), must be [tasks, sources] with one"),
        ({"values": [[1.0, math.nan]]}, "values[0, 1] is nan, must be a finite number: leave out"),
        ({"values": [[1.0], [math.inf]]}, "values[1, 0] is inf, must be a finite number: leave out"),
        ({"values": [["a"]]}, "values has dtype <U1, must hold numbers"),
        ({"errors": [[1.0, 2.0]]}, "errors has shape (1, 2), must be numbers from 0 on, (2, 2)"),
        ({"errors": [[-1.0, 1.0], [1.0, 1.0]]}, "errors has shape (2, 2), must be numbers from 0 on,"),
        ({"spread": [[1.0], [2.0]]}, "spread has shape (2, 1), must be numbers from 0 on, (2, 2)"),
        ({"spread": [[-1.0, 1.0], [1.0, 1.0]]}, "spread has shape (2, 2), must be numbers from 0 on,"),
        ({"spread": [[math.nan, 1.0], [1.0, 1.0]]}, "spread[0, 0] is nan, must be a finite number:"),
        ({"best": [1.0]}, "best has shape (1,), must be numbers, (2,)"),
        ({"best": [[1.0, 2.0], [3.0, 4.0]]}, "best has shape (2, 2), must be numbers, (2,)"),
        ({"sources": ["one"]}, "sources has 1 names, must have one to each of 2 columns"),
        ({"values": "x"}, "values has dtype <U1, must hold numbers"),
        ({"values": -1}, "values has shape (1,), must be [tasks, sources] with one task at least"),
        ({"errors": "x"}, "errors has dtype <U1, must hold numbers"),
        ({"errors": -1}, "errors has shape (1,), must be numbers from 0 on, (2, 2)"),
        ({"spread": "x"}, "spread has dtype <U1, must hold numbers"),
        ({"spread": -1}, "spread has shape (1,), must be numbers from 0 on, (2, 2)"),
        ({"best": "x"}, "best has dtype <U1, must hold numbers"),
        ({"best": -1}, "best has shape (1,), must be numbers, (2,)"),
        ({"sources": "x"}, "sources is 'x', must be a list of names"),
        ({"sources": [-1.0]}, "sources has 1 names, must have one to each of 2 columns"),
    ),
    "TransferRun.curve": Call(lambda **given: right.run().curve(**given), dict).refuses(
        *each("window", [0, 1.5, True, "2"], "is ..., must be a whole number, at least 1"),
        ({"window": "x"}, "window is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ),
    "TransferRun.shares": Call(lambda **given: right.run().shares(**given), dict).refuses(
        *each("window", [0, 1.5, True, "2"], "is ..., must be a whole number, at least 1"),
        ({"window": "x"}, "window is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ),
    "TransferRun.plot": Call(lambda **given: right.run().plot(**given), dict).refuses(
        ({"optimum": True}, "optimum is True, must be a finite number or None"),
        ({"optimum": "x"}, "optimum is 'x', must be a finite number or None"),
    ),
    "plot_curves": Call(pm.plot_curves, lambda: {"runs": {"a": right.run()}}).refuses(
        ({"runs": "x"}, "runs is 'x', must be a dict of names and runs"),
        ({"optimum": "x"}, "optimum is 'x', must be a finite number or None"),
    ),
    "QLearning": Call(pm.QLearning, dict).refuses(
        *each("initial", [math.nan, math.inf, 1e301, "1", None, [1.0]], "is ..., must be a finite number"),
        *each("learn_from", ["all", None, "Own"], "is ..., must be one of 'own', 'every'"),
        *each("epsilon", BAD, "is ..., must be numbers in 0 .. 1"),
        *each("step_size", BAD, "is ..., must be numbers in 0 .. 1"),
        ({"step_size": "x"}, "step_size is 'x', must be numbers in 0 .. 1"),
        ({"epsilon": "x"}, "epsilon is 'x', must be numbers in 0 .. 1"),
        ({"initial": "x"}, "initial is 'x', must be a finite number, at most 1e300"),
        ({"learn_from": "x"}, "learn_from is 'x', must be one of 'own', 'every'"),
    ),
    "QLearning.start": Call(pm.QLearning().start, lambda: SPACES).refuses(
        ({"observations": "x"}, "got 'x' and Discrete(2), must be Discrete observations and actions from"),
        ({"actions": "x"}, "got Discrete(3) and 'x', must be Discrete observations and actions from 0"),
        ({"gamma": "x"}, "gamma is 'x', must be a number, in 0 .. 1"),
        ({"gamma": -1}, "gamma is -1, must be in 0 .. 1"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "FixedPolicy": Call(pm.FixedPolicy, lambda: {"policy": POLICY}).refuses(
        ({"policy": 3}, "policy is 3, must be an array, an object with a method act, a"),
        ({"policy": None}, "policy is None, must be an array, an object with a method act, a"),
        ({"policy": gym.spaces.Discrete(2)}, "policy is Discrete(2), must be an array, an object"),
        ({"policy": "x"}, "policy is 'x', and there is no such file, must be a policy: pass"),
        (
            {"policy": -1},
            "policy is -1, must be an array, an object with a method act, a Stable-Baselines3 model or a function",
        ),
    ),
    "FixedPolicy.start": Call(pm.FixedPolicy(POLICY).start, lambda: SPACES, says="FixedPolicy").refuses(
        (
            {"observations": "x"},
            "policy is a table, which needs Discrete observations and actions from 0, must be a policy for 'x'",
        ),
        (
            {"observations": -1},
            "policy is a table, which needs Discrete observations and actions from 0, must be a policy for -1",
        ),
        (
            {"actions": "x"},
            "policy is a table, which needs Discrete observations and actions from 0, must be a policy for",
        ),
    ),
    "FixedPolicy.act": Call(pm.FixedPolicy(POLICY).act, lambda: {"observation": 1}).refuses(
        ({"observation": "x"}, "the observation is 'x', must be a state in 0..2"),
    ),
    "SB3Learning": Call(pm.SB3Learning, lambda: {"algorithm": "DQN"}).refuses(
        ({"algorithm": "x"}, "algorithm is 'x', must be one of 'DQN', 'SAC', 'TD3', 'DDPG'"),
        ({"learn_from": "x"}, "learn_from is 'x', must be one of 'own', 'every'"),
        ({"exploration_steps": "x"}, "exploration_steps is 'x', must be a whole number, at least 1 (and <"),
    ),
    "SB3Learning.start": Call(
        pm.SB3Learning("DQN").start,
        lambda: SPACES | {"observations": gym.spaces.Box(-1.0, 1.0, (2,))},
        says="SB3Learning",
    ).refuses(
        (
            {"observations": "x"},
            "algorithm is 'DQN', must be another learner: no learner here takes str observations ('x'): wrap the",
        ),
        (
            {"observations": -1},
            "algorithm is 'DQN', must be another learner: no learner here takes int observations (-1): wrap the",
        ),
        (
            {"actions": "x"},
            "algorithm is 'DQN', must be another learner: no learner here takes str actions ('x'): pass a",
        ),
        (
            {"actions": -1},
            "algorithm is 'DQN', must be another learner: no learner here takes int actions (-1): pass a learner",
        ),
        ({"gamma": "x"}, "gamma is 'x', must be a number, in 0 .. 1"),
        ({"gamma": -1}, "gamma is -1, must be in 0 .. 1"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "decay": Call(pm.decay, lambda: {"first": 0.1, "half": 5.0}).refuses(
        ({"first": "x"}, "first is 'x', must be a number, in 0 .. 1"),
        ({"first": -1}, "first is -1, must be in 0 .. 1"),
        ({"half": "x"}, "half is 'x', must be a number above 0"),
    ),
    "reuse.QLearner.act": Call(LEARNER.act, lambda: {"state": 1}, says="QLearner").refuses(
        ({"state": "x"}, "state is 'x', must be a whole number in 0..2"),
        ({"epsilon": "x"}, "epsilon is 'x', must be a number, in 0 .. 1"),
        ({"epsilon": -1}, "epsilon is -1, must be in 0 .. 1"),
    ),
    "reuse.QLearner.likelihood": Call(LEARNER.likelihood, lambda: {"state": 1, "action": 0}, says="QLearner").refuses(
        ({"state": "x"}, "state is 'x', must be a whole number in 0..2"),
        ({"action": "x"}, "action is 'x', must be a whole number in 0..1"),
    ),
    "reuse.QLearner.learn": Call(LEARNER.learn, lambda: LEARN, says="QLearner").refuses(
        ({"state": "x"}, "state is 'x', must be a whole number in 0..2"),
        ({"action": "x"}, "action is 'x', must be a whole number in 0..1"),
        ({"reward": "x"}, "reward is 'x', must be a finite number"),
        ({"terminated": "x"}, "terminated is 'x', must be True or False"),
    ),
}
