"""The evidence of own episodes about a source: its mean, its confidence sequence, and whether another source beats it.

Sources are compared by ``SEEN`` and ``SEEN_TOTAL``, episodes in the order of their asks: whether a source is dropped
while an episode is open then depends on episodes asked for before that one alone.

``at`` names the rows of ``arms`` (see ``_layout``).
"""

import math

import numpy as np

from pastmaster.compiled import inlined, kernel
from pastmaster.reuse import _layout as at

BETS = 12  # the shares of the capital that are bet: 3/4, 3/8, 3/16, ...
HALVINGS = 20  # of the interval that a lower end is looked for in
ROUNDING = 2.0**-40  # of the logarithm of the capital, for each payoff: an allowance for the sums' rounding
TINY = 1e-100  # of a mean: bets against less would divide by next to nothing


@inlined
def known(arms, i):
    """Whether a source is in play and episodes of its own were seen."""
    return arms[at.ACTIVE, i] != 0.0 and arms[at.SEEN, i] > 0.0


@inlined
def seen_mean(arms, i):
    """The mean payoff of the episodes seen of a source."""
    return arms[at.SEEN_TOTAL, i] / arms[at.SEEN, i]


@inlined
def may_be_ruled_out(n, total, squares, mean, level):
    """Whether the capital against this mean may have reached exp(level): it is at most exp(gap^2 / (2 squares))."""
    gap = total - n * mean
    return gap > 0.0 and gap * gap >= 2.0 * level * (squares - mean * (2.0 * total - n * mean))


@kernel
def log_capital(n, total, squares, mean):
    """The logarithm of what a bettor has who says that the expectation of n payoffs is larger than ``mean`` > 0.

    The payoffs x are given by their sum and the sum of their squares. A bettor who risks the share s of the capital
    multiplies it by 1 + y, y = (s / mean) (x - mean) >= -s. As (ln(1 + y) - y) / y^2 rises in y,

        ln(1 + y) >= y - r y^2,    r = -(s + ln(1 - s)) / s^2,

    so sums alone tell what the capital is at least. Of the first capital, 1, the part 1 / (k + 1)^2, divided by the sum
    of these, is bet with s = 3/4, 3/8, 3/16, ... (k = 0, 1, 2, ...). If the expectation of each payoff given those
    before is at most ``mean``, the capital is a supermartingale, and reaches exp(level) with a chance of at most
    exp(-level), ever (Ville).
    """
    gap, around = total - n * mean, squares - mean * (2.0 * total - n * mean)
    top, sum_of, parts, share = -np.inf, 0.0, 0.0, 0.75
    for k in range(BETS):
        slope, part = share / mean, 1.0 / ((k + 1.0) * (k + 1.0))
        log = slope * gap + (share + math.log(1.0 - share)) / (share * share) * slope * slope * around + math.log(part)
        if log > top:
            sum_of, top = sum_of * math.exp(top - log) + 1.0, log
        else:
            sum_of += math.exp(log - top)
        parts += part
        share *= 0.5
    return top + math.log(sum_of / parts) - ROUNDING * n


@kernel
def lower_end(n, total, squares, level, least):
    """The largest expectation found from ``least`` on that the payoffs rule out as too small; or ``least``.

    The bettor's capital falls in ``mean``. What it is known to be at least does so only where payoffs are not many
    times as large; so the search begins at a half, a quarter ... of their mean.
    """
    left, out, share = total / n, least, 1.0
    if not left > least:
        return least
    for _ in range(6):
        share *= 0.5
        out = max(least, share * left, TINY)
        if log_capital(n, total, squares, out) >= level:
            break
        if out == least or share * left < TINY:
            return least
    else:
        return least
    for _ in range(HALVINGS):
        middle = 0.5 * (out + left)
        if log_capital(n, total, squares, middle) >= level:
            out = middle
        else:
            left = middle
    return out


@kernel
def eliminate(arms, settings, t):
    """Drop each source that another source in play beats, all compared as they stood; True if any was dropped."""
    c = arms.shape[1] - 1
    if c == 0:
        return False
    anytime, dropped, best = settings[at.ELIMINATION] == at.ANYTIME, False, leading_seen_mean(arms)
    level = math.log((1.0 if anytime else 2.0) * c / settings[at.DELTA])
    if anytime:
        best = leading_low_end(arms, level, best)
    for k in range(c):
        if known(arms, k):
            worse = best > 0.0 and is_below(arms, k, best, level) if anytime else beaten(arms, k, best, level, t)
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
def is_below(arms, k, mean, level):
    """Whether the payoffs of source k rule out that it is worth ``mean`` < 1 or more: or even less than that."""
    n, total, squares = arms[at.SEEN, k], arms[at.SEEN_TOTAL, k], arms[at.SEEN_SQUARES, k]
    own, squares = total / n, n - 2.0 * total + squares
    for quarters in range(4):
        less = 1.0 - (mean - 0.25 * quarters * (mean - own))
        possible = own < mean and may_be_ruled_out(n, n - total, squares, less, level)
        if possible and log_capital(n, n - total, squares, less) >= level:
            return True
    return False


@kernel
def leading_low_end(arms, level, largest):
    """The largest lower end among the sources in play; 0 if none can be below even the ``largest`` mean."""
    best, needed = 0.0, False
    for k in range(arms.shape[1] - 1):
        if known(arms, k) and not needed:
            n, total = arms[at.SEEN, k], arms[at.SEEN_TOTAL, k]
            squares = n - 2.0 * total + arms[at.SEEN_SQUARES, k]
            needed = may_be_ruled_out(n, n - total, squares, 1.0 - largest, level)
    for j in range(arms.shape[1] - 1):
        if needed and known(arms, j):
            best = lower_end(arms[at.SEEN, j], arms[at.SEEN_TOTAL, j], arms[at.SEEN_SQUARES, j], level, best)
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
