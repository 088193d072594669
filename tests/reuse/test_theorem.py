"""The theorem: mean regret under g over 100 runs, to every source and to the learner in the state it is in.

And what it rests on: estimates of every arm's payoff are unbiased, by importance weights or by sharing episodes.
"""

from __future__ import annotations

import itertools
import math

import gymnasium as gym
import numpy as np
import pytest
import reuse_reference
from numba import njit
from reference import start_value
from reuse_reference import LEVEL
from scipy import stats
from seams import (
    PlainEpisodes,
    Problem,
    Snapshots,
    Trial,
    episodes,
    layout,
    selecting as kernels,
    simulated,
    source_arrays,
)

from pastmaster import (
    Exp3Transfer,
    QLearning,
    TabularMDP,
    TsallisINF,
    evaluate,
    regret_bound,
    return_bounds,
    solve,
    transfer,
)

RUNS = 100
FEW = 4
SCORE = layout.LOG_WEIGHT  # the row that also holds the losses of the other selectors
assert layout.LOSS == SCORE
NOBODY = np.empty(0)


# payoffs drawn beforehand


@njit
def earned(arms, memory, settings, payoffs, rng, weighting, nobody):
    """The payoffs earned against a table [T, c + 1]; without ``weighting``, the update takes every arm for certain."""
    total = 0.0
    for t in range(len(payoffs)):
        arm = kernels.choose(arms, memory, settings, rng.random())
        if not weighting:
            arms[layout.PROBABILITY, arm] = 1.0
        kernels.record(arms, memory, settings, arm, payoffs[t, arm], nobody)
        total += payoffs[t, arm]
    return total


def bernoulli(*levels):
    """A table of payoffs [T, arms]; each level is a number or a function of t / T."""

    def table(rng, T):
        at = np.arange(T) / T
        chance = np.array([level(at) if callable(level) else np.full(T, level) for level in levels]).T
        return (rng.random(chance.shape) < chance).astype(float)

    return table


def good_bad_good(at):
    return np.where((at < 0.3) | (at >= 0.7), 0.9, 0.0)


def bad_then_good(at):
    return np.where(at < 0.25, 0.0, 1.0)


def good_then_bad(at):
    return np.where(at < 0.35, 1.0, 0.0)


CASES = {
    "equal": bernoulli(0.5, 0.5, 0.5, 0.5),
    "one good source": bernoulli(0.2, 0.8, 0.2, 0.1),
    "nearly equal sources": bernoulli(0.5, 0.52, 0.48, 0.4),
    "a good learner": bernoulli(0.3, 0.2, 0.1, 0.9),
    "a learner good, then bad, then good": bernoulli(0.5, 0.3, 0.1, good_bad_good),
    "a learner bad, then good": bernoulli(0.5, 0.3, 0.1, bad_then_good),
    "a learner good, then bad": bernoulli(0.6, 0.3, 0.1, good_then_bad),
    "a learner that learns": bernoulli(0.5, 0.3, 0.1, lambda at: np.sqrt(at)),
}


def regrets(case, seed, T, weighting=True, **settings):
    """Mean payoffs lost to each arm [runs, c + 1]."""
    lost = np.empty((RUNS, 4))
    for run, stream in enumerate(np.random.default_rng(seed).spawn(RUNS)):
        payoffs = CASES[case](stream, T)
        selector = Exp3Transfer(3, T, bounds=(0.0, 1.0), rng=stream, **settings)
        total = earned(
            selector._arms, selector._memory, selector._settings, payoffs, selector._rng, weighting, NOBODY
        )  # fmt: skip
        lost[run] = (payoffs.sum(axis=0) - total) / T
    return lost


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("T", [200, 8_000])
def test_mean_regret_to_every_arm_is_under_the_bound(seed, case, T):
    lost = regrets(case, seed, T, elimination="none").mean(axis=0)
    print(f"{case}, T {T}: lost {lost.round(4)} to each arm, g {regret_bound(3, T, 1.0):.4f}")
    assert (lost <= regret_bound(3, T, 1.0)).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("elimination", ["paper", "anytime"])
def test_whatever_is_eliminated_regret_to_the_learner_is_under_the_bound(seed, case, elimination):
    T, delta = 8_000, 0.02
    lost = regrets(case, seed, T, elimination=elimination, delta=delta, check_every=10).mean(axis=0)
    g = regret_bound(3, T, 1.0)
    assert lost[-1] <= g
    if elimination == "anytime":
        assert lost[:-1].max() <= g + delta


@pytest.mark.parametrize(
    ("case", "arm"), [("a learner bad, then good", 3), ("a learner good, then bad", 0), ("a learner that learns", 3)]
)
def test_without_importance_weights_the_bound_is_broken(seed, case, arm):
    T = 8_000
    lost = regrets(case, seed, T, weighting=False, elimination="none")[:, arm]
    assert lost.mean() - 5 * lost.std() / math.sqrt(RUNS) > regret_bound(3, T, 1.0)


@pytest.mark.parametrize("case", ["equal", "nearly equal sources", "a learner good, then bad, then good"])
@pytest.mark.parametrize("estimator", ["reduced-variance", "importance-weighted"])
def test_tsallis_inf_keeps_what_its_authors_proved(seed, case, estimator):
    T, lost = 3_000, np.zeros(4)
    for stream in np.random.default_rng(seed).spawn(RUNS):
        payoffs = CASES[case](stream, T)
        selector = TsallisINF(3, T, bounds=(0.0, 1.0), estimator=estimator, rng=stream)
        state = selector._arms, selector._memory, selector._settings
        lost += (payoffs.sum(axis=0) - earned(*state, payoffs, selector._rng, True, NOBODY)) / T / RUNS
    assert lost.max() <= selector.regret_guarantee().to_learner


# the real Q-learner


class Episodes:
    """Compiled episodes of a task, one at a time."""

    def __init__(self, task, policies, learner, selector, *, every=False, share=False, rngs):
        self.task, self.sources = simulated(task, task.horizon), source_arrays(policies, task)
        self.learner = learner_arrays(learner)
        self.state = selector._arms, selector._memory, selector._settings
        self.how = every, share, False, 1.0, 1.0
        self.buffers, self.constant = episodes.Buffers.of(len(policies) + 1, learner.Q.shape), np.empty(0)
        self.choosing, self.rngs = rngs[0], tuple(rngs[1:])
        self.returns, self.arms = np.empty(1), np.empty(1, np.int32)

    def run(self):
        """The arm and the return of the next one."""
        _, refused = episodes.play(
            self.task, self.sources, self.learner, *self.state, *self.how, self.buffers, self.constant,
            self.choosing.random(1), *self.rngs, 0, -1, self.returns, self.arms,
        )  # fmt: skip
        assert not refused
        return int(self.arms[0]), float(self.returns[0])


def corridor(slip=0.2, length=4, horizon=30):
    """A corridor with a small prize at its left end and a large one at its right; moves slip the other way."""
    n = length + 2
    step = np.array([[max(s - 1, 0), min(s + 1, n - 1)] for s in range(n)])
    next_state = np.stack([step, step[:, ::-1]], axis=2)
    reward = np.where(next_state == 0, 0.2, np.where(next_state == n - 1, 1.0, -0.01))
    ends = (next_state == 0) | (next_state == n - 1)
    chances = np.broadcast_to([1 - slip, slip], next_state.shape)
    return TabularMDP(
        next_state, reward, probability=chances, terminated=ends, gamma=0.95, start=length // 2, horizon=horizon
    )


def started(settings, task, rng):
    return settings.start(gym.spaces.Discrete(task.n_states), gym.spaces.Discrete(task.n_actions), task.gamma, rng)


def learner_arrays(learner):
    return episodes.Learner(learner.Q, learner.visits, learner.steps, learner.epsilons, learner.own_episodes)


def learner_regrets(task, policies, seed, T, settings, share):
    """Mean returns lost to each source's value and to what the learner would have earned, in a few runs [runs, c + 1].

    Before each episode a copy of the learner runs it in its place.
    """
    bounds, c = return_bounds(task), len(policies)
    values = [evaluate(task, policy)[task.start] for policy in policies]
    lost = np.empty((FEW, c + 1))
    for run, stream in enumerate(np.random.default_rng(seed).spawn(FEW)):
        rngs, nobody = stream.spawn(6), Exp3Transfer(0, T, bounds=bounds, rng=0)
        selector = Exp3Transfer(c, T, bounds=bounds, elimination="none", rng=rngs[0])
        learner, shadow = (started(settings, task, rngs[5]) for _ in range(2))
        real = Episodes(
            task, policies, learner, selector, every=settings.learn_from == "every", share=share, rngs=rngs[:3]
        )
        alone = Episodes(task, [], shadow, nobody, rngs=rngs[3:4] * 3)
        returns, counterfactual = np.empty(T), np.empty(T)
        for t in range(T):
            shadow.Q[:], shadow.own_episodes[:] = learner.Q, learner.own_episodes
            counterfactual[t] = alone.run()[1]
            returns[t] = real.run()[1]
        lost[run] = np.append(values, counterfactual.mean()) - returns.mean()
    return lost


def test_with_a_real_q_learner_mean_regret_is_under_the_bound(seed):
    """The largest mean is at most two thirds of the bound, and one run differs from another by less than the rest."""
    task, T, beyond = corridor(), 1000, []
    left, right = np.zeros(6, int), np.ones(6, int)
    hesitant = np.array([0, 1, 0, 1, 0, 1])
    assert solve(task).policy[1:5].tolist() == [1, 1, 1, 1]
    g = regret_bound(3, T, return_bounds(task).span)
    for third, learn_from, share in itertools.product((left, right), ("own", "every"), (False, True)):
        settings = QLearning(learn_from=learn_from)
        lost = learner_regrets(task, [left, hesitant, third], seed, T, settings, share).mean(axis=0)
        print(f"third source {third[0]}, {learn_from}, share {share}: lost {lost.round(3)} to each arm, g {g:.3f}")
        if not 0 < lost.max() <= g:
            beyond.append((third[0], learn_from, share, lost))
    assert beyond == []


# estimates of payoffs are unbiased


def small_task():
    """Four states, two actions, two outcomes each, four steps: all that can happen may be tried."""
    rng = np.random.default_rng(8)
    shape = (4, 2, 2)
    chances = np.broadcast_to([0.7, 0.3], shape)
    ends = np.zeros(shape, bool)
    ends[3, :, 1] = True
    return TabularMDP(
        rng.integers(4, size=shape), rng.random(shape), probability=chances, terminated=ends, gamma=0.9,
        start=[0.6, 0.4, 0.0, 0.0], horizon=4,
    )  # fmt: skip


SOURCES = [np.array(actions) for actions in ([0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1])]
C = len(SOURCES)


def frozen_learner(task, seed, *, trained):
    """A Q-learner, fresh (all its actions tie) or after some episodes of its own."""
    learner = started(QLearning(epsilon=0.3), task, np.random.default_rng(seed))
    if trained:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            s, a = rng.integers(4), rng.integers(2)
            k = int(rng.random() < 0.3)
            learner.learn(s, a, task.reward[s, a, k], task.next_state[s, a, k], bool(task.terminated[s, a, k]))
    return learner


def frozen_selector(kind, task, rng):
    """A selector of uneven probabilities."""
    bounds = return_bounds(task)
    if kind == "exp3-transfer":
        selector = Exp3Transfer(C, 100, bounds=bounds, beta=0.5, elimination="none", rng=rng)
        weights = np.array([0.05, 0.3, 0.1, 0.35, 0.2])
        selector._arms[layout.LOG_WEIGHT], selector._arms[layout.WEIGHT] = np.log(weights), weights
    else:
        estimator = "importance-weighted" if kind == "tsallis-inf, weights alone" else "reduced-variance"
        selector = TsallisINF(C, bounds=bounds, estimator=estimator, rng=rng)
        selector._arms[layout.LOSS] = [0.0, 6.0, 3.0, 2.0, 1.0]
        selector._memory[layout.EPISODE] = 99.0
    return selector


def payoff_estimates(selector, before, after):
    """What the change of scores says of every arm's payoff."""
    if isinstance(selector, Exp3Transfer):
        return (after - before) * (C + 1) / selector.beta
    return 1.0 - (after - before)


def compiled_rounds(task, learner, selector, share, n, rngs):
    """One-episode rounds, each from the same frozen state."""
    rounds = Episodes(task, SOURCES, learner, selector, share=share, rngs=rngs)
    saved_arms, saved_memory, saved_Q = selector._arms.copy(), selector._memory.copy(), learner.Q.copy()
    ran, x, likelihoods, scores = np.empty(n, int), np.empty(n), np.ones((n, C + 1)), np.empty((n, C + 1))
    for r in range(n):
        ran[r], x[r] = rounds.run()
        likelihoods[r], scores[r] = rounds.buffers.likelihood, selector._arms[SCORE]
        selector._arms[:], selector._memory[:], learner.Q[:] = saved_arms, saved_memory, saved_Q
        learner.own_episodes[0] = 0
    return ran, x, likelihoods, scores


def plain_rounds(task, learner, selector, share, n, seed):
    """The same by ask, the plain episode loop and tell."""
    problem = Problem(task, SOURCES, QLearning(), None, None, share)
    nothing = np.empty(0), np.empty(0, np.int32)
    trial = Trial(selector, learner, *nothing, Snapshots(n))
    engine = PlainEpisodes(problem, trial, seed, learner.rng, task.to_gymnasium())
    saved_arms, saved_memory, saved_Q = selector._arms.copy(), selector._memory.copy(), learner.Q.copy()
    ran, x, likelihoods, scores = np.empty(n, int), np.empty(n), np.ones((n, C + 1)), np.empty((n, C + 1))
    for r in range(n):
        selector._arms[:], selector._memory[:], learner.Q[:] = saved_arms, saved_memory, saved_Q
        learner.own_episodes[0] = 0
        episode = selector.ask()
        ran[r] = arm = episode.arm
        x[r], _, likelihood = engine.episode(arm, r)
        assert arm == C or np.array_equal(learner.Q, saved_Q)  # it looked on, and forgot
        selector.tell(episode, x[r], likelihood if share else None)
        likelihoods[r], scores[r] = likelihood, selector._arms[SCORE]
    selector._arms[:], selector._memory[:], learner.Q[:] = saved_arms, saved_memory, saved_Q
    return ran, x, likelihoods, scores


def rounds_of(body, kind, share, seed, *, trained=True):
    """Rounds from a frozen state: (arm that ran, payoff, likelihoods, estimates, probabilities, true payoffs)."""
    task = small_task()
    rngs = tuple(np.random.default_rng(seed).spawn(3))
    selector, learner = frozen_selector(kind, task, rngs[0]), frozen_learner(task, seed, trained=trained)
    learner.rng = rngs[2]
    p, before = selector.probabilities, selector._arms[SCORE].copy()
    if body == "plain":
        ran, x, likelihood, after = plain_rounds(task, learner, selector, share, 3_000, seed)
    else:
        ran, x, likelihood, after = compiled_rounds(task, learner, selector, share, 10_000, rngs)
    values = [start_value(task, policy) for policy in SOURCES] + [reuse_reference.learner_value(task, learner)]
    bounds = return_bounds(task)
    true = (np.array(values) - bounds.lower) / bounds.span
    x = (x - bounds.lower) / bounds.span
    return ran, x, likelihood, payoff_estimates(selector, before, after), p, true


def p_values(estimates, true):
    """Two-sided z-tests that the means are the true payoffs, one to an arm."""
    error = estimates.std(axis=0) / math.sqrt(len(estimates))
    return 2 * stats.norm.sf(np.abs(estimates.mean(axis=0) - true) / error)


SHARED_KINDS = ["exp3-transfer", "tsallis-inf", "tsallis-inf, weights alone"]


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_estimates_of_every_payoff_are_unbiased(seed, kind, share, trained):
    ran, x, likelihood, estimates, p, true = rounds_of("compiled", kind, share, seed, trained=trained)
    np.testing.assert_allclose(np.bincount(ran, minlength=C + 1) / len(ran), p, atol=0.03)  # six standard errors
    assert (p_values(estimates, true) > LEVEL / (C + 1)).all()
    if kind == "exp3-transfer":
        shares = likelihood if share else np.eye(C + 1)[ran]
        by_hand = x[:, None] * shares / (shares @ p)[:, None]
        np.testing.assert_allclose(estimates, by_hand, rtol=1e-9, atol=1e-9)
        if share:
            assert (likelihood[:, :C].sum(axis=1) > 1).mean() > 0.1  # sources agree often
            assert ((likelihood[:, C] > 0) & (likelihood[:, C] < 1)).all()
            own = x[:, None] * np.eye(C + 1)[ran] / p
            assert (by_hand.var(axis=0) < own.var(axis=0)).all()  # what sharing is for


@pytest.mark.parametrize("share", [False, True])
def test_estimates_by_the_plain_loop_are_unbiased(seed, share):
    *_, estimates, _, true = rounds_of("plain", "exp3-transfer", share, seed)
    assert (p_values(estimates, true) > LEVEL / (C + 1)).all()


def test_estimates_that_count_or_divide_wrongly_fail_the_same_test(seed):
    """The rounds are those of the test above; only what is made of them differs."""
    ran, x, likelihood, estimates, p, true = rounds_of("compiled", "exp3-transfer", True, seed)
    agreeing = likelihood.copy()
    agreeing[:, C] = 1.0
    divided = {
        "as it should be": estimates,
        "no division": x[:, None] * likelihood,
        "divided by the own probability": x[:, None] * likelihood / p[ran][:, None],
        "own episodes, no division": x[:, None] * np.eye(C + 1)[ran],
        "the learner simply agrees": x[:, None] * agreeing / (agreeing @ p)[:, None],
        "the learner agrees, but is not paid for it": x[:, None] * likelihood / (agreeing @ p)[:, None],
        "the learner left out": x[:, None] * likelihood / np.where(ran < C, likelihood[:, :C] @ p[:C], p[C])[:, None],
    }
    fails = {name: bool((p_values(wrong, true) < LEVEL / (C + 1)).any()) for name, wrong in divided.items()}
    assert fails == {name: name != "as it should be" for name in divided}


@pytest.mark.parametrize("selector", ["exp3-transfer", "tsallis-inf"])
def test_a_long_episode_of_the_learner_still_counts_when_shared(seed, selector):
    """Its acts have likelihood 2^-1200 while its actions tie, which is 0 in floating point."""
    horizon = 1200
    task = TabularMDP([[0, 0]], [[0.0, 0.0]], gamma=0.99, horizon=horizon)
    run = transfer(
        task, [np.zeros(1, int)], episodes=200, bounds=(-1.0, 0.0), selector=selector, share=True, trials=15,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    assert abs((run.arms == 1).mean() - 0.5) < 0.15  # both arms always pay the most there is
