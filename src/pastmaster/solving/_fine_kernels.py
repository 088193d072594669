"""Compiled loops of ``solve`` for gamma near 1, in twice the precision.

Evaluated in double precision V is off by EPS / (1 - gamma) of itself, which may be more than what an action gains. Here
a value is a pair, V = value + low, found by iterative refinement: the residual R + W V - V is summed without rounding
(``two_sum``, ``two_product``: Knuth's and Dekker's), the same chain is valued with it as reward, and what comes out is
added. Each round shrinks the error by about EPS n / (1 - gamma). Gains of actions are summed in the same way: what two
actions have in common cancels exactly.
"""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import inlined, kernel
from pastmaster.solving._kernels import chain_of, chain_value

SPLIT = 2.0**27 + 1.0
LARGEST = 2.0**990  # beyond it, splitting overflows: such values are not refined
ROUNDS = 60


@inlined
def two_sum(a, b):
    """a + b rounded, and what rounding took away."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@inlined
def two_product(a, b):
    """a * b rounded, and what rounding took away."""
    product = a * b
    a_big, b_big = SPLIT * a, SPLIT * b
    a_high, b_high = a_big - (a_big - a), b_big - (b_big - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@inlined
def add_to(high, low, x):
    """The pair high + low, plus x."""
    total, rest = two_sum(high, x)
    return total, low + rest


@kernel
def gain(reward, next_state, weight, value, low, s, a, b):
    """What action a is worth more than b in state s, under value + low, and the size of what it is summed from."""
    high, rest = two_sum(reward[s, a], -reward[s, b])
    size_a, size_b = abs(reward[s, a]), abs(reward[s, b])
    for k in range(next_state.shape[2]):
        for sign in (1.0, -1.0):
            action = a if sign > 0.0 else b
            w, to = sign * weight[s, action, k], next_state[s, action, k]
            product, lost = two_product(w, value[to])
            high, rest = add_to(high, rest, product)
            rest += lost + w * low[to]
            if sign > 0.0:
                size_a += abs(product)
            else:
                size_b += abs(product)
    return high + rest, max(size_a, size_b)


@kernel
def refine(reward, next_state, weight, gamma, accuracy, value, low):
    """Add to value + low, which a chain has been valued at, until the error is below ``accuracy`` of the largest.

    Stops where rounds no longer help, and does nothing where numbers are too large to be split.
    """
    n_states = len(reward)
    low[:] = 0.0
    if np.abs(value).max() > LARGEST:
        return
    residual, correction = np.empty(n_states), np.empty(n_states)
    before = np.inf
    for _ in range(ROUNDS):
        for s in range(n_states):
            high, rest = two_sum(reward[s], -value[s])
            rest -= low[s]
            for k in range(next_state.shape[1]):
                to = next_state[s, k]
                product, lost = two_product(weight[s, k], value[to])
                high, rest = add_to(high, rest, product)
                rest += lost + weight[s, k] * low[to]
            residual[s] = high + rest
        if np.abs(residual).max() <= 0.5 * accuracy * (1.0 - gamma) * np.abs(value).max():
            return
        correction[:] = 0.0
        chain_value(residual, next_state, weight, gamma, correction)
        size = np.abs(correction).max()
        if not size < 0.5 * before:
            return
        before = size
        for s in range(n_states):
            total, rest = two_sum(value[s], correction[s])
            value[s], low[s] = two_sum(total, low[s] + rest)


@kernel
def improve_finely(reward, next_state, weight, value, low, tie, policy):
    """Switch each state to its best action where that gains more than ``tie``; returns the number of switches."""
    switches = 0
    for s in range(reward.shape[0]):
        best = policy[s]
        for a in range(reward.shape[1]):
            more, size = gain(reward, next_state, weight, value, low, s, a, best)
            if more > tie * size:
                best = a
        if best != policy[s]:
            policy[s] = best
            switches += 1
    return switches


@kernel
def canonical_finely(reward, next_state, weight, value, low, tie, policy):
    """Switch each state to its lowest action within ``tie`` of the best; returns the number of switches."""
    switches = 0
    for s in range(reward.shape[0]):
        best = 0
        for a in range(1, reward.shape[1]):
            if gain(reward, next_state, weight, value, low, s, a, best)[0] > 0.0:
                best = a
        a = 0
        while a < best:
            behind, size = gain(reward, next_state, weight, value, low, s, best, a)
            if behind <= tie * size:
                break
            a += 1
        if a != policy[s]:
            policy[s] = a
            switches += 1
    return switches


@kernel
def iterate_finely(reward, next_state, weight, gamma, tie, max_iterations, value, policy):
    """Policy iteration from a good policy to the canonical one, whose V is left in ``value``; returns the rounds."""
    low, rounds, worth = np.zeros(len(value)), 0, -np.inf
    while rounds < max_iterations:
        rounds += 1
        evaluate_finely(reward, next_state, weight, gamma, tie, policy, value, low)
        total = value.sum() + low.sum()
        if not total > worth:  # only rounding switches actions without a gain
            break
        worth = total
        if improve_finely(reward, next_state, weight, value, low, tie, policy) == 0:
            break
    if canonical_finely(reward, next_state, weight, value, low, tie, policy):
        evaluate_finely(reward, next_state, weight, gamma, tie, policy, value, low)
    return rounds


@kernel
def evaluate_finely(reward, next_state, weight, gamma, tie, policy, value, low):
    """V of a policy, as value + low, to a sixteenth of the tie."""
    r, n, w = chain_of(reward, next_state, weight, policy)
    chain_value(r, n, w, gamma, value)
    refine(r, n, w, gamma, tie / 16.0, value, low)
