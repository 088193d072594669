"""Regret balancing: the learner is kept from starving, at a price stated beforehand.

A learner judged by what it earns today gets few episodes while it is bad, and stays bad. Here two accounts decide, not
today's payoff. With n own episodes of total payoff X, the learner's *shortfall* is n m - X, m the largest mean payoff
measured among the sources. Episode t goes to the learner while the shortfall is at most kappa sqrt(t), else to the
sources. While useless sources earn no more than the learner, its shortfall is small and it learns nearly undisturbed;
against a good source it spends kappa sqrt(T) and then waits.

Among the sources Tsallis-INF chooses, with a baseline of its own: losses are estimated as (loss - b_i) [i ran] / p_i +
b_i, b_i the mean loss of source i's own episodes so far where p_i >= 4 v_i eta_t^2, v_i the variance of its payoffs as
measured (4 v_i at most 1), and 0 elsewhere: one lucky draw of a source that is seldom drawn would else outweigh all
that is known. Any b_i known beforehand leaves the estimate unbiased; this one is nearly exact where returns hardly
vary.

Lest a good source be overlooked, the sources are owed floor (c t^2)^(1/3) episodes by then.
"""

from __future__ import annotations

import math

import numpy as np

from pastmaster.checks import optional_whole, within
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.selector import RegretGuarantee, Selector


class RegretBalancing(Selector):
    """Balance the learner against the sources; among these, Tsallis-INF with anytime-valid elimination.

    ``kappa`` is how far the learner may fall behind, in payoffs per root of an episode; ``floor`` what the sources are
    owed. ``episodes`` is only what ``regret_guarantee`` speaks of.
    """

    name = "regret-balancing"

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
        rng: np.random.Generator,
    ) -> None:
        self.kappa = within(self.name, "kappa", kappa, 0.0, math.inf)
        self.floor = within(self.name, "floor", floor, 0.0, math.inf)
        self.episodes = optional_whole(self.name, "episodes", episodes)
        within(self.name, "delta", delta, 1e-300, 1.0)
        super().__init__(
            n_sources, kind=layout.BALANCING, bounds=bounds, clip=clip, elimination="anytime", delta=delta,
            check_every=check_every, rate=self.kappa, rise=self.floor, rng=rng,
            arguments={
                "n_sources": n_sources, "episodes": self.episodes, "bounds": bounds,
                "kappa": self.kappa, "floor": self.floor, "delta": delta, "check_every": check_every,
                "clip": bool(clip),
            },
        )  # fmt: skip

    def regret_guarantee(self) -> RegretGuarantee:
        """The two accounts; ``docs/reuse.md`` has the argument."""
        episodes, span = self.horizon(), self.bounds.span
        behind = span * min(1.0, (self.kappa * math.sqrt(episodes) + 1.0) / episodes)
        due = self.floor * (self.n_sources * episodes**2) ** (1.0 / 3.0) + 1.0 if self.n_sources else 0.0
        owed = span * min(1.0, due / episodes)
        statement = (
            f"Over {episodes:,} episodes and per episode:\n"
            f"  the learner's episodes together fall at most {behind:.4g} behind the best measured mean\n"
            "  of a source, as it stood when the learner last ran;\n"
            "  if its shortfall stays within kappa sqrt(t), and it learns from its own episodes only, the returns\n"
            f"  fall at most {owed:.4g} short, in expectation, of the same learner run alone.\n"
            "To the best source's true value no figure is proven."
        )
        return RegretGuarantee(episodes, None, None, None, statement)
