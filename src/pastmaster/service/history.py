"""How a task's episodes ended, in numbers that do not grow: by arm, and over time in at most 128 steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.reuse._elimination_kernels import lower_end
from pastmaster.values import Bounds

STEPS = 128
LEVEL = 0.05
"""The chance that any of the intervals of a task ever misses."""


class History:
    """Returns and expired episodes, by arm and over time. A step has 1, then 2, 4, 8, ... returns, so that all fit.

    A return is one that was told, or the ``expired_return`` of an episode that expired.
    """

    def __init__(self, n_arms: int) -> None:
        self.sums = np.zeros((3, n_arms))  # returns, their sum, the sum of their squares; as payoffs in 0 .. 1
        self.expired = np.zeros(n_arms, np.int64)  # episodes, whether they count as a return or not
        self.cancelled = 0
        self.width = 1
        # Count and sum of the payoffs of all; of the learner's alone; how many episodes expired meanwhile.
        self.steps: list[list[float]] = []

    def tell(self, arm: int, payoff: float) -> None:
        """Count a return."""
        self.sums[:, arm] += 1.0, payoff, payoff * payoff
        if not self.steps or self.steps[-1][0] == self.width:
            if len(self.steps) == STEPS:
                pairs = zip(self.steps[::2], self.steps[1::2], strict=True)
                self.steps = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
                self.width *= 2
            self.steps.append([0.0] * 5)
        step, is_learner = self.steps[-1], arm == self.sums.shape[1] - 1
        step[0] += 1.0
        step[1] += payoff
        if is_learner:
            step[2] += 1.0
            step[3] += payoff

    def expire(self, arm: int) -> None:
        """Count an episode that expired; if it counts as a return, ``tell`` comes first."""
        self.expired[arm] += 1
        if not self.steps:
            self.steps.append([0.0] * 5)
        self.steps[-1][4] += 1.0

    def intervals(self, bounds: Bounds) -> FloatArray:
        """Lower end, mean and upper end of each arm's expected return [3, n_arms]; nan where it has none.

        With a chance of 95% all of them hold at all times, if the expectation of a return does not depend on others.
        """
        n_arms, level = self.sums.shape[1], np.log(2.0 * self.sums.shape[1] / LEVEL)
        found = np.full((3, n_arms), np.nan)
        for arm in np.flatnonzero(self.sums[0]):
            n, total, squares = self.sums[:, arm]
            lower = lower_end(n, total, squares, level, 0.0)
            upper = 1.0 - lower_end(n, n - total, n - 2.0 * total + squares, level, 0.0)
            found[:, arm] = lower, total / n, upper
        return np.asarray(bounds.lower + bounds.span * found)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        return {
            "sums": self.sums.tolist(),
            "expired": self.expired.tolist(),
            "cancelled": self.cancelled,
            "width": self.width,
            "steps": self.steps,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> History:
        """From what ``to_dict`` returned."""
        made = cls(len(state["expired"]))
        made.sums[:], made.expired[:] = state["sums"], state["expired"]
        made.cancelled, made.width, made.steps = state["cancelled"], state["width"], state["steps"]
        return made
