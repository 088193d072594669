"""Names for kinds of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous, read-only copy of an array: of the type that compiled loops were made for."""
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy
