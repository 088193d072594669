"""EXP-3-Transfer, the paper's Algorithm 1: EXP-3 over sources and a learner, which drops sources shown to be worse.

Episode t runs arm i with probability p_i(t) = (1 - beta) w_i / sum over C_t of w + beta / |C_t|. Its return, as a
payoff x = (return - lower) / (upper - lower) in [0, 1], is divided by its probability, which makes the estimate of
every arm's payoff unbiased: x^_i = x / p_i for the arm that ran, 0 for the others; and w_i grows by the factor
exp(beta x^_i / (c + 1)). Weights are kept as logarithms: they grow without bound.

Every ``check_every`` episodes a source k is dropped if another source j in play is shown to beat it:

"paper"     (z_j / n_j - z_k / n_k) / 2 > sqrt(ln(2 c / delta) / (2 n)) for n = n_j and n = n_k.
"anytime"   low_j > high_k, the ends of confidence sequences that hold at all times at once. low_j is the largest m
            that a bettor rules out: one who bets at fair odds, before each payoff x, that the mean is above m,

                capital_n(m) = sum over shares s of weight_s prod over payoffs x of (1 + (s / m) (x - m)) >= c / delta

            (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"; the shares are 3/4,
            3/8, 3/16, ..., and a lower bound of the capital that needs sums alone is computed, see ``log_capital``).
            high_k is the same of 1 - x. A mean of m lets the capital ever reach c / delta with a chance of at most
            delta / c (Ville), so a best source is dropped with a chance of at most delta.

Differs from the paper: payoffs are normalised by declared bounds of any width; removals of one check do not undo one
another; the printed test repeats a fixed-sample bound, so only "anytime" keeps delta; z and n count own episodes.
"""

from __future__ import annotations

import math

from pastmaster.checks import whole, within
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.selector import Elimination, Selector

GROWTH = math.e - 1.0  # exp(y) - 1 is at most so many times y for y in 0 .. 1


def theorem_beta(n_sources: int, episodes: int) -> float:
    """min(1, sqrt((c + 1) ln(c + 1) / ((e - 1) T))), which minimises the regret bound."""
    n_arms = n_sources + 1
    return min(1.0, math.sqrt(n_arms * math.log(n_arms) / ((math.e - 1.0) * episodes)))


class Exp3Transfer(Selector):
    """EXP-3-Transfer, the paper's selector. It needs the number of episodes and bounds on every return before the run.

    Parameters
    ----------
    n_sources, episodes : int
        The number of source policies, c (arm c is the learner), and the number of episodes planned, T.
    bounds : (float, float)
        The least and the greatest return, declared before the run.
    delta : float
        The probability with which a best source may be dropped; 0 never drops any.
    check_every : int
        After how many episodes sources are compared, the paper's l.
    elimination : {"paper", "anytime", "none"}
        The test that drops a source. Only "anytime" keeps to ``delta``.
    beta : float, optional
        The exploration rate in 0 .. 1; by default the one that minimises the regret bound for ``episodes``.
    clip : bool
        Move a return outside the bounds onto them; by default it is refused.
    rng : int, numpy.random.Generator or None
        Draws the arms: a seed, a generator, or None for a fresh seed, which ``seed`` tells.

    Examples
    --------
    >>> from pastmaster import Exp3Transfer
    >>> selector = Exp3Transfer(2, 1000, bounds=(0, 1), rng=0)
    >>> for _ in range(1000):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.9, 0.1, 0.5][episode.arm])
    >>> selector
    Exp3Transfer(2 sources, 1 in play, 1000 episodes told)
    """

    name = "exp3-transfer"
    rule = layout.EXP3

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
        rng: Rng = None,
    ) -> None:
        whole(type(self).__name__, "episodes", episodes, at_least=1)
        beta = None if beta is None else within(type(self).__name__, "beta", beta, 0.0, 1.0)
        super().__init__(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, delta=delta, check_every=check_every,
            elimination=elimination, beta=beta, clip=clip,
        )  # fmt: skip
        self.beta = theorem_beta(self.n_sources, episodes) if beta is None else beta
        self._settings[layout.BETA] = self.beta

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return the regret bound of EXP-3 with this beta, B [(e - 1) beta + (c + 1) ln(c + 1) / (beta T)].

        At the default beta it is g(c, T). It holds against the learner whatever is eliminated, since dropping other
        arms only lowers the sum of weights; against every source if none is eliminated; and, plus delta B, against the
        best source if elimination is "anytime". With at most m episodes open at once it grows by
        B (m - 1) [(e - 1)^2 beta / (c + 1) + (e - 1) c / T], the last where sources can be eliminated.

        Parameters
        ----------
        at_once : int, optional
            The most episodes that are ever open at once, m; by default as many as there were so far, 1 at least.
        """
        (episodes, at_once), n_arms = self._guaranteed(at_once), self.n_sources + 1
        if n_arms == 1:
            return self._bandit_guarantee(episodes, at_once, 0.0, 0.0)
        drawing = n_arms * math.log(n_arms) / (self.beta * episodes) if self.beta > 0.0 else math.inf
        drops = 0 if self.elimination == "none" else self.n_sources
        delay = (at_once - 1) * (GROWTH**2 * self.beta / n_arms + GROWTH * drops / episodes)
        return self._bandit_guarantee(episodes, at_once, GROWTH * self.beta + drawing, delay)
