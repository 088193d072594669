"""Elimination: how often a best source is dropped over hundreds of runs, and the confidence sequences it rests on."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import reuse_reference as reference
from numba import njit
from seams import layout, selecting as kernels

from pastmaster import Exp3Transfer, Informed, RegretBalancing, TsallisINF
from pastmaster.reuse import _elimination_kernels as evidence

RUNS = 400
ELIMINATING = [Exp3Transfer, TsallisINF, RegretBalancing, Informed]
EVIDENCE = [
    layout.COUNT,
    layout.TOTAL,
    layout.SEEN,
    layout.SEEN_TOTAL,
    layout.SEEN_SQUARES,
]
BERNOULLI, UNIFORM, RARE = 0, 1, 2
NOBODY = np.empty(0)


def make(cls, rng, n_sources=3, **settings):
    if not issubclass(cls, RegretBalancing):
        settings = {"elimination": "anytime"} | settings
    return cls(n_sources, 1000, bounds=(0.0, 1.0), rng=rng, **reference.some_experience(cls, n_sources), **settings)


# confidence sequences


@njit
def payoff(kind, mean, rng):
    """A payoff in [0, 1] of this mean."""
    if kind == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    if kind == UNIFORM:  # as wide as it can be around its mean
        return mean + (2.0 * rng.random() - 1.0) * min(mean, 1.0 - mean)
    return 1.0 if rng.random() < 0.05 else (mean - 0.05) / 0.95 * 2.0 * rng.random()


@njit
def see(arms, i, x):
    arms[layout.SEEN, i] += 1.0
    arms[layout.SEEN_TOTAL, i] += x
    arms[layout.SEEN_SQUARES, i] += x * x


@njit
def ends(arms, i, log_level, shrink):
    """Both ends; with ``shrink`` other than 1 so much closer to the mean than they should be."""
    n, total, squares = arms[layout.SEEN, i], arms[layout.SEEN_TOTAL, i], arms[layout.SEEN_SQUARES, i]
    if n == 0.0:
        return 0.0, 1.0
    low = evidence.lower_end(n, total, squares, log_level, 0.0)
    high = 1.0 - evidence.lower_end(n, n - total, n - 2.0 * total + squares, log_level, 0.0)
    mean = total / n
    return mean - (mean - low) / shrink, mean + (high - mean) / shrink


@njit
def misses(kind, mean, log_level, n, runs, shrink, rng):
    """In how many runs the mean ever lies (below the low end, above the high end), ``shrink`` as for ``ends``."""
    below, above = 0, 0
    for _ in range(runs):
        arms = np.zeros((layout.N_ROWS, 1))
        low_fails, high_fails = False, False
        for _ in range(n):
            see(arms, 0, payoff(kind, mean, rng))
            if shrink == 1.0:  # an end is beyond the mean if the capital against the mean is large: that is quicker
                seen, total, squares = arms[layout.SEEN, 0], arms[layout.SEEN_TOTAL, 0], arms[layout.SEEN_SQUARES, 0]
                low_fails |= evidence.log_capital(seen, total, squares, mean) >= log_level
                squares += seen - 2.0 * total
                high_fails |= evidence.log_capital(seen, seen - total, squares, 1.0 - mean) >= log_level
            else:
                low, high = ends(arms, 0, log_level, shrink)
                low_fails |= low > mean
                high_fails |= high < mean
        below += low_fails
        above += high_fails
    return below, above


@pytest.mark.parametrize("log_level", [math.log(2.0), math.log(40.0), math.log(1e6)])
def test_the_ends_are_those_of_the_bettors(rng, log_level):
    """Up to the halvings: an end is one that is ruled out, so it is never inside."""
    for mean in (0.03, 0.5, 0.9):
        arms, payoffs = np.zeros((layout.N_ROWS, 2)), []
        for t in range(200):
            payoffs.append(payoff(int(rng.integers(3)) if mean > 0.1 else BERNOULLI, mean, rng))
            see(arms, 1, payoffs[-1])
            if t % 27 == 0:
                low, high = ends(arms, 1, log_level, 1.0)
                wanted = reference.confidence_ends(payoffs, log_level)
                assert low <= wanted[0] + 1e-9
                assert high >= wanted[1] - 1e-9
                np.testing.assert_allclose((low, high), wanted, atol=3e-6)
        assert (arms[:, 0] == 0.0).all()


def test_sums_alone_never_tell_more_than_the_capital_itself(rng):
    """Not even where payoffs are far above the mean that is bet against; as much, where all are 0 or 1."""
    for mean, kind in itertools.product((0.02, 0.3, 0.95), (BERNOULLI, UNIFORM, RARE)):
        payoffs = [payoff(kind, 0.3, rng) for _ in range(60)]
        n, total, squares = len(payoffs), sum(payoffs), sum(x * x for x in payoffs)
        told, had = evidence.log_capital(n, total, squares, mean), reference.log_capital(payoffs, mean, exactly=True)
        assert told == pytest.approx(reference.log_capital(payoffs, mean), rel=1e-9, abs=1e-9)
        assert told <= had + 1e-9
        assert kind != BERNOULLI or told == pytest.approx(had, rel=1e-9, abs=1e-9)
    near = [0.5 + 0.02 * float(rng.standard_normal()) for _ in range(500)]
    told = evidence.log_capital(500, sum(near), sum(x * x for x in near), 0.49)
    assert told > 0.95 * reference.log_capital(near, 0.49, exactly=True)


def test_what_may_not_be_ruled_out_is_not(rng):
    """The quick test that spares the capital: where it says no, the capital is below the level."""
    spared = 0
    for _ in range(1000):
        payoffs = [payoff(int(rng.integers(3)), 0.3, rng) for _ in range(int(rng.integers(1, 80)))]
        n, total, squares = len(payoffs), sum(payoffs), sum(x * x for x in payoffs)
        mean, level = float(rng.uniform(0.01, 0.6)), float(rng.uniform(0.1, 6.0))
        if not evidence.may_be_ruled_out(n, total, squares, mean, level):
            spared += 1
            assert evidence.log_capital(n, total, squares, mean) < level
    assert 150 < spared < 960


@pytest.mark.parametrize("log_level", [0.0, math.log(40.0)])
def test_nothing_is_ruled_out_before_the_first_payoff_and_by_two(log_level):
    arms = np.zeros((layout.N_ROWS, 2))
    assert ends(arms, 0, log_level, 1.0) == (0.0, 1.0)
    for x in (0.2, 0.3):
        see(arms, 0, x)
    low, high = ends(arms, 0, max(log_level, 1.0), 1.0)
    assert 0.0 <= low < 0.2
    assert 0.3 < high <= 1.0


def test_ends_are_closer_than_those_of_an_empirical_bernstein_bound(rng):
    """The sequence used before is at 1,000 payoffs at least 1.07 times as wide, for a fair coin 1.25 times."""
    for mean, kind, times in ((0.5, BERNOULLI, 1.25), (0.5, UNIFORM, 1.07), (0.1, BERNOULLI, 1.07)):
        ours, former = 0.0, 0.0
        for _ in range(20):
            arms, payoffs = np.zeros((layout.N_ROWS, 1)), [payoff(kind, mean, rng) for _ in range(1000)]
            for x in payoffs:
                see(arms, 0, x)
            low, high = ends(arms, 0, math.log(40.0), 1.0)
            ours, former = ours + high - low, former + empirical_bernstein_width(payoffs, math.log(40.0))
        assert former > times * ours


def empirical_bernstein_width(payoffs, log_level):
    """Of the predictable plug-in sequence of Waudby-Smith and Ramdas."""
    total, squares, slopes, charges = 0.5, 0.25, 0.0, 0.0
    for n, x in enumerate(payoffs, start=1):
        slope = min(math.sqrt(2 * log_level / (squares * math.log(n + 1))), 0.75)
        slopes += slope
        charges += (x - total / n) ** 2 * (-math.log(1 - slope) - slope)
        total += x
        squares += (x - total / (n + 1)) ** 2
    return 2 * (log_level + charges) / slopes


@pytest.mark.parametrize("kind", [BERNOULLI, UNIFORM, RARE])
@pytest.mark.parametrize("mean", [0.06, 0.5, 0.9])
@pytest.mark.parametrize("level", [0.2, 0.05])
def test_each_end_holds_at_all_times_at_once_as_often_as_promised(rng, kind, mean, level):
    if kind == RARE and mean > 0.5:
        mean = 0.3
    below, above = misses(kind, mean, -math.log(level), 1000, RUNS, 1.0, rng)
    print(f"low end fails in {below}, high end in {above} of {RUNS} runs, at most {level * RUNS:.0f} each are promised")
    assert below <= level * RUNS
    assert above <= level * RUNS


@pytest.mark.parametrize("kind", [BERNOULLI, UNIFORM])
def test_ends_of_a_third_of_the_width_fail_more_often_than_promised(rng, kind):
    below, above = misses(kind, 0.5, -math.log(0.05), 500, 50, 3.0, rng)
    assert min(below, above) > 0.3 * 50


# the rate of dropping a best source


@njit
def run(arms, memory, settings, kind, means, n, shrink, every, rng, nobody):
    """One run; ``shrink`` other than 1 checks by widths divided by it, after ``every`` so many episodes."""
    c = len(means) - 1
    log_level = math.log(c / settings[layout.DELTA])
    for t in range(1, n + 1):
        arm = kernels.choose(arms, memory, settings, rng.random())
        kernels.record(arms, memory, settings, arm, payoff(kind, means[arm], rng), nobody)
        if shrink == 1.0 or t % every:
            continue
        highest = -np.inf
        for j in range(c):
            if arms[layout.SEEN, j] > 0.0:
                highest = max(highest, ends(arms, j, log_level, shrink)[0])
        for k in range(c):
            if arms[layout.SEEN, k] > 0.0 and highest > ends(arms, k, log_level, shrink)[1]:
                arms[layout.DROPPED, k] = 1.0


def rates(rng, means, *, kind=BERNOULLI, delta=0.1, n=800, shrink=1.0, runs=100, every=1, **settings):
    """How often each source is dropped, in runs of EXP-3-Transfer that check after ``every`` so many episodes."""
    settings = {"elimination": "anytime", "beta": 0.5, "check_every": every} | settings
    if shrink != 1.0:
        settings["check_every"] = 10**9  # the test does the checking
    selector = Exp3Transfer(len(means) - 1, n, bounds=(0.0, 1.0), delta=delta, rng=rng, **settings)
    means, dropped = np.array(means), np.zeros(len(means) - 1)
    for _ in range(runs):
        arms, memory = selector._arms.copy(), selector._memory.copy()
        run(arms, memory, selector._settings, kind, means, n, shrink, every, rng, NOBODY)
        dropped += arms[layout.DROPPED, :-1] >= 0.0
    return dropped / runs


@pytest.mark.parametrize("kind", [BERNOULLI, UNIFORM])
@pytest.mark.parametrize("means", [[0.5] * 9, [0.5] + [0.48] * 8, [0.1] * 5 + [0.9]])
def test_a_best_source_is_dropped_in_at_most_delta_of_the_runs(rng, kind, means):
    """With equal sources each is a best one, and any at all is dropped with probability 2 delta at most.

    Some 0.3% are dropped. In 100 runs a rate of 20%, or of 5% of each of eight, is above the limit with 99%: so it is
    with two thirds of the width.
    """
    found = rates(rng, means, kind=kind)
    print(f"dropped: {found}")
    best = np.array(means[:-1]) == max(means[:-1])
    assert found[best].max() <= 0.1
    assert found[best].sum() <= 2 * 0.1 or not best.all()


def test_with_a_third_of_the_width_a_best_source_is_dropped_too_often(rng):
    assert rates(rng, [0.5] * 9, shrink=3.0, runs=40, every=10).min() > 0.1


def test_the_width_as_it_is_drops_by_the_tests_own_check_what_the_selector_drops(rng):
    """The negative control differs from the selector in the width alone: at (almost) the full width the rates agree."""
    means = [0.2, 0.5, 0.45, 0.9, 0.7, 0.5]
    full, own = (rates(rng, means, n=600, shrink=shrink, beta=1.0, runs=100, every=10) for shrink in (1.0, 1.0 + 1e-12))
    assert full[0] > 0.5
    # rates of 100 runs each, that differ by chance alone; the selector stops playing a source it has dropped
    assert np.abs(full - own).max() < 5 * math.sqrt(2 * 0.25 / 100)


def test_the_printed_test_drops_clearly_worse_sources_and_no_clearly_best_one(rng):
    found = rates(rng, [0.9, 0.2, 0.2, 0.5], elimination="paper", n=2000)
    assert found[0] == 0.0
    assert found[1:].min() > 0.99


@pytest.mark.parametrize("cls", ELIMINATING)
def test_clearly_worse_sources_are_dropped_and_never_asked_again(cls, rng):
    often = {"preference": 1.5} if issubclass(cls, RegretBalancing) else {}  # the guard tries sources again
    selector = make(cls, rng, 4, check_every=1, **often)
    for t in range(1, 3001):
        episode = selector.ask()
        arm = episode.arm
        assert selector.active[arm]
        selector.tell(episode, payoff(BERNOULLI, (0.95, 0.1, 0.9, 0.05, 0.3)[arm], rng))
        assert (selector.eliminated_at[~selector.active[:-1]] > 0).all()
        assert (selector.eliminated_at <= t).all()
        assert selector.active[-1]
    assert selector.active[0]
    if cls is Exp3Transfer:  # the others hardly play them any more
        assert not selector.active[[1, 3]].any()
    assert (selector.probabilities[~selector.active] == 0.0).all()
    assert selector.probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("elimination", ["paper", "anytime"])
def test_the_learner_is_never_dropped_however_bad(rng, elimination):
    selector = make(Exp3Transfer, rng, check_every=1, elimination=elimination)
    for _ in range(3000):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, (1.0, 0.5, 0.0, 0.0)[arm])
    assert selector.active.tolist() == [True, False, False, True]
    assert selector.probabilities[-1] > 0


@pytest.mark.parametrize("elimination", ["paper", "anytime"])
def test_the_learner_drops_nobody_however_good(rng, elimination):
    selector = make(Exp3Transfer, rng, check_every=1, elimination=elimination, beta=0.9)
    for _ in range(3000):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, 1.0 if arm == 3 else 0.1)
    assert selector.active.all()


@pytest.mark.parametrize("elimination", ["paper", "anytime"])
def test_sources_are_checked_every_so_many_episodes(rng, elimination):
    selector = make(Exp3Transfer, rng, check_every=70, elimination=elimination, beta=0.9)
    for _ in range(2000):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, (0.9, 0.1, 0.4, 0.5)[arm])
    assert (selector.eliminated_at[1:] > 0).all()
    assert (selector.eliminated_at[1:] % 70 == 0).all()


@pytest.mark.parametrize("elimination", ["paper", "anytime"])
@pytest.mark.parametrize("unplayed", [0, 1, 2])
def test_a_source_not_yet_played_is_not_dropped_and_drops_nobody(rng, elimination, unplayed):
    """The others have had 2,000 episodes of their own; one more of the learner brings the check."""
    selector = make(Exp3Transfer, rng, check_every=1, elimination=elimination)
    for i in {0, 1, 2} - {unplayed}:
        for _ in range(2000):
            x = payoff(BERNOULLI, (0.9, 0.5, 0.1)[i], rng)
            see(selector._arms, i, x)
            selector._arms[layout.COUNT, i] += 1.0
            selector._arms[layout.TOTAL, i] += x
    selector.tell(reference.forced(selector, 3), 0.5)
    worse = max({0, 1, 2} - {unplayed})
    assert selector.active.tolist() == [i != worse for i in range(4)]


@pytest.mark.parametrize("cls", ELIMINATING)
@pytest.mark.parametrize("means", [[0.5], [0.0], [0.3, 0.7], [1.0, 0.0, 0.0, 0.0], [0.5] * 5, [0.0] * 4, [1.0] * 4])
def test_ties_sure_payoffs_and_few_sources_all_work(cls, rng, means):
    selector = make(cls, rng, len(means) - 1, check_every=1)
    for _ in range(1000):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, means[arm])
    assert np.isfinite(selector._arms).all()
    assert selector.probabilities.sum() == pytest.approx(1.0)
    best = max(means[:-1], default=0.0)
    assert all(selector.active[i] for i in range(len(means) - 1) if means[i] == best)


@pytest.mark.parametrize("cls", [Exp3Transfer, TsallisINF])
@pytest.mark.parametrize("elimination", ["paper", "anytime"])
def test_delta_0_never_eliminates(cls, rng, elimination):
    selector = make(cls, rng, check_every=1, delta=0.0, elimination=elimination)
    for _ in range(2000):
        episode = selector.ask()
        arm = episode.arm
        selector.tell(episode, (1.0, 0.0, 0.0, 0.0)[arm])
    assert selector.active.all()


@pytest.mark.parametrize("cls", ELIMINATING)
def test_evidence_comes_from_own_episodes_only_even_when_episodes_are_shared(cls, rng):
    """Payoffs of other arms' episodes, though all arms could have run them, enter the scores alone."""
    selector = make(cls, rng, check_every=10**6)
    own, log_level = [[] for _ in range(4)], math.log(3 / selector.delta)
    for _ in range(300):
        episode = selector.ask()
        arm = episode.arm
        before = selector._arms.copy()
        own[arm].append(float(rng.random()))
        selector.tell(episode, own[arm][-1], np.ones(4))
        others = np.arange(4) != arm
        assert (selector._arms[EVIDENCE][:, others] == before[EVIDENCE][:, others]).all()
        if arm < 3 and not issubclass(cls, RegretBalancing):  # which shares nothing
            row = layout.LOG_WEIGHT if cls is Exp3Transfer else layout.LOSS
            changed = selector._arms[row] != before[row]
            assert changed[:3].all()
    assert selector.counts.tolist() == [len(payoffs) for payoffs in own]
    np.testing.assert_allclose(selector.mean_returns, [np.mean(payoffs) for payoffs in own])
    for i in range(3):
        wanted = reference.confidence_ends(own[i], log_level)
        np.testing.assert_allclose(ends(selector._arms, i, log_level, 1.0), wanted, atol=3e-6)


@pytest.mark.parametrize("tiny", [0.5**1074, 1e-300, 1e-150, 1e-90])
def test_payoffs_next_to_nothing_are_no_division_by_it(tiny):
    selector = Exp3Transfer(2, 400, bounds=(0, 1), rng=0, elimination="anytime")
    for _ in range(400):
        episode = selector.ask()
        selector.tell(episode, (tiny, 1.0, 0.5)[episode.arm])
    assert selector.active.tolist() == [False, True, True]
