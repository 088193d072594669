"""MHAV, the paper's Algorithm 2: minimise a function over any discrete space by sampling.

The chain lives on pairs (rung l, point y) with law Pi(l, y) ~ exp(-ladder[l] f(y) + weights[l]); the ladder holds
ln lambda_1 < ... < ln lambda_n. Each step proposes, with probability alpha, a neighbouring rung (at the ends the only
one there is), with probability beta a new point, and otherwise to stay; acceptance is Metropolis and Hastings's. High
rungs love low costs, low rungs roam; the best point met is the answer.

Differs from the paper: at the ladder's ends the one possible move has probability 1, so the ratio of a move to or from
an end uses 1 on that side (the appendix forgets it). Optional weights w_l change how long each rung is visited, not
the law on it; the paper's are 0.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.checks import whole
from pastmaster.clustering._chain_kernels import ladder_step
from pastmaster.clustering.chain import check_chances, checked_ladder
from pastmaster.errors import InvalidInputError

Point = TypeVar("Point")


@dataclass(frozen=True, eq=False, repr=False)
class Minimum(Generic[Point]):
    """The best point that ``minimize`` met.

    Attributes
    ----------
    point : object
    cost : float
    trace : ndarray
        The best cost after each step [iterations].
    visits, seconds, acceptance : ndarray
        For each rung: steps and seconds spent there, and the share of proposed points that were accepted.
    """

    point: Point
    cost: float
    trace: FloatArray
    visits: LongArray
    seconds: FloatArray
    acceptance: FloatArray

    def __repr__(self) -> str:
        return f"Minimum(cost {self.cost:.6g} after {len(self.trace):,} steps on {len(self.visits)} rungs)"


def minimize(
    cost: Callable[[Point], float],
    propose: Callable[[Point, np.random.Generator], tuple[Point, float]],
    initial: Point,
    *,
    ladder: npt.ArrayLike,
    iterations: int,
    rng: np.random.Generator,
    weights: npt.ArrayLike | None = None,
    alpha: float = 0.1,
    beta: float = 0.8,
    up: float = 0.5,
) -> Minimum[Point]:
    """Minimise a function over any discrete space by the paper's chain.

    Parameters
    ----------
    cost : callable
        The cost of a point.
    propose : callable
        ``propose(point, rng)`` returns a new point, and ln of the reverse over the forward probability of the move.
    initial : object
        Where the chain starts.
    ladder : array_like
        ln lambda of each rung, positive and increasing.
    iterations : int
        Steps.
    rng : numpy.random.Generator
    weights : array_like, optional
        ln of the weight of each rung; by default 0.
    alpha, beta, up : float
        As for ``Chain``.

    Returns
    -------
    Minimum

    Raises
    ------
    InvalidInputError
        If an argument does not fit.

    Examples
    --------
    >>> step = lambda y, rng: (y + rng.choice([-1, 1]), 0.0)
    >>> minimize(lambda y: (y - 3) ** 2, step, 9, ladder=[0.1, 1.0], iterations=500, rng=np.random.default_rng(0))
    Minimum(cost 0 after 500 steps on 2 rungs)
    """
    rungs = checked_ladder("mhav.minimize", ladder)
    w = np.zeros(len(rungs)) if weights is None else np.asarray(weights, np.float64)
    if w.shape != rungs.shape or not np.isfinite(w).all():
        raise InvalidInputError(
            f"mhav.minimize: weights has shape {w.shape}, must be {rungs.shape} finite numbers as ladder"
        )
    check_chances("mhav.minimize", alpha, beta, up)
    iterations = whole("mhav.minimize", "iterations", iterations, at_least=1)
    chain = _Chain(cost, propose, initial, rungs, w, (alpha, beta, up), rng)
    trace, seconds = np.empty(iterations), np.zeros(len(rungs))
    for step in range(iterations):
        begun = time.perf_counter()
        chain.step()
        trace[step] = chain.best_cost
        seconds[chain.rung] += time.perf_counter() - begun
    visits, proposed, accepted = chain.counts
    return Minimum(chain.best, chain.best_cost, trace, visits, seconds, accepted / np.maximum(proposed, 1))


class _Chain(Generic[Point]):
    """The chain under way: where it is, the best point met, and for each rung visits, proposals and acceptances."""

    def __init__(
        self, cost: Callable[[Point], float], propose: Callable[[Point, np.random.Generator], tuple[Point, float]],
        point: Point, ladder: FloatArray, weights: FloatArray, chances: tuple[float, float, float],
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.cost, self.propose, self.rng = cost, propose, rng
        self.ladder, self.weights, (self.alpha, self.beta, self.up) = ladder, weights, chances
        self.point, self.here, self.rung = point, float(cost(point)), 0
        self.best, self.best_cost = self.point, self.here
        self.counts = np.zeros((3, len(ladder)), np.int64)

    def step(self) -> None:
        """Propose a rung, a point, or to stay, and take it or not."""
        u = self.rng.random()
        if u < self.alpha:
            self.rung = ladder_step(self.rung, self.here, self.ladder, self.weights, self.up, self.rng)
        elif u < self.alpha + self.beta:
            new, log_ratio = self.propose(self.point, self.rng)
            there = float(self.cost(new))
            self.counts[1, self.rung] += 1
            accept = self.ladder[self.rung] * (self.here - there) + log_ratio
            if accept >= 0.0 or self.rng.random() < math.exp(accept):
                self.point, self.here = new, there
                self.counts[2, self.rung] += 1
                if there < self.best_cost:
                    self.best, self.best_cost = new, there
        self.counts[0, self.rung] += 1
