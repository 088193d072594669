"""Probabilistic Policy Reuse (PRQ-learning), as Fernandez and Veloso define it.

Before each episode a policy is drawn with probability in proportion to exp(tau W_k): W_k is the mean return of its
episodes, 0 before the first, and tau rises by a fixed step per episode. The learner's own episodes follow its learned
policy greedily. An episode that reuses source k takes, at step h, the source's action with probability
psi upsilon^h, else the learner's epsilon-greedy one. The learner learns from every step of every episode.

Nothing is eliminated, nothing is proven, and even a perfect source is in the end given up for the learner.
"""

from __future__ import annotations

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.checks import optional_whole, within
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.selector import RegretGuarantee, Selector


class ProbabilisticPolicyReuse(Selector):
    """The softmax over mean returns, and in ``reuse`` the mixing that ``transfer`` does within an episode.

    ``episodes`` and ``bounds`` are there for the call that all selectors share; it needs neither.
    """

    name = "ppr"
    bounded = False
    mixes = True

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float] | None = None,
        psi: float = 1.0,
        upsilon: float = 0.95,
        temperature: float = 0.0,
        temperature_step: float = 0.05,
        rng: np.random.Generator,
    ) -> None:
        self.reuse = (within(self.name, "psi", psi, 0.0, 1.0), within(self.name, "upsilon", upsilon, 0.0, 1.0))
        self.temperature = within(self.name, "temperature", temperature, 0.0, 1e100)
        self.temperature_step = within(self.name, "temperature_step", temperature_step, 0.0, 1e100)
        self.episodes = optional_whole(self.name, "episodes", episodes)
        super().__init__(
            n_sources, kind=layout.SOFTMAX, bounds=(0.0, 1.0), clip=False, elimination="none", delta=0.0,
            check_every=1, rate=self.temperature, rise=self.temperature_step, rng=rng,
            arguments={
                "n_sources": n_sources, "episodes": self.episodes, "psi": self.reuse[0], "upsilon": self.reuse[1],
                "temperature": self.temperature, "temperature_step": self.temperature_step,
            },
        )  # fmt: skip

    def _in_returns(self, payoffs: FloatArray) -> FloatArray:
        return payoffs  # its payoffs are returns

    def regret_guarantee(self) -> RegretGuarantee:
        """Nothing is proven of it."""
        return RegretGuarantee(max(self.n_told, 1), None, None, None, "Nothing is proven.")
