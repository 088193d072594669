"""Random generators: checked, written down, read back."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.checks import is_whole
from pastmaster.errors import InvalidInputError

Rng = int | np.random.Generator | None
"""What a person may pass as ``rng``: a seed, a generator, or None for a fresh seed."""


def seeded(caller: str, rng: Rng) -> tuple[np.random.Generator, int | None]:
    """The generator that a person's ``rng`` stands for, and its seed: None where a generator was given.

    Without ``rng`` the seed is fresh, and short enough for every reader of JSON.
    """
    if isinstance(rng, np.random.Generator):
        return rng, None
    seed = secrets.randbits(53) if rng is None else rng
    if not is_whole(seed) or seed < 0:
        raise InvalidInputError(
            f"{caller}: rng is {rng!r}, must be a seed (a whole number, at least 0), a numpy.random.Generator or None"
        )
    return np.random.default_rng(int(seed)), int(seed)


def checked_rng(caller: str, rng: Rng) -> np.random.Generator:
    """The generator that a person's ``rng`` stands for."""
    return seeded(caller, rng)[0]


def rng_to_dict(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a generator as plain JSON values."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

    state: dict[str, Any] = plain(rng.bit_generator.state)
    return state


def rng_from_dict(state: Any) -> np.random.Generator:
    """A generator in the state that ``rng_to_dict`` wrote."""
    known = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}
    name = state.get("bit_generator") if isinstance(state, Mapping) else None
    if not isinstance(name, str) or name not in known:
        raise InvalidInputError(f"from_dict: rng is of kind {name!r}, must be one of {', '.join(known)}")
    bits = known[name](0)
    try:
        bits.state = state
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"from_dict: rng does not hold a state of {name}: {error!r}") from None
    return np.random.Generator(bits)
