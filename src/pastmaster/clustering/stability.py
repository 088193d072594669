"""How sure a choice is where scores are noisy: the question is asked again of scores as they might have come out.

Each score is drawn again, from a normal distribution with its standard error, and the question is answered anew, by
local search alone. The share of such resamples in which a policy is kept says how much its place owes to luck.

The mean loss that is found errs in two ways: a row's best score is the largest of noisy numbers, and the kept columns
are those that look best in the same scores. A resample shows both. Its choice S* loses a(S*) by the drawn scores, and
r(S*) by the scores themselves, which are the truth that the resample is drawn around. So a(S*) - r(S*) is what the
mean loss found may be off, and its quantiles, taken from the mean loss, are an interval (a basic bootstrap). It says
nothing of two columns that look alike and may differ: for that, the columns that were kept are valued by the drawn
scores (a percentile bootstrap). The interval is from the lower low end to the higher high end of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, LongArray, sealed
from pastmaster.checks import whole
from pastmaster.clustering.doubts import known_errors, noise_known
from pastmaster.clustering.losses import Losses, losses_of
from pastmaster.clustering.partition import KEPT, Clustering
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.tables import WIDEST, counted, cut, one_line

CALLER = "Clustering.stability"
MOST, FEWEST = 200, 20  # resamples, by default
ENTRIES = 4_000_000  # of all resampled tables together, up to which there are more than the fewest
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """How sure an answer of ``keep`` is, by resampling the scores.

    Attributes
    ----------
    kept_share : ndarray
        The share of resamples in which each policy is kept [M]; nan if there are none.
    low, high : float
        Where the mean loss of the kept policies lies, as a 95% interval; nan if there are no resamples. It is a
        bootstrap's, without a guarantee: in simulations it held the true mean loss in 94% to 99% of tables with many
        trials of each score, in 91% to 92% with two to five, and in 62% where a score's standard error was twice what
        policies differ by.
    resamples : int
        How often scores were drawn anew; 0 where nothing is known of their noise: each was measured once, or those that
        were measured again were the same again.
    seed : int or None
        ``rng=seed`` gives the same; None where a generator was given.
    kept : dict
        The kept policies, by name or number, and the share of each.

    Examples
    --------
    >>> import pastmaster
    >>> table = pastmaster.clustering.Scores([[5.0, 1.0], [1.0, 1.2]], standard_errors=[[0.2, 0.2], [0.2, 0.2]])
    >>> pastmaster.keep(table, k=1).stability(rng=0).kept
    {0: 1.0}
    """

    answer: Clustering
    kept_share: FloatArray
    low: float
    high: float
    resamples: int
    seed: int | None = None

    @property
    def least(self) -> float:
        """The share of the kept policy that is least sure."""
        return float(self.kept_share[self.answer.columns].min())

    @property
    def kept(self) -> dict[Any, float]:
        return {self.answer.policy(j): float(self.kept_share[j]) for j in self.answer.columns.tolist()}

    def __repr__(self) -> str:
        if not self.resamples:
            errors = self.answer.standard_errors
            once = errors is None or np.isnan(errors).all()
            why = "each score was measured once" if once else "what was measured again was the same again"
            return f"{why}: nothing is known of noise, nor how sure the choice is"
        loss = f"mean loss {self.answer.mean_loss:.4g}, between {self.low:.4g} and {self.high:.4g} (95%)"
        if self.low == self.high:  # the scores' noise hardly ever changes it: the resamples know of no other value
            loss = f"mean loss {self.answer.mean_loss:.4g}, the same in 95% of the resamples or more"
        begin = f"{loss}; {counted(self.resamples, 'resample')} keep "
        again = [f"{cut(str(name))} in {100 * share:.0f}%" for name, share in self.kept.items()]
        line = f"{begin}{', '.join(again)}"
        return line if len(line) <= WIDEST else one_line(f"{begin}every one in {100 * self.least:.0f}% at least")


def stability(answer: Clustering, resamples: int | None, rng: Rng) -> Stability:
    """``Clustering.stability``."""
    if answer.kind not in KEPT:
        raise InvalidInputError(f"{CALLER}: the answer is to episodes and span, must be to k, max_loss or price")
    n_tasks, n_policies = answer.distance.shape
    usual = min(MOST, max(FEWEST, ENTRIES // (n_tasks * n_policies)))
    count = usual if resamples is None else whole(CALLER, "resamples", resamples, at_least=2, at_most=10**6)
    generator, seed = seeded(CALLER, rng)
    if answer.standard_errors is None or not noise_known(answer.standard_errors[np.isfinite(answer.distance)]):
        return Stability(answer, sealed(np.full(n_policies, math.nan)), math.nan, math.nan, 0, seed)
    errors = known_errors(answer.standard_errors)
    scores = np.where(np.isinf(answer.distance), np.nan, -answer.distance)
    times_kept, off, lost = np.zeros(n_policies), np.empty(count), np.empty(count)
    for draw in range(count):
        drawn = losses_of(scores + errors * generator.standard_normal(scores.shape))
        columns = _asked_again(answer, drawn, generator)
        times_kept[columns] += 1
        off[draw] = _mean_loss(drawn, columns, answer.weights) - _mean_loss(answer.distance, columns, answer.weights)
        lost[draw] = _mean_loss(drawn, answer.columns, answer.weights)
    tail = 0.5 * (1.0 - CONFIDENCE)
    ends = answer.mean_loss - np.quantile(off, [1.0 - tail, tail]), np.quantile(lost, [tail, 1.0 - tail])
    low, high = max(0.0, float(min(ends[0][0], ends[1][0]))), float(max(ends[0][1], ends[1][1]))
    return Stability(answer, sealed(times_kept / count), low, high, count, seed)


def _asked_again(answer: Clustering, table: FloatArray, rng: np.random.Generator) -> LongArray:
    """What is kept by other losses, found by local search from what was kept."""
    losses = Losses(table, answer.must_keep, answer.never_keep, answer.weights)
    if answer.max_loss is not None:
        within_reach = float(table[:, losses.allowed].min(axis=1).max())
        return losses.within(max(answer.max_loss, within_reach), rng, math.inf, certify=False).columns
    if answer.price is not None:
        return losses.at_price(answer.price, rng, math.inf, certify=False).columns
    return losses.of_size(answer.n_clusters, rng, math.inf, certify=False, start=answer.columns).columns


def _mean_loss(table: FloatArray, columns: LongArray, weights: FloatArray | None) -> float:
    return float(np.average(table[:, columns].min(axis=1), weights=weights))
