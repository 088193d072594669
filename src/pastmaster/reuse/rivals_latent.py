"""Latent bandits: the new task is one of the old ones, but it is not known which.

Hong, Kveton, Zaheer, Chow, Ahmed and Boutilier 2020, "Latent bandits revisited", NeurIPS, without contexts. An old task
i is a latent state, S all of them; U[i, j] is what source j was worth in it, and x the payoff of arm a.

* mUCB keeps N(i), the episodes in which i was the state assumed, and G(i) = sum of (U[i, a] - epsilon - x) over them.
  State i is consistent while G(i) <= sigma sqrt(6 N(i) ln n), n the number of episodes. The state assumed next is the
  consistent one in which some source is worth most, and that source runs. If the new task is an old one, with means in
  0 .. 1 and sigma^2-sub-Gaussian noise, the payoffs lost in n episodes are in expectation at most
  3 |S| + 2 sigma sqrt(6 |S| n ln n), plus 2 epsilon n if every U is known up to epsilon only.
* mTS draws a latent state from the belief and runs its best source: the same rule as Bayesian Policy Reuse by Thompson
  sampling. The same bound holds on average over tasks drawn from the prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.arrays import BoolArray, FloatArray
from pastmaster.checks import within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng
from pastmaster.reuse import selector as base
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.rivals import only
from pastmaster.reuse.rivals_informed import BelievingSelector, KnowingSelector
from pastmaster.reuse.selector import numbers
from pastmaster.tables import counted, shown


def latent_regret(n_tasks: int, episodes: int, noise: float, deviation: float = 0.0) -> float:
    """Payoffs that mUCB loses to the best source in expectation: 3 |S| + 2 sigma sqrt(6 |S| n ln n) + 2 epsilon n."""
    root = math.sqrt(6.0 * n_tasks * episodes * math.log(episodes))
    return 3.0 * n_tasks + 2.0 * noise * root + 2.0 * deviation * episodes


class LatentUCB(KnowingSelector):
    """mUCB of Hong et al. (2020): optimistic among the old tasks that are not refuted; ``rivals_latent`` has it.

    It has no learner: arm c never runs. If every task is refuted, which the paper leaves open, the one with the least
    G(i) above its limit is assumed. Without ``episodes``, ln n is that of the episodes so far; the bound holds as well.

    Parameters
    ----------
    n_sources, bounds, experience, clip, rng
        As for `BayesianPolicyReuse`; the choice does not depend on ``rng``.
    episodes : int, optional
        The number of episodes planned, n.
    noise : float, optional
        sigma, in units of return: returns are sigma^2-sub-Gaussian. By default the largest ``spread`` of the experience
        (at least 1 / 1000 of the span), which is right for normal returns; where it has none, half the span,
        which is right for all.
    deviation : float
        epsilon, in units of return: how far a value may be from what the experience says.

    Examples
    --------
    >>> from pastmaster import LatentUCB
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.8, 0.2], [0.3, 0.2, 0.7]]
    >>> selector = LatentUCB(3, 100, bounds=(0, 1), experience=experience, noise=0.1, rng=0)
    >>> for _ in range(20):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.1, 0.8, 0.2][episode.arm])
    >>> selector.counts.tolist(), selector.consistent.tolist()
    ([1, 19, 0, 0], [False, True, True])
    """

    name = "latent-ucb"

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        noise: float | None = None,
        deviation: float = 0.0,
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        deviation = within(type(self).__name__, "deviation", deviation, 0.0, math.inf)
        self._begin(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, experience=experience, noise=noise,
            deviation=deviation, clip=clip,
        )  # fmt: skip
        self._sigma = float(self._deviations(0.5).max())
        self._epsilon = deviation / self.bounds.span
        self._runs, self._gaps = np.zeros((2, len(self.values)))  # N(i) and G(i)
        self._assumed: dict[int, int] = {}  # the states assumed in open episodes, by their numbers

    def _excess(self) -> FloatArray:
        """G(i) above its limit [N]; up to 0, the task is consistent."""
        log_n = math.log(max(self.episodes or 0, self.n_asked + 1))
        return np.asarray(self._gaps - self._sigma * np.sqrt(6.0 * log_n * self._runs))

    def _state(self) -> int:
        """The latent state that the next episode assumes."""
        excess = self._excess()
        consistent = np.flatnonzero(excess <= 0.0)
        if not len(consistent):
            return int(np.argmin(excess))
        return int(consistent[np.argmax(self.best_value[consistent])])

    def _chances(self) -> FloatArray:
        return only(int(self.best_arm[self._state()]), self.n_sources)

    def _begun(self, number: int, arm: int) -> None:
        self._assumed[number] = self._state()

    def _told(self, number: int, arm: int, payoff: float) -> None:
        state = self._assumed.pop(number)
        self._runs[state] += 1.0
        self._gaps[state] += self.values[state, arm] - self._epsilon - payoff

    def _cancelled(self, number: int, arm: int) -> None:
        del self._assumed[number]

    @property
    def consistent(self) -> BoolArray:
        """Which old tasks are not refuted [N]."""
        with base.LOCK:
            return self._excess() <= 0.0

    def _model(self) -> dict[str, Any]:
        return {"runs": self._runs.tolist(), "gaps": self._gaps.tolist(), "assumed": list(self._assumed.values())}

    def _take_model(self, place: str, model: Mapping[str, Any]) -> None:
        shape, opened = self._runs.shape, self.open
        runs, gaps = (numbers(place, key, model.get(key), shape) for key in ("runs", "gaps"))
        assumed = numbers(place, "assumed", model.get("assumed"), (len(opened),))
        told = np.bincount(self.best_arm, weights=runs, minlength=self.n_sources)
        if (runs < 0.0).any() or (runs != np.floor(runs)).any() or (told != self.counts[:-1]).any():
            raise InvalidInputError(
                f"{place}: runs is {shown(runs.tolist())}, must be how often each task was assumed, as often in all as "
                "its best arm was told"
            )
        most = (np.abs(self.values).max() + self._epsilon + 1.0) * (runs + 1e-6)
        if (np.abs(gaps) > most).any():
            raise InvalidInputError(f"{place}: gaps is {shown(gaps.tolist())}, must be sums over the episodes of runs")
        for episode, state in zip(opened, assumed.tolist(), strict=True):
            if state not in range(len(runs)) or self.best_arm[int(state)] != episode.arm:
                raise InvalidInputError(
                    f"{place}: assumed is {state:g} for episode {episode.number}, must be a task in which arm "
                    f"{episode.arm} is the best"
                )
            self._assumed[episode.number] = int(state)
        self._runs, self._gaps = runs, gaps

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return the bound of the paper, in words: it is about new tasks that are one of the old ones."""
        episodes, at_once = self._guaranteed(at_once)
        lost = latent_regret(len(self.values), episodes, self._sigma, self._epsilon) / episodes
        sigma = self._sigma * self.bounds.span
        known = f"is one of the old tasks, and returns are sub-Gaussian with sigma = {sigma:.4g}"
        return self._conditional_guarantee(episodes, at_once, _if_known(self, episodes, lost, known))


class LatentThompson(BelievingSelector):
    """mTS of Hong et al. (2020): the best source of an old task drawn from the belief; ``rivals_latent`` has it.

    It has no learner: arm c never runs. The prior is the same for all old tasks.

    Parameters
    ----------
    n_sources, episodes, bounds, experience, noise, clip, rng
        As for `BayesianPolicyReuse`.

    Examples
    --------
    >>> from pastmaster import LatentThompson
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2], [0.9, 0.2, 0.8]]
    >>> LatentThompson(3, bounds=(0, 1), experience=experience, rng=0).probabilities.round(3).tolist()
    [0.667, 0.333, 0.0, 0.0]
    """

    name = "latent-thompson"

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        noise: float | None = None,
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        self._begin(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, experience=experience, noise=noise, clip=clip
        )

    def _chances(self) -> FloatArray:
        return self._sampled(self.belief)

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return the bound of the paper, in words: it is an average over new tasks drawn from the old ones."""
        episodes, at_once = self._guaranteed(at_once)
        lost = latent_regret(len(self.values), episodes, float(self._noise.max())) / episodes
        known = "is drawn from the old tasks, all equally likely, and returns are normal as the model has it"
        return self._conditional_guarantee(episodes, at_once, _if_known(self, episodes, lost, known))


def _if_known(selector: KnowingSelector, episodes: int, lost: float, condition: str) -> str:
    """The bound of a latent bandit in words."""
    span = selector.bounds.span
    bound, empty = span * min(1.0, lost), "This says nothing: the bound is the whole span. " if lost >= 1.0 else ""
    return (
        f"{empty}If the new task {condition},\nthen over {counted(episodes, 'episode')}, in expectation, the mean "
        f"return per episode is at most {bound:.4g} below the best source.\nFor other tasks nothing is proven, nor "
        "about the learner, which never runs."
    )
