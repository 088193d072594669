"""Random generators: checked, written down, read back."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.checks import LARGEST_SEED, is_whole, whole
from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line, shown

Rng = int | np.random.Generator | None
"""What a person may pass as ``rng``: a seed, a generator, or None for a fresh seed."""
KINDS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def seeded(caller: str, rng: Rng) -> tuple[np.random.Generator, int | None]:
    """The generator that a person's ``rng`` stands for, and its seed: None where a generator was given.

    Without ``rng`` the seed is fresh, and short enough for every reader of JSON.
    """
    if isinstance(rng, np.random.Generator):
        return rng, None
    seed = secrets.randbits(53) if rng is None else rng
    if not is_whole(seed) or int(seed) < 0:
        raise InvalidInputError(
            f"{caller}: rng is {shown(rng)}, must be a seed (a whole number, at least 0), a numpy.random.Generator or "
            "None"
        )
    seed = whole(caller, "rng", seed, at_least=0, at_most=LARGEST_SEED)
    return np.random.default_rng(seed), seed


def checked_rng(caller: str, rng: Rng) -> np.random.Generator:
    """The generator that a person's ``rng`` stands for."""
    return seeded(caller, rng)[0]


def rng_to_dict(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a generator as plain JSON values."""
    state: dict[str, Any] = _plain(rng.bit_generator.state)
    return state


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def rng_from_dict(state: Any, caller: str = "from_dict") -> np.random.Generator:
    """A generator in the state that ``rng_to_dict`` wrote."""
    name = state.get("bit_generator") if isinstance(state, Mapping) else None
    if name not in KINDS:
        kind = one_line(repr(name))
        raise InvalidInputError(f"{caller}: rng is of kind {kind}, must be one of {', '.join(KINDS)}")
    bits = getattr(np.random, name)(0)
    try:
        # NumPy takes any place in the numbers that it has ready, and would read outside its memory.
        if not (0 <= state["state"].get("pos", 0) <= 624 and 0 <= state.get("buffer_pos", 0) <= 4):
            raise ValueError("the next number is none of those that it has")
        bits.state = state
    except (AttributeError, TypeError, ValueError, LookupError, OverflowError) as error:
        raise InvalidInputError(f"{caller}: rng must be a state of {name} as rng_to_dict wrote it: {error}") from None
    return np.random.Generator(bits)
