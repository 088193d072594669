"""return_bounds of ``values``: what no episode may exceed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
from hypothesis import given, strategies as st
from seams import checked_bounds

from pastmaster import (
    Bounds,
    GymTask,
    InvalidInputError,
    TabularMDP,
    domains,
    return_bounds,
    solve,
)
from pastmaster.values import task_bounds

FOREVER = 400  # steps after which 0.9^n is below 1e-18 of what came before


# return_bounds


@given(reference.random_mdps(max_states=8))
def test_no_simulated_return_leaves_the_bounds(drawn):
    """Not by a single bit: the bounds allow for the rounding of a return summed step by step."""
    mdp, rng = drawn
    lower, upper = return_bounds(mdp)
    for mixed in (False, True):
        for _ in range(4):
            policy = reference.random_policy(rng, mdp, mixed=mixed)
            for _ in range(5):
                assert lower <= reference.simulated_return(mdp, policy, rng, FOREVER) <= upper


@given(reference.random_mdps(max_states=8))
def test_bounds_agree_with_trying_everything(drawn):
    mdp, _ = drawn
    np.testing.assert_allclose(return_bounds(mdp), reference.extreme_returns(mdp, mdp.horizon), rtol=0, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 6))
def test_with_a_horizon_the_bounds_of_a_deterministic_task_are_attained(drawn, n_states, n_actions, horizon):
    """The best and the worst of all sequences of actions from all possible starts."""
    mdp = reference.random_mdp(np.random.default_rng(drawn), n_states, n_actions, None, horizon=horizon)
    returns = []
    for start in np.flatnonzero(reference.start_distribution(mdp)):
        for actions in itertools.product(range(n_actions), repeat=horizon):
            s, total, discount = int(start), 0.0, 1.0
            for a in actions:
                total += discount * mdp.reward[s, a]
                if mdp.terminated[s, a]:
                    break
                s, discount = int(mdp.next_state[s, a]), discount * mdp.gamma
            returns.append(total)
    bounds = return_bounds(mdp)
    assert bounds.lower <= min(returns)
    assert bounds.upper >= max(returns)
    np.testing.assert_allclose(bounds, (min(returns), max(returns)), rtol=0, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_without_a_horizon_the_bounds_of_a_deterministic_task_are_attained(drawn, n_states, n_actions):
    """By stationary policies: the best and the worst of all of them."""
    mdp = reference.random_mdp(np.random.default_rng(drawn), n_states, n_actions, None)
    starts = np.flatnonzero(reference.start_distribution(mdp))
    attained = [reference.endless_values(mdp, policy)[starts] for policy in reference.all_policies(mdp)]
    np.testing.assert_allclose(return_bounds(mdp), (np.min(attained), np.max(attained)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("horizon", [None, 300])
def test_a_long_return_at_the_very_edge_stays_inside(rng, gamma, horizon):
    """The best policy and the worst, simulated for thousands of steps, with rewards that do not add up exactly."""
    for reward in (0.1, -0.7, 1 / 3):
        mdp = TabularMDP([[0]], [[reward]], gamma=gamma, horizon=horizon)
        bounds = return_bounds(mdp)
        stepped = reference.stepped_return(mdp, [0], 0, horizon or 50_000)
        assert bounds.lower <= stepped <= bounds.upper
        assert bounds.span <= 1e-9 * abs(stepped)
    mdp = reference.random_mdp(rng, 12, 3, None, gamma=gamma, horizon=horizon, ending=0.0)
    bounds = return_bounds(mdp)
    start = int(mdp.start_states[0])
    for sign in (-1, 1):
        extreme = solve(TabularMDP(mdp.next_state, sign * mdp.reward, gamma=gamma)).policy
        assert bounds.lower <= reference.stepped_return(mdp, extreme, start, horizon or 50_000) <= bounds.upper


def test_only_what_can_happen_from_the_start_counts():
    """State 2 pays a fortune and cannot be reached; so does an outcome of probability 0."""
    next_state = [[[1, 2, 2]], [[1, 1, 2]], [[2, 2, 2]]]
    reward = [[[1.0, 5.0, 900.0]], [[2.0, -3.0, -900.0]], [[1e6, 1e6, 1e6]]]
    probability = [[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]], [[0.2, 0.3, 0.5]]]
    terminated = [[[False, True, False]], [[True, True, False]], [[False] * 3]]
    mdp = TabularMDP(next_state, reward, probability=probability, terminated=terminated, gamma=0.5)
    np.testing.assert_allclose(return_bounds(mdp), (1 - 0.5 * 3, 5), rtol=0, atol=1e-6)


def test_a_start_of_probability_zero_does_not_count():
    mdp = TabularMDP([[0], [1], [2]], [[1.0], [2.0], [100.0]], gamma=0.5, start=[0.5, 0.5, 0.0])
    np.testing.assert_allclose(return_bounds(mdp), (2, 4), rtol=0, atol=1e-9)


def test_rewards_of_one_sign_give_returns_of_that_sign(rng):
    for horizon in (None, 20):
        arrays = reference.random_arrays(rng, 6, 3, 3)
        gains = TabularMDP(**arrays | {"reward": np.abs(arrays["reward"])}, gamma=0.9, horizon=horizon)
        losses = TabularMDP(**arrays | {"reward": -np.abs(arrays["reward"])}, gamma=0.9, horizon=horizon)
        assert 0 <= return_bounds(gains).lower < return_bounds(gains).upper
        assert return_bounds(losses).lower < return_bounds(losses).upper <= 0
        nothing = TabularMDP(**arrays | {"reward": np.zeros((6, 3, 3))}, gamma=0.9, horizon=horizon)
        assert return_bounds(nothing) == (0.0, 0.0)
    assert return_bounds(domains.windy_corridor.family()).lower == 0.0


def test_bounds_of_a_family_are_the_union(rng):
    tasks = [
        reference.random_mdp(rng, n_outcomes=n_outcomes, horizon=horizon)
        for n_outcomes in (None, 3)
        for horizon in (None, 2, 20)
    ]
    alone = [return_bounds(task) for task in tasks]
    together = return_bounds(tasks)
    assert together == (min(b.lower for b in alone), max(b.upper for b in alone))
    assert return_bounds(iter(tasks)) == together
    assert len({b.lower for b in alone}) > 1
    assert return_bounds(tasks[:1]) == alone[0]


def test_the_papers_bounds_are_those_of_paying_the_extreme_for_ever(rng):
    tasks = [reference.random_mdp(rng, n_outcomes=n, horizon=7, gamma=0.8) for n in (None, 3)]
    paid = [[r for s, a in np.ndindex(6, 3) for _, _, r, _ in reference.outcomes(task, s, a)] for task in tasks]
    lowest, highest = min(map(min, paid)), max(map(max, paid))
    np.testing.assert_allclose(return_bounds(tasks, kind="paper"), (lowest / 0.2, highest / 0.2), rtol=1e-12)
    assert return_bounds(tasks, kind="paper").span == pytest.approx((highest - lowest) / 0.2)
    assert return_bounds(tasks).span < return_bounds(tasks, kind="paper").span


def test_surveillance_pays_far_less_than_the_paper_allows_for():
    task = domains.surveillance.task([5, 40])
    paper, exact = return_bounds(task, kind="paper"), return_bounds(task)
    assert paper == pytest.approx((-100, 2000))
    assert paper.span == pytest.approx(2100)
    assert exact.upper == pytest.approx(
        solve(task).start_value, abs=1e-5
    )  # deterministic: the best episode is the optimum
    assert (
        -20 < exact.lower < -10
    )  # never surveilling costs almost 10, giving up at the end of a long walk a little more
    assert exact.span < 110


def test_bounds_have_names_and_a_span():
    bounds = Bounds(-1.5, 2.0)
    assert (bounds.lower, bounds.upper, bounds.span) == (-1.5, 2.0, 3.5)


# Tasks without a model


def cart_pole(**settings):
    return GymTask("CartPole-v1", **{"gamma": 0.5, "horizon": 3} | settings)


def test_black_boxes_with_known_rewards_have_bounds():
    """1 to 3 steps of a reward within the range: at least r, at most 1.75 r, and the other way round below 0."""
    for rewards, expected in (((1.0, 1.0), (1.0, 1.75)), ((-2.0, 4.0), (-3.5, 7.0)), ((-2.0, -1.0), (-3.5, -1.0))):
        task = cart_pole(reward_range=rewards)
        bounds = return_bounds(task)
        assert bounds == pytest.approx(expected, abs=1e-6)
        assert bounds.lower <= expected[0] <= expected[1] <= bounds.upper
        assert bounds == task_bounds(task) == return_bounds([task])
        assert return_bounds(task, kind="paper") == (2 * rewards[0], 2 * rewards[1])


def test_bounds_of_models_and_black_boxes_together_are_the_union():
    model, box = TabularMDP([[0]], [[-1.0]], gamma=0.5), cart_pole(reward_range=(1.0, 1.0))
    alone = [return_bounds(model), return_bounds(box)]
    assert return_bounds([model, box]) == Bounds.joined(alone) == (alone[0].lower, alone[1].upper)
    assert return_bounds([box, model], kind="paper") == (-2.0, 2.0)


def test_an_environment_with_a_table_is_bounded_as_its_model_unless_a_range_is_declared():
    box = GymTask("FrozenLake-v1", gamma=0.9)
    for kind in ("exact", "paper"):
        assert return_bounds(box, kind=kind) == return_bounds(box.table, kind=kind)
    assert return_bounds(GymTask("FrozenLake-v1", gamma=0.9, reward_range=(0.0, 2.0)), kind="paper").upper > 19


@pytest.mark.parametrize("kind", ["exact", "paper"])
def test_a_task_whose_rewards_are_unknown_is_named_with_the_remedy(kind):
    known, unknown = cart_pole(reward_range=(1.0, 1.0)), cart_pole(name="my poles")
    assert task_bounds(unknown) is None
    with pytest.raises(InvalidInputError, match=r"tasks\[1\] is my poles, .*GymTask\(\.\.\., reward_range=\("):
        return_bounds([known, unknown], kind=kind)


def test_black_boxes_of_other_kinds_are_refused():
    known = cart_pole(reward_range=(1.0, 1.0))
    with pytest.raises(InvalidInputError, match=r"return_bounds: tasks\[1\]\.gamma is 0\.8, must be 0\.5 as in"):
        return_bounds([known, cart_pole(reward_range=(1.0, 1.0), gamma=0.8)])
    with pytest.raises(InvalidInputError, match=r"return_bounds: tasks\[1\] is a str, must be a TabularMDP or a Gym"):
        return_bounds([known, "CartPole-v1"])
    undiscounted = cart_pole(reward_range=(1.0, 1.0), gamma=1.0)
    assert return_bounds(undiscounted).upper == pytest.approx(3.0)
    with pytest.raises(InvalidInputError, match="gamma is 1, must be below 1"):
        return_bounds(undiscounted, kind="paper")


# Bounds that a person gives


def test_given_bounds_are_two_finite_numbers_in_order():
    assert checked_bounds("f", [0, np.float32(2)]) == Bounds(0.0, 2.0)
    for wrong in (3, (1,), (1, 2, 3), ("a", 1), None, (1, 0), (1, 1), (0, np.inf), (np.nan, 1), (0, 10**400)):
        with pytest.raises(InvalidInputError, match=r"^f: bounds is .*, must be"):
            checked_bounds("f", wrong)


def test_equal_bounds_get_a_span_of_one():
    assert Bounds(2.0, 2.0).with_span() == (2.0, 3.0)
    assert Bounds(2.0, 2.5).with_span() == (2.0, 2.5)


def test_bounds_show_themselves():
    assert len(repr(Bounds(-1 / 3 * 1e-300, 1 / 3 * 1e300))) <= 100
