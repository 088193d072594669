"""Latent bandits: the new task is one of the old ones, but it is not known which.

Hong, Kveton, Zaheer, Chow, Ahmed and Boutilier 2020, "Latent bandits revisited", NeurIPS, without
contexts. An old task i is a latent state, S all of them; U[i, j] is what source j was worth in it,
and x the payoff of arm a.

* mUCB keeps N(i), the episodes in which i was the state assumed, and G(i) = sum of (U[i, a] -
  epsilon - x) over them. State i is consistent while G(i) <= sigma sqrt(6 N(i) ln n), n the number
  of episodes. The state assumed next is the consistent one in which some source is worth most, and
  that source runs. If the new task is an old one, with means in 0 .. 1 and sigma^2-sub-Gaussian
  noise, the payoffs lost in n episodes are in expectation at most 3 |S| + 2 sigma sqrt(6 |S| n ln
  n), plus 2 epsilon n if every U is known up to epsilon only.
* mTS draws a latent state from the belief and runs its best source: the same rule as Bayesian
  Policy Reuse by Thompson sampling. The same bound holds on average over tasks drawn from the
  prior.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pastmaster import InvalidInputError
from pastmaster_paper.arrays import FloatArray
from pastmaster_paper.rivals.bayesian_policy_reuse import BayesianPolicyReuse, KnowingRival
from pastmaster_paper.rivals.rival import Rng


def regret_bound(n_tasks: int, episodes: int, noise: float, deviation: float = 0.0) -> float:
    """Payoffs that mUCB loses to the best source in expectation: 3 |S| + 2 sigma sqrt(6 |S| n ln n) + 2 epsilon n."""
    root = math.sqrt(6.0 * n_tasks * episodes * math.log(episodes))
    return 3.0 * n_tasks + 2.0 * noise * root + 2.0 * deviation * episodes


class LatentUCB(KnowingRival):
    """mUCB: optimistic among the old tasks that are not refuted.

    If every task is refuted, which the paper leaves open, the one with the least G(i) above its
    limit is assumed.

    Parameters
    ----------
    n_sources, bounds, experience, rng
        As for `BayesianPolicyReuse`; the choice does not depend on ``rng``.
    episodes : int, optional
        n; by default the episodes so far, for which the bound holds as well.
    noise : float, optional
        sigma, in units of return. By default the largest ``spread`` of the experience, which is
        right for normal returns; where it has none, half the span, which is right for all.
    deviation : float
        epsilon, in units of return: how far a value may be from what the experience says.

    Examples
    --------
    >>> from pastmaster_paper.rivals import LatentUCB
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.8, 0.2], [0.3, 0.2, 0.7]]
    >>> selector = LatentUCB(3, 100, bounds=(0, 1), experience=experience, noise=0.1)
    >>> for _ in range(20):
    ...     arm = selector.ask()
    ...     selector.tell(arm, [0.1, 0.8, 0.2][arm])
    >>> selector.counts.tolist(), (selector.excess() <= 0).tolist()
    ([1.0, 19.0, 0.0], [False, True, True])
    """

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        noise: float | None = None,
        deviation: float = 0.0,
        rng: Rng = None,
    ) -> None:
        super().__init__(n_sources, bounds, rng, experience, noise, otherwise=0.5)
        if not deviation >= 0.0:
            raise InvalidInputError(f"LatentUCB: deviation is {deviation!r}, must be at least 0")
        self.episodes = episodes or 0
        self.sigma = float(self.noise.max())
        self.epsilon = deviation / self.span
        self.runs, self.gaps = np.zeros((2, len(self.values)))  # N(i) and G(i)
        self.state = 0  # the one assumed

    def excess(self) -> FloatArray:
        """G(i) above its limit [N]; up to 0, the task is consistent."""
        log_n = math.log(max(self.episodes, self.counts.sum() + 1.0))
        return np.asarray(self.gaps - self.sigma * np.sqrt(6.0 * log_n * self.runs))

    def choose(self, chance: float) -> int:
        excess = self.excess()
        consistent = np.flatnonzero(excess <= 0.0)
        if len(consistent):
            self.state = int(consistent[np.argmax(self.best_value[consistent])])
        else:
            self.state = int(np.argmin(excess))
        return int(self.best_arm[self.state])

    def learn(self, arm: int, payoff: float) -> None:
        self.runs[self.state] += 1.0
        self.gaps[self.state] += self.values[self.state, arm] - self.epsilon - payoff


class LatentThompson(BayesianPolicyReuse):
    """mTS: the best source of an old task drawn from the belief, before any return the same for all old tasks.

    Parameters
    ----------
    n_sources, episodes, bounds, experience, noise, rng
        As for `BayesianPolicyReuse`.

    Examples
    --------
    >>> from pastmaster_paper.rivals import LatentThompson
    >>> experience = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2], [0.9, 0.2, 0.8]]
    >>> LatentThompson(3, bounds=(0, 1), experience=experience).thompson().round(3).tolist()
    [0.667, 0.333, 0.0]
    """

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        experience: Any,
        noise: float | None = None,
        rng: Rng = None,
    ) -> None:
        super().__init__(
            n_sources, episodes, bounds=bounds, experience=experience, explore="thompson", noise=noise, rng=rng
        )
