"""Observations as the batches that policies act on."""

from __future__ import annotations

from typing import Any

import numpy as np


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
