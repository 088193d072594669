"""Probabilistic Policy Reuse whose own episodes may explore, for a deterministic task: one compiled loop.

The paper calls the learner's arm "epsilon-greedy Q-learning"; Fernandez and Veloso's own episodes are greedy, and so
are those of ``ProbabilisticPolicyReuse``. Here both can be had.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def reuse_returns(
    next_state, reward, terminated, gamma, horizon, start, sources, step_size, epsilon, own_epsilon, out, rng
):
    """Returns of len(out) episodes, written into ``out``; psi = 1, upsilon = 0.95, tau rises by 0.05 an episode."""
    n_states, n_actions = reward.shape
    Q, c = np.zeros((n_states, n_actions)), len(sources)
    sums, counts, chances = np.zeros(c + 1), np.zeros(c + 1), np.zeros(c + 1)
    for t in range(len(out)):
        best = -np.inf
        for k in range(c + 1):
            chances[k] = 0.05 * t * (sums[k] / counts[k] if counts[k] > 0.0 else 0.0)
            best = max(best, chances[k])
        total = 0.0
        for k in range(c + 1):
            chances[k] = np.exp(chances[k] - best)
            total += chances[k]
        u, arm = rng.random() * total, 0
        while arm < c and u >= chances[arm]:
            u -= chances[arm]
            arm += 1
        s, earned, discount, reuse = start, 0.0, 1.0, 1.0
        for _ in range(horizon):
            if arm < c and rng.random() < reuse:
                a = sources[arm, s]
            elif rng.random() < (own_epsilon if arm == c else epsilon):
                a = int(rng.random() * n_actions)
            else:
                a = greedy_action(Q, s, rng)
            reuse *= 0.95
            following, r = next_state[s, a], reward[s, a]
            target = r if terminated[s, a] else r + gamma * Q[following].max()
            Q[s, a] += step_size * (target - Q[s, a])
            earned += discount * r
            discount *= gamma
            if terminated[s, a]:
                break
            s = following
        out[t] = earned
        sums[arm] += earned
        counts[arm] += 1.0


@njit(cache=True, nogil=True)
def greedy_action(Q, s, rng):
    """A best action, ties at random."""
    best, n, chosen = -np.inf, 0, 0
    for a in range(Q.shape[1]):
        if Q[s, a] > best:
            best, n, chosen = Q[s, a], 1, a
        elif Q[s, a] == best:
            n += 1
            if rng.random() * n < 1.0:
                chosen = a
    return chosen
