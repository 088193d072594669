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

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

    state: dict[str, Any] = plain(rng.bit_generator.state)
    return state


def rng_from_dict(state: Any, caller: str = "from_dict") -> np.random.Generator:
    """A generator in the state that ``rng_to_dict`` wrote.

    NumPy takes any numbers, and reads outside its memory where a position is outside its array. So every number is
    checked here.
    """
    name = state.get("bit_generator") if isinstance(state, Mapping) else None
    if not isinstance(name, str) or name not in STATES:
        raise InvalidInputError(f"{caller}: rng is of kind {one_line(repr(name))}, must be one of {', '.join(STATES)}")
    inner, outer = STATES[name]
    checked = _numbers(f"{caller}: rng", {k: v for k, v in state.items() if k not in ("bit_generator", "state")}, outer)
    parts = checked["state"] = _numbers(f"{caller}: rng['state']", state.get("state"), inner)
    if parts.get("inc", 1) % 2 == 0:
        raise InvalidInputError(f"{caller}: rng['state']['inc'] is even, must be odd")
    if name == "MT19937" and not (parts["key"][0] >> 31 or parts["key"][1:].any()):
        raise InvalidInputError(f"{caller}: rng['state']['key'] is all 0, must not be: it would stay so")
    bits = getattr(np.random, name)(0)
    bits.state = checked | {"bit_generator": name}
    return np.random.Generator(bits)


Fields = Mapping[str, tuple[int, int]]
"""Of each field, how many numbers it has (0: one that stands alone), and what they are below."""
HALF: Fields = {"has_uint32": (0, 2), "uinteger": (0, 2**32)}
PCG: Fields = {"state": (0, 2**128), "inc": (0, 2**128)}
STATES: Mapping[str, tuple[Fields, Fields]] = {
    "PCG64": (PCG, HALF),
    "PCG64DXSM": (PCG, HALF),
    "MT19937": ({"key": (624, 2**32), "pos": (0, 625)}, {}),
    "Philox": (
        {"counter": (4, 2**64), "key": (2, 2**64)},
        {"buffer": (4, 2**64), "buffer_pos": (0, 5), **HALF},
    ),
    "SFC64": ({"state": (4, 2**64)}, HALF),
}
"""What the states of NumPy's generators hold: within "state", and beside it."""


def _numbers(place: str, given: Any, wanted: Fields) -> dict[str, Any]:
    """The fields of a state, each with as many whole numbers as it has, in their range."""
    if not isinstance(given, Mapping) or set(given) != set(wanted):
        raise InvalidInputError(f"{place} must hold {', '.join(wanted)}, and nothing else")
    found: dict[str, Any] = {}
    for key, (count, below) in wanted.items():
        values = given[key] if count else [given[key]]
        fits = isinstance(values, list | tuple | np.ndarray) and len(values) == max(count, 1)
        if not fits or not all(is_whole(value) and 0 <= value < below for value in values):
            many = f"{count} whole numbers" if count else "a whole number"
            raise InvalidInputError(f"{place}[{key!r}] must be {many} from 0 to {below - 1}")
        found[key] = np.array(values, np.uint32 if below == 2**32 else np.uint64) if count else int(values[0])
    return found
