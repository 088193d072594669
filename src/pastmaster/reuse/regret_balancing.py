"""Regret balancing: sources and learner get episodes by what they earn, and neither can starve the other.

A learner judged by its present payoff gets few episodes while it is bad, and stays bad. Here sources and learner have
an account each, and the one that seems better runs: the learner while it has lost little to the best source, or while
its progress, extrapolated, repays what it loses. The other one still gets a share that never ends, one episode in
``preference`` squared, and more as soon as it is shown to earn more (``_balancing_kernels`` has the rule).

Among the sources a model of their values chooses: what their returns say, with as much noise as there is among returns
of one source. A source runs if what it may gain in the episodes left is more than what its trial costs
(``_model_kernels``). Where returns hardly vary, one episode of each source is enough.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import numpy as np

from pastmaster.checks import within
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout, _model_kernels as kernels
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.selector import Selector
from pastmaster.tables import counted

QUIET = 1e-6  # the variance of a payoff that returns are taken to have before two of one source differ


class RegretBalancing(Selector):
    """Balance the learner against the sources, so that a learner that starts badly still gets episodes.

    Parameters
    ----------
    n_sources : int
        The number of source policies, c. Arm c is the learner.
    episodes : int, optional
        The number of episodes planned: a trial must pay within them. Without it, as many as there were so far are
        taken to follow.
    kappa : float
        After t episodes the learner may be kappa sqrt(t) payoffs behind, less where little more can be earned.
    preference : float
        The one that seems worse still gets one episode in preference squared; 1 at least.
    bounds, delta, check_every, clip, rng
        As for `Exp3Transfer`; elimination is "anytime", and ``delta`` above 0.

    Examples
    --------
    >>> from pastmaster import RegretBalancing
    >>> selector = RegretBalancing(2, 100, bounds=(0, 1), rng=0)
    >>> for _ in range(100):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.9, 0.1, 0.5][episode.arm])
    >>> selector.counts.tolist()
    [99, 1, 0]
    """

    name = "regret-balancing"
    rule = layout.BALANCING
    n_memory = layout.N_BALANCING
    fixed = MappingProxyType({"elimination": "anytime"})

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        kappa: float = 0.25,
        preference: float = 20.0,
        delta: float = 0.1,
        check_every: int = 10,
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        self._begin(
            rng, n_sources=n_sources, episodes=episodes, bounds=bounds, kappa=kappa, preference=preference,
            delta=delta, check_every=check_every, clip=clip,
        )  # fmt: skip

    def _begin(self, rng: Rng, **arguments: Any) -> None:
        """Take the settings that this selector shares with the informed one."""
        name = type(self).__name__
        self.kappa = within(name, "kappa", arguments["kappa"], 0.0, math.inf)
        self.preference = within(name, "preference", arguments["preference"], 1.0, 1e6)
        within(name, "delta", arguments["delta"], 1e-300, 1.0)
        super().__init__(rng, **arguments | {"kappa": self.kappa, "preference": self.preference})
        self._settings[[layout.KAPPA, layout.PREFERENCE]] = self.kappa, self.preference
        self._settings[layout.HORIZON] = self.episodes or 0
        self._settings[[layout.DEVIATION_OF_TASKS, layout.ODD, layout.UNLIKE]] = 1e-6, 0.5, 1.0
        self._settings[layout.NOISE_BEFORE] = self._memory[layout.NOISE] = QUIET
        self._memory[[layout.RATE, layout.RATE + 1]] = 1.0

    def _rows(self) -> int:
        return layout.EXPERIENCE

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return what is proven of the sources' own episodes and of all, in words; ``docs/guarantees.md`` proves it.

        Parameters
        ----------
        at_once : int, optional
            The most episodes that are ever open at once; by default as many as there were so far, 1 at least.
        """
        (episodes, at_once), span = self._guaranteed(at_once), self.bounds.span
        if at_once > 1:
            return RegretGuarantee(episodes, None, None, None, "Nothing is proven with several episodes open at once.")
        coefficient = self._sources_coefficient(episodes)
        of_sources = span * min(1.0, coefficient / math.sqrt(episodes))
        best, quick, slow = (span * min(1.0, self._loss(r, episodes)) for r in (coefficient, 1.0, 10.0))
        statement = (
            f"Over {counted(episodes, 'episode')}, with probability at least {max(0.0, 1 - 3 * self.delta):.3g}, the\n"
            "mean expected return is\n"
            f"  in the sources' episodes, were they all of them, at most {of_sources:.4g} below the best source;\n"
            f"  in all episodes at most {best:.4g} below the best source, if the learner's expected return never\n"
            "  exceeds it;\n"
            f"  in all episodes at most {quick:.4g} below any level that no arm's expected return exceeds and to\n"
            "  which the learner loses at most sqrt(n) payoffs in its first n episodes of this very run, for all n;\n"
            f"  {slow:.4g} if it loses at most 10 sqrt(n).\n"
            "The last two hold if the learner learns from its own episodes only.\n"
            f"A bound of {span:.4g}, the whole span, says nothing."
        )
        return RegretGuarantee(episodes, None, None, None, statement)

    def _sources_coefficient(self, episodes: int) -> float:
        """r such that n episodes of the sources lose at most r sqrt(n) payoffs to the best of them."""
        c, w = max(self.n_sources, 1), self.preference
        widest = float(kernels.width(episodes * math.sqrt(c), self.delta))
        return ((8.0 + 23.0 * w) * widest + 4.0 * w) * math.sqrt(c)

    def _loss(self, r: float, episodes: int) -> float:
        """The loss of a payoff to a level, for each episode, if an account loses at most r sqrt(n) to it."""
        e, root = max(1.0, 2.0 * r), math.sqrt(episodes)
        widest, w = kernels.width(episodes, self.delta), self.preference
        other = (math.sqrt(2.0) * w * e * (1.0 + r + 2.0 * widest) + 2.0 * widest) * root + w * w * e * e + 1.0
        return float(np.float64(r * root + other) / episodes)
