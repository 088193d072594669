"""The paper's distance of two models: no policy's value differs by more."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, strategies as st

from pastmaster import InvalidInputError, TabularMDP, evaluate
from pastmaster_paper.model_difference import model_difference


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.sampled_from([(None, None), (None, 2), (3, 2), (3, 3)]),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.sampled_from([None, 1, 8]),
)
def test_no_policys_value_differs_by_more_in_any_state(drawn, n_states, n_outcomes, gamma, horizon):
    rng = np.random.default_rng(drawn)
    one, other = (
        reference.random_mdp(rng, n_states, 2, k, gamma=gamma, horizon=horizon, ending=rng.random()) for k in n_outcomes
    )
    bound = model_difference(one, other)
    for mixed in (False, True):
        for _ in range(5):
            policy = reference.random_policy(rng, one, mixed=mixed)
            apart = np.abs(reference.values(one, policy) - reference.values(other, policy)).max()
            assert apart <= bound + 1e-9
            assert np.abs(evaluate(one, policy) - evaluate(other, policy)).max() <= bound + 1e-9


def test_the_bound_follows_small_changes(rng):
    """A little change of rewards, chances or ends moves values by a little, and the bound by a little more."""
    arrays = reference.random_arrays(rng, 5, 2, 3, ending=0.2)
    one = TabularMDP(**arrays, gamma=0.9)
    for size in (1e-2, 1e-4, 1e-6):
        chances = arrays["probability"] + size * rng.random(arrays["probability"].shape) * (arrays["probability"] > 0)
        other = TabularMDP(
            **arrays
            | {
                "reward": arrays["reward"] + size * rng.normal(size=arrays["reward"].shape),
                "probability": chances / chances.sum(axis=2, keepdims=True),
            },
            gamma=0.9,
        )
        policy = reference.random_policy(rng, one)
        apart = np.abs(reference.values(one, policy) - reference.values(other, policy)).max()
        bound = model_difference(one, other)
        assert 0 < apart <= bound < 1e4 * size


def test_rewards_alone_are_bounded_tightly_when_nothing_follows():
    one = TabularMDP([[0, 1], [1, 0]], [[1.0, 2.0], [3.0, -4.0]], gamma=0.0)
    other = TabularMDP([[0, 1], [1, 0]], [[1.0, 2.5], [3.0, 4.0]], gamma=0.0)
    assert model_difference(one, other) == 8.0
    assert np.abs(evaluate(one, [0, 1]) - evaluate(other, [0, 1])).max() == 8.0


def test_a_case_worked_out_by_hand():
    """R differs by at most 0.5, R_max is 3, and ||P_k - P||_1 at most 2 * 0.3: (0.5 + 0.5 * 3 * 0.6) / 0.25 = 5.6."""
    next_state = [[[0, 1], [1, 1]], [[1, 0], [0, 0]]]
    reward = np.array([[[1.0, 1.0], [-3.0, -3.0]], [[2.0, 2.0], [0.0, 0.0]]])
    one = TabularMDP(next_state, reward, probability=[[[0.5, 0.5], [0.4, 0.6]], [[0.9, 0.1], [0.5, 0.5]]], gamma=0.5)
    reward[1, 0] += 0.5
    other = TabularMDP(next_state, reward, probability=[[[0.8, 0.2], [0.3, 0.7]], [[0.8, 0.2], [0.1, 0.9]]], gamma=0.5)
    assert model_difference(one, other) == pytest.approx(5.6, abs=1e-12)
    assert model_difference(other, one) == pytest.approx(5.6, abs=1e-12)


def test_ending_the_episode_is_a_state_of_its_own():
    """||P_k - P||_1 = 2: (0 + 0.5 * 1 * 2) / 0.25 = 4, and the values 2 and 1 differ by less."""
    one = TabularMDP([[0]], [[1.0]], gamma=0.5)
    other = TabularMDP([[0]], [[1.0]], terminated=[[True]], gamma=0.5)
    assert model_difference(one, other) == pytest.approx(4.0, abs=1e-12)


@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_equal_tasks_do_not_differ_however_they_are_written(rng, n_outcomes):
    mdp = reference.random_mdp(rng, 6, 3, n_outcomes)
    assert model_difference(mdp, mdp) == 0.0
    names = ("next_state", "reward", "terminated", "probability")
    arrays = {name: getattr(mdp, name) for name in names if getattr(mdp, name) is not None}
    if n_outcomes:
        arrays = {name: array[:, :, ::-1] for name, array in arrays.items()}  # the same outcomes in another order
    assert model_difference(mdp, TabularMDP(**arrays, gamma=0.9)) == pytest.approx(0.0, abs=1e-12)


def test_where_an_ended_episode_would_have_gone_on_does_not_matter():
    one, other = (
        TabularMDP([[n, n], [0, 0]], np.ones((2, 2)), terminated=[[True, True], [False, False]], gamma=0.9)
        for n in (0, 1)
    )
    assert model_difference(one, other) == 0.0


def test_tasks_whose_episodes_are_capped_differently_are_not_called_equal():
    """Values are to the horizon: 10 and 2.71 here. Either the bound knows, or such a pair is refused."""
    one, other = (TabularMDP([[0]], [[1.0]], gamma=0.9, horizon=horizon) for horizon in (None, 3))
    try:
        bound = model_difference(one, other)
    except InvalidInputError:
        return
    assert bound >= np.abs(evaluate(one, [0]) - evaluate(other, [0])).max()


def test_tasks_that_do_not_belong_together_are_refused():
    one = TabularMDP([[0]], [[0]], gamma=0.9)
    with pytest.raises(InvalidInputError, match=r"model_difference: tasks\[1\]\.n_actions is 2, must be 1"):
        model_difference(one, TabularMDP([[0, 0]], [[0, 0]], gamma=0.9))
    with pytest.raises(InvalidInputError, match=r"model_difference: tasks\[1\]\.gamma is 0\.5"):
        model_difference(one, TabularMDP([[0]], [[0]], gamma=0.5))
    with pytest.raises(InvalidInputError, match=r"model_difference: tasks\[1\] is a NoneType"):
        model_difference(one, None)


def test_without_a_discount_there_is_no_such_distance():
    task = TabularMDP([[0]], [[1.0]], gamma=1.0, horizon=3)
    with pytest.raises(InvalidInputError, match="model_difference: gamma is 1"):
        model_difference(task, task)
