"""Second moments of returns, compiled."""

import math

import numpy as np

from pastmaster.compiled import kernel


@kernel
def states_of(following, chances, ends, actions, mixed, start):
    """The states that the policy meets."""
    met, queue, n = np.zeros(len(following), np.bool_), np.empty(len(following), np.int64), 0
    for s in range(len(start)):
        if start[s] > 0.0:
            met[s], queue[n] = True, s
            n += 1
    place = 0
    while place < n:
        s = queue[place]
        place += 1
        for a in range(following.shape[1]):
            share = mixed[s, a] if len(mixed) else 1.0 if actions[s] == a else 0.0
            if share > 0.0:
                for k in range(following.shape[2]):
                    then = following[s, a, k]
                    if chances[s, a, k] > 0.0 and not ends[s, a, k] and not met[then]:
                        met[then], queue[n] = True, then
                        n += 1
    return queue[:n]


@kernel
def spread(following, reward, chances, ends, gamma, horizon, actions, mixed, start):
    """The standard deviation of one return of a policy: actions [S], or probabilities ``mixed`` [S, A]."""
    states = states_of(following, chances, ends, actions, mixed, start)
    first, second = np.zeros(len(following)), np.zeros(len(following))
    new_first, new_second = np.zeros(len(following)), np.zeros(len(following))
    for _ in range(horizon):
        changed = 0.0
        for s in states:
            mean, square = 0.0, 0.0
            for a in range(following.shape[1]):
                share = mixed[s, a] if len(mixed) else 1.0 if actions[s] == a else 0.0
                if share > 0.0:
                    for k in range(following.shape[2]):
                        chance, r = share * chances[s, a, k], reward[s, a, k]
                        later, later_square = 0.0, 0.0
                        if not ends[s, a, k]:
                            later, later_square = gamma * first[following[s, a, k]], second[following[s, a, k]]
                        mean += chance * (r + later)
                        square += chance * (r * r + 2.0 * r * later + gamma * gamma * later_square)
            changed = max(changed, abs(mean - first[s]), abs(square - second[s]))
            new_first[s], new_second[s] = mean, square
        for s in states:
            first[s], second[s] = new_first[s], new_second[s]
        if changed == 0.0:
            break
    mean, square = 0.0, 0.0
    for s in range(len(start)):
        mean += start[s] * first[s]
        square += start[s] * second[s]
    return math.sqrt(max(square - mean * mean, 0.0))
