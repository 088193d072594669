"""The compiled MHAV chain over partitions: the paper's move with its exact ratios, and the moves on the ladder.

A point of the chain is (rung, partition); its law is Pi(l, A) ~ exp(-ladder[l] * cost(A) + weights[l]).
"""

from __future__ import annotations

import numpy as np

from pastmaster.clustering._kernels import WORST, bring_forward, cost_of, make_move, overwrite, try_move
from pastmaster.compiled import inlined, kernel


@inlined
def draw_size(n, theta, rng):
    """How many tasks to move: PE(k; n, theta) = exp(-k theta) (exp(theta) - 1) / (1 - exp(-n theta)), by inversion."""
    return min(n, 1 + int(-np.log1p(rng.random() * np.expm1(-n * theta)) / theta))


@inlined
def log_ratio(c, n_source, n_target, k, theta, log_factorial):
    """ln of reverse over forward probability of moving k of n_source tasks to a cell of n_target (0: a new one).

    Forward: 1/c for the source, 1/c for the target (the c - 1 others or a new cell), PE(k; n_source) for k, and one
    of binom(n_source, k) choices. The inverse move takes the same k tasks back.
    """
    joined = n_target + k
    after = c + (1 if n_target == 0 else 0) - (1 if n_source == k else 0)
    sizes = np.expm1(-n_source * theta) / np.expm1(-joined * theta)  # PE(k; joined) / PE(k; n_source)
    choices = log_choices(n_source, k, log_factorial) - log_choices(joined, k, log_factorial)
    return np.log(sizes * (c / after) ** 2) + choices


@inlined
def log_choices(n, k, log_factorial):
    """ln of n over k."""
    return log_factorial[n] - log_factorial[k] - log_factorial[n - k]


@kernel
def log_ladder_ratio(rung, to, n_rungs, up):
    """ln of reverse over forward probability of a move between neighbouring rungs.

    ``up`` is the chance of going up; at the lowest rung the only move is up, at the highest down, each with chance 1.
    """
    forward = 1.0 if rung == 0 or rung == n_rungs - 1 else (up if to > rung else 1.0 - up)
    backward = 1.0 if to == 0 or to == n_rungs - 1 else (up if rung > to else 1.0 - up)
    return np.log(backward / forward)


@kernel
def ladder_step(rung, cost, ladder, weights, up, rng):
    """The rung after one proposed move on the ladder."""
    n_rungs = len(ladder)
    if n_rungs == 1:
        return rung
    to = rung + 1 if rung == 0 or (rung < n_rungs - 1 and rng.random() < up) else rung - 1
    accept = (ladder[rung] - ladder[to]) * cost + weights[to] - weights[rung]
    accept += log_ladder_ratio(rung, to, n_rungs, up)
    return to if accept >= 0.0 or rng.random() < np.exp(accept) else rung


@inlined
def propose(state, theta, log_factorial, rng):
    """Draw the paper's move: source, target (-1: a new cell), k, and ln of reverse over forward probability.

    A cell at random, another one or a new one at random, k from PE, k of the cell's members at random: they become
    the first of its row. k = 0 stands for a proposal to stay.
    """
    c = state.counts[0]  # below, int64 throughout: a second kind of integer would compile every kernel twice
    source, target = np.int64(state.rows[int(rng.random() * c)]), np.int64(state.rows[int(rng.random() * c)])
    if target == source:  # the c - 1 others and a new cell are equally likely
        target = np.int64(-1)
    n_source = state.size[source]
    k = draw_size(n_source, theta, rng)
    if target < 0 and k == n_source:  # a whole cell moved to a new one is the same partition
        return source, target, 0, 0.0
    for place in range(k):
        pick = place + int(rng.random() * (n_source - place))
        bring_forward(state, source, state.pool[state.first[source] + pick], place)
    n_target = 0 if target < 0 else state.size[target]
    return source, target, k, log_ratio(c, n_source, n_target, k, theta, log_factorial)


@kernel
def walk(
    state, move, distance, directed, kind, size_cost, ladder, weights, theta, chances, log_factorial,
    rung, iterations, rng, best, best_cost, record,
):  # fmt: skip
    """``iterations`` steps of the chain from (rung, state); returns the rung and the best cost, its labels in ``best``.

    ``chances``: alpha (moves on the ladder), beta (moves of the partition), alpha' (up). ``record`` [4, rungs] adds up,
    for each rung: steps, partition moves proposed, accepted, and the cost at each step.
    """
    cost = cost_of(state, size_cost, kind)
    for _ in range(iterations):
        u = rng.random()
        if u < chances[0]:
            rung = ladder_step(rung, cost, ladder, weights, chances[2], rng)
        elif u < chances[0] + chances[1]:
            source, target, k, ratio = propose(state, theta, log_factorial, rng)
            record[1, rung] += 1.0
            if k > 0:
                new_cost = cost_after(state, move, source, target, k, distance, directed, kind, size_cost)
                accept = ladder[rung] * (cost - new_cost) + ratio
                if accept >= 0.0 or rng.random() < np.exp(accept):
                    make_move(state, move, source, target, k, directed)
                    cost = cost_of(state, size_cost, kind)
                    record[2, rung] += 1.0
                    if cost < best_cost:
                        best_cost = cost
                        overwrite(best, state.label)
        record[0, rung] += 1.0
        record[3, rung] += cost
    return rung, best_cost


@inlined
def cost_after(state, move, source, target, k, distance, directed, kind, size_cost):
    """The cost if the first k members of ``source`` moved to ``target``; ``move`` then holds that."""
    try_move(state, move, source, target, k, distance, directed, kind)
    c = state.counts[0]
    after = c + (1 if target < 0 else 0) - (1 if state.size[source] == k else 0)
    total = 0.0
    for place in range(c):
        r = state.rows[place]
        spread = move.result[1] if r == source else move.result[3] if r == target else state.spread[r]
        total = max(total, spread) if kind == WORST else total + spread
    if target < 0:
        total = max(total, move.result[3]) if kind == WORST else total + move.result[3]
    return size_cost[after] + (total if kind == WORST else total / len(state.label))
