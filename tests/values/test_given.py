"""Tasks and policies as people give them: one behaviour in all functions that take several."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import (
    ContinualTransfer,
    InvalidInputError,
    Repository,
    TabularMDP,
    cross_values,
    estimate_cross_values,
    return_bounds,
)

TASK = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
POLICIES = [[0, 0], [1, 1]]


def estimated(tasks, policies=POLICIES):
    return estimate_cross_values(tasks, policies, budget=8, rng=0)


def valued(tasks, policies=POLICIES):
    return cross_values(tasks, policies)


TAKERS = {"cross_values": valued, "estimate_cross_values": estimated, "return_bounds": return_bounds}


@pytest.fixture
def agent(tmp_path):
    with Repository(tmp_path / "agent.db") as repository:
        yield ContinualTransfer(repository, episodes=5, recluster_every=2, rng=0)


def test_a_task_alone_is_a_list_of_one(agent):
    assert np.array_equal(valued(TASK), valued([TASK]))
    assert np.array_equal(estimated(TASK).mean, estimated([TASK]).mean)
    assert return_bounds(TASK) == return_bounds([TASK])
    assert agent.run(TASK).returns.shape == agent.run([TASK]).returns.shape == (1, 5)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"a": TASK}, r"{} is a dict, must be a task or a list of tasks: pass list\({}.values\(\)\)"),
        ("CartPole-v1", "{} is 'CartPole-v1', must be a task or a list of tasks"),
        (None, "{} is None, must be a task or a list of tasks"),
        (TabularMDP, "{} is <class .*>, must be a task or a list of tasks"),
        (
            gym.make("CartPole-v1"),
            r"{} is a TimeLimit, must be a TabularMDP or a GymTask: pass GymTask\('CartPole-v1'\)",
        ),
    ],
)
def test_what_is_no_list_of_tasks_is_refused_with_a_remedy(agent, given, sentence):
    for caller, take in TAKERS.items():
        if caller == "estimate_cross_values" and isinstance(given, dict):  # takes names
            continue
        with pytest.raises(InvalidInputError, match=f"^{caller}: {sentence.format('tasks', 'tasks')}"):
            take(given)
    with pytest.raises(InvalidInputError, match=f"^ContinualTransfer.run: {sentence.format('stream', 'stream')}"):
        agent.run(given)


def test_what_is_no_task_in_a_list_is_refused_with_a_remedy(agent):
    sentence = r"is a str, must be a TabularMDP or a GymTask: pass GymTask\('CartPole-v1'\)"
    for caller, take in (("estimate_cross_values", estimated), ("return_bounds", return_bounds)):
        with pytest.raises(InvalidInputError, match=rf"^{caller}: tasks\[0\] {sentence}"):
            take(["CartPole-v1"])
    with pytest.raises(InvalidInputError, match=rf"^ContinualTransfer.run: task 0 {sentence}"):
        agent.run(["CartPole-v1"])
    with pytest.raises(InvalidInputError, match=rf"^Repository.add: task {sentence}"):
        agent.repository.add("CartPole-v1")


def test_a_dict_names_what_is_estimated():
    found = estimated({"x": TASK, 7: TASK}, {"stay": [0, 0], "go": [1, 1]})
    assert (found.tasks, found.policies) == (("x", "7"), ("stay", "go"))
    assert np.array_equal(found.mean, estimated([TASK, TASK]).mean)
    assert estimated([TASK], {"stay": [0, 0], "go": [1, 1]}).policies == ("stay", "go")
    assert estimate_cross_values({"x": TASK}, budget=8).policies == ("x",)  # each task's own
    with pytest.raises(InvalidInputError, match=r"^estimate_cross_values: policies has '1' twice, must have each name"):
        estimated([TASK], {1: [0, 0], "1": [1, 1]})
    with pytest.raises(InvalidInputError, match=r"^estimate_cross_values: tasks is empty"):
        estimated({})
    with pytest.raises(InvalidInputError, match=r"^estimate_cross_values: tasks\[0\] is a int, must be a TabularMDP"):
        estimated({"x": 3})
