"""Exactly k policies: what cells that share a column get instead, against enumeration."""

from __future__ import annotations

import itertools

import clustering_reference as reference
import numpy as np
import pytest
from seams import different_cells

from pastmaster import Clustering, search_clusterings
from pastmaster.clustering import Question

SMALL = {"restarts": 4, "iterations": 3000}


def reach_of(distance, labels, columns, kind):
    """What cells cost with given columns."""
    radii = [max(distance[i][j] for i in members) for members, j in zip(reference.cells(labels), columns, strict=True)]
    sizes = [len(members) for members in reference.cells(labels)]
    return max(radii) if kind == "worst" else sum(r * n for r, n in zip(radii, sizes, strict=True)) / len(distance)


@pytest.mark.parametrize("kind", ["average", "worst"])
def test_cells_get_the_cheapest_different_columns(rng, kind):
    for _ in range(60):
        k = int(rng.integers(2, 4))
        distance = rng.random((6, 4))
        labels = np.array(reference.canonical([*range(k), *rng.integers(k, size=6 - k)]), np.int32)
        problem = Question(n_clusters=k, directed=True, kind=kind).about("test", distance)
        found = different_cells(problem, labels)
        assert len(set(found.representatives.tolist())) == k
        ways = itertools.permutations(range(4), k)
        assert reach_of(distance, labels, found.representatives, kind) == pytest.approx(
            min(reach_of(distance, labels, way, kind) for way in ways)
        )
        made = Clustering.of(problem, labels)
        assert made.cost == pytest.approx(reach_of(distance, labels, made.representatives, kind))
        assert made.radii.tolist() == found.radii.tolist()


@pytest.mark.parametrize("kind", ["average", "worst"])
def test_k_policies_are_k_different_ones_and_the_bound_holds_for_them(rng, kind):
    """Against all partitions with all choices of different columns; the gap is never too small."""
    shared = 0
    for _ in range(12):
        distance, k = rng.random((5, 4)) ** 3 * np.array([0.2, 1.0, 1.0, 1.0]), int(rng.integers(2, 5))
        certify = {"certify": True, "certify_seconds": 2.0} if kind == "average" else {}
        found = search_clusterings(distance, n_clusters=k, directed=True, kind=kind, rng=rng, **SMALL, **certify)
        assert len(set(found.representatives.tolist())) == k
        all_of_k = [p for p in reference.partitions(5) if max(p) == k - 1]
        best = min(reach_of(distance, p, w, kind) for p in all_of_k for w in itertools.permutations(range(4), k))
        free = min(reference.reach(distance, p, kind, directed=True) for p in all_of_k)
        shared += free < best - 1e-12
        assert found.cost >= best - 1e-12
        if kind == "average":
            assert found.lower_bound <= best + 1e-9
            assert not found.is_optimal or found.cost == pytest.approx(best, rel=2e-5)
    assert shared > 0  # there is something to do


def test_one_good_policy_is_not_kept_three_times():
    """Tasks at three distances from policy 0: three cells would all take it."""
    distance = np.array([[0.0, 9.0, 9.0]] * 2 + [[1.0, 9.0, 9.0]] * 2 + [[2.0, 3.0, 2.5]] * 2)
    found = search_clusterings(distance, n_clusters=3, directed=True, rng=0, certify=True, **SMALL)
    assert sorted(found.representatives.tolist()) == [0, 1, 2]
    assert found.cost > found.lower_bound
    assert not found.is_optimal
    assert found.losses.tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    assert {row.policy for row in found.table()} == {0}


def test_equal_columns_are_one_policy_and_too_few_are_told():
    distance = np.array([[0.0, 0.0, 4.0], [1.0, 1.0, 4.0], [5.0, 5.0, 0.5]])
    two = search_clusterings(distance, n_clusters=2, directed=True, rng=0, **SMALL)
    assert sorted(two.representatives.tolist()) == [0, 2]
    three = search_clusterings(distance, n_clusters=3, directed=True, rng=0, **SMALL)
    assert three.n_clusters == 3
    assert "2 of 3 policies kept (3 groups, but no more are different)" in repr(three)


def test_a_task_is_charged_the_best_kept_policy_not_its_cells(rng):
    distance = np.array([[0.0, 4.0], [3.0, 1.0], [2.0, 2.0]])
    made = Clustering.from_labels(distance, [0, 0, 1], directed=True)  # task 1 is better off with the other policy
    assert made.representatives.tolist() == [0, 0]
    made = Clustering.of(Question(n_clusters=2, directed=True).about("test", distance), made.labels)
    assert [(row.task, row.cell, row.policy, row.loss) for row in made.table()] == [
        (0, 0, 0, 0.0), (1, 0, 1, 1.0), (2, 1, 1, 2.0),
    ]  # fmt: skip
    assert made.losses.tolist() == [0.0, 1.0, 2.0]
    for _ in range(20):
        D = rng.random((7, 5))
        some = search_clusterings(D, n_clusters=3, directed=True, rng=rng, restarts=1, iterations=200)
        assert some.losses.tolist() == D[:, some.representatives].min(axis=1).tolist()
        assert (some.losses <= some.radii[some.labels]).all()
