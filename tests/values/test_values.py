from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from scipy import sparse
from scipy.sparse.linalg import spsolve
from seams import cross as values_cross

from pastmaster import InvalidInputError, TabularMDP, cross_values, domains, evaluate, solve
from pastmaster.policies import TablePolicy

HORIZONS = (None, 1, 2, 31, 64, 65, 200, 1000)


def tasks_alike(rng, n_tasks, n_states=8, n_actions=3, n_outcomes=3, **settings) -> list[TabularMDP]:
    return [reference.random_mdp(rng, n_states, n_actions, n_outcomes, **settings) for _ in range(n_tasks)]


def policies_of_both_kinds(rng, mdp, n_policies) -> list[np.ndarray]:
    return [reference.random_policy(rng, mdp, mixed=bool(j % 2)) for j in range(n_policies)]


def reference_cross_values(tasks, policies) -> np.ndarray:
    return np.array([[reference.start_value(task, policy) for policy in policies] for task in tasks])


# evaluate


@given(reference.random_mdps())
def test_values_agree_with_the_dense_solve(drawn):
    mdp, rng = drawn
    for mixed in (False, True):
        policy = reference.random_policy(rng, mdp, mixed=mixed)
        np.testing.assert_allclose(evaluate(mdp, policy), reference.values(mdp, policy), rtol=0, atol=1e-8)


def test_every_policy_of_a_tiny_task_is_valued_right(rng):
    for n_outcomes in (None, 2):
        for horizon in (None, 5):
            mdp = reference.random_mdp(rng, 4, 3, n_outcomes, horizon=horizon)
            for policy in reference.all_policies(mdp):
                np.testing.assert_allclose(evaluate(mdp, policy), reference.values(mdp, policy), rtol=0, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999])
@pytest.mark.parametrize("n_states", [50, 400])  # elimination where it is small, sweeps where it is not
@pytest.mark.parametrize("n_outcomes", [None, 3])
@pytest.mark.parametrize("horizon", [None, 40])
def test_values_of_larger_tasks_agree_with_the_dense_solve(rng, gamma, n_states, n_outcomes, horizon):
    mdp = reference.random_mdp(rng, n_states, 2, n_outcomes, gamma=gamma, horizon=horizon, ending=0.01)
    for mixed in (False, True):
        policy = reference.random_policy(rng, mdp, mixed=mixed)
        np.testing.assert_allclose(evaluate(mdp, policy), reference.values(mdp, policy), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", [reference.TAXI, reference.CLIFF, "FrozenLake-v1", "FrozenLake8x8-v1"])
def test_values_of_gymnasiums_tasks_agree_with_the_dense_solve(rng, name):
    for horizon in (None, "env"):
        mdp = TabularMDP.from_gymnasium(name, gamma=0.99, horizon=horizon)
        for policy in (
            solve(mdp).policy,
            reference.random_policy(rng, mdp),
            reference.random_policy(rng, mdp, mixed=True),
        ):
            expected = reference.values(mdp, policy)
            np.testing.assert_allclose(evaluate(mdp, policy), expected, rtol=0, atol=1e-8)
            U = cross_values([mdp], [policy])
            assert U[0, 0] == pytest.approx(reference.start_distribution(mdp) @ expected, abs=1e-8)


@pytest.mark.parametrize("horizon", [None, 100])
def test_a_chain_of_thousands_of_states_agrees_with_a_sparse_solve(rng, horizon):
    n, gamma = 2500, 0.95
    mdp = reference.random_mdp(rng, n, 2, 3, gamma=gamma, horizon=horizon, ending=0.02, reach=4)
    policy = reference.random_policy(rng, mdp)
    every = np.arange(n)
    kept = np.where(mdp.terminated, 0.0, mdp.probability)[every, policy]
    P = sparse.csr_array((kept.ravel(), (every.repeat(3), mdp.next_state[every, policy].ravel())), shape=(n, n))
    R = (mdp.probability * mdp.reward).sum(axis=2)[every, policy]
    if horizon is None:
        expected = spsolve((sparse.eye_array(n) - gamma * P).tocsc(), R)
    else:
        expected = np.zeros(n)
        for _ in range(horizon):
            expected = R + gamma * P @ expected
    np.testing.assert_allclose(evaluate(mdp, policy), expected, rtol=0, atol=1e-8)
    spread = TabularMDP(
        mdp.next_state, mdp.reward, probability=mdp.probability, terminated=mdp.terminated,
        gamma=gamma, horizon=horizon, start=np.full(n, 1 / n),
    )  # fmt: skip
    assert cross_values([spread], [policy])[0, 0] == pytest.approx(expected.mean(), abs=1e-8)


def test_integer_types_and_lists_are_policies_too(rng):
    mdp = reference.random_mdp(rng, n_actions=2)
    actions = [0, 1, 0, 1, 1, 0]
    expected = evaluate(mdp, np.array(actions))
    assert np.array_equal(evaluate(mdp, actions), expected)
    assert np.array_equal(evaluate(mdp, np.array(actions, np.uint8)), expected)
    np.testing.assert_allclose(evaluate(mdp, np.eye(2, dtype=int)[actions]), expected, rtol=0, atol=1e-12)


def test_the_callers_policy_is_left_as_it_was(rng):
    mdp = reference.random_mdp(rng)
    for mixed in (False, True):
        policy = reference.random_policy(rng, mdp, mixed=mixed).astype(np.float64 if mixed else np.int32)
        before = policy.copy()
        evaluate(mdp, policy)
        cross_values([mdp], [policy])
        assert np.array_equal(policy, before)
        assert policy.flags.writeable


# cross_values


@given(reference.random_mdps())
def test_cross_values_are_values_from_the_start(drawn):
    mdp, rng = drawn
    policies = policies_of_both_kinds(rng, mdp, 4)
    U = cross_values([mdp], policies)
    np.testing.assert_allclose(U, reference_cross_values([mdp], policies), rtol=0, atol=1e-8)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("n_outcomes", [None, 3])
@pytest.mark.parametrize("reach", [None, 2])
def test_cross_values_of_different_tasks_agree_with_the_dense_solve(rng, horizon, n_outcomes, reach):
    """Next states anywhere make one large cycle, next states close by many small ones and states on none."""
    tasks = tasks_alike(rng, 4, 20, 3, n_outcomes, horizon=horizon, reach=reach, ending=0.05)
    policies = policies_of_both_kinds(rng, tasks[0], 7)
    U = cross_values(tasks, policies)
    assert U.shape == (4, 7)
    np.testing.assert_allclose(U, reference_cross_values(tasks, policies), rtol=0, atol=1e-8)


@pytest.mark.parametrize("horizon", [None, 1, 63, 64, 65, 128, 129, 999, 5000])
def test_cross_values_are_exact_to_the_horizon_when_gamma_is_close_to_one(rng, horizon):
    """Nothing has settled after the steps taken, so that one step more or less would show."""
    for n_outcomes in (None, 2):
        tasks = tasks_alike(rng, 2, 12, 2, n_outcomes, gamma=0.999, horizon=horizon, ending=0.0, reach=3)
        policies = policies_of_both_kinds(rng, tasks[0], 4)
        expected = reference_cross_values(tasks, policies)
        np.testing.assert_allclose(cross_values(tasks, policies), expected, rtol=0, atol=1e-8)


def test_gamma_zero_is_the_first_reward(rng):
    for n_outcomes in (None, 3):
        tasks = tasks_alike(rng, 3, n_outcomes=n_outcomes, gamma=0.0)
        policies = policies_of_both_kinds(rng, tasks[0], 4)
        np.testing.assert_allclose(
            cross_values(tasks, policies), reference_cross_values(tasks, policies), rtol=0, atol=1e-12
        )


def test_tasks_of_one_call_may_differ_in_start_horizon_and_kind(rng):
    tasks = [
        reference.random_mdp(rng, n_outcomes=n_outcomes, horizon=horizon)
        for n_outcomes in (None, 2, 3)
        for horizon in (None, 1, 9)
    ]
    policies = policies_of_both_kinds(rng, tasks[0], 5)
    np.testing.assert_allclose(
        cross_values(tasks, policies), reference_cross_values(tasks, policies), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("n_outcomes", [None, 3])
def test_without_policies_each_task_brings_its_optimal_one(rng, n_outcomes):
    tasks = tasks_alike(rng, 5, n_outcomes=n_outcomes)
    solutions = [solve(task) for task in tasks]
    U = cross_values(tasks)
    assert np.array_equal(U, cross_values(tasks, [solution.policy for solution in solutions]))
    np.testing.assert_allclose(np.diagonal(U), [s.start_value for s in solutions], rtol=0, atol=1e-8)
    assert (np.diagonal(U)[:, None] + 1e-8 >= U).all()
    assert np.ptp(U, axis=1).max() > 0.01


def shared_dynamics(rng, n_tasks, horizon, n_states=9) -> list[TabularMDP]:
    arrays = reference.random_arrays(rng, n_states, 3, 3)
    start = reference.random_start(rng, n_states)
    return [
        TabularMDP(**arrays | {"reward": rng.normal(size=(n_states, 3, 3))}, gamma=0.9, start=start, horizon=horizon)
        for _ in range(n_tasks)
    ]


@pytest.mark.parametrize("horizon", HORIZONS)
def test_tasks_that_share_their_dynamics_have_the_values_they_have_alone(rng, horizon):
    tasks = [*shared_dynamics(rng, 4, horizon), *shared_dynamics(rng, 3, horizon)]
    tasks = [tasks[i] for i in rng.permutation(7)]
    policies = policies_of_both_kinds(rng, tasks[0], 150)  # more than the method holds at once
    U = cross_values(tasks, policies)
    alone = np.concatenate([cross_values([task], policies) for task in tasks])
    np.testing.assert_allclose(U, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(U[:, :6], reference_cross_values(tasks, policies[:6]), rtol=0, atol=1e-8)


def test_tasks_that_differ_in_one_outcome_only_are_told_apart(rng):
    task = reference.random_mdp(rng, 6, 2, 2, ending=0.0)
    arrays = {name: getattr(task, name) for name in ("next_state", "reward", "probability", "terminated")}
    other_end = arrays["terminated"].copy()
    other_end[:, :, 0] = True
    other_next = (arrays["next_state"] + 1) % 6
    other_chance = arrays["probability"][:, :, ::-1]
    tasks = [
        task,
        TabularMDP(**arrays | {"terminated": other_end}, gamma=0.9, start=task.start),
        TabularMDP(**arrays | {"next_state": other_next}, gamma=0.9, start=task.start),
        TabularMDP(**arrays | {"probability": other_chance}, gamma=0.9, start=task.start),
        TabularMDP(**arrays, gamma=0.9, start=np.eye(6)[1] / 2 + np.eye(6)[4] / 2),
        TabularMDP(**arrays, gamma=0.9, start=task.start, horizon=3),
        TabularMDP(**arrays | {"reward": 2 * task.reward}, gamma=0.9, start=task.start),
    ]
    policies = policies_of_both_kinds(rng, task, 3)
    np.testing.assert_allclose(
        cross_values(tasks, policies), reference_cross_values(tasks, policies), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999])
def test_a_trajectory_that_runs_into_a_cycle_equals_plain_stepping(rng, gamma):
    """A tail of any length into a cycle of any length, capped before, at and after each of its first laps."""
    for tail in (0, 1, 2, 3, 5, 8, 13):
        for length in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17):
            n = tail + length
            following = np.append(np.arange(1, n), tail)
            reward = rng.normal(size=n)
            laps = {tail + k * length + off for k in (0, 1, 2, 3, 10) for off in (-1, 0, 1)} | {200, 1000}
            for horizon in sorted(h for h in laps if h > 0):
                mdp = TabularMDP(following[:, None], reward[:, None], gamma=gamma, horizon=horizon)
                stepped = reference.stepped_return(mdp, np.zeros(n, int), 0, horizon)
                assert cross_values([mdp], [np.zeros(n, int)])[0, 0] == pytest.approx(stepped, abs=1e-9)
            endless = TabularMDP(following[:, None], reward[:, None], gamma=gamma)
            U = cross_values([endless], [np.zeros(n, int)])
            assert U[0, 0] == pytest.approx(reference.start_value(endless, np.zeros(n, int)), abs=1e-9)


@pytest.mark.parametrize("ending", range(12))
def test_a_trajectory_stops_where_the_episode_ends(rng, ending):
    following, reward = (np.arange(12) + 1) % 12, rng.normal(size=12)
    terminated = (np.arange(12) == ending)[:, None]
    for horizon in (None, 5, 30):
        mdp = TabularMDP(following[:, None], reward[:, None], gamma=0.9, terminated=terminated, horizon=horizon)
        stepped = reference.stepped_return(mdp, np.zeros(12, int), 0, horizon or 1000)
        assert cross_values([mdp], [np.zeros(12, int)])[0, 0] == pytest.approx(stepped, abs=1e-12)


@pytest.mark.parametrize("horizon", [None, 40])
def test_the_number_of_workers_changes_no_bit(rng, horizon):
    tasks = [
        *tasks_alike(rng, 5, 9, 3, 3, horizon=horizon),
        *shared_dynamics(rng, 3, horizon),
        *tasks_alike(rng, 5, 9, 3, None, horizon=horizon),
    ]
    policies = policies_of_both_kinds(rng, tasks[0], 6)
    for given_policies in (policies, None):
        U = cross_values(tasks, given_policies, n_jobs=1)
        for n_jobs in (2, 5, -1):
            assert cross_values(tasks, given_policies, n_jobs=n_jobs).tobytes() == U.tobytes()


def test_a_row_and_a_column_can_be_had_alone(rng):
    """A new task costs a row and a column, never the whole matrix again."""
    tasks = domains.windy_corridor.family()[::7]
    policies = [solve(task).policy for task in tasks]
    U = cross_values(tasks, policies)
    np.testing.assert_allclose(cross_values(tasks[-1:], policies), U[-1:], rtol=0, atol=1e-12)
    np.testing.assert_allclose(cross_values(tasks, policies[-1:]), U[:, -1:], rtol=0, atol=1e-12)


def test_tasks_and_policies_may_come_from_generators(rng):
    tasks = tasks_alike(rng, 3)
    policies = policies_of_both_kinds(rng, tasks[0], 2)
    U = cross_values(iter(tasks), iter(policies))
    assert np.array_equal(U, cross_values(tasks, policies))
    matrix = np.stack([policies[0], policies[0][::-1]])
    assert np.array_equal(cross_values(tasks, matrix), cross_values(tasks, list(matrix)))


def test_a_policy_given_twice_has_its_value_twice(rng):
    for n_outcomes in (None, 3):
        tasks = tasks_alike(rng, 3, n_outcomes=n_outcomes)
        one, two, three, four = policies_of_both_kinds(rng, tasks[0], 4)
        sure = np.eye(3)[one]  # the same policy as probabilities
        U = cross_values(tasks, [two, one, two, four, one.astype(np.int8), three, sure, four])
        expected = reference_cross_values(tasks, [two, one, two, four, one, three, one, four])
        np.testing.assert_allclose(U, expected, rtol=0, atol=1e-8)


def test_progress_is_shown_only_if_asked_for(rng, capsys):
    tasks = tasks_alike(rng, 3)
    quiet = cross_values(tasks)
    assert capsys.readouterr() == ("", "")
    assert np.array_equal(cross_values(tasks, progress=True, n_jobs=2), quiet)


# Refusals

SMALL = TabularMDP([[0, 1], [1, 0], [2, 2]], np.zeros((3, 2)), gamma=0.9)


class Right:
    """A policy of its own kind."""

    def act(self, observations):
        return np.ones(len(observations), int)


class Drawn:
    random = True

    def act(self, observations, uniforms):
        return (uniforms < 0.5).astype(int)


def test_every_kind_of_policy_is_valued(rng):
    task = reference.random_mdp(rng, n_actions=2)
    expected = evaluate(task, np.ones(task.n_states, int))
    kinds = [np.ones(task.n_states, int), TablePolicy(np.ones(task.n_states, int)), Right(), lambda state: 1]
    for policy in kinds:
        assert evaluate(task, policy).tobytes() == expected.tobytes()
    U = cross_values([task], kinds)
    assert len(np.unique(U)) == 1
    with pytest.raises(InvalidInputError, match=r"policy is .*Drawn.*, which draws at random, must be its prob"):
        evaluate(task, Drawn())
    with pytest.raises(InvalidInputError, match=r"policies\[1\]\[0\] is action 9, must be in 0..1"):
        cross_values([task], [Right(), lambda state: 9])


def stack_of_tasks(rng: np.random.Generator, count: int, outcomes: int, horizon: int | None) -> list[TabularMDP]:
    """Tasks with the same targets; chances (some of them 0), rewards and ends differ."""
    targets = rng.integers(7, size=(7, 3, outcomes))
    tasks = []
    for _ in range(count):
        chances = rng.dirichlet(np.ones(outcomes), size=(7, 3))
        chances[rng.random((7, 3)) < 0.3] = np.eye(outcomes)[0]
        rewards = np.where(rng.random((7, 3, outcomes)) < 0.4, rng.normal(size=(7, 3, outcomes)), 0.0)
        more = {"terminated": rng.random((7, 3, outcomes)) < 0.2, "gamma": 0.9, "horizon": horizon, "start": 2}
        tasks.append(TabularMDP(targets, rewards, probability=chances, **more))
    return tasks


@pytest.mark.parametrize("outcomes", [2, 3, 5])
@pytest.mark.parametrize("horizon", [1, 7, 300])
def test_tasks_valued_side_by_side_have_the_values_of_each_alone(outcomes, horizon):
    rng = np.random.default_rng(outcomes + horizon)
    tasks = stack_of_tasks(rng, 19, outcomes, horizon)
    policies = [*rng.integers(3, size=(12, 7)), rng.dirichlet(np.ones(3), size=7)]
    cross = values_cross._Cross(tasks, policies)
    assert sorted(map(len, cross.together)) == [3, 16]
    together = np.asarray(cross_values(tasks, policies))
    alone = np.concatenate([np.asarray(cross_values([task], policies)) for task in tasks])
    np.testing.assert_array_equal(together, alone)
    assert (together != 0).any()
    order = rng.permutation(19)
    np.testing.assert_array_equal(cross_values([tasks[i] for i in order], policies, n_jobs=2), alone[order])


def test_only_tasks_with_the_same_targets_and_horizon_are_stacked():
    rng = np.random.default_rng(0)
    first, other = stack_of_tasks(rng, 3, 2, 9), stack_of_tasks(rng, 2, 2, 9)
    endless = stack_of_tasks(rng, 2, 2, None)
    assert set(values_cross._stacks([*first, *other, *endless], list(range(7)))) == {(0, 1, 2), (3, 4)}


def test_the_windy_corridors_are_stacked_by_goal():
    tasks = domains.windy_corridor.family()
    cross = values_cross._Cross(tasks, [np.zeros(tasks[0].n_states, int)])
    assert sorted(map(len, cross.together)) == [9] * 10
