"""gamma = 1 with a horizon: values, bounds and policies against enumeration of all that can happen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import reference
from seams import NEAR_ONE, task_data

from pastmaster import (
    InvalidInputError,
    TabularMDP,
    cross_values,
    domains,
    evaluate,
    return_bounds,
    return_spread,
    solve,
)


def episodes(mdp: TabularMDP, table: np.ndarray | None, s: int, steps: int) -> Iterator[tuple[float, float]]:
    """Probability and undiscounted return of every episode from a state; without a policy, of all actions alike."""
    if steps == 0:
        yield 1.0, 0.0
        return
    for a in range(mdp.n_actions):
        weight = 1.0 if table is None else table[s, a]
        for chance, following, reward, over in reference.outcomes(mdp, s, a) if weight > 0 else ():
            rest = [(1.0, 0.0)] if over else episodes(mdp, table, following, steps - 1)
            for p, total in rest:
                yield weight * chance * p, reward + total


def drawn(rng: np.random.Generator, horizon: int, **settings: Any) -> TabularMDP:
    arrays = vars(reference.random_mdp(rng, n_states=3, n_actions=2, **settings))
    names = ("next_state", "reward", "probability", "terminated")
    return TabularMDP(**{name: arrays[name] for name in names}, gamma=1, horizon=horizon, start=0)


@pytest.mark.parametrize("horizon", [1, 2, 4])
@pytest.mark.parametrize("deterministic", [True, False])
def test_values_are_those_of_all_episodes_enumerated(horizon: int, deterministic: bool, rng: Any) -> None:
    for _ in range(10):
        mdp = drawn(rng, horizon, n_outcomes=1 if deterministic else 2)
        for mixed in (False, True):
            policy = reference.random_policy(rng, mdp, mixed=mixed)
            table = policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]
            found = [sum(p * total for p, total in episodes(mdp, table, s, horizon)) for s in range(3)]
            np.testing.assert_allclose(evaluate(mdp, policy), found, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(cross_values([mdp, mdp], [policy])[:, 0], found[0], rtol=1e-12, atol=1e-12)
            second = sum(p * total**2 for p, total in episodes(mdp, table, 0, horizon))
            spread = return_spread([mdp], [policy])[0, 0]
            assert spread == pytest.approx(np.sqrt(max(0.0, second - found[0] ** 2)), abs=1e-6)


@pytest.mark.parametrize("horizon", [1, 3, 5])
def test_bounds_are_the_extremes_of_all_episodes(horizon: int, rng: Any) -> None:
    for _ in range(10):
        mdp = drawn(rng, horizon, n_outcomes=2)
        returns = [total for p, total in episodes(mdp, None, 0, horizon) if p > 0]
        lower, upper = return_bounds(mdp)
        assert lower <= min(returns)
        assert upper >= max(returns)
        assert (lower, upper) == pytest.approx((min(returns), max(returns)), abs=1e-9)


def test_a_long_cycle_is_summed_to_the_horizon() -> None:
    ring = TabularMDP([[1], [2], [0]], [[1.0], [2.0], [4.0]], gamma=1, horizon=1_000_003)
    assert cross_values([ring], [[0, 0, 0]])[0, 0] == 333_334 * 7 + 1
    assert evaluate(ring, [0, 0, 0])[0] == 333_334 * 7 + 1


def test_the_policy_is_that_near_one_and_its_value_that_of_the_horizon(rng: Any) -> None:
    for _ in range(10):
        mdp = drawn(rng, 6, n_outcomes=2)
        arrays = {name: getattr(mdp, name) for name in ("next_state", "reward", "probability", "terminated")}
        near = solve(TabularMDP(**arrays, gamma=NEAR_ONE))
        found = solve(mdp)
        assert found.policy.tolist() == near.policy.tolist()
        assert found.converged
        np.testing.assert_allclose(found.value, evaluate(mdp, found.policy), rtol=0, atol=0)
        assert found.start_value == found.value[0]


def test_actions_equally_good_near_one_are_told_apart_by_value() -> None:
    # one pays 1 at once, the other 1 / 0.999 a step later: equal at 0.999, not at 1
    task = TabularMDP(
        [[0, 1], [1, 1]], [[1.0, 0.0], [1 / NEAR_ONE, 1 / NEAR_ONE]], terminated=[[True, False], [True, True]],
        gamma=1, horizon=5,
    )  # fmt: skip
    assert solve(task).policy.tolist() == [1, 0]
    assert solve(task).start_value == 1 / NEAR_ONE
    plain = TabularMDP(task.next_state, task.reward, terminated=task.terminated, gamma=NEAR_ONE)
    assert solve(plain).policy.tolist() == [0, 0]  # the lowest


def test_actions_that_never_differ_are_the_lowest() -> None:
    loop = TabularMDP([[0, 1], [0, 1]], [[0.0, 0.0], [0.0, 0.0]], gamma=1, horizon=3)
    assert solve(loop).policy.tolist() == [0, 0]


def test_gamma_one_needs_a_horizon_and_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"TabularMDP: gamma is 1, must be in \[0, 1\), or 1 with a horizon"):
        TabularMDP([[0]], [[1.0]], gamma=1)
    with pytest.raises(InvalidInputError, match="gamma is True"):
        TabularMDP([[0]], [[1.0]], gamma=True, horizon=3)
    with pytest.raises(InvalidInputError, match="1e300 / horizon"):
        TabularMDP([[0]], [[1e299]], gamma=1, horizon=100)
    task = TabularMDP([[0]], [[1.0]], gamma=1, horizon=3)
    with pytest.raises(InvalidInputError, match="gamma is 1, must be below 1 for the paper's bounds"):
        return_bounds(task, kind="paper")
    assert task_data(task)


@pytest.mark.parametrize("targets", [1, 2, 3])
def test_surveillance_without_a_discount_is_worth_what_the_paper_pays(targets: int) -> None:
    tasks = domains.surveillance.family(8, targets, n_sequences=4, rng=1, gamma=1.0, escape_ends=False)
    new = domains.surveillance.new_tasks(tasks, 2, rng=2)
    assert {(one.gamma, one.params["escape_ends"]) for one in [*tasks, *new]} == {(1.0, False)}
    lower, upper = return_bounds(tasks)
    assert lower == pytest.approx(-10 * 200)  # surveil in vain at every step
    assert 150 * targets < upper < 200 * targets
    values = cross_values(tasks)
    assert (values.diagonal() > 140 * targets).all()


def test_at_gamma_one_every_hub_is_surveilled_and_at_09_none() -> None:
    hubs = domains.surveillance.groups(complex=True)[:, 0]
    cells = domains.surveillance.locations(complex=True)
    for gamma, wanted in ((1.0, 16), (0.9, 0)):
        count = 0
        for hub in hubs:
            task = domains.surveillance.task([int(hub)], complex=True, gamma=gamma, escape_ends=False)
            state, policy = int(task.start), solve(task).policy
            for _ in range(200):
                if policy[state] == domains.surveillance.SURVEIL:
                    break
                state = int(task.next_state[state, policy[state]])
            count += state == cells[hub]
        assert count == wanted


def test_as_many_tasks_as_the_sequences_have_are_all_of_them() -> None:
    tasks = domains.surveillance.family(100, 2, n_sequences=4, rng=3, complex=True)
    groups = domains.surveillance.group_sequences(tasks)
    for group in np.unique(groups, axis=0):
        own = {tuple(t.params["sequence"]) for t, g in zip(tasks, groups, strict=True) if (g == group).all()}
        members = domains.surveillance.groups(complex=True)[group]
        assert own == set(itertools.product(*members.tolist()))
