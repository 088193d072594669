"""Intervals of a mean return that hold at every number of episodes at once, so that one may stop when one likes.

Returns are scaled to x_1, x_2, ... in [0, 1] by bounds on a return. Against a mean m bets the hedged capital of
Waudby-Smith and Ramdas ("Estimating means of bounded random variables by betting", 2024):

    K+_t(m) = prod_{s <= t} (1 + min(b_s, 1 / (2 m)) (x_s - m)),
    K-_t(m) = prod_{s <= t} (1 - min(b_s, 1 / (2 (1 - m))) (x_s - m)),
    b_s = sqrt( 2 ln(2 / level) / (v_{s-1} s ln(s + 1)) ),  v_s = (1/4 + sum_{r <= s} (x_r - m_r)^2) / (s + 1),

with m_s = (1/2 + sum_{r <= s} x_r) / (s + 1): a bet looks only at returns before it. If m is the mean, K+ and K- are
nonnegative martingales that start at 1, and by Ville's inequality the chance that either ever reaches 2 / level is at
most level. The interval holds the m for which neither has. K+ falls and K- grows in m, so its two ends are found by
bisection; and as "ever" is over all times so far, it is the intersection of the intervals at all of them.

The statement is about the whole sequence of returns that could be drawn. So it holds at any number of episodes,
however chosen: by looking at these returns, or at other policies' returns in episodes begun from the same seeds.
Rounding is charged against the capital, bisection returns the end that is ruled out, and ends are rounded outward.
"""

from __future__ import annotations

import numpy as np

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.estimation import _interval_kernels as kernels
from pastmaster.estimation.returns import Returns


def mean_limits(
    returns: FloatArray, first: LongArray, lower: FloatArray, upper: FloatArray, level: float
) -> FloatArray:
    """The ends [E, 2] of intervals for E means, each wrong with a chance of at most ``level``, at any time.

    Entry e has returns[first[e] : first[e + 1]], within lower[e] .. upper[e]. Its interval always holds its own mean.
    """
    span = np.maximum(upper - lower, np.finfo(np.float64).tiny)
    ends = kernels.limits(returns, first, lower, span, level, np.empty((len(lower), 2)))
    low = np.nextafter(lower + span * np.nextafter(ends[:, 0], -1.0), -np.inf)
    high = np.nextafter(lower + span * np.nextafter(ends[:, 1], 2.0), np.inf)
    count = np.maximum(np.diff(first), 1)
    mean = np.add.reduceat(np.append(returns, 0.0), first[:-1]) / count
    ran = np.diff(first) > 0
    low, high = np.where(ran, np.minimum(low, mean), lower), np.where(ran, np.maximum(high, mean), upper)
    return np.stack([np.maximum(low, lower), np.minimum(high, upper)], axis=1)


def entry_limits(returns: Returns, bounds: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """The ends of the intervals of all entries of U, each [N, M]; bounds [N, 2] are the tasks'."""
    lower, upper = (np.repeat(side, returns.counts.shape[1]) for side in bounds.T)
    ends = mean_limits(*returns.flat, lower, upper, level)
    low, high = (ends[:, side].reshape(returns.counts.shape) for side in (0, 1))
    low[returns.exact] = high[returns.exact] = returns.mean[returns.exact]
    return low, high


def joint_distances(
    returns: Returns, bounds: FloatArray, alpha: float, directed: bool, pairs: tuple[LongArray, LongArray]
) -> tuple[FloatArray, FloatArray]:
    """Ends [P] for the distances of pairs (task, policy), that all hold at once with a chance of 1 - alpha.

    At once for all distances there are, not only those asked for: these may be chosen by looking. By Bonferroni every
    interval has its part of alpha: one to an entry of U, and where policies are the tasks' own one more to every
    difference to the own one, from returns in episodes begun from the same seeds, which is the better one where
    policies earn alike. With l_k <= U[i, k] - U[i, i] <= h_k from both, the regret of j, max_k U[i, k] - U[i, j], is in

        max_k l_k - h_j  ..  max(0, max_{k != j} h_k - l_j),    likewise from the intervals of U itself,

    and in what is common to both.
    """
    level = alpha / (returns.counts.size * (2 if returns.paired else 1))
    entries = entry_limits(returns, bounds, level)
    known = [entries]
    if returns.paired:
        known.append(_ahead_of_own(returns, bounds, level, *entries))
    least, most = _common([_regrets(*ends, *pairs) for ends in known])
    if directed:
        return least, most
    back_least, back_most = _common([_regrets(*ends, *pairs[::-1]) for ends in known])
    return np.maximum(least, back_least), np.maximum(most, back_most)


def _regrets(low: FloatArray, high: FloatArray, rows: LongArray, columns: LongArray) -> tuple[FloatArray, FloatArray]:
    """Ends of the regrets of these pairs, from ends [N, M] for every entry."""
    others = high[rows]
    others[np.arange(len(rows)), columns] = -np.inf
    most = np.maximum(0.0, others.max(axis=1) - low[rows, columns])
    return np.maximum(0.0, low.max(axis=1)[rows] - high[rows, columns]), most


def _ahead_of_own(
    returns: Returns, bounds: FloatArray, level: float, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ends [N, N] for what each policy earns more than the task's own."""
    n = len(low)
    differences = [returns.differences(i, j, i) for i in range(n) for j in range(n)]
    first = np.concatenate([[0], np.cumsum([len(part) for part in differences])])
    span = np.repeat(bounds[:, 1] - bounds[:, 0], n)
    together = mean_limits(np.concatenate(differences), first, -span, span, level).reshape(n, n, 2)
    own = np.arange(n)
    least = np.maximum(together[..., 0], low - high[own, own][:, None])
    most = np.minimum(together[..., 1], high - low[own, own][:, None])
    least[own, own] = most[own, own] = 0.0
    return least, np.maximum(least, most)


def _common(ends: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """What several intervals have in common; where they have nothing, one of them is wrong, and the lower end is."""
    least, most = (np.stack(side) for side in zip(*ends, strict=True))
    lowest: FloatArray = least.max(axis=0)
    return lowest, np.maximum(lowest, most.min(axis=0))


def ahead_of_best(low: FloatArray, high: FloatArray) -> FloatArray:
    """How far each entry of U may be above what the best of its row surely is [N, M]; 0 for that one."""
    sure = low.max(axis=1, keepdims=True)
    return np.where(low == sure, 0.0, np.maximum(0.0, high - sure))
