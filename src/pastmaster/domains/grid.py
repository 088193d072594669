"""The moves on a grid, which the paper's domains share: cell = row * n_columns + column, row 0 in the north."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

NORTH, EAST, SOUTH, WEST = range(4)


def moved(n_rows: int, n_columns: int) -> npt.NDArray[np.int64]:
    """The cell that each move leads to, [cells, 4]; a move off the grid stays where it is."""
    row, column = np.divmod(np.arange(n_rows * n_columns), n_columns)
    ahead = ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1))
    return np.stack(
        [np.clip(r, 0, n_rows - 1) * n_columns + np.clip(c, 0, n_columns - 1) for r, c in ahead],
        axis=1,
    )


def text(cells: npt.NDArray[np.str_], legend: str) -> str:
    """A grid of letters, and below it what they mean."""
    return "\n".join(" ".join(row) for row in cells) + f"\n{legend}\n"
