"""EXP-3-Transfer, the paper's Algorithm 1: EXP-3 over sources and a learner, which drops sources shown to be worse.

Episode t runs arm i with probability p_i(t) = (1 - beta) w_i / sum over C_t of w + beta / |C_t|. Its return, as a
payoff x = (return - lower) / (upper - lower) in [0, 1], is divided by its probability, which makes the estimate of
every arm's payoff unbiased: x^_i = x / p_i for the arm that ran, 0 for the others; and w_i grows by the factor
exp(beta x^_i / (c + 1)). Weights are kept as logarithms: they grow without bound.

Every ``check_every`` episodes a source k is dropped if another source j in play is shown to beat it:

"paper"     (z_j / n_j - z_k / n_k) / 2 > sqrt(ln(2 c / delta) / (2 n)) for n = n_j and n = n_k.
"anytime"   low_j > high_k, the ends of confidence sequences that hold at all times at once: mean_n and variance_n
            as estimated before payoff n, L = ln(c / delta), lambda_n = min(sqrt(2 L / (variance_n n ln(n + 1))), 3/4),
            the ends are [sum lambda_n x_n -+ (L + sum (x_n - mean_n)^2 (-ln(1 - lambda_n) - lambda_n))] / sum lambda_n
            (the predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas, each end at delta / c).
            A best source is dropped only if its own high end or another's low end fails: probability at most delta.

Differs from the paper: payoffs are normalised by declared bounds of any width; removals of one check do not undo one
another; the printed test repeats a fixed-sample bound, so that only "anytime" keeps delta; z and n count own episodes.
"""

from __future__ import annotations

import math

import numpy as np

from pastmaster.checks import whole, within
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.selector import Elimination, RegretGuarantee, Selector, guarantee


def theorem_beta(n_sources: int, episodes: int) -> float:
    """min(1, sqrt((c + 1) ln(c + 1) / ((e - 1) T))), which minimises the regret bound."""
    n_arms = n_sources + 1
    return min(1.0, math.sqrt(n_arms * math.log(n_arms) / ((math.e - 1.0) * episodes)))


class Exp3Transfer(Selector):
    """The paper's selector. ``bounds`` (lower, upper) hold for every return, declared before the run.

    ``beta`` is by default the theorem's for ``episodes``; ``delta`` is the chance of dropping a best source,
    ``check_every`` the paper's l. A return outside the bounds is refused, or with ``clip=True`` moved onto them.
    """

    name = "exp3-transfer"

    def __init__(
        self,
        n_sources: int,
        episodes: int,
        *,
        bounds: tuple[float, float],
        delta: float = 0.1,
        check_every: int = 100,
        elimination: Elimination = "paper",
        beta: float | None = None,
        clip: bool = False,
        rng: np.random.Generator,
    ) -> None:
        n_sources = whole(self.name, "n_sources", n_sources, at_least=0)
        self.episodes = whole(self.name, "episodes", episodes, at_least=1)
        chosen = theorem_beta(n_sources, episodes) if beta is None else within(self.name, "beta", beta, 0.0, 1.0)
        super().__init__(
            n_sources, kind=layout.EXP3, bounds=bounds, clip=clip, elimination=elimination, delta=delta,
            check_every=check_every, rate=chosen, rise=0.0, rng=rng,
            arguments={
                "n_sources": n_sources, "episodes": self.episodes, "bounds": bounds,
                "delta": delta, "check_every": check_every, "elimination": elimination,
                "beta": None if beta is None else float(beta), "clip": bool(clip),
            },
        )  # fmt: skip
        self.beta = chosen

    def regret_guarantee(self) -> RegretGuarantee:
        """The regret bound of EXP-3 with this beta: B [(e - 1) beta + (c + 1) ln(c + 1) / (beta T)], g at the default.

        It holds to the learner whatever is eliminated, since dropping other arms only lowers the sum of weights; to
        every source if none is eliminated; to the best source, plus delta B, if elimination is "anytime".
        """
        episodes, n_arms, span = self.horizon(), self.n_sources + 1, self.bounds.span
        if n_arms == 1:
            bound = 0.0
        elif self.beta == 0.0:
            bound = span
        else:
            bound = (math.e - 1.0) * self.beta + n_arms * math.log(n_arms) / (self.beta * episodes)
            bound = span * min(1.0, bound)
        best = {"none": bound, "anytime": min(span, bound + self.delta * span), "paper": None}[self.elimination]
        each = bound if self.elimination == "none" else None
        return guarantee(self, episodes, bound, each, best)
