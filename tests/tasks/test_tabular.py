from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import reference

from pastmaster import InvalidInputError, PastmasterError, TabularMDP, domains

ARRAYS = ("next_state", "reward", "probability", "terminated", "start_states", "start_probability")

TWO_BY_TWO: dict[str, Any] = {  # a small task that is right; the refusals below spoil one thing each
    "next_state": [[[0, 1], [1, 1]], [[1, 0], [0, 0]]],
    "reward": [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]],
    "probability": [[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.1, 0.9]]],
    "terminated": [[[False, True], [False, False]], [[False, False], [True, False]]],
    "gamma": 0.9,
}


def spoiled(name: str, place: tuple[int, ...], value: float) -> Any:
    array = np.array(TWO_BY_TWO[name])
    array[place] = value
    return array


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


def test_the_task_that_the_refusals_spoil_is_right():
    assert TabularMDP(**TWO_BY_TWO).n_states == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reward": spoiled("reward", (1, 0, 1), np.nan)}, r"reward\[1, 0, 1\] is nan, must be finite"),
        ({"reward": spoiled("reward", (0, 1, 0), np.inf)}, r"reward\[0, 1, 0\] is inf, must be finite"),
        ({"reward": spoiled("reward", (0, 1, 1), -np.inf)}, r"reward\[0, 1, 1\] is -inf, must be finite"),
        ({"reward": [[["a", "b"]] * 2] * 2}, r"reward has dtype <U1, must hold numbers"),
        ({"reward": np.array(TWO_BY_TWO["reward"]) + 1j}, r"reward has dtype complex128, must hold numbers"),
        ({"reward": np.zeros((2, 2))}, r"reward has shape \(2, 2\), must be \(2, 2, 2\)"),
        ({"reward": [[[1.0, 2.0], [3.0]], [[5.0, 6.0], [7.0, 8.0]]]}, r"reward is ragged"),
        ({"probability": spoiled("probability", (0, 1, 1), 0.72)}, r"probability\[0, 1\] sums to 0\.97, must be 1"),
        ({"probability": spoiled("probability", (0, 1, 1), 0.75 + 1e-6)}, r"probability\[0, 1\] sums to 1\.000001"),
        ({"probability": [[[1.5, -0.5]] * 2] * 2}, r"probability\[0, 0, 1\] is -0\.5, must be at least 0"),
        ({"probability": spoiled("probability", (1, 1, 0), np.nan)}, r"probability\[1, 1, 0\] is nan"),
        ({"probability": spoiled("probability", (1, 1, 0), np.inf)}, r"probability\[1, 1\] sums to inf"),
        ({"probability": None}, r"next_state has 2 outcomes per action, so probability must be given"),
        ({"probability": np.ones((2, 2))}, r"probability has shape \(2, 2\), must be \(2, 2, 2\)"),
        ({"next_state": spoiled("next_state", (1, 1, 0), 2)}, r"next_state\[1, 1, 0\] is 2, must be in 0\.\.1"),
        ({"next_state": spoiled("next_state", (0, 0, 1), -1)}, r"next_state\[0, 0, 1\] is -1, must be in 0\.\.1"),
        ({"next_state": np.zeros((2, 2, 2))}, r"next_state has dtype float64, must hold integers"),
        ({"next_state": np.zeros((2, 2, 2), bool)}, r"next_state has dtype bool, must hold integers"),
        ({"next_state": [[[0, 1], [1]], [[1, 0], [0, 0]]]}, r"next_state is ragged"),
        ({"next_state": [0, 1]}, r"next_state has shape \(2,\), must be \[S, A\] or \[S, A, K\]"),
        ({"next_state": np.zeros((2, 2, 2, 2), int)}, r"next_state has shape \(2, 2, 2, 2\)"),
        ({"next_state": np.zeros((0, 2), int)}, r"next_state has shape \(0, 2\).* no empty axis"),
        ({"next_state": np.zeros((2, 0, 2), int)}, r"next_state has shape \(2, 0, 2\).* no empty axis"),
        ({"next_state": []}, r"next_state"),
        ({"next_state": None}, r"next_state"),
        ({"terminated": np.zeros((2, 2), bool)}, r"terminated has shape \(2, 2\), must be \(2, 2, 2\)"),
        ({"terminated": np.zeros((2, 2, 2))}, r"terminated has dtype float64, must hold booleans"),
        ({"gamma": 1.0}, r"gamma is 1\.0, must be .*in \[0, 1\)"),
        ({"gamma": -0.1}, r"gamma is -0\.1"),
        ({"gamma": np.nan}, r"gamma is nan"),
        ({"gamma": np.inf}, r"gamma is inf"),
        ({"gamma": "0.9"}, r"gamma is '0\.9'"),
        ({"gamma": None}, r"gamma is None"),
        ({"gamma": True}, r"gamma is True"),
        ({"gamma": np.complex128(0.5)}, r"gamma is .*0\.5"),
        ({"start": 2}, r"start is 2, must be a state in 0\.\.1"),
        ({"start": -1}, r"start is -1"),
        ({"start": 0.5}, r"start is 0\.5"),
        ({"start": "a"}, r"start .*(a|U1)"),
        ({"start": None}, r"start .*(None|object)"),
        ({"start": True}, r"start is True"),
        ({"start": [0.5, 0.4]}, r"start sums to 0\.9, must be 1"),
        ({"start": [1.5, -0.5]}, r"start\[1\] is -0\.5, must be at least 0"),
        ({"start": [np.nan, 1.0]}, r"start\[0\] is nan"),
        ({"start": [0.5, 0.25, 0.25]}, r"start has shape \(3,\), must be .* shape \(2,\)"),
        ({"start": []}, r"start has shape \(0,\)"),
        ({"start": [[1.0], [0.0, 0.0]]}, r"start is ragged"),
        ({"horizon": 0}, r"horizon is 0, must be a positive number of steps or None"),
        ({"horizon": -3}, r"horizon is -3"),
        ({"horizon": 2.5}, r"horizon is 2\.5"),
        ({"horizon": np.inf}, r"horizon is inf"),
        ({"horizon": True}, r"horizon is True"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_refused_and_its_place_named(changed, message):
    with pytest.raises(InvalidInputError, match="TabularMDP: .*" + message) as refusal:
        TabularMDP(**(TWO_BY_TWO | changed))
    assert isinstance(refusal.value, PastmasterError)
    assert isinstance(refusal.value, ValueError)


def test_rounding_in_a_row_of_probabilities_is_forgiven():
    thirds = SimpleNamespace(probability=[[[1 / 3, 1 / 3, 1 / 3 + 1e-12]]], next_state=[[[0, 0, 0]]])
    assert TabularMDP(**vars(thirds), reward=[[[1, 2, 3]]], gamma=0.5).n_states == 1
