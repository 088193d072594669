"""Spaces of observations and actions: how many states they have, and what policies depend on."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from pastmaster.tables import shown


def discrete_size(space: gym.Space[Any]) -> int | None:
    """n of Discrete(n), None of any other space."""
    return int(space.n) if isinstance(space, gym.spaces.Discrete) and space.start == 0 else None


def described_space(space: gym.Space[Any]) -> str:
    """A space by what policies depend on: kind, shape and type; the limits of observations often differ in a family."""
    if isinstance(space, gym.spaces.Box):
        return f"Box {list(space.shape)} {space.dtype}"
    return " ".join(repr(space).split()) if isinstance(space, gym.Space) else shown(space)
