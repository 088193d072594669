"""Batches: observations that a policy acts on at once, and networks that act at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pastmaster.arrays import Array, as_array
from pastmaster.checks import listed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.stack import NetworkStack
from pastmaster.tables import shown


def batch(observations: list[Any]) -> Any:
    """Observations as one array; those of Dict and Tuple spaces, and others that are no arrays, stay a list."""
    plain = isinstance(observations[0], np.ndarray | np.generic | int | float)
    return np.stack(observations) if plain else observations


def by_part(observations: Any) -> Any:
    """A batch with all observations in one array; in one array to each key or place, if they are dicts or tuples."""
    first = next(iter(observations), None) if isinstance(observations, list) else None
    if isinstance(first, dict):
        return {key: by_part([observation[key] for observation in observations]) for key in first}
    if isinstance(first, tuple):
        return tuple(by_part(list(part)) for part in zip(*observations, strict=True))
    array = as_array(observations, "act: observations", None)
    if not array.ndim:
        raise InvalidInputError(f"act: observations is {shown(observations)}, must be [n, ...]")
    return array


def actions_as_one(actions: list[Any]) -> Any:
    """Actions as one array; those that are dicts, or tuples of unlike parts, stay a list."""
    first = actions[0] if actions else None
    if isinstance(first, dict):
        return actions
    if isinstance(first, tuple):
        parts = [np.asarray(part) for part in first if not isinstance(part, dict | tuple)]
        alike = len({part.dtype.kind for part in parts}) == 1 and not any(part.ndim for part in parts)
        if len(parts) < len(first) or not alike:
            return actions
    return np.array(actions)


def check_parts(policy: Any, observations: Any) -> None:
    """Refuse a network for observations that are no arrays."""
    if isinstance(observations, list) and isinstance(policy, NetworkPolicy):
        raise InvalidInputError(
            f"act: observations are each a {type(observations[0]).__name__}, must be arrays: {shown(policy)} takes no "
            "others"
        )


def is_random(policy: Any) -> bool:
    """Whether a policy draws its actions, by numbers that it is given."""
    return bool(getattr(policy, "random", None))


def is_recurrent(policy: Any) -> bool:
    """Whether a policy remembers what it saw in an episode, and so is begun anew for each."""
    return getattr(policy, "recurrent", None) is True


def begun(policy: Any) -> Any:
    """A policy as it acts in one episode: a recurrent one begins it, others are the same in all."""
    return policy.begin_episode() if is_recurrent(policy) else policy


def action_of(policy: Any, observation: Any, rng: np.random.Generator) -> Any:
    """What a policy does on one observation; ``rng`` is drawn from only if it is random."""
    drawn = (np.array([rng.random()]),) if is_random(policy) else ()
    observations = batch([observation])
    check_parts(policy, observations)
    action = policy.act(observations, *drawn)[0]
    return int(action) if isinstance(action, np.integer) else action


def stacked(policies: Sequence[Any]) -> NetworkStack | None:
    """Networks of one shape as one stack, which acts faster than each by itself.

    Parameters
    ----------
    policies : sequence of Policy
        Any policies.

    Returns
    -------
    NetworkStack or None
        None where they are not all of type ``NetworkPolicy`` and of one shape.

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster.policies import NetworkPolicy, stacked
    >>> left, right = (NetworkPolicy([([[sign], [-sign]], [0.0, 0.0])]) for sign in (1.0, -1.0))
    >>> stacked([left, right]).act(np.array([[[2.0]], [[2.0]]])).tolist()
    [[0], [1]]
    """
    policies = listed(policies, "stacked: policies")
    stacks = [policy.stack for policy in policies if isinstance(policy, NetworkPolicy)]
    if not stacks or len(stacks) < len(policies):
        return None
    first = stacks[0]
    if any(stack.shape != first.shape or (stack.normal is None) != (first.normal is None) for stack in stacks):
        return None

    def joined(parts: Sequence[Any]) -> list[Array]:
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    return NetworkStack(
        first.shape,
        joined([stack.weights for stack in stacks]),
        joined([stack.biases for stack in stacks]),
        None if first.limits is None else joined([stack.limits for stack in stacks]),
        None if first.normal is None else joined([stack.normal for stack in stacks]),
    )
