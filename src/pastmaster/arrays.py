"""Names for kinds of arrays, and how arrays come in: of the right kind, contiguous, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line

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
    """``values`` as an array of one of the ``kinds`` of dtype (NumPy's letters; None: any), in the machine's own order.

    The one way in for arrays. A masked array is taken if nothing is masked: what is missing has no meaning here.
    """
    if values is None:
        raise InvalidInputError(f"{place} is None, must be an array")
    try:
        array = np.asarray(values)
        masked = type(values) is not np.ndarray and _is_masked(values)
    except ValueError:
        raise InvalidInputError(f"{place} is ragged, must have rows of one length") from None
    if masked:
        raise InvalidInputError(f"{place} has masked entries, must have none: leave them out, or fill them in")
    if kinds is not None and (array.dtype.kind not in kinds):
        wanted = {"iu": "integers", "iuf": "numbers", "b": "booleans"}[kinds]
        raise InvalidInputError(f"{place} has dtype {one_line(str(array.dtype))}, must hold {wanted}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def as_floats(values: npt.ArrayLike, place: str) -> FloatArray:
    """``values`` as float64, without a copy where they are; what is too large for it becomes infinite."""
    array = as_array(values, place, "iuf")
    if array.dtype.char == "d":
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _is_masked(values: Any) -> bool:
    """Whether an entry of a masked array, or of one in a list, is masked."""
    if isinstance(values, list | tuple):
        return any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in values)
    return bool(np.ma.is_masked(values))


def reach_of(probability: FloatArray) -> FloatArray:
    """Cumulative probabilities along the last axis, 2 from the last possible outcome on: rounding leaves no gap."""
    n = probability.shape[-1]
    last = n - 1 - np.argmax(probability[..., ::-1] > 0, axis=-1)
    reach: FloatArray = np.where(np.arange(n) >= last[..., None], 2.0, np.cumsum(probability, axis=-1))
    return reach
