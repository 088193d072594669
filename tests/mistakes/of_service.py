"""Mistakes in calls of the service, of its client and of the checks of contracts."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from right import POLICY, TASK, Call, repository

import pastmaster as pm
from pastmaster import Client, service, testing
from pastmaster.policies import TablePolicy

SITE = {"name": "site", "sources": ["a", "b"], "bounds": (0.0, 1.0), "seed": 0}
NOWHERE = {"url": "http://localhost:1", "patience": 0.0}
SPACES = {"observation_space": gym.spaces.Discrete(3), "action_space": gym.spaces.Discrete(2)}


def on(function: Any) -> Any:
    """A function of a repository, which is opened where it is called."""
    return lambda **given: function(**({"repository": repository()} | given))


def calling(method: str) -> Any:
    """A method of a client whose server is not there: mistakes are seen before anything is sent."""
    return lambda **given: getattr(Client(**NOWHERE), method)(**given)


def started(**given: Any) -> None:
    """Start a server, and stop it."""
    with service.started(**({"repository": repository()} | given)):
        pass


IN_REPOSITORY = [
    ({"repository": "x"}, "repository is 'x', must be a Repository"),
    ({"name": 3}, "name is 3, must be a text"),
    (
        {"name": ""},
        "name is '', must have 1 to 100 letters: no slash, no control character, no space at either end",
    ),
]

CALLS = {
    "service.make_task": Call(on(service.make_task), lambda: SITE).refuses(
        *IN_REPOSITORY,
        ({"sources": "x"}, "sources is 'x', must be 'kept' or a list"),
        (
            {"sources": [[1.0, 2.0], [3.0]]},
            "sources[0] is [1.0, 2.0], must be the id of a stored policy, or all be names",
        ),
        ({"selector": "x"}, "selector is 'x', must be one of 'informed', 'regret-balancing', ..."),
        ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"bounds": "x"}, "bounds is 'x', must be (lower, upper)"),
        ({"bounds": [[1.0, 2.0], [3.0]]}, "bounds is [[1.0, 2.0], [3.0]], must be finite, lower below"),
        ({"clip": "x"}, "clip is 'x', must be True or False"),
        ({"lease": "x"}, "lease is 'x', must be a number, in 0.001 .. 3.16224e+07"),
        ({"lease": -1}, "lease is -1, must be in 0.001 .. 3.16224e+07"),
        ({"expired_return": "x"}, "expired_return is 'x', must be a number, at least -inf"),
        ({"expired_return": -1}, "expired_return is -1, must be within the bounds 0 .. 1"),
        ({"most_open": "x"}, "most_open is 'x', must be a whole number, in 1..1000000"),
        ({"learner": 3}, "learner is 3, must be a text"),
        (
            {"learner": ""},
            "learner is '', must have 1 to 100 letters: no slash, no control character, no space at either end",
        ),
        ({"seed": "x"}, "seed is 'x', must be a whole number, in 0.."),
    ),
    "service.remove_task": Call(on(service.remove_task), lambda: {"name": "site"}, runs=False).refuses(
        *IN_REPOSITORY,
    ),
    "service.add_token": Call(on(service.add_token), lambda: {"name": "t", "role": "read"}).refuses(
        *IN_REPOSITORY,
        ({"role": "x"}, "role is 'x', must be one of 'read', 'decide', 'admin'"),
    ),
    "service.revoke_token": Call(on(service.revoke_token), lambda: {"name": "t"}, runs=False).refuses(
        *IN_REPOSITORY,
    ),
    "service.started": Call(started, dict).refuses(
        ({"repository": "x"}, "repository is 'x', must be a Repository"),
        ({"port": "x"}, "port is 'x', must be a whole number, in 0..65535"),
        ({"rate": "x"}, "rate is 'x', must be a number, in 0.001 .. 1e+12"),
        ({"rate": -1}, "rate is -1, must be in 0.001 .. 1e+12"),
    ),
    "Client": Call(Client, lambda: NOWHERE).refuses(
        ({"url": "x"}, "url is 'x', must be like http://localhost:8000"),
        ({"url": -1}, "url is -1, must be a text"),
        ({"token": 3}, "token is no text of ASCII letters, must be what `pastmaster token add` printed"),
        ({"timeout": "x"}, "timeout is 'x', must be a number, in 0.001 .. 86400"),
        ({"timeout": -1}, "timeout is -1, must be in 0.001 .. 86400"),
        ({"patience": "x"}, "patience is 'x', must be a number, in 0 .. 86400"),
        ({"patience": -1}, "patience is -1, must be in 0 .. 86400"),
    ),
    "Client.ask": Call(calling("ask"), lambda: {"task": "site"}, runs=False).refuses(
        ({"lease": "x"}, "lease is 'x', must be a number, in 0.001 .. 1e+09"),
        ({"lease": -1}, "lease is -1, must be in 0.001 .. 1e+09"),
    ),
    "Client.ask_many": Call(
        calling("ask_many"), lambda: {"task": "site", "count": 2}, says="Client.ask", runs=False
    ).refuses(
        ({"count": "x"}, "count is 'x', must be a whole number, in 1..1000"),
        ({"lease": "x"}, "lease is 'x', must be a number, in 0.001 .. 1e+09"),
        ({"lease": -1}, "lease is -1, must be in 0.001 .. 1e+09"),
    ),
    "Client.tell": Call(calling("tell"), lambda: {"task": "site", "episode": 1, "value": 0.5}, runs=False).refuses(
        ({"episode": "x"}, "episode is 'x', must be what ask returned, or its number"),
        ({"value": "x"}, "value is 'x', must be a finite number"),
    ),
    "Client.tell_many": Call(calling("tell_many"), lambda: {"task": "site", "returns": {1: 0.5}}, runs=False).refuses(
        ({"returns": "x"}, "returns is 'x', must be a dict of returns by number"),
    ),
    "Client.cancel": Call(calling("cancel"), lambda: {"task": "site", "episode": 1}, runs=False).refuses(
        ({"episode": "x"}, "episode is 'x', must be what ask returned, or its number"),
    ),
    "Client.episode": Call(
        lambda **given: calling("episode")(**given).__enter__(), lambda: {"task": "site"}, says="Client.ask", runs=False
    ).refuses(
        ({"lease": "x"}, "lease is 'x', must be a number, in 0.001 .. 1e+09"),
        ({"lease": -1}, "lease is -1, must be in 0.001 .. 1e+09"),
    ),
    "testing.check_task": Call(testing.check_task, lambda: {"task": TASK}).refuses(
        ({"task": pm.GymTask}, "task is <class ..., must be a TabularMDP or a GymTask"),
        ({"task": gym.make("CartPole-v1")}, "task is <..., must be ...wrap an environment"),
        ({"task": "x"}, "task is 'x', must be a TabularMDP or a GymTask: wrap an environment,"),
        ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"seed": "x"}, "seed is 'x', must be a whole number, at least 0 (and < 1e12)"),
    ),
    "testing.check_policy": Call(testing.check_policy, lambda: {"policy": POLICY, "task": TASK}).refuses(
        ({"policy": TablePolicy}, "policy is the class TablePolicy, must be a policy: make one, TablePolicy(...)"),
        ({"policy": None}, "policy is None, must be an array"),
        ({"task": 3}, "task is 3, must be a task"),
        ({"policy": "x"}, "policy is 'x', and there is no such file, must be a policy: pass"),
        (
            {"policy": -1},
            "policy is -1, must be an array, an object with a method act, a Stable-Baselines3 model or a function",
        ),
        ({"task": "x"}, "task is 'x', must be a task, an environment or a pair of spaces"),
        ({"seed": "x"}, "seed is 'x', must be a whole number, at least 0 (and < 1e12)"),
    ),
    "testing.check_learner": Call(
        testing.check_learner, lambda: {"settings": pm.QLearning(), "steps": 5} | SPACES
    ).refuses(
        ({"observation_space": 2}, "observation_space is 2, must be a space"),
        ({"action_space": 2}, "action_space is 2, must be a space"),
        ({"observation_space": "x"}, "observation_space is 'x', must be a space of Gymnasium"),
        ({"action_space": "x"}, "action_space is 'x', must be a space of Gymnasium"),
        ({"steps": "x"}, "steps is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"seed": "x"}, "seed is 'x', must be a whole number, at least 0 (and < 1e12)"),
    ),
    "testing.check_selector": Call(testing.check_selector, lambda: {"factory": pm.TsallisINF, "episodes": 5}).refuses(
        (
            {"factory": pm.Exp3Transfer(1, 10, bounds=(0, 1))},
            "factory is Exp3Transfer(..., must be a class or a function that makes selectors",
        ),
        ({"factory": "ppr"}, "factory is 'ppr', must be a class or a function"),
        ({"factory": "x"}, "factory is 'x', must be a class or a function that makes selectors"),
        ({"n_sources": "x"}, "n_sources is 'x', must be a whole number, at least 0 (and < 1e12)"),
        ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 2 (and < 1e12)"),
        ({"seed": "x"}, "seed is 'x', must be a whole number, at least 0 (and < 1e12)"),
    ),
}
