from __future__ import annotations

import itertools

import clustering_reference as reference
import numpy as np
import pytest

from pastmaster import (
    Clustering,
    InvalidInputError,
    clustering_cost,
    cost_lower_bound,
    exhaustive_clustering,
    greedy_clustering,
    regret_bound,
    search_clusterings,
)

SETTING = {"episodes": 1000, "span": 3.0}

# Two tight pairs, and a task that is near to task 1 only.
PAIRS = np.array(
    [
        [0.0, 1.0, 6.0, 6.0, 9.0],
        [1.0, 0.0, 6.0, 6.0, 2.0],
        [6.0, 6.0, 0.0, 0.5, 9.0],
        [6.0, 6.0, 0.5, 0.0, 9.0],
        [9.0, 2.0, 9.0, 9.0, 0.0],
    ]
)
LOSSES = np.array([[0.0, 3.0, 1.0], [4.0, 0.0, 1.0], [5.0, 2.0, 0.5], [0.2, 7.0, 8.0]])


# g


def test_the_regret_bound_is_what_the_formula_gives_by_hand():
    assert regret_bound(0, 100, 5.0) == 0.0
    assert regret_bound(1, 2, 1.0) == pytest.approx(2 * 1.3108324944 * 0.8325546112, abs=1e-9)
    assert regret_bound(3, 10_000, 7.0) == pytest.approx(7 * 2 * 1.3108324944 * 0.0235482004, abs=1e-9)
    assert isinstance(regret_bound(3, 10_000, 7.0), float)


def test_the_regret_bound_of_many_numbers_of_cells_has_their_shape():
    c = np.arange(6).reshape(2, 3)
    np.testing.assert_allclose(
        regret_bound(c, 50, 2.0), [[reference.regret_bound(int(k), 50, 2.0) for k in row] for row in c], rtol=1e-14
    )


# cost


def drawn_cases(rng):
    """(distance, directed): symmetric, with ties and zeros, directed square and rectangular."""
    for _ in range(25):
        n_tasks = int(rng.integers(1, 9))
        n_columns = int(rng.integers(1, 9))
        yield reference.random_symmetric(rng, n_tasks), False
        yield reference.random_symmetric(rng, n_tasks, levels=3), False
        yield reference.random_directed(rng, n_tasks, n_tasks), True
        yield reference.random_directed(rng, n_tasks, n_tasks, own=False), True
        yield reference.random_directed(rng, n_tasks, n_columns, levels=3), True


def test_the_cost_is_that_of_the_plain_loops(rng):
    for distance, directed in drawn_cases(rng):
        for kind in reference.KINDS[: 2 if directed else 3]:
            labels = rng.integers(int(rng.integers(1, len(distance) + 1)), size=len(distance))
            expected = reference.cost(distance, labels, 1000, 3.0, kind, directed)
            found = clustering_cost(distance, labels, **SETTING, kind=kind, directed=directed)
            assert found == pytest.approx(expected, rel=1e-12)
            made = Clustering.from_labels(distance, labels, **SETTING, kind=kind, directed=directed)
            assert made.cost == found


def test_the_average_cost_is_at_most_the_other_two(rng):
    for distance, directed in drawn_cases(rng):
        labels = rng.integers(len(distance), size=len(distance))
        average = clustering_cost(distance, labels, **SETTING, directed=directed)
        for kind in reference.KINDS[1 : 2 if directed else 3]:
            assert average <= clustering_cost(distance, labels, **SETTING, kind=kind, directed=directed) + 1e-12


def test_the_cost_does_not_depend_on_what_cells_are_called():
    costs = {clustering_cost(PAIRS, labels, **SETTING) for labels in ([0, 0, 1, 1, 0], [7, 7, -3, -3, 7])}
    assert len(costs) == 1


def test_directed_costs_are_never_above_symmetric_ones(rng):
    """The larger of the two regrets is the symmetric distance: looking one way only can but lose less."""
    for _ in range(30):
        losses = reference.random_directed(rng, 6, 6)
        labels = rng.integers(3, size=6)
        both_ways = clustering_cost(np.maximum(losses, losses.T), labels, **SETTING)
        assert clustering_cost(losses, labels, **SETTING, directed=True) <= both_ways


def test_the_exhaustive_optimum_is_the_cheapest_of_all_partitions(rng):
    for (distance, directed), kind in itertools.product(itertools.islice(drawn_cases(rng), 40), reference.KINDS):
        if len(distance) > 6 or (directed and kind == "max_diameter"):
            continue
        found = exhaustive_clustering(distance, **SETTING, kind=kind, directed=directed)
        least = min(reference.cost(distance, p, 1000, 3.0, kind, directed) for p in reference.partitions(len(distance)))
        assert found.cost == pytest.approx(least, rel=1e-12)
        assert found.lower_bound == found.cost
        assert found.is_optimal


def test_more_than_ten_tasks_are_not_enumerated():
    assert exhaustive_clustering(np.zeros((10, 10)), **SETTING).n_clusters == 1
    with pytest.raises(InvalidInputError, match="exhaustive_clustering: distance has 11 tasks"):
        exhaustive_clustering(np.zeros((11, 11)), **SETTING)


# a clustering


def test_representatives_and_radii_follow_the_papers_rule():
    found = Clustering.from_labels(PAIRS, [4, 4, 2, 2, 4], **SETTING)
    assert found.labels.tolist() == [0, 0, 1, 1, 0]
    assert found.representatives.tolist() == [1, 2]  # tasks 2 and 3 tie: the lowest
    assert found.radii.tolist() == [2.0, 0.5]
    assert found.mean_radius == pytest.approx((3 * 2.0 + 2 * 0.5) / 5)
    assert found.size_cost == regret_bound(2, 1000, 3.0)
    assert found.cost == pytest.approx(found.size_cost + found.mean_radius)
    assert found.n_clusters == 2
    assert found.lower_bound is None
    assert found.gap is None
    assert not found.is_optimal


def test_a_directed_representative_is_any_column():
    found = Clustering.from_labels(LOSSES, [0, 0, 0, 1], **SETTING, directed=True)
    assert found.representatives.tolist() == [2, 0]
    assert found.radii.tolist() == [1.0, 0.2]


def test_representatives_are_those_of_the_plain_loops(rng):
    for distance, directed in drawn_cases(rng):
        labels = rng.integers(int(rng.integers(1, len(distance) + 1)), size=len(distance))
        found = Clustering.from_labels(distance, labels, directed=directed)
        expected = [reference.representative(distance, members, directed) for members in reference.cells(labels)]
        assert list(zip(found.representatives.tolist(), found.radii.tolist(), strict=True)) == expected
        assert found.labels.tolist() == list(reference.canonical(labels))


def test_without_a_setting_the_cost_is_the_mean_radius():
    found = Clustering.from_labels(PAIRS, [0, 0, 1, 1, 0])
    assert found.size_cost == 0.0
    assert found.cost == pytest.approx(found.mean_radius)


def test_members_and_table_say_who_is_covered_by_whom():
    found = Clustering.from_labels(PAIRS, [0, 0, 1, 1, 0], **SETTING)
    assert found.members(0).tolist() == [0, 1, 4]
    assert found.members(1).tolist() == [2, 3]
    table = found.table()
    assert [tuple(row) for row in table] == [
        (0, 0, 1, 1.0),
        (1, 0, 1, 0.0),
        (2, 1, 2, 0.0),
        (3, 1, 2, 0.5),
        (4, 0, 1, 2.0),
    ]
    assert table[4].loss == max(row.loss for row in table if row.cell == 0) == found.radii[0]
    for i in (-1, 2):
        with pytest.raises(InvalidInputError, match=rf"members: i is {i}, must be a cell in 0\.\.1"):
            found.members(i)


def test_a_clustering_prints_itself_in_one_line():
    found = Clustering.from_labels(PAIRS, [0, 0, 1, 1, 0], **SETTING)
    assert (
        repr(found)
        == f"2 of 5 tasks kept, cost {found.cost:.4g} (regret bound {found.size_cost:.3g} + mean radius 1.4)"
    )
    directed = Clustering.from_labels(LOSSES, [0, 0, 0, 1], **SETTING, directed=True, kind="worst")
    assert repr(directed).startswith("2 of 3 policies kept, cost ")
    assert "largest radius 1)" in repr(directed)
    assert repr(exhaustive_clustering(PAIRS, **SETTING)).endswith(", proven optimal")


def test_what_a_clustering_holds_cannot_be_written_to():
    found = Clustering.from_labels(PAIRS, [0, 0, 1, 1, 0], **SETTING)
    for array in (found.labels, found.representatives, found.radii):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_matrix_given_stays_as_it_was_and_writable():
    mine = PAIRS.copy()
    Clustering.from_labels(mine, [0, 0, 1, 1, 0], **SETTING)
    assert (mine == PAIRS).all()
    mine[0, 1] = 3.0


# bad input, the same for every function that takes distances


CALLS = {
    "clustering_cost": lambda distance, **setting: clustering_cost(distance, [0, 0, 1, 1, 0], **setting),
    "Clustering.from_labels": lambda distance, **setting: Clustering.from_labels(distance, [0, 0, 1, 1, 0], **setting),
    "exhaustive_clustering": exhaustive_clustering,
    "cost_lower_bound": cost_lower_bound,
    "greedy_clustering": lambda distance, **s: greedy_clustering(distance, **s, rng=np.random.default_rng(0)),
    "search_clusterings": lambda distance, **s: search_clusterings(
        distance, **s, rng=np.random.default_rng(0), restarts=1, iterations=10
    ),
}


@pytest.mark.parametrize(
    "caller", ["clustering_cost", "Clustering.from_labels", "exhaustive_clustering", "search_clusterings"]
)
def test_a_kind_that_cannot_be_is_refused_by_name(caller):
    with pytest.raises(InvalidInputError, match=f"{caller}: kind is 'median', must be one of 'average', 'worst'"):
        CALLS[caller](PAIRS, **SETTING, kind="median")
    with pytest.raises(InvalidInputError, match=f"{caller}: kind 'max_diameter' .* needs symmetric"):
        CALLS[caller](PAIRS, **SETTING, kind="max_diameter", directed=True)


def test_a_label_below_0_is_a_cell_like_any_other():
    assert clustering_cost(PAIRS[:3, :3], [0, -1, 0], **SETTING) == clustering_cost(PAIRS[:3, :3], [0, 1, 0], **SETTING)


def test_names_are_told_by_number_of_any_integer_kind():
    named = Clustering.from_labels(PAIRS[:3, :3], [0, 0, 1]).named(["a", "b", "c"])
    assert [named.task(np.int64(1)), named.policy(np.int32(2))] == ["b", "c"]
    assert regret_bound(np.array([1.0, 4.0]), 100, 1.0).tolist() == regret_bound([1, 4], 100, 1.0).tolist()
