"""What all rivals share: one episode at a time is asked for and told, and its return becomes a payoff in 0 .. 1."""

from __future__ import annotations

import numpy as np

from pastmaster import InvalidInputError

Rng = int | np.random.Generator | None


class Rival:
    """A selector of another author: a child chooses an arm, and may learn from what it paid.

    ``counts`` and ``totals`` [c] are the episodes of each source and their payoffs, summed.
    """

    def __init__(self, n_sources: int, bounds: tuple[float, float], rng: Rng) -> None:
        if n_sources < 1:
            name = type(self).__name__
            raise InvalidInputError(f"{name}: n_sources is {n_sources}, must be at least 1: it has no learner")
        self.n_sources = n_sources
        self.bounds = bounds
        self.span = bounds[1] - bounds[0]
        self.rng = np.random.default_rng(rng)
        self.counts = np.zeros(n_sources)
        self.totals = np.zeros(n_sources)
        self._pending: int | None = None

    def choose(self, chance: float) -> int:
        """The source to run next; ``chance`` is a uniform number, one for each ask, whether it is used or not."""
        raise NotImplementedError

    def learn(self, arm: int, payoff: float) -> None:
        """Take what an episode paid; it is counted already."""

    def ask(self) -> int:
        """The source to run next: the same until it is told."""
        if self._pending is None:
            self._pending = self.choose(self.rng.random())
        return self._pending

    def tell(self, arm: int, value: float) -> None:
        """Take the return of the source that was asked for."""
        name, (lower, upper) = type(self).__name__, self.bounds
        if self._pending is None or arm != self._pending:
            raise InvalidInputError(f"{name}.tell: arm is {arm!r}, must be the one asked for: {self._pending}")
        if not lower <= value <= upper:
            raise InvalidInputError(f"{name}.tell: value is {value!r}, must be within the bounds {lower} .. {upper}")
        payoff = (value - lower) / self.span
        self._pending = None
        self.counts[arm] += 1.0
        self.totals[arm] += payoff
        self.learn(arm, payoff)
