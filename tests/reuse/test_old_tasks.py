"""What is known of old tasks: what is refused, by name; and how alike tasks are, learned by leaving them out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import reference
import reuse_reference

from pastmaster import (
    Experience,
    FixedPolicy,
    GymTask,
    Informed,
    InvalidInputError,
    cross_values,
    estimate_cross_values,
    return_bounds,
    transfer,
)
from pastmaster.policies import NetworkPolicy
from pastmaster.reuse.experience import LEFT_OUT, as_experience, likeness

VALUES = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.5]])


# refusals


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (VALUES[:, :1], r"Informed: experience has 1 columns, must have one to each of 2 sources"),
        (np.ones((3, 3)), r"Informed: experience has 3 columns, must have one to each of 2 sources"),
        ([[0.1, np.nan]], r"Informed: experience: values\[0, 1\] is nan"),
        ([1.0, 2.0], r"Informed: experience: values has shape \(2,\)"),
        (None, r"Informed: experience"),
        ("x", r"Informed: experience"),
        (7, r"Informed: experience"),
        ({"surprise": 1}, r"Informed: experience"),
        ({"values": VALUES, "errors": -VALUES}, r"Informed: experience: errors"),
        (object(), r"Informed: experience"),
        ([[True, "a"]], r"Informed: experience"),
    ],
)
def test_a_selector_refuses_experience_that_does_not_fit_its_sources(given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        Informed(2, 10, bounds=(0, 1), experience=given, rng=0)


def met(**changes):
    """A call of ``transfer`` that is fine as it is, with changes."""
    task = reference.random_mdp(np.random.default_rng(0), horizon=5)
    sources = {"left": np.zeros(task.n_states, int), "right": np.ones(task.n_states, int)}
    fine = {"episodes": 4, "bounds": return_bounds(task), "rng": 0, "experience": VALUES}
    return transfer(task, sources, **fine | changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"experience": np.ones((2, 3))}, "transfer: experience has 3 columns, must have one to each of 2 sources"),
        ({"experience": [[np.nan, 1.0]]}, r"transfer: experience: values\[0, 0\] is nan"),
        (
            {"experience": Experience(VALUES, sources=["right", "left"])},
            "transfer: column 0 of experience is 'right', but source 0 is 'left': must be the sources, in their order",
        ),
        (
            {"experience": pd.DataFrame(VALUES, columns=["left", "up"])},
            "transfer: column 1 of experience is 'up', but source 1 is 'right'",
        ),
        ({"selector": "regret-balancing"}, "transfer: experience is of no use to the selector 'regret-balancing'"),
        ({"selector": "exp3-transfer"}, "transfer: experience is of no use to the selector 'exp3-transfer'"),
        ({"selector": "ppr"}, "transfer: experience is of no use to the selector 'ppr'"),
        (
            {"selector": "informed", "experience": None},
            "transfer: experience must be given for the selector 'informed'",
        ),
        ({"share": True}, "transfer: share is True, must be False for 'informed'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_by_name(changes, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        met(**changes)


# what is taken


def test_arrays_frames_and_experience_are_the_same():
    wanted = met()
    assert wanted.selectors[0].name == "informed"
    for same in (
        VALUES.tolist(),
        pd.DataFrame(VALUES, columns=["left", "right"]),
        pd.DataFrame(VALUES),
        Experience(VALUES),
    ):
        run = met(experience=same)
        assert run.returns.tolist() == wanted.returns.tolist()
        assert run.arms.tolist() == wanted.arms.tolist()


def test_an_estimate_of_cross_values_comes_with_its_errors():
    rng = np.random.default_rng(0)
    carts = [GymTask("pastmaster/CartPole-v0", {"gravity": gravity}, horizon=9) for gravity in (5.0, 9.0, 15.0)]
    networks = [NetworkPolicy([(rng.normal(size=(2, 4)), np.zeros(2))]) for _ in range(3)]
    estimate = estimate_cross_values(carts, networks, budget=90, rng=rng)
    found = as_experience("transfer", estimate, 3)
    np.testing.assert_array_equal(found.values, estimate.mean)
    np.testing.assert_array_equal(found.errors, estimate.standard_error)
    np.testing.assert_array_equal(found.spread, estimate.spread)
    assert (found.spread >= found.errors).all()
    assert (found.errors > 0).any()
    with pytest.raises(
        InvalidInputError, match="transfer: experience has 3 columns, must have one to each of 2 sources"
    ):
        as_experience("transfer", estimate, 2)


def test_an_estimate_of_more_policies_is_experience_of_the_sources():
    """Its columns are taken by name; without names the error says what to pass."""
    rng = np.random.default_rng(0)
    carts = [GymTask("pastmaster/CartPole-v0", {"gravity": gravity}, horizon=9) for gravity in (5.0, 9.0, 15.0)]
    networks = {name: NetworkPolicy([(rng.normal(size=(2, 4)), np.zeros(2))]) for name in "abc"}
    estimate = estimate_cross_values(carts, networks, budget=90, rng=rng)
    found = as_experience("transfer", estimate, 2, ["c", "a"])
    np.testing.assert_array_equal(found.values, estimate.mean[:, [2, 0]])
    np.testing.assert_array_equal(found.errors, estimate.standard_error[:, [2, 0]])
    np.testing.assert_array_equal(found.spread, estimate.spread[:, [2, 0]])
    assert found.sources == ("c", "a")
    told = r"must have one to each of 2 sources: .* the columns of those kept, U\[:, kept.columns\] \(estimate.mean\[:"
    for names in (None, ["c", "d"]):
        with pytest.raises(InvalidInputError, match=told):
            as_experience("transfer", estimate, 2, names)
    learner = FixedPolicy(networks["b"])
    run = transfer(carts[0], {"c": networks["c"]}, experience=estimate, episodes=3, learner=learner, rng=0)
    assert run.returns.shape == (1, 3)


def test_cross_values_of_the_kept_policies_are_experience(rng):
    tasks = [reference.random_mdp(rng, 5, 2, horizon=6) for _ in range(4)]
    policies = [reference.random_policy(rng, task) for task in tasks]
    found = as_experience("transfer", np.asarray(cross_values(tasks, policies))[:, [0, 2]], 2)
    assert repr(found) == "Experience(4 tasks, 2 sources)"


def test_experience_is_kept_apart_from_the_callers_arrays_and_written_down():
    values = VALUES.copy()
    known = Experience(values, errors=values / 10, spread=values / 5, best=[1.0, 0.1, 0.6], sources=["a", "b"])
    values[:] = 7.0
    assert known.values.tolist() == VALUES.tolist()
    with pytest.raises(ValueError, match="read-only"):
        known.values[0, 0] = 1.0
    again = Experience(**known.to_dict())
    assert again.to_dict() == known.to_dict()
    assert known.best_known.tolist() == [1.0, 0.8, 0.6]
    assert Experience(VALUES).best_known.tolist() == [0.9, 0.8, 0.5]


# how alike tasks are


def family(rng, *, deviation=0.0, odd=0.0, unlike=0.0, pairs=100, c=30):
    """Pairs of tasks that are alike; one of each deviates, some of its sources are odd; and tasks of no pair."""
    first = rng.random((pairs, c))
    near = first + rng.normal(0, deviation, first.shape)
    second = np.where(rng.random(first.shape) < odd, rng.random(first.shape), near)
    alone = rng.random((round(2 * pairs * unlike / (1 - unlike)), c))
    rows = np.concatenate([first, second, alone])
    return rows[rng.permutation(len(rows))]


@pytest.mark.parametrize("deviation", [0.0, 0.002, 0.01, 0.02])
def test_the_deviation_of_tasks_that_are_alike_is_found(deviation, seed):
    """To a tenth, and never below a thousandth of the span."""
    rows = family(np.random.default_rng(seed), deviation=deviation)
    found = likeness(rows)
    assert np.sqrt(found.variance) == pytest.approx(np.hypot(deviation, 1e-3), rel=0.1)
    left_out = rows[np.linspace(0, len(rows) - 1, LEFT_OUT).astype(int)]
    assert found.unlike <= 1 / (len(np.unique(left_out, axis=0)) + 2)
    assert found.odd <= 0.02


@pytest.mark.parametrize("odd", [0.02, 0.1, 0.3])
def test_the_share_of_odd_sources_is_found(odd, seed):
    """To 0.03; of those that are odd, one in ten is where it was by chance."""
    found = likeness(family(np.random.default_rng(seed), deviation=0.005, odd=odd))
    assert found.odd == pytest.approx(0.9 * odd, abs=0.03)
    # an odd source near its former value counts as one that deviates
    assert 0.8 <= np.sqrt(found.variance) / np.hypot(0.005, 1e-3) <= (1.6 if odd > 0.2 else 1.2)


@pytest.mark.parametrize("unlike", [0.1, 0.3, 0.6])
def test_the_share_of_tasks_like_none_is_found(unlike, seed):
    """To two and a half standard errors; and these tasks do not count as odd sources of tasks that are alike."""
    found = likeness(family(np.random.default_rng(seed), deviation=0.005, unlike=unlike))
    assert found.unlike == pytest.approx(unlike, abs=2.5 * np.sqrt(unlike * (1 - unlike) / LEFT_OUT))
    assert found.odd <= 0.05
    assert np.sqrt(found.variance) == pytest.approx(np.hypot(0.005, 1e-3), rel=0.2)


@pytest.mark.parametrize(
    "payoffs",
    [
        np.array([[0.3, 0.6]]),
        np.array([[0.3]]),
        np.array([[0.3], [0.31]]),
        np.array([[0.1], [0.9]]),
        np.full((10, 4), 0.5),
        np.tile([[0.1, 0.9]], (5, 1)),
        np.empty((4, 0)),
        np.empty((1, 0)),
        np.full((200, 2), 0.25),
        np.array([[1e9, -1e9], [0.0, 0.0]]),
    ],
)
def test_few_equal_or_strange_tasks_still_give_shares_and_a_variance(payoffs):
    variance, odd, unlike, noise = likeness(payoffs, np.zeros(payoffs.shape))
    assert 1e-6 <= variance < 1.0
    assert 0.0 < odd < 1.0
    assert 0.0 < unlike < 1.0
    assert 0.0 < noise <= 1.0


def test_rows_that_are_nearly_equal_are_alike(rng):
    variance, odd, unlike, _ = likeness(np.tile([[0.1, 0.5, 0.9]], (40, 1)) + rng.normal(0, 1e-9, (40, 3)))
    assert variance == pytest.approx(1e-6, rel=0.1)
    assert odd < 0.02
    assert unlike < 0.04


def test_rows_that_are_equal_count_once(rng):
    """A task that stands there forty times is found again by itself, whatever a new one will be like."""
    rows = rng.random((6, 3))
    once, often = likeness(np.repeat(rows, 2, axis=0)), likeness(np.repeat(rows, 40, axis=0))
    assert once == often
    assert likeness(np.tile(rows[:1], (40, 1))).unlike == pytest.approx(1 / 3)


@pytest.mark.parametrize("deviation", [0.1, 0.4, 1.0])
def test_how_alike_the_noise_of_tasks_is_is_found(deviation, seed):
    """To a tenth; without spreads it is taken to be anything."""
    rng = np.random.default_rng(seed)
    rows, logs = rng.random((100, 30)), rng.normal(-3, 0.5, (100, 30))
    values = np.concatenate([rows, rows + rng.normal(0, 0.002, rows.shape)])
    spreads = np.exp(np.concatenate([logs, logs + rng.normal(0, deviation, rows.shape)]))
    assert np.sqrt(likeness(values, spreads).noise) == pytest.approx(deviation, rel=0.1)
    assert likeness(values).noise == 1.0


def test_how_much_returns_scatter_tells_old_tasks_apart():
    """Ten tasks where two sources are loud, ten where they are quiet; a third tells which is like which, untried."""
    values = np.repeat([[0.5, 0.5, 0.1], [0.5, 0.5, 0.3]], 10, axis=0)
    values += np.random.default_rng(0).normal(0, 1e-9, values.shape)  # equal rows would count once
    spread = np.repeat([[0.4, 0.4, 0.0], [0.05, 0.05, 0.0]], 10, axis=0)
    for scatter, alike in ((0.4, slice(0, 10)), (0.05, slice(10, 20))):
        selector = Informed(3, 100, bounds=(0, 1), experience=Experience(values, spread=spread), rng=0)
        for sign in (1, -1, 1, -1, 1, -1):
            selector.tell(reuse_reference.forced(selector, 0), 0.5 + sign * scatter)
        assert selector.alike[alike].sum() > 0.9
