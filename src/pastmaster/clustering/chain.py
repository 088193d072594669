"""The settings of the paper's chain, which ``search_clusterings`` and ``mhav.minimize`` check alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, as_floats
from pastmaster.checks import as_number, plain_number
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

RUNGS = 60


@dataclass(frozen=True)
class Chain:
    """Settings of the paper's Markov chain over clusterings, for ``search_clusterings``.

    Parameters
    ----------
    ladder : sequence of float, optional
        ln lambda of each rung, positive and increasing. By default 60 rungs that fit the distances.
    alpha, beta : float
        The chances that a step proposes another rung, or another clustering; otherwise it stays. Their sum is below 1.
    up : float
        alpha', the chance that a move between rungs goes up, between 0 and 1.
    theta : float
        How fast the chance of moving k tasks at once falls with k: as exp(-k theta).

    Examples
    --------
    >>> Chain(ladder=[10, 40, 160], theta=0.5)
    Chain(ladder=(10.0, 40.0, 160.0), alpha=0.1, beta=0.8, up=0.5, theta=0.5)
    """

    ladder: Any = None
    alpha: float = 0.1
    beta: float = 0.8
    up: float = 0.5
    theta: float = 1.0

    def __post_init__(self) -> None:
        if self.ladder is not None:
            object.__setattr__(self, "ladder", tuple(checked_ladder("Chain", self.ladder).tolist()))
        check_chances("Chain", self.alpha, self.beta, self.up)
        if not as_number(self.theta) > 0:
            raise InvalidInputError(f"Chain: theta is {shown(self.theta)}, must be a positive number")
        for name in ("alpha", "beta", "up", "theta"):
            object.__setattr__(self, name, plain_number(getattr(self, name)))

    def rungs(self, distance: FloatArray, largest: float = 0.0) -> FloatArray:
        """The ladder; by default from where a cell costs nothing to make to where the smallest moves matter.

        Moving one task changes the cost by about mean(d) / N, so ln lambda runs from 1/10 of its inverse to 300 times
        it. Distances far below the ``largest`` cost do not matter, and must not make the product with it overflow.
        """
        if self.ladder is not None:
            return np.array(self.ladder)
        scale = max(float(distance.mean()), 1e-200 * largest) or 1.0
        return np.geomspace(0.1, 300.0, RUNGS) * len(distance) / scale


def checked_ladder(caller: str, ladder: npt.ArrayLike) -> FloatArray:
    """Rungs ln lambda, positive and increasing."""
    rungs = as_floats(ladder, f"{caller}: ladder")
    if rungs.ndim != 1 or not len(rungs):
        raise InvalidInputError(f"{caller}: ladder has shape {rungs.shape}, must be a list of at least one ln lambda")
    if not (np.isfinite(rungs).all() and (rungs > 0).all() and (np.diff(rungs) > 0).all()):
        raise InvalidInputError(f"{caller}: ladder is {shown(rungs.tolist())}, must be positive and increasing")
    return rungs


def check_chances(caller: str, alpha: float, beta: float, up: float) -> None:
    """Refuse mixing probabilities outside the paper's conditions."""
    chances = as_number(alpha), as_number(beta)
    if not (min(chances) > 0 and sum(chances) < 1):
        raise InvalidInputError(
            f"{caller}: alpha is {shown(alpha)} and beta {shown(beta)}, must be positive with a sum below 1"
        )
    if not 0 < as_number(up) < 1:
        raise InvalidInputError(f"{caller}: up is {shown(up)}, must lie strictly between 0 and 1")
