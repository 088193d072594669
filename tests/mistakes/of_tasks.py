"""Mistakes in calls that make tasks and environments."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from right import TASK, Call

import pastmaster as pm

TABLE = {"next_state": [[0, 1], [1, 1]], "reward": [[0.0, 1.0], [2.0, 0.0]], "gamma": 0.5}


def stepped(**given: Any) -> Any:
    """What a step returns."""
    env = TASK.to_gymnasium()
    env.reset(seed=0)
    return env.step(**given)


RANDOM = {
    "next_state": [[[0, 1], [1, 2]]] * 3,
    "reward": [[[0.0, 1.0], [2.0, 0.0]]] * 3,
    "probability": [[[0.5, 0.5], [0.25, 0.75]]] * 3,
    "gamma": 0.5,
}


def spoiled(name: str, place: tuple[int, ...], value: float) -> Any:
    """An array of a random task with one entry changed."""
    array = np.array(RANDOM[name])
    array[place] = value
    return array


CALLS = {
    "TabularMDP, random": Call(pm.TabularMDP, lambda: RANDOM).refuses(
        ({"reward": spoiled("reward", (1, 0, 1), math.nan)}, "reward[1, 0, 1] is nan, must be finite"),
        ({"reward": spoiled("reward", (0, 1, 0), math.inf)}, "reward[0, 1, 0] is inf, must be finite"),
        ({"reward": spoiled("reward", (0, 1, 1), -math.inf)}, "reward[0, 1, 1] is -inf, must be finite"),
        ({"probability": spoiled("probability", (0, 1, 1), 0.72)}, "probability[0, 1] sums to 0.97, must be 1"),
        (
            {"probability": spoiled("probability", (0, 1, 1), 0.75 + 1e-6)},
            "probability[0, 1] sums to 1.000001, must be 1",
        ),
        ({"probability": spoiled("probability", (1, 1, 0), math.nan)}, "probability[1, 1, 0] is nan, must be at least"),
        ({"probability": spoiled("probability", (1, 1, 0), math.inf)}, "probability[1, 1] sums to inf, must be 1"),
        ({"next_state": spoiled("next_state", (1, 1, 0), 3)}, "next_state[1, 1, 0] is 3, must be in 0..2"),
        ({"next_state": spoiled("next_state", (0, 0, 1), -1)}, "next_state[0, 0, 1] is -1, must be in 0..2"),
        ({"reward": np.array(RANDOM["reward"]) + 1j}, "reward has dtype complex128, must hold numbers"),
        ({"reward": np.zeros((3, 2))}, "reward has shape (3, 2), must be (3, 2, 2) as next_state"),
        ({"reward": [[["a", "b"]] * 2] * 3}, "reward has dtype <U1, must hold numbers"),
        ({"reward": [[[1.0, 2.0], [3.0]]] * 3}, "reward is ragged, must have rows of one length"),
        ({"probability": [[[1.5, -0.5]] * 2] * 3}, "probability[0, 0, 1] is -0.5, must be at least 0"),
        ({"probability": None}, "next_state has 2 outcomes per action, so probability must be given"),
        ({"probability": np.ones((3, 2))}, "probability has shape (3, 2), must be (3, 2, 2) as"),
        ({"next_state": np.zeros((3, 2, 2))}, "next_state has dtype float64, must hold integers"),
        ({"next_state": np.zeros((3, 2, 2), bool)}, "next_state has dtype bool, must hold integers"),
        ({"next_state": [[[0, 1], [1]], [[1, 0], [0, 0]]]}, "next_state is ragged, must have rows of"),
        ({"next_state": [0, 1]}, "next_state has shape (2,), must be [S, A] or [S, A, K] with no"),
        ({"next_state": np.zeros((2, 2, 2, 2), int)}, "next_state has shape (2, 2, 2, 2), must be [S, A]"),
        ({"next_state": np.zeros((0, 2), int)}, "next_state has shape (0, 2), must be [S, A] or [S,"),
        ({"next_state": np.zeros((2, 0, 2), int)}, "next_state has shape (2, 0, 2), must be [S, A]"),
        ({"next_state": []}, "next_state has dtype float64, must hold integers"),
        ({"next_state": None}, "next_state is None, must be an array"),
        ({"terminated": np.zeros((3, 2), bool)}, "terminated has shape (3, 2), must be (3, 2, 2) as"),
        ({"terminated": np.zeros((3, 2, 2))}, "terminated has dtype float64, must hold booleans"),
        ({"gamma": 1.0}, "gamma is 1.0, must be in [0, 1), or 1 with a horizon"),
        ({"gamma": -0.1}, "gamma is -0.1, must be in [0, 1), or 1 with a horizon"),
        ({"gamma": math.nan}, "gamma is nan, must be in [0, 1), or 1 with a horizon"),
        ({"gamma": math.inf}, "gamma is inf, must be in [0, 1), or 1 with a horizon"),
        ({"gamma": "0.9"}, "gamma is '0.9', must be in [0, 1), or 1 with a horizon"),
        ({"gamma": None}, "gamma is None, must be in [0, 1), or 1 with a horizon"),
        ({"gamma": True}, "gamma is True, must be in [0, 1), or 1 with a horizon"),
        ({"gamma": np.complex128(0.5)}, "gamma is np.complex128(0.5+0j), must be in [0, 1), or 1"),
        ({"start": 3}, "start is 3, must be a state in 0..2 or a distribution over them"),
        ({"start": -1}, "start is -1, must be a state in 0..2 or a distribution over them"),
        ({"start": 0.5}, "start is 0.5, must be a state in 0..2 or a distribution over them"),
        ({"start": "a"}, "start is 'a', must be a state in 0..2 or a distribution over them"),
        ({"start": None}, "start is None, must be an array"),
        ({"start": True}, "start is True, must be a state in 0..2 or a distribution over them"),
        ({"start": [0.5, 0.4, 0.0]}, "start sums to 0.9, must be 1"),
        ({"start": [1.5, -0.5, 0.0]}, "start[1] is -0.5, must be at least 0"),
        ({"start": [math.nan, 1.0, 0.0]}, "start[0] is nan, must be at least 0"),
        ({"start": [0.5, 0.5]}, "start has shape (2,), must be a state or a distribution of shape"),
        ({"start": []}, "start has shape (0,), must be a state or a distribution of shape (3,)"),
        ({"start": [[1.0], [0.0, 0.0]]}, "start is ragged, must have rows of one length"),
        ({"horizon": 0}, "horizon is 0, must be a positive number of steps or None, below 2^31"),
        ({"horizon": -3}, "horizon is -3, must be a positive number of steps or None, below 2^31"),
        ({"horizon": 2.5}, "horizon is 2.5, must be a positive number of steps or None, below 2^31"),
        ({"horizon": math.inf}, "horizon is inf, must be a positive number of steps or None, below"),
        ({"horizon": True}, "horizon is True, must be a positive number of steps or None, below 2^31"),
    ),
    "TabularMDP": Call(pm.TabularMDP, lambda: TABLE).refuses(
        ({"reward": [[1e308, 0.0], [0.0, 0.0]]}, "reward holds 1e+308, must be below 1e300 (1 -"),
        ({"horizon": 10**30}, "horizon is 1000000000000000000000000000000, must be a positive number"),
        ({"params": 3}, "params is 3, must be a mapping or None"),
        ({"next_state": "x"}, "next_state has dtype <U1, must hold integers"),
        ({"next_state": -1}, "next_state has shape (), must be [S, A] or [S, A, K] with no empty axis"),
        ({"reward": "x"}, "reward has dtype <U1, must hold numbers"),
        ({"reward": -1}, "reward has shape (), must be (2, 2) as next_state"),
        ({"gamma": "x"}, "gamma is 'x', must be in [0, 1), or 1 with a horizon"),
        ({"probability": "x"}, "probability has dtype <U1, must hold numbers"),
        ({"probability": -1}, "probability has shape (), must be (2, 2) as next_state"),
        ({"terminated": "x"}, "terminated has dtype <U1, must hold booleans"),
        ({"terminated": [[1.0, 2.0], [3.0]]}, "terminated is ragged, must have rows of one length"),
        ({"start": "x"}, "start is 'x', must be a state in 0..1 or a distribution over them"),
        ({"start": [[1.0, 2.0], [3.0]]}, "start is ragged, must have rows of one length"),
        ({"horizon": "x"}, "horizon is 'x', must be a positive number of steps or None, below 2^31"),
        ({"name": 3}, "name is 3, must be a text"),
        ({"params": "x"}, "params is 'x', must be a mapping or None"),
    ),
    "TabularMDP.from_gymnasium": Call(
        pm.TabularMDP.from_gymnasium, lambda: {"env": TASK.to_gymnasium(), "gamma": 0.5}
    ).refuses(
        ({"env": "Nope-v1"}, "env is 'Nope-v1', must be an environment that can be made: Environment"),
        ({"gamma": 1, "horizon": None}, "gamma is 1, must be in [0, 1), or 1 with a horizon"),
        ({"horizon": 1.5}, "horizon is 1.5, must be a positive number of steps or None, below 2^31"),
        ({"env": 3}, "env is 3, must be an environment or its Gymnasium id"),
        (
            {"env": "x"},
            "env is 'x', must be an environment that can be made: Environment `x` doesn't exist. (if a module",
        ),
        ({"env": -1}, "env is -1, must be an environment or its Gymnasium id"),
        ({"gamma": "x"}, "gamma is 'x', must be in [0, 1), or 1 with a horizon"),
        ({"horizon": "x"}, "horizon is 'x', must be a positive number of steps or None, below 2^31"),
        ({"name": 3}, "name is 3, must be a text"),
    ),
    "TabularMDP.to_gymnasium": Call(TASK.to_gymnasium, dict).refuses(
        ({"render_mode": "human"}, "render_mode is 'human', must be None, 'ansi' or 'rgb_array'"),
        ({"render_mode": "x"}, "render_mode is 'x', must be None, 'ansi' or 'rgb_array'"),
    ),
    "TabularEnv": Call(pm.TabularEnv, lambda: {"mdp": TASK}).refuses(
        ({"mdp": "x"}, "mdp is 'x', must be a TabularMDP"),
        ({"render_mode": "x"}, "render_mode is 'x', must be None, 'ansi' or 'rgb_array'"),
        ({"picture": "x"}, "picture is 'x', must have methods ansi and rgb"),
    ),
    "TabularEnv.reset": Call(lambda **how: TASK.to_gymnasium().reset(**how), dict).refuses(
        ({"seed": "x"}, "seed is 'x', must be a whole number, in"),
    ),
    "TabularEnv.step": Call(stepped, lambda: {"action": 1}).refuses(
        ({"action": "x"}, "action is 'x', must be in 0..1"),
    ),
    "GymTask": Call(pm.GymTask, lambda: {"env_id": "FrozenLake-v1"}).refuses(
        ({"env_id": "os:Foo-v0"}, "env_id is 'os:Foo-v0', must be an id without a module: import os"),
        ({"kwargs": {"disable_env_checker": True}}, "kwargs['disable_env_checker'] is given, must be left out:"),
        ({"kwargs": {"render_mode": "human"}}, "kwargs['render_mode'] is 'human', must be 'ansi', 'rgb_array'"),
        ({"env_id": 5}, "env_id is 5, must be the id of a registered environment, or a function that"),
        ({"kwargs": {"desc": len}}, "kwargs must be plain JSON values: Object of type"),
        ({"kwargs": {"desc": np.zeros(2)}}, "kwargs must be plain JSON values: Object of type"),
        ({"kwargs": {"success_rate": math.nan}}, "kwargs must be plain JSON values: Out of range"),
        ({"kwargs": 5}, "kwargs is 5, must be a dict of arguments"),
        ({"gamma": 1.5}, "gamma is 1.5, must be in 0 .. 1"),
        ({"horizon": 0}, "horizon is 0, must be a whole number, at least 1 (and < 1e12)"),
        ({"horizon": 2.5}, "horizon is 2.5, must be a whole number, at least 1 (and < 1e12)"),
        ({"kwargs": ["desc"]}, "kwargs is ['desc'], must be a dict of arguments"),
        ({"wrappers": 3}, "wrappers is 3, must be a list of mappings"),
        ({"wrappers": ["TimeLimit"]}, "wrappers[0] is 'TimeLimit', must be a mapping with name,"),
        ({"env_id": gym.make("CartPole-v1")}, "env_id is <...CartPole...: pass lambda: gymnasium.make("),
        ({"env_id": 3}, "env_id is 3, must be the id of a registered environment, or a function that"),
        ({"gamma": "x"}, "gamma is 'x', must be a number, in 0 .. 1"),
        ({"gamma": -1}, "gamma is -1, must be in 0 .. 1"),
        ({"horizon": "x"}, "horizon is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"name": 3}, "name is 3, must be a text"),
        ({"reward_range": "x"}, "reward_range is 'x', must be the least and the greatest reward of a step"),
        ({"time_limit": "x"}, "time_limit is 'x', must be a number, in 0.001 .. 1e+09"),
        ({"time_limit": -1}, "time_limit is -1, must be in 0.001 .. 1e+09"),
        ({"wrappers": "x"}, "wrappers is 'x', must be a list of mappings"),
        (
            {"wrappers": [[1.0, 2.0], [3.0]]},
            "wrappers[0] is [1.0, 2.0], must be a mapping with name, entry_point and kwargs",
        ),
    ),
}
