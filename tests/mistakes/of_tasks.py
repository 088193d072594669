"""Mistakes in calls that make tasks and environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from right import TASK, Call

import pastmaster as pm

TABLE = {"next_state": [[0, 1], [1, 1]], "reward": [[0.0, 1.0], [2.0, 0.0]], "gamma": 0.5}


def stepped(**given: Any) -> Any:
    """What a step returns."""
    env = TASK.to_gymnasium()
    env.reset(seed=0)
    return env.step(**given)


CALLS = {
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
