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

from pastmaster.arrays import FloatArray
from pastmaster.clustering._chain_kernels import log_ladder_ratio
from pastmaster.errors import InvalidInputError

Point = TypeVar("Point")


@dataclass(frozen=True, eq=False, repr=False)
class Minimum(Generic[Point]):
    """The best point met and its cost; ``trace`` [iterations] the best cost so far.

    For each rung: ``visits`` steps spent, ``seconds`` of time, ``acceptance`` of proposed points.
    """

    point: Point
    cost: float
    trace: FloatArray
    visits: npt.NDArray[np.int64]
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
    """Search from ``initial``. ``propose(y, rng)`` returns a new point and ln of reverse over forward probability."""
    rungs = checked_ladder("mhav.minimize", ladder)
    w = np.zeros(len(rungs)) if weights is None else np.asarray(weights, np.float64)
    if w.shape != rungs.shape or not np.isfinite(w).all():
        raise InvalidInputError(
            f"mhav.minimize: weights has shape {w.shape}, must be {rungs.shape} finite numbers as ladder"
        )
    check_chances("mhav.minimize", alpha, beta, up)
    if iterations < 1:
        raise InvalidInputError(f"mhav.minimize: iterations is {iterations!r}, must be at least 1")
    point, here, rung = initial, float(cost(initial)), 0
    best, best_cost = point, here
    trace = np.empty(iterations)
    visits, proposed, accepted = (np.zeros(len(rungs), np.int64) for _ in range(3))
    seconds = np.zeros(len(rungs))
    for step in range(iterations):
        begun = time.perf_counter()
        u = rng.random()
        if u < alpha and len(rungs) > 1:
            rung = _climb(rung, here, rungs, w, up, rng)
        elif alpha <= u < alpha + beta:
            new, log_ratio = propose(point, rng)
            there = float(cost(new))
            proposed[rung] += 1
            accept = rungs[rung] * (here - there) + log_ratio
            if accept >= 0.0 or rng.random() < math.exp(accept):
                point, here = new, there
                accepted[rung] += 1
                if here < best_cost:
                    best, best_cost = point, here
        trace[step] = best_cost
        visits[rung] += 1
        seconds[rung] += time.perf_counter() - begun
    return Minimum(best, best_cost, trace, visits, seconds, accepted / np.maximum(proposed, 1))


def _climb(rung: int, cost: float, ladder: FloatArray, weights: FloatArray, up: float, rng: np.random.Generator) -> int:
    """The rung after one proposed move on the ladder."""
    last = len(ladder) - 1
    to = rung + 1 if rung == 0 or (rung < last and rng.random() < up) else rung - 1
    accept = (ladder[rung] - ladder[to]) * cost + weights[to] - weights[rung]
    accept += log_ladder_ratio(rung, to, len(ladder), up)
    return to if accept >= 0.0 or rng.random() < math.exp(accept) else rung


def checked_ladder(caller: str, ladder: npt.ArrayLike) -> FloatArray:
    """Rungs ln lambda, positive and increasing, or a refusal."""
    rungs = np.asarray(ladder, np.float64)
    if rungs.ndim != 1 or not len(rungs):
        raise InvalidInputError(f"{caller}: ladder has shape {rungs.shape}, must be a list of at least one ln lambda")
    if not (np.isfinite(rungs).all() and (rungs > 0).all() and (np.diff(rungs) > 0).all()):
        raise InvalidInputError(f"{caller}: ladder is {rungs.tolist()}, must be positive and increasing")
    return rungs


def check_chances(caller: str, alpha: float, beta: float, up: float) -> None:
    """Refuse mixing probabilities outside the paper's conditions."""
    if not (alpha > 0 and beta > 0 and alpha + beta < 1):
        raise InvalidInputError(f"{caller}: alpha is {alpha!r} and beta {beta!r}, must be positive with a sum below 1")
    if not 0 < up < 1:
        raise InvalidInputError(f"{caller}: up is {up!r}, must lie strictly between 0 and 1")
