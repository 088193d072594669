"""Returns that are no numbers, or too large to be averaged: an error names the task, and nothing is stored."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import pastmaster as pm
from pastmaster.errors import InvalidInputError, TaskError
from pastmaster.estimation import EpisodeRange, episode_returns, estimate_values
from pastmaster.policies import TablePolicy
from pastmaster.values import task_bounds


class Rich(gym.Env):
    """Pays finite rewards whose sum may not be, of either sign by chance."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)
    pays = 1e308

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        sign = 1.0 if action else float(self.np_random.choice([-1.0, 1.0]))
        return 0, sign * self.pays, False, False, {}


class Fortunate(Rich):
    """Pays less: every return is a number, but not every sum of them."""

    pays = 1.7e307


def test_a_return_that_overflows_is_refused_by_the_name_of_the_task():
    task = pm.GymTask(Rich, gamma=1.0, horizon=3, name="rich")
    sentence = r"^rich: the return of episode 0 is inf, must be a finite number"
    with pytest.raises(TaskError, match=sentence):
        estimate_values(task, [[1, 1]], episodes=3, seed=0)
    with pytest.raises(TaskError, match=sentence):
        episode_returns(task, [TablePolicy([1, 1])], [EpisodeRange(0, 0, 3)], 0)
    with pytest.raises(TaskError, match=sentence):
        pm.estimate_cross_values([task], [[1, 1]], budget=50, rng=0)


def test_returns_whose_mean_overflows_are_refused():
    task = pm.GymTask(Fortunate, gamma=1.0, horizon=3, name="fortunate")
    with pytest.raises(TaskError, match=r"^fortunate: returns are as large as 5.1e\+307, must be smaller"):
        estimate_values(task, [[0, 1]], episodes=30, seed=0)
    with pytest.raises(InvalidInputError, match=r"tasks\[0\] \(fortunate\) is 5.1e\+307 in size, must be at most"):
        pm.estimate_cross_values([task], [[1, 1]], budget=50, rng=0)


@pytest.mark.parametrize("pays", [Rich, Fortunate])
def test_nothing_is_stored_of_a_task_whose_returns_are_too_large(pays, tmp_path):
    gym.register("pastmaster/Rich-v0", pays, max_episode_steps=3)
    try:
        with pm.Repository(tmp_path / "tasks.db") as repository:
            with pytest.raises(TaskError, match=r"^Rich: .*must be"):
                repository.add(pm.GymTask("pastmaster/Rich-v0", gamma=1.0, name="Rich"), [0, 0])
            assert len(repository) == 0
            assert repository.check() == []
    finally:
        del gym.registry["pastmaster/Rich-v0"]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, float("1e309")])
def test_a_run_with_returns_that_are_no_numbers_is_not_stored(wrong, tmp_path):
    task = pm.TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    run = pm.transfer(task, [], episodes=5, rng=0)
    returns = run.returns.copy()
    returns[0, 2] = wrong
    with pm.Repository(tmp_path / "tasks.db") as repository:
        with pytest.raises(InvalidInputError, match=r"^Repository.add: run.returns holds .*, must be finite numbers"):
            repository.add(task, run=replace(run, returns=returns))
        assert len(repository) == 0
        assert repository.add(task, run=run) == 1


def test_a_horizon_that_nobody_waits_for_takes_neither_time_nor_memory():
    """Of 2^31 steps and more only those are taken that change a number."""
    chances = {"probability": [[[0.5, 0.5], [0.3, 0.7]]] * 2, "gamma": 0.9}
    task = pm.TabularMDP([[[0, 1], [1, 0]]] * 2, [[[0.0, 1.0], [2.0, 0.0]]] * 2, horizon=2**31 - 1, **chances)
    shorter = pm.TabularMDP([[[0, 1], [1, 0]]] * 2, [[[0.0, 1.0], [2.0, 0.0]]] * 2, horizon=5000, **chances)
    assert (pm.cross_values([task, task]) == pm.cross_values([shorter, shorter])).all()
    for gamma, most in ((0.0, 1.0), (0.5, 2.0), (1.0, 10.0**11)):
        long = pm.GymTask(Rich, gamma=gamma, horizon=10**11, reward_range=(0.0, 1.0))
        assert task_bounds(long).upper == pytest.approx(most, rel=1e-8)


def test_episodes_of_a_very_long_horizon_are_the_same_as_those_of_a_shorter_one():
    """Their chances are not drawn beforehand: it would be gigabytes."""
    arrays = ([[[0, 1]], [[1, 1]]], [[[1.0, 2.0]], [[0.0, 0.0]]])
    chances = {
        "probability": [[[0.9, 0.1]], [[0.5, 0.5]]],
        "terminated": [[[False, True]], [[True, True]]],
        "gamma": 0.9,
    }
    found = [
        episode_returns(
            pm.TabularMDP(*arrays, horizon=horizon, **chances),
            [TablePolicy([0, 0]), TablePolicy([[1.0], [1.0]])],
            [EpisodeRange(0, 0, 20), EpisodeRange(1, 0, 20)],
            seed=3,
        )
        for horizon in (1000, 2**31 - 1)
    ]
    assert np.array_equal(*found)
