"""Compiled loops of ``cross_values``: the value of many policies in one task, from its start only.

``weight`` and the chain are as in ``solving._kernels``: discounted probabilities, 0 where an episode ends. ``horizon``
is the step cap, or -1 for none.
"""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import kernel
from pastmaster.solving._kernels import capped_value, chain_value, sweeps_to_rounding


@kernel
def trajectory_values(next_state, reward, terminated, gamma, horizon, starts, chances, policies, out):
    """Returns of deterministic policies [M, S] in a deterministic task with arrays [S, A], written into out [M]."""
    for j in range(len(policies)):
        total = 0.0
        for i in range(len(starts)):
            total += chances[i] * trajectory(next_state, reward, terminated, gamma, horizon, starts[i], policies[j])
        out[j] = total


@kernel
def trajectory(next_state, reward, terminated, gamma, horizon, state, policy):
    """The return of the one trajectory from ``state``; a cycle is found by Brent's method and summed at once.

    An anchor is set at steps 1, 2, 4, 8, ...; a trajectory that comes back to it has completed a cycle of ``length``
    steps worth ``lap``. n more laps are worth lap times the sum of gamma^(i length) over i < n.
    """
    total, discount, steps = 0.0, 1.0, 0
    anchor, lap, lap_discount, length, patience = state, 0.0, 1.0, 0, 1
    searching = True
    while steps != horizon:
        a = policy[state]
        r = reward[state, a]
        total += discount * r
        steps += 1
        if terminated[state, a]:
            return total
        discount *= gamma
        state = next_state[state, a]
        if searching:
            lap += lap_discount * r
            lap_discount *= gamma
            length += 1
            if state == anchor:
                if horizon < 0:
                    return total + discount * lap / (1.0 - lap_discount)
                laps = (horizon - steps) // length
                total += discount * lap * geometric(lap_discount, laps)
                discount *= power(lap_discount, laps)
                steps += laps * length
                searching = False
            elif length == patience:
                anchor, lap, lap_discount, length, patience = state, 0.0, 1.0, 0, 2 * patience
    return total


@kernel
def power(base, exponent):
    """base^exponent by squaring: the same bits compiled or not, which ** does not give."""
    result = 1.0
    while exponent > 0:
        if exponent % 2:
            result *= base
        base *= base
        exponent //= 2
    return result


@kernel
def geometric(x, n):
    """The sum of x^i over i < n, by doubling: no cancellation however near 1 x is."""
    total, following, block = 0.0, 1.0, 1.0  # following = x^(terms summed), block = sum of the next 2^b terms, from x^0
    while n > 0:
        if n % 2:
            total += following * block
            following *= x
        block *= 1.0 + x
        x *= x
        n //= 2
    return total


@kernel
def reached_values(reward, next_state, weight, gamma, horizon, starts, chances, policies, out):
    """Values of policies [M, S] in any model, over the states each reaches, written into out [M]."""
    n_states, _, n_outcomes = next_state.shape
    local = np.full(n_states, -1, np.int32)  # a state's place in the small chain
    states, stack, tried = np.empty(n_states, np.int32), np.empty(n_states, np.int32), np.empty(n_states, np.int32)
    r, n, w = np.empty(n_states), np.empty((n_states, n_outcomes), np.int32), np.empty((n_states, n_outcomes))
    mass = np.zeros(n_states)
    for j in range(len(policies)):
        policy, out[j] = policies[j], 0.0
        if not reaches_reward(reward, next_state, weight, starts, policy, local, states):
            continue
        size = reach(next_state, weight, starts, policy, local, states, stack, tried)
        for i in range(size):
            s = states[i]
            r[i] = reward[s, policy[s]]
            for k in range(n_outcomes):
                w[i, k] = weight[s, policy[s], k]
                n[i, k] = local[next_state[s, policy[s], k]] if w[i, k] > 0.0 else i
        if horizon < 0:
            value = np.zeros(size)
            chain_value(r[:size], n[:size], w[:size], gamma, value)
        else:
            value = capped_value(r[:size], n[:size], w[:size], horizon)
        for i in range(len(starts)):
            mass[local[starts[i]]] = chances[i]
        for i in range(size):
            out[j] += mass[i] * value[i]
            mass[i], local[states[i]] = 0.0, -1


@kernel
def stacked_values(reward, next_state, weight, paid, possible, horizon, start, policies, out):
    """Values of policies [M, S] to a horizon in T tasks that differ in rewards and chances alone, into out [T, M].

    The tasks are the last axis of ``reward`` [S, A, lanes] and ``weight`` [S, A, K, lanes], so that one step of all of
    them is one loop over numbers side by side; lanes beyond the T tasks are 0. ``paid`` [S, A] and ``possible``
    [S, A, K] are not 0 where any task pays or has such an outcome. Same bits as ``reached_values`` of each task.
    """
    n_states, _, n_outcomes = next_state.shape
    lanes, starts = reward.shape[2], np.full(1, start, np.int32)
    local = np.full(n_states, -1, np.int32)
    states, stack, tried = np.empty(n_states, np.int32), np.empty(n_states, np.int32), np.empty(n_states, np.int32)
    r, n = np.empty((n_states, lanes)), np.empty((n_states, max(2, n_outcomes)), np.int32)
    w = np.zeros((n_states, max(2, n_outcomes), lanes))
    for j in range(len(policies)):
        policy = policies[j]
        out[:, j] = 0.0
        if not reaches_reward(paid, next_state, possible, starts, policy, local, states):
            continue
        size = reach(next_state, possible, starts, policy, local, states, stack, tried)
        for i in range(size):
            s = states[i]
            pair = s, policy[s]
            for t in range(lanes):
                r[i, t] = reward[pair[0], pair[1], t]
            n[i, :] = i
            for k in range(n_outcomes):
                if possible[pair[0], pair[1], k] > 0.0:
                    n[i, k] = local[next_state[pair[0], pair[1], k]]
                for t in range(lanes):
                    w[i, k, t] = weight[pair[0], pair[1], k, t]
        value = capped_stack(r[:size], n[:size], w[:size], horizon)
        for t in range(len(out)):
            out[t, j] = value[local[start], t]
        for i in range(size):
            local[states[i]] = -1


@kernel
def capped_stack(reward, next_state, weight, horizon):
    """``capped_value`` of chains [size, outcomes] that differ in rewards and chances alone, one to a lane."""
    size, lanes = reward.shape
    value, following = np.zeros((size, lanes)), np.zeros((size, lanes))
    for h in range(horizon):
        value, following = following, value
        for i in range(size):
            row, r = value[i], reward[i]
            first, second = following[next_state[i, 0]], following[next_state[i, 1]]
            chance, other = weight[i, 0], weight[i, 1]
            for t in range(lanes):
                row[t] = r[t] + chance[t] * first[t] + other[t] * second[t]
            for k in range(2, next_state.shape[1]):
                first, chance = following[next_state[i, k]], weight[i, k]
                for t in range(lanes):
                    row[t] += chance[t] * first[t]
        if h % 16 == 0 and np.abs(value - following).max() == 0.0:
            break
    return value


@kernel
def reaches_reward(reward, next_state, weight, starts, policy, seen, queue):
    """Whether a policy can ever be paid anything but 0; ``seen`` is all -1, before and after."""
    n_actions, n_outcomes = next_state.shape[1:]
    flat_reward, flat_next, flat_weight = reward.reshape(-1), next_state.reshape(-1), weight.reshape(-1)
    size, i, paid = 0, 0, False
    for start in starts:
        if seen[start] == -1:
            seen[start] = 0
            queue[size] = start
            size += 1
    while i < size and not paid:
        pair = queue[i] * n_actions + policy[queue[i]]
        paid = flat_reward[pair] != 0.0
        for outcome in range(pair * n_outcomes, (pair + 1) * n_outcomes):
            following = flat_next[outcome]
            if seen[following] == -1 and flat_weight[outcome] > 0.0:
                seen[following] = 0
                queue[size] = following
                size += 1
        i += 1
    for i in range(size):
        seen[queue[i]] = -1
    return paid


@kernel
def reach(next_state, weight, starts, policy, local, states, stack, tried):
    """Number the states a policy can reach, successors before predecessors where it can be (depth-first postorder).

    Fills ``states`` and its inverse ``local``, all -1 before; returns how many there are.
    """
    size = 0
    for start in starts:
        if local[start] != -1:
            continue
        depth, stack[0], tried[0], local[start] = 0, start, 0, -2  # -2: on the stack
        while depth >= 0:
            s, k = stack[depth], tried[depth]
            if k == next_state.shape[2]:
                local[s] = size
                states[size] = s
                size += 1
                depth -= 1
                continue
            tried[depth] = k + 1
            following = next_state[s, policy[s], k]
            if weight[s, policy[s], k] > 0.0 and local[following] == -1:
                depth += 1
                stack[depth], tried[depth], local[following] = following, 0, -2
    return size


@kernel
def states_met(next_state, weight, starts):
    """Which states an episode can visit, whatever is done [S]."""
    n_states = len(next_state)
    local, policy = np.full(n_states, -1, np.int32), np.zeros(n_states, np.int32)
    states, stack, tried = np.empty(n_states, np.int32), np.empty(n_states, np.int32), np.empty(n_states, np.int32)
    shape = (n_states, 1, next_state.shape[1] * next_state.shape[2])
    reach(next_state.reshape(shape), weight.reshape(shape), starts, policy, local, states, stack, tried)
    return local >= 0


@kernel
def extreme_returns(reward, next_state, terminated, gamma, horizon):
    """The largest return from each state in at most ``horizon`` steps, over all choices of arrays [S, choices]."""
    n_states, n_choices = next_state.shape
    value, following = np.zeros(n_states), np.zeros(n_states)
    for _ in range(horizon):
        value, following = following, value
        moved = False
        for s in range(n_states):
            best = -np.inf
            for c in range(n_choices):
                v = reward[s, c] + (0.0 if terminated[s, c] else gamma * following[next_state[s, c]])
                best = max(best, v)
            moved |= best != following[s]
            value[s] = best
        if not moved:
            break
    return value


@kernel
def occupancies(next_state, weight, gamma, horizon, starts, chances, policies, out):
    """Discounted visits to each (state, action) under policies [M, S], added to out [M, S * A].

    Moves the start distribution forwards to the horizon, or until its remaining mass is below rounding; in any case not
    beyond where gamma^n is below the least number there is, from which rounding would not let the mass fall to 0.
    """
    n_states, n_actions, n_outcomes = next_state.shape
    rounding = 10 + sweeps_to_rounding(gamma)
    steps = min(horizon, 22 * rounding) if horizon >= 0 else rounding
    for j in range(len(policies)):
        policy, mass, following = policies[j], np.zeros(n_states), np.zeros(n_states)
        for i in range(len(starts)):
            mass[starts[i]] = chances[i]
        for _ in range(steps):
            for s in range(n_states):
                m, a = mass[s], policy[s]
                if m != 0.0:
                    out[j, s * n_actions + a] += m
                    for k in range(n_outcomes):
                        following[next_state[s, a, k]] += m * weight[s, a, k]
                    mass[s] = 0.0
            mass, following = following, mass
            if not mass.any():
                break
