"""A measured figure with its 95% interval, by a stratified bootstrap.

Runs come in strata (the targets of a setting): the trials of each stratum are drawn again, with replacement, from
that stratum alone, and the figure is computed from the new means. So the interval tells what other trials on the same
tasks would give. Figures measured on different runs are independent, and so are their resamples: a difference of two
figures carries the difference of the resamples. Resampled means of n trials vary less than means of n trials do, by
(n - 1) / n in variance: their deviations are stretched by sqrt(n / (n - 1)) to make up for it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray

RESAMPLES = 2000
TAIL = 2.5


@dataclass(frozen=True)
class Measured:
    """A figure and its resamples; without resamples it is exact."""

    value: float
    resampled: FloatArray | None = field(default=None, repr=False)

    @classmethod
    def of(cls, samples: npt.ArrayLike, statistic: Callable[[FloatArray], FloatArray], name: str) -> Measured:
        """A function of the means of strata [..., n_strata], from samples [n_strata, n].

        ``name`` tells the figures of one reproduction apart: it seeds their resampling.
        """
        values = np.asarray(samples, np.float64)
        strata, n = values.shape
        own = values.mean(axis=1)
        if n == 1:
            return cls(float(statistic(own)))
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        drawn = rng.integers(n, size=(RESAMPLES, strata, n))
        means = np.take_along_axis(values[None], drawn, axis=2).mean(axis=2)
        means = own + math.sqrt(n / (n - 1)) * (means - own)
        return cls(float(statistic(own)), np.asarray(statistic(means), np.float64))

    @classmethod
    def mean(cls, samples: npt.ArrayLike, name: str) -> Measured:
        """The mean of one stratum [n]."""
        return cls.of(np.asarray(samples, np.float64)[None], lambda means: means[..., 0], name)

    @property
    def low(self) -> float:
        """The lower end of the 95% interval."""
        return self.value if self.resampled is None else float(np.percentile(self.resampled, TAIL))

    @property
    def high(self) -> float:
        """The upper end of the 95% interval."""
        return self.value if self.resampled is None else float(np.percentile(self.resampled, 100 - TAIL))

    def __sub__(self, other: Measured) -> Measured:
        return Measured.combined([self, other], lambda one, another: one - another)

    def __truediv__(self, other: Measured) -> Measured:
        return Measured.combined([self, other], lambda one, another: one / another)

    @classmethod
    def combined(cls, parts: Sequence[Measured], function: Callable[..., FloatArray]) -> Measured:
        """A function of figures that were measured on different runs."""
        value = float(function(*(np.float64(part.value) for part in parts)))
        if all(part.resampled is None for part in parts):
            return cls(value)
        filled = [np.full(RESAMPLES, part.value) if part.resampled is None else part.resampled for part in parts]
        return cls(value, np.asarray(function(*filled), np.float64))

    @property
    def row(self) -> list[float]:
        """Value and interval, for a table."""
        return [self.value, self.low, self.high]
