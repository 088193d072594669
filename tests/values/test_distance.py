"""policy_distance of ``values``."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from pastmaster import InvalidInputError, cross_values, domains, policy_distance, search_clusterings, solve

SMALL = {"restarts": 2, "iterations": 500}


def test_the_distance_is_the_larger_of_the_two_regrets():
    U = [[5.0, 3.0, 4.5], [1.0, 2.0, 1.5], [0.0, -4.0, 1.0]]
    regret = [[0.0, 2.0, 0.5], [1.0, 0.0, 0.5], [1.0, 5.0, 0.0]]
    assert policy_distance(U, directed=True).tolist() == regret
    assert policy_distance(U, paired=True).tolist() == [[0.0, 2.0, 1.0], [2.0, 0.0, 5.0], [1.0, 5.0, 0.0]]


def test_the_reference_is_the_best_of_the_row_whoever_has_it(rng):
    """Also where a task's own policy is not the best one for it: learned, or cut short by the horizon."""
    U = rng.normal(size=(9, 9))
    assert (np.diagonal(U)[:, None] < U).any()
    regret = U.max(axis=1)[:, None] - U
    for paired in (None, True, False):
        assert np.array_equal(policy_distance(U, directed=True, paired=paired), regret)
    d = policy_distance(U, paired=True)
    assert np.array_equal(d, np.maximum(regret, regret.T))
    assert np.array_equal(np.diagonal(d), U.max(axis=1) - np.diagonal(U))


def test_policies_in_another_order_than_the_tasks_are_no_pairs():
    """Three tasks, their policies in another order: by pairs, nothing would seem to be lost where 10 is."""
    U = np.array([[0.0, 10.0, 0.0], [0.0, 0.0, 10.0], [10.0, 0.0, 0.0]])
    with pytest.raises(InvalidInputError, match=r"policy_distance: paired is not said.*True if.*directed=True"):
        policy_distance(U)
    with pytest.raises(InvalidInputError, match="policy_distance: paired is False, must be True if"):
        policy_distance(U, paired=False)
    kept = search_clusterings(policy_distance(U, directed=True), n_clusters=1, directed=True, rng=0, **SMALL)
    assert kept.cost == 10.0
    assert sorted(kept.losses.tolist()) == [0.0, 10.0, 10.0]
    paired = search_clusterings(policy_distance(U, paired=True), n_clusters=3, rng=0, **SMALL)
    assert paired.cost == 10.0  # every task loses 10 under the policy said to be its own


def test_only_the_very_array_knows_that_it_is_paired():
    tasks = domains.windy_corridor.family()[::9]
    U = cross_values(tasks)
    assert U.paired
    assert policy_distance(U).shape == (12, 12)
    others = [
        U[::-1], U[:, ::-1], U[:3, :3], U[:], U.copy(), copy.deepcopy(U), U.T, U + 0.0, 2 * U, -U, np.asarray(U),
        np.array(U), U.astype(float), U.reshape(12, 12), np.sort(U), pickle.loads(pickle.dumps(U)), U.view(),
        U.tolist(), np.take(U, range(12), axis=1), np.concatenate([U]),
        cross_values(tasks, [solve(task) for task in tasks]),
    ]  # fmt: skip
    for other in others:
        assert not getattr(other, "paired", False)
        with pytest.raises(InvalidInputError, match="paired is not said"):
            policy_distance(other)
    U[[0, 1]] = U[[1, 0]]
    assert not U.paired


def test_ties_but_for_rounding_lose_nothing(rng):
    """The same policy summed in another order may be worth a bit more: bits do not make losses."""
    U = rng.normal(size=(6, 6))
    np.fill_diagonal(U, 3.0)
    nudged = U.copy()
    nudged[0, 1], nudged[2, 4] = np.nextafter(3.0, 4.0), np.nextafter(3.0, 2.0)
    for options in ({"directed": True}, {"paired": True}):
        d = policy_distance(nudged, **options)
        assert (np.diagonal(d) == 0.0).all()
    d = policy_distance(nudged, directed=True)
    assert d[0, 1] == d[2, 4] == 0.0
    rest = np.ones((6, 6), bool)
    rest[0, 1] = rest[2, 4] = False
    symmetric, before = policy_distance(nudged, paired=True), policy_distance(U, paired=True)
    assert np.array_equal(symmetric[rest & rest.T], before[rest & rest.T])


def test_a_far_worse_policy_does_not_hide_small_losses():
    assert policy_distance([[-1e15, 0.5, 0.5004]], directed=True)[0, 1] == pytest.approx(0.0004)


def test_a_rectangle_measures_against_the_best_policy_there_is():
    U = [[5.0, 3.0, 6.0], [1.0, 2.0, 1.5]]
    expected = [[1.0, 3.0, 0.0], [1.0, 0.0, 0.5]]
    assert policy_distance(U, directed=True).tolist() == expected
    assert policy_distance(U, directed=True, paired=False).tolist() == expected
    tall = np.transpose(U)
    assert policy_distance(tall, directed=True).tolist() == [[0.0, 4.0], [0.0, 1.0], [0.0, 4.5]]


def test_the_distance_of_real_tasks_never_goes_below_zero():
    U = cross_values(domains.windy_corridor.family()[::9])
    for directed in (False, True):
        d = policy_distance(U, directed=directed)
        assert d.min() == 0.0
        assert d.max() > 0.1
        assert (np.diagonal(d) == 0.0).all()


def test_cross_values_are_left_as_they_were():
    U = np.array([[1.0, 3.0], [0.0, 4.0]])
    policy_distance(U, paired=True)
    assert U.tolist() == [[1.0, 3.0], [0.0, 4.0]]
    assert U.flags.writeable
