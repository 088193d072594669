"""The paper's distance of two models: no policy's value differs by more."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster import InvalidInputError, TabularMDP, evaluate
from pastmaster_paper.model_difference import model_difference


def random_arrays(rng, n_states=5, n_actions=2, n_outcomes=3, ending=0.2):
    shape = (n_states, n_actions, n_outcomes)
    return {
        "next_state": rng.integers(n_states, size=shape),
        "reward": rng.normal(size=shape),
        "probability": rng.dirichlet(np.ones(n_outcomes), size=shape[:2]),
        "terminated": rng.random(shape) < ending,
    }


def apart(one, other, policy):
    return np.abs(evaluate(one, policy) - evaluate(other, policy)).max()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("horizon", [None, 1, 8])
def test_no_policys_value_differs_by_more_in_any_state(rng, gamma, horizon):
    for n_states in (1, 3, 6):
        one, other = (
            TabularMDP(**random_arrays(rng, n_states, n_outcomes=k, ending=rng.random()), gamma=gamma, horizon=horizon)
            for k in (2, 3)
        )
        bound = model_difference(one, other)
        for _ in range(5):
            assert apart(one, other, rng.integers(2, size=n_states)) <= bound + 1e-9
            assert apart(one, other, rng.dirichlet([1.0, 1.0], size=n_states)) <= bound + 1e-9


def test_the_bound_follows_small_changes(rng):
    """A little change of rewards or chances moves values by a little, and the bound by a little more."""
    arrays = random_arrays(rng)
    one = TabularMDP(**arrays, gamma=0.9)
    for size in (1e-2, 1e-4, 1e-6):
        chances = arrays["probability"] + size * rng.random(arrays["probability"].shape)
        changed = {
            "reward": arrays["reward"] + size * rng.normal(size=arrays["reward"].shape),
            "probability": chances / chances.sum(axis=2, keepdims=True),
        }
        other = TabularMDP(**arrays | changed, gamma=0.9)
        bound = model_difference(one, other)
        assert 0 < apart(one, other, rng.integers(2, size=5)) <= bound < 1e4 * size


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


def test_equal_tasks_do_not_differ_however_they_are_written(rng):
    arrays = random_arrays(rng)
    one = TabularMDP(**arrays, gamma=0.9)
    assert model_difference(one, one) == 0.0
    turned = {name: array[:, :, ::-1] for name, array in arrays.items()}  # the same outcomes in another order
    assert model_difference(one, TabularMDP(**turned, gamma=0.9)) == pytest.approx(0.0, abs=1e-12)


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
    with pytest.raises(InvalidInputError, match="model_difference: n_actions is 1 and 2, must be the same"):
        model_difference(one, TabularMDP([[0, 0]], [[0, 0]], gamma=0.9))
    with pytest.raises(InvalidInputError, match=r"model_difference: gamma is 0\.9 and 0\.5, must be"):
        model_difference(one, TabularMDP([[0]], [[0]], gamma=0.5))


def test_without_a_discount_there_is_no_such_distance():
    task = TabularMDP([[0]], [[1.0]], gamma=1.0, horizon=3)
    with pytest.raises(InvalidInputError, match="model_difference: gamma is 1"):
        model_difference(task, task)
