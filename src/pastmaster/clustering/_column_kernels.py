"""Compiled loops that bound what a choice of columns costs: prices on tasks, and a tree that leaves nothing out.

The problem: of M columns choose a set S of at most ``most``, each at a ``price``, with the least

    price |S| + sum_i min_{j in S} c[i, j].

With prices u_i on serving task i, the worth of column j is  price + sum_i min(0, c[i, j] - u_i),  and no choice costs
less than  sum_i u_i + the ``most`` least worths below 0.  Once some columns are in S, task i pays at most
cap_i = min_{j in S} c[i, j], so that no u_i need be above it. With none in S, cap is ``beyond``, which is more than any
choice that serves all tasks costs; it is also the cost of a pair that cannot be.
"""

from __future__ import annotations

import numpy as np

from pastmaster.clustering._kernels import overwrite
from pastmaster.compiled import kernel

EPS = 2.0**-52
STALLED = 8  # steps of the ascent without a better bound before they get shorter
SHORTEST = 1e-3  # length of a step, relative to Polyak's
HELPS = 1e-4  # of the gap: a better bound than that is progress
DEFLECTED = 0.6  # of the last direction goes into the next
COST, CUT, LEVEL, KEPT = range(4)  # of ``best``: the least cost known, the least bound cut, the level, columns kept


@kernel
def price_columns(rows, floor, cap, u, price, worth):
    """The worth of every column under prices ``u``, which are first brought within ``floor`` and ``cap``; their sum.

    ``rows`` [N, M] are the costs by task: the inner loop over columns adds in a fixed order and is still vectorised.
    """
    total = 0.0
    worth[:] = price
    for i in range(len(u)):
        u[i] = min(cap[i], max(u[i], floor[i]))
        total += u[i]
        paid, row = u[i], rows[i]
        for j in range(len(worth)):
            saved = paid - row[j]
            worth[j] -= saved if saved > 0.0 else 0.0
    return total


@kernel
def choose(worth, active, room, chosen):
    """Mark the ``room`` active columns of least worth below 0.

    Returns their sum, the largest worth among them (0 while there is room), and the least of the others (0 if none is
    below).
    """
    below, n_below = np.empty(len(worth)), 0
    for j in range(len(worth)):
        chosen[j] = False
        if active[j] and worth[j] < 0.0:
            below[n_below] = worth[j]
            n_below += 1
    limit, others = 0.0, 0.0
    if n_below >= room > 0:
        ranked = np.sort(below[:n_below])
        limit = ranked[room - 1]
        others = ranked[room] if n_below > room else 0.0
    total, taken = 0.0, 0
    for equal in range(2):
        for j in range(len(worth)):
            if active[j] and worth[j] < 0.0 and taken < room and (worth[j] == limit if equal else worth[j] < limit):
                chosen[j] = True
                total += worth[j]
                taken += 1
    return total, limit, others


@kernel
def charge(n_tasks, worth, active, room, price, total):
    """What rounding may have added to the bound: sums of n terms are wrong by at most n EPS times their sizes."""
    largest, n_active = 0.0, 0
    for j in range(len(worth)):
        if active[j]:
            largest = max(largest, abs(worth[j]))
            n_active += 1
    return 4.0 * EPS * (n_tasks + n_active + 4) * (total + min(room, n_active) * (largest + 2.0 * price))


@kernel
def step_along(costs, chosen, cap, length, u, direction):
    """One step of ``length`` / |direction|^2 along the deflected subgradient; returns False if that is 0."""
    for i in range(len(u)):
        direction[i] = DEFLECTED * direction[i] + 1.0
    for j in range(len(costs)):
        if chosen[j]:
            column = costs[j]
            for i in range(len(u)):
                direction[i] -= 1.0 if column[i] < u[i] else 0.0
    norm = 0.0
    for i in range(len(u)):
        if direction[i] > 0.0 and u[i] >= cap[i]:
            direction[i] = 0.0
        norm += direction[i] * direction[i]
    if norm == 0.0:
        return False
    stride = length / norm
    for i in range(len(u)):
        u[i] += stride * direction[i]
    return True


@kernel
def ascend(costs, rows, active, cap, room, price, u, target, steps, worth, share):
    """Raise the bound by at most so many subgradient steps on ``u``, until it reaches ``target``.

    Returns the best bound, rounding charged; ``u`` gets its prices, ``worth`` that of the columns under them, and
    ``share`` how often each column was chosen of late.
    """
    direction, best_u, floor = np.zeros(len(u)), u.copy(), cap.copy()
    for j in range(len(costs)):
        if active[j]:
            column = costs[j]
            for i in range(len(u)):
                floor[i] = min(floor[i], column[i])
    now, chosen = np.empty(len(worth)), np.empty(len(worth), np.bool_)
    best, stalled, length = -np.inf, 0, 1.6
    for step in range(steps):
        total = price_columns(rows, floor, cap, u, price, now)
        saved = choose(now, active, room, chosen)[0]
        bound = total + saved - charge(len(u), now, active, room, price, total)
        for j in range(len(share)):
            share[j] = 0.9 * share[j] + (0.1 if chosen[j] else 0.0)
        stalled = 0 if step == 0 or bound > best + HELPS * (target - best) else stalled + 1
        if bound > best:
            best = bound
            overwrite(best_u, u)
            overwrite(worth, now)
        if best >= target or step == steps - 1 or length < SHORTEST:
            break
        if stalled >= STALLED:
            length, stalled = 0.5 * length, 0
            overwrite(u, best_u)
            direction[:] = 0.0
        elif not step_along(costs, chosen, cap, length * (target - bound), u, direction):
            break
    overwrite(u, best_u)
    return best


@kernel
def fix(worth, active, room, bound, cut, best):
    """Close the columns that no choice below ``cut`` can have; returns one to explore, and whether all need it.

    What is ruled out lowers ``best[CUT]``, the least bound of what was cut. Returns -1 if there is nothing to explore.
    """
    chosen = np.empty(len(worth), np.bool_)
    _, limit, others = choose(worth, active, room, chosen)
    branch = -1
    for j in range(len(worth)):
        if not active[j]:
            continue
        if not chosen[j] and bound + worth[j] - limit >= cut:
            active[j] = False
            best[CUT] = min(best[CUT], bound + worth[j] - limit)
            continue
        if chosen[j] and bound - worth[j] + others >= cut:
            best[CUT] = min(best[CUT], bound - worth[j] + others)
            return j, True
        if branch < 0 or worth[j] < worth[branch]:
            branch = j
    return branch, False


@kernel
def offer(cost, column, n_kept, last, kept, best):
    """Note a choice, ``column`` and ``last`` (unless -1), if it is the cheapest so far."""
    if cost < best[COST]:
        overwrite(kept[:n_kept], column[:n_kept])
        if last >= 0:
            kept[n_kept] = last
        best[COST], best[KEPT] = cost, n_kept + (last >= 0)


@kernel
def finish(rows, active, cap, price, base, column, level, worth, kept, best):
    """Room for one more column: the best one is found at once, since prices equal to ``cap`` are exact."""
    total = price_columns(rows, cap, cap, cap.copy(), price, worth)
    last = -1
    for j in range(len(worth)):
        if active[j] and worth[j] < 0.0 and (last < 0 or worth[j] < worth[last]):
            last = j
    cost = base + total + (worth[last] if last >= 0 else 0.0)
    offer(cost, column, level, last, kept, best)
    best[CUT] = min(best[CUT], cost - charge(len(cap), worth, active, 1, price, base + total))


@kernel
def explore(costs, rows, most, price, tolerance, steps, caps, prices, active, column, lower, kept, best, nodes):
    """Walk through the tree of choices, at most so many nodes; ``best[LEVEL]`` is where it stands, -1 when it is done.

    A node of level l has l columns that are kept (``column``) and some that it may add (``active``); tasks pay at most
    ``caps``. First the choices with one more column are explored, then that column is closed. ``lower`` bounds what a
    level holds.
    """
    level, worth, share = int(best[LEVEL]), np.empty(len(costs)), np.zeros(len(costs))
    for _ in range(nodes):
        if level < 0:
            break
        room, cap, u, may, base = most - level, caps[level], prices[level], active[level], price * level
        cut, child, needed = best[COST] - tolerance, -1, False
        if room == 1:
            finish(rows, may, cap, price, base, column, level, worth, kept, best)
        else:
            bound = base + ascend(costs, rows, may, cap, room, price, u, cut - base, steps, worth, share)
            lower[level] = max(lower[level], bound)
            if not lower[level] < cut:
                best[CUT] = min(best[CUT], lower[level])
            else:
                child, needed = fix(worth, may, room, bound, cut, best)
                if child < 0:  # all other columns are closed: what is left is one choice, whose cost is known
                    finish(rows, may, cap, price, base, column, level, worth, kept, best)
        if child < 0:
            level -= 1
            continue
        may[child] = False
        overwrite(active[level + 1], may)
        if needed:
            may[:] = False
        lower[level + 1], column[level], total = lower[level], child, 0.0
        for i in range(len(cap)):
            caps[level + 1, i] = min(cap[i], costs[child, i])
            prices[level + 1, i] = min(u[i], caps[level + 1, i])
            total += caps[level + 1, i]
        level += 1
        offer(base + price + total, column, level, -1, kept, best)
    best[LEVEL] = level
