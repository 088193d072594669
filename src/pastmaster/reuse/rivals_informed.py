"""Selectors of others that know what the sources were worth in old tasks: their base, and Bayesian Policy Reuse.

U[i, j] is what source j was worth in old task i, and s[i, j] the standard deviation of one return. The new task is
taken to *be* one of the old ones, and a return of source j in task i to be normal with mean U[i, j] and deviation
s[i, j]. After the payoffs x of arms a, from equal probabilities,

    belief_i  proportional to  product over episodes of N(x; U[i, a], s[i, a]^2).

*Bayesian Policy Reuse* (Rosman, Hawasly and Ramamoorthy 2016, "Bayesian policy reuse", Machine Learning 104). The
return is the signal that the belief is updated by, and the utility. Let U^ = max_j sum_i belief_i U[i, j], the best
expectation. Three of the paper's exploration heuristics are here:

* probability of improvement (BPR-PI): the source with the largest sum_i belief_i p(U+ | i, j), p the normal density of
  a return and U+ > U^ a hypothesised return. The paper leaves the choice of U+ open; here it is U^ + ``improvement``.
* expected improvement (BPR-EI): the source with the largest sum_i belief_i of the integral of p(u | i, j) over u from
  U^ to U_max. As in the paper this is taken to be sum_i belief_i (1 - F(U^ | i, j)), F the normal distribution
  function: what the normal density has above U_max counts. So it is the probability of any improvement, not its mean
  size, that the published rule compares.
* Thompson sampling: draw a task from the belief, and run the source that is best in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.checks import chosen, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng
from pastmaster.reuse import selector as base
from pastmaster.reuse.experience import as_experience
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.rivals import PlainSelector, only
from pastmaster.reuse.selector import numbers
from pastmaster.tables import shown

Exploration = Literal["probability-of-improvement", "expected-improvement", "thompson"]
LEAST_NOISE = 1e-3  # payoffs; a spread of 0 would make a task impossible at the first rounding
NOISE = 0.1  # payoffs, of the normal model where nothing else is known
TINY, FAR = 1e-9, 1e6  # payoffs, the least noise and the most that a value may be
LEAST_BELIEF = 1e-12  # below which a task is left out of an expectation


class KnowingSelector(PlainSelector):
    """A selector that takes the new task to be one of the old ones; everything is in payoffs.

    ``values`` [N, c] are what the sources were worth, ``best_arm`` and ``best_value`` [N] the best source of each task
    (the first of equals).
    """

    informed = True

    def _begin(self, rng: Rng, **arguments: Any) -> None:
        """Take the experience and what all selectors take."""
        caller = type(self).__name__
        super().__init__(rng, **arguments)
        if arguments["noise"] is not None:
            self._arguments["noise"] = within(caller, "noise", arguments["noise"], TINY * self.bounds.span, math.inf)
        self.experience = as_experience(caller, arguments["experience"], self.n_sources)
        self._arguments["experience"] = self.experience.to_dict()
        self.values = (self.experience.values - self.bounds.lower) / self.bounds.span
        far = np.argwhere(np.abs(self.values) > FAR)
        if len(far):
            task, source = far[0].tolist()
            raise InvalidInputError(
                f"{caller}: experience[{task}, {source}] is {self.experience.values[task, source]:.4g}, must be a "
                f"return, within the bounds {self.bounds.lower:.4g} .. {self.bounds.upper:.4g} or near"
            )
        self.best_arm = np.argmax(self.values, axis=1)
        self.best_value = self.values.max(axis=1)

    def _deviations(self, otherwise: float) -> FloatArray:
        """The standard deviation of a payoff [N, c]: as given, or as the experience has it, or else ``otherwise``."""
        if self._arguments["noise"] is not None:
            return np.full(self.values.shape, self._arguments["noise"] / self.bounds.span)
        if self.experience.spread is None:
            return np.full(self.values.shape, otherwise)
        return np.asarray(np.maximum(self.experience.spread / self.bounds.span, LEAST_NOISE))


class BelievingSelector(KnowingSelector):
    """A selector with a belief over the old tasks."""

    def _begin(self, rng: Rng, **arguments: Any) -> None:
        super()._begin(rng, **arguments)
        self._noise = self._deviations(NOISE)
        self._log_noise = np.log(self._noise)
        self._log_belief = np.zeros(len(self.values))  # the largest is 0

    def _told(self, number: int, arm: int, payoff: float) -> None:
        off = (payoff - self.values[:, arm]) / self._noise[:, arm]
        self._log_belief -= 0.5 * off * off + self._log_noise[:, arm]
        self._log_belief -= self._log_belief.max()

    @property
    def belief(self) -> FloatArray:
        """How likely the new task is each of the old ones [N]."""
        with base.LOCK:
            weights = np.exp(self._log_belief)
        return np.asarray(weights / weights.sum())

    def _sampled(self, belief: FloatArray) -> FloatArray:
        """How likely each source is the best one of a task drawn from the belief [c]."""
        return np.bincount(self.best_arm, weights=belief, minlength=self.n_sources).astype(np.float64)

    def _model(self) -> dict[str, Any]:
        return {"log_belief": self._log_belief.tolist()}

    def _take_model(self, place: str, model: Mapping[str, Any]) -> None:
        given = numbers(place, "log_belief", model.get("log_belief"), self._log_belief.shape)
        if given.max() != 0.0 or (self.n_told == 0 and given.any()):
            raise InvalidInputError(
                f"{place}: log_belief is {shown(given.tolist())}, must be 0 for the likeliest task and below for others"
                " (0 for all before the first return)"
            )
        self._log_belief = given


class BayesianPolicyReuse(BelievingSelector):
    """Bayesian Policy Reuse of Rosman, Hawasly and Ramamoorthy (2016); ``rivals_informed`` has the equations.

    It has no learner: arm c never runs. A new task unlike all old ones is taken for the one that fits best.

    Parameters
    ----------
    n_sources : int
        The number of source policies, c, at least 1.
    episodes : int, optional
        The number of episodes planned; it changes nothing.
    bounds : (float, float)
        The lower and upper bound of a return.
    experience : array_like [N, c], Experience, DataFrame or CrossValueEstimate
        What each source was worth in each of N tasks met before, in units of return. Standard errors are not used.
    explore : {"expected-improvement", "probability-of-improvement", "thompson"}
        The exploration heuristic.
    noise : float, optional
        The standard deviation of one return, in units of return, for every task and source. By default that of the
        experience (``spread``, at least 1 / 1000 of the span); where it has none, a tenth of the span.
    improvement : float, optional
        For the probability of improvement: U+ is so much above the best expectation, in units of return. By default
        the mean standard deviation of a return.
    clip : bool
        Move returns outside the bounds onto them; by default they are refused.
    rng : int, Generator or None
        One number is drawn for each ask; only Thompson sampling depends on it.

    Examples
    --------
    >>> from pastmaster import BayesianPolicyReuse
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2], [0.3, 0.2, 0.8]]
    >>> selector = BayesianPolicyReuse(3, bounds=(0, 1), experience=experience, rng=0)
    >>> for _ in range(5):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.1, 0.9, 0.2][episode.arm])
    >>> selector.counts.tolist(), selector.belief.round(3).tolist()
    ([1, 4, 0, 0], [0.0, 1.0, 0.0])
    """

    name = "bayesian-policy-reuse"

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        explore: Exploration = "expected-improvement",
        noise: float | None = None,
        improvement: float | None = None,
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        caller = type(self).__name__
        self.explore = chosen(caller, "explore", explore, get_args(Exploration))
        if improvement is not None:
            improvement = within(caller, "improvement", improvement, 0.0, math.inf)
        self._begin(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, experience=experience, explore=self.explore,
            noise=noise, improvement=improvement, clip=clip,
        )  # fmt: skip
        self._step = float(self._noise.mean()) if improvement is None else improvement / self.bounds.span

    def _chances(self) -> FloatArray:
        belief = self.belief
        if self.explore == "thompson":
            return self._sampled(belief)
        likely = np.flatnonzero(belief > LEAST_BELIEF)
        weights, values, noise = belief[likely], self.values[likely], self._noise[likely]
        best = float((weights @ values).max())
        if self.explore == "expected-improvement":
            from scipy.special import ndtr  # slow to load

            return only(int(np.argmax(weights @ ndtr((values - best) / noise))), self.n_sources)
        off = (best + self._step - values) / noise
        scores = np.log(weights)[:, None] - self._log_noise[likely] - 0.5 * off * off  # of densities that may underflow
        return only(int(np.argmax(np.exp(scores - scores.max()).sum(axis=0))), self.n_sources)

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return that nothing is proven: the paper bounds no regret."""
        if at_once is not None:
            whole(f"{type(self).__name__}.regret_guarantee", "at_once", at_once, at_least=1)
        return RegretGuarantee(max(self.n_told, 1), None, None, None, "Nothing is proven.")
