"""Windows of episodes, over which returns and arms are averaged for curves and tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pastmaster.arrays import Array, FloatArray
from pastmaster.checks import whole

WINDOWS = 100  # about so many, where no length is given


@dataclass(frozen=True)
class Windows:
    """Episodes cut into windows of one length; the last may be shorter. ``edges`` are (first, one past the last)."""

    edges: tuple[tuple[int, int], ...]

    @property
    def middles(self) -> FloatArray:
        """The middle of each window, in episodes [windows]."""
        return np.array([0.5 * (a + b) for a, b in self.edges])

    def pieces(self, values: Array) -> list[Array]:
        """The values [..., T] of each window."""
        return [values[..., a:b] for a, b in self.edges]

    def means(self, values: Array) -> FloatArray:
        """The mean of values [..., T] over each window [..., windows]."""
        return np.stack([piece.mean(axis=-1) for piece in self.pieces(values)], axis=-1)

    def counts(self, arms: Array, n_arms: int) -> FloatArray:
        """How often each arm ran in each window, of arms [..., T] [windows, n_arms]."""
        return np.array([np.bincount(piece.ravel(), minlength=n_arms) for piece in self.pieces(arms)], np.float64)


def windows(episodes: int, length: int | None = None, caller: str = "windows") -> Windows:
    """Cut ``episodes`` into windows of ``length``, by default so that there are about 100."""
    size = max(1, episodes // WINDOWS) if length is None else whole(caller, "window", length, at_least=1)
    return Windows(tuple((start, min(start + size, episodes)) for start in range(0, episodes, size)))
