"""Regret balancing: the learner is kept from starving, at a price stated beforehand.

A learner judged by its present payoff gets few episodes while it is bad, and stays bad. Here two accounts decide
instead. With n own episodes of total payoff X, the learner's *shortfall* is n m - X, m the largest mean payoff
measured among the sources. Episode t goes to the learner while the shortfall is at most kappa sqrt(t), else to the
sources. While useless sources earn no more than the learner, its shortfall is small and it learns nearly undisturbed;
against a good source it spends kappa sqrt(T) and then waits.

Among the sources Tsallis-INF chooses, with a baseline of its own: losses are estimated as (loss - b_i) [i ran] / p_i +
b_i, b_i the mean loss of source i's own episodes so far where p_i >= 4 v_i eta_t^2, v_i the variance of its payoffs as
measured (4 v_i at most 1), and 0 elsewhere: otherwise one lucky draw of a source that is seldom drawn would outweigh
all the evidence. Any b_i known beforehand leaves the estimate unbiased; this one is nearly exact where returns hardly
vary.

So that no good source is overlooked, the sources are owed floor (c t^2)^(1/3) episodes by then.

While several episodes are open at once, the learner's open ones are taken to earn the least return there is, and those
of the sources the greatest. So whatever they will earn, the learner does not spend more than that.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from pastmaster.checks import within
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.selector import Selector
from pastmaster.tables import counted


class RegretBalancing(Selector):
    """Balance the learner against the sources, so that a learner that starts badly still gets episodes.

    Parameters
    ----------
    n_sources : int
        The number of source policies, c. Arm c is the learner.
    episodes : int, optional
        The number of episodes that ``regret_guarantee`` is about; it changes nothing else.
    kappa, floor : float
        After t episodes the learner may be kappa sqrt(t) payoffs behind, and floor (c t^2)^(1/3) episodes are owed to
        the sources.
    bounds, delta, check_every, clip, rng
        As for `Exp3Transfer`; elimination is "anytime", and ``delta`` above 0.

    Examples
    --------
    >>> from pastmaster import RegretBalancing
    >>> selector = RegretBalancing(2, bounds=(0, 1), rng=0)
    >>> selector.probabilities.tolist()  # a source first: the learner is compared with them
    [0.5, 0.5, 0.0]
    """

    name = "regret-balancing"
    rule = layout.BALANCING
    fixed = MappingProxyType({"elimination": "anytime"})

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        kappa: float = 0.25,
        floor: float = 0.3,
        delta: float = 0.1,
        check_every: int = 10,
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        self.kappa = within(type(self).__name__, "kappa", kappa, 0.0, math.inf)
        self.floor = within(type(self).__name__, "floor", floor, 0.0, math.inf)
        within(type(self).__name__, "delta", delta, 1e-300, 1.0)
        super().__init__(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, kappa=self.kappa, floor=self.floor, delta=delta,
            check_every=check_every, clip=clip,
        )  # fmt: skip
        self._settings[[layout.KAPPA, layout.FLOOR]] = self.kappa, self.floor

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return the bounds on the two accounts, in words; ``docs/guarantees.md`` has the argument.

        Parameters
        ----------
        at_once : int, optional
            The most episodes that are ever open at once; by default as many as there were so far, 1 at least.
        """
        (episodes, at_once), span = self._guaranteed(at_once), self.bounds.span
        asked = max(episodes, self.n_asked)
        behind = span * min(1.0, (self.kappa * math.sqrt(asked) + 1.0) / episodes)
        due = self.floor * (self.n_sources * asked**2) ** (1.0 / 3.0) + 1.0 if self.n_sources else 0.0
        owed = span * min(1.0, due / episodes)
        alone = ", if never\n  more than one of its own episodes is open at once" if at_once > 1 else ""
        told = " and the episodes open then had been told" if at_once > 1 else ""
        statement = (
            f"Over {counted(episodes, 'episode')}, per episode:\n"
            f"  the learner's own episodes earn, together, at most {behind:.4g} less than the best measured mean of a\n"
            f"  source, as it stood when the learner last ran{told};\n"
            "  if the learner's shortfall stays within kappa sqrt(t), and it learns from its own episodes only, the\n"
            f"  mean return is, in expectation, at most {owed:.4g} below that of the same learner run alone{alone}.\n"
            "No bound against the best source's true value is proven."
        )
        return RegretGuarantee(episodes, None, None, None, statement)
