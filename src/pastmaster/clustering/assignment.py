"""Where new tasks belong, without clustering again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, LongArray, as_floats
from pastmaster.clustering.partition import Clustering
from pastmaster.errors import InvalidInputError
from pastmaster.tables import frame, one_line

if TYPE_CHECKING:
    import pandas as pd


class Assignment(NamedTuple):
    """Where new tasks belong, as ``assign`` finds it.

    Attributes
    ----------
    cells, losses : ndarray
        The cell that each new task belongs to, and what it would lose under that cell's policy.
    """

    cells: LongArray
    losses: FloatArray

    def __repr__(self) -> str:
        return one_line(f"Assignment(cells={self.cells!r}, losses={self.losses!r})")

    def to_frame(self) -> pd.DataFrame:
        """A row to each new task, as a pandas DataFrame."""
        return frame({"cell": self.cells, "loss": self.losses})


def assign(clustering: Clustering, distance_rows: npt.ArrayLike) -> Assignment:
    """Where new tasks belong, without clustering again: with the representative that each loses least by.

    Parameters
    ----------
    clustering : Clustering
    distance_rows : array_like
        The distances of n new tasks to the N old ones [n, N] (directed: what they lose under each policy [n, M]).

    Returns
    -------
    Assignment

    Raises
    ------
    InvalidInputError
        If the rows do not fit, or hold negative or infinite numbers.

    Examples
    --------
    >>> old = Clustering.from_labels([[0, 1, 9], [1, 0, 9], [9, 9, 0]], [0, 0, 1])
    >>> assign(old, [[8, 9, 2], [1, 2, 7]]).cells
    array([1, 0])
    """
    if not isinstance(clustering, Clustering):
        raise InvalidInputError(f"assign: clustering is a {type(clustering).__name__}, must be a Clustering")
    rows = as_floats(distance_rows, "assign: distance_rows")
    columns = clustering.distance.shape[1]
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise InvalidInputError(f"assign: distance_rows has shape {rows.shape}, must be [n, {columns}]")
    bad = ~((rows >= 0) & np.isfinite(rows))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise InvalidInputError(f"assign: distance_rows[{i}, {j}] is {rows[i, j]}, must be finite and at least 0")
    losses = rows[:, clustering.representatives]
    cells = losses.argmin(axis=1)
    return Assignment(cells, losses[np.arange(len(rows)), cells])
