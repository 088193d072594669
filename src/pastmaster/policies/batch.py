"""Batches: observations that a policy acts on at once, and networks that act at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pastmaster.arrays import Array
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.stack import NetworkStack


def batch(observations: list[Any]) -> Any:
    """Observations as one array, or as they are where they are no arrays (of a Dict space, say)."""
    plain = isinstance(observations[0], np.ndarray | np.generic | int | float)
    return np.stack(observations) if plain else observations


def is_random(policy: Any) -> bool:
    """Whether a policy draws its actions, by numbers that it is given."""
    return bool(getattr(policy, "random", False))


def action_of(policy: Any, observation: Any, rng: np.random.Generator) -> Any:
    """What a policy does on one observation; ``rng`` is drawn from only if it is random."""
    drawn = (np.array([rng.random()]),) if is_random(policy) else ()
    action = policy.act(batch([observation]), *drawn)[0]
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
