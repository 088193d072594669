"""``from_gymnasium`` and ``to_gymnasium`` of ``mdp``: the table P in and out."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import reference

from pastmaster import InvalidInputError, TabularMDP, domains


def table_without_impossible(table: Any) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    return {
        s: {
            a: [(float(p), int(n), float(r), bool(t)) for p, n, r, t in table[s][a] if p > 0]
            for a in range(len(table[s]))
        }
        for s in range(len(table))
    }


@pytest.mark.parametrize("map_name", ["4x4", "8x8"])
@pytest.mark.parametrize("is_slippery", [False, True])
def test_frozen_lake_survives_the_round_trip(map_name, is_slippery):
    lake = gym.make("FrozenLake-v1", map_name=map_name, is_slippery=is_slippery)
    mdp = TabularMDP.from_gymnasium(lake, gamma=0.99)
    assert mdp.is_deterministic is not is_slippery
    assert mdp.horizon == lake.spec.max_episode_steps
    assert mdp.start == 0
    original = table_without_impossible(lake.unwrapped.P)
    assert table_without_impossible(mdp.to_gymnasium().P) == original
    again = TabularMDP.from_gymnasium(mdp.to_gymnasium(), gamma=0.99)
    for name in ("next_state", "reward", "probability", "terminated"):
        assert np.array_equal(getattr(again, name), getattr(mdp, name))


def test_the_table_of_a_deterministic_environment_comes_back_whole():
    cliff = gym.make(reference.CLIFF).unwrapped
    assert TabularMDP.from_gymnasium(cliff, gamma=0.9).to_gymnasium().P == cliff.P


@pytest.mark.parametrize("name", ["FrozenLake-v1", reference.TAXI, reference.CLIFF])
def test_p_and_r_are_those_of_the_environment(name):
    env = gym.make(name)
    mdp = TabularMDP.from_gymnasium(name, gamma=0.99)
    P, R = reference.matrices(mdp)
    table = env.unwrapped.P
    expected_P, expected_R = np.zeros_like(P), np.zeros_like(R)
    for s, a in np.ndindex(R.shape):
        for chance, following, reward, terminated in table[s][a]:
            expected_R[s, a] += chance * reward
            expected_P[s, a, following] += 0 if terminated else chance
    assert np.array_equal(P, expected_P)
    assert np.array_equal(R, expected_R)
    assert np.array_equal(reference.start_distribution(mdp), env.unwrapped.initial_state_distrib)
    assert mdp.name == name


def test_the_horizon_is_the_environments_unless_given():
    lake = gym.make("FrozenLake-v1", max_episode_steps=17)
    assert TabularMDP.from_gymnasium(lake, 0.9).horizon == 17
    assert TabularMDP.from_gymnasium(lake, 0.9, horizon=5).horizon == 5
    assert TabularMDP.from_gymnasium(lake, 0.9, horizon=None).horizon is None


def test_our_own_environments_keep_their_horizon_and_start():
    task = domains.windy_corridor.task(3, 0.2, horizon=50)
    again = TabularMDP.from_gymnasium(task.to_gymnasium(), task.gamma)
    assert (again.start, again.horizon) == (task.start, 50)
    assert TabularMDP.from_gymnasium("pastmaster/WindyCorridor-v0", 0.9).horizon == 200


def tabular(table: Any, **attributes: Any) -> gym.Env:
    env = gym.Env()
    env.P = table
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


def test_numpy_numbers_and_shorter_lists_of_outcomes_are_understood():
    table = {
        np.int64(0): {
            0: [(np.float64(0.5), np.int64(1), np.int8(2), np.bool_(False)), (0.5, 1, 4, True)],
            1: [(1, 0, 3, 0)],
        },
        1: {0: [(1.0, 0, -1, False)], 1: [(0.25, 1, 1, False), (0.25, 1, 1, False), (0.5, 0, 0, True)]},
    }
    mdp = TabularMDP.from_gymnasium(tabular(table, initial_state_distrib=np.array([0.0, 1.0])), 0.5)
    P, R = reference.matrices(mdp)
    assert P.tolist() == [[[0, 0.5], [1, 0]], [[1, 0], [0, 0.5]]]
    assert R.tolist() == [[3, 3], [-1, 0.5]]
    assert (mdp.start, mdp.horizon) == (1, None)


def test_a_table_may_be_nested_lists():
    mdp = TabularMDP.from_gymnasium(tabular([[[(1.0, 1, 2.0, False)]], [[(1.0, 1, 0.0, True)]]]), 0.5)
    assert (mdp.next_state.tolist(), mdp.reward.tolist()) == ([[1], [1]], [[2.0], [0.0]])


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(InvalidInputError, match=r"from_gymnasium: .*CartPole.* has no transition table P"):
        TabularMDP.from_gymnasium("CartPole-v1", 0.9)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({0: {0: [(1.0, 0, 0, False)]}, 1: {}}, r"from_gymnasium: P\[1\] has 0 actions, must have 1"),
        ({0: {0: [(1.0, 0, 0, False)]}, 1: {0: [], 1: []}}, r"from_gymnasium: P\[1\] has 2 actions, must have 1"),
        ({0: {0: [(1.0, 0, False)]}}, r"P\[0\]\[0\]"),
        ({0: {0: [(1.0, 0.7, 0, False)]}}, r"next.state"),
        ({0: {0: [(0.9, 0, 0, False)]}}, r"probability\[0, 0\] sums to 0\.9"),
        ({0: {0: [(1.0, 3, 0, False)]}}, r"next_state\[0, 0, 0\] is 3"),
        ({0: {0: [(1.0, 0, np.nan, False)]}}, r"reward\[0, 0, 0\] is nan"),
        ({0: {0: [(1.0, 0, 0, False)], 1: []}}, r"probability\[0, 1\] sums to 0"),
    ],
)
def test_a_broken_table_is_refused(table, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        TabularMDP.from_gymnasium(tabular(table), 0.9)
    assert str(caught.value).startswith("TabularMDP.from_gymnasium: ")
