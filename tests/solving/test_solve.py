from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
import reference
from hypothesis import given, strategies as st
from scipy import sparse
from scipy.sparse.linalg import spsolve

from pastmaster import (
    GymTask,
    InvalidInputError,
    Repository,
    TabularMDP,
    cross_values,
    domains,
    estimate_cross_values,
    evaluate,
    policy_distance,
    return_bounds,
    solve,
    transfer,
)
from pastmaster.policies import Policy, TablePolicy


def lowest_best(Q: np.ndarray, tolerance: float) -> np.ndarray:
    """In each state the lowest action within ``tolerance`` of the best."""
    return (Q.max(axis=1, keepdims=True) - tolerance <= Q).argmax(axis=1)


def scale(value: np.ndarray) -> float:
    return float(np.abs(value).max())


# The optimum


@given(reference.random_mdps(max_states=4))
def test_no_policy_at_all_does_better(drawn):
    mdp, _ = drawn
    solution = solve(mdp)
    best = reference.optimal_values_by_enumeration(mdp)
    np.testing.assert_allclose(solution.value, best, rtol=0, atol=1e-8)
    np.testing.assert_allclose(reference.endless_values(mdp, solution.policy), best, rtol=0, atol=1e-8)
    assert solution.converged


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n_outcomes", [None, 2, 4])
@pytest.mark.parametrize("reach", [None, 2])
def test_larger_tasks_agree_with_value_iteration(rng, gamma, n_outcomes, reach):
    mdp = reference.random_mdp(rng, 70, 4, n_outcomes, gamma=gamma, ending=0.05, reach=reach)
    solution = solve(mdp)
    np.testing.assert_allclose(solution.value, reference.optimal_values_by_iteration(mdp), rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.value, reference.endless_values(mdp, solution.policy), rtol=0, atol=1e-8)
    assert solution.start_value == pytest.approx(reference.start_distribution(mdp) @ solution.value, abs=1e-12)
    assert solution.converged


@pytest.mark.parametrize(("name", "expected"), [(reference.TAXI, 6.33), (reference.CLIFF, -12.2)])
def test_gymnasiums_goal_tasks_have_their_known_values(name, expected):
    mdp = TabularMDP.from_gymnasium(name, gamma=0.99)
    solution = solve(mdp)
    assert solution.start_value == pytest.approx(expected, abs=0.05)
    np.testing.assert_allclose(solution.value, reference.optimal_values_by_iteration(mdp), rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.value, reference.endless_values(mdp, solution.policy), rtol=0, atol=1e-8)
    assert solution.converged


def test_the_cliff_is_thirteen_steps_of_minus_one():
    solution = solve(TabularMDP.from_gymnasium(reference.CLIFF, gamma=0.99))
    assert solution.start_value == pytest.approx(-(1 - 0.99**13) / (1 - 0.99), abs=1e-10)


@pytest.mark.parametrize("map_name", ["4x4", "8x8"])
@pytest.mark.parametrize("is_slippery", [False, True])
@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.999])
def test_frozen_lakes_agree_with_value_iteration(map_name, is_slippery, gamma):
    lake = gym.make("FrozenLake-v1", map_name=map_name, is_slippery=is_slippery)
    mdp = TabularMDP.from_gymnasium(lake, gamma=gamma)
    solution = solve(mdp)
    np.testing.assert_allclose(solution.value, reference.optimal_values_by_iteration(mdp), rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.value, reference.endless_values(mdp, solution.policy), rtol=0, atol=1e-8)
    if not is_slippery:
        assert solution.start_value == pytest.approx(gamma ** (5 if map_name == "4x4" else 13), abs=1e-12)
    assert solution.converged


def test_a_large_stochastic_task_is_solved_by_sweeps(rng):
    """Over 2000 states, where nothing dense is held; the policy is judged by a sparse solve and its own Q."""
    n, gamma = 2500, 0.95
    mdp = reference.random_mdp(rng, n, 3, 3, gamma=gamma, ending=0.02, reach=4)
    solution = solve(mdp)
    kept = np.where(mdp.terminated, 0.0, mdp.probability)
    rows = np.repeat(np.arange(n * 3), 3)
    P = sparse.csr_array((kept.ravel(), (rows, mdp.next_state.ravel())), shape=(n * 3, n))
    R = (mdp.probability * mdp.reward).sum(axis=2)
    chosen = np.arange(n) * 3 + solution.policy
    own = spsolve((sparse.eye_array(n) - gamma * P[chosen]).tocsc(), R.ravel()[chosen])
    np.testing.assert_allclose(solution.value, own, rtol=0, atol=1e-8)
    Q = R + gamma * (P @ own).reshape(n, 3)
    assert (Q.max(axis=1) - own).max() < 1e-9
    assert solution.converged


def test_the_horizon_is_set_aside(rng):
    arrays = reference.random_arrays(rng, 6, 3, 3)
    endless, capped = (solve(TabularMDP(**arrays, gamma=0.9, horizon=horizon)) for horizon in (None, 2))
    assert np.array_equal(endless.value, capped.value)
    assert np.array_equal(endless.policy, capped.policy)
    assert endless.start_value == capped.start_value


def test_gamma_zero_takes_the_best_immediate_reward(rng):
    for n_outcomes in (None, 3):
        mdp = reference.random_mdp(rng, 9, 4, n_outcomes, gamma=0.0)
        _, R = reference.matrices(mdp)
        solution = solve(mdp)
        np.testing.assert_allclose(solution.value, R.max(axis=1), rtol=0, atol=1e-14)
        assert np.array_equal(solution.policy, R.argmax(axis=1))
        assert solution.converged


@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_gamma_close_to_one_works(rng, n_outcomes):
    mdp = reference.random_mdp(rng, 30, 3, n_outcomes, gamma=0.999, ending=0.0)
    solution = solve(mdp)
    best = reference.optimal_values_by_iteration(mdp)
    np.testing.assert_allclose(solution.value, best, rtol=0, atol=1e-9 * scale(best))
    assert solution.converged


@pytest.mark.parametrize(("gamma", "gap"), [(0.9, 1e-6), (0.99, 1e-6), (0.999, 1e-6), (0.9999, 1e-4)])
def test_a_better_action_is_not_taken_for_a_tie_however_long_the_view(gamma, gap):
    """The worse action loses a share ``gap`` of the value: far above tol, and above rounding, EPS V / (1 - gamma)."""
    solution = solve(TabularMDP([[0, 0]], [[1 - gap, 1.0]], gamma=gamma))
    assert solution.policy.tolist() == [1]
    assert solution.value[0] == pytest.approx(1 / (1 - gamma), rel=1e-12)
    assert solution.converged


# What the solution says about itself


@given(reference.random_mdps(max_states=4))
def test_the_error_bound_bounds_the_error(drawn):
    mdp, _ = drawn
    best = reference.optimal_values_by_enumeration(mdp)
    rounding = 1e-14 * (1 + scale(best))  # of the dense solve we compare with
    for tol in (1e-9, 1e-3, 0.5):
        solution = solve(mdp, tol=tol)
        own = reference.endless_values(mdp, solution.policy)
        assert np.abs(solution.value - best).max() <= solution.error_bound + rounding
        assert np.abs(solution.value - own).max() <= solution.error_bound + rounding
        assert solution.converged
        assert solution.error_bound <= tol * max(scale(solution.value), scale(mdp.model().reward))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 2, 3]),
    st.sampled_from([0.0, 0.9, 0.99, 0.999, 0.9999]),
    st.sampled_from([1e-9, 1e-2]),
)
def test_the_error_bound_holds_to_the_last_bit(drawn, n_outcomes, gamma, tol):
    """Against rational arithmetic, with nothing added for rounding on our side."""
    mdp = reference.random_mdp(np.random.default_rng(drawn), 3, 2, n_outcomes, gamma=gamma, ending=0.05)
    solution = solve(mdp, tol=tol)
    bound = Fraction(solution.error_bound)
    valued = {tuple(policy): reference.exact_values(mdp, policy) for policy in reference.all_policies(mdp)}
    for s, value in enumerate(map(Fraction, solution.value.tolist())):
        assert abs(value - max(values[s] for values in valued.values())) <= bound
        assert abs(value - valued[tuple(solution.policy)][s]) <= bound


def test_the_error_bound_counts_what_ties_give_away():
    """Action 0 is worse by 4e-4 a step, but a tie at tol 1e-3: the value is then 4e-3 off, and the bound says so."""
    mdp = TabularMDP([[0, 0]], [[1 - 4e-4, 1.0]], gamma=0.9)
    solution = solve(mdp, tol=1e-3)
    assert solution.policy.tolist() == [0]
    assert solution.value[0] == pytest.approx(10 - 4e-3, abs=1e-12)
    assert 4e-3 <= solution.error_bound <= 1e-3 * 10
    assert solution.converged


@pytest.mark.parametrize(("gap", "action"), [(0.4e-3, 0), (0.6e-3, 1)])
def test_actions_tie_within_the_stated_tolerance(gap, action):
    """tol * (1 - gamma) / 2 of the largest value: 1e-3 * 0.5 / 2 * 2 = 0.5e-3."""
    solution = solve(TabularMDP([[0, 0]], [[1 - gap, 1.0]], gamma=0.5), tol=1e-3)
    assert solution.policy.tolist() == [action]


def test_a_near_tie_that_leads_back_into_itself_is_still_certified():
    """In state 0, action 0 is a tie each time, and 1 leaves for good: what is given away adds up, within tol."""
    for tol in (1e-3, 1e-9):
        mdp = TabularMDP([[0, 1], [1, 1]], [[1 - 0.4 * tol, 1.0], [1.0, 1.0]], gamma=0.9)
        solution = solve(mdp, tol=tol)
        assert np.abs(solution.value - 10).max() <= tol * 10
        assert solution.error_bound <= tol * 10
        assert solution.converged


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_tol_is_honoured(rng, tol):
    for n_outcomes in (None, 3):
        mdp = reference.random_mdp(rng, 40, 3, n_outcomes, gamma=0.95)
        solution = solve(mdp, tol=tol)
        best = reference.optimal_values_by_iteration(mdp)
        assert solution.error_bound <= tol * scale(best)
        assert np.abs(solution.value - best).max() <= tol * scale(best)
        assert solution.converged


def test_a_tol_below_rounding_is_not_claimed(rng):
    solution = solve(reference.random_mdp(rng, 30, 3, 3, gamma=0.99), tol=1e-300)
    assert not solution.converged
    assert "NOT converged" in repr(solution)


@pytest.mark.parametrize("rewards", [[[0.0, -1.0]], [[-1.0, 0.0]], [[0.0, 0.0]]])
def test_a_task_that_is_worth_nothing_converges(rewards):
    solution = solve(TabularMDP([[0, 0]], rewards, gamma=0.9))
    assert solution.value.tolist() == [0.0]
    assert solution.converged


def test_a_solution_is_frozen_and_prints_itself(rng):
    solution = solve(reference.random_mdp(rng))
    with pytest.raises(FrozenInstanceError):
        solution.value = None
    for array in (solution.value, solution.policy):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert solution.policy.dtype.kind == "i"
    text = repr(solution)
    for part in ("6 states", f"{solution.start_value:.6g}", "converged", f"{solution.iterations} iterations"):
        assert part in text


def test_the_same_task_gives_the_same_bits(rng):
    for n_outcomes in (None, 3):
        mdp = reference.random_mdp(rng, 40, 3, n_outcomes)
        one, two = solve(mdp), solve(mdp)
        assert one.value.tobytes() == two.value.tobytes()
        assert one.policy.tobytes() == two.policy.tobytes()
        assert (one.iterations, one.error_bound, one.start_value) == (two.iterations, two.error_bound, two.start_value)


# Ties


@pytest.mark.parametrize("reward", [0.0, 1.0, -1.0, 0.1])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999, 0.9999])
def test_equal_actions_give_the_lowest_index(rng, reward, gamma):
    """Wherever the moves lead, every state is worth the same."""
    shape = (50, 4, 3)
    next_state, chances = rng.integers(50, size=shape), rng.random(shape)
    chances /= chances.sum(axis=2, keepdims=True)
    for mdp in (
        TabularMDP(next_state, np.full(shape, reward), probability=chances, gamma=gamma),
        TabularMDP(next_state[:, :, 0], np.full(shape[:2], reward), gamma=gamma),
    ):
        solution = solve(mdp)
        assert solution.policy.tolist() == [0] * 50
        np.testing.assert_allclose(solution.value, reward / (1 - gamma), rtol=1e-12)
        assert solution.iterations < 60
        assert solution.converged


def test_ties_on_an_open_grid_go_to_the_lowest_move():
    """Two shortest ways round at every corner: policy iteration that switches on rounding would never end."""
    size, goal = 12, 12 * 12 - 1
    row, column = np.divmod(np.arange(size * size), size)
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    next_state = np.stack(
        [np.clip(row + u, 0, size - 1) * size + np.clip(column + r, 0, size - 1) for u, r in moves], axis=1
    )
    mdp = TabularMDP(next_state, np.where(next_state == goal, 1.0, 0.0), terminated=next_state == goal, gamma=0.97)
    solution = solve(mdp)
    steps = (size - 1 - row) + (size - 1 - column)
    np.testing.assert_allclose(solution.value[:goal], 0.97 ** (steps[:goal] - 1), rtol=1e-12)
    assert np.array_equal(solution.policy[:goal], np.where(column[:goal] < size - 1, 1, 2))  # east comes before south
    assert solution.iterations < 100


@pytest.mark.parametrize("gamma", [0.9, 0.999, 0.9999])
@pytest.mark.parametrize("tol", [1e-9, 1e-13])
def test_actions_that_differ_by_rounding_alone_are_ties(rng, gamma, tol):
    """Two copies of one chain, its states in another order: equal values, but for rounding. Hubs choose a copy."""
    n, hubs = 15, 30
    order = rng.permutation(n)
    next_state, chances, reward = rng.integers(n, size=(n, 3)), rng.random((n, 3)), rng.random((n, 3))
    chances /= chances.sum(axis=1, keepdims=True)
    copies = np.empty((2 * n, 2, 3), int), np.empty((2 * n, 2, 3)), np.empty((2 * n, 2, 3))
    for array, one, other in zip(
        copies, (next_state, chances, reward), (n + order[next_state], chances, reward), strict=True
    ):
        array[:n], array[n + order] = one[:, None], other[:, None]
    entered = rng.integers(n, size=hubs)
    doors = np.stack([entered, n + order[entered]], axis=1)
    doors[::2] = doors[::2, ::-1]  # the lower action leads now to one copy, now to the other
    mdp = TabularMDP(
        np.concatenate([copies[0], np.repeat(doors[:, :, None], 3, axis=2)]),
        np.concatenate([copies[2], np.ones((hubs, 2, 3))]),
        probability=np.concatenate([copies[1], np.tile([1.0, 0.0, 0.0], (hubs, 2, 1))]),
        gamma=gamma,
    )
    assert solve(mdp, tol=tol).policy.tolist() == [0] * (2 * n + hubs)


@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e6])
def test_scaled_rewards_give_the_same_policy(rng, factor):
    for n_outcomes in (None, 2, 3):
        arrays = reference.random_arrays(rng, 60, 4, n_outcomes)
        arrays["reward"] = np.round(arrays["reward"])  # few different rewards, so that many actions tie
        solution = solve(TabularMDP(**arrays, gamma=0.9))
        scaled = solve(TabularMDP(**arrays | {"reward": factor * arrays["reward"]}, gamma=0.9))
        assert np.array_equal(scaled.policy, solution.policy)
        np.testing.assert_allclose(scaled.value, factor * solution.value, rtol=1e-12, atol=1e-12 * factor)
        assert scaled.converged


def test_the_policy_is_canonical(rng):
    """Every state takes its lowest action within the tolerance, judged from the values found."""
    ties = 0
    for n_outcomes in (None, 2):
        arrays = reference.random_arrays(rng, 60, 4, n_outcomes)
        arrays["reward"] = np.round(arrays["reward"])
        arrays["next_state"][:, 2], arrays["reward"][:, 2] = arrays["next_state"][:, 1], arrays["reward"][:, 1]
        arrays["terminated"][:, 2] = arrays["terminated"][:, 1]  # action 2 does what action 1 does
        if n_outcomes:
            arrays["probability"][:, 2] = arrays["probability"][:, 1]
        mdp = TabularMDP(**arrays, gamma=0.9)
        solution = solve(mdp)
        Q = reference.q_values(mdp, solution.value)
        assert np.array_equal(solution.policy, lowest_best(Q, 1e-9))
        assert 2 not in solution.policy
        ties += (solution.policy == 1).sum()
    assert ties > 10


def test_surveillance_is_solved_quickly_and_canonically():
    mdp = domains.surveillance.task([5, 40])
    solution = solve(mdp)
    continuing = np.where(mdp.terminated, 0.0, solution.value[mdp.next_state])
    Q = mdp.reward + mdp.gamma * continuing
    np.testing.assert_allclose(Q.max(axis=1), solution.value, rtol=0, atol=1e-9)
    assert np.array_equal(solution.policy, lowest_best(Q, 1e-9))
    assert ((Q.max(axis=1, keepdims=True) - 1e-9 <= Q).sum(axis=1) > 1).mean() > 0.5  # a grid full of ties
    assert solution.iterations < 100
    assert solution.converged


# A solution is a policy

SIX = [reference.random_mdp(np.random.default_rng(i), 6, 3, 2, horizon=20) for i in range(3)]


def test_a_solution_acts_as_its_table():
    solution = solve(SIX[0])
    assert isinstance(solution, TablePolicy)
    assert isinstance(solution, Policy)
    assert solution.n_states == 6
    assert solution.act([3, 0]).tolist() == solution.policy[[3, 0]].tolist()


def test_solutions_are_valued_as_their_tables():
    solutions = [solve(task) for task in SIX]
    tables = [solution.policy for solution in solutions]
    assert np.array_equal(evaluate(SIX[0], solutions[1]), evaluate(SIX[0], tables[1]))
    U = cross_values(SIX, solutions)
    assert np.array_equal(U, cross_values(SIX, tables))
    assert np.array_equal(policy_distance(U, paired=True), policy_distance(cross_values(SIX)))
    estimates = [
        estimate_cross_values(SIX, policies, budget=60, allocation="uniform", rng=np.random.default_rng(0)).mean
        for policies in (solutions, tables)
    ]
    assert np.array_equal(*estimates)


def test_solutions_are_sources_and_are_stored(tmp_path):
    solutions = [solve(task) for task in SIX]
    chosen = {"episodes": 20, "bounds": return_bounds(SIX)}
    runs = [
        transfer(SIX[0], sources, rng=np.random.default_rng(0), **chosen)
        for sources in (solutions[1:], [solution.policy for solution in solutions[1:]])
    ]
    assert np.array_equal(runs[0].returns, runs[1].returns)
    with Repository(tmp_path / "tasks.db") as repository:
        repository.add(SIX[0], solutions[0])
        assert np.array_equal(repository.policies()[0], solutions[0].policy)


def test_a_solution_shows_itself():
    solution = solve(SIX[0])
    assert len(repr(solution)) <= 100
    frame = solution.to_frame()
    assert frame["action"].tolist() == solution.policy.tolist()
    assert frame["value"].tolist() == solution.value.tolist()
    assert repr(solution).split(",")[0] in solution._repr_html_()


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (GymTask("FrozenLake-v1"), "solve: task is a GymTask, must be a TabularMDP: pass task.table"),
        (GymTask("CartPole-v1"), "solve: task is a GymTask, must be a TabularMDP, and this environment has no table"),
        ("FrozenLake-v1", "solve: task is a str, must be a TabularMDP: pass TabularMDP.from_gymnasium(env, gamma)"),
        (None, "solve: task is a NoneType, must be a TabularMDP"),
    ],
)
def test_what_is_no_model_is_told_how_to_become_one(task, sentence):
    with pytest.raises(InvalidInputError) as caught:
        solve(task)
    assert str(caught.value).startswith(sentence)
    if isinstance(task, GymTask) and task.table is not None:
        assert solve(task.table).converged
