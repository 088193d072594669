"""``solve`` for gamma near 1, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from pastmaster import TabularMDP, solve

GAMMAS = [0.5, 0.99, 0.997, 0.998, 0.9999, *(1 - 10.0**-k for k in range(5, 16)), float(np.nextafter(1.0, 0.0))]
TOL = 1e-9


def exact_value(task: TabularMDP, policy) -> list[Fraction]:
    """V of a policy by elimination in rational numbers, of the model as it is stored."""
    reward, next_state, weight = task.model()
    n = task.n_states
    rows = []
    for s in range(n):
        row = [Fraction(0)] * (n + 1)
        row[s] += 1
        row[n] = Fraction(float(reward[s, policy[s]]))
        for to, w in zip(next_state[s, policy[s]].tolist(), weight[s, policy[s]].tolist(), strict=True):
            row[to] -= Fraction(w)
        rows.append(row)
    for i in range(n):
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [row[n] for row in rows]


def exact_optimum(task: TabularMDP) -> list[Fraction]:
    """V*, by trying all policies."""
    values = [exact_value(task, policy) for policy in product(range(task.n_actions), repeat=task.n_states)]
    return [max(column) for column in zip(*values, strict=True)]


def gaps(task: TabularMDP, best: list[Fraction], s: int) -> list[tuple[Fraction, Fraction]]:
    """How far each action is behind the best in a state, and what its value is summed from."""
    reward, next_state, weight = task.model()
    q, sizes = [], []
    for a in range(task.n_actions):
        r = Fraction(float(reward[s, a]))
        pairs = list(zip(next_state[s, a].tolist(), weight[s, a].tolist(), strict=True))
        q.append(r + sum(Fraction(w) * best[to] for to, w in pairs))
        sizes.append(abs(r) + sum(Fraction(w) * abs(best[to]) for to, w in pairs))
    return [(max(q) - value, size) for value, size in zip(q, sizes, strict=True)]


def drawn_task(rng, gamma: float, stochastic: bool) -> TabularMDP:
    n_states, n_actions = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    shape = (n_states, n_actions, 2) if stochastic else (n_states, n_actions)
    chances = (
        {"probability": np.tile(rng.choice([0.25, 0.5, 0.75], size=shape[:2])[..., None], 2)} if stochastic else {}
    )
    if stochastic:
        chances["probability"][..., 1] = 1.0 - chances["probability"][..., 0]
    reward = rng.integers(-2, 3, size=shape) * 2.0 ** rng.integers(-20, 3)
    return TabularMDP(
        rng.integers(n_states, size=shape), reward, gamma=gamma, terminated=rng.random(shape) < 0.1, **chances
    )


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("stochastic", [False, True])
def test_the_policy_is_the_canonical_one_of_rational_arithmetic(rng, gamma, stochastic):
    """In each state the lowest action that is behind by at most tol (1 - gamma) / 2 of what it is summed from."""
    tie = Fraction(TOL) * (1 - Fraction(gamma)) / 2
    for _ in range(25):
        task = drawn_task(rng, gamma, stochastic)
        solution, best = solve(task, tol=TOL), exact_optimum(task)
        value = exact_value(task, solution.policy)
        for s in range(task.n_states):
            behind = gaps(task, best, s)
            largest = max(size for _, size in behind)
            a = int(solution.policy[s])
            assert behind[a][0] <= 2 * tie * largest
            for lower in range(a):
                assert behind[lower][0] > tie * behind[lower][1] / 2
            assert abs(Fraction(float(solution.value[s])) - value[s]) <= Fraction(solution.error_bound)
            assert best[s] - value[s] <= Fraction(solution.error_bound)
            assert best[s] - value[s] <= Fraction(TOL) * max(map(abs, [*best, Fraction(task.largest_reward())]))


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_better_action_is_taken_however_near_one(gamma):
    assert solve(TabularMDP([[0, 0]], [[0.5, 1.0]], gamma=gamma)).policy.tolist() == [1]
    through = TabularMDP([[1, 2], [0, 0], [0, 0]], [[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]], gamma=gamma)
    assert solve(through).policy.tolist() == [1, 0, 0]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_equal_actions_stay_equal_however_near_one(gamma):
    """Cycles of one, two and three states that pay the same in every step: rounding must not choose between them."""
    next_state = np.array([[5, 2, 1], [1, 1, 1], [3, 3, 3], [2, 2, 2], [5, 5, 5], [6, 6, 6], [4, 4, 4]])
    task = TabularMDP(next_state, np.ones((7, 3)), gamma=gamma)
    assert solve(task).policy.tolist() == [0] * 7


def test_rewards_too_large_to_split_are_solved_too():
    task = TabularMDP([[0, 1], [1, 0]], [[1e293, 2e293], [0.0, 1e293]], gamma=1 - 1e-6)
    assert solve(task).policy.tolist() in ([1, 1], [0, 1])
