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
ROUNDING = 2.0**-40  # of the logarithm of the capital, for each payoff
ROUNDED_SUM = 2.0**-52  # times n^2: more than rounding changes a sum of n payoffs; 4 times: n - 2 total + squares
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
    """Whether ``log_capital`` may reach ``level``.

    With w and a as there it is at most n KL(w / n, mean / a), and that at most n chi^2 and w ln(total / (n mean)).
    """
    gap = total - n * mean
    possible = gap > 0.0 and gap * gap * total >= level * n * mean * (squares - mean * total)
    return possible and total * total * math.log(total / (n * max(mean, TINY))) >= level * squares


@kernel
def log_capital(n, total, squares, mean):
    """The logarithm of what a bettor has, at least, who says that n payoffs are worth more than 0 < ``mean`` < 1 each.

    The payoffs x in [0, 1] are given by their sum and the sum of their squares. A bettor who risks the share s of the
    capital multiplies it by f(x) = 1 + (s / mean) (x - mean) >= 1 - s. With a = squares / total, let q be the quadratic
    that meets ln f at 0 and touches it at a. As the third derivative of ln f is positive, ln f(x) - q(x) is x (x - a)^2
    times something positive; so the sum of q, which the sums tell, is what the logarithm of the capital is at least:

        w ln f(a) + (n - w) ln(1 - s),    w = total^2 / squares.

    More cannot be said from the sums: w payoffs of a and n - w of 0 have the same ones. Of the first capital, 1, the
    part 1 / (k + 1)^2, divided by the sum of these, is bet with s = 3/4, 3/8, 3/16, ... (k = 0, 1, 2, ...). If the
    expectation of each payoff given those before is at most ``mean``, the capital is a supermartingale: it ever reaches
    exp(level) with a chance of at most exp(-level) (Ville).
    """
    total, squares = total - n * n * ROUNDED_SUM, squares + 4.0 * n * n * ROUNDED_SUM
    if not total > 0.0:
        return -np.inf
    value, weight = squares / total, min(n, total * total / squares)
    top, sum_of, parts, share = -np.inf, 0.0, 0.0, 0.75
    for k in range(BETS):
        part = 1.0 / ((k + 1.0) * (k + 1.0))
        log = weight * math.log(1.0 + share / mean * (value - mean)) + (n - weight) * math.log(1.0 - share)
        log += math.log(part)
        if log > top:
            sum_of, top = sum_of * math.exp(top - log) + 1.0, log
        else:
            sum_of += math.exp(log - top)
        parts += part
        share *= 0.5
    return top + math.log(sum_of / parts) - ROUNDING * n


@kernel
def lower_end(n, total, squares, level, least):
    """The largest expectation found above ``least`` that the payoffs rule out as too small; or ``least``."""
    left, out = total / n, least
    if least > TINY and not (left > least and log_capital(n, total, squares, least) >= level):
        return least  # nothing larger is ruled out then: the capital falls in the mean
    for _ in range(HALVINGS):
        middle = 0.5 * (out + left)
        if not max(least, TINY) < middle < left:
            break
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
    """Whether the payoffs of source k rule out that it is worth ``mean`` < 1 or more."""
    n, total = arms[at.SEEN, k], arms[at.SEEN_TOTAL, k]
    squares = n - 2.0 * total + arms[at.SEEN_SQUARES, k]
    possible = may_be_ruled_out(n, n - total, squares, 1.0 - mean, level)
    return possible and log_capital(n, n - total, squares, 1.0 - mean) >= level


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
