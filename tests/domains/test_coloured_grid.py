from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import reference

from pastmaster import evaluate, solve
from pastmaster.domains import coloured_grid

NORTH, EAST, SOUTH, WEST = range(4)


# Layout


def test_the_default_grid_is_ten_by_ten_from_corner_to_corner():
    task = coloured_grid.task([0.2, 0.9])
    assert (task.n_states, task.n_actions, task.gamma, task.horizon, task.start) == (100, 4, 0.9, 200, 0)
    assert task.is_deterministic
    assert task.params == {"weights": [0.2, 0.9], "size": 10, "seed": 0}


def test_the_colours_are_fixed_by_the_seed():
    grid = coloured_grid.colours(10, 3)
    assert grid.shape == (10, 10)
    assert set(grid.ravel().tolist()) == {0, 1}
    assert np.array_equal(grid, coloured_grid.colours(10, 3))
    assert not np.array_equal(grid, coloured_grid.colours(10, 4))


def test_moves_are_stopped_by_the_border():
    task = coloured_grid.task([0.5, 0.5], size=3)
    expected = [
        [0, 1, 3, 0], [1, 2, 4, 0], [2, 2, 5, 1],
        [0, 4, 6, 3], [1, 5, 7, 3], [2, 5, 8, 4],
        [3, 7, 6, 6], [4, 8, 7, 6],
    ]  # fmt: skip
    assert task.next_state[:8].tolist() == expected


def test_entering_the_opposite_corner_ends_the_episode_and_nothing_else_does():
    task = coloured_grid.task([0.5, 0.5], size=4)
    assert np.array_equal(task.terminated, task.next_state == 15)
    assert task.terminated[14, EAST]
    assert task.terminated[11, SOUTH]


# Rewards and values


@pytest.mark.parametrize("colour_seed", range(8))
def test_on_two_by_two_a_cell_and_its_neighbours_are_all_but_the_opposite_corner(colour_seed):
    weights = np.array([0.3, 0.8])
    paint = weights[coloured_grid.colours(2, colour_seed)]
    around = paint.sum() - paint[::-1, ::-1]
    task = coloured_grid.task(weights, size=2, seed=colour_seed)
    for s in range(3):
        for a in range(4):
            assert task.reward[s, a] == pytest.approx(around.ravel()[task.next_state[s, a]], abs=1e-12)


@pytest.mark.parametrize("colour_seed", range(4))
def test_on_three_by_three_the_sums_are_those_counted_by_hand(colour_seed):
    weights = np.array([0.25, 1.0])
    (a, b, c), (d, e, f), (g, h, i) = weights[coloured_grid.colours(3, colour_seed)].tolist()
    around = [
        a + b + d,
        a + b + c + e,
        b + c + f,
        a + d + e + g,
        b + d + e + f + h,
        c + e + f + i,
        d + g + h,
        e + g + h + i,
        f + h + i,
    ]
    task = coloured_grid.task(weights, size=3, seed=colour_seed)
    for s in range(8):
        np.testing.assert_allclose(task.reward[s], np.array(around)[task.next_state[s]], rtol=0, atol=1e-12)


def test_a_cell_counts_itself_and_its_neighbours_inside_the_grid():
    paint = coloured_grid.colours(10, 0)
    weights = (0.2, 0.9)
    task = coloured_grid.task(weights)
    for s in range(99):
        for a in range(4):
            row, column = divmod(int(task.next_state[s, a]), 10)
            cells = [(row, column), (row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            total = sum(weights[paint[r, c]] for r, c in cells if 0 <= r < 10 and 0 <= c < 10)
            assert task.reward[s, a] == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("colour_seed", range(4))
def test_the_smallest_grids_are_solved_as_by_trying_every_policy(colour_seed):
    task = coloured_grid.task([0.4, 0.7], size=2, seed=colour_seed)
    np.testing.assert_allclose(solve(task).value, reference.optimal_values_by_enumeration(task), rtol=0, atol=1e-10)


def test_with_one_weight_for_both_colours_the_best_is_to_pace_where_five_cells_count():
    """From the middle of a 4 x 4 grid: every step between inner cells pays 5 w, for ever."""
    task = coloured_grid.task([0.5, 0.5], size=4)
    value = solve(task).value
    assert value[5] == pytest.approx(5 * 0.5 / (1 - 0.9), abs=1e-9)
    assert value[0] == pytest.approx(4 * 0.5 + 0.9 * 2.5 / (1 - 0.9), abs=1e-9)


def test_values_are_linear_in_the_weights(rng):
    first, second, both = coloured_grid.family([[1, 0], [0, 1], [0.3, 0.8]])
    policy = reference.random_policy(rng, both)
    expected = 0.3 * evaluate(first, policy) + 0.8 * evaluate(second, policy)
    np.testing.assert_allclose(evaluate(both, policy), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("angle", np.linspace(0, np.pi / 2, 9))
def test_tasks_on_one_ray_share_a_policy(angle):
    direction = np.clip([np.cos(angle), np.sin(angle)], 0, 1)
    tasks = coloured_grid.family(np.outer([1.0, 0.7, 1 / 3, 0.05, 1e-4], direction))
    policies = {solve(task).policy.tobytes() for task in tasks}
    assert len(policies) == 1


def test_tasks_on_opposite_rays_do_not_share_a_policy():
    one, other = coloured_grid.family([[1, 0], [0, 1]])
    assert not np.array_equal(solve(one).policy, solve(other).policy)


def test_a_coloured_grid_agrees_with_the_dense_solve():
    task = coloured_grid.task([0.2, 0.9], size=8, seed=5, horizon=None)
    solution = solve(task)
    np.testing.assert_allclose(solution.value, reference.optimal_values_by_iteration(task), rtol=0, atol=1e-8)


# The family and the environment


def test_the_family_has_a_task_for_each_row(rng):
    weights = rng.random((5, 2))
    tasks = coloured_grid.family(weights, size=6, seed=2, gamma=0.8, horizon=None)
    assert [task.params["weights"] for task in tasks] == weights.tolist()
    for task in tasks:
        assert (task.n_states, task.gamma, task.horizon) == (36, 0.8, None)
        assert np.array_equal(task.next_state, tasks[0].next_state)


def test_the_settings_of_the_environment_are_those_of_the_task():
    env = gym.make("pastmaster/ColouredGrid-v0", weights=(0.1, 0.6), size=5, seed=3, gamma=0.5, horizon=9)
    task, expected = env.unwrapped.mdp, coloured_grid.task((0.1, 0.6), 5, 3, gamma=0.5, horizon=9)
    assert np.array_equal(task.reward, expected.reward)
    assert (task.gamma, task.horizon, task.params) == (0.5, 9, expected.params)


def test_a_walk_along_the_border_reaches_the_end():
    env = gym.make("pastmaster/ColouredGrid-v0", size=4).unwrapped
    env.reset()
    ends = [env.step(action)[2] for action in [EAST] * 3 + [SOUTH] * 3]
    assert ends == [False] * 5 + [True]


def test_the_text_picture_shows_agent_colours_and_end():
    env = gym.make("pastmaster/ColouredGrid-v0", size=5, seed=1, render_mode="ansi").unwrapped
    env.reset()
    env.step(SOUTH)
    rows = [line.split(" ") for line in env.render().splitlines()[:5]]
    expected = np.array(["o", "+"])[coloured_grid.colours(5, 1)].tolist()
    expected[1][0], expected[4][4] = "A", "E"
    assert rows == expected


# Refusals


def test_new_tasks_have_weights_of_the_generator_and_the_settings_asked_for(seed):
    settings = {"size": 4, "seed": 3, "gamma": 0.8, "horizon": 50}
    found = coloured_grid.new_tasks(5, rng=np.random.default_rng(seed), **settings)
    expected = coloured_grid.family(np.random.default_rng(seed).random((5, 2)), **settings)
    for one, other in zip(found, expected, strict=True):
        assert (one.gamma, one.horizon, one.params) == (0.8, 50, other.params)
        assert np.array_equal(one.reward, other.reward)
