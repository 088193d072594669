from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
import reference

from pastmaster import TabularMDP, domains

ARRAYS = ("next_state", "reward", "probability", "terminated", "start_states", "start_probability")


# Building


def test_the_arrays_are_kept_as_given_in_compact_dtypes(rng):
    given = reference.random_arrays(rng, 7, 3, 4)
    mdp = TabularMDP(**given, gamma=0.9)
    assert (mdp.n_states, mdp.n_actions, mdp.is_deterministic) == (7, 3, False)
    for name, dtype in {
        "next_state": "int32",
        "reward": "float64",
        "probability": "float64",
        "terminated": "bool",
    }.items():
        kept = getattr(mdp, name)
        assert kept.dtype == dtype
        assert np.array_equal(kept, given[name])
    assert (mdp.gamma, mdp.start, mdp.horizon, mdp.name, mdp.params) == (0.9, 0, None, "", {})


def test_a_deterministic_task_has_no_outcome_axis_and_no_probabilities():
    mdp = TabularMDP([[1, 0], [1, 1]], [[1, 2], [3, 4]], gamma=0)
    assert mdp.is_deterministic
    assert mdp.probability is None
    assert mdp.next_state.shape == mdp.reward.shape == mdp.terminated.shape == (2, 2)
    assert not mdp.terminated.any()


def test_one_outcome_needs_no_probability():
    mdp = TabularMDP([[[1], [0]], [[1], [0]]], [[[1.0], [2.0]], [[3.0], [4.0]]], gamma=0.5)
    assert mdp.is_deterministic
    assert mdp.next_state.tolist() == [[1, 0], [1, 0]]


def test_outcomes_that_are_all_certain_or_impossible_make_a_task_deterministic():
    mdp = TabularMDP(
        [[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
        [[[1.0, -1.0], [2.0, -2.0]], [[3.0, -3.0], [4.0, -4.0]]],
        probability=[[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
        terminated=[[[True, False], [True, False]], [[True, False], [False, True]]],
        gamma=0.9,
    )
    assert mdp.is_deterministic
    assert mdp.next_state.tolist() == [[1, 1], [1, 1]]
    assert mdp.reward.tolist() == [[1.0, -2.0], [-3.0, 4.0]]
    assert mdp.terminated.tolist() == [[True, False], [False, False]]


def test_the_start_is_a_state_or_a_distribution():
    arrays = ([[0, 1], [1, 1], [2, 0]], np.zeros((3, 2)))
    assert TabularMDP(*arrays, gamma=0.9, start=np.int64(2)).start == 2
    assert TabularMDP(*arrays, gamma=0.9, start=[0, 1.0, 0]).start == 1
    mdp = TabularMDP(*arrays, gamma=0.9, start=[0.25, 0, 0.75])
    assert mdp.start.tolist() == [0.25, 0, 0.75]
    assert (mdp.start_states.tolist(), mdp.start_probability.tolist()) == ([0, 2], [0.25, 0.75])


def test_numpy_scalars_are_taken_as_numbers():
    mdp = TabularMDP([[0]], [[1]], gamma=np.float32(0.5), start=np.int8(0), horizon=np.int64(3))
    assert (mdp.gamma, mdp.horizon) == (0.5, 3)
    assert type(mdp.gamma) is float
    assert type(mdp.horizon) is int


def test_the_model_is_one_discounted_backup(rng):
    for n_outcomes in (None, 3):
        mdp = reference.random_mdp(rng, 6, 3, n_outcomes)
        reward, next_state, weight = mdp.model()
        value = rng.normal(size=6)
        backup = reward + (weight * value[next_state]).sum(axis=2)
        np.testing.assert_allclose(backup, reference.q_values(mdp, value), rtol=0, atol=1e-12)


# Frozen


@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_a_task_cannot_be_changed(rng, n_outcomes):
    mdp = reference.random_mdp(rng, n_outcomes=n_outcomes)
    for name in (*ARRAYS, "gamma", "horizon", "something_new"):
        with pytest.raises(FrozenInstanceError):
            setattr(mdp, name, 0)
    with pytest.raises(FrozenInstanceError):
        del mdp.gamma
    for name in ARRAYS:
        array = getattr(mdp, name)
        if array is not None:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    for array in mdp.model():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_the_callers_arrays_are_neither_shared_nor_sealed(rng, n_outcomes):
    given = reference.random_arrays(rng, 5, 2, n_outcomes)
    given["next_state"] = given["next_state"].astype(np.int32)  # the dtypes that could be taken over without a copy
    given["start"] = np.full(5, 0.2)
    before = {name: array.copy() for name, array in given.items()}
    mdp = TabularMDP(**given, gamma=0.9)
    for array in given.values():
        array[...] = 0
    for name in set(before) - {"start"}:
        assert np.array_equal(getattr(mdp, name), before[name])
    assert np.array_equal(mdp.start, before["start"])


def test_the_callers_params_are_not_shared():
    params = {"goal": 3}
    mdp = TabularMDP([[0]], [[0]], gamma=0.9, params=params)
    params["goal"] = 4
    assert mdp.params == {"goal": 3}


@pytest.mark.parametrize("n_outcomes", [None, 3])
@pytest.mark.parametrize("copied", [lambda mdp: pickle.loads(pickle.dumps(mdp)), copy.deepcopy, copy.copy])
def test_a_copy_is_equal_and_still_read_only(rng, n_outcomes, copied):
    arrays = reference.random_arrays(rng, 5, 2, n_outcomes)
    mdp = TabularMDP(**arrays, gamma=0.8, start=np.full(5, 0.2), horizon=9, name="x", params={"a": [1]})
    other = copied(mdp)
    for name in ("gamma", "horizon", "name", "params"):
        assert getattr(other, name) == getattr(mdp, name)
    for name in ARRAYS:
        one, two = getattr(mdp, name), getattr(other, name)
        assert (one is None) == (two is None)
        if one is not None:
            assert one.dtype == two.dtype
            assert one.tobytes() == two.tobytes()
            assert not two.flags.writeable
    with pytest.raises(FrozenInstanceError):
        other.gamma = 0.5


def test_repr_says_what_a_person_wants_to_know(rng):
    text = repr(TabularMDP(**reference.random_arrays(rng, 5, 2, 3), gamma=0.8, horizon=9, name="the blue one"))
    for part in ("the blue one", "5 states", "2 actions", "3 outcomes", "gamma=0.8", "horizon=9"):
        assert part in text
    assert "deterministic" in repr(TabularMDP([[0]], [[0]], gamma=0.5))
    assert len(text) < 120


def test_ten_thousand_surveillance_tasks_of_two_targets_fit_in_8_gb():
    mdp = domains.surveillance.task([5, 40])
    held = sum(array.nbytes for array in vars(mdp).values() if isinstance(array, np.ndarray))
    assert mdp.n_states * mdp.n_actions * 4 < held  # it counts what it should
    assert 10_000 * held < 8e9


# Refusals


def test_rounding_in_a_row_of_probabilities_is_forgiven():
    thirds = SimpleNamespace(probability=[[[1 / 3, 1 / 3, 1 / 3 + 1e-12]]], next_state=[[[0, 0, 0]]])
    assert TabularMDP(**vars(thirds), reward=[[[1, 2, 3]]], gamma=0.5).n_states == 1
