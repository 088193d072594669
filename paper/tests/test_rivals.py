"""Selectors of others: each does what its paper says, and keeps the contract of a selector."""

from __future__ import annotations

import copy
import math
import pickle
from functools import partial

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.stats import chi2, norm

from pastmaster import Experience, InvalidInputError, TabularMDP, TsallisINF, transfer
from pastmaster.testing import check_selector
from pastmaster_paper.rivals import UCB1, BayesianPolicyReuse, LatentThompson, LatentUCB, PolicyAdvice
from pastmaster_paper.rivals.latent_bandits import regret_bound as latent_regret
from pastmaster_paper.rivals.policy_advice import regret_bound as advice_regret

LEVEL = 1e-6
BOUNDS = (-2.0, 6.0)
SPAN = 8.0


def old_tasks(n_tasks, n_sources, seed=0, spread=True):
    """Experience in units of return, within BOUNDS; source 0 is best in the first tasks, so that all try it."""
    rng = np.random.default_rng([seed, n_tasks, n_sources])
    values = rng.uniform(-1.0, 5.0, (n_tasks, n_sources))
    first = n_tasks // 2 + 1
    values[:first, :1] = np.linspace(5.5, 5.0, first)[:, None]
    return Experience(values, spread=rng.uniform(0.2, 1.5, values.shape) if spread else None)


def knowing(kind, **settings):
    """A rival that is given five old tasks of as many sources as it has."""

    def made(n_sources, episodes=None, **others):
        return kind(n_sources, episodes, experience=old_tasks(5, n_sources), **settings, **others)

    return made


RIVALS = {
    "ucb1": UCB1,
    "rlpa": PolicyAdvice,
    "rlpa, log": partial(PolicyAdvice, span_guess="log", delta=0.5),
    "bpr, ei": knowing(BayesianPolicyReuse),
    "bpr, pi": knowing(BayesianPolicyReuse, explore="probability-of-improvement"),
    "bpr, ts": knowing(BayesianPolicyReuse, explore="thompson", noise=0.5),
    "mucb": knowing(LatentUCB, noise=0.5, deviation=0.1),
    "mts": knowing(LatentThompson),
}
LEARNED = ("bpr, ei", "bpr, pi", "bpr, ts", "mts")


def run(selector, returns):
    """Ask and tell; ``returns`` [T, c] are those of each source. The arms."""
    arms = []
    for row in returns:
        arms.append(selector.ask())
        selector.tell(arms[-1], float(row[arms[-1]]))
    return arms


def normal_returns(rng, means, deviation, episodes):
    return np.asarray(means) + deviation * rng.standard_normal((episodes, len(means)))


# the contract


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("n_sources", [1, 5])
def test_they_keep_the_contract_of_a_selector(name, n_sources, seed):
    def factory(n, *others, **named):
        if not n:  # they refuse to have no sources
            return TsallisINF(n, *others, **named)
        selector = RIVALS[name](n, *others, **named)
        selector.to_dict = lambda: {"counts": selector.counts.tolist(), "totals": selector.totals.tolist()}
        return selector

    check_selector(factory, n_sources=n_sources, seed=seed)


def test_the_contract_refuses_one_that_forgets_what_it_asked_for():
    class Forgetful(UCB1):
        def tell(self, arm, value):
            self._pending = arm
            super().tell(arm, value)

    with pytest.raises(AssertionError, match="tell takes an arm before the first ask"):
        check_selector(lambda n, *others, **named: (Forgetful if n else TsallisINF)(n, *others, **named))


@pytest.mark.parametrize("name", RIVALS)
def test_a_copy_shares_nothing_and_goes_on_alike(name, seed, rng):
    """``transfer`` sends selectors from worker to worker."""
    returns = rng.uniform(*BOUNDS, (60, 3))
    selector = RIVALS[name](3, 100, bounds=BOUNDS, rng=seed)
    run(selector, returns[:30])
    asked = selector.ask()
    copies = [copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))]
    run(copy.deepcopy(selector), returns[::-1])
    for each in (*copies, selector):
        each.tell(asked, 1.0)
    assert run(copies[0], returns) == run(copies[1], returns) == run(selector, returns)


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("value", [7.0, -2.1, math.nan, math.inf])
def test_returns_outside_the_bounds_are_refused(name, value, seed):
    selector = RIVALS[name](2, 50, bounds=BOUNDS, rng=seed)
    arm = selector.ask()
    with pytest.raises(InvalidInputError, match="must be within the bounds"):
        selector.tell(arm, value)
    assert selector.counts.sum() == 0
    selector.tell(arm, BOUNDS[1])
    assert selector.totals.tolist() == selector.counts.tolist()


@pytest.mark.parametrize("name", RIVALS)
def test_without_sources_they_have_nobody_to_run(name):
    with pytest.raises(InvalidInputError, match="n_sources is 0, must be at least 1: it has no learner"):
        RIVALS[name](0, 10, bounds=BOUNDS)


GOOD = np.full((4, 2), 1.0)
NOT_A_NUMBER = np.array([[0.0, 1.0], [math.nan, 0.0]])


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (BayesianPolicyReuse, {"experience": np.zeros((4, 3))}, "experience has 3 columns, must have one to each of 2"),
        (LatentUCB, {"experience": np.zeros(4)}, r"values has shape \(4,\), must be"),
        (LatentThompson, {"experience": NOT_A_NUMBER}, r"values\[1, 0\] is nan, must be a finite number"),
        (BayesianPolicyReuse, {"experience": GOOD, "noise": 0.0}, "noise is 0.0, must be above 0"),
        (LatentThompson, {"experience": GOOD, "noise": math.nan}, "noise is nan, must be"),
        (LatentUCB, {"experience": GOOD, "deviation": -1.0}, "deviation is -1.0, must be at least 0"),
        (BayesianPolicyReuse, {"experience": GOOD, "explore": "greedy"}, "explore is 'greedy', must be one of"),
        (PolicyAdvice, {"delta": 0.0}, "delta is 0.0, must be"),
        (PolicyAdvice, {"span_guess": "sqrt"}, "span_guess is 'sqrt', must be"),
    ],
)
def test_what_cannot_be_is_refused_by_name(kind, settings, words):
    with pytest.raises(InvalidInputError, match=f"({kind.__name__}|Experience): {words}"):
        kind(2, 10, bounds=BOUNDS, **settings)


# Bayesian Policy Reuse


def plain_belief(experience, episodes, noise=None):
    """Bayes' rule for normal returns, one episode after another, in units of return."""
    belief = [1.0 / len(experience.values)] * len(experience.values)
    for arm, value in episodes:
        for i in range(len(belief)):
            deviation = experience.spread[i, arm] if noise is None else noise
            belief[i] *= norm.pdf(value, experience.values[i, arm], deviation)
        belief = [one / sum(belief) for one in belief]
    return np.array(belief)


@pytest.mark.parametrize("name", LEARNED)
def test_the_belief_is_that_of_bayes_rule(name, seed, rng):
    experience, told = old_tasks(5, 3), []
    selector = RIVALS[name](3, 60, bounds=BOUNDS, rng=seed)
    for _ in range(60):
        arm = selector.ask()
        value = float(np.clip(rng.normal(experience.values[2, arm], 0.8), *BOUNDS))
        selector.tell(arm, value)
        told.append((arm, value))
        expected = plain_belief(experience, told, 0.5 if name == "bpr, ts" else None)
        np.testing.assert_allclose(selector.belief, expected, rtol=1e-9, atol=1e-12)


def test_without_spread_the_noise_is_a_tenth_of_the_span():
    experience = old_tasks(5, 3, spread=False)
    for settings, noise in (({}, SPAN / 10), ({"noise": 0.3}, 0.3)):
        selector = BayesianPolicyReuse(3, bounds=BOUNDS, experience=experience, rng=0, **settings)
        arm = selector.ask()
        selector.tell(arm, 2.0)
        np.testing.assert_allclose(selector.belief, plain_belief(experience, [(arm, 2.0)], noise), rtol=1e-9)


def improvement_scores(experience, belief, explore):
    """What the paper's two heuristics compare, by integrating densities [c]."""
    U, s = experience.values, experience.spread
    best = max(belief @ U)
    scores = np.zeros(U.shape[1])
    for j in range(U.shape[1]):
        for i in range(len(U)):
            density = partial(norm.pdf, loc=U[i, j], scale=s[i, j])
            if explore == "expected-improvement":
                at = np.linspace(best, max(best, U[i, j]) + 12 * s[i, j], 4_001)
                scores[j] += belief[i] * simpson(density(at), x=at)
            else:
                scores[j] += belief[i] * density(best + s.mean())
    return scores


@pytest.mark.parametrize("explore", ["expected-improvement", "probability-of-improvement"])
def test_the_source_that_runs_is_the_one_that_the_published_heuristic_prefers(explore, seed, rng):
    agreed = 0
    for _ in range(8):
        experience = Experience(rng.uniform(-1.0, 5.0, (6, 4)), spread=rng.uniform(0.2, 1.5, (6, 4)))
        selector = BayesianPolicyReuse(4, bounds=BOUNDS, experience=experience, explore=explore, rng=0)
        for _ in range(5):
            scores = improvement_scores(experience, selector.belief, explore)
            arm = selector.ask()
            assert scores[arm] >= scores.max() - 1e-7
            agreed += arm != np.argmax(selector.belief @ experience.values)
            selector.tell(arm, float(np.clip(rng.normal(experience.values[0, arm], 1.0), *BOUNDS)))
    assert agreed > 0  # it is not just the best expectation


@pytest.mark.parametrize("explore", ["expected-improvement", "probability-of-improvement", "thompson"])
@pytest.mark.parametrize("task", range(4))
def test_bayesian_policy_reuse_identifies_the_task_and_settles(explore, task, seed, rng):
    """As in the paper's experiments: within tens of episodes it runs the best source of the true task, and stays."""
    U = np.full((4, 4), 1.0) + 3.0 * np.eye(4) + 0.3 * np.arange(4)[:, None]
    selector = BayesianPolicyReuse(4, 60, bounds=BOUNDS, experience=U, explore=explore, noise=0.3, rng=seed)
    arms = run(selector, np.clip(normal_returns(rng, U[task], 0.3, 60), *BOUNDS))
    assert arms[30:] == [task] * 30
    assert selector.belief[task] > 0.999


@pytest.mark.parametrize("kind", [LatentThompson, partial(BayesianPolicyReuse, explore="thompson")])
def test_thompson_sampling_chooses_as_often_as_is_believed(kind, seed):
    """Chi-square of 20,000 choices between the same two tells; equal frequencies would be refused."""
    U = np.array([[3.0, 1.0, 0.0], [0.0, 3.0, 1.0], [3.0, 0.0, 1.0], [0.0, 1.0, 3.0]])
    selector = kind(3, bounds=BOUNDS, experience=U, noise=2.0, rng=seed)
    selector.tell(selector.ask(), 1.2)
    belief = selector.belief
    expected = 20_000 * np.array([belief[0] + belief[2], belief[1], belief[3]])
    found = np.bincount([selector.choose(chance) for chance in selector.rng.random(20_000)], minlength=3)
    np.testing.assert_allclose(20_000 * selector.thompson(), expected)
    limit = chi2.isf(LEVEL, 2)
    assert ((found - expected) ** 2 / expected).sum() < limit
    assert ((found - 20_000 / 3) ** 2 / (20_000 / 3)).sum() > limit


def test_densities_that_underflow_are_compared_all_the_same():
    selector = BayesianPolicyReuse(
        3, bounds=(0, 1), experience=[[0.1, 0.2, 0.9]], explore="probability-of-improvement", noise=1e-4
    )
    assert selector.ask() == 2


def test_both_papers_have_the_same_thompson_sampling(seed, rng):
    returns, settings = rng.uniform(*BOUNDS, (200, 4)), {"bounds": BOUNDS, "experience": old_tasks(9, 4), "rng": seed}
    one, other = BayesianPolicyReuse(4, explore="thompson", **settings), LatentThompson(4, **settings)
    assert run(one, returns) == run(other, returns)


# latent bandits


def plain_latent_ucb(U, returns, sigma, epsilon=0.0):
    """mUCB as its paper writes it, in units of return: the arms, and whether each state was consistent each time."""
    n, n_states = len(returns), len(U)
    history, arms, kept = [], [], []
    for t in range(n):
        consistent = []
        for s in range(n_states):
            own = [(a, r) for b, a, r in history if b == s]
            gap = sum(U[s][a] - epsilon - r for a, r in own)
            consistent.append(gap <= sigma * math.sqrt(6 * len(own) * math.log(n)))
        upper = [max(U[s][a] for s in range(n_states) if consistent[s]) for a in range(len(U[0]))]
        arm = upper.index(max(upper))
        state = next(s for s in range(n_states) if consistent[s] and U[s][arm] == upper[arm])
        history.append((state, arm, returns[t][arm]))
        arms.append(arm)
        kept.append(consistent)
    return arms, kept


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_mucb_runs_the_arms_of_an_independent_implementation(epsilon, seed, rng):
    for k in range(5):
        U = old_tasks(6, 4, seed + k).values
        returns = np.clip(normal_returns(rng, U[k] - epsilon, 0.5, 150), *BOUNDS)
        arms, kept = plain_latent_ucb(U.tolist(), returns.tolist(), 0.5, epsilon)
        selector = LatentUCB(4, 150, bounds=BOUNDS, experience=U, noise=0.5, deviation=epsilon, rng=seed)
        for t in range(150):
            assert (selector.excess() <= 0).tolist() == kept[t]
            arm = selector.ask()
            assert arm == arms[t]
            selector.tell(arm, float(returns[t, arm]))


@pytest.mark.parametrize("episodes", [2_000, None])
def test_mucb_never_refutes_the_true_task_and_keeps_its_regret_bound(episodes, seed):
    """The bound is 3 |S| + 2 sigma sqrt(6 |S| n ln n) payoffs. Told a wrong table, it loses more than that."""
    T, sigma, lost, misled = 2_000, 0.1, [], []
    for k, stream in enumerate(np.random.default_rng(seed).spawn(6)):
        U = stream.uniform(0.2, 0.8, (5, 4))
        U[:, 0], U[np.arange(5), 1 + np.arange(5) % 3] = 0.3, 0.8 + 0.01 * np.arange(5)
        means = U[k % 5]
        returns = np.clip(normal_returns(stream, means, sigma, T), 0.0, 1.0)
        selector = LatentUCB(4, episodes, bounds=(0, 1), experience=U, noise=sigma, rng=0)
        arms = run(selector, returns)
        assert selector.excess()[k % 5] <= 0
        lost.append(T * means.max() - means[arms].sum())
        wrong = LatentUCB(4, episodes, bounds=(0, 1), experience=[[0.3, 0.1, 0.1, 0.1]], noise=sigma)
        misled.append(T * means.max() - means[run(wrong, returns)].sum())
    bound = latent_regret(5, T, sigma)
    assert bound == pytest.approx(15 + 2 * sigma * math.sqrt(6 * 5 * T * math.log(T)))
    assert np.mean(lost) <= bound
    assert np.mean(misled) > bound


def test_mucb_goes_on_where_every_task_is_refuted():
    selector = LatentUCB(3, 500, bounds=(0, 1), experience=[[0.9, 0.1, 0.5], [0.5, 0.8, 0.2]], noise=0.01, rng=0)
    run(selector, np.full((500, 3), 0.1))
    assert (selector.excess() > 0).all()
    assert selector.counts[:2].min() > 200  # the least refuted in turn


def test_the_default_noise_of_mucb_is_right_for_all_returns_within_the_bounds():
    experience, returns = old_tasks(5, 3, spread=False), np.random.default_rng(0).uniform(*BOUNDS, (100, 3))
    default, half = (LatentUCB(3, 100, bounds=BOUNDS, experience=experience, noise=n) for n in (None, SPAN / 2))
    assert run(default, returns) == run(half, returns)
    assert (default.excess() == half.excess()).all()


def test_mts_keeps_its_bound_on_average_over_tasks_drawn_from_the_prior(seed):
    """Bayes regret; and the posterior stays with the true task."""
    T, sigma, lost, found = 1_000, 0.1, [], []
    for stream in np.random.default_rng(seed).spawn(20):
        U = np.random.default_rng(seed).uniform(0.2, 0.8, (6, 4))
        task = int(stream.integers(6))
        selector = LatentThompson(4, T, bounds=(0, 1), experience=U, noise=sigma, rng=stream)
        arms = run(selector, np.clip(normal_returns(stream, U[task], sigma, T), 0.0, 1.0))
        lost.append(T * U[task].max() - U[task][arms].sum())
        found.append(selector.belief[task])
    assert np.mean(lost) <= latent_regret(6, T, sigma)
    assert np.median(found) > 0.99


# policy advice


def plain_policy_advice(returns, delta, span):
    """RLPA as its paper's loops are written, with an episode for a step, and v counted from 0; payoffs in 0 .. 1.

    The arms, who was dropped and when, and the width c(n) of the last run.
    """
    m, T = returns.shape[1], len(returns)
    n, R, K, mean = [1.0] * m, [0.0] * m, [1.0] * m, [0.0] * m
    t, i, arms, dropped = 0, 0, [], []
    while t < T:
        t_i, T_i, f, left = 0, 2**i, span(2**i), set(range(m))
        while t < T and t_i < T_i and left:
            log_t = math.log(2 * max(t, 1) / delta)
            c = [(f + 1) * math.sqrt(48 * log_t / n[j]) + f * K[j] / n[j] for j in range(m)]
            j = max(sorted(left), key=lambda p: mean[p] + c[p])
            v, fell = 0, False
            while t < T and t_i < T_i and v < n[j] and not fell:
                t, t_i, v = t + 1, t_i + 1, v + 1
                R[j] += returns[t - 1, j]
                arms.append(j)
                log_t, N = math.log(2 * t / delta), n[j] + v
                fell = mean[j] - R[j] / N > c[j] + (f + 1) * math.sqrt(48 * log_t / N) + f * K[j] / N
            if fell:
                left.remove(j)
                dropped.append((t, j))
            K[j], n[j] = K[j] + 1, n[j] + v
            mean[j] = R[j] / n[j]
        i += 1
    return arms, dropped, c[j]


@pytest.mark.parametrize("span_guess", ["none", "log"])
def test_rlpa_runs_the_arms_of_an_independent_implementation(span_guess, rng):
    for episodes in (6_000, 500, 400, 300, 200, 100):
        returns = rng.random((episodes, 3)) * [0.9, 0.6, 0.3]
        arms, dropped, width = plain_policy_advice(returns, 0.1, math.log if span_guess == "log" else lambda _: 0.0)
        selector = PolicyAdvice(3, bounds=(0, 1), span_guess=span_guess, rng=0)
        assert run(selector, returns) == arms
        assert selector.width == pytest.approx(width, rel=1e-12)
        assert dropped == []  # the means are what they seem to be: none fell


def test_rlpa_loses_like_the_square_root_of_time(rng):
    """Bad policies get few episodes. Four times the episodes cost at most twice as much, but for the logarithm."""
    T = 40_000
    returns = (rng.random((T, 3)) < [0.9, 0.3, 0.3]).astype(float)
    arms = np.array(run(PolicyAdvice(3, bounds=(0, 1), rng=0), returns))
    lost = np.cumsum(0.6 * (arms > 0))
    assert lost[-1] <= 2 * math.sqrt(math.log(2 * T / 0.1) / math.log(T / 2 / 0.1)) * lost[T // 4 - 1]
    assert lost[-1] < 0.1 * 0.6 * T
    assert lost[-1] <= advice_regret(3, T, 0.0, 0.1)


def test_rlpa_drops_a_policy_that_falls_until_the_next_trial():
    """A policy that paid 1 and then pays 0 fell by more than a span of 0 explains. A larger guess explains it."""
    returns = np.zeros((34_000, 2))
    returns[:16_000, 0], returns[:, 1] = 1.0, 0.2
    arms, dropped, _ = plain_policy_advice(returns, 0.1, lambda _: 0.0)
    (when, who), *_ = dropped
    assert who == 0
    trial_ends = 2 ** int(math.log2(when + 1) + 1) - 1
    selector = PolicyAdvice(2, bounds=(0, 1), rng=0)
    assert run(selector, returns[:when]) == arms[:when]
    assert selector.in_play.tolist() == [False, True]
    again = pickle.loads(pickle.dumps(selector))
    assert run(again, returns[when:]) == arms[when:]
    assert set(arms[when:trial_ends]) == {1}
    tolerant = PolicyAdvice(2, bounds=(0, 1), span_guess="log", rng=0)
    run(tolerant, returns[:when])
    assert tolerant.in_play.tolist() == [True, True]


# UCB1


def plain_ucb1(returns):
    """UCB1 as in the paper: each arm once, then the largest index; payoffs in 0 .. 1."""
    c, total, count, arms = returns.shape[1], {}, {}, []
    for t in range(len(returns)):
        if t < c:
            arm = t
        else:
            index = [total[j] / count[j] + math.sqrt(2 * math.log(t) / count[j]) for j in range(c)]
            arm = index.index(max(index))
        total[arm], count[arm] = total.get(arm, 0.0) + returns[t, arm], count.get(arm, 0) + 1
        arms.append(arm)
    return arms


def test_ucb1_runs_the_arms_of_an_independent_implementation(rng):
    payoffs = rng.random((3_000, 5)) * [0.9, 0.8, 0.5, 0.5, 0.2]
    selector = UCB1(5, bounds=BOUNDS, rng=0)
    assert run(selector, BOUNDS[0] + SPAN * payoffs) == plain_ucb1(payoffs)


def test_ucb1_keeps_its_logarithmic_bound(seed):
    """Theorem 1: 8 sum ln n / gap + (1 + pi^2 / 3) sum gap payoffs, after any number of episodes."""
    T, means, lost = 4_000, np.array([0.7, 0.5, 0.3]), np.zeros(4_000)
    for stream in np.random.default_rng(seed).spawn(10):
        arms = run(UCB1(3, T, bounds=(0, 1), rng=0), (stream.random((T, 3)) < means).astype(float))
        lost += np.cumsum(means[0] - means[arms]) / 10
    gaps = means[0] - means[1:]
    for n in (100, 1_000, T):
        assert lost[n - 1] <= 8 * (math.log(n) / gaps).sum() + (1 + math.pi**2 / 3) * gaps.sum()
    assert lost[-1] - lost[T // 2 - 1] < 0.5 * lost[T // 2 - 1]  # it grows ever more slowly


# in transfer


@pytest.mark.parametrize("name", RIVALS)
def test_transfer_takes_a_rival_that_a_function_makes(name, seed):
    task = TabularMDP([[1, 1], [1, 1]], [[1.0, 0.2], [0.0, 0.0]], gamma=0.9, terminated=[[True, True], [True, True]])
    sources = [np.array([1, 0]), np.array([0, 0])]
    result = transfer(task, sources, episodes=50, bounds=BOUNDS, selector=RIVALS[name], rng=seed)
    assert set(np.unique(result.arms)) <= {0, 1}
    assert (result.returns == np.where(result.arms == 1, 1.0, 0.2)).all()
