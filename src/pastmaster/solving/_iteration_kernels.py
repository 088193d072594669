"""The compiled loop of ``solve``: sweeps, policy iteration, the canonical policy, and the certificate.

Rounding. Actions within ``tie`` = tol (1 - gamma) / 2 of the best, relative to what their values are summed from, are
equally good: a policy of such actions is worth at most tol / 2 less. Values in double precision are off by at most some
EPS / (1 - gamma). Where that is below the tie, double precision decides. Where it is not, for gamma near 1, policy
iteration ends in twice the precision (``_fine_kernels``): a wider tie would give away actions that are known to be
better, by as much as 16 EPS / (1 - gamma)^2 of the value.
"""

from __future__ import annotations

import numpy as np

from pastmaster.compiled import kernel
from pastmaster.solving._fine_kernels import iterate_finely
from pastmaster.solving._kernels import EPS, canonical, chain_of, chain_value, improve, own_residual, sweep

TINY = 2.0**-1022
MAX_SWEEPS = 40  # between two rounds of policy iteration
SETTLED = 0.05  # relative change of a sweep at which policy iteration takes over
FINEST = 2.0**-70  # the narrowest tie: twice the precision resolves no less


@kernel
def solve_model(reward, next_state, weight, largest, gamma, tol, max_iterations):
    """The canonical optimal policy of a model: value, policy, iterations, error bound (see ``policy_iteration``).

    ``largest`` bounds the rewards that the expected ones were summed from.
    """
    value = np.full(len(reward), lowest_value(reward, gamma))
    policy = np.zeros(len(reward), np.int32)
    tie = 0.5 * tol * (1.0 - gamma)
    fine = tie < 16.0 * EPS / (1.0 - gamma)
    iterations, worth = 0, -np.inf
    while iterations < max_iterations:
        iterations += settle_sweeps(reward, next_state, weight, value)
        if worth == -np.inf:
            canonical(reward, next_state, weight, value, largest, max(tie, 16.0 * EPS), policy)
        else:
            improve(reward, next_state, weight, value, 0.0, policy)
        chain_value(*chain_of(reward, next_state, weight, policy), gamma, value)
        iterations += 1
        if not value.sum() > worth:  # only rounding switches actions without a gain
            break
        worth = value.sum()
        if improve(reward, next_state, weight, value, 16.0 * EPS * np.abs(value).max(), policy) == 0:
            break
    given_away = 0.0
    if fine:
        finest = max(tie, FINEST)
        iterations += iterate_finely(reward, next_state, weight, gamma, finest, max_iterations, value, policy)
        _, residual = canonical(reward, next_state, weight, value, largest, 0.0, policy.copy())
    else:
        switches, residual = canonical(reward, next_state, weight, value, largest, tie, policy)
        if switches:
            best = value.copy()
            chain_value(*chain_of(reward, next_state, weight, policy), gamma, value)
            given_away = np.abs(best - value).max()
    slack = 4.0 * (next_state.shape[2] + 2) * (EPS * (np.abs(value).max() + largest) + (TINY if largest > 0.0 else 0.0))
    optimal = given_away + (residual + slack) / (1.0 - gamma)
    own = (own_residual(reward, next_state, weight, value, policy) + slack) / (1.0 - gamma)
    return value, policy, iterations, max(optimal, own) * (1.0 + 8.0 * EPS)


@kernel
def settle_sweeps(reward, next_state, weight, value):
    """Optimal sweeps, backwards and forwards in turn, until one changes little; returns their number."""
    for i in range(MAX_SWEEPS):
        change = sweep(reward, next_state, weight, value, i % 2 == 0)
        if change <= SETTLED * np.abs(value).max():
            break
    return i + 1


@kernel
def lowest_value(reward, gamma):
    """A value below V* from which backups only rise: the reward of the worst state's best action, for ever."""
    lowest = 0.0
    for s in range(len(reward)):
        best = reward[s, 0]
        for a in range(reward.shape[1]):
            best = max(best, reward[s, a])
        lowest = min(lowest, best)
    return lowest / (1.0 - gamma)
