"""Bayesian Policy Reuse (Rosman, Hawasly and Ramamoorthy 2016, "Bayesian policy reuse", Machine Learning 104).

U[i, j] is what source j was worth in old task i, and s[i, j] the standard deviation of one return.
The new task is taken to *be* one of the old ones, and a return of source j in task i to be normal
with mean U[i, j] and deviation s[i, j]. After the payoffs x of arms a, from equal probabilities,

    belief_i  proportional to  product over episodes of N(x; U[i, a], s[i, a]^2).

The return is the signal that the belief is updated by, and the utility. Let
U^ = max_j sum_i belief_i U[i, j], the best expectation. Three of the paper's exploration heuristics are here:

* probability of improvement (BPR-PI): the source with the largest sum_i belief_i p(U+ | i, j), p
  the normal density of a return and U+ > U^ a hypothesised return. The paper leaves the choice of
  U+ open; here it is U^ plus the mean s.
* expected improvement (BPR-EI): the source with the largest sum_i belief_i of the integral of
  p(u | i, j) over u from U^ to U_max. As in the paper this is taken to be
  sum_i belief_i (1 - F(U^ | i, j)), F the normal distribution function: what the normal density has
  above U_max counts. So it is the probability of any improvement, not its mean size, that the
  published rule compares.
* Thompson sampling: draw a task from the belief, and run the source that is best in it.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pastmaster import Experience, InvalidInputError
from pastmaster_paper.arrays import FloatArray
from pastmaster_paper.rivals.rival import Rival, Rng

Exploration = Literal["probability-of-improvement", "expected-improvement", "thompson"]
LEAST_NOISE = 1e-3  # payoffs; a spread of 0 would make a task impossible at the first rounding
NOISE = 0.1  # payoffs, where nothing is known
LEAST_BELIEF = 1e-12  # below which a task is left out of an expectation


class KnowingRival(Rival):
    """A rival that takes the new task to be one of N old ones.

    ``values`` [N, c] are what the sources were worth, ``best_arm`` and ``best_value`` [N] the best
    source of each task (the first of equals), ``noise`` [N, c] the standard deviation of one
    return: that given, or else the experience's, or else ``otherwise``. All of them are in payoffs.
    """

    def __init__(
        self,
        n_sources: int,
        bounds: tuple[float, float],
        rng: Rng,
        experience: Any,
        noise: float | None,
        otherwise: float,
    ) -> None:
        super().__init__(n_sources, bounds, rng)
        known = experience if isinstance(experience, Experience) else Experience(experience)
        name = type(self).__name__
        if known.values.shape[1] != n_sources:
            raise InvalidInputError(
                f"{name}: experience has {known.values.shape[1]} columns, must have one to each of {n_sources} sources"
            )
        if noise is not None and not noise > 0.0:
            raise InvalidInputError(f"{name}: noise is {noise!r}, must be above 0")
        self.values = (known.values - bounds[0]) / self.span
        self.best_arm = np.argmax(self.values, axis=1)
        self.best_value = self.values.max(axis=1)
        if noise is not None:
            self.noise = np.full(self.values.shape, noise / self.span)
        elif known.spread is not None:
            self.noise = np.maximum(known.spread / self.span, LEAST_NOISE)
        else:
            self.noise = np.full(self.values.shape, otherwise)


class BayesianPolicyReuse(KnowingRival):
    """Bayesian Policy Reuse. A new task unlike all old ones is taken for the one that fits best.

    Parameters
    ----------
    n_sources, episodes : int
        The number of sources, c; the number of episodes, which is not used.
    bounds : (float, float)
        The lower and upper bound of a return.
    experience : array_like [N, c] or Experience
        What each source was worth in each of N old tasks, in units of return.
    explore : {"expected-improvement", "probability-of-improvement", "thompson"}
        The exploration heuristic.
    noise : float, optional
        The standard deviation of one return, in units of return. By default the experience's
        ``spread``, at least 1 / 1000 of the span; where it has none, a tenth of the span.
    rng : int, Generator or None
        Only Thompson sampling depends on it.

    Examples
    --------
    >>> from pastmaster_paper.rivals import BayesianPolicyReuse
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2], [0.3, 0.2, 0.8]]
    >>> selector = BayesianPolicyReuse(3, bounds=(0, 1), experience=experience)
    >>> for _ in range(5):
    ...     arm = selector.ask()
    ...     selector.tell(arm, [0.1, 0.9, 0.2][arm])
    >>> selector.counts.tolist(), selector.belief.round(3).tolist()
    ([1.0, 4.0, 0.0], [0.0, 1.0, 0.0])
    """

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        explore: Exploration = "expected-improvement",
        noise: float | None = None,
        rng: Rng = None,
    ) -> None:
        if explore not in get_args(Exploration):
            raise InvalidInputError(
                f"{type(self).__name__}: explore is {explore!r}, must be one of {', '.join(get_args(Exploration))}"
            )
        super().__init__(n_sources, bounds, rng, experience, noise, otherwise=NOISE)
        self.explore = explore
        self.log_belief = np.zeros(len(self.values))  # up to a constant: the largest is 0

    @property
    def belief(self) -> FloatArray:
        """How likely the new task is each of the old ones [N]."""
        weights = np.exp(self.log_belief)
        return np.asarray(weights / weights.sum())

    def learn(self, arm: int, payoff: float) -> None:
        off = (payoff - self.values[:, arm]) / self.noise[:, arm]
        self.log_belief -= 0.5 * off * off + np.log(self.noise[:, arm])
        self.log_belief -= self.log_belief.max()

    def choose(self, chance: float) -> int:
        belief = self.belief
        if self.explore == "thompson":
            return drawn(self.thompson(), chance)
        likely = np.flatnonzero(belief > LEAST_BELIEF)
        weights, values, noise = belief[likely], self.values[likely], self.noise[likely]
        best = (weights @ values).max()
        if self.explore == "expected-improvement":
            return int(np.argmax(weights @ ndtr((values - best) / noise)))
        off = (best + self.noise.mean() - values) / noise
        scores = np.log(weights)[:, None] - np.log(noise) - 0.5 * off * off  # logarithms: densities may underflow
        return int(np.argmax(np.exp(scores - scores.max()).sum(axis=0)))

    def thompson(self) -> FloatArray:
        """How likely each source is the best one of a task drawn from the belief [c]."""
        return np.asarray(np.bincount(self.best_arm, weights=self.belief, minlength=self.n_sources), np.float64)


def drawn(chances: npt.ArrayLike, chance: float) -> int:
    """Where a uniform number falls among probabilities; the last possible place if rounding leaves a gap at the top."""
    reached = np.cumsum(chances)
    above = np.flatnonzero(chance < reached)
    return int(above[0]) if len(above) else int(np.flatnonzero(chances)[-1])
