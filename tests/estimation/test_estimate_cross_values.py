"""Estimated cross values: what they promise, what they refuse, and that nothing but ``rng`` decides them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import reference
from seams import Returns, joint_distances

from pastmaster import (
    GymTask,
    TabularMDP,
    cross_values,
    estimate_cross_values,
    keep,
    keep_curve,
    policy_distance,
    return_bounds,
    return_spread,
    solve,
)
from pastmaster.domains import coloured_grid
from pastmaster.errors import InvalidInputError
from pastmaster.estimation import runner
from pastmaster.estimation.returns import uncut_distance
from pastmaster.policies import NetworkPolicy

QUICK = {"episodes": 50, "restarts": 2, "iterations": 2_000}
ONE = {"n_clusters": 1, "restarts": 2, "iterations": 2_000}


def family(rng: np.random.Generator, n: int, n_states: int = 5) -> list[TabularMDP]:
    """Stochastic tasks of three actions whose episodes are short."""
    return [reference.random_mdp(rng, n_states, 3, 3, gamma=0.9, horizon=6, reach=None, ending=0.1) for _ in range(n)]


def tables(rng: np.random.Generator, n: int, n_states: int = 5) -> list[np.ndarray]:
    return [rng.integers(3, size=n_states) for _ in range(n)]


@pytest.fixture
def world(rng):
    """Six tasks, six policies, their exact U."""
    tasks, policies = family(rng, 6), tables(rng, 6)
    return tasks, policies, cross_values(tasks, policies)


def test_intervals_hold_the_exact_values_of_black_boxes_at_a_stop_that_looks_at_the_data(rng):
    """120 independent entries at 90%: more than 30 misses have probability 1e-6 if each is missed with 0.1."""
    misses = 0
    for _ in range(30):
        tasks, policies = family(rng, 4), tables(rng, 4)
        found = estimate_cross_values(
            tasks, policies, rng=rng, budget=1500, confidence=0.9, allocation="uniform",
            precision=0.25 * return_bounds(tasks).span,
        )  # fmt: skip
        U = cross_values(tasks, policies)
        held = (found.low <= U) & (found.high >= U)
        misses += int((~held[np.arange(4), rng.permutation(4)]).sum())  # one of each row: rows are independent
        assert (found.low <= found.mean).all()
        assert (found.mean <= found.high).all()
    assert misses <= 30


def test_an_interval_of_a_wrong_task_misses(world, rng):
    tasks, policies, U = world
    found = estimate_cross_values(tasks, policies, rng=rng, budget=36 * 400, allocation="uniform")
    assert ((found.low <= U) & (found.high >= U)).mean() > 0.8
    assert ((found.low <= U[::-1]) & (U[::-1] <= found.high)).mean() < 0.8


def test_the_cost_of_the_clustering_lies_in_its_interval(world, rng):
    tasks, policies, U = world
    found = estimate_cross_values(tasks, policies, rng=rng, budget=1500, clustering=QUICK | {"directed": True})
    clustering = found.clustering
    radii = np.zeros(clustering.n_clusters)
    D = policy_distance(U, directed=True)
    np.maximum.at(radii, clustering.labels, D[np.arange(6), clustering.representatives[clustering.labels]])
    true = clustering.size_cost + radii[clustering.labels].mean()
    low, high = found.cost_interval
    assert low <= true <= high
    assert 0 < found.uncertainty < 1
    assert found.uncertainty == (high - low) / high
    assert 0 <= found.agreement <= 1
    assert high - low <= found.gap() <= high
    assert found.episodes.sum() <= 1500
    assert found.stopped == "budget"


def test_standard_errors_and_spreads_are_those_of_the_returns_and_one_pooled_square(world, rng):
    tasks, policies, _ = world
    found = estimate_cross_values(tasks, policies, rng=rng, budget=36 * 50)
    squares = np.array(
        [[((r := found.returns.of(i, j)) - r.mean()) @ (r - r.mean()) for j in range(6)] for i in range(6)]
    )
    pooled = squares.sum() / (found.episodes - 1).sum()
    assert np.allclose(found.spread, np.sqrt((squares + pooled) / found.episodes))
    assert np.allclose(found.standard_error, found.spread / np.sqrt(found.episodes))
    exact = return_spread(tasks, policies)
    assert np.abs(found.spread / exact - 1).mean() < 0.3
    assert np.abs(found.spread / exact.mean(axis=0)[::-1] - 1).mean() > np.abs(found.spread / exact - 1).mean()


def test_where_all_episodes_are_the_same_there_is_no_error(rng):
    tasks = coloured_grid.family([[1, 0], [0, 1]], size=3)
    found = estimate_cross_values(tasks, [solve(task).policy for task in tasks], rng=rng, budget=4)
    assert not found.spread.any()
    assert not found.standard_error.any()


def test_a_precision_that_is_reached_ends_it(world, rng):
    tasks, policies, _ = world
    wanted = 0.4 * return_bounds(tasks).span
    found = estimate_cross_values(
        tasks, policies, rng=rng, budget=10**5, clustering=QUICK, precision=wanted, paired=True
    )
    assert found.stopped == "precision"
    assert np.diff(found.cost_interval)[0] <= 2 * wanted
    assert found.episodes.sum() < 10**5
    assert found.rounds[-1].episodes == found.episodes.sum()


def test_equal_seeds_give_equal_bits_and_workers_do_not_matter(world):
    tasks, policies, _ = world
    found = [
        estimate_cross_values(
            tasks,
            policies,
            rng=np.random.default_rng(seed),
            budget=220,
            clustering=QUICK,
            n_jobs=n_jobs,
            paired=True,
        )
        for seed, n_jobs in ((1, 1), (1, 2), (2, 1))
    ]
    for name in ("mean", "low", "high", "episodes"):
        first, *same, other = (getattr(one, name).tobytes() for one in found)
        assert all(first == one for one in same)
        assert first != other
    assert found[0].cost_interval == found[1].cost_interval


def test_an_interrupted_estimate_goes_on_where_it_was(world, tmp_path, monkeypatch):
    tasks, policies, _ = world

    def run(**options):
        return estimate_cross_values(
            tasks, policies, rng=np.random.default_rng(3), budget=220, clustering=QUICK, paired=True, **options
        )

    whole, played, real = run(), [], runner.episode_returns

    def interrupted(*arguments):
        if len(played) == 7:  # in the second round
            raise KeyboardInterrupt
        played.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(runner, "episode_returns", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(save=tmp_path)
    monkeypatch.setattr(runner, "episode_returns", lambda *arguments: played.append(arguments) or real(*arguments))
    again = run(save=tmp_path)
    assert again.mean.tobytes() == whole.mean.tobytes()
    assert again.cost_interval == whole.cost_interval
    total = len(played)
    assert run(save=tmp_path).mean.tobytes() == whole.mean.tobytes()
    assert len(played) == total
    estimate_cross_values(
        tasks, policies, rng=np.random.default_rng(4), budget=200, allocation="uniform", save=tmp_path
    )
    assert len(played) > total


def test_what_cannot_be_told_from_others_on_disk_is_refused_with_save(world, rng, tmp_path):
    tasks, policies, _ = world
    with pytest.raises(InvalidInputError, match=r"save is given with policies\[1\] = FunctionPolicy"):
        estimate_cross_values(
            tasks, [policies[0], lambda state: 0], rng=rng, budget=99, allocation="uniform", save=tmp_path
        )
    task = GymTask(lambda: tasks[0].to_gymnasium(), gamma=0.9)
    with pytest.raises(InvalidInputError, match=r"save is given with tasks\[0\]"):
        estimate_cross_values([task], policies, rng=rng, budget=99, allocation="uniform", save=tmp_path)


def test_a_deterministic_task_is_valued_exactly(rng):
    tasks = [TabularMDP(rng.integers(5, size=(5, 3)), rng.normal(size=(5, 3)), gamma=0.9, horizon=6) for _ in range(3)]
    mixed = rng.dirichlet(np.ones(3), size=5)
    policies = [*tables(rng, 2), mixed]
    found = estimate_cross_values(tasks, policies, rng=rng, budget=80, clustering=QUICK | {"directed": True})
    U = cross_values(tasks, policies)
    assert (found.mean[:, :2] == U[:, :2]).all()
    assert (found.low[:, :2] == found.high[:, :2]).all()
    assert (found.episodes[:, :2] == 1).all()
    assert (found.episodes[:, 2] > 4).all()
    assert (found.low[:, 2] < found.high[:, 2]).all()
    alone = estimate_cross_values(tasks, policies[:2], rng=rng, budget=6, allocation="uniform")
    assert (alone.mean == U[:, :2]).all()


def test_a_task_without_bounds_says_that_nothing_is_guaranteed(world, rng):
    tasks, policies, _ = world
    boxes = [GymTask(tasks[0].to_gymnasium, gamma=0.9, name="a box"), tasks[1]]
    given = estimate_cross_values(boxes, policies, rng=rng, budget=100, allocation="uniform", bounds=(-100.0, 100.0))
    assert given.guaranteed
    assert given.bounds_from == ("declared", "declared")
    assert given.bounds.tolist() == [[-100.0, 100.0]] * 2
    boxes = [GymTask(unbounded(tasks[0]), gamma=0.9, name="a box"), tasks[1]]
    found = estimate_cross_values(boxes, policies, rng=rng, budget=100, allocation="uniform")
    assert found.bounds_from == ("running", "task")
    assert "NOT guaranteed" in repr(found)
    assert "NOT guaranteed" not in repr(given)
    seen = [found.returns.of(0, j) for j in range(6)]
    low, high = min(x.min() for x in seen), max(x.max() for x in seen)
    assert found.bounds[0] == pytest.approx([low - (high - low) / 2, high + (high - low) / 2])


def unbounded(task: TabularMDP):
    """A function that makes the task's environment in a wrapper, which may change rewards."""
    import gymnasium as gym

    return lambda: gym.wrappers.TransformReward(task.to_gymnasium(), lambda reward: reward)


def test_a_return_outside_of_its_bounds_is_refused_by_name(world, rng):
    tasks, policies, _ = world
    with pytest.raises(InvalidInputError, match=r"policies\[\d\] earned .* in an episode of tasks\[\d\] .* must be in"):
        estimate_cross_values(tasks, policies, rng=rng, budget=200, allocation="uniform", bounds=(0.0, 1e-3))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": 10}, "budget is 10, must be at least 144: 4 for every entry"),
        ({"clustering": None, "allocation": "sequential"}, "must be the options of a clustering"),
        ({"paired": None}, "clustering is of symmetric distances, must have 'directed': True, or say paired=True"),
        ({"clustering": QUICK | {"restarts": 0}}, "estimate_cross_values: clustering: restarts is 0, must be"),
        ({"paired": 1}, "paired is 1, must be True or False"),
        ({"allocation": "clever"}, "must be one of 'sequential', 'uniform'"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"bounds": (1.0, 1.0)}, r"bounds is \(1.0, 1.0\), must be"),
        ({"precision": -1.0}, "precision is -1.0"),
        ({"precision": "a"}, "^estimate_cross_values: precision is 'a', must be a number, at least 0"),
        ({"progress": "yes"}, "^estimate_cross_values: progress is 'yes', must be True or False"),
        (
            {"clustering": QUICK | {"n_cluster": 2}},
            r"clustering has 'n_cluster' \(did you mean n_clusters\?\), must be of",
        ),
        ({"policies": ["a.zip"]}, r"^estimate_cross_values: policies\[0\] is 'a.zip'.*load_sb3"),
        ({"rng": 3.0}, "rng is 3.0, must be a seed"),
        ({"policies": []}, "policies is empty"),
        (
            {"policies": None, "tasks": [GymTask("CartPole-v1", gamma=0.9, horizon=5)]},
            "policies is None, must be given",
        ),
        ({"policies": [np.zeros(4, int)] * 6}, r"in tasks\[0\] policies\[0\] has shape"),
        ({"policies": [np.zeros(5, int)], "paired": True}, "paired is True, must be False"),
        ({"tasks": ["CartPole-v1"]}, r"tasks\[0\] is a str"),
    ],
)
def test_what_makes_no_sense_is_refused(world, rng, options, sentence):
    tasks, policies, _ = world
    settings = {"tasks": tasks, "policies": policies, "rng": rng, "budget": 300, "clustering": QUICK, "paired": True}
    settings |= options
    with pytest.raises(InvalidInputError, match=sentence):
        estimate_cross_values(settings.pop("tasks"), settings.pop("policies"), **settings)


def test_distances_of_policies_that_are_beaten_lie_in_their_joint_intervals(rng):
    """At 80% for all distances at once, the diagonal among them, in 40 independent worlds: 21 misses have 1e-6."""
    misses = 0
    for _ in range(40):
        tasks, policies = family(rng, 4), tables(rng, 4)
        U = cross_values(tasks, policies)
        found = estimate_cross_values(tasks, policies, rng=rng, budget=4000, confidence=0.8, paired=True)
        rows, columns = (place.ravel() for place in np.indices((4, 4)))
        missed = False
        for directed in (False, True):
            low, high = joint_distances(found.returns, found.bounds, 0.2, directed, (rows, columns))
            truth = policy_distance(U, directed=directed, paired=True).ravel()
            missed |= bool(((truth < low) | (truth > high)).any())
        misses += missed
    assert misses <= 21


def test_an_interval_about_a_tasks_own_policy_would_miss(rng):
    """The negative control: with the own value as reference, whoever is beaten, truths are missed nearly always."""
    tasks, policies = family(rng, 5), tables(rng, 5)
    U = np.asarray(cross_values(tasks, policies))
    found = estimate_cross_values(tasks, policies, rng=rng, budget=60_000, paired=True)
    own = np.arange(5)
    low, high = joint_distances(found.returns, found.bounds, 0.2, True, (own, own))
    assert (high > 0.0).any()
    truth = U.max(axis=1) - np.diagonal(U)
    assert ((low <= truth) & (truth <= high)).all()
    assert (low > 0.0).any()  # that a task loses under its own policy is proven, where it is clear


@pytest.mark.parametrize("kind", ["tables", "random tables", "functions", "solutions", "own"])
def test_the_defaults_work(rng, kind):
    tasks = family(rng, 3)
    policies = {
        "tables": tables(rng, 2), "random tables": [np.full((5, 3), 1 / 3)], "functions": [lambda state: 1],
        "solutions": [solve(task) for task in tasks], "own": None,
    }[kind]  # fmt: skip
    found = estimate_cross_values(tasks, policies, budget=100)
    assert found.mean.shape == (3, 3 if policies is None else len(policies))
    assert found.paired == found.mean.paired == (policies is None)
    again = estimate_cross_values(tasks, policies, budget=100, rng=found.seed)
    assert again.mean.tobytes() == found.mean.tobytes()
    assert again.seed == found.seed
    assert estimate_cross_values(tasks, policies, budget=100, rng=rng).seed is None
    if policies is None:
        assert policy_distance(found.mean).shape == (3, 3)


def test_the_defaults_work_with_environments():
    lake = GymTask("FrozenLake-v1", gamma=0.9, horizon=20)
    found = estimate_cross_values([lake], budget=50)  # it has a table P, so that it can be solved
    assert found.paired
    cart = GymTask("CartPole-v1", gamma=0.9, horizon=5)
    found = estimate_cross_values([cart], [lambda observation: 0], budget=50)
    assert found.mean.shape == (1, 1)
    assert found.tasks == (cart.name,)
    assert found.to_frame().shape == (1, 6)
    assert cart.name in found._repr_html_()
    assert len(repr(found)) <= 100


def test_intervals_can_be_had_at_another_confidence(world, rng):
    tasks, policies, _ = world
    found = estimate_cross_values(tasks, policies, rng=rng, budget=400, allocation="uniform")
    low, high = found.intervals(0.95)
    assert (low == found.low).all()
    assert (high == found.high).all()
    low, high = found.intervals(1 - 0.05 / 36)
    assert (low <= found.low).all()
    assert (high - low).sum() > (found.high - found.low).sum()
    with pytest.raises(InvalidInputError, match="confidence is 2"):
        found.intervals(2)
    with pytest.raises(InvalidInputError, match="there must be a clustering"):
        found.gap()


def test_functions_play_environments_with_other_spaces(rng):
    tasks = [GymTask("CartPole-v1", {}, gamma=0.9, horizon=20, reward_range=(0.0, 1.0)) for _ in range(2)]
    policies = [lambda observation: int(observation[2] > 0), lambda observation: 0, lambda observation: 1]
    found = estimate_cross_values(tasks, policies, rng=rng, budget=60, clustering=ONE | {"directed": True})
    assert (found.mean[:, 0] > found.mean[:, 1]).all()
    assert found.clustering.representatives.tolist() == [0]
    assert not found.paired
    assert found.distance().shape == (2, 3)


def test_an_estimate_goes_straight_into_keep_with_names_and_standard_errors(rng):
    tasks = dict(zip(("t0", "t1", "t2"), family(rng, 3), strict=True))
    policies = dict(zip(("left", "right", "mixed"), tables(rng, 3), strict=True))
    found = estimate_cross_values(tasks, policies, budget=200, rng=0)
    kept, by_hand = keep(found, k=1), keep(np.asarray(found.mean), k=1)
    assert kept.losses.tolist() == by_hand.losses.tolist()
    assert (kept.task_names, kept.policy_names) == (("t0", "t1", "t2"), tuple(policies))
    assert kept.standard_errors.tolist() == found.standard_error.tolist()
    assert kept.doubts()
    assert not by_hand.doubts()
    assert keep(found, k=1, must_keep="mixed", tasks=["a", "b", "c"]).task_names == ("a", "b", "c")
    assert keep_curve(found, most=2).answers[0].policies == kept.policies
    assert set(found.to_frame()["policy"]) == set(policies)
    assert f">{kept.policies[0]}<" in found._repr_html_()


def test_the_picture_names_tasks_and_policies_marks_kept_ones_and_fits(rng):
    tasks = coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]], size=4)
    policies = [solve(task).policy for task in tasks] + [np.zeros(16, int), np.full(16, 3)]
    clustering = ONE | {"n_clusters": 2, "directed": True}
    found = estimate_cross_values(tasks, policies, budget=40, rng=0, clustering=clustering)
    names = ("moon.zip", "", "mars.zip", "", "", "jupiter.zip")
    figure = replace(found, policies=names).plot()
    figure.canvas.draw()
    panels, bars = figure.axes[:3], figure.axes[3:]
    for axes, bar in zip(panels, bars, strict=True):
        assert [text.get_text() for text in axes.get_xticklabels()] == [n or str(j) for j, n in enumerate(names)]
        assert [text.get_text() for text in axes.get_yticklabels()] == [task.name for task in tasks]
        assert axes.lines[0].get_xdata().tolist() == np.unique(found.clustering.representatives).tolist()
        box, beside = axes.get_window_extent(), bar.get_window_extent()
        assert beside.height <= box.height + 1  # no taller than the heat map
        assert not axes.title.get_window_extent().overlaps(beside)
    single = estimate_cross_values(tasks[:1], budget=9, rng=0)
    assert single.policies == (tasks[0].name,)
    assert repr(single).startswith("CrossValueEstimate(1 task x 1 policy, ")
    drawn = single.plot()  # one task, and nothing that is kept
    drawn.canvas.draw()
    least, most = single.episodes.min(), single.episodes.max()
    assert {text.get_text() for text in drawn.axes[-1].get_yticklabels()} == {str(least), str(most)}
    boxes = [axes.get_tightbbox() for axes in drawn.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes[::3]) for b in boxes[::3][:i])


def test_the_picture_shows_values_widths_and_episodes(world, rng):
    tasks, policies, _ = world
    found = estimate_cross_values(tasks, policies, rng=rng, budget=150, clustering=QUICK, paired=True)
    titles = [axes.get_title().replace("\n", " ") for axes in found.plot().axes]
    assert titles[:3] == ["What each policy is worth in each task", "How well that is known (95% intervals)",
                          "Where episodes were run"]  # fmt: skip


# the upward bias of maxima


def filled(rng: np.random.Generator, U: np.ndarray, n: int, paired: bool) -> Returns:
    """Returns with these means and normal noise, common to a row by half."""
    returns = Returns(np.zeros(U.shape, np.bool_), paired)
    for i, row in enumerate(U):
        shared = rng.normal(size=n)
        for j, value in enumerate(row):
            returns.add(i, j, value + shared + rng.normal(size=n))
    return returns


def test_the_example_of_two_coins_by_enumeration():
    seen = [max(0.0, float(x - y)) for x, y in itertools.product((0, 1), repeat=2)]
    assert sum(seen) / 4 == 0.25
    uncut = []
    for x in itertools.product((0.0, 1.0), repeat=4):  # two episodes of each policy
        halves = np.repeat(np.array([[[x[0], x[1]]], [[x[2], x[3]]]]), 2, axis=1)
        uncut.append(uncut_distance(np.stack([halves, halves]), directed=True, margins=None)[0, 1])
    assert np.mean(uncut) == 0.0


@pytest.mark.parametrize(("directed", "paired"), [(True, True), (True, False), (False, True)])
def test_maxima_of_means_are_too_large_and_corrected_ones_are_not(rng, directed, paired):
    """400 repetitions; a mean more than 5 standard errors off has probability 6e-7."""
    U = np.array([[1.0, 1.0, 0.9, 1.0], [0.9, 1.0, 1.0, 0.8], [1.0, 0.9, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    truth = policy_distance(U, directed=directed, paired=paired)
    plugged, uncut, corrected = [], [], []
    for _ in range(400):
        returns = filled(rng, U, 8, paired)
        plugged.append((policy_distance(returns.mean, directed=directed, paired=paired) - truth).mean())
        uncut.append((uncut_distance(returns.halves, directed, returns.margins) - truth).mean())
        corrected.append((returns.distance(directed) - truth).mean())
    error = np.std(plugged) / 20
    assert np.mean(plugged) > 5 * error
    assert np.mean(uncut) < 5 * np.std(uncut) / 20
    assert np.mean(uncut) <= np.mean(corrected) < 0.8 * np.mean(plugged)


def test_unequal_numbers_of_episodes_leave_no_bias_upward_by_enumeration():
    """Six episodes of the pivot, four of the other: the exact mean over all 2^6 courses by their chances."""
    outcomes, chance = ((0.82, 0.47), (0.12, 0.29)), 0.3305
    means = np.array([[chance * a + (1 - chance) * b for a, b in zip(*outcomes, strict=True)]])
    expected = np.zeros((1, 2))
    for course in itertools.product((0, 1), repeat=6):
        returns = Returns(np.zeros((1, 2), np.bool_), False)
        returns.add(0, 0, np.array([outcomes[k][0] for k in course]))
        returns.add(0, 1, np.array([outcomes[k][1] for k in course[:4]]))
        weight = np.prod([chance if k == 0 else 1 - chance for k in course])
        expected += weight * uncut_distance(returns.halves, directed=True, margins=None)
    assert (expected <= policy_distance(means, directed=True, paired=False) + 1e-12).all()


def test_cutting_at_zero_adds_what_the_docstring_says(rng):
    """A normal difference without a true loss: 0.28 standard errors, where the plug-in has 0.40."""
    halves = rng.normal(scale=np.sqrt(2.0), size=(2, 200_000))  # so that their mean has standard error 1
    one, other = halves
    made = 0.5 * (np.where(one > 0, other, 0.0) + np.where(other > 0, one, 0.0))
    assert np.maximum(0.0, made).mean() == pytest.approx(0.28, abs=0.01)
    assert np.maximum(0.0, halves.mean(axis=0)).mean() == pytest.approx(0.40, abs=0.01)
    assert abs(made.mean()) < 0.01


def test_the_pivot_helps_where_policies_earn_alike(rng):
    """The entry has 4 episodes, the pivot 400, and they earn the same but for 0.5."""
    errors = []
    for _ in range(50):
        returns = Returns(np.zeros((1, 2), np.bool_), True)
        long = rng.normal(size=400)
        returns.add(0, 0, long)
        returns.add(0, 1, long[:4] - 0.5)
        errors.append([returns.halves[1, :, 0, 1].mean() + 0.5, returns.mean[0, 1] + 0.5])
    alike, alone = np.sqrt(np.mean(np.square(errors), axis=0))
    assert alike < 0.3 * alone


def test_distances_are_symmetric_and_never_negative(world, rng):
    tasks, policies, _ = world
    found = estimate_cross_values(tasks, policies, rng=rng, budget=200)
    with pytest.raises(InvalidInputError, match=r"CrossValueEstimate\.distance: paired is False, must be True"):
        found.distance(directed=False)
    found = estimate_cross_values(tasks, policies, rng=rng, budget=200, allocation="uniform", paired=True)
    for bias in ("corrected", "plug-in"):
        D = found.distance(directed=False, bias=bias)
        assert (D == D.T).all()
        assert (D >= 0).all()
    assert np.diagonal(found.distance(directed=False)).any()  # drawn policies are beaten by others'
    own = estimate_cross_values(tasks, budget=2000, rng=0)
    assert not np.diagonal(own.distance(directed=False)).any()  # none is surely better than a task's optimal policy
    assert (found.distance(directed=True, bias="plug-in") == policy_distance(found.mean, directed=True)).all()
    with pytest.raises(InvalidInputError, match="bias is 'none'"):
        found.distance(bias="none")


def test_resampled_values_scatter_about_the_mean_and_never_take_equal_returns_as_certain(rng):
    returns = Returns(np.array([[False, False], [False, True]]), True)
    returns.add(0, 0, np.zeros(4))
    returns.add(0, 1, rng.normal(size=50))
    returns.add(1, 0, np.ones(200))
    returns.add(1, 1, np.array([0.3]))
    draws = returns.resample(300, rng)
    assert draws[:, 0, 0].std() > 0.05
    assert draws[:, 0, 1].std() == pytest.approx(returns.of(0, 1).std() / np.sqrt(50), rel=0.3)
    assert draws[:, 1, 0].std() < 0.02
    assert (draws[:, 1, 1] == 0.3).all()


def test_a_network_of_another_space_is_refused_before_any_episode():
    cart, acrobot = (GymTask(name, gamma=0.9, horizon=5) for name in ("CartPole-v1", "Acrobot-v1"))
    network = NetworkPolicy([(np.zeros((2, 4)), np.zeros(2))])
    sentence = r"^estimate_cross_values: in tasks\[1\] policies\[0\] is a network that takes 4 numbers"
    with pytest.raises(InvalidInputError, match=sentence):
        estimate_cross_values([cart, acrobot], [network], budget=100, bounds=(0.0, 10.0))


def test_an_action_that_does_not_fit_is_refused_by_the_function_that_was_called():
    cart = GymTask("CartPole-v1", gamma=0.9, horizon=5)
    with pytest.raises(InvalidInputError, match=r"^estimate_cross_values: CartPole-v1: policies\[0\], FunctionPolicy"):
        estimate_cross_values([cart], [lambda observation: 7], budget=100, bounds=(0.0, 10.0))
