from __future__ import annotations

import itertools
import math
from fractions import Fraction

import clustering_reference as reference
import numpy as np
import pytest
from seams import bound, programs

from pastmaster import cost_lower_bound, exhaustive_clustering, search_clusterings
from pastmaster.clustering import Question

N_CASES = 1000


def with_an_outlier(rng, n_tasks, far=1000.0):
    distance = reference.random_symmetric(rng, n_tasks)
    distance[0, 1:] = distance[1:, 0] = far
    return distance


def with_twins(rng, n_tasks):
    """Tasks in identical pairs: equal rows and columns."""
    half = reference.random_symmetric(rng, -(-n_tasks // 2), levels=5)
    twin = np.arange(n_tasks) // 2
    return half[np.ix_(twin, twin)]


def with_own_losses(rng, n_tasks, levels=None):
    """Tasks that lose under their own policies too: d[i, i] above 0."""
    drawn = rng.random((n_tasks, n_tasks)) ** 2 if levels is None else rng.integers(levels, size=(n_tasks, n_tasks))
    losses = drawn.astype(float)
    while n_tasks > 1 and len(set(np.diagonal(losses).tolist())) == 1 and losses[0, 0] > 0:
        losses[0, 0] /= 2.0
    return np.maximum(losses, losses.T)


def all_equal(rng, n_tasks):
    return float(rng.random()) * (1 - np.eye(n_tasks))


FAMILIES = {
    "not metric": (lambda rng, n: reference.random_symmetric(rng, n), False),
    "metric": (lambda rng, n: reference.random_metric(rng, n), False),
    "ties and zeros": (lambda rng, n: reference.random_symmetric(rng, n, levels=3), False),
    "all equal": (all_equal, False),
    "all zero": (lambda rng, n: np.zeros((n, n)), False),
    "one far outlier": (with_an_outlier, False),
    "twins": (with_twins, False),
    "own policies beaten": (with_own_losses, False),
    "own policies beaten, ties": (lambda rng, n: with_own_losses(rng, n, levels=4), False),
    "tiny": (lambda rng, n: 1e-12 * reference.random_symmetric(rng, n), False),
    "directed": (lambda rng, n: reference.random_directed(rng, n, n), True),
    "directed with ties": (lambda rng, n: reference.random_directed(rng, n, n, levels=3), True),
    "rectangular": (lambda rng, n: reference.random_directed(rng, n, int(rng.integers(1, 9))), True),
    "rectangular with ties": (
        lambda rng, n: reference.random_directed(rng, n, int(rng.integers(1, 4)), levels=2),
        True,
    ),
}


def drawn_case(rng, family, most=6):
    """A matrix, whether it is directed, and a setting under which any number of cells may be best."""
    make, directed = FAMILIES[family]
    distance = make(rng, int(rng.integers(1, most + 1)))
    span = float(distance.mean() or 1.0) * float(rng.choice([0.05, 0.3, 1.0, 3.0]))
    return distance, directed, {"episodes": float(rng.choice([4, 30, 300])), "span": span}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bound_never_exceeds_the_optimum(rng, family):
    for _ in range(-(-N_CASES // len(FAMILIES))):
        distance, directed, setting = drawn_case(rng, family)
        best = exhaustive_clustering(distance, **setting, directed=directed)
        bound = cost_lower_bound(distance, **setting, directed=directed, time_limit=0.0)
        assert bound.value <= best.cost
        assert best.n_clusters in bound.possible_c
        assert bound.value <= bound.cost
        assert bound.cost >= best.cost - 1e-12 * best.cost
        assert bound.cost == pytest.approx(
            reference.cost(distance, bound.labels.tolist(), setting["episodes"], setting["span"], directed=directed)
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_integer_program_closes_the_gap_and_still_bounds(rng, family):
    for _ in range(5):
        distance, directed, setting = drawn_case(rng, family)
        best = exhaustive_clustering(distance, **setting, directed=directed)
        bound = cost_lower_bound(distance, **setting, directed=directed)
        assert bound.value <= best.cost
        assert bound.gap <= 1e-5
        assert best.n_clusters in bound.possible_c
        assert bound.cost == pytest.approx(best.cost, rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("time_limit", [0.0, 30.0])
def test_the_bound_for_each_number_of_cells_is_one(rng, family, time_limit):
    for _ in range(4):
        distance, directed, setting = drawn_case(rng, family, most=5)
        bound = cost_lower_bound(distance, **setting, directed=directed, time_limit=time_limit)
        least = exact_costs(distance, directed, setting)
        assert bound.by_c.shape == least.shape
        assert bound.by_c[0] == np.inf
        assert (bound.by_c[1:] <= least[1:] * (1 + 1e-14)).all()
        assert bound.value == min(bound.by_c[1:].min(), bound.cost)
        assert set(bound.possible_c) == {c for c in range(1, len(least)) if bound.by_c[c] <= bound.cost}


def exact_costs(distance, directed, setting):
    """The least cost of a partition with exactly c cells, for c = 0 .. N."""
    least = np.full(len(distance) + 1, np.inf)
    for labels in reference.partitions(len(distance)):
        c = max(labels) + 1
        least[c] = min(least[c], reference.cost(distance, labels, **setting, directed=directed))
    return least


@pytest.mark.parametrize("family", FAMILIES)
def test_any_prices_bound_every_number_of_cells(rng, family):
    for _ in range(5):
        distance, directed, setting = drawn_case(rng, family, most=5)
        problem = Question(**setting, directed=directed).about("test", distance)
        bounding = bound._Bounding(problem, np.zeros(len(distance), np.int32))
        least = exact_costs(distance, directed, setting)
        for scale in (0.0, 0.3, 1.0, 20.0):
            bounds = bounding._bounds(scale * distance.mean() * rng.random(len(distance)))
            assert (bounds[1:] <= least[1:] * (1 + 1e-14)).all()


@pytest.mark.parametrize("scale", [1e9, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("directed", [False, True])
def test_the_bound_holds_and_closes_on_any_scale(rng, scale, directed):
    """Distances in other units change nothing: the solver's tolerances are absolute, the bound's may not be."""
    for _ in range(6):
        n_tasks = int(rng.integers(4, 8))
        drawn = reference.random_directed(rng, n_tasks, 5) if directed else reference.random_symmetric(rng, n_tasks)
        setting = {"episodes": 100, "span": 0.3 * scale}
        best = exhaustive_clustering(scale * drawn, **setting, directed=directed)
        bound = cost_lower_bound(scale * drawn, **setting, directed=directed)
        assert bound.value <= best.cost
        assert bound.gap <= 1e-5
        assert best.n_clusters in bound.possible_c


@pytest.mark.parametrize("far", [1e4, 1e7, 1e9])
def test_the_bound_holds_beside_an_outlier_however_far(rng, far):
    """The outlier sets the largest distance, the others what an optimal clustering pays: both must be resolved."""
    for _ in range(8):
        distance = with_an_outlier(rng, 9, far)
        setting = {"episodes": 100, "span": float(rng.choice([0.1, 0.3, 0.6]))}
        best = exhaustive_clustering(distance, **setting)
        bound = cost_lower_bound(distance, **setting)
        assert bound.value <= best.cost
        assert best.n_clusters in bound.possible_c


@pytest.mark.parametrize("scale", [1e9, 1.0, 1e-6, 1e-9])
@pytest.mark.parametrize("directed", [False, True])
def test_the_integer_program_bounds_each_number_of_cells_on_any_scale(rng, scale, directed):
    """Given every pair (centre, radius) its optimum is the least sum of radii, and no more may be claimed."""
    for _ in range(4):
        drawn = reference.random_directed(rng, 5, 4) if directed else reference.random_symmetric(rng, 5)
        pairs = [(j, r) for j in range(drawn.shape[1]) for r in np.unique(drawn[:, j])]
        centre, radius = np.array([j for j, _ in pairs]), scale * np.array([r for _, r in pairs])
        problem = Question(directed=directed).about("test", scale * drawn)
        for c in range(1, 6):
            reaches = [reference.reach(drawn, p, directed=directed) for p in reference.partitions(5) if max(p) < c]
            exactly = [reference.reach(drawn, p, directed=directed) for p in reference.partitions(5) if max(p) == c - 1]
            least = 5 * scale * min(reaches if directed else exactly)  # directed: a pair may be chosen and not used
            bound, labels = programs.pair_program(problem, centre, radius, c, math.inf)
            assert bound <= least * (1 + 1e-6)
            assert bound >= least * (1 - 1e-5)
            assert labels is not None


def test_one_task_is_bounded_by_what_it_costs():
    bound = cost_lower_bound([[0.0]], episodes=100, span=2.0)
    assert bound.value == pytest.approx(reference.regret_bound(1, 100, 2.0), rel=1e-12)
    assert bound.value <= reference.regret_bound(1, 100, 2.0)
    assert bound.possible_c == (1,)


@pytest.mark.parametrize(("n_tasks", "n_columns"), [(6, 1), (6, 2), (5, 3)])
def test_fewer_pairs_than_tasks_are_no_obstacle(n_tasks, n_columns):
    """With few policies and tied losses there are fewer pairs (centre, radius) than numbers of cells to bound."""
    losses = np.zeros((n_tasks, n_columns))
    losses[: n_tasks // 2] = 1.0
    setting = {"episodes": 1000, "span": 0.1}
    best = exhaustive_clustering(losses, **setting, directed=True)
    for time_limit in (0.0, 30.0):
        bound = cost_lower_bound(losses, **setting, directed=True, time_limit=time_limit)
        assert bound.value <= best.cost
        assert best.n_clusters in bound.possible_c
    assert bound.gap <= 1e-5


def twins_apart():
    """Tasks 0 and 1 are twins: 1.0 from each of tasks 2 to 5, 0.1 from 6 to 8; those are far from one another.

    A cell of several tasks needs a twin as its centre, and two radii are worth two centres.
    """
    distance = np.full((9, 9), 10.0)
    distance[:2, 2:6] = distance[2:6, :2] = 1.0
    distance[:2, 6:] = distance[6:, :2] = 0.1
    distance[:2, :2] = 0.0
    np.fill_diagonal(distance, 0.0)
    return distance


def test_twins_that_belong_apart_do_not_mislead_the_bound(rng):
    distance = twins_apart()
    assert (distance[0] == distance[1]).all()
    setting = {"episodes": 10_000, "span": 19.0}
    best = exhaustive_clustering(distance, **setting)
    assert best.n_clusters == 2
    assert best.labels[0] != best.labels[1]
    bound = cost_lower_bound(distance, **setting)
    assert bound.value <= best.cost
    assert bound.gap <= 1e-5
    assert bound.labels[0] != bound.labels[1]
    found = search_clusterings(distance, **setting, rng=rng, restarts=4, iterations=2000, certify=True)
    assert found.cost == best.cost
    assert found.is_optimal


def test_a_known_clustering_is_taken_up(rng):
    distance = reference.random_symmetric(rng, 8)
    setting = {"episodes": 100, "span": 0.3}
    best = exhaustive_clustering(distance, **setting)
    bound = cost_lower_bound(distance, **setting, labels=best.labels, time_limit=0.0)
    assert bound.cost <= best.cost


@pytest.mark.parametrize("family", FAMILIES)
def test_a_certified_search_is_proven_optimal_on_small_cases(rng, family):
    for _ in range(2):
        distance, directed, setting = drawn_case(rng, family)
        found = search_clusterings(
            distance, **setting, rng=rng, directed=directed, restarts=2, iterations=500, certify=True
        )
        best = exhaustive_clustering(distance, **setting, directed=directed)
        assert found.lower_bound <= min(found.cost, best.cost)
        assert found.is_optimal
        assert found.cost == pytest.approx(best.cost, rel=1e-12)
        assert best.n_clusters in found.possible_c
        assert repr(found).endswith("proven optimal")


def test_a_certified_search_for_k_cells_bounds_the_mean_radius(rng):
    for directed, k in itertools.product((False, True), (1, 2, 4)):
        distance = reference.random_directed(rng, 6, 6) if directed else reference.random_symmetric(rng, 6)
        found = search_clusterings(
            distance, n_clusters=k, rng=rng, directed=directed, restarts=2, iterations=500, certify=True
        )
        least = min(reference.reach(distance, p, directed=directed) for p in reference.partitions(6) if max(p) == k - 1)
        assert found.n_clusters == k
        assert found.lower_bound <= least + 1e-12
        assert found.is_optimal


def test_a_bound_of_a_larger_case_is_below_what_the_search_finds(rng):
    distance = reference.random_metric(rng, 40)
    setting = {"episodes": 1000, "span": 1.0}
    found = search_clusterings(distance, **setting, rng=rng, restarts=2, iterations=20_000)
    bound = cost_lower_bound(distance, **setting, labels=found.labels, time_limit=3.0)
    assert 0 < bound.value <= found.cost
    assert bound.gap < 0.2
    assert len(set(bound.labels.tolist())) in bound.possible_c
    assert len(bound.possible_c) < 40
    assert f"{bound.value:.6g}" in repr(bound)


def test_a_bound_shows_itself_in_one_line(rng):
    bound = cost_lower_bound(rng.random((60, 60)), episodes=1e6, span=1e-6, directed=True, time_limit=0.0)
    assert len(bound.possible_c) > 4
    assert len(repr(bound)) <= 100


def test_one_policy_is_counted_as_one():
    assert str(search_clusterings([[0.0]], n_clusters=1, rng=0, directed=True)).startswith("1 of 1 policy kept, ")


# directed bounds are proofs


def exact_mean_radius(losses, labels):
    """The mean radius of a partition as a fraction."""
    total = Fraction(0)
    for members in reference.cells(labels):
        total += len(members) * min(max(Fraction(losses[i, j]) for i in members) for j in range(losses.shape[1]))
    return total / len(losses)


def test_a_directed_bound_is_never_above_the_exact_optimum(rng):
    for _ in range(150):
        n_tasks = int(rng.integers(2, 7))
        losses = reference.random_directed(rng, n_tasks, int(rng.integers(2, 9)))
        c = int(rng.integers(1, min(losses.shape) + 1))
        problem = Question(n_clusters=c, directed=True).about("test", losses)
        found = bound.bounded(problem, problem.labels("test", np.arange(n_tasks) % c), 5.0)
        partitions = [labels for labels in reference.partitions(n_tasks) if len(set(labels)) == c]
        least = min(exact_mean_radius(losses, labels) for labels in partitions)
        met = Fraction(np.nextafter(found.cost, np.inf))  # a bound stops at the cost that is met, rounded
        assert Fraction(float(found.by_c[c])) <= max(least, met if found.by_c[c] >= found.cost else least)
        assert found.cost == pytest.approx(float(least), rel=1e-9)


def test_no_other_solver_has_a_part_in_a_directed_bound(rng, monkeypatch):
    def refuse(*_):
        raise AssertionError("HiGHS was asked")

    losses = rng.random((40, 12))
    monkeypatch.setattr(bound, "pair_program", refuse)
    found = cost_lower_bound(losses, episodes=2000, span=1.0, directed=True, time_limit=20.0)
    assert found.gap <= 1e-5
    distance = reference.random_symmetric(rng, 40)
    with pytest.raises(AssertionError, match="HiGHS was asked"):
        [cost_lower_bound(distance, episodes=2000, span=span, time_limit=20.0) for span in (0.5, 1.0, 2.0, 4.0)]


def test_a_choice_that_prices_leave_open_is_decided_by_the_tree(rng):
    """A table without structure, where prices alone leave a gap."""
    losses = rng.random((40, 12))
    problem = Question(2000, 1.0, directed=True).about("test", losses)
    search = bound._Bounding(problem, np.zeros(40, np.int32))
    for c in range(1, 13):
        search.raise_prices(c, 200)
    counts = search.possible(range(1, 41))
    open_before = min(search.by_c[c] for c in counts) < search.cost * (1 - 1e-3)
    for c in sorted(counts, key=lambda c: search.by_c[c]):
        if search.by_c[c] < search.cost:
            search.prove(c, math.inf)
    assert open_before
    assert min(search.by_c[1:]) >= search.cost * (1 - 1e-8)
