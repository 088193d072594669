"""Mistakes in calls that make tasks of JAX programs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from right import Call

import pastmaster as pm
from pastmaster import tasks

NEEDS = "jax"


@cache
def pole() -> Any:
    """An environment that is a JAX program."""
    return import_module("pastmaster.domains.jax_cart_pole").CartPole()


CALLS = {
    "JaxTask": Call(pm.JaxTask, lambda: {"env": pole(), "horizon": 5}).refuses(
        ({"env": 3}, "env is 3, must be an object with the methods reset(key, params) and step(key, state, action,"),
        (
            {"env": [[1.0, 2.0], [3.0]]},
            "env is [[1.0, 2.0], [3.0]], must be an object with the methods reset(key, params) and step(key,",
        ),
        ({"params": "x"}, "params is 'x', must be numbers"),
        (
            {"params": {"zebra": 1}},
            "params has 'zebra', must be of CartPole's own: gravity, length, force_mag, masscart, masspole",
        ),
        ({"gamma": "x"}, "gamma is 'x', must be a number, in 0 .. 1"),
        ({"gamma": -1}, "gamma is -1, must be in 0 .. 1"),
        ({"horizon": "x"}, "horizon is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"name": 3}, "name is 3, must be a text"),
        ({"reward_range": "x"}, "reward_range is 'x', must be the least and the greatest reward of a step"),
        ({"time_limit": "x"}, "time_limit is 'x', must be a number, in 0.001 .. 1e+09"),
        ({"time_limit": -1}, "time_limit is -1, must be in 0.001 .. 1e+09"),
    ),
    "JaxTask.variants": Call(
        pm.JaxTask.variants, lambda: {"env": pole(), "params": {"length": [0.5, 0.7]}, "horizon": 5}
    ).refuses(
        ({"env": 3}, "env is 3, must be an object with the methods reset(key, params) and step(key, state, action,"),
        (
            {"env": [[1.0, 2.0], [3.0]]},
            "env is [[1.0, 2.0], [3.0]], must be an object with the methods reset(key, params) and step(key,",
        ),
        (
            {"params": "x"},
            "params is 'x', must be a list of parameters, or arrays that all begin with an axis of one size, the",
        ),
        ({"params": ["a", "a"]}, "params is 'a', must be numbers"),
        ({"names": "x"}, "names is 'x', must be a list"),
        ({"names": [-1.0]}, "names has 1 entries, must have 2, one a task"),
    ),
    "tasks.JaxEnv": Call(tasks.JaxEnv, lambda: {"env": pole()}, says="JaxTask").refuses(
        (
            {"env": "x"},
            "env is 'x', must be an object with the methods reset(key, params) and step(key, state, action,",
        ),
        (
            {"env": [[1.0, 2.0], [3.0]]},
            "env is [[1.0, 2.0], [3.0]], must be an object with the methods reset(key, params) and step(key,",
        ),
        ({"params": "x"}, "params is 'x', must be numbers"),
        (
            {"params": {"zebra": 1}},
            "params has 'zebra', must be of CartPole's own: gravity, length, force_mag, masscart, masspole",
        ),
    ),
    "tasks.JaxEnv.reset": Call(lambda **how: tasks.JaxEnv(pole()).reset(**how), dict).refuses(
        ({"seed": "x"}, "seed is 'x', must be a whole number, at least 0 (and < 1e12)"),
    ),
    "tasks.BraxEnv": Call(tasks.BraxEnv, lambda: {"env": pole()}, runs=False).refuses(
        ({"env": "x"}, "env is 'x', must be a Brax environment, as brax.envs.get_environment(name) makes"),
    ),
}
