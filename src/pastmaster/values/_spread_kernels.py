"""Second moments of returns, compiled."""

import math

import numpy as np

from pastmaster.compiled import kernel


@kernel
def spread(chances, following, reward, ends, gamma, horizon, states, start):
    """The standard deviation of one return, by what can happen in each state [S, K] and the states that are met."""
    first, second = np.zeros(len(following)), np.zeros(len(following))
    new_first, new_second = np.zeros(len(following)), np.zeros(len(following))
    for _ in range(horizon):
        changed = 0.0
        for s in states:
            mean, square = 0.0, 0.0
            for k in range(following.shape[1]):
                chance, r = chances[s, k], reward[s, k]
                later, later_square = 0.0, 0.0
                if not ends[s, k]:
                    later, later_square = gamma * first[following[s, k]], second[following[s, k]]
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
