"""The one way in for policies: arrays, functions, models and policies become policies."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.checks import text
from pastmaster.errors import InvalidInputError
from pastmaster.policies.batch import is_random, is_recurrent
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.onnx_policy import OnnxPolicy
from pastmaster.policies.policy import (
    FunctionPolicy,
    Policy,
    TablePolicy,
    checked_policy,
    is_policy,
)
from pastmaster.policies.sb3_live import is_model, live_policy
from pastmaster.policies.torch_module import is_module
from pastmaster.tables import shown
from pastmaster.tasks.spaces import described_space, discrete_size


def data_of(policy: Any) -> list[Any] | None:
    """All that a policy is, as arrays and texts; None where it is code, which cannot be identified."""
    if isinstance(policy, TablePolicy):
        return ["table", policy.table]
    if isinstance(policy, NetworkPolicy):
        return ["network", json.dumps(policy.settings, sort_keys=True), policy.weights]
    if isinstance(policy, OnnxPolicy):
        return ["onnx", json.dumps(policy.settings, sort_keys=True), policy.sha256]
    return None


def is_array(policy: Any) -> bool:
    """Whether this is an array, or is taken for one: a list, a tuple, a DataFrame, a tensor."""
    return isinstance(policy, np.ndarray | list | tuple) or (
        getattr(policy, "__array__", None) is not None and not callable(policy)
    )


def as_policy(policy: Any, place: str) -> Policy:
    """Anything that is taken for a policy, as a policy.

    Parameters
    ----------
    policy : Policy, array, function or Stable-Baselines3 model
        A policy stays what it is; an array becomes a ``TablePolicy``, a function a ``FunctionPolicy`` and a model its
        ``NetworkPolicy``, or a ``PredictPolicy`` where it is no plain network.
    place : str
        What an error begins with.

    Returns
    -------
    Policy
        An object with a method ``act``.

    Raises
    ------
    InvalidInputError
        It is none of these.

    Examples
    --------
    >>> from pastmaster.policies import as_policy
    >>> as_policy([0, 1, 1], "example: policy")
    TablePolicy(actions in 3 states)
    """
    text("as_policy", "place", place)
    _check_no_path(policy, place)
    if is_array(policy):
        return TablePolicy(policy, place=place)
    if not isinstance(policy, type):
        if is_policy(policy):
            return cast(Policy, policy)
        if is_module(policy):
            raise InvalidInputError(
                f"{place} is a torch module, {shown(type(policy).__name__)}, must be a policy: pass "
                "NetworkPolicy.from_torch(module), or load_onnx(path, task) of its export"
            )
        if is_model(policy):
            return live_policy(policy, caller=place)
        if callable(policy):
            return FunctionPolicy(policy)
    raise InvalidInputError(
        f"{place} is {shown(policy)}, must be an array, an object with a method act, a Stable-Baselines3 "
        "model or a function"
    )


def _check_no_path(policy: Any, place: str) -> None:
    if isinstance(policy, str | Path):
        known = "" if os.path.exists(policy) else ", and there is no such file"
        reader = "load_onnx(path, task)" if Path(policy).suffix == ".onnx" else "load_sb3(path)"
        raise InvalidInputError(f"{place} is {shown(os.fspath(policy))}{known}, must be a policy: pass {reader}")


def check_fits(policy: Any, observations: gym.Space[Any], actions: gym.Space[Any], place: str, task: str) -> None:
    """Refuse a network that takes other observations, or gives other actions, than a task has."""
    spaces = f"{described_space(observations)} observations and {described_space(actions)} actions"
    if isinstance(policy, OnnxPolicy) and policy.misfit(observations, actions):
        raise InvalidInputError(f"{place} is {shown(policy)}, must fit {task}, which has {spaces}")
    if not isinstance(policy, NetworkPolicy):
        return
    shape = policy.stack.shape
    n_inputs = shape.sizes[0]
    outputs = shape.sizes[-1]
    if shape.one_hot:
        takes = f"one of {n_inputs} states"
        fits = discrete_size(observations) == n_inputs
    else:
        takes = f"{n_inputs} numbers"
        fits = observations.shape is None or math.prod(observations.shape) == n_inputs
    if shape.head == "argmax":
        gives = f"one of {outputs} actions"
        fits = fits and isinstance(actions, gym.spaces.Discrete) and actions.n == outputs
    elif shape.head == "argmaxes":
        gives = f"choices among {list(shape.nvec)}"
        fits = fits and isinstance(actions, gym.spaces.MultiDiscrete) and actions.nvec.tolist() == list(shape.nvec)
    else:
        gives = f"{outputs} numbers"
        fits = fits and isinstance(actions, gym.spaces.Box) and math.prod(actions.shape) == outputs
    if not fits:
        raise InvalidInputError(
            f"{place} is a network that takes {takes} and gives {gives}, must fit {task}, which has {spaces}"
        )


def as_table(policy: Any, n_states: int, n_actions: int, place: str) -> Array:
    """Any policy over states 0 .. S - 1 as actions [S] or probabilities [S, A]; others are asked in each."""
    _check_no_path(policy, place)
    table = is_array(policy) or isinstance(policy, TablePolicy)  # first: asking for a protocol takes long
    if table or not (is_policy(policy) or is_model(policy) or callable(policy)):
        return checked_policy(policy, n_states, n_actions, place)
    made = as_policy(policy, place)
    if is_recurrent(made):
        raise InvalidInputError(f"{place} is {shown(made)}, which is recurrent, must act by the state alone")
    if is_random(made):
        raise InvalidInputError(f"{place} is {shown(made)}, which draws at random, must be its probabilities [S, A]")
    return checked_policy(made.act(np.arange(n_states)), n_states, n_actions, place)
