"""Names for kinds of arrays, and how arrays come in: of the right kind, contiguous, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.errors import InvalidInputError

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
NamedArrays = Mapping[str, Array]


def sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous, read-only view of an array, or of a copy where it is not contiguous."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def as_array(values: npt.ArrayLike, place: str, kinds: str | None) -> npt.NDArray[Any]:
    """``values`` as an array of one of the ``kinds`` of dtype (NumPy's letters; None: any)."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"{place} is ragged: {error}") from None
    if values is None:
        raise InvalidInputError(f"{place} is None, must be an array")
    if kinds is not None and array.dtype.kind not in kinds:
        wanted = {"iu": "integers", "iuf": "numbers", "b": "booleans"}[kinds]
        raise InvalidInputError(f"{place} has dtype {array.dtype}, must hold {wanted}")
    return array


def reach_of(probability: FloatArray) -> FloatArray:
    """Cumulative probabilities along the last axis, 2 from the last possible outcome on: rounding leaves no gap."""
    n = probability.shape[-1]
    last = n - 1 - np.argmax(probability[..., ::-1] > 0, axis=-1)
    reach: FloatArray = np.where(np.arange(n) >= last[..., None], 2.0, np.cumsum(probability, axis=-1))
    return reach
