"""Numbers as arguments: checked, or refused with one form of sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from pastmaster.errors import InvalidInputError


def whole(caller: str, name: str, value: Any, *, at_least: int) -> int:
    """A whole number that an array can be long, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not at_least <= value < 10**12:
        raise InvalidInputError(
            f"{caller}: {name} is {value!r}, must be a whole number, at least {at_least} (and < 1e12)"
        )
    return int(value)


def is_finite(value: Any) -> bool:
    """Whether this is a finite number."""
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def optional_whole(caller: str, name: str, value: Any) -> int | None:
    """None or a whole number from 1 on, or a refusal."""
    return None if value is None else whole(caller, name, value, at_least=1)


def within(caller: str, name: str, value: Any, lowest: float, highest: float) -> float:
    """A number in a closed interval, or a refusal."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and is_finite(value) and lowest <= float(value) <= highest):
        place = f"at least {lowest:g}" if highest == math.inf else f"in {lowest:g} .. {highest:g}"
        raise InvalidInputError(f"{caller}: {name} is {value!r}, must be {place}")
    return float(value)


def listed(things: Iterable[Any], place: str) -> list[Any]:
    """An iterable as a list, or a refusal."""
    if not isinstance(things, Iterable):
        raise InvalidInputError(f"{place} is {things!r}, must be a list")
    return list(things)
