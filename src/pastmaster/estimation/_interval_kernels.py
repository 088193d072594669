"""Compiled loops for intervals that hold at every number of episodes at once: a bettor's capital, and bisection."""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import kernel

HALVINGS = 45  # of an interval of length 1: far below any interval that a bettor's capital can tell
MOST_LOST = 0.5  # a bet loses at most this share of the capital
ROUNDING = 2.0**-44  # more than rounding can add to the logarithm of one factor of the capital


@kernel
def bets(x, level, out):
    """How much is bet on each return, from the ones before it: the predictable plug-in of the module ``intervals``."""
    strength = 2.0 * np.log(2.0 / level)
    total, squares = 0.5, 0.25
    for t in range(len(x)):
        out[t] = np.sqrt(strength / (squares * np.log(t + 2.0)))
        total += x[t]
        squares += (x[t] - total / (t + 2.0)) ** 2
    return out


@kernel
def is_ruled_out(x, bet, mean, level):
    """Whether a bettor who says that the mean is larger than ``mean`` ever multiplies the capital by 2 / level."""
    capital, goal = 1.0, 2.0 / level
    most = MOST_LOST / mean if mean > 0.0 else np.inf
    for t in range(len(x)):
        capital *= 1.0 + min(bet[t], most) * (x[t] - mean)
        if capital >= goal * (1.0 + (t + 1.0) * ROUNDING):
            return True
    return False


@kernel
def lower_limit(x, bet, level):
    """The largest mean found that is ruled out from below, or 0: the capital falls as the mean it is against grows."""
    if len(x) == 0 or not is_ruled_out(x, bet, 0.0, level):
        return 0.0
    out, left = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (out + left)
        if is_ruled_out(x, bet, middle, level):
            out = middle
        else:
            left = middle
    return out


@kernel
def limits(returns, first, lower, span, level, out):
    """Into out [E, 2]: the limits, in [0, 1], of the mean of returns[first[e] : first[e + 1]] scaled by bounds [E]."""
    longest = 0
    for e in range(len(out)):
        longest = max(longest, first[e + 1] - first[e])
    x, bet = np.empty(longest), np.empty(longest)
    for e in range(len(out)):
        n = first[e + 1] - first[e]
        for t in range(n):
            x[t] = min(1.0, max(0.0, (returns[first[e] + t] - lower[e]) / span[e]))
        bets(x[:n], level, bet)
        out[e, 0] = lower_limit(x[:n], bet, level)
        for t in range(n):
            x[t] = 1.0 - x[t]
        out[e, 1] = 1.0 - lower_limit(x[:n], bet, level)
    return out
