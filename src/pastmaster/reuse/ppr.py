"""Probabilistic Policy Reuse (PRQ-learning), as Fernandez and Veloso define it.

Before each episode a policy is drawn with probability in proportion to exp(tau W_k): W_k is the mean return of its
episodes, 0 before the first, and tau rises by a fixed step per episode. The learner's own episodes follow its learned
policy greedily. An episode that reuses source k takes, at step h, the source's action with probability
psi upsilon^h, else the learner's epsilon-greedy one. The learner learns from every step of every episode.

No source is eliminated and nothing is proven. In the end even a perfect source loses its episodes to the learner.
"""

from __future__ import annotations

from types import MappingProxyType

from pastmaster.checks import whole, within
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.reuse.selector import Selector
from pastmaster.values.bounds import checked_bounds


class ProbabilisticPolicyReuse(Selector):
    """Policy reuse: a softmax over mean returns; source and learner act in the same episode.

    ``transfer`` does the mixing within an episode, as ``reuse`` = (psi, upsilon) says.

    Parameters
    ----------
    n_sources, rng
        As for `Exp3Transfer`.
    episodes, bounds
        Accepted because all selectors are made by the same call; they change nothing, but must be right.
    psi, upsilon : float
        The probability of the source's action at the first step of an episode that reuses it, and the factor by which
        it falls with every step, both in 0 .. 1.
    temperature, temperature_step : float
        tau at the first episode, and its rise per episode.

    Examples
    --------
    >>> from pastmaster import ProbabilisticPolicyReuse
    >>> ProbabilisticPolicyReuse(1, rng=0).probabilities.tolist()
    [0.5, 0.5]
    """

    name = "ppr"
    rule = layout.POLICY_REUSE
    bounded = False
    mixes = True
    fixed = MappingProxyType(
        {"bounds": (0.0, 1.0), "clip": False, "elimination": "none", "delta": 0.0, "check_every": 1}
    )

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
        rng: Rng = None,
    ) -> None:
        caller = type(self).__name__
        if bounds is not None:
            checked_bounds(caller, bounds)
        psi, upsilon = within(caller, "psi", psi, 0.0, 1.0), within(caller, "upsilon", upsilon, 0.0, 1.0)
        self.reuse = (psi, upsilon)
        self.temperature = within(caller, "temperature", temperature, 0.0, 1e100)
        self.temperature_step = within(caller, "temperature_step", temperature_step, 0.0, 1e100)
        super().__init__(
            rng, n_sources=n_sources, episodes=episodes, psi=psi, upsilon=upsilon, temperature=self.temperature,
            temperature_step=self.temperature_step,
        )  # fmt: skip
        self._settings[[layout.TEMPERATURE, layout.TEMPERATURE_STEP]] = self.temperature, self.temperature_step

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return that nothing is proven."""
        if at_once is not None:
            whole(f"{type(self).__name__}.regret_guarantee", "at_once", at_once, at_least=1)
        return RegretGuarantee(max(self.n_told, 1), None, None, None, "Nothing is proven.")
