"""The evidence of own episodes about a source: its mean, its confidence sequence, and whether another source beats it.

Sources are compared by ``SEEN`` and ``SEEN_TOTAL``, episodes in the order of their asks: whether a source is dropped
while an episode is open then depends on episodes asked for before that one alone.

``at`` names the rows of ``arms`` (see ``_layout``).
"""

import math

import numpy as np

from pastmaster.compiled import inlined, kernel
from pastmaster.reuse import _layout as at

LARGEST_LAMBDA = 0.75


@inlined
def known(arms, i):
    """Whether a source is in play and episodes of its own were seen."""
    return arms[at.ACTIVE, i] != 0.0 and arms[at.SEEN, i] > 0.0


@inlined
def seen_mean(arms, i):
    """The mean payoff of the episodes seen of a source."""
    return arms[at.SEEN_TOTAL, i] / arms[at.SEEN, i]


@kernel
def payoff_variance(arms, i):
    """The variance of a source's payoffs as estimated so far, starting from 1/4."""
    return (0.25 + arms[at.DEVIATION, i]) / (arms[at.SEEN, i] + 1.0)


@kernel
def confidence_ends(arms, i, log_level):
    """Both ends of a source's confidence sequence; the high one is at most 1, as payoffs are."""
    slope, weighted, charge = arms[at.SLOPE, i], arms[at.WEIGHTED, i], arms[at.CHARGE, i]
    if slope == 0.0:
        return 0.0, 1.0
    return (weighted - log_level - charge) / slope, min(1.0, (weighted + log_level + charge) / slope)


@kernel
def extend_confidence(arms, i, x, log_level):
    """One more payoff of source i in its confidence sequence (see ``Exp3Transfer``)."""
    n, variance = arms[at.SEEN, i], payoff_variance(arms, i)
    slope = min(math.sqrt(2.0 * log_level / (variance * (n + 1.0) * math.log(n + 2.0))), LARGEST_LAMBDA)
    arms[at.SLOPE, i] += slope
    arms[at.WEIGHTED, i] += slope * x
    surprise = x - (0.5 + arms[at.SEEN_TOTAL, i]) / (n + 1.0)
    arms[at.CHARGE, i] += surprise * surprise * (-math.log(1.0 - slope) - slope)
    error = x - (0.5 + arms[at.SEEN_TOTAL, i] + x) / (n + 2.0)
    arms[at.DEVIATION, i] += error * error


@kernel
def eliminate(arms, settings, t):
    """Drop each source that another source in play beats, all compared as they stood; True if any was dropped."""
    c = arms.shape[1] - 1
    if c == 0:
        return False
    anytime, dropped = settings[at.ELIMINATION] == at.ANYTIME, False
    level = math.log((1.0 if anytime else 2.0) * c / settings[at.DELTA])
    best = leading_low_end(arms, level) if anytime else leading_seen_mean(arms)
    for k in range(c):
        if known(arms, k):
            # a low end is never above its own high end
            worse = best > confidence_ends(arms, k, level)[1] if anytime else beaten(arms, k, best, level, t)
            if worse:
                arms[at.ACTIVE, k], arms[at.DROPPED, k] = 0.0, t
                dropped = True
    return dropped


@kernel
def leading_seen_mean(arms):
    """The largest mean payoff seen among the sources in play."""
    best = 0.0
    for i in range(arms.shape[1] - 1):
        if known(arms, i):
            best = max(best, seen_mean(arms, i))
    return best


@kernel
def leading_low_end(arms, level):
    """The largest lower end among the sources in play."""
    best = -np.inf
    for j in range(arms.shape[1] - 1):
        if known(arms, j):
            best = max(best, confidence_ends(arms, j, level)[0])
    return best


@kernel
def beaten(arms, k, best, level, t):
    """Whether some source in play when the check began beats k by the paper's test; ``best`` is the largest mean."""
    mean = seen_mean(arms, k)
    if not 0.5 * (best - mean) > math.sqrt(level / (2.0 * arms[at.SEEN, k])):
        return False  # not even the largest mean is far enough above
    for j in range(arms.shape[1] - 1):
        if (arms[at.ACTIVE, j] != 0.0 or arms[at.DROPPED, j] == t) and arms[at.SEEN, j] > 0.0:
            half = 0.5 * (seen_mean(arms, j) - mean)
            if half > math.sqrt(level / (2.0 * min(arms[at.SEEN, j], arms[at.SEEN, k]))):
                return True
    return False
