"""Tsallis-INF (Zimmert and Seldin): nearly the best regret possible, whether arms are i.i.d. or adversarial.

With L_i the estimated loss of arm i so far and eta_t = 4 / sqrt(t), episode t runs arm i with probability
4 (eta_t (L_i - x))^-2, x such that these sum to 1. Losses are 1 - payoff, estimated with reduced variance:
(loss - b_i) [i ran] / p_i + b_i with b_i = 1/2 where p_i >= eta_t^2, else 0. Sources are i.i.d. and only the learner
drifts, so most of the gain over EXP-3 is had; no number of episodes need be known.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from pastmaster.checks import optional_whole
from pastmaster.errors import InvalidInputError
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.selector import Elimination, RegretGuarantee, Selector, guarantee

Estimator = Literal["reduced-variance", "importance-weighted"]


def tsallis_regret(n_arms: int, episodes: int, reduced: bool) -> float:
    """Zimmert and Seldin's Theorem 1: the summed payoffs lost to any one arm, in expectation, against any adversary."""
    if n_arms == 1:
        return 0.0
    root = math.sqrt(n_arms * episodes)
    return 2.0 * root + 10.0 * n_arms * math.log(episodes) + 16.0 if reduced else 4.0 * root + 1.0


class TsallisINF(Selector):
    """Tsallis-INF over sources and learner; ``episodes`` is only what ``regret_guarantee`` speaks of."""

    name = "tsallis-inf"

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        estimator: Estimator = "reduced-variance",
        elimination: Elimination = "none",
        delta: float = 0.1,
        check_every: int = 10,
        clip: bool = False,
        rng: np.random.Generator,
    ) -> None:
        if not isinstance(estimator, str) or estimator not in ("reduced-variance", "importance-weighted"):
            raise InvalidInputError(
                f"{self.name}: estimator is {estimator!r}, must be 'reduced-variance' or 'importance-weighted'"
            )
        self.reduced = estimator == "reduced-variance"
        self.episodes = optional_whole(self.name, "episodes", episodes)
        super().__init__(
            n_sources, kind=layout.TSALLIS, bounds=bounds, clip=clip, elimination=elimination, delta=delta,
            check_every=check_every, rate=float(self.reduced), rise=0.0, rng=rng,
            arguments={
                "n_sources": n_sources, "episodes": self.episodes, "bounds": bounds,
                "estimator": estimator, "elimination": elimination, "delta": delta,
                "check_every": check_every, "clip": bool(clip),
            },
        )  # fmt: skip

    def regret_guarantee(self) -> RegretGuarantee:
        """As proven by Zimmert and Seldin for any payoffs; far smaller in fact where sources differ clearly."""
        episodes, span = self.horizon(), self.bounds.span
        bound = span * min(1.0, tsallis_regret(self.n_sources + 1, episodes, self.reduced) / episodes)
        best = {"none": bound, "anytime": min(span, bound + self.delta * span), "paper": None}[self.elimination]
        each = bound if self.elimination == "none" else None
        return guarantee(self, episodes, bound, each, best)
