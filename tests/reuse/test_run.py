"""What a run tells: totals, shares, curves, the policy to keep, pictures. By hand, on small data."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy
from seams import Snapshots, Trial, adapted

from pastmaster import Bounds, Exp3Transfer, InvalidInputError, TabularMDP, TransferRun, figures, plot_curves, transfer

T_95 = {1: math.tan(0.475 * math.pi), 2: 0.95 * math.sqrt(2 / 0.0975)}  # Student's t at 97.5%: 12.706 and 4.303
QUANTILES = 1e-12 if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 17) else 1e-9  # how exact SciPy's are


def trial(
    returns,
    arms,
    *,
    dropped=None,
    begun=0,
    widened=0,
    clipped=0,
    mixes=False,
    policy=None,
    bounds=(0.0, 1.0),
    snapshots=(),
) -> Trial:
    """One trial as the engine would hand it over."""
    n_sources = int(max(arms)) if dropped is None else len(dropped)
    selector = SimpleNamespace(eliminated_at=np.array([-1] * n_sources if dropped is None else dropped))
    if mixes:
        selector.mixes = True
    if bounds is not None:
        selector.bounds = Bounds(*bounds)
    learner = SimpleNamespace(policy=np.array([0, 1]) if policy is None else policy, act=lambda s: 0)
    returns, arms = np.array(returns, float), np.array(arms, np.int32)
    selector.n_clipped = clipped
    taken = Snapshots(len(returns))
    taken.policies = dict(snapshots)
    return Trial(adapted(selector), learner, returns, arms, taken, begun=begun, widened=widened)


def run_of(*trials: Trial, n_sources: int = 2) -> TransferRun:
    return TransferRun.of(list(trials), [np.array([i, i]) for i in range(n_sources)])


def two_trials() -> TransferRun:
    return run_of(
        trial([1, 2, 3, 4, 5], [0, 2, 2, 1, 2], dropped=[4, -1], bounds=(0, 10)),
        trial([3, 4, 5, 8, 6], [0, 0, 1, 1, 2], dropped=[-1, -1], bounds=(0, 10)),
    )


# Numbers


def test_totals_shapes_and_the_best_trial():
    run = two_trials()
    assert run.returns.shape == run.arms.shape == (2, 5)
    assert run.total.tolist() == [15.0, 26.0]
    assert run.best_trial == 1
    assert run.n_sources == 2
    assert run.eliminated_at.tolist() == [[4, -1], [-1, -1]]


def test_shares_count_arms_over_trials_by_window_and_sum_to_1():
    """Windows of two episodes: arms 0 2 0 0, then 2 1 1 1, then 2 2."""
    shares = two_trials().shares(2)
    assert shares.tolist() == [[0.75, 0.0, 0.25], [0.0, 0.75, 0.25], [0.0, 0.0, 1.0]]
    assert two_trials().shares(5).tolist() == [[0.3, 0.3, 0.4]]
    assert np.allclose(two_trials().shares().sum(axis=1), 1, atol=1e-15)
    assert two_trials().shares().shape == (5, 3)


def test_the_curve_has_the_mean_of_each_window_with_students_interval_over_trials():
    """Windows of two: trial means 1.5, 3.5, 5 and 3.5, 6.5, 6. Of a and b the standard error is |a - b| / 2."""
    curve = two_trials().curve(2)
    assert curve.episode.tolist() == [1.0, 3.0, 4.5]
    assert curve.mean.tolist() == [2.5, 5.0, 5.5]
    half = T_95[1] * np.array([1.0, 1.5, 0.5])
    assert curve.low == pytest.approx(curve.mean - half, rel=QUANTILES)
    assert curve.high == pytest.approx(curve.mean + half, rel=QUANTILES)


def test_the_interval_of_three_samples_by_hand():
    """1, 2, 6: mean 3, squared deviations 4 + 1 + 9 = 14, variance 7, standard error sqrt(7 / 3)."""
    curve = run_of(*(trial([value], [0]) for value in (1, 2, 6))).curve(1)
    half = T_95[2] * math.sqrt(7 / 3)
    found = curve.mean[0], curve.low[0], curve.high[0]
    assert found == pytest.approx((3.0, 3.0 - half, 3.0 + half), rel=QUANTILES)


def test_one_trial_has_a_curve_without_width():
    curve = run_of(trial([1, 2, 3, 4], [0, 1, 2, 2])).curve(2)
    assert curve.mean.tolist() == curve.low.tolist() == curve.high.tolist() == [1.5, 3.5]


@pytest.mark.parametrize(("episodes", "windows"), [(1, 1), (99, 99), (100, 100), (250, 125), (1000, 100), (1005, 101)])
def test_without_being_told_there_are_about_100_windows_that_cover_every_episode(episodes, windows):
    run = run_of(trial(np.arange(episodes), np.zeros(episodes), dropped=[-1, -1]))
    curve = run.curve()
    assert len(curve.mean) == windows
    length = max(1, episodes // 100)
    counts = np.full(windows, length)
    counts[-1] = episodes - length * (windows - 1)
    assert (curve.mean * counts).sum() == pytest.approx(run.total[0])


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_a_window_may_be_an_integer_of_numpy(integer):
    run = two_trials()
    assert np.array_equal(run.shares(integer(2)), run.shares(2))
    assert np.array_equal(run.curve(integer(2)), run.curve(2))


def test_restarts_are_added_to_the_episodes_of_eliminations():
    run = run_of(trial([0] * 9, [0] * 9, dropped=[3, -1], begun=4, widened=1))
    assert run.eliminated_at.tolist() == [[7, -1]]
    assert run.widened.tolist() == [1]


# The policy to keep


def width(n: int, n_sources: int, span: float = 1.0) -> float:
    """The half width of a mean of n returns at level 5% / (c + 1), one-sided: span sqrt(ln(20 (c + 1)) / 2n)."""
    return span * math.sqrt(math.log(20 * (n_sources + 1)) / (2 * n))


def test_a_source_that_did_best_is_recommended():
    run = run_of(trial([0.9] * 50 + [0.5] * 50 + [0.2] * 50, [1] * 50 + [2] * 50 + [0] * 50))
    assert run.recommended.tolist() == [1]
    assert run.recommended_policy.tolist() == [1, 1]
    assert run.policy.tolist() == [0, 1]


def test_a_learner_is_recommended_as_it_was_between_good_episodes():
    """200 of its 300 episodes pay 1, a source always 0.6: whether they are its first, middle or last ones."""
    taken = {after: np.array([after, after]) for after in (50, 100, 150, 200, 250)}
    arms = [0] * 200 + [1] * 300
    for bad_before, policies in ((0, (50, 100, 150)), (50, (100, 150, 200)), (100, (150, 200, 250))):
        own = [0.0] * bad_before + [1.0] * 200 + [0.0] * (100 - bad_before)
        run = run_of(trial([0.6] * 200 + own, arms, snapshots=taken), n_sources=1)
        assert run.recommended.tolist() == [1]
        assert run.recommended_policy is run.policy
        assert run.policy[0] in policies
        assert run.advice[0].after == run.policy[0]


def test_a_learner_that_was_good_for_a_short_time_is_not_recommended():
    """25 episodes that pay 1 are no evidence for 0.6; without snapshots nothing is."""
    taken = {after: np.array([after, after]) for after in (25, 50, 75)}
    returns, arms = [0.6] * 200 + [0.0] * 75 + [1.0] * 25, [0] * 200 + [1] * 100
    assert run_of(trial(returns, arms, snapshots=taken), n_sources=1).recommended.tolist() == [0]
    always = [0.6] * 200 + [1.0] * 100
    assert run_of(trial(always, arms, snapshots=taken), n_sources=1).recommended.tolist() == [1]
    assert run_of(trial(always, arms), n_sources=1).recommended.tolist() == [0]


def test_a_policy_that_is_a_function_has_no_snapshots():
    """Its copy is the function itself, which would change on with the learner."""

    class Changing:
        def act(self, observation):
            return 0

    for policy, copies in ((lambda _: 0, 0), (Changing().act, 3), (np.zeros(2, np.int32), 3)):
        snapshots = Snapshots(30)
        for _ in range(9):
            snapshots.count(SimpleNamespace(policy=policy, act=None))
        assert len(snapshots.policies) == copies
        assert all(kept is not policy for kept in snapshots.policies.values())


def test_a_source_that_was_lucky_once_is_not_recommended():
    """1 - width(1) is below 0.5 - width(100)."""
    assert 1 - width(1, 2) < 0.5 - width(100, 2)
    run = run_of(trial([1.0] + [0.5] * 100 + [0.1] * 100, [0] + [1] * 100 + [2] * 100))
    assert run.recommended.tolist() == [1]


def test_luck_is_judged_by_the_declared_span():
    """The same returns and a span of 0.1: one episode of 1 then is evidence enough."""
    returns, arms = [1.0] + [0.5] * 100 + [0.1] * 100, [0] + [1] * 100 + [2] * 100
    run = run_of(trial(returns, arms, bounds=(0.95, 1.05)))
    assert 1 - width(1, 2, 0.1) > 0.5 - width(100, 2, 0.1)
    assert run.recommended.tolist() == [0]
    undeclared = run_of(trial(returns, arms, bounds=None))
    assert 1 - width(1, 2, 0.9) < 0.5 - width(100, 2, 0.9)
    assert undeclared.recommended.tolist() == [1]  # then by the span of the returns seen, 0.9
    together = run_of(trial(returns, arms, bounds=(0.95, 1.05)), trial(returns, arms))
    assert together.recommended.tolist() == [0, 1]  # each trial by the bounds it ended with


def test_the_luck_of_a_widened_run_is_judged_by_the_wider_span():
    """Declared 0 .. 0.001, but episodes pay 0 or 1 by chance: what one of them tells is bounded by 1, not 0.001."""
    coin = TabularMDP(
        np.zeros((1, 2, 2), int), [[[0.0, 1.0]] * 2], probability=[[[0.5, 0.5]] * 2], gamma=0.9, horizon=1
    )  # fmt: skip
    selector = partial(Exp3Transfer, beta=1.0, elimination="none")
    chosen = {"episodes": 40, "trials": 20, "bounds": (0, 0.001), "on_violation": "widen", "selector": selector}
    run = transfer(coin, [np.array([0])] * 8, rng=np.random.default_rng(0), **chosen)
    assert (run.widened == 1).all()

    def best(k: int, span: float) -> int:
        bounds = np.full(9, -np.inf)
        for arm in range(9):
            own = run.returns[k, run.arms[k] == arm]
            own = own[3 * len(own) // 4 :] if arm == 8 else own
            if len(own):
                bounds[arm] = own.mean() - width(len(own), 8, span)
        return int(bounds.argmax())

    wider = [best(k, run.selectors[k].bounds.span) for k in range(20)]
    assert wider != [best(k, 0.001) for k in range(20)]  # the span matters here
    assert run.recommended.tolist() == wider


def test_an_arm_that_was_never_run_is_never_recommended():
    run = run_of(trial([-5.0, -6.0], [2, 2], dropped=[-1, -1], bounds=(-10, 0)))
    assert run.recommended.tolist() == [2]


def test_each_trial_has_its_recommendation_and_the_best_trial_gives_the_policy():
    good, bad = trial([0.9] * 40, [0] * 40, dropped=[-1, -1]), trial([0.1] * 40, [2] * 40, dropped=[-1, -1])
    assert run_of(bad, good).recommended.tolist() == [2, 0]
    assert run_of(bad, good).recommended_policy.tolist() == [0, 0]


def test_mixed_episodes_recommend_the_learner():
    returns, arms = [0.9] * 50 + [0.1] * 50, [0] * 50 + [2] * 50
    assert run_of(trial(returns, arms, dropped=[-1, -1], mixes=True)).recommended.tolist() == [2]
    assert run_of(trial(returns, arms, dropped=[-1, -1])).recommended.tolist() == [0]


def test_the_policy_of_a_learner_without_one_is_what_it_does():
    result = trial([1.0], [1])
    del result.learner.policy
    assert run_of(result, n_sources=1).policy("anything") == 0


def test_ties_go_to_the_first_arm():
    run = run_of(trial([0.5] * 20, [0, 1] * 10, dropped=[-1, -1]))
    assert run.recommended.tolist() == [0]


# In words


def test_it_prints_itself_in_one_helpful_line():
    """Means per episode 3 and 5.2: mean 4.1, standard error 1.1."""
    run = two_trials()
    assert repr(run) == "TransferRun(2 x 5 episodes, 2 sources, mean return 4.1, keep source 1)"
    line = str(run)
    low, high = 4.1 - T_95[1] * 1.1, 4.1 + T_95[1] * 1.1
    assert line == (
        f"TransferRun(2 x 5 episodes, 2 sources: mean return 4.1 (95%: {low:.4g} .. {high:.4g}), "
        "40% by the learner, keep source 1 (mean 6.5; the learner is not shown to be worth more))"
    )
    assert "\n" not in line


def test_it_says_why_the_learner_is_to_be_kept():
    taken = {after: np.array([after, after]) for after in (50, 100, 150)}
    run = run_of(trial([0.25] * 100 + [1.0] * 200, [0] * 100 + [1] * 200, snapshots=taken), n_sources=1)
    end = run.advice[0].at_least
    assert 0.25 < end < 1
    assert run.why == f"worth at least {end:.4g}; source 0: mean 0.25"
    assert f"67% by the learner, keep the learner ({run.why})" in str(run)


def test_it_says_what_was_odd_and_whom_to_keep():
    line = str(run_of(trial([0.5] * 1000, [2] * 1000, dropped=[-1, -1], clipped=3, widened=2)))
    assert line == (
        "TransferRun(1 x 1,000 episodes, 2 sources: mean return 0.5, 100% by the learner, keep the learner, "
        "3 returns clipped, bounds widened 2 times)"
    )
    assert str(run_of(trial([0.5] * 9, [2] * 9, dropped=[-1, -1], widened=1))).endswith("bounds widened 1 time)")


# In pictures


@pytest.fixture(scope="module")
def played() -> TransferRun:
    """Three trials of 2,000 episodes with 12 sources, some of which are dropped."""
    mdp = TabularMDP([[0] * 12], [np.linspace(0, 1, 12)], terminated=[[True] * 12], gamma=0.9)
    sources = [np.array([a]) for a in range(12)]
    chosen = {"episodes": 2000, "trials": 3, "bounds": (0, 1), "selector": partial(Exp3Transfer, check_every=10)}
    run = transfer(mdp, sources, rng=np.random.default_rng(0), **chosen)
    assert (run.eliminated_at >= 0).any()
    return run


def labels(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_picture_of_a_run_has_curve_shares_and_eliminations(played, tmp_path):
    figure = played.plot(optimum=1.0)
    above, below = figure.axes
    assert above.get_title() == "Learning curve, 95% intervals over 3 trials"
    assert above.get_ylabel() == "mean return per episode"
    best = played.best_source
    assert best == 11
    assert labels(above) == ["mean return", f"best source, source {best}: its mean", "optimal policy"]
    assert np.array_equal(above.lines[0].get_ydata(), played.curve().mean)
    assert set(above.lines[1].get_ydata()) == {played.returns[played.arms == best].mean()}
    assert set(above.lines[2].get_ydata()) == {1.0}
    band = above.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(played.curve().low.min())
    assert below.get_title() == "Who ran the episodes"
    assert (below.get_xlabel(), below.get_ylabel()) == ("episode", "share of episodes")
    most = np.argsort(-played.shares().sum(axis=0)[:-1], kind="stable")[:8]
    shown = ["learner", *(f"source {i}" for i in most), "the other 4 sources", "a source is dropped in a trial"]
    assert labels(below) == shown
    marks = below.lines[0]
    assert sorted(marks.get_xdata()) == sorted(played.eliminated_at[played.eliminated_at >= 0])
    top = below.collections[-1].get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(1.0)  # shares stack up to 1
    path = figures.save(figure, tmp_path / "run.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5000


def test_the_picture_without_optimum_eliminations_or_sources():
    run = run_of(trial([0.5] * 20, [0] * 20, dropped=[]), n_sources=0)
    above, below = run.plot().axes
    assert above.get_title() == "Every episode, by who ran it"
    assert labels(above) == labels(below) == ["learner"]
    assert not below.lines
    assert not above.lines


def test_few_episodes_are_points_in_the_colours_of_their_arms_with_a_line_for_the_best_source():
    """No line joins episodes of different arms, and shares are steps: 0 or 1 of each episode."""
    results = [trial([1, 2, 3, 4, 5, 3], [0, 2, 2, 1, 0, 1], dropped=[-1, -1], bounds=(0, 10))]
    run = TransferRun.of(results, [np.zeros(2, int)] * 2, names=["old.zip", "new.zip"], gamma=0.9)
    assert run.best_source == 1
    above, below = run.plot().axes
    assert labels(above) == ["learner", "old.zip", "new.zip", "best source, new.zip: its mean"]
    assert labels(below) == ["learner", "old.zip", "new.zip"]
    assert above.get_ylabel() == "return of an episode, discounted by 0.9"
    points = {dots.get_label(): dots for dots in above.collections}
    assert points["learner"].get_offsets().tolist() == [[1.5, 2.0], [2.5, 3.0]]
    assert points["old.zip"].get_offsets().tolist() == [[0.5, 1.0], [4.5, 5.0]]
    (line,) = above.lines  # the best source alone
    assert set(line.get_ydata()) == {3.5}
    assert line.get_color() == figures.line_style(1)["color"]
    heights = {float(y) for area in below.collections for y in area.get_paths()[0].vertices[:, 1]}
    assert heights == {0.0, 1.0}
    assert "keep new.zip" in repr(run)
    assert "keep new.zip" in str(run)


def test_sources_with_long_names_are_called_by_what_differs():
    names = [f"pastmaster/CartPole-v0(gravity={gravity}, length=0.5, force_mag=-10.0)" for gravity in (9.8, 5.0)]
    results = [trial([1, 2, 3, 4, 5, 3], [0, 2, 2, 1, 0, 1], dropped=[-1, -1], bounds=(0, 10))]
    above, below = TransferRun.of(results, [np.zeros(2, int)] * 2, names=names).plot().axes
    assert labels(above) == ["learner", "gravity=9.8", "gravity=5.0", "best source, gravity=5.0: its mean"]
    assert labels(below) == ["learner", "gravity=9.8", "gravity=5.0"]


def test_several_runs_are_drawn_in_one_picture_by_name(played, tmp_path):
    figure = plot_curves({"balanced": played, "by hand": two_trials()}, optimum=0.75)
    (axes,) = figure.axes
    assert labels(axes) == ["balanced", "by hand", "optimal policy"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("episode", "mean return per episode")
    assert axes.get_title().startswith("Learning curve, 95% intervals")
    assert np.array_equal(axes.lines[1].get_ydata(), two_trials().curve().mean)
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    path = figures.save(figure, tmp_path / "curves.svg")
    assert b"balanced" in path.read_bytes() or path.stat().st_size > 5000


def test_runs_of_different_numbers_of_trials_are_not_said_to_have_the_same(played):
    """Three trials and two: "over 3 trials" would be wrong of one of them."""
    (axes,) = plot_curves({"three": played, "two": two_trials()}).axes
    assert axes.get_title() == "Learning curve, 95% intervals over trials"
    (axes,) = plot_curves({"one": run_of(trial([1.0], [0])), "two": two_trials()}).axes
    assert axes.get_title() == "Learning curve, 95% intervals over trials"
    (axes,) = plot_curves({"one": two_trials(), "two": two_trials()}).axes
    assert axes.get_title() == "Learning curve, 95% intervals over 2 trials"


def test_no_runs_at_all_make_no_picture():
    with pytest.raises(InvalidInputError, match="plot_curves: runs is empty, must hold at least one TransferRun"):
        plot_curves({})


def test_a_run_cannot_be_reassigned():
    with pytest.raises(AttributeError):
        two_trials().returns = None
