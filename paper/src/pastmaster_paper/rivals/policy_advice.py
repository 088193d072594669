"""Reinforcement learning with policy advice (RLPA), as a selector of sources.

Azar, Lazaric and Brunskill 2013, "Regret bounds for reinforcement learning with policy advice",
ECML PKDD. RLPA follows one of m given policies for a while in one long trajectory, and compares
their average rewards. Those depend on where a policy starts by up to the span H of its bias
function, which is not known. So it works in trials of 2^i steps, and guesses a larger span at each:
f(2^i), f a function that outgrows every H.

*The reading here.* A step of the paper is an episode, its reward the payoff, a return scaled by the
bounds to 0 .. 1. The average reward of a policy is then its value. Each policy has n episodes, R
their payoffs summed, the mean M = R / n, and K, the number of its runs. With t episodes told so
far, and L = ln(2 t / delta),

    c(n) = (f + 1) sqrt(48 L / n) + f K / n.

At first n = 1, R = 0 and K = 1 for all: the paper counts an episode of payoff 0 that nobody ran.
The next run is that of the policy with the largest M + c(n) among those in play. It is over after
v = n episodes, or when the trial is over, or when

    M - R / (n + v)  >  c(n) + (f + 1) sqrt(48 L / (n + v)) + f K / (n + v),

M and c(n) those at the begin of the run. Only in the last case the policy is out of play for the
rest of the trial: its mean fell by more than the guessed span explains. All are in play again in
the next trial, which begins after 2^i episodes, or when none is left. What the policies earned is
kept from trial to trial.

Differs from the paper: v counts from 0, not 1, so that the first run of a policy is one episode.

Episodes that are independent have a span of 0, so that f = 0 is a right guess, and the default:
what is most in favour of the method. ``span_guess="log"`` is f(T) = ln T, for returns that depend
on what ran before. For a span of 0 the paper's Theorem 2 says that, with probability 1 - delta, the
payoffs lost to the best policy in T episodes are at most 24 (f(T) + 1) sqrt(3 T m ln(T / delta)) +
sqrt(T) + 12 f(T) m log2(T).
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from pastmaster import InvalidInputError
from pastmaster_paper.arrays import FloatArray
from pastmaster_paper.rivals.rival import Rival, Rng

SpanGuess = Literal["none", "log"]


def regret_bound(n_policies: int, episodes: int, guess: float, delta: float) -> float:
    """Payoffs that RLPA loses to the best policy (Theorem 2) if their span is 0; ``guess`` is f of all episodes."""
    root = math.sqrt(3.0 * episodes * n_policies * math.log(episodes / delta))
    return 24.0 * (guess + 1.0) * root + math.sqrt(episodes) + 12.0 * guess * n_policies * math.log2(episodes)


class PolicyAdvice(Rival):
    """RLPA, with an episode for a step.

    The constants of its confidence intervals are large: two sources whose payoffs differ by 0.8 are
    told apart after about a thousand episodes.

    Parameters
    ----------
    n_sources, episodes : int
        The number of sources, m; the number of episodes, which is not used.
    bounds : (float, float)
        The lower and upper bound of a return.
    delta : float
        The probability with which the intervals may fail, above 0.
    span_guess : {"none", "log"}
        f, by which the span is guessed: f = 0, which is right if episodes are independent, or
        f(T) = ln T.
    rng : int, Generator or None
        Not used.

    Examples
    --------
    >>> from pastmaster_paper.rivals import PolicyAdvice
    >>> selector = PolicyAdvice(2, bounds=(0, 1))
    >>> for _ in range(5000):
    ...     arm = selector.ask()
    ...     selector.tell(arm, [0.9, 0.1][arm])
    >>> selector.counts.tolist()
    [4550.0, 450.0]
    """

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        delta: float = 0.1,
        span_guess: SpanGuess = "none",
        rng: Rng = None,
    ) -> None:
        super().__init__(n_sources, bounds, rng)
        if not 0.0 < delta <= 1.0:
            raise InvalidInputError(f"PolicyAdvice: delta is {delta!r}, must be above 0, at most 1")
        if span_guess not in get_args(SpanGuess):
            raise InvalidInputError(f"PolicyAdvice: span_guess is {span_guess!r}, must be 'none' or 'log'")
        self.delta = delta
        self.span_guess = span_guess
        self.trial = 0  # i
        self.asked = 0  # episodes of this trial
        self.in_play = np.ones(n_sources, np.bool_)
        self.runs = np.ones(n_sources)  # K
        self.policy: int | None = None  # the one that runs
        self.left = 0  # episodes of its run
        self.mean, self.width = 0.0, 0.0  # M and c(n) at the begin of the run

    def choose(self, chance: float) -> int:
        if self.asked >= 2**self.trial or not self.in_play.any():
            self.trial += 1
            self.asked = 0
            self.in_play[:] = True
            self.left = 0
        if self.left == 0:
            self._begin_run()
        self.asked += 1
        self.left -= 1
        assert self.policy is not None
        return self.policy

    def _begin_run(self) -> None:
        if self.policy is not None:
            self.runs[self.policy] += 1.0
        means, widths = self._means(), self._widths()
        self.policy = int(np.argmax(np.where(self.in_play, means + widths, -np.inf)))
        self.left = 1 + int(self.counts[self.policy])
        self.mean, self.width = float(means[self.policy]), float(widths[self.policy])

    def learn(self, arm: int, payoff: float) -> None:
        if self.mean - self._means()[arm] > self.width + self._widths()[arm]:
            self.in_play[arm] = False
            self.left = 0

    def _means(self) -> FloatArray:
        """R / n of each policy [m]."""
        return np.asarray(self.totals / (1.0 + self.counts))

    def _widths(self) -> FloatArray:
        """c(n) of each policy [m]."""
        n = 1.0 + self.counts
        guess = math.log(2**self.trial) if self.span_guess == "log" else 0.0
        log_t = math.log(2.0 * max(self.counts.sum(), 1.0) / self.delta)
        return np.asarray((guess + 1.0) * np.sqrt(48.0 * log_t / n) + guess * self.runs / n)
