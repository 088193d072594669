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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, LongArray, as_floats
from pastmaster.checks import is_finite, is_number, whole
from pastmaster.clustering._chain_kernels import ladder_step
from pastmaster.clustering.chain import check_chances, checked_ladder
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.tables import shown

Point = TypeVar("Point")
MOST_STEPS = 10**9  # whose trace fits into memory
climb = getattr(ladder_step, "py_func", ladder_step)  # the Python of the kernel: to call compiled code takes longer


@dataclass(frozen=True, eq=False, repr=False)
class Minimum(Generic[Point]):
    """The best point that ``minimize`` met.

    Attributes
    ----------
    point, cost, trace
        The point, its cost, and the best cost after each step [iterations].
    visits, acceptance : ndarray
        For each rung: steps spent there, and the share of proposed points that were accepted.
    seed : int or None
        ``rng=seed`` gives the same; None where a generator was given.
    """

    point: Point
    cost: float
    trace: FloatArray
    visits: LongArray
    acceptance: FloatArray
    seed: int | None = None

    def __repr__(self) -> str:
        return f"Minimum(cost {self.cost:.6g} after {len(self.trace):,} steps on {len(self.visits)} rungs)"


def minimize(
    cost: Callable[[Point], float], propose: Callable[[Point, np.random.Generator], tuple[Point, float]],
    initial: Point, *, ladder: npt.ArrayLike, iterations: int, rng: Rng = None,
    weights: npt.ArrayLike | None = None, alpha: float = 0.1, beta: float = 0.8, up: float = 0.5,
) -> Minimum[Point]:  # fmt: skip
    """Minimise a function over any discrete space by the paper's chain.

    Parameters
    ----------
    cost, propose : callable
        The cost of a point; a new point and ln of the reverse over the forward probability of the move, from
        ``propose(point, rng)``.
    initial, iterations
        The point where the chain starts, and the number of its steps.
    ladder, weights : array_like
        ln lambda of each rung, positive and increasing, and ln of its weight, by default 0.
    alpha, beta, up : float
        As for ``Chain``.
    rng : int, numpy.random.Generator, optional
        A seed or a generator; by default a fresh seed, which the result tells.

    Returns
    -------
    Minimum

    Raises
    ------
    InvalidInputError
        If the ladder does not rise, or a chance is out of its range.

    Examples
    --------
    >>> step = lambda y, rng: (y + rng.choice([-1, 1]), 0.0)
    >>> minimize(lambda y: (y - 3) ** 2, step, 9, ladder=[0.1, 1.0], iterations=500, rng=0)
    Minimum(cost 0 after 500 steps on 2 rungs)
    """
    for name, function in (("cost", cost), ("propose", propose)):
        if not callable(function):
            raise InvalidInputError(f"mhav.minimize: {name} is {shown(function)}, must be a function")
    rungs, w = _checked("mhav.minimize", ladder, weights)
    rng, seed = seeded("mhav.minimize", rng)
    check_chances("mhav.minimize", alpha, beta, up)
    trace = np.empty(whole("mhav.minimize", "iterations", iterations, at_least=1, at_most=MOST_STEPS))
    visits, proposed, accepted = np.zeros((3, len(rungs)), np.int64)
    point, here, rung = initial, _number("cost", cost(initial)), 0
    best, best_cost = point, here
    for step in range(iterations):
        u = rng.random()
        if u < alpha and len(rungs) > 1:
            rung = climb(rung, here, rungs, w, up, rng)
        elif alpha <= u < alpha + beta:
            proposal = propose(point, rng)
            if not isinstance(proposal, tuple) or len(proposal) != 2:
                raise InvalidInputError(
                    f"mhav.minimize: propose gave {shown(proposal)}, must give a point and ln of a ratio"
                )
            new, log_ratio = proposal[0], _number("propose", proposal[1])
            there = _number("cost", cost(new))
            proposed[rung] += 1
            accept = rungs[rung] * (here - there) + log_ratio
            if accept >= 0.0 or rng.random() < math.exp(accept):
                point, here = new, there
                accepted[rung] += 1
                best, best_cost = (new, there) if there < best_cost else (best, best_cost)
        trace[step] = best_cost
        visits[rung] += 1
    return Minimum(best, best_cost, trace, visits, accepted / np.maximum(proposed, 1), seed)


def _number(function: str, value: Any) -> float:
    """What a function of a person's gave, which must be a number."""
    if not (is_finite(value) or is_number(value)):
        raise InvalidInputError(f"mhav.minimize: {function} gave {shown(value)}, must give a number")
    return float(value)


def _checked(caller: str, ladder: npt.ArrayLike, weights: npt.ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    rungs = checked_ladder(caller, ladder)
    w = np.zeros(len(rungs)) if weights is None else as_floats(weights, f"{caller}: weights")
    if w.shape != rungs.shape or not np.isfinite(w).all():
        raise InvalidInputError(
            f"{caller}: weights has shape {w.shape}, must be {rungs.shape} finite numbers as ladder"
        )
    return rungs, w
