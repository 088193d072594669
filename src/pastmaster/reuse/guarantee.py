"""The regret that is proven for a selector: numbers, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class RegretGuarantee:
    """The loss per episode that is proven for a selector, in expectation and in units of return.

    Every ``regret_guarantee()`` returns one. A bound is None where nothing of the kind is proven. What holds only with
    some probability, or only under a condition, is in the ``statement`` alone.

    Attributes
    ----------
    episodes : int
        The number of episodes T that the bounds are about.
    to_learner : float or None
        How far the mean return can fall below what the learner would have earned in each episode *with what it had
        learned by then*. It does not bound the loss against the same learner run alone.
    to_each_source, to_best_source : float or None
        How far it can fall below the value of any of the sources, and of the best one.
    statement : str
        All of this in words; ``print`` shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster import Exp3Transfer
    >>> selector = Exp3Transfer(3, 5000, bounds=(0, 1), elimination="none", rng=np.random.default_rng(0))
    >>> round(selector.regret_guarantee().to_best_source, 3)
    0.087
    """

    episodes: int
    to_learner: float | None
    to_each_source: float | None
    to_best_source: float | None
    statement: str

    def __str__(self) -> str:
        return self.statement

    def __repr__(self) -> str:
        known = {"learner": self.to_learner, "each source": self.to_each_source, "best source": self.to_best_source}
        bounds = ", ".join(f"to {arm} {bound:.3g}" for arm, bound in known.items() if bound is not None)
        return f"RegretGuarantee({self.episodes:,} episodes: {bounds or 'no bound'})"
