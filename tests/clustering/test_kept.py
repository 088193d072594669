"""What an answer of ``keep`` shows: names, tables, the curve, the picture, and what should be measured again."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from seams import columns, losses_of

from pastmaster import Clustering, InvalidInputError, keep, keep_curve

TASKS, POLICIES = [f"customer {i}" for i in range(12)], ["ppo", "dqn", "sac", "rules", "mpc", "random"]


@pytest.fixture
def scores(rng):
    table = rng.normal(size=(3, 6))[rng.integers(3, size=12)] + 0.2 * rng.normal(size=(12, 6))
    table[3, 1] = np.nan
    return table


@pytest.fixture
def kept(scores):
    return keep(scores, k=2, tasks=TASKS, policies=POLICIES, rng=0)


def test_names_travel_into_tables(scores, kept):
    assert kept.policies == [POLICIES[j] for j in kept.columns]
    assert kept.columns.tolist() == kept.representatives.tolist()
    losses = losses_of(scores)
    for i, row in enumerate(kept.table()):
        j = POLICIES.index(row.policy)
        assert (row.task, row.loss) == (TASKS[i], losses[i, j])
        assert row.loss == losses[i, kept.columns].min()
        assert kept.policies[row.cell] == row.policy
    table = kept.to_frame()
    assert table.columns.tolist() == ["task", "cell", "policy", "loss"]
    assert table["task"].tolist() == TASKS
    html = kept._repr_html_()
    assert all(name in html for name in kept.policies)
    unnamed = keep(scores, k=2, rng=0)
    assert unnamed.policies == unnamed.columns.tolist()
    assert [row.task for row in unnamed.table()] == list(range(12))


def test_an_answer_says_what_was_asked_in_a_line(scores):
    named = {"tasks": TASKS, "policies": POLICIES, "rng": 0}
    found = keep(scores, k=2, **named)
    assert repr(found) == (
        f"2 of 6 policies kept ({', '.join(found.policies)}), mean loss {found.mean_loss:.4g}, largest "
        f"{found.largest_loss:.4g}, proven optimal"
    )
    found = keep(scores, price=0.2, **named)
    assert f"({found.n_clusters} x price 0.2 + mean loss " in repr(found)
    assert found.cost == pytest.approx(0.2 * found.n_clusters + found.mean_loss)
    found = keep(scores, max_loss=0.8, **named)
    assert repr(found).endswith("proven fewest")
    assert "regret bound" in repr(keep(scores, episodes=50, span=1.0, **named))
    long = keep(np.hstack([scores] * 30), k=40, policies=["x" * 50 + str(j) for j in range(180)], rng=0)
    assert len(repr(long)) <= 100


def test_the_papers_numbers_are_there_too(scores, kept):
    losses = losses_of(scores)
    for cell in range(kept.n_clusters):
        members = kept.members(cell)
        assert kept.radii[cell] == losses[members, kept.columns[cell]].max()
        assert (kept.labels[members] == cell).all()
    assert kept.mean_radius == pytest.approx(kept.radii[kept.labels].mean())
    first = [kept.labels.tolist().index(cell) for cell in range(kept.n_clusters)]
    assert first == sorted(first)


def test_weights_count_in_the_mean(rng):
    scores, weights = rng.random((9, 5)), rng.integers(0, 5, size=9) + (np.arange(9) == 0)
    by_number = keep(scores, k=2, weights=weights, rng=0)
    copies = keep(np.repeat(scores, weights, axis=0), k=2, rng=0)
    assert by_number.mean_loss == pytest.approx(copies.mean_loss, rel=1e-12)
    names = [f"t{i}" for i in range(9)]
    by_name = keep(scores, k=2, tasks=names, weights=dict(zip(names[::-1], weights[::-1].tolist(), strict=True)), rng=0)
    assert by_name.columns.tolist() == by_number.columns.tolist()
    series = keep(scores, k=2, weights=pd.Series(weights), rng=0)
    assert series.mean_loss == by_number.mean_loss


def test_a_clustering_of_distances_has_policies_and_losses_too():
    made = Clustering.from_labels([[0, 1, 9], [1, 0, 9], [9, 9, 0]], [0, 0, 1]).named(["a", "b", "c"])
    assert (made.policies, made.columns.tolist()) == (["a", "c"], [0, 2])
    assert (made.losses.tolist(), made.largest_loss) == ([0.0, 1.0, 0.0], 1.0)
    assert made.mean_loss == pytest.approx(1 / 3)


# the curve


def test_the_curve_has_the_best_of_every_size(rng):
    scores = rng.random((25, 7))
    curve = keep_curve(scores, policies=list("abcdefg"), rng=0)
    alone = [keep(scores, k=k, rng=0) for k in range(1, 8)]
    assert curve.k.tolist() == list(range(1, len(curve.k) + 1))
    assert curve.mean_loss.tolist() == pytest.approx([one.mean_loss for one in alone][: len(curve.k)], rel=1e-9)
    assert (np.diff(curve.mean_loss) <= 1e-12).all()
    assert (curve.lower_bound <= curve.mean_loss).all()
    assert all(answer.is_optimal for answer in curve.answers)
    assert curve.to_frame()["k"].tolist() == curve.k.tolist()
    assert all(name in "abcdefg" for name in curve.answers[0].policies)
    assert "KeepCurve(mean loss" in repr(curve)
    again = keep_curve(scores, rng=curve.seed)
    assert again.mean_loss.tolist() == curve.mean_loss.tolist()


def test_the_curve_bends_where_groups_end(rng):
    groups = rng.integers(4, size=80)
    scores = 10.0 * (groups[:, None] == np.arange(4)) + rng.random((80, 4))
    scores = np.hstack([scores, rng.random((80, 8))])
    assert keep_curve(scores, most=10, rng=0).elbow == 4


def test_the_curve_begins_where_every_task_has_a_policy_and_ends_where_nothing_is_lost():
    table = [[1.0, math.nan, 0.5], [math.nan, 1.0, math.nan], [0.0, 0.0, 2.0]]
    curve = keep_curve(table, rng=0)
    assert (curve.k.tolist(), curve.mean_loss[-1]) == ([2, 3], 0.0)
    assert curve.begins == "fewer than 2 leave a task untried"
    assert repr(curve).endswith(f"; {curve.begins})")
    assert str(replace(curve, begins="why " * 30)).count("why") == 30  # whole, however long
    assert "fewer than 2" in curve.plot().axes[0].get_xlabel()
    pinned = keep_curve(table, must_keep=[0, 2, 1], rng=0)
    assert (pinned.k.tolist(), pinned.begins) == ([3], "3 must be kept")
    single = keep_curve([[1.0, 1.0, 0.0]], rng=0)
    assert (single.k.tolist(), single.begins) == ([1], "")
    assert keep_curve([[1.0, 2.0], [2.0, 1.0]], most=1, certify=False, rng=0).lower_bound.tolist() == pytest.approx(
        [math.nan], nan_ok=True
    )
    with pytest.raises(InvalidInputError, match=r"^keep_curve: most is 4, must be a whole number, in 1\.\.3"):
        keep_curve(table, most=4)


def test_where_time_is_short_the_curve_says_no_more_than_is_proven(rng):
    table = np.where(rng.random((60, 40)) < 0.1, 1.0, np.nan)
    table[:, 0] = np.where(np.isnan(table).all(axis=1), 1.0, table[:, 0])
    hasty = keep_curve(table, time_limit=0.0, rng=0)
    assert hasty.begins == f"fewer than {hasty.k[0]} that leave no task untried were not found"
    proven = keep_curve(table, rng=0)
    assert proven.k[0] <= hasty.k[0]
    assert proven.begins == f"fewer than {proven.k[0]} leave a task untried"


def test_a_step_of_the_curve_begins_where_the_last_one_ended(rng, monkeypatch):
    """Without the answer before, a search that is cut short may do worse; with it, the curve never rises."""
    scores = rng.random((60, 40))
    curve = keep_curve(scores, most=12, time_limit=0.0, rng=0)
    assert (np.diff(curve.mean_loss) <= 0.0).all()


# the picture


def texts(figure):
    return [label.get_text() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]


@pytest.mark.parametrize("question", [{"k": 2}, {"max_loss": 0.8}, {"price": 0.2}])
def test_the_picture_shows_losses_kept_columns_and_the_curve(scores, tmp_path, question):
    found = keep(scores, tasks=TASKS, policies=POLICIES, rng=0, **question)
    figure = found.plot()
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert len(titles) == 3
    assert "grey: not tried" in titles[0]
    assert "more or fewer policies" in titles[2]
    assert {*TASKS, *found.policies} <= set(texts(figure))
    assert repr(found) in figure.get_suptitle()
    bars = figure.axes[1].patches
    assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(found.losses))
    legend = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert [text.split(":")[0] for text in legend] == [
        "least mean loss", "proven", "elbow", "this answer",
    ]  # fmt: skip
    figure.savefig(tmp_path / "kept.png")


def test_the_picture_names_all_columns_where_they_fit_and_marks_the_kept_ones(rng):
    policies = [f"solver {j}" for j in range(60)]
    found = keep(rng.random((8, 60)), k=3, policies=policies, certify=False, rng=0)
    axes = found.plot().axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == policies
    bold = [label.get_text() for label in axes.get_xticklabels() if label.get_fontweight() == "bold"]
    assert bold == sorted(found.policies, key=policies.index)
    wide = keep(rng.random((8, 61)), k=3, certify=False, rng=0)
    axes = wide.plot().axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(j) for j in sorted(wide.columns)]
    assert "kept, named below" in axes.get_title()


@pytest.mark.parametrize(("n_tasks", "n_named"), [(31, 31), (60, 60), (61, 40), (3000, 40)])
def test_rows_of_the_picture_are_called_as_their_tasks(rng, n_tasks, n_named):
    found = keep(rng.random((n_tasks, 6)), k=3, certify=False, rng=0)
    named = found.named([f"customer {i}" for i in range(n_tasks)])
    order = np.argsort(found.labels, kind="stable")
    for answer, begin in ((found, ""), (named, "customer ")):
        figure = answer.plot()
        for axes in figure.axes[:2]:
            places, labels = axes.get_yticks(), [label.get_text() for label in axes.get_yticklabels()]
            assert labels == [f"{begin}{order[int(place)]}" for place in places]
            assert len(labels) == n_named
        words = [
            figure.get_suptitle(),
            *(text for axes in figure.axes for text in (axes.get_title(), axes.get_ylabel())),
        ]
        assert not any("cell" in text for text in words)
        assert any("group" in text for text in words)


def test_the_picture_of_one_column_or_one_task_or_many_is_drawn(rng, tmp_path):
    for shape, k in (((1, 1), 1), ((1, 5), 2), ((5, 1), 1), ((3000, 30), 4)):
        found = keep(rng.random(shape), k=k, certify=False, rng=0)
        found.plot().savefig(tmp_path / "kept.png")
    keep_curve(rng.random((5, 4)), rng=0).plot().savefig(tmp_path / "curve.png")


# what should be measured again


def test_scores_by_which_the_mean_loss_would_move_should_be_measured_again(rng):
    trials = [("x", "a", 1.0), ("x", "a", 3.0), ("x", "b", 2.4), ("x", "b", 2.6), ("y", "a", 5.0), ("y", "b", 0.0)]
    table = pd.DataFrame(trials, columns=["task", "policy", "score"])
    found = keep(table, k=1, rng=0)  # a: loses 0.5 in x
    assert found.policies == ["a"]
    assert found.standard_errors == pytest.approx(np.array([[1.0, 0.1], [math.nan, math.nan]]), nan_ok=True)
    doubts = found.doubts()
    assert (doubts[0].task, doubts[0].policy) == ("x", "a")
    assert doubts[0].shift == pytest.approx(2.0 / 2)  # two standard errors down, on one of two tasks
    moved = {(d.task, d.policy): d.shift for d in doubts}
    assert moved["x", "b"] == pytest.approx(0.2 / 2)
    assert ("y", "b") not in moved  # far from the best
    assert [d.shift for d in doubts] == sorted(moved.values(), reverse=True)
    assert keep([[1.0, 2.0]], k=1, rng=0).doubts() == []


def test_a_shift_is_that_of_the_table_with_the_score_changed(rng):
    trials = [
        (f"t{i}", f"p{j}", score)
        for i in range(6) for j in range(4) for score in rng.normal(size=3)
    ]  # fmt: skip
    table = pd.DataFrame(trials, columns=["task", "policy", "score"])
    found = keep(table, k=2, rng=0)
    means = table.pivot_table("score", "task", "policy").to_numpy()
    shifts = {(d.task, d.policy): d.shift for d in found.doubts()}
    for i in range(6):
        for j in range(4):
            moved = 0.0
            for sign in (-2.0, 2.0):
                changed = means.copy()
                changed[i, j] += sign * found.standard_errors[i, j]
                losses = changed.max(axis=1) - changed[:, found.columns].max(axis=1)
                moved = max(moved, abs(losses.mean() - found.mean_loss))
            assert shifts.get((f"t{i}", f"p{j}"), 0.0) == pytest.approx(moved, abs=1e-12)


@pytest.mark.parametrize(
    ("share", "end"),
    [
        (1.0, "proven optimal"),
        (0.8, "within 25.0% of optimal"),
        (0.01, "no choice costs less than 0.01"),
        (0.0, "no choice costs less than 0"),
    ],
)
def test_what_is_proven_is_told_in_words(kept, share, end):
    assert repr(replace(kept, cost=1.0, lower_bound=share)).endswith(end)


def test_ctrl_c_ends_the_whole_curve(scores, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(columns._Search, "prove", interrupt)
    curve = keep_curve(scores[:3], rng=0)
    assert len(curve.answers) == 1
    assert curve.answers[0].interrupted


def test_ctrl_c_leaves_no_time_for_the_second_step_of_the_fewest_policies(scores, monkeypatch):
    left = []

    def interrupt(search):
        left.append(search.deadline - time.perf_counter())
        if len(left) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(columns._Search, "prove", interrupt)
    found = keep(scores, max_loss=0.3, time_limit=60.0, rng=0)
    assert left[0] > 0 > left[1]
    assert found.interrupted
    assert found.largest_loss <= 0.3
