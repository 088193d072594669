"""Reinforcement learning with policy advice (RLPA), as a selector of sources.

Azar, Lazaric and Brunskill 2013, "Regret bounds for reinforcement learning with policy advice", ECML PKDD. RLPA follows
one of m given policies for a while in one long trajectory, and compares their average rewards. Those depend on where a
policy starts by up to the span H of its bias function, which is not known. So it works in trials of 2^i steps, and
guesses a larger span at each: f(2^i), f a function that outgrows every H.

*The reading here.* A step of the paper is an episode, its reward the payoff, a return scaled by the bounds to 0 .. 1.
The average reward of a policy is then its value. Each policy has n episodes, R their payoffs summed, the mean
M = R / n, and K, the number of its runs. With t episodes told so far, and L = ln(2 t / delta),

    c(n) = (f + 1) sqrt(48 L / n) + f K / n.

At first n = 1, R = 0 and K = 1 for all: the paper counts an episode of payoff 0 that nobody ran. The next run is that
of the policy with the largest M + c(n) among those in play. It is over after v = n episodes, or when the trial is over,
or when

    M - R / (n + v)  >  c(n) + (f + 1) sqrt(48 L / (n + v)) + f K / (n + v),

M and c(n) those at the begin of the run. Only in the last case the policy is out of play for the rest of the trial: its
mean fell by more than the guessed span explains. All are in play again in the next trial, which begins after 2^i
episodes, or when none is left. What the policies earned is kept from trial to trial.

Differs from the paper: v counts from 0, not 1, so that the first run of a policy is one episode. With several episodes
open, a run ends after n asks, and a return that comes later is added to its policy at once.

Episodes that are independent have a span of 0, so that f = 0 is a right guess, and the default: what is most in favour
of the method. ``span_guess="log"`` is f(T) = ln T, for returns that depend on what ran before. For a span of 0 the
paper's Theorem 2 says that, with probability 1 - delta, the payoffs lost to the best policy in T episodes are at most
24 (f(T) + 1) sqrt(3 T m ln(T / delta)) + sqrt(T) + 12 f(T) m log2(T).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from pastmaster.arrays import BoolArray, FloatArray
from pastmaster.checks import chosen, flag, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.rivals import FIXED, PlainSelector, only
from pastmaster.reuse.selector import numbers
from pastmaster.tables import shown

SpanGuess = Literal["none", "log"]
MOST_TRIALS = 50


@dataclass(frozen=True, eq=False)
class Run:
    """The trial and the run that RLPA is in: episodes asked for in the trial, and left to ask for in the run."""

    in_play: BoolArray
    runs: FloatArray  # K of each policy
    trial: int = 0
    asked: int = 0
    policy: int = -1  # none before the first ask
    left: int = 0
    mean: float = 0.0  # M and c(n) at the begin of the run
    width: float = 0.0


def advice_regret(n_policies: int, episodes: int, guess: float, delta: float) -> float:
    """Payoffs that RLPA loses to the best policy (Theorem 2) if their span is 0; ``guess`` is f of all episodes."""
    root = math.sqrt(3.0 * episodes * n_policies * math.log(episodes / delta))
    return 24.0 * (guess + 1.0) * root + math.sqrt(episodes) + 12.0 * guess * n_policies * math.log2(episodes)


class PolicyAdvice(PlainSelector):
    """RLPA of Azar, Lazaric and Brunskill (2013), with an episode for a step; ``rivals_advice`` has the reading.

    It has no learner and uses no experience: arm c never runs. The constants of its confidence intervals are large: two
    sources whose payoffs differ by 0.8 are told apart after about a thousand episodes.

    Parameters
    ----------
    n_sources : int
        The number of source policies, m, at least 1.
    episodes : int, optional
        The number of episodes planned; only ``regret_guarantee`` uses it.
    bounds : (float, float)
        The lower and upper bound of a return.
    delta : float
        The probability with which the intervals may fail, above 0.
    span_guess : {"none", "log"}
        f, by which the span is guessed: f = 0, which is right if episodes are independent, or f(T) = ln T.
    clip, rng
        As for `UCB1`; the choice does not depend on ``rng``.

    Examples
    --------
    >>> from pastmaster import PolicyAdvice
    >>> selector = PolicyAdvice(2, bounds=(0, 1), rng=0)
    >>> for _ in range(5000):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.9, 0.1][episode.arm])
    >>> selector.counts.tolist()
    [4550, 450, 0]
    """

    name = "policy-advice"
    fixed = FIXED

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        delta: float = 0.1,
        span_guess: SpanGuess = "none",
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        caller = type(self).__name__
        within(caller, "delta", delta, 1e-300, 1.0)
        self.span_guess = chosen(caller, "span_guess", span_guess, get_args(SpanGuess))
        super().__init__(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, delta=delta, span_guess=self.span_guess,
            clip=clip,
        )  # fmt: skip
        self._run = Run(np.ones(self.n_sources, np.bool_), np.ones(self.n_sources))

    def _guess(self, steps: int) -> float:
        """The span guessed for a trial of so many episodes, f."""
        return math.log(steps) if self.span_guess == "log" else 0.0

    def _widths(self, run: Run) -> FloatArray:
        """c(n) of each policy [m]."""
        n, guess = 1.0 + self._arms[layout.COUNT, :-1], self._guess(2**run.trial)
        log_t = math.log(2.0 * max(self.n_told, 1) / self.delta)
        return np.asarray((guess + 1.0) * np.sqrt(48.0 * log_t / n) + guess * run.runs / n)

    def _upcoming(self) -> Run:
        """The run that the next episode belongs to."""
        run = self._run
        over = run.asked >= 2**run.trial or not run.in_play.any()
        if run.left > 0 and not over:
            return run
        runs = run.runs.copy()
        if run.policy >= 0:
            runs[run.policy] += 1.0
        if over:
            run = replace(run, in_play=np.ones(self.n_sources, np.bool_), trial=run.trial + 1, asked=0)
        run = replace(run, runs=runs)
        means, widths = self._means(), self._widths(run)
        policy = int(np.argmax(np.where(run.in_play, means + widths, -np.inf)))
        length = 1 + int(self._arms[layout.COUNT, policy])
        return replace(run, policy=policy, left=length, mean=float(means[policy]), width=float(widths[policy]))

    def _means(self) -> FloatArray:
        count, total = self._arms[[layout.COUNT, layout.TOTAL], :-1]
        return np.asarray(total / (1.0 + count))

    def _chances(self) -> FloatArray:
        return only(self._upcoming().policy, self.n_sources)

    def _begun(self, number: int, arm: int) -> None:
        run = self._upcoming()
        self._run = replace(run, asked=run.asked + 1, left=run.left - 1)

    def _told(self, number: int, arm: int, payoff: float) -> None:
        run = self._run
        if arm == run.policy and run.in_play[arm]:
            n = 1.0 + self._arms[layout.COUNT, arm]
            fell = run.mean - float(self._arms[layout.TOTAL, arm]) / n
            if fell > run.width + float(self._widths(run)[arm]):
                in_play = run.in_play.copy()
                in_play[arm] = False
                self._run = replace(run, in_play=in_play, left=0)

    @property
    def active(self) -> BoolArray:
        """Which arms are in play in this trial [c + 1]; the learner never is."""
        return np.append(self._run.in_play, np.False_)

    def _model(self) -> dict[str, Any]:
        run = self._run
        return {
            "runs": run.runs.tolist(), "in_play": run.in_play.tolist(), "trial": run.trial, "asked": run.asked,
            "policy": run.policy, "left": run.left, "mean": run.mean, "width": run.width,
        }  # fmt: skip

    def _take_model(self, place: str, model: Mapping[str, Any]) -> None:
        runs = numbers(place, "runs", model.get("runs"), (self.n_sources,))
        if not ((runs >= 1.0) & (runs <= self.n_asked + 1.0) & (runs == np.floor(runs))).all():
            raise InvalidInputError(f"{place}: runs is {shown(runs.tolist())}, must be whole numbers from 1 on")
        given = model.get("in_play")
        if not isinstance(given, list) or len(given) != self.n_sources:
            raise InvalidInputError(f"{place}: in_play is {shown(given)}, must have one entry to each source")
        in_play = np.array([flag(place, "in_play", one) for one in given], np.bool_)
        trial = whole(place, "trial", model.get("trial"), at_least=0, at_most=MOST_TRIALS)
        asked = whole(place, "asked", model.get("asked"), at_least=0, at_most=min(2**trial, self.n_asked))
        policy = whole(place, "policy", model.get("policy"), at_least=-1, at_most=self.n_sources - 1)
        left = whole(place, "left", model.get("left"), at_least=0, at_most=self.n_told)
        mean = within(place, "mean", model.get("mean"), 0.0, 1.0)
        width = within(place, "width", model.get("width"), 0.0, math.inf)
        if (policy == -1) != (self.n_asked == 0):
            raise InvalidInputError(f"{place}: policy is {policy}, must be that of the latest ask, -1 before the first")
        self._run = Run(in_play, runs, trial, asked, policy, left, mean, width)

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return Theorem 2 of the paper for independent episodes; nothing for several episodes open at once."""
        return self._if_independent(
            at_once,
            lambda episodes: advice_regret(self.n_sources, episodes, self._guess(episodes), self.delta),
            f"with probability at least {1 - self.delta:.3g}",
        )
