"""Whatever people have for a policy, as a policy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pastmaster.errors import InvalidInputError
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.policy import FunctionPolicy, Policy, TablePolicy
from pastmaster.policies.sb3_live import is_model, live_policy


def data_of(policy: Any) -> list[Any] | None:
    """All that a policy is, as arrays and texts; None of code, which cannot be told from other code."""
    if isinstance(policy, TablePolicy):
        return ["table", policy.table]
    if isinstance(policy, NetworkPolicy):
        return ["network", json.dumps(policy.settings, sort_keys=True), policy.weights]
    return None


def as_policy(thing: Any, place: str) -> Policy:
    """A policy as it is, an array as a table, a Stable-Baselines3 model as its network, a function as itself.

    All else is refused by an error that begins with ``place``.
    """
    if isinstance(thing, np.ndarray | list | tuple):
        return TablePolicy(thing, place=place)
    if not isinstance(thing, type):
        if callable(getattr(thing, "act", None)):
            policy: Policy = thing
            return policy
        if is_model(thing):
            return live_policy(thing, caller=place)
        if callable(thing):
            return FunctionPolicy(thing)
    raise InvalidInputError(
        f"{place} is {thing!r}, must be an array, an object with a method act, a Stable-Baselines3 model or a function"
    )
