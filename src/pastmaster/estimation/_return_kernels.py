"""Compiled loops over the returns of episodes: returns[first[e] : first[e + 1]] are those of entry e = i M + j.

In every row i one column is the pivot p, most often the one with the most episodes. Episode k of all entries of a row
begins from the same seed, so what the pivot earned in episodes that an entry has not run says something about it:

    U[i, j]  is estimated by  mean_{k < n_j} X_jk  +  beta_j (mean_{k < n_p} X_pk - mean_{k < n_j} X_pk),

the pivot as a control variate, beta_j = cov(X_j, X_p) / var(X_p), kept in [0, 1]. At 0 it is the mean of the entry;
at 1 the difference to the pivot is the mean of the differences in common episodes.
"""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import inlined, kernel


@kernel
def slope(x, pivot, begin, step):
    """beta over the episodes begin, begin + step, ... of an entry with returns x."""
    n, mean_x, mean_p = 0, 0.0, 0.0
    for k in range(begin, len(x), step):
        n += 1
        mean_x += x[k]
        mean_p += pivot[k]
    if n < 2:
        return 0.0
    mean_x /= n
    mean_p /= n
    both, own = 0.0, 0.0
    for k in range(begin, len(x), step):
        both += (x[k] - mean_x) * (pivot[k] - mean_p)
        own += (pivot[k] - mean_p) ** 2
    return min(1.0, max(0.0, both / own)) if own > 0.0 else 0.0


@kernel
def mean_from(x, length, begin, step):
    """The mean of x[begin], x[begin + step], ... before ``length``."""
    total, n = 0.0, 0
    for k in range(begin, length, step):
        total += x[k]
        n += 1
    return total / n


@inlined
def entry(returns, first, pivot, i, j, n_columns):
    """The returns of entry (i, j), and those of the pivot of its row."""
    e, p = i * n_columns + j, i * n_columns + pivot[i]
    return returns[first[e] : first[e + 1]], returns[first[p] : first[p + 1]]


@kernel
def half_means(returns, first, pivot, crossed, out):
    """Into out [2, N, M]: the estimates from even and from odd episodes, with the slope of the other half if crossed.

    With the slope of its own half an estimate depends on that half alone; with that of the other half it is, given the
    other half, unbiased.
    """
    _, n_rows, n_columns = out.shape
    for i in range(n_rows):
        for j in range(n_columns):
            x, x_p = entry(returns, first, pivot, i, j, n_columns)
            for half in range(2):
                if len(x) < 2:
                    out[half, i, j] = x[0]
                    continue
                out[half, i, j] = mean_from(x, len(x), half, 2)
                if len(x_p) > len(x):
                    beta = slope(x, x_p, 1 - half if crossed else half, 2)
                    more = mean_from(x_p, len(x_p), half, 2) - mean_from(x_p, len(x), half, 2)
                    out[half, i, j] += beta * more
    return out


@kernel
def own_margins(returns, first, exact, z, out):
    """Into out [3, N, N]: what policy j must be ahead of task i's own to be taken for better, in units of a return.

    z standard errors of the mean difference over even, odd and all common episodes; infinite with fewer than two. To
    the squares of an entry one is added, their mean over the row: few equal differences prove nothing.
    """
    n_tasks = out.shape[1]
    for i in range(n_tasks):
        for part in range(3):
            pooled, known = 0.0, 0
            for j in range(n_tasks):
                squares, n = own_difference(returns, first, exact, i, j, part)
                if n >= 2:
                    pooled += squares / n
                    known += 1
            for j in range(n_tasks):
                squares, n = own_difference(returns, first, exact, i, j, part)
                certain = exact[i, i] and exact[i, j]
                out[part, i, j] = z * np.sqrt((squares + pooled / known) / n) / np.sqrt(n) if n >= 2 else np.inf
                if certain or i == j:
                    out[part, i, j] = 0.0


@kernel
def own_difference(returns, first, exact, i, j, part):
    """The squares about their mean of what policy j earned more than task i's own, over even, odd or all episodes."""
    n_columns = exact.shape[1]
    x, own = entry(returns, first, np.arange(n_columns), i, j, n_columns)
    length = len(own) if exact[i, j] else len(x) if exact[i, i] else min(len(x), len(own))
    begin, step = (part, 2) if part < 2 else (0, 1)
    n, mean, squares = 0, 0.0, 0.0
    for k in range(begin, length, step):
        difference = x[0 if exact[i, j] else k] - own[0 if exact[i, i] else k]
        n += 1
        rest = difference - mean
        mean += rest / n
        squares += rest * (difference - mean)
    return squares, n


@kernel
def spreads(returns, first, pivot, beta, spread):
    """Into beta and spread [N, M]: slopes, and the sum of squares of X_j - beta X_p about its mean (pivot: of X_p)."""
    n_rows, n_columns = beta.shape
    for i in range(n_rows):
        for j in range(n_columns):
            x, x_p = entry(returns, first, pivot, i, j, n_columns)
            beta[i, j] = slope(x, x_p, 0, 1) if j != pivot[i] and len(x_p) >= len(x) else 0.0
            mean = 0.0
            for k in range(len(x)):
                mean += x[k] - (beta[i, j] * x_p[k] if beta[i, j] > 0.0 else 0.0)
            mean /= len(x)
            spread[i, j] = 0.0
            for k in range(len(x)):
                spread[i, j] += (x[k] - (beta[i, j] * x_p[k] if beta[i, j] > 0.0 else 0.0) - mean) ** 2
    return spread


@kernel
def resampled(returns, first, pivot, beta, weights, prior, pseudo, out):
    """Into out [M]: the estimates of a row with episode k weighted by weights[k], and one return ``pseudo`` by prior.

    ``first`` [M + 1] are the row's.
    """
    x_p = returns[first[pivot] : first[pivot + 1]]
    n_p = len(x_p)
    mass, earned = np.empty(n_p + 1), np.empty(n_p + 1)
    mass[0], earned[0] = 0.0, 0.0
    for k in range(n_p):
        mass[k + 1] = mass[k] + weights[k]
        earned[k + 1] = earned[k] + weights[k] * x_p[k]
    for j in range(len(out)):
        x = returns[first[j] : first[j + 1]]
        n = len(x)
        total, weight = prior[j] * pseudo[j], prior[j]
        for k in range(n):
            total += weights[k] * x[k]
            weight += weights[k]
        out[j] = total / weight
        if beta[j] > 0.0 and n_p > n:
            out[j] += beta[j] * (earned[n_p] / mass[n_p] - earned[n] / mass[n])
    return out
