"""Compiled loops of ``solve`` and ``values``: arrays in, arrays out.

Two shapes appear. A *model* is a task under any action: reward [S, A], next_state [S, A, K], weight [S, A, K]
(``tasks.tabular.Model``). A *chain* is a task under one policy: reward [S], next_state [S, K], weight [S, K]. In
both, weight is the discounted probability of an outcome that does not end the episode, and a backup is
``reward + sum_k weight[k] * value[next_state[k]]``.
"""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import inlined, kernel

EPS = 2.0**-52
DIRECT_LIMIT = 2000  # elimination holds a square matrix: 32 MB at this many states


@inlined
def backup(reward, next_state, weight, value, s, a):
    """Q(s, a) under ``value``."""
    q = reward[s, a]
    for k in range(next_state.shape[2]):
        q += weight[s, a, k] * value[next_state[s, a, k]]
    return q


@kernel
def sweep(reward, next_state, weight, value, backward):
    """One Gauss-Seidel pass of optimal backups over all states, in place; returns the largest change."""
    n_states, n_actions = reward.shape
    change = 0.0
    for i in range(n_states):
        s = n_states - 1 - i if backward else i
        best = backup(reward, next_state, weight, value, s, 0)
        for a in range(1, n_actions):
            best = max(best, backup(reward, next_state, weight, value, s, a))
        change = max(change, abs(best - value[s]))
        value[s] = best
    return change


@kernel
def improve(reward, next_state, weight, value, margin, policy):
    """Switch each state to its best action where that gains more than ``margin``; returns the number of switches."""
    switches = 0
    for s in range(reward.shape[0]):
        best, best_q = policy[s], backup(reward, next_state, weight, value, s, policy[s]) + margin
        for a in range(reward.shape[1]):
            q = backup(reward, next_state, weight, value, s, a)
            if q > best_q:
                best, best_q = a, q
        if best != policy[s]:
            policy[s] = best
            switches += 1
    return switches


@kernel
def canonical(reward, next_state, weight, value, largest, tie, policy):
    """Switch each state to its lowest action within ``tie`` of the best; returns the switches and max |T V - V|.

    ``tie`` is relative to the size of what the state's values are summed from, which is at most |V| + ``largest``.
    """
    n_states, n_actions = reward.shape
    q = np.empty(n_actions)
    widest = tie * (np.abs(value).max() + largest)
    switches, residual = 0, 0.0
    for s in range(n_states):
        best = -np.inf
        for a in range(n_actions):
            q[a] = backup(reward, next_state, weight, value, s, a)
            best = max(best, q[a])
        a = 0
        while q[a] < best:
            if q[a] >= best - widest and q[a] >= best - tie * summed_size(reward, next_state, weight, value, s):
                break
            a += 1
        residual = max(residual, abs(best - value[s]))
        if a != policy[s]:
            policy[s] = a
            switches += 1
    return switches, residual


@kernel
def summed_size(reward, next_state, weight, value, s):
    """The largest |R| + sum of weight * |V| over the actions of a state: what rounding in its values is relative to."""
    largest = 0.0
    for a in range(reward.shape[1]):
        size = abs(reward[s, a])
        for k in range(next_state.shape[2]):
            size += weight[s, a, k] * abs(value[next_state[s, a, k]])
        largest = max(largest, size)
    return largest


@kernel
def own_residual(reward, next_state, weight, value, policy):
    """max |T_policy V - V|."""
    residual = 0.0
    for s in range(reward.shape[0]):
        residual = max(residual, abs(backup(reward, next_state, weight, value, s, policy[s]) - value[s]))
    return residual


@kernel
def chain_of(reward, next_state, weight, policy):
    """The chain of a model under a policy of actions [S]."""
    n_states, _, n_outcomes = next_state.shape
    r, n, w = np.empty(n_states), np.empty((n_states, n_outcomes), np.int32), np.empty((n_states, n_outcomes))
    for s in range(n_states):
        r[s] = reward[s, policy[s]]
        for k in range(n_outcomes):
            n[s, k] = next_state[s, policy[s], k]
            w[s, k] = weight[s, policy[s], k]
    return r, n, w


@kernel
def chain_value(reward, next_state, weight, gamma, value):
    """V of every state of a chain, to rounding, written into ``value``, whose content is the first guess."""
    n_states, n_outcomes = next_state.shape
    if n_outcomes == 1:
        follow_chain(reward, next_state[:, 0], weight[:, 0], value)
    elif n_states <= DIRECT_LIMIT and n_states**2 <= 24 * n_outcomes * sweeps_to_rounding(gamma):
        eliminate(reward, next_state, weight, value)
    else:
        settle(reward, next_state, weight, gamma, value)


@kernel
def sweeps_to_rounding(gamma):
    """How many sweeps shrink an error by the factor EPS, at the slowest; beyond 2^50 nobody waits for them."""
    if gamma == 1.0:
        return 1 + 2**50
    return 1 if gamma == 0.0 else 1 + int(min(np.log(EPS) / np.log(gamma), 2.0**50))


@kernel
def follow_chain(reward, next_state, weight, value):
    """V of a deterministic chain, in one pass: walk until a known state or a cycle, then unwind.

    On a cycle s_0 .. s_{n-1}: V(s_0) = (sum of discounted rewards over the cycle) / (1 - product of weights).
    """
    n_states = len(reward)
    position = np.full(n_states, -1, np.int64)  # -1 unseen, >= 0 place on the current path, -2 known
    path = np.empty(n_states, np.int64)
    for root in range(n_states):
        length, s = 0, root
        while position[s] == -1:
            position[s] = length
            path[length] = s
            length += 1
            s = next_state[s]
        if position[s] >= 0:
            total, product = 0.0, 1.0
            for i in range(length - 1, position[s] - 1, -1):
                total = reward[path[i]] + weight[path[i]] * total
                product *= weight[path[i]]
            value[s] = total / (1.0 - product)
            for i in range(length - 1, position[s], -1):
                value[path[i]] = reward[path[i]] + weight[path[i]] * value[next_state[path[i]]]
                position[path[i]] = -2
            length = position[s]
            position[s] = -2
        for i in range(length - 1, -1, -1):
            value[path[i]] = reward[path[i]] + weight[path[i]] * value[next_state[path[i]]]
            position[path[i]] = -2


@kernel
def eliminate(reward, next_state, weight, value):
    """V of a chain by Gaussian elimination on (I - W) V = reward.

    Row i of U holds V_i = value_i + sum_{j > i} U_ij V_j. The matrix is diagonally dominant, so no pivoting is
    needed; zeros are skipped and each row remembers its last nonzero, which makes banded chains cheap.
    """
    n = len(reward)
    upper = np.zeros((n, n))
    last = np.empty(n, np.int64)
    for i in range(n):
        row = upper[i]
        first, end, right = i, i, reward[i]
        for k in range(next_state.shape[1]):
            j = next_state[i, k]
            row[j] += weight[i, k]
            first, end = min(first, j), max(end, j)
        for j in range(first, i):
            factor = row[j]
            if factor != 0.0:
                row[j] = 0.0
                right += factor * value[j]
                end = max(end, last[j])
                for m in range(j + 1, last[j] + 1):
                    row[m] += factor * upper[j, m]
        pivot = 1.0 / (1.0 - row[i])
        for m in range(i + 1, end + 1):
            row[m] *= pivot
        value[i] = right * pivot
        last[i] = end
    for i in range(n - 1, -1, -1):
        for m in range(i + 1, last[i] + 1):
            value[i] += upper[i, m] * value[m]


@kernel
def settle(reward, next_state, weight, gamma, value):
    """V of a chain by Gauss-Seidel sweeps, alternating direction, until only rounding moves it."""
    n_states = len(reward)
    for i in range(10 + sweeps_to_rounding(gamma)):
        change, scale = 0.0, 0.0
        for j in range(n_states):
            s = j if i % 2 else n_states - 1 - j
            v, own = reward[s], 0.0
            for k in range(next_state.shape[1]):
                if next_state[s, k] == s:
                    own += weight[s, k]
                else:
                    v += weight[s, k] * value[next_state[s, k]]
            v /= 1.0 - own
            change = max(change, abs(v - value[s]))
            scale = max(scale, abs(v))
            value[s] = v
        if change <= 2.0 * EPS * scale:
            break


@kernel
def capped_value(reward, next_state, weight, horizon):
    """V of every state of a chain whose episodes last at most ``horizon`` steps.

    Outcome by outcome, the first two together, so that the inner loop has no branch. Two steps alike end it early.
    """
    size, n_outcomes = next_state.shape
    target, chance = np.zeros((max(2, n_outcomes), size), np.int32), np.zeros((max(2, n_outcomes), size))
    for i in range(size):  # a loop compiles in a tenth of the time of an assignment of slices
        for k in range(n_outcomes):
            target[k, i], chance[k, i] = next_state[i, k], weight[i, k]
    value, following = np.zeros(size), np.zeros(size)
    for h in range(horizon):
        value, following = following, value
        for i in range(size):
            value[i] = reward[i] + chance[0, i] * following[target[0, i]] + chance[1, i] * following[target[1, i]]
        for k in range(2, n_outcomes):
            for i in range(size):
                value[i] += chance[k, i] * following[target[k, i]]
        if h % 16 == 0 and np.abs(value - following).max() == 0.0:
            break
    return value
