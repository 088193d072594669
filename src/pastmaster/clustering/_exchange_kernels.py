"""Compiled loops of the local search for columns of a table: greedy, then exchanges in the spirit of FasterPAM.

The problem is that of ``_column_kernels``. Costs [M, N] are by column; a pair that cannot be costs ``beyond``, as does
a task without any column.
"""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import kernel


@kernel
def serve(costs, kept, n_kept, beyond, near, second, slot):
    """What each task pays under its best and second best kept column, and the place of the best; returns the sum."""
    for i in range(len(near)):
        near[i], second[i], slot[i] = beyond, beyond, 0
    for s in range(n_kept):
        column = costs[kept[s]]
        for i in range(len(near)):
            if column[i] < near[i]:
                near[i], second[i], slot[i] = column[i], near[i], s
            elif column[i] < second[i]:
                second[i] = column[i]
    total = 0.0
    for i in range(len(near)):
        total += near[i]
    return total


@kernel
def greedy(costs, allowed, kept, n_kept, price, near):
    """Add the columns that save most, one by one, while they save more than their price; returns how many are kept."""
    while n_kept < len(kept):
        best, best_saved = -1, price
        for j in range(len(costs)):
            if not allowed[j]:
                continue
            saved, column = 0.0, costs[j]
            for i in range(len(near)):
                saved += max(0.0, near[i] - column[i])
            if saved > best_saved:
                best, best_saved = j, saved
        if best < 0:
            break
        kept[n_kept], allowed[best] = best, False
        n_kept += 1
        for i in range(len(near)):
            near[i] = min(near[i], costs[best, i])
    return n_kept


@kernel
def exchange(column, change, n_must, n_kept, most, price, near, second, slot):
    """The best use of a column: the change of the cost, and the place that it takes (``n_kept``: beside the others).

    ``change`` [kept] is what giving up each kept column costs.
    """
    given_up, saved = change.copy(), 0.0
    for i in range(len(near)):
        c = column[i]
        if c < near[i]:
            saved += near[i] - c
            given_up[slot[i]] += near[i] - second[i]
        elif c < second[i]:
            given_up[slot[i]] += c - second[i]
    best, place = np.inf, -1
    if n_kept < most:
        best, place = price - saved, n_kept
    for s in range(n_must, n_kept):
        if given_up[s] - saved < best:
            best, place = given_up[s] - saved, s
    return best, place


@kernel
def losses_without(n_kept, price, near, second, slot, change):
    """What giving up each kept column costs."""
    change[:n_kept] = -price
    for i in range(len(near)):
        change[slot[i]] += second[i] - near[i]


@kernel
def improve(costs, allowed, kept, n_must, n_kept, price, beyond, begin, near, second, slot):
    """Add, exchange and give up columns while that lowers the cost; returns how many are kept, and the sum paid.

    Columns are tried in turn, and the first that helps is taken at once (as in FasterPAM). The first ``n_must`` stay.
    """
    total = serve(costs, kept, n_kept, beyond, near, second, slot)
    change, j, tried, changed = np.empty(len(kept)), begin, 0, True
    for _ in range(50 * len(costs)):
        if tried == len(costs):
            break
        if changed:
            losses_without(n_kept, price, near, second, slot, change)
            worst = -1
            for s in range(n_must, n_kept):
                if change[s] < 0.0 and (worst < 0 or change[s] < change[worst]):
                    worst = s
            changed = worst >= 0
            if changed:
                allowed[kept[worst]] = True
                n_kept -= 1
                kept[worst] = kept[n_kept]
                total = serve(costs, kept, n_kept, beyond, near, second, slot)
                continue
        if allowed[j]:
            gain, place = exchange(costs[j], change, n_must, n_kept, len(kept), price, near, second, slot)
            if gain < -1e-11 * total:
                if place < n_kept:
                    allowed[kept[place]] = True
                kept[place], allowed[j] = j, False
                n_kept = max(n_kept, place + 1)
                total = serve(costs, kept, n_kept, beyond, near, second, slot)
                tried, changed = 0, True
        tried += 1
        j = (j + 1) % len(costs)
    return n_kept, total
