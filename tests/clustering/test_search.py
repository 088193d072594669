from __future__ import annotations

import itertools
import time

import clustering_reference as reference
import numpy as np
import pytest
from seams import _chain_kernels as kernels, bound, classical_scaling, programs, restarts as walking

from pastmaster import (
    Chain,
    Clustering,
    InvalidInputError,
    cost_lower_bound,
    exhaustive_clustering,
    greedy_clustering,
    search_clusterings,
)
from pastmaster.clustering import Question

SETTING = {"episodes": 300, "span": 0.5}
SMALL = {"restarts": 4, "iterations": 5000}


def same(one: Clustering, other: Clustering) -> bool:
    """Bit for bit."""
    return (
        one.labels.tolist() == other.labels.tolist()
        and one.representatives.tolist() == other.representatives.tolist()
        and one.cost == other.cost
        and one.traces.tobytes() == other.traces.tobytes()
    )


def small_cases(rng, n_cases, least=4, most=9):
    """(distance, directed), in turn plain, tied, square directed, rectangular."""
    for i in range(n_cases):
        n = int(rng.integers(least, most + 1))
        yield [
            (reference.random_symmetric(rng, n), False),
            (reference.random_symmetric(rng, n, levels=4) / 4, False),
            (reference.random_directed(rng, n, n), True),
            (reference.random_directed(rng, n, 5), True),
        ][i % 4]


# the optimum


@pytest.mark.parametrize(("variant", "enough"), [("default", 99), ("paper", 90)])
def test_small_cases_are_solved_in_at_least_99_of_100_seeds(rng, variant, enough):
    """The paper's variant, which has no burn-in, gets a ladder of three rungs; nothing more is promised of it."""
    chain = None if variant == "default" else Chain(ladder=[10.0, 40.0, 160.0])
    solved = 0
    for distance, directed in small_cases(rng, 10):
        best = exhaustive_clustering(distance, **SETTING, directed=directed)
        for seed in range(10):
            found = search_clusterings(
                distance,
                **SETTING,
                rng=np.random.default_rng(seed),
                directed=directed,
                variant=variant,
                chain=chain,
                **SMALL,
            )
            assert found.cost >= best.cost - 1e-12
            solved += found.cost <= best.cost + 1e-12
    assert solved >= enough


@pytest.mark.parametrize("kind", ["worst", "max_diameter"])
def test_the_other_kinds_of_cost_are_searched_too(rng, kind):
    for distance, directed in small_cases(rng, 8, most=7):
        if directed and kind == "max_diameter":
            continue
        best = exhaustive_clustering(distance, **SETTING, kind=kind, directed=directed)
        found = search_clusterings(distance, **SETTING, rng=rng, kind=kind, directed=directed, **SMALL)
        assert found.cost == pytest.approx(best.cost, rel=1e-12)
        assert found.kind == kind


def test_the_search_is_never_worse_than_greedy_and_each_is_what_it_says(rng):
    for directed in (False, True):
        distance = reference.random_directed(rng, 30, 12) if directed else reference.random_metric(rng, 30)
        found = search_clusterings(distance, **SETTING, rng=rng, directed=directed, restarts=4, iterations=4000)
        for _ in range(5):
            greedy = greedy_clustering(distance, **SETTING, rng=rng, directed=directed)
            assert found.cost <= greedy.cost
            assert greedy.cost == pytest.approx(reference.cost(distance, greedy.labels, **SETTING, directed=directed))
        assert found.cost == pytest.approx(reference.cost(distance, found.labels, **SETTING, directed=directed))


def test_greedy_with_one_threshold_keeps_radii_within_it(rng):
    distance = reference.random_metric(rng, 20)
    greedy = greedy_clustering(distance, **SETTING, rng=rng, thresholds=[0.3])
    assert (greedy.radii <= 0.3).all()
    assert greedy.n_clusters < 20


# the same answer


@pytest.mark.parametrize("variant", ["default", "paper"])
@pytest.mark.parametrize("directed", [False, True])
def test_the_same_seed_gives_the_same_bits_on_any_number_of_workers(seed, variant, directed):
    made = np.random.default_rng(seed)
    distance = reference.random_directed(made, 25, 25) if directed else reference.random_symmetric(made, 25)

    def search(n_jobs, seed=seed):
        rng = np.random.default_rng(seed)
        settings = {"variant": variant, "directed": directed, "restarts": 5, "iterations": 3000, "n_jobs": n_jobs}
        return search_clusterings(distance, **SETTING, rng=rng, **settings)

    first = search(1)
    assert same(first, search(1))
    assert same(first, search(2))
    assert not same(first, search(1, seed + 1))


def test_the_traces_fall_to_the_result(rng):
    distance = reference.random_symmetric(rng, 20)
    found = search_clusterings(distance, **SETTING, rng=rng, restarts=3, iterations=4000)
    assert found.traces.shape[0] == 3
    assert (np.diff(found.traces, axis=1) <= 0).all()
    assert found.cost <= found.traces.min() + 1e-12
    assert not found.interrupted


def test_the_paper_variant_is_plain(rng):
    """No descent and no greedy start: after a single step it is still near its random start."""
    distance = reference.random_metric(rng, 40)
    plain = search_clusterings(distance, **SETTING, rng=rng, restarts=1, iterations=1, variant="paper")
    mended = search_clusterings(distance, **SETTING, rng=rng, restarts=1, iterations=1)
    assert mended.cost < plain.cost


def test_a_ladder_may_be_given_even_of_one_rung(rng):
    distance = reference.random_symmetric(rng, 6)
    best = exhaustive_clustering(distance, **SETTING)
    for ladder in ([30.0], [5.0, 50.0, 500.0]):
        found = search_clusterings(distance, **SETTING, rng=rng, chain=Chain(ladder), **SMALL)
        assert found.cost == pytest.approx(best.cost)


# two questions without episodes and span


@pytest.mark.parametrize("directed", [False, True])
def test_exactly_k_cells_have_the_least_mean_radius(rng, directed):
    for levels in (None, 3):
        distance = (
            reference.random_directed(rng, 7, 6, levels=levels)
            if directed
            else reference.random_symmetric(rng, 7, levels=levels)
        )
        for k in range(1, min(distance.shape) + 1):
            found = search_clusterings(distance, n_clusters=k, rng=rng, directed=directed, **SMALL)
            all_of_k = (p for p in reference.partitions(7) if max(p) == k - 1)
            assert found.n_clusters == k
            assert found.cost == pytest.approx(found.mean_radius, rel=1e-12)
            least = min(reference.reach(distance, p, directed=directed) for p in all_of_k)
            if directed:  # cells that would share a policy get others: see test_different
                assert found.cost >= least - 1e-12
                made = Clustering.from_labels(distance, found.labels, directed=True)
                least = least if len(set(made.representatives.tolist())) == k else found.cost
            assert found.cost == pytest.approx(least)


@pytest.mark.parametrize("variant", ["default", "paper"])
def test_k_cells_are_k_however_short_the_search(rng, variant):
    distance = reference.random_symmetric(rng, 12)
    for k in (1, 2, 3, 6, 11, 12):
        found = search_clusterings(distance, n_clusters=k, rng=rng, restarts=1, iterations=1, variant=variant)
        assert found.n_clusters == k


def test_k_cells_are_k_where_another_number_is_natural(rng):
    """Three groups of equal tasks: greedy finds three cells or one, and moving single tasks leads nowhere."""
    group = np.repeat(np.arange(3), 10)
    distance = 10.0 * (group[:, None] != group[None])
    for restarts, iterations in ((1, 1), (1, 3000), (4, 3000)):
        found = search_clusterings(distance, n_clusters=2, rng=rng, restarts=restarts, iterations=iterations)
        assert found.n_clusters == 2


def test_k_cells_may_be_asked_for_with_episodes_and_span(rng):
    distance = reference.random_symmetric(rng, 6)
    found = search_clusterings(distance, **SETTING, n_clusters=3, rng=rng, **SMALL)
    assert found.n_clusters == 3
    assert found.size_cost == pytest.approx(reference.regret_bound(3, **SETTING))


@pytest.mark.parametrize("directed", [False, True])
def test_no_task_loses_more_than_the_limit_with_the_fewest_cells(rng, directed):
    for levels, limit in itertools.product((None, 3), (0.0, 0.05, 0.3, 1.0)):
        distance = (
            reference.random_directed(rng, 6, 6, levels=levels)
            if directed
            else reference.random_symmetric(rng, 6, levels=levels)
        )
        found = search_clusterings(distance, max_radius=limit, rng=rng, directed=directed)
        assert (found.radii <= limit).all()
        within = (
            max(p) + 1
            for p in reference.partitions(6)
            if reference.reach(distance, p, "worst", directed=directed) <= limit
        )
        assert found.n_clusters == min(within)
        assert found.n_clusters in found.possible_c


def test_centres_that_are_twins_each_keep_their_own_cell(rng):
    """Tasks 0 and 1 lose nothing to each other, but 0 serves 2 and 3, and 1 serves 4 and 5: distances are no metric."""
    distance = np.full((6, 6), 10.0)
    for centre, members in ((0, (2, 3)), (1, (4, 5))):
        distance[centre, members] = distance[members, centre] = 0.5
    distance[0, 1] = distance[1, 0] = 0.0
    np.fill_diagonal(distance, 0.0)
    found = search_clusterings(distance, max_radius=0.5, rng=rng)
    assert found.n_clusters == 2
    assert (found.radii <= 0.5).all()


def test_a_limit_that_no_policy_meets_is_refused_by_name(rng):
    with pytest.raises(InvalidInputError, match=r"max_radius is 0\.1, but task 1 loses at least 0\.5 under"):
        search_clusterings([[0.0, 1.0], [0.5, 0.7]], max_radius=0.1, rng=rng, directed=True)


# ending early


def test_a_time_limit_ends_the_search_with_what_it_has(rng):
    distance = reference.random_metric(rng, 30)
    search_clusterings(distance, **SETTING, rng=rng, restarts=1, iterations=10)  # compile first
    begun = time.perf_counter()
    found = search_clusterings(distance, **SETTING, rng=rng, restarts=20, iterations=10**8, time_limit=0.3)
    assert time.perf_counter() - begun < 5  # two thousand million steps take far longer
    assert found.cost == pytest.approx(reference.cost(distance, found.labels, **SETTING))
    assert found.cost <= reference.cost(distance, [0] * 30, **SETTING)
    assert not found.interrupted


def test_a_time_limit_holds_for_search_and_proof_together(rng):
    losses, question = rng.random((250, 250)), {"episodes": 1e4, "span": 1.0, "directed": True, "rng": rng}
    search_clusterings(losses[:9, :9], **question, restarts=1, iterations=10, certify=True)  # compile first
    begun = time.perf_counter()
    found = search_clusterings(losses, **question, iterations=10**8, certify=True, time_limit=1.0)
    assert time.perf_counter() - begun < 8  # the proof alone would take 30 seconds
    assert 0 < found.lower_bound < found.cost


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_search_returns_the_best_so_far(rng, monkeypatch, n_jobs):
    distance, calls, walk = reference.random_metric(rng, 30), [], kernels.walk

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 70:
            raise KeyboardInterrupt
        return walk(*arguments)

    monkeypatch.setattr(kernels, "walk", interrupted)
    found = search_clusterings(distance, **SETTING, rng=rng, restarts=50, iterations=4000, n_jobs=n_jobs)
    assert found.interrupted
    assert len(calls) < 80
    assert found.cost == pytest.approx(reference.cost(distance, found.labels, **SETTING))
    assert repr(found).endswith(", interrupted")
    greedy = greedy_clustering(distance, **SETTING, rng=rng)
    assert found.cost <= 1.5 * greedy.cost


# edges


@pytest.mark.parametrize("directed", [False, True])
def test_one_task_makes_one_cell(rng, directed):
    found = search_clusterings([[0.0]], **SETTING, rng=rng, directed=directed, restarts=2, iterations=100, certify=True)
    assert found.labels.tolist() == found.representatives.tolist() == [0]
    assert found.cost == pytest.approx(reference.regret_bound(1, **SETTING))
    assert found.is_optimal


@pytest.mark.parametrize(("gap", "n_clusters"), [(0.01, 1), (50.0, 2)])
def test_two_tasks_are_together_or_apart_as_their_distance_says(rng, gap, n_clusters):
    found = search_clusterings([[0.0, gap], [gap, 0.0]], **SETTING, rng=rng, restarts=2, iterations=100)
    assert found.n_clusters == n_clusters


def test_tasks_that_are_all_alike_make_one_cell(rng):
    for directed in (False, True):
        found = search_clusterings(
            np.zeros((12, 12)), **SETTING, rng=rng, directed=directed, restarts=2, iterations=500
        )
        assert found.n_clusters == 1
        assert found.mean_radius == 0.0


def test_one_policy_for_many_tasks_is_kept(rng):
    losses = rng.random((8, 1))
    found = search_clusterings(losses, **SETTING, rng=rng, directed=True, restarts=2, iterations=1000)
    assert set(found.representatives.tolist()) == {0}


@pytest.mark.parametrize("theta", [0.01, 30.0, 1000.0])
def test_any_theta_moves_tasks(rng, theta):
    """However strong: PE is then nearly all on k = 1, and moves of one task reach every partition."""
    distance = reference.random_metric(rng, 7)
    best = exhaustive_clustering(distance, **SETTING)
    settings = {"variant": "paper", "chain": Chain(ladder=[10.0, 40.0, 160.0], theta=theta)}
    found = search_clusterings(distance, **SETTING, rng=rng, restarts=8, iterations=5000, **settings)
    assert found.cost == pytest.approx(best.cost)


# numbers near the smallest there are


def test_distances_with_too_few_digits_are_refused(rng):
    distance = reference.random_metric(rng, 6)
    for scale in (1e-300, 3e-320):
        with pytest.raises(InvalidInputError, match=r"distance is .* at most, must be 0 or above 1e-150: use other"):
            search_clusterings(scale * distance, n_clusters=3, rng=0)
    small = search_clusterings(2.0**-450 * distance, n_clusters=3, rng=0, certify=True, **SMALL)
    found = search_clusterings(distance, n_clusters=3, rng=0, certify=True, **SMALL)
    assert small.labels.tolist() == found.labels.tolist()
    assert small.lower_bound <= small.cost == 2.0**-450 * found.cost


# limits


@pytest.mark.parametrize("directed", [False, True])
def test_limits_are_limits(rng, directed):
    """All kernels are compiled before; a factor for a busy machine. Without looks at the clock this took 20 s."""
    distance = rng.random((200, 200)) ** 2
    distance = distance if directed else np.triu(distance, 1) + np.triu(distance, 1).T
    setting = {"episodes": 2000, "span": 3.0, "directed": directed, "rng": 0, "restarts": 1, "iterations": 1000}
    search_clusterings(distance[:8, :8], **setting, certify=True)
    begun = time.perf_counter()
    search_clusterings(distance, **setting)
    alone = time.perf_counter() - begun
    begun = time.perf_counter()
    found = search_clusterings(distance, **setting, certify=True, certify_seconds=0.5)
    assert time.perf_counter() - begun < 3 * alone + 3.0
    assert found.lower_bound is not None
    begun = time.perf_counter()
    search_clusterings(distance, **setting | {"iterations": 10**8}, time_limit=0.5)
    assert time.perf_counter() - begun < 4.0


def test_where_the_clock_is_looked_at_does_not_change_the_ascent(rng, monkeypatch):
    distance = reference.random_metric(rng, 25)
    found = []
    for look in (0.0, 1e9):
        monkeypatch.setattr(bound, "LOOK", look)
        found.append(cost_lower_bound(distance, episodes=300, span=0.5, time_limit=1e6))
    assert found[0].by_c.tobytes() == found[1].by_c.tobytes()
    assert found[0].value == found[1].value


# seeds, names and words


def test_a_seed_a_generator_or_nothing(rng):
    distance = reference.random_metric(rng, 9)
    for search in (search_clusterings, greedy_clustering):
        setting = SETTING | (SMALL if search is search_clusterings else {})
        fresh = search(distance, **setting)
        again = search(distance, **setting, rng=fresh.seed)
        assert again.labels.tolist() == fresh.labels.tolist()
        assert (again.cost, again.seed) == (fresh.cost, fresh.seed)
        assert search(distance, **setting, rng=rng).seed is None
        given = search(distance, **setting, rng=np.random.default_rng(7))
        assert search(distance, **setting, rng=7).labels.tolist() == given.labels.tolist()
        with pytest.raises(InvalidInputError, match=r"rng is 0\.5, must be a seed"):
            search(distance, **SETTING, rng=0.5)


def test_results_fit_on_a_line_and_know_their_names(rng):
    tasks, policies = [f"kitchen {i}" for i in range(6)], [f"ppo_{j}.zip" for j in range(4)]
    made = search_clusterings(rng.random((6, 4)) * 1e-9, n_clusters=2, directed=True, rng=0, certify=True, **SMALL)
    kept = made.named(tasks, policies)
    assert len(repr(kept)) <= 100
    frame = kept.to_frame()
    assert frame["task"].tolist() == tasks
    assert set(frame["policy"]) <= {policies[j] for j in kept.representatives}
    assert frame["loss"].tolist() == kept.losses.tolist()
    html = kept._repr_html_()
    assert all(policies[j] in html for j in kept.representatives)
    figure = kept.plot()
    shown = [label.get_text() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert set(tasks) <= set(shown)
    assert {policies[j] for j in kept.representatives} <= set(shown)
    assert shown[shown.index(tasks[0]) :][:6] == [tasks[i] for i in np.argsort(kept.labels, kind="stable")]
    with pytest.raises(InvalidInputError, match=r"Clustering\.named: policies has 1 names, must have 4"):
        made.named(tasks, ["one"])
    worst = Clustering.from_labels(rng.random((3, 3)) * 1e300, [0, 1, 2], directed=True, kind="worst")
    assert len(repr(worst)) <= 100


# looking


def test_progress_may_be_shown(rng):
    distance = reference.random_symmetric(rng, 6)
    shown = search_clusterings(distance, **SETTING, rng=np.random.default_rng(1), progress=True, **SMALL)
    quiet = search_clusterings(distance, **SETTING, rng=np.random.default_rng(1), **SMALL)
    assert same(shown, quiet)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n_tasks", [1, 15])
def test_a_searched_clustering_is_drawn_in_three_panels_a_given_one_in_two(rng, tmp_path, directed, n_tasks):
    distance = reference.random_directed(rng, n_tasks, 4) if directed else reference.random_symmetric(rng, n_tasks)
    found = search_clusterings(
        distance, **SETTING, rng=rng, directed=directed, restarts=2, iterations=500, certify=True
    )
    given = Clustering.from_labels(distance, np.zeros(n_tasks, int), directed=directed)
    for clustering, n_panels in ((found, 3), (given, 2)):
        figure = clustering.plot()
        titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
        assert len(titles) == n_panels
        assert repr(clustering) in figure.get_suptitle()
        figure.savefig(tmp_path / "clustering.png")


def test_a_cost_of_zero_can_be_drawn(rng, tmp_path):
    found = search_clusterings(np.zeros((5, 5)), n_clusters=2, rng=rng, restarts=2, iterations=100)
    assert found.cost == 0.0
    found.plot().savefig(tmp_path / "clustering.png")


def test_the_drawn_map_keeps_distances_of_the_plane(rng):
    distance = reference.random_metric(rng, 9)
    points = classical_scaling(distance)
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points[None], axis=2), distance, atol=1e-6)


# bad arguments


def test_long_names_in_a_picture_keep_what_tells_them_apart():
    names = [f"windy corridor with a long name, goal {i}, wind 0.{i}" for i in range(3)]
    found = search_clusterings(D3, n_clusters=2, rng=0, **SMALL).named(names, names)
    first, second = found.plot().axes[:2]
    assert [text.get_text() for text in second.get_yticklabels()] == [f"goal {i}, wind 0.{i}" for i in range(3)]
    assert next(text.get_text() for text in first.get_xticklabels()).startswith("goal ")


D3 = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 9.0], [9.0, 9.0, 0.0]])


# Many tasks


def _in_groups(seed, n_tasks=300, n_policies=12):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(6, n_policies))[rng.integers(6, size=n_tasks)] + 0.2 * rng.normal(
        size=(n_tasks, n_policies)
    )
    return scores.max(axis=1, keepdims=True) - scores


def test_cells_of_the_restarts_are_recombined_where_tasks_are_many(monkeypatch):
    monkeypatch.setattr(walking, "SMALL", 50)
    asked = {"n_clusters": 4, "directed": True, "restarts": 5, "iterations": 100}
    found = [search_clusterings(_in_groups(seed), rng=seed, **asked) for seed in range(5)]
    monkeypatch.setattr(walking, "recombined", lambda *_: None)
    alone = [search_clusterings(_in_groups(seed), rng=seed, **asked) for seed in range(5)]
    costs = np.array([[a.cost, b.cost] for a, b in zip(found, alone, strict=True)])
    assert (costs[:, 0] <= costs[:, 1]).all()
    assert (costs[:, 0] < costs[:, 1]).any()
    assert all(kept.n_clusters == 4 for kept in found)


def test_cells_that_vanished_leave_no_gap_where_tasks_are_many(monkeypatch):
    """A walk that may have any number of cells begins with many, of which most vanish."""
    monkeypatch.setattr(walking, "SMALL", 50)
    asked = {"episodes": 100, "span": 1.0, "directed": True, "restarts": 5, "iterations": 20_000}
    for seed in range(5):
        found = search_clusterings(_in_groups(seed), rng=seed, **asked)
        assert sorted(set(found.labels.tolist())) == list(range(found.n_clusters))
        problem = Question(episodes=100, span=1.0, directed=True).about("test", _in_groups(seed))
        assert found.cost == pytest.approx(problem.cost(found.labels))


def test_tasks_within_the_same_pairs_are_one_task_of_the_program():
    """With all groups the program is the whole one; with few of them its answer is still a clustering."""
    losses = _in_groups(1, n_tasks=100)
    problem = Question(n_clusters=4, directed=True).about("test", losses)
    centre = np.repeat(np.arange(12), 3)
    radius = np.concatenate([np.quantile(losses[:, j], [0.3, 0.6, 1.0]) for j in range(12)])
    deadline = time.perf_counter() + 60
    bound, _ = programs.pair_program(problem, centre, radius, 4, deadline)
    for most in (100, 20):
        labels = programs.recombined(problem, centre, radius, 4, deadline, most)
        assert labels.shape == (100,)
        paid = problem.cost(problem.labels("test", labels))
        assert paid < losses.max()
        assert most < 100 or paid <= bound / 100 * (1 + 1e-3)
