"""The heads of networks: how outputs become actions, and the limits of a Box as arrays and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pastmaster.arrays import Array, as_array, sealed
from pastmaster.checks import chosen, is_whole, whole
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

HEADS = ("argmax", "argmaxes", "clip", "tanh")


def checked_head(
    caller: str, head: Any, outputs: int, start: Any, nvec: Any, low: Any, high: Any
) -> tuple[Array, Array] | None:
    """The limits of a Box head, None of the others; errors where an argument does not fit the head."""
    chosen(caller, "head", head, HEADS)
    if not is_whole(start) or (start != 0 and head != "argmax"):
        raise InvalidInputError(
            f"{caller}: start is {shown(start)}, must be a whole number, and 0 unless head is 'argmax'"
        )
    if not isinstance(nvec, Sequence) or isinstance(nvec, str):
        raise InvalidInputError(f"{caller}: nvec is {shown(nvec)}, must be a list")
    if head != "argmaxes" and len(nvec):
        raise InvalidInputError(f"{caller}: nvec is {shown(nvec)}, must be empty unless head is 'argmaxes'")
    if head == "argmaxes" and sum(whole(caller, "nvec", n, at_least=1) for n in nvec) != outputs:
        raise InvalidInputError(f"{caller}: nvec is {shown(nvec)}, must sum to the {outputs} outputs")
    if head in ("argmax", "argmaxes"):
        if low is not None or high is not None:
            raise InvalidInputError(f"{caller}: low and high are given, must be None for head {head!r}")
        return None
    lowest = numbers_of(caller, "low", low, outputs).astype(np.float32)
    highest = numbers_of(caller, "high", high, outputs).astype(np.float32)
    if lowest.shape != highest.shape or lowest.ndim == 0 or not (lowest <= highest).all():
        raise InvalidInputError(f"{caller}: low must be at most high, in one shape of at least one axis")
    if head == "tanh" and not (np.isfinite(lowest).all() and np.isfinite(highest).all()):
        raise InvalidInputError(f"{caller}: low and high must be finite for head 'tanh'")
    return sealed(lowest), sealed(highest)


def numbers_of(caller: str, name: str, values: Any, size: int) -> Array:
    """Numbers as an array of ``size`` entries in any shape."""
    array = np.empty(0) if values is None else as_array(values, f"{caller}: {name}", "iuf")
    if array.size != size:
        raise InvalidInputError(f"{caller}: {name} must hold {size} numbers, not {array.size}")
    return array


def plain_limit(limit: Array) -> Any:
    """A limit as nested lists, None where infinite."""
    plain = limit.astype(object)
    plain[~np.isfinite(limit)] = None
    return plain.tolist()


def limit_from_plain(values: Any, endless: float, dtype: Any = np.float32) -> Array | None:
    """A limit as ``plain_limit`` wrote it."""
    if values is None:
        return None
    limit: Array = np.array(values, dtype)  # None becomes nan
    limit[np.isnan(limit)] = endless
    return limit
