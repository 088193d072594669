from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import reference
from reuse_reference import LEVEL, UNIFORM
from scipy.stats import binomtest

from pastmaster import InvalidInputError, QLearning, TabularMDP, decay, evaluate, return_bounds, solve, transfer
from pastmaster.reuse import QLearner


def started(n_states: int, n_actions: int, seed: int = 0, gamma: float = 0.9, **settings) -> QLearner:
    observations, actions = gym.spaces.Discrete(n_states), gym.spaces.Discrete(n_actions)
    return QLearning(**settings).start(observations, actions, gamma, np.random.default_rng(seed))


def alone(mdp: TabularMDP, episodes: int, seed: int = 0, **settings) -> list[QLearner]:
    """Learners that had the task to themselves, one from each body of the engine."""
    chosen = {"episodes": episodes, "bounds": (-100, 100), "learner": QLearning(**settings)}
    compiled = transfer(mdp, [], rng=np.random.default_rng(seed), **chosen)
    env = mdp.to_gymnasium()
    plain = transfer(env, [], gamma=mdp.gamma, horizon=10**6, rng=np.random.default_rng(seed), **chosen)
    return [compiled.learners[0], plain.learners[0]]


class Scripted:
    """A selector that says what it is told to say, and remembers what it heard."""

    def __init__(self, arms: list[int]) -> None:
        self.arms, self.heard = iter(arms), []

    def ask(self) -> int:
        return next(self.arms)

    def tell(self, *told) -> None:
        self.heard.append(told)


def scripted(*arms: int):
    return lambda n_sources, episodes, *, bounds, rng: Scripted(list(arms))


# Updates


def test_an_episode_traced_by_hand():
    """Step 1/2, gamma 0.9. Q(1, 1) = 0 + (2 - 0)/2 = 1, since the episode ends there. Q(0, 0) = 0 + (1 + 0.9 * 0)/2
    = 0.5 at first, and then 0.5 + (1 + 0.9 * 1 - 0.5)/2 = 1.2; Q(1, 1) then 1 + (2 - 1)/2 = 1.5."""
    learner = started(3, 2, step_size=0.5)
    learner.learn(0, 0, 1.0, 1, False)
    learner.learn(1, 1, 2.0, 2, True)
    assert learner.Q.tolist() == [[0.5, 0.0], [0.0, 1.0], [0.0, 0.0]]
    learner.learn(0, 0, 1.0, 1, False)
    learner.learn(1, 1, 2.0, 2, True)
    assert learner.Q.ravel() == pytest.approx(np.array([1.2, 0.0, 0.0, 1.5, 0.0, 0.0]), abs=1e-15)
    assert learner.policy.tolist() == [0, 1, 0]


@pytest.mark.parametrize("body", [0, 1])
def test_three_episodes_of_a_corridor_traced_by_hand(body):
    """0 -> 1 -> end pays 1 and 2, one action. Q(1) = 1, 1.5, 1.75; Q(0) = 0.5, then 1.2 as above, then
    1.2 + (1 + 0.9 * 1.5 - 1.2)/2 = 1.775. State 2 is never met and keeps its initial value."""
    mdp = TabularMDP([[1], [2], [2]], [[1.0], [2.0], [9.0]], terminated=[[False], [True], [True]], gamma=0.9)
    for episodes, expected in ((1, [0.5, 1.0, 0.0]), (2, [1.2, 1.5, 0.0]), (3, [1.775, 1.75, 0.0])):
        learner = alone(mdp, episodes)[body]
        assert learner.Q[:, 0] == pytest.approx(np.array(expected), abs=1e-15)
        assert learner.own_episodes.tolist() == [episodes]


@pytest.mark.parametrize("body", [0, 1])
def test_what_follows_counts_where_the_horizon_cut_the_episode_off_but_not_where_it_ended(body):
    """Step 1, gamma 1/2, reward 1 in a loop of one state: cut off, Q = 1, 1.5, 1.75; ended, always 1."""
    for terminated, expected in ((False, [1.0, 1.5, 1.75]), (True, [1.0, 1.0, 1.0])):
        mdp = TabularMDP([[0]], [[1.0]], terminated=[[terminated]], gamma=0.5, horizon=1)
        got = [alone(mdp, episodes, step_size=1.0)[body].Q[0, 0] for episodes in (1, 2, 3)]
        assert got == expected


@pytest.mark.parametrize("limited", [True, False])
def test_an_episode_cut_off_by_the_environment_or_by_the_call_is_not_taken_to_have_ended(limited):
    env = TabularMDP([[0]], [[1.0]], gamma=0.5).to_gymnasium()
    env, horizon = (gym.wrappers.TimeLimit(env, 1), None) if limited else (env, 1)
    chosen = {"episodes": 3, "gamma": 0.5, "horizon": horizon, "bounds": (0, 1), "learner": QLearning(1.0)}
    run = transfer(env, [], rng=np.random.default_rng(0), **chosen)
    assert run.learners[0].Q.tolist() == [[1.75]]


def test_the_initial_value_is_where_q_begins(rng):
    assert (started(2, 3, initial=-4.5).Q == -4.5).all()
    mdp = TabularMDP([[0, 0]], [[1.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    for learner in alone(mdp, 1, initial=5.0):
        assert sorted(learner.Q[0]) == [3.0, 5.0]  # one action was tried: 5 + (1 - 5)/2


def test_taking_back_updates_leaves_q_and_visits_as_they_were(rng):
    learner = started(3, 2, step_size=(0.5, 0.25, 0.125))
    for _ in range(4):
        learner.learn(int(rng.integers(3)), int(rng.integers(2)), rng.normal(), int(rng.integers(3)), False)
    Q, visits = learner.Q.copy(), learner.visits.copy()
    changes = []
    for s, a in ((0, 1), (2, 0), (0, 1), (0, 1)):  # some twice: only the oldest value may stand
        changes.append((s, a, learner.Q[s, a]))
        learner.learn(s, a, 1.0, 0, False)
    assert not np.array_equal(learner.Q, Q)
    learner.unlearn(changes)
    assert np.array_equal(learner.Q, Q)
    assert np.array_equal(learner.visits, visits)


# Actions


ROWS = [[0.0], [1.0, 3.0, 3.0, 0.0, 3.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -1.0, -2.0]]


class Given:
    """A generator whose next number is given."""

    def __init__(self) -> None:
        self.next = 0.0

    def random(self) -> float:
        return self.next


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.35, 1.0])
def test_the_share_of_uniform_numbers_that_lead_to_an_action_is_its_likelihood(row, epsilon):
    """Over an even grid of n numbers; each action's set is at most two intervals, each off by at most 1 / n."""
    learner = started(1, len(row), epsilon=epsilon)
    learner.Q[0] = row
    n, given = 3000, Given()
    learner.rng = given
    counts = np.zeros(len(row))
    for u in (np.arange(n) + 0.5) / n:
        given.next = float(u)
        action = learner.act(0)
        counts[action] += 1
    likelihood = [learner.likelihood(0, a) for a in range(len(row))]
    best = np.array(row) == max(row)
    assert likelihood == pytest.approx(epsilon / len(row) + (1 - epsilon) * best / best.sum(), abs=1e-15)
    assert np.abs(counts / n - likelihood).max() <= 2.001 / n
    for u in (0.0, np.nextafter(epsilon, 0), epsilon, np.nextafter(1.0, 0)):
        if 0 <= u < 1:
            given.next = float(u)
            assert learner.likelihood(0, learner.act(0)) > 0


def test_actions_are_drawn_as_often_as_their_likelihood_and_ties_are_broken_evenly(seed):
    learner = started(2, 5, seed, epsilon=0.3)
    learner.Q[1] = [1.0, 3.0, 3.0, 0.0, 3.0]
    n = 40_000
    counts = np.bincount([learner.act(1) for _ in range(n)], minlength=5)
    expected = [0.06, 0.06 + 0.7 / 3, 0.06 + 0.7 / 3, 0.06, 0.06 + 0.7 / 3]
    for a in range(5):
        assert learner.likelihood(1, a) == pytest.approx(expected[a])
        assert binomtest(int(counts[a]), n, expected[a]).pvalue > LEVEL / 5
    greedy = np.bincount([learner.act(1, 0.0) for _ in range(n)], minlength=5)
    assert greedy[[0, 3]].tolist() == [0, 0]
    for a in (1, 2, 4):
        assert binomtest(int(greedy[a]), n, 1 / 3).pvalue > LEVEL / 3


def test_a_run_explores_as_often_as_epsilon_says(seed):
    """Optimistic for action 2 only after it was tried: it pays 1, the others nothing, and step 1 learns it at once."""
    mdp = TabularMDP([[0] * 4], [[0.0, 0.0, 1.0, 0.0]], terminated=[[True] * 4], gamma=0.9)
    chosen = {"episodes": 40_000, "bounds": (0, 1), "learner": QLearning(1.0, 0.2)}
    run = transfer(mdp, [], rng=np.random.default_rng(seed), **chosen)
    known = int(run.returns[0].argmax()) + 1
    after = run.returns[0, known:]
    assert binomtest(int(after.sum()), len(after), 0.8 + 0.05).pvalue > LEVEL


# Schedules


def test_the_step_size_falls_with_the_visits_of_a_pair():
    """Steps 1, 1/2, 1/4, and 1/4 for ever after. Rewards 8, 0, 4, 8 that end the episode: 8, 4, 4, 5."""
    learner = started(1, 2, step_size=[1.0, 0.5, 0.25])
    seen = []
    for reward in (8.0, 0.0, 4.0, 8.0):
        learner.learn(0, 1, reward, 0, True)
        seen.append(learner.Q[0, 1])
    assert seen == [8.0, 4.0, 4.0, 5.0]
    assert learner.visits.tolist() == [[0, 4]]
    learner.learn(0, 0, 3.0, 0, True)
    assert learner.Q[0, 0] == 3.0  # its own first visit


def test_steps_of_one_over_n_make_q_the_mean():
    learner = started(1, 1, step_size=lambda n: 1 / (n + 1))
    for reward in (3.0, 5.0, 10.0):
        learner.learn(0, 0, reward, 0, True)
    assert learner.Q[0, 0] == pytest.approx(6.0)


def test_epsilon_falls_with_own_episodes_alone():
    learner = started(1, 2, epsilon=[1.0, 0.5, 0.125])
    seen = []
    for _ in range(5):
        seen.append(learner.epsilon)
        learner.learn(0, 0, 1.0, 0, True)
        learner.act(0)
        learner.end_own_episode()
    assert seen == [1.0, 0.5, 0.125, 0.125, 0.125]


def test_the_last_entry_of_a_tabulated_function_holds_on():
    learner = started(1, 1, epsilon=decay(0.1, 500))
    learner.own_episodes[0] = 10**9
    assert learner.epsilon == decay(0.1, 500)(99_999)


def test_decay_halves_when_it_says_and_prints_as_it_was_called():
    assert decay(0.1, 500)(0) == 0.1
    assert decay(0.1, 500)(500) == pytest.approx(0.05)
    assert decay(0.1, 500)(1500) == pytest.approx(0.025)
    assert repr(decay(0.1, 500)) == "decay(first=0.1, half=500)"
    assert "decay(first=0.1, half=500)" in repr(QLearning(epsilon=decay(0.1, 500)))


def test_a_schedule_of_epsilon_is_followed_by_both_bodies(seed):
    """Random for two own episodes, greedy from then on: Q(0, 2) is best once tried, and tried by optimism."""
    mdp = TabularMDP([[0] * 3], [[0.0, 1.0, 2.0]], terminated=[[True] * 3], gamma=0.9)
    chosen = {"episodes": 30, "bounds": (0, 2), "learner": QLearning(1.0, [1.0, 1.0, 0.0], initial=3.0)}
    for task, more in ((mdp, {}), (mdp.to_gymnasium(), {"gamma": 0.9, "horizon": 1})):
        run = transfer(task, [], rng=np.random.default_rng(seed), **more, **chosen)
        assert (run.returns[0, 5:] == 2.0).all()  # at most three greedy tries of what is still at 3


# Convergence


def test_it_finds_the_way_over_the_frozen_lake():
    mdp = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1", is_slippery=False), 0.95)
    optimum = solve(mdp)
    run = transfer(
        mdp, [], episodes=20_000, bounds=(0, 1), learner=QLearning(0.5, 0.3), rng=np.random.default_rng(0)
    )  # fmt: skip
    assert run.learners[0].Q[0].max() == pytest.approx(optimum.start_value, abs=1e-9)
    assert evaluate(mdp, run.policy)[0] == pytest.approx(optimum.start_value, abs=1e-9)


@pytest.mark.parametrize("horizon", [None, 7])
def test_it_converges_to_the_optimum_of_small_deterministic_tasks(rng, horizon):
    """Step 1 and exploring alone. An episode cut off is not one that ended: Q goes to the uncapped optimum."""
    for _ in range(5):
        arrays = reference.random_arrays(rng, 5, 3, None)
        if horizon is None:
            arrays["next_state"] = np.minimum(np.maximum(arrays["next_state"], np.arange(5)[:, None] + 1), 4)
            arrays["terminated"][-1] = True
        mdp = TabularMDP(**arrays, gamma=0.8, horizon=horizon, start=np.full(5, 0.2))
        expected = reference.q_values(mdp, reference.optimal_values_by_enumeration(mdp))
        chosen = {"episodes": 5000, "bounds": return_bounds(mdp), "learner": QLearning(1.0, 1.0)}
        run = transfer(mdp, [], rng=np.random.default_rng(1), **chosen)
        assert np.abs(run.learners[0].Q - expected).max() < 1e-9
        assert np.array_equal(run.policy, solve(mdp).policy)


def test_decaying_steps_bring_it_to_the_optimum_of_a_stochastic_task(rng):
    """Constant steps keep jumping; steps n^-0.7 settle."""
    mdp = reference.random_mdp(rng, 5, 2, 3, gamma=0.7, horizon=20)
    mdp = TabularMDP(
        mdp.next_state, mdp.reward, probability=mdp.probability, terminated=mdp.terminated, gamma=0.7,
        horizon=20, start=np.full(5, 0.2),
    )  # fmt: skip
    expected = reference.q_values(mdp, reference.optimal_values_by_enumeration(mdp))
    errors = []
    for step_size in (lambda n: (n + 1) ** -0.7, 0.5):
        chosen = {"episodes": 60_000, "bounds": return_bounds(mdp), "learner": QLearning(step_size, 1.0)}
        run = transfer(mdp, [], rng=np.random.default_rng(2), **chosen)
        errors.append(np.abs(run.learners[0].Q - expected).max())
    assert errors[0] < 0.1
    assert errors[0] < 0.5 * errors[1]


# Whose episodes it learns from


def test_it_learns_from_its_own_episodes_or_from_every_one():
    """Source 0 runs three episodes: 0 -> 1 -> end, paying 1 and 2. Watching, the learner is where the hand trace is."""
    ends = [[False, True], [True, True], [True, True]]
    mdp = TabularMDP([[1, 0], [2, 2], [2, 2]], [[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], terminated=ends, gamma=0.9)
    source = np.array([0, 0, 0])
    chosen = {"episodes": 3, "bounds": (0, 3), "selector": scripted(0, 0, 0)}
    own, every = (
        transfer(mdp, [source], rng=np.random.default_rng(0), learner=QLearning(learn_from=name), **chosen).learners[0]
        for name in ("own", "every")
    )
    assert (own.Q == 0).all()
    assert every.Q[:, 0] == pytest.approx(np.array([1.775, 1.75, 0.0]), abs=1e-15)
    assert (every.Q[:, 1] == 0).all()
    assert own.own_episodes.tolist() == every.own_episodes.tolist() == [0]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("steps", [0.5, (1.0, 0.5, 0.25)])
def test_sharing_leaves_a_learner_of_its_own_episodes_as_if_it_had_not_watched(rng, compiled, steps):
    """With the arms drawn evenly, whatever is told, runs with and without sharing have the same arms."""
    mdp = reference.random_mdp(rng, horizon=15, ending=0.05)
    sources = [reference.random_policy(rng, mdp, mixed=i == 1) for i in range(3)]
    chosen = {"episodes": 80, "bounds": return_bounds(mdp), "selector": UNIFORM, "learner": QLearning(steps)}
    task, more = (mdp, {}) if compiled else (mdp.to_gymnasium(), {"gamma": mdp.gamma})
    shared, apart = (
        transfer(task, sources, rng=np.random.default_rng(5), share=share, **more, **chosen) for share in (True, False)
    )
    assert np.array_equal(shared.arms, apart.arms)
    assert len(set(shared.arms[0])) == 4
    assert np.array_equal(shared.returns, apart.returns)
    assert np.array_equal(shared.learners[0].Q, apart.learners[0].Q)
    assert np.array_equal(shared.learners[0].visits, apart.learners[0].visits)
    assert shared.selectors[0].to_dict() != apart.selectors[0].to_dict()  # sharing did count
    watching = transfer(
        task, sources, rng=np.random.default_rng(5), share=True, **more,
        **(chosen | {"learner": QLearning(steps, learn_from="every")}),
    )  # fmt: skip
    assert not np.array_equal(watching.learners[0].Q, apart.learners[0].Q)  # the comparison can fail


def test_a_shared_episode_is_told_with_the_likelihood_of_each_arm():
    """Two steps in one state, 2 actions, Q tied at 0 as long as the learner only watches what pays nothing.

    Source 0 always takes action 0, source 1 always 1, source 2 takes 0 with probability 1/4. An episode of source 0 is
    as likely under source 2 as 1/16, under the learner 1/4 (ties, whatever epsilon). The learner's own: 1/4 too.
    """
    mdp = TabularMDP([[0, 0]], [[0.0, 0.0]], gamma=0.9, horizon=2)
    sources = [np.array([0]), np.array([1]), np.array([[0.25, 0.75]])]
    chosen = {"episodes": 3, "bounds": (0, 1), "selector": scripted(0, 1, 3), "share": True}
    run = transfer(mdp, sources, rng=np.random.default_rng(0), **chosen)
    told = run.selectors[0].heard
    assert [arm for arm, *_ in told] == [0, 1, 3]
    assert told[0][2].tolist() == [1.0, 0.0, 1 / 16, 0.25]
    assert told[1][2].tolist() == [0.0, 1.0, 9 / 16, 0.25]
    assert told[2][2][3] == 0.25


def test_likelihoods_too_small_for_a_number_are_told_up_to_a_common_factor():
    """600 steps, 4 actions, all tied. The source that takes one of two: 2^-600; the even one and the learner: 2^-1200.

    After step 501 the largest is below 2^-500, and all are raised by that: 2^-100 and 2^-700, whose ratio is right.
    """
    mdp = TabularMDP([[0] * 4], [[0.0] * 4], gamma=0.9, horizon=600)
    sources = [np.array([[0.5, 0.5, 0.0, 0.0]]), np.full((1, 4), 0.25), np.array([3])]
    chosen = {"episodes": 2, "bounds": (0, 1), "selector": scripted(0, 2), "share": True}
    run = transfer(mdp, sources, rng=np.random.default_rng(0), **chosen)
    told = [likelihood.tolist() for _, _, likelihood in run.selectors[0].heard]
    assert told[0] == [2.0**-100, 2.0**-700, 0.0, 2.0**-700]
    assert told[1] == [0.0, 0.0, 1.0, 0.0]  # 4^-600 is 0.0 beside a likelihood of 1


def test_the_likelihood_of_the_learner_is_that_of_a_learner_who_learns_as_it_goes():
    """One state, 2 actions, two steps; action 0 pays 1, step 1, epsilon 1/2.

    Source 0 takes action 0 twice. The first is a tie: 1/2. Having learned from it, Q(0, 0) = 1 is best: 1/4 + 1/2.
    """
    mdp = TabularMDP([[0, 0]], [[1.0, 0.0]], gamma=0.5, horizon=2)
    chosen = {"episodes": 2, "bounds": (0, 2), "selector": scripted(0, 0), "share": True}
    run = transfer(mdp, [np.array([0])], rng=np.random.default_rng(0), learner=QLearning(1.0, 0.5), **chosen)
    for _, _, likelihood in run.selectors[0].heard:
        assert likelihood.tolist() == [1.0, 0.5 * 0.75]
    assert (run.learners[0].Q == 0).all()


# Refusals


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (gym.spaces.Box(0, 1), gym.spaces.Discrete(2)),
        (gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 2])),
        (gym.spaces.Discrete(2, start=1), gym.spaces.Discrete(2)),
        (gym.spaces.Discrete(2), gym.spaces.Discrete(2, start=-1)),
        (3, 2),
    ],
)
def test_spaces_that_are_not_discrete_from_0_are_refused(observations, actions):
    with pytest.raises(InvalidInputError, match=r"QLearning\.start: got .*, must be Discrete observations and actions"):
        QLearning().start(observations, actions, 0.9, np.random.default_rng(0))
