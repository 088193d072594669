"""The standard deviation of one return: against enumeration of all episodes, against simulation, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference

from pastmaster import GymTask, InvalidInputError, TabularMDP, evaluate, return_spread


def enumerated(mdp, policy, horizon):
    """All returns of an episode and their probabilities, one by one; the mean and the standard deviation."""
    table = policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]
    found = []

    def go(s, chance, total, steps):
        if steps == horizon:
            found.append((chance, total))
            return
        for a in np.flatnonzero(table[s]):
            for p, following, reward, terminated in reference.outcomes(mdp, s, int(a)):
                after, probability = total + mdp.gamma**steps * reward, chance * float(table[s, a]) * p
                found.append((probability, after)) if terminated else go(following, probability, after, steps + 1)

    for s, p in enumerate(reference.start_distribution(mdp)):
        if p > 0:
            go(s, p, 0.0, 0)
    chances, totals = np.array(found).T
    assert chances.sum() == pytest.approx(1.0)
    mean = chances @ totals
    return mean, math.sqrt(max(chances @ (totals - mean) ** 2, 0.0))


@pytest.mark.parametrize("outcomes", [None, 1, 2, 3])
@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_it_is_that_of_all_episodes_enumerated(outcomes, horizon, seed):
    rng = np.random.default_rng([seed, horizon, 0 if outcomes is None else outcomes])
    for _ in range(10):
        mdp = reference.random_mdp(
            rng, 3, 2, outcomes, horizon=horizon, ending=0.2, gamma=float(rng.choice([0.0, 0.6, 0.95]))
        )
        policies = [reference.random_policy(rng, mdp), reference.random_policy(rng, mdp, mixed=True)]
        found = return_spread([mdp], policies)
        for j, policy in enumerate(policies):
            mean, spread = enumerated(mdp, np.asarray(policy), horizon)
            start = reference.start_distribution(mdp)
            assert start @ evaluate(mdp, policy) == pytest.approx(mean, abs=1e-9)  # so is its mean
            assert found[0, j] == pytest.approx(spread, abs=1e-9)


def simulated(mdp, policy, rng, n, steps):
    """The returns of n episodes, all at once."""
    P, table = mdp, policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]
    start = reference.start_distribution(mdp)
    s, alive, total = rng.choice(len(start), n, p=start), np.ones(n, bool), np.zeros(n)
    chances, following, reward, ends = P.outcomes()
    for t in range(steps):
        a = (rng.random(n)[:, None] > table[s].cumsum(axis=1)).sum(axis=1).clip(max=mdp.n_actions - 1)
        k = (rng.random(n)[:, None] > chances[s, a].cumsum(axis=1)).sum(axis=1).clip(max=chances.shape[2] - 1)
        total += np.where(alive, mdp.gamma**t * reward[s, a, k], 0.0)
        alive &= ~np.asarray(ends[s, a, k], bool)
        s = following[s, a, k]
    return total


@pytest.mark.parametrize("horizon", [None, 30])
@pytest.mark.parametrize("mixed", [False, True])
def test_it_is_that_of_simulated_episodes(horizon, mixed, seed):
    """20,000 episodes; the standard error of a variance is sqrt((m4 - v^2) / n), five of them are allowed."""
    rng = np.random.default_rng(seed)
    mdp = reference.random_mdp(rng, 6, 3, 3, horizon=horizon, ending=0.1, gamma=0.9)
    policy = reference.random_policy(rng, mdp, mixed=mixed)
    returns = simulated(mdp, np.asarray(policy), rng, 20_000, horizon or 120)
    centred = returns - returns.mean()
    variance = (centred**2).mean()
    error = math.sqrt(((centred**4).mean() - variance**2) / len(returns))
    assert abs(return_spread([mdp], [policy])[0, 0] ** 2 - variance) <= 5 * error
    assert variance > 50 * error  # the test can tell


def test_where_nothing_is_left_to_chance_it_is_0(rng):
    mdp = reference.random_mdp(rng, 5, 2, None, horizon=9)
    sure = TabularMDP(mdp.next_state, mdp.reward, terminated=mdp.terminated, gamma=0.9, horizon=9, start=2)
    policy = reference.random_policy(rng, sure)
    assert return_spread([sure], [policy]).tolist() == [[0.0]]
    assert return_spread([sure], [np.full((5, 2), 0.5)])[0, 0] > 0.0
    two = TabularMDP([[0], [1]], [[0.0], [1.0]], terminated=[[True], [True]], gamma=0.9, start=[0.5, 0.5])
    assert return_spread([two], [[0, 0]])[0, 0] == pytest.approx(0.5)  # by the start alone


def test_a_coin_each_step_for_ever():
    """The variance is 1/4 sum of gamma^2t = 1 / (4 (1 - gamma^2))."""
    for gamma in (0.0, 0.5, 0.9, 0.99):
        coin = TabularMDP([[[0, 0]]], [[[0.0, 1.0]]], probability=[[[0.5, 0.5]]], gamma=gamma)
        assert return_spread([coin], [[0]])[0, 0] == pytest.approx(0.5 / math.sqrt(1 - gamma**2), rel=1e-9)


def test_a_small_spread_beside_a_large_mean_is_found():
    """The difference of two large squares loses what is below 1e-8 of the mean."""
    coin = TabularMDP(
        [[[0, 0]]], [[[1000.0, 1000.1]]], probability=[[[0.5, 0.5]]], terminated=[[[True, True]]], gamma=0.9
    )
    assert return_spread([coin], [[0]])[0, 0] == pytest.approx(0.05, rel=1e-3)


def test_shapes_and_refusals(rng):
    tasks = [reference.random_mdp(rng, 4, 2, 2, horizon=3) for _ in range(3)]
    policies = [reference.random_policy(rng, tasks[0]) for _ in range(2)]
    found = return_spread(tasks, policies)
    assert found.shape == (3, 2)
    for i, task in enumerate(tasks):
        for j, policy in enumerate(policies):
            assert return_spread([task], [policy])[0, 0] == found[i, j]
    with pytest.raises(InvalidInputError, match=r"return_spread: tasks\[0\] is a GymTask, must be a TabularMDP"):
        return_spread([GymTask("CartPole-v1", gamma=0.9)], policies)
    with pytest.raises(InvalidInputError, match=r"return_spread: policies\[0\]"):
        return_spread(tasks, [[0, 1]])
    with pytest.raises(InvalidInputError, match=r"return_spread: tasks"):
        return_spread(7, policies)
