from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import reference
from scipy.stats import binomtest

from pastmaster import cross_values, evaluate, policy_distance, solve
from pastmaster.domains import windy_corridor

NORTH, EAST, SOUTH, WEST = range(4)
LEVEL = 1e-6  # the chance that a statistical test fails although all is well


def cell(row: int, column: int, n_columns: int = 6) -> int:
    return row * n_columns + column


# Layout


def test_the_family_is_ordered_by_goal_and_then_by_wind():
    tasks = windy_corridor.family()
    assert len(tasks) == 100
    for index, task in enumerate(tasks):
        assert task.params["goal"] == index // 10
        assert task.params["wind"] == pytest.approx(index % 10 / 10)
        assert (task.n_states, task.n_actions, task.gamma, task.horizon) == (60, 4, 0.9, 200)
        assert task.start == cell(5, 0)
        assert task.is_deterministic == (index % 10 == 0)


def test_the_familys_settings_reach_every_task():
    for task in windy_corridor.family(corridor=2, gamma=0.8, horizon=None, terminating=True):
        assert (task.n_states, task.gamma, task.horizon) == (50, 0.8, None)
        assert task.terminated.any()


def test_moves_without_wind_are_stopped_by_the_border_and_by_corridor_walls():
    task = windy_corridor.task(4, 0.0)
    for row in range(10):
        for column in range(6):
            if (row, column) == (4, 5):
                continue
            sides = column < 3  # only the first three columns are open to the north and south
            expected = [
                cell(row - 1 if sides and row > 0 else row, column),
                cell(row, min(column + 1, 5)),
                cell(row + 1 if sides and row < 9 else row, column),
                cell(row, max(column - 1, 0)),
            ]
            assert task.next_state[cell(row, column)].tolist() == expected


def test_wind_blows_north_in_the_two_columns_before_the_corridors_only():
    task = windy_corridor.task(4, 0.3)
    for s, a in np.ndindex(60, 4):
        row, column = divmod(s, 6)
        possible = reference.outcomes(task, s, a)
        if column in (1, 2):
            calm, gust = possible
            assert (calm[0], gust[0]) == (pytest.approx(0.7), pytest.approx(0.3))
            assert gust[1] == cell(max(row - 1, 0), column)
            assert calm[1] == windy_corridor.task(4, 0.0).next_state[s, a]
        else:
            assert len(possible) == 1


def test_the_goal_holds_the_agent_and_pays_one_a_step():
    task = windy_corridor.task(7, 0.2)
    goal = cell(7, 5)
    paid = {s for s, a in np.ndindex(60, 4) for _, _, reward, _ in reference.outcomes(task, s, a) if reward}
    assert paid == {goal}
    assert all(reference.outcomes(task, goal, a) == [(1.0, goal, 1.0, False)] for a in range(4))
    assert not task.terminated.any()


def test_the_terminating_variant_pays_once_and_ends():
    task = windy_corridor.task(7, 0.2, terminating=True)
    goal = cell(7, 5)
    for s, a in np.ndindex(60, 4):
        for _, following, reward, terminated in reference.outcomes(task, s, a):
            assert terminated == (following == goal)
            assert reward == (1.0 if following == goal and s != goal else 0.0)
    assert reference.outcomes(task, cell(7, 4), EAST) == [(1.0, goal, 1.0, True)]


# Values


@pytest.mark.parametrize("goal", range(10))
def test_without_wind_the_goal_is_as_far_as_the_rows_and_columns_between(goal):
    steps = 5 + abs(goal - 5)
    assert solve(windy_corridor.task(goal, 0.0)).start_value == pytest.approx(0.9**steps / (1 - 0.9), abs=1e-10)
    ending = windy_corridor.task(goal, 0.0, terminating=True)
    assert solve(ending).start_value == pytest.approx(0.9 ** (steps - 1), abs=1e-10)


def test_the_horizon_cuts_what_the_goal_pays():
    for horizon in (10, 11, 50, 200):
        task = windy_corridor.task(0, 0.0, horizon=horizon)
        value = evaluate(task, solve(task).policy)[task.start]
        assert value == pytest.approx((0.9**10 - 0.9**horizon) / (1 - 0.9), abs=1e-10)


@pytest.mark.parametrize("corridor", [1, 2, 5])
def test_longer_corridors_are_longer(corridor):
    task = windy_corridor.task(5, 0.0, corridor=corridor)
    assert task.n_states == 10 * (3 + corridor)
    assert solve(task).start_value == pytest.approx(0.9 ** (2 + corridor) / (1 - 0.9), abs=1e-10)


@pytest.mark.parametrize("wind", windy_corridor.WINDS)
def test_a_gust_against_the_northern_wall_costs_a_step(wind):
    """From (0, 2), east works with probability 1 - p: V = gamma (1 - p) gamma^2 / (1 - gamma) / (1 - gamma p)."""
    task = windy_corridor.task(0, wind)
    expected = 0.9**3 / (1 - 0.9) * (1 - wind) / (1 - 0.9 * wind)
    assert solve(task).value[cell(0, 2)] == pytest.approx(expected, abs=1e-10)


def test_wind_that_always_blows_keeps_every_goal_out_of_reach_but_the_way_back():
    task = windy_corridor.task(3, 1.0)
    assert solve(task).value[cell(5, 0)] == 0.0
    assert solve(task).value[cell(3, 3)] == pytest.approx(0.9**2 / (1 - 0.9))


def test_tasks_of_one_goal_are_closer_than_tasks_of_two():
    tasks = [windy_corridor.task(goal, wind) for goal in range(10) for wind in (0.0, 0.1, 0.2)]
    d = policy_distance(cross_values(tasks))
    goals = np.repeat(np.arange(10), 3)
    same = goals[:, None] == goals
    assert d[same].max() < 0.5 * d[~same].min()


@pytest.mark.parametrize("index", [0, 37, 99])
def test_a_windy_task_agrees_with_the_dense_solve(index):
    task = windy_corridor.family(horizon=None)[index]
    solution = solve(task)
    np.testing.assert_allclose(solution.value, reference.optimal_values_by_iteration(task), rtol=0, atol=1e-8)
    np.testing.assert_allclose(evaluate(task, solution.policy), solution.value, rtol=0, atol=1e-8)


# The environment


@pytest.mark.parametrize("wind", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("column", [1, 2])
def test_the_wind_blows_as_often_as_it_should(seed, wind, column):
    """Enter the column in row 5, then go south: pushed north instead with probability ``wind``."""
    env = gym.make("pastmaster/WindyCorridor-v0", wind=wind).unwrapped
    env.reset(seed=seed)
    gusts = trials = 0
    while trials < 1500:
        state, _ = env.reset()
        while state % 6 < column:
            state, *_ = env.step(EAST)
        row = state // 6
        if row == 0 or state % 6 != column:
            continue
        following, *_ = env.step(SOUTH)
        assert following in (cell(row - 1, column), cell(min(row + 1, 9), column))
        gusts += following == cell(row - 1, column)
        trials += 1
    assert binomtest(gusts, trials, wind).pvalue > LEVEL
    assert binomtest(gusts, trials, wind + 0.1 if wind < 0.9 else 0.8).pvalue < LEVEL  # another wind would be noticed


def test_no_wind_blows_elsewhere(seed):
    env = gym.make("pastmaster/WindyCorridor-v0", wind=1.0, goal=5).unwrapped
    state, _ = env.reset(seed=seed)
    for action, row in ((NORTH, 4), (SOUTH, 5), (SOUTH, 6), (WEST, 6)):
        state, *_ = env.step(action)
        assert state == cell(row, 0)


def test_the_settings_of_the_environment_are_those_of_the_task():
    env = gym.make("pastmaster/WindyCorridor-v0", goal=3, wind=0.2, corridor=4, gamma=0.5, horizon=9, terminating=True)
    task, expected = env.unwrapped.mdp, windy_corridor.task(3, 0.2, corridor=4, gamma=0.5, horizon=9, terminating=True)
    for name in ("next_state", "reward", "probability", "terminated"):
        assert np.array_equal(getattr(task, name), getattr(expected, name))
    assert (task.gamma, task.horizon, task.params) == (0.5, 9, expected.params)


def test_the_text_picture_shows_agent_wind_and_goal():
    env = gym.make("pastmaster/WindyCorridor-v0", goal=2, wind=0.3, render_mode="ansi").unwrapped
    env.reset()
    rows = [line.split(" ") for line in env.render().splitlines()]
    assert rows[5] == ["A", "^", "^", "-", "-", "-"]
    assert rows[2] == [".", "^", "^", "-", "-", "G"]
    assert "0.3" in env.render().splitlines()[10]


# Refusals


def test_new_tasks_have_the_settings_asked_for_and_other_winds_than_the_family(rng):
    settings = {"corridor": 2, "gamma": 0.8, "horizon": 50, "terminating": True}
    found = windy_corridor.new_tasks(40, rng=rng, **settings)
    for one in found:
        goal, wind = one.params["goal"], one.params["wind"]
        assert 0 <= wind <= 0.9
        expected = windy_corridor.task(goal, wind, **settings)
        assert (one.gamma, one.horizon, one.params) == (0.8, 50, expected.params)
        assert np.array_equal(one.probability, expected.probability)
    assert len({one.params["wind"] for one in found}) == 40
    assert len({one.params["goal"] for one in found}) > 3


def test_new_tasks_depend_on_the_generator_alone(seed):
    first, again, other = (
        [task.name for task in windy_corridor.new_tasks(3, rng=np.random.default_rng(s))]
        for s in (seed, seed, seed + 1)
    )
    assert first == again != other
