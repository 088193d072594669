"""What own episodes say of a source: its mean, its confidence sequence, and whether another source beats it."""

import math

import numpy as np

from pastmaster.compiled import kernel
from pastmaster.reuse._layout import (
    ACTIVE,
    ANYTIME,
    CHARGE,
    COUNT,
    DELTA,
    DEVIATION,
    DROPPED,
    ELIMINATION,
    SLOPE,
    TOTAL,
    WEIGHTED,
)

LARGEST_LAMBDA = 0.75


@kernel
def mean_payoff(arms, i):
    """The mean payoff of an arm's own episodes, 1/2 before the first."""
    return arms[TOTAL, i] / arms[COUNT, i] if arms[COUNT, i] > 0.0 else 0.5


@kernel
def leading_mean(arms):
    """The largest mean payoff measured among the sources in play, 0 before the first."""
    best = 0.0
    for i in range(arms.shape[1] - 1):
        if arms[ACTIVE, i] != 0.0 and arms[COUNT, i] > 0.0:
            best = max(best, mean_payoff(arms, i))
    return best


@kernel
def payoff_variance(arms, i):
    """The variance of a source's payoffs as estimated so far, starting from 1/4."""
    return (0.25 + arms[DEVIATION, i]) / (arms[COUNT, i] + 1.0)


@kernel
def low_end(arms, i, log_level):
    """The lower end of a source's confidence sequence."""
    return 0.0 if arms[SLOPE, i] == 0.0 else (arms[WEIGHTED, i] - log_level - arms[CHARGE, i]) / arms[SLOPE, i]


@kernel
def high_end(arms, i, log_level):
    """The upper end of a source's confidence sequence, at most 1, as payoffs are."""
    if arms[SLOPE, i] == 0.0:
        return 1.0
    return min(1.0, (arms[WEIGHTED, i] + log_level + arms[CHARGE, i]) / arms[SLOPE, i])


@kernel
def extend_confidence(arms, i, x, log_level):
    """One more payoff of source i in its confidence sequence (see ``Exp3Transfer``)."""
    n, variance = arms[COUNT, i], payoff_variance(arms, i)
    slope = min(math.sqrt(2.0 * log_level / (variance * (n + 1.0) * math.log(n + 2.0))), LARGEST_LAMBDA)
    arms[SLOPE, i] += slope
    arms[WEIGHTED, i] += slope * x
    surprise = x - (0.5 + arms[TOTAL, i]) / (n + 1.0)
    arms[CHARGE, i] += surprise * surprise * (-math.log(1.0 - slope) - slope)
    error = x - (0.5 + arms[TOTAL, i] + x) / (n + 2.0)
    arms[DEVIATION, i] += error * error


@kernel
def eliminate(arms, settings, t):
    """Drop each source that another source in play is shown to beat, all compared as they stood; whether any was."""
    c = arms.shape[1] - 1
    dropped = False
    if settings[ELIMINATION] == ANYTIME:
        level = math.log(c / settings[DELTA]) if c else 0.0
        best = -np.inf
        for j in range(c):
            if arms[ACTIVE, j] != 0.0 and arms[COUNT, j] > 0.0:
                best = max(best, low_end(arms, j, level))
        for k in range(c):  # a low end is never above its own high end
            if arms[ACTIVE, k] != 0.0 and arms[COUNT, k] > 0.0 and best > high_end(arms, k, level):
                drop(arms, k, t)
                dropped = True
        return dropped
    level = math.log(2.0 * c / settings[DELTA]) if c else 0.0
    best = leading_mean(arms)
    for k in range(c):
        if arms[ACTIVE, k] != 0.0 and arms[COUNT, k] > 0.0 and beaten(arms, k, best, level, t):
            drop(arms, k, t)
            dropped = True
    return dropped


@kernel
def drop(arms, k, t):
    """Take a source out of play, after t episodes."""
    arms[ACTIVE, k] = 0.0
    arms[DROPPED, k] = t


@kernel
def beaten(arms, k, best, level, t):
    """Whether some source in play when the check began beats k by the paper's test; ``best`` is the largest mean."""
    mean = mean_payoff(arms, k)
    if not 0.5 * (best - mean) > math.sqrt(level / (2.0 * arms[COUNT, k])):
        return False  # not even the largest mean is far enough above
    for j in range(arms.shape[1] - 1):
        if (arms[ACTIVE, j] != 0.0 or arms[DROPPED, j] == t) and arms[COUNT, j] > 0.0:
            half = 0.5 * (mean_payoff(arms, j) - mean)
            if half > math.sqrt(level / (2.0 * min(arms[COUNT, j], arms[COUNT, k]))):
                return True
    return False
