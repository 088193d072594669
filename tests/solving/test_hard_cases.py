"""Tasks that break a solver or a bound that is only nearly right."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pastmaster import TabularMDP, cross_values, domains, evaluate, return_bounds, solve


def serpentine(size: int, gamma: float) -> TabularMDP:
    """A maze of one path, row by row to and fro, from the first cell of it to the last, which pays 1."""
    cells = np.arange(size * size).reshape(size, size)
    cells[1::2] = cells[1::2, ::-1]
    path = cells.ravel()
    next_state, reward, terminated = np.empty((size * size, 2), int), np.zeros((size * size, 2)), None
    next_state[path[1:], 0], next_state[path[0], 0] = path[:-1], path[0]
    next_state[path[:-1], 1], next_state[path[-1], 1] = path[1:], path[-1]
    terminated = np.zeros(next_state.shape, bool)
    reward[path[-1], 1], terminated[path[-1], 1] = 1.0, True
    return TabularMDP(next_state, reward, terminated=terminated, gamma=gamma, start=int(path[0]))


@pytest.mark.parametrize(("size", "gamma"), [(60, 0.999), (100, 0.9999)])
def test_a_long_winding_path_is_solved(size, gamma):
    maze = serpentine(size, gamma)
    solution = solve(maze)
    assert solution.converged
    assert solution.start_value == pytest.approx(gamma ** (size * size - 1), rel=1e-9)
    assert return_bounds(maze).upper == pytest.approx(gamma ** (size * size - 1), rel=1e-4)


def test_a_path_in_random_order_is_solved(rng):
    order = rng.permutation(1500)
    next_state, terminated, reward = np.empty((1500, 1), int), np.zeros((1500, 1), bool), np.zeros((1500, 1))
    next_state[order[:-1], 0], next_state[order[-1], 0] = order[1:], order[-1]
    terminated[order[-1]], reward[order[-1]] = True, 1.0
    chain = TabularMDP(np.repeat(next_state, 2, axis=1), np.repeat(reward, 2, axis=1), gamma=0.999,
                       terminated=np.repeat(terminated, 2, axis=1), start=int(order[0]))  # fmt: skip
    assert solve(chain).converged
    assert solve(chain).start_value == pytest.approx(0.999**1499, rel=1e-9)


def test_the_error_bound_holds_where_large_rewards_cancel(rng):
    for _ in range(200):
        chances = rng.dirichlet(np.ones(3))
        large = rng.normal(size=2) * 10.0 ** rng.integers(3, 13)
        rewards = [large[0], large[1], -(chances[0] * large[0] + chances[1] * large[1]) / chances[2] + 1.0]
        mdp = TabularMDP([[[0, 0, 0]]], [[rewards]], probability=[[chances]], terminated=[[[True] * 3]], gamma=0.5)
        exact = sum(Fraction(float(p)) * Fraction(r) for p, r in zip(mdp.probability[0, 0], rewards, strict=True))
        solution = solve(mdp)
        assert abs(Fraction(float(solution.value[0])) - exact) <= Fraction(solution.error_bound)


def test_a_task_of_two_scales_is_solved_on_both():
    solution = solve(TabularMDP([[0, 0], [1, 1]], [[0.0, 1.0], [1e10, 1e10]], gamma=0.9))
    assert solution.policy.tolist() == [1, 0]
    assert solution.value == pytest.approx([10.0, 1e11])


def test_what_cannot_happen_does_not_widen_the_bounds():
    impossible = TabularMDP([[[0, 0, 0]]], [[[0, 1, 1e20]]], probability=[[[0.5, 0.5, 0]]], gamma=0.9)
    unreached = TabularMDP([[0], [1]], [[1.0], [1e20]], gamma=0.9)
    for task in (impossible, unreached):
        assert return_bounds(task).upper == pytest.approx(10.0, rel=1e-9)


@pytest.mark.parametrize("gamma", [0.9, 0.9999, 1 - 1e-8, 1 - 1e-12])
def test_a_capped_cycle_is_exact_however_near_one_gamma_is(gamma):
    task = TabularMDP([[0]], [[1.0]], gamma=gamma, horizon=200)
    exact = float(sum(Fraction(gamma) ** n for n in range(200)))
    assert cross_values([task], [[0]])[0, 0] == pytest.approx(exact, rel=1e-14)
    assert evaluate(task, [0])[0] == pytest.approx(exact, rel=1e-14)


def test_rows_that_nearly_sum_to_one_are_made_to():
    task = TabularMDP([[[0, 0]]], [[[1.0, 1.0]]], probability=[[[0.5, 0.5 + 9e-10]]], gamma=0.9999)
    assert task.probability.sum() == pytest.approx(1.0, abs=1e-15)
    assert solve(task).start_value == pytest.approx(1e4, rel=1e-10)
    assert evaluate(task, [[1.0 + 5e-10]])[0] == pytest.approx(1e4, rel=1e-10)


def test_a_family_has_a_task_of_every_sequence():
    for seed in range(20):
        tasks = domains.surveillance.family(6, 2, rng=np.random.default_rng(seed), n_sequences=6)
        assert len(np.unique(domains.surveillance.group_sequences(tasks), axis=0)) == 6
