"""Figures pooled over draws, and what they say about a sentence.

A draw of tasks gives one value of a figure: draws are the replicates. The interval is Student's, 95%; the percentile
bootstrap over draws is shown beside it and decides nothing. A case holds where the interval lies on the claimed side,
is contrary where it lies on the other, and is not shown in between.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pastmaster_paper.arrays import FloatArray

LEVEL = 0.95
RESAMPLES = 4000
ENOUGH = 20
"""From this many draws on, sentences are judged for good."""

HOLDS, IN_PART, NOT_SHOWN, CONTRARY, NOT_JUDGED = "holds", "in part", "not shown", "contrary", "not judged"
VERDICTS = (HOLDS, IN_PART, NOT_SHOWN, CONTRARY)
HALF = 0.5
"""A count is about a number where it is nearer to that than to the next."""

RULES: dict[str, Callable[[float, float, float], tuple[bool, bool]]] = {
    ">": lambda low, high, limit: (low > limit, high < limit),
    "<": lambda low, high, limit: (high < limit, low > limit),
    "<=": lambda low, high, limit: (high <= limit, low > limit),
    "within": lambda low, high, limit: (-limit <= low and high <= limit, low > limit or high < -limit),
    "about": lambda low, high, limit: (
        limit - HALF < low and high < limit + HALF, low > limit + HALF or high < limit - HALF
    ),
}  # fmt: skip
"""Whether an interval is on the claimed side, and whether on the other; what is no number is on neither."""


@dataclass(frozen=True)
class Pooled:
    """A figure over draws: its mean, its interval by Student's t, and by the bootstrap; None with one draw alone."""

    mean: float
    low: float | None
    high: float | None
    bootstrap_low: float | None
    bootstrap_high: float | None
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float], name: str) -> Pooled:
        """Of the value in each draw; ``name`` seeds the resampling."""
        found = np.asarray(values, np.float64)
        n, mean = len(found), float(found.mean())
        told = tuple(float(value) for value in found)
        if n < 2:
            return cls(mean, None, None, None, None, told)
        from scipy.stats import t

        reach = float(t.ppf(0.5 + LEVEL / 2, n - 1)) * float(found.std(ddof=1)) / math.sqrt(n)
        low, high = _bootstrap(found, name)
        return cls(mean, mean - reach, mean + reach, low, high, told)

    def verdict(self, rule: str, limit: float) -> str:
        """What it says about the claim that it is, say, above a limit."""
        if self.low is None or self.high is None:
            return NOT_JUDGED
        holds, contrary = RULES[rule](self.low, self.high, limit)
        return HOLDS if holds else CONTRARY if contrary else NOT_SHOWN


def _bootstrap(values: FloatArray, name: str) -> tuple[float, float]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    means = values[rng.integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    tail = 50.0 * (1.0 - LEVEL)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(low), float(high)


def verdict_of_all(cases: Sequence[str]) -> str:
    """The verdict on a sentence from those on its cases.

    It holds where all hold, and in part where some do. Where none does it is contrary if one is, else not shown.
    """
    if not cases or NOT_JUDGED in cases:
        return NOT_JUDGED
    if all(case == HOLDS for case in cases):
        return HOLDS
    if HOLDS in cases:
        return IN_PART
    return CONTRARY if CONTRARY in cases else NOT_SHOWN
