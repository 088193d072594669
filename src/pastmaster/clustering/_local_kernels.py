"""Compiled loops that make and mend partitions without chance: threshold clusters and descent."""

from __future__ import annotations

import numpy as np

from pastmaster.clustering._chain_kernels import cost_after
from pastmaster.clustering._kernels import bring_forward, cost_of, fill, make_move, overwrite
from pastmaster.compiled import kernel


@kernel
def threshold_labels(distance, order, threshold, directed):
    """Cells made one by one: the first task of ``order`` still free seeds a cell and takes every free one in reach.

    Directed: the seed brings the policy that suits it best, and tasks that lose at most the threshold under it join.
    """
    n_tasks = len(distance)
    labels = np.full(n_tasks, -1, np.int32)
    cell = 0
    for seed in order:
        if labels[seed] >= 0:
            continue
        centre = np.argmin(distance[seed]) if directed else seed
        labels[seed] = cell
        for i in range(n_tasks):
            if labels[i] < 0 and distance[i, centre] <= threshold:
                labels[i] = cell
        cell += 1
    return labels


@kernel
def cost_alone(state, move, source, target, distance, directed, kind, size_cost):
    """The cost if the first member of ``source`` moved to ``target``; ``move`` then holds that."""
    return cost_after(state, move, source, target, np.int64(1), distance, directed, kind, size_cost)


@kernel
def descend(state, move, distance, directed, kind, size_cost, first, last):
    """Move each of the tasks first .. last - 1 to the cell, or the new one, that lowers the cost most; whether any did.

    Repeated over all tasks until none does, it ends where no single move helps.
    """
    cost = cost_of(state, size_cost, kind)
    improved = False
    for i in range(first, last):
        source = np.int64(state.label[i])
        bring_forward(state, source, i, 0)
        c = state.counts[0]
        best_target, best_cost = source, cost - 1e-12 * abs(cost)
        for place in range(c + 1):
            target = np.int64(state.rows[place] if place < c else -1)
            if target == source or (target < 0 and state.size[source] == 1):
                continue
            new_cost = cost_alone(state, move, source, target, distance, directed, kind, size_cost)
            if new_cost < best_cost:
                best_target, best_cost = target, new_cost
        if best_target != source:
            cost_alone(state, move, source, best_target, distance, directed, kind, size_cost)
            make_move(state, move, source, best_target, np.int64(1), directed)
            cost = cost_of(state, size_cost, kind)
            improved = True
    return improved


@kernel
def cheapest_of_all(state, distance, directed, kind, size_cost, best):
    """Try every partition (as restricted growth strings: a label is at most one above those before it)."""
    n_tasks = len(best)
    labels, highest = np.zeros(n_tasks, np.int32), np.zeros(n_tasks, np.int32)
    best_cost = np.inf
    while True:
        fill(state, labels, distance, directed, kind)
        cost = cost_of(state, size_cost, kind)
        if cost < best_cost:
            best_cost = cost
            overwrite(best, labels)
        i = n_tasks - 1
        while i > 0 and labels[i] > highest[i - 1]:
            i -= 1
        if i <= 0:
            return best_cost
        labels[i] += 1
        highest[i] = max(highest[i - 1], labels[i])
        for j in range(i + 1, n_tasks):
            labels[j] = 0
            highest[j] = highest[i]
