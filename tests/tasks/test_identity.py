"""What a task is, as data; and tasks made again from it, bit for bit."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from reference import random_mdp

from pastmaster import GymTask, InvalidInputError, TabularMDP, parallel
from pastmaster.tasks.identity import spec_data, task_data
from pastmaster.tasks.tabular import model_arrays, task_from_arrays


def digest(task):
    return parallel.digest(task_data(task), versions=False)


def rounded() -> TabularMDP:
    """A task whose probabilities do not sum to 1 exactly."""
    rng = np.random.default_rng(3)
    return random_mdp(rng, 20, 3, 7)


def again(task, arrays):
    return task_from_arrays(arrays, gamma=task.gamma, horizon=task.horizon, name=task.name, params=task.params)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_copies_are_the_same_task_and_read_only(protocol):
    task = rounded()
    for other in (pickle.loads(pickle.dumps(task, protocol)), copy.deepcopy(task), copy.copy(task)):
        assert digest(other) == digest(task)
        assert repr(other) == repr(task)
        for array in model_arrays(other).values():
            assert not array.flags.writeable
            assert array.flags.c_contiguous


def test_stored_arrays_make_the_same_bits():
    for task in (rounded(), TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.5)):
        assert digest(again(task, model_arrays(task))) == digest(task)
    task, rng = rounded(), np.random.default_rng(0)
    arrays = dict(model_arrays(task))
    arrays["probability"] = arrays["probability"] * (1 + 1e-15 * rng.integers(-3, 4, arrays["probability"].shape))
    assert again(task, arrays).probability.tobytes() == arrays["probability"].tobytes()


def test_stored_arrays_that_are_no_task_are_refused():
    task = rounded()
    arrays = model_arrays(task)
    with pytest.raises(InvalidInputError, match=r"probability\[0, 0\] sums to 2, must be 1"):
        again(task, arrays | {"probability": 2 * arrays["probability"]})
    with pytest.raises(InvalidInputError, match="probability is not that of a task"):
        again(task, arrays | {"probability": arrays["probability"].astype(np.longdouble)})
    assert not hasattr(task, "__setstate__")


def test_tasks_that_differ_have_other_data():
    task = TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.5)
    others = [
        TabularMDP([[0, 0]], [[1.0, 0.5]], gamma=0.5), TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.6),
        TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.5, horizon=3),
        TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.5, terminated=[[True, False]]),
        GymTask("FrozenLake-v1"), GymTask("FrozenLake-v1", gamma=0.5), GymTask("FrozenLake-v1", {"is_slippery": False}),
    ]  # fmt: skip
    assert len({digest(one) for one in [task, *others]}) == len(others) + 1
    assert digest(TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.5, name="another name")) == digest(task)


def test_specs_as_data():
    spec = gym.spec("FrozenLake-v1")
    assert spec_data(spec)[0] == "FrozenLake-v1"
    odd = copy.deepcopy(spec)
    odd.kwargs = {"map": object()}
    assert spec_data(odd) is None
