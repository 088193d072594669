"""Probabilistic Policy Reuse within ``transfer``, against probabilities worked by hand."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import reference
from reuse_reference import LEVEL
from scipy.stats import binomtest

from pastmaster import ProbabilisticPolicyReuse, QLearning, TabularMDP, transfer

STEPS = 6


def revealing(n_actions: int = 3) -> TabularMDP:
    """One state, six steps, action a pays a, gamma 1/4: the return is the actions as digits to the base 4, exactly."""
    return TabularMDP([[0] * n_actions], [list(range(n_actions))], gamma=0.25, horizon=STEPS)


def actions_of(returns: np.ndarray) -> np.ndarray:
    """The actions of episodes of the task above [episodes, steps]."""
    digits, rest = [], np.array(returns)
    for _ in range(STEPS):
        digits.append(np.floor(rest))
        rest = 4 * (rest - digits[-1])
    assert (rest == 0).all()
    return np.stack(digits, axis=1).astype(int)


def even(**settings):
    """Policy reuse whose temperature stays 0, so that all arms are as likely."""
    return partial(ProbabilisticPolicyReuse, temperature=0.0, temperature_step=0.0, **settings)


def assert_as_often(happened: np.ndarray, chance: float, tests: int) -> None:
    assert len(happened) > 800  # enough for the test to mean something
    assert binomtest(int(happened.sum()), len(happened), chance).pvalue > LEVEL / tests


def test_a_return_of_the_revealing_task_tells_its_actions(rng):
    actions = rng.integers(3, size=(50, STEPS))
    returns = (actions * 0.25 ** np.arange(STEPS)).sum(axis=1)
    assert np.array_equal(actions_of(returns), actions)


# Within an episode


@pytest.mark.parametrize(("psi", "upsilon"), [(0.8, 0.7), (1.0, 0.5), (0.4, 1.0), (0.0, 1.0)])
def test_at_step_h_the_sources_action_is_taken_with_probability_psi_upsilon_to_the_h(seed, psi, upsilon):
    """The learner has found action 2 best, epsilon is 0.3; the source takes 0.

    P(0) = p + (1 - p) 0.1, P(1) = (1 - p) 0.1, P(2) = (1 - p) 0.8 with p = psi upsilon^h.
    """
    chosen = {"episodes": 12_000, "selector": even(psi=psi, upsilon=upsilon), "learner": QLearning(0.5, 0.3)}
    run = transfer(revealing(), [np.array([0])], rng=np.random.default_rng(seed), **chosen)
    late = slice(1000, None)  # by now Q has settled at 2/3, 5/3, 8/3
    assert run.learners[0].Q[0] == pytest.approx(np.array([2 / 3, 5 / 3, 8 / 3]), abs=1e-4)
    reused = actions_of(run.returns[0, late][run.arms[0, late] == 0])
    for h in range(STEPS):
        p = psi * upsilon**h
        for action, chance in enumerate((p + (1 - p) * 0.1, (1 - p) * 0.1, (1 - p) * 0.8)):
            assert_as_often(reused[:, h] == action, chance, 3 * STEPS)


def test_a_random_source_is_mixed_in_by_its_own_probabilities(seed):
    """Source: 0 with 1/4, 1 with 3/4. The learner, greedy, takes 2."""
    chosen = {"episodes": 12_000, "selector": even(psi=0.6, upsilon=0.9), "learner": QLearning(0.5, 0.0, initial=5.0)}
    run = transfer(revealing(), [np.array([[0.25, 0.75, 0.0]])], rng=np.random.default_rng(seed), **chosen)
    reused = actions_of(run.returns[0, 1000:][run.arms[0, 1000:] == 0])
    for h in range(STEPS):
        p = 0.6 * 0.9**h
        for action, chance in enumerate((0.25 * p, 0.75 * p, 1 - p)):
            assert_as_often(reused[:, h] == action, chance, 3 * STEPS)


def test_by_default_psi_is_1_and_upsilon_095_so_that_the_first_action_is_always_the_sources(seed):
    chosen = {"episodes": 10, "trials": 40, "selector": "ppr"}
    run = transfer(revealing(), [np.array([1])], rng=np.random.default_rng(seed), **chosen)
    reused = actions_of(run.returns[run.arms == 0])
    assert len(reused) > 40
    assert (reused[:, 0] == 1).all()
    selector = run.selectors[0]
    assert selector.reuse == (1.0, 0.95)
    assert (selector.temperature, selector.temperature_step) == (0.0, 0.05)


@pytest.mark.parametrize(("psi", "upsilon"), [(0.8, 0.7), (1.0, 0.95), (1.0, 1.0)])
def test_own_episodes_are_greedy(seed, psi, upsilon):
    """However large epsilon is: once action 2 is known to be best, it alone is taken."""
    chosen = {"episodes": 2000, "selector": even(psi=psi, upsilon=upsilon), "learner": QLearning(0.5, 1.0)}
    run = transfer(revealing(), [np.array([2])], rng=np.random.default_rng(seed), **chosen)
    own = actions_of(run.returns[0, 500:][run.arms[0, 500:] == 1])
    assert len(own) > 100
    assert (own == 2).all()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("psi", "upsilon"), [(0.8, 0.7), (1.0, 0.95), (1.0, 1.0)])
def test_the_learner_learns_on_every_step_of_every_episode(seed, psi, upsilon, plain):
    """Each of 300 episodes has six steps, whichever arm ran it; a list of step sizes makes the learner count them."""
    mdp = revealing()
    task, more = (mdp.to_gymnasium(), {"gamma": 0.25}) if plain else (mdp, {})
    chosen = {"episodes": 300, "selector": even(psi=psi, upsilon=upsilon), "learner": QLearning([0.5, 0.5])}
    run = transfer(task, [np.array([0])], rng=np.random.default_rng(seed), **more, **chosen)
    assert 0 < (run.arms == 0).sum() < 300
    taken = np.bincount(actions_of(run.returns[0]).ravel(), minlength=3)
    assert run.learners[0].visits.tolist() == [taken.tolist()]


def test_mixed_episodes_tell_of_no_source_so_that_the_learner_is_recommended(seed):
    run = transfer(revealing(), [np.array([2])], episodes=200, rng=np.random.default_rng(seed), selector="ppr")
    assert run.recommended.tolist() == [1]
    assert run.recommended_policy.tolist() == [2]


def test_the_plain_body_mixes_with_the_same_probabilities_to_the_last_bit(seed):
    """Thousands of draws: probabilities that differ by a thousandth would part the two bodies."""
    mdp = revealing()
    chosen = {"episodes": 1200, "selector": even(psi=0.8, upsilon=0.7), "learner": QLearning(0.5, 0.3)}
    sources = [np.array([0]), np.array([[0.25, 0.75, 0.0]])]
    compiled = transfer(mdp, sources, rng=np.random.default_rng(seed), **chosen)
    plain = transfer(mdp.to_gymnasium(), sources, gamma=0.25, rng=np.random.default_rng(seed), **chosen)
    assert np.array_equal(compiled.returns, plain.returns)
    assert np.array_equal(compiled.arms, plain.arms)
    assert np.array_equal(compiled.learners[0].Q, plain.learners[0].Q)


# Between episodes


def test_arms_are_drawn_by_the_softmax_of_their_mean_returns(seed):
    """One step; psi = 1, so source a earns a for sure. Temperature 0 at first: thirds. After one episode of arm 0 (2),
    tau = 1/2, W = (2, 0, 0): e / (e + 2) for it. After arm 1 (0): thirds. Arm 2 is the learner, which earns 1."""
    mdp = TabularMDP([[0, 0]], [[2.0, 0.0]], terminated=[[True, True]], gamma=0.9)
    selector = partial(ProbabilisticPolicyReuse, temperature_step=0.5)
    run = transfer(
        mdp, [np.array([0]), np.array([1])], episodes=2, trials=3600, selector=selector,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    first, second = run.arms.T
    for arm in range(3):
        assert_as_often(first == arm, 1 / 3, 9)
    after_good, after_bad = second[first == 0], second[first == 1]
    assert (run.returns[first == 0, 0] == 2).all()
    for arm, chance in enumerate((math.e / (math.e + 2), 1 / (math.e + 2), 1 / (math.e + 2))):
        assert_as_often(after_good == arm, chance, 9)
        assert_as_often(after_bad == arm, 1 / 3, 9)


@pytest.mark.parametrize("plain", [False, True])
def test_w_is_the_mean_return_of_an_arms_episodes_and_the_temperature_rises_by_its_step(rng, plain):
    mdp = reference.random_mdp(rng, horizon=10)
    sources = [reference.random_policy(rng, mdp, mixed=i == 1) for i in range(3)]
    task, more = (mdp.to_gymnasium(), {"gamma": mdp.gamma}) if plain else (mdp, {})
    selector = partial(ProbabilisticPolicyReuse, temperature=0.25, temperature_step=0.01)
    run = transfer(task, sources, episodes=60, selector=selector, rng=rng, **more)
    W = np.array([run.returns[run.arms == arm].mean() if (run.arms == arm).any() else 0.0 for arm in range(4)])
    weights = np.exp((0.25 + 0.01 * 60) * W)
    assert run.selectors[0].probabilities == pytest.approx(weights / weights.sum(), rel=1e-12)
    assert (run.eliminated_at == -1).all()


def test_an_arm_not_yet_run_counts_as_0():
    selector = ProbabilisticPolicyReuse(1, temperature=1.0, temperature_step=0.0, rng=np.random.default_rng(0))
    episode = selector.ask()
    arm = episode.arm
    selector.tell(episode, -3.0)
    weights = [math.exp(-3), 1.0]
    assert selector.probabilities[arm] == pytest.approx(weights[0] / sum(weights))


def test_the_learner_takes_over_from_a_perfect_source_in_the_end(seed):
    """Its own episodes are greedy, while reuse explores: that costs (1 - 0.5^h) 4^-h on average at step h."""
    chosen = {"episodes": 4000, "selector": partial(ProbabilisticPolicyReuse, upsilon=0.5)}
    chosen["learner"] = QLearning(0.5, 1.0)
    run = transfer(revealing(), [np.array([2])], rng=np.random.default_rng(seed), **chosen)
    assert (run.arms[0, -500:] == 1).mean() > 0.9
