"""Random generators: checked, written down, read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.errors import InvalidInputError


def checked_rng(caller: str, rng: Any) -> np.random.Generator:
    """A generator that the caller passed as ``rng``."""
    if not isinstance(rng, np.random.Generator):
        raise InvalidInputError(f"{caller}: rng is {rng!r}, must be a numpy.random.Generator")
    return rng


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
