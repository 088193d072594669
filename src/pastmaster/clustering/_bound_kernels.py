"""Compiled loops of the lower bound: pricing (centre, radius) pairs and dual ascent.

With prices u >= 0 on tasks, a pair (j, r) is worth  r(j) = sum_{i within r of j} min(0, r - u_i), and in the
symmetric case, where the centre belongs to its own pair, + max(0, r - u_j). For c cells no partition has
sum_i radius(i) below  sum_i u_i + the c least worths  (one pair to a centre in the symmetric case).
Everything here is in units of N times the mean radius.
"""

from __future__ import annotations

import numpy as np

from pastmaster.clustering._kernels import overwrite
from pastmaster.compiled import kernel


@kernel
def price(near, order, first, u, symmetric, worth):
    """The worth of every pair: of centre j and its radius near[j, m], for first[j] <= place of (j, m).

    ``near`` [M, N]: distances to centre j in rising order, ``order`` the tasks; ``first`` [M + 1]: where centre j's
    distinct radii begin in ``worth``. Pairs whose radius exceeds every price are worth 0 (+ what the centre pays).
    """
    n_tasks = near.shape[1]
    highest = u.max()
    for j in range(len(near)):
        m = 0
        for p in range(first[j], first[j + 1]):
            r = near[j, m]
            while m < n_tasks and near[j, m] <= r:
                m += 1
            total = 0.0
            if r < highest:
                for place in range(m):
                    gain = u[order[j, place]] - r
                    if gain > 0.0:
                        total -= gain
            if symmetric and r > u[j]:
                total += r - u[j]
            worth[p] = total


@kernel
def least(worth, first, symmetric, c, chosen):
    """Write the c pairs of least worth into ``chosen``, one to a centre if symmetric; returns their total."""
    if symmetric:
        candidates = np.empty(len(first) - 1, np.int64)
        for j in range(len(candidates)):
            candidates[j] = first[j] + np.argmin(worth[first[j] : first[j + 1]])
        ranks = np.argsort(worth[candidates], kind="mergesort")
        for place in range(len(chosen)):
            chosen[place] = candidates[ranks[place]]
    else:
        overwrite(chosen, np.argsort(worth, kind="mergesort"))
    total = 0.0
    for p in chosen:
        total += worth[p]
    return total


@kernel
def ascend(near, order, first, centre, radius, distance, symmetric, c, u, best_u, progress, steps, best_labels):
    """Raise the bound for c cells by subgradient steps on the prices ``u``; returns whether it may go on.

    ``progress``: the best bound so far (not yet rounded down), the length of a step, how many steps did not help, the
    bound aimed at, and the least sum of radii of a partition met: each step's pairs make one, and the cheapest ends up
    in ``best_labels``. ``best_u`` gets the prices of the best bound. Calls with the same arrays go on where the last
    one stopped, so that the clock can be looked at in between.
    """
    n_tasks = len(u)
    worth, chosen = np.empty(len(radius)), np.empty(min(c, len(radius)), np.int64)
    labels, cover = np.empty(n_tasks, np.int32), np.empty(n_tasks)
    best, step, stalled, target, best_sum = progress
    going = True
    for _ in range(steps):
        price(near, order, first, u, symmetric, worth)
        bound = u.sum() + least(worth, first, symmetric, c, chosen)
        total = partition_of(distance, centre, radius, symmetric, chosen, labels)
        if total < best_sum:
            best_sum = total
            overwrite(best_labels, labels)
            target = min(target, total)
        if best == -np.inf or bound > best + 1e-9 * abs(best):
            best, stalled = bound, 0.0
            overwrite(best_u, u)
        else:
            stalled += 1.0
            if stalled == 20:
                step, stalled = 0.6 * step, 0.0
                overwrite(u, best_u)
        if step < 1e-5 or best >= target:
            going = False
            break
        cover[:] = 1.0
        for p in chosen:
            for i in range(n_tasks):
                within = distance[i, centre[p]] <= radius[p] and u[i] > radius[p]
                if within or (symmetric and i == centre[p]):
                    cover[i] -= 1.0
        norm = (cover**2).sum()
        if norm == 0.0:
            going = False
            break
        length = step * max(target - bound, 1e-4 * abs(target)) / norm
        for i in range(n_tasks):
            u[i] = max(0.0, u[i] + length * cover[i])
    progress[0], progress[1], progress[2], progress[3], progress[4] = best, step, stalled, target, best_sum
    return going


@kernel
def partition_of(distance, centre, radius, symmetric, chosen, labels):
    """The partition that pairs make: each task joins the least radius that covers it, or stretches one least.

    Returns its sum of radii, as reached from the given centres.
    """
    reach, size = radius[chosen], np.zeros(len(chosen))
    for i in range(len(labels)):
        best, best_reach = -1, np.inf
        for q in range(len(chosen)):
            needed = max(reach[q], distance[i, centre[chosen[q]]])
            if symmetric and centre[chosen[q]] == i:
                best = q
                break
            if needed < best_reach:
                best, best_reach = q, needed
        labels[i] = best
        size[best] += 1.0
        reach[best] = max(reach[best], distance[i, centre[chosen[best]]])
    farthest = np.zeros(len(chosen))
    for i in range(len(labels)):
        farthest[labels[i]] = max(farthest[labels[i]], distance[i, centre[chosen[labels[i]]]])
    return (farthest * size).sum()
