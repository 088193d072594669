"""Tsallis-INF (Zimmert and Seldin): nearly the best regret possible, whether arms are i.i.d. or adversarial.

With L_i the estimated loss of arm i so far and eta_t = 4 / sqrt(t), episode t runs arm i with probability
4 (eta_t (L_i - x))^-2, x such that these sum to 1. Losses are 1 - payoff, estimated with reduced variance:
(loss - b_i) [i ran] / p_i + b_i with b_i = 1/2 where p_i >= eta_t^2, else 0. Sources are i.i.d. and only the learner
drifts, so most of the gain over EXP-3 is kept. The number of episodes need not be known.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from pastmaster.checks import chosen
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.selector import Elimination, Selector

Estimator = Literal["reduced-variance", "importance-weighted"]


def tsallis_regret(n_arms: int, episodes: int, reduced: bool) -> float:
    """Zimmert and Seldin's Theorem 1: the summed payoffs lost to any one arm, in expectation, against any adversary."""
    if n_arms == 1:
        return 0.0
    root = math.sqrt(n_arms * episodes)
    return 2.0 * root + 10.0 * n_arms * math.log(episodes) + 16.0 if reduced else 4.0 * root + 1.0


class TsallisINF(Selector):
    """Tsallis-INF over sources and learner. It does not need the number of episodes.

    Parameters
    ----------
    n_sources, episodes
        As for `RegretBalancing`.
    estimator : {"reduced-variance", "importance-weighted"}
        How losses are estimated; the first varies less.
    bounds, elimination, delta, check_every, clip, rng
        As for `Exp3Transfer`; by default no source is eliminated.

    Examples
    --------
    >>> from pastmaster import TsallisINF
    >>> TsallisINF(3, bounds=(0, 1), rng=0).probabilities.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    name = "tsallis-inf"
    rule = layout.TSALLIS

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
        rng: Rng = None,
    ) -> None:
        self.reduced = chosen(type(self).__name__, "estimator", estimator, get_args(Estimator)) == "reduced-variance"
        super().__init__(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, estimator=estimator, elimination=elimination,
            delta=delta, check_every=check_every, clip=clip,
        )  # fmt: skip
        self._settings[layout.REDUCED_VARIANCE] = self.reduced

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return Zimmert and Seldin's bound for any payoffs; the loss is far smaller where sources differ clearly.

        With at most m episodes open at once it grows by 4 B (m - 1) / sqrt(T) for "importance-weighted" estimates
        without elimination; for others nothing is proven then.

        Parameters
        ----------
        at_once : int, optional
            The most episodes that are ever open at once, m; by default as many as there were so far, 1 at least.
        """
        episodes, at_once = self._guaranteed(at_once)
        if at_once > 1 and self.n_sources and (self.reduced or self.elimination != "none"):
            statement = (
                f"Nothing is proven with up to {at_once} episodes open at once, but for "
                "estimator='importance-weighted' with elimination='none'."
            )
            return RegretGuarantee(episodes, None, None, None, statement)
        asked = max(episodes, self.n_asked)  # the rates fall with cancelled ones too
        delay = 4.0 * (at_once - 1) * math.sqrt(asked) / episodes if self.n_sources else 0.0
        regret = tsallis_regret(self.n_sources + 1, asked, self.reduced) / episodes
        return self._bandit_guarantee(episodes, at_once, regret, delay)
