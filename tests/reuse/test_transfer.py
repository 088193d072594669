from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import reference
from reuse_reference import LEVEL, UNIFORM, some_experience
from seams import endless_states

import pastmaster
from pastmaster import (
    Exp3Transfer,
    FixedPolicy,
    InvalidInputError,
    ProbabilisticPolicyReuse,
    QLearning,
    TabularMDP,
    TaskError,
    TsallisINF,
    evaluate,
    return_bounds,
    solve,
    transfer,
)
from pastmaster.reuse import SELECTORS, QLearner

LAKE = "FrozenLake-v1"


def corridor(n: int = 4, gamma: float = 0.9) -> TabularMDP:
    """Action 1 leads right, action 0 stays; from the last state on the right the episode ends, paying 1."""
    states = np.arange(n)
    next_state = np.stack([states, np.minimum(states + 1, n - 1)], axis=1)
    reward, terminated = np.zeros((n, 2)), np.zeros((n, 2), bool)
    reward[-1, 1], terminated[-1, 1] = 1.0, True
    return TabularMDP(next_state, reward, terminated=terminated, gamma=gamma, horizon=20)


LOOP = TabularMDP([[0]], [[1.0]], gamma=0.5)  # for ever in one state, paying 1


class Tied:
    """Settings of a learner with no more than it must have: it always takes action 0, and learns nothing."""

    def start(self, observations, actions, gamma, rng):
        return SimpleNamespace(act=left, learn=lambda *_: None)


def left(_) -> int:
    return 0


def asked(task=None, sources=(), **changes):
    """A call that is fine as it is, with changes."""
    fine = {"episodes": 5, "bounds": (0, 1), "rng": np.random.default_rng(0)}
    return transfer(corridor() if task is None else task, sources, **(fine | changes))


class Untouched(gym.Env):
    """An environment that must not be played."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)
    horizon = 5

    def reset(self, **_):
        raise AssertionError("an episode was begun")


# Refusals, before any work


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gamma": None}, "transfer: gamma is None, must be given for a Gymnasium environment"),
        ({"gamma": 1.5}, r"transfer: gamma is 1\.5, must be in 0 \.\. 1"),
        ({"horizon": 0}, "transfer: horizon is 0, must be a whole number, at least 1"),
        ({"sources": [[0]]}, r"transfer: sources\[0\] has shape \(1,\)"),
        ({"selector": "exp4"}, "selector is 'exp4'"),
        ({"bounds": "wide"}, r"bounds is 'wide', must be \(lower, upper\), 'running' or None"),
        ({"on_violation": None}, "on_violation is None"),
        ({"learner": QLearning}, "learner is <class .*QLearning'>, must be a QLearning"),
        ({"selector": "ppr", "share": True}, "share is True, must be False for policy reuse"),
        ({"selector": lambda n_sources: None}, r"selector cannot be called as selector\(n_sources, episodes, bounds="),
        (
            {"n_jobs": 2, "trials": 2},
            "n_jobs is 2, must be 1 for an environment that all trials share; pass its id or a",
        ),
    ],
)
def test_a_bad_call_for_an_environment_is_refused_before_it_is_touched(changes, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        asked(Untouched(), **({"gamma": 0.9} | changes))
    with pytest.raises(TaskError, match=r"reset raised AssertionError\(.an episode was begun"):
        asked(Untouched(), gamma=0.9)


@pytest.mark.parametrize("task", [3, None, "corridor", [[0]], lambda: 3])
def test_what_is_no_task_is_refused(task):
    fine = {"episodes": 5, "bounds": (0, 1), "gamma": 0.9, "rng": np.random.default_rng(0)}
    with pytest.raises((InvalidInputError, gym.error.NameNotFound), match=r"transfer: task is|doesn't exist"):
        transfer(task, [], **fine)


def test_an_environment_without_a_step_limit_needs_a_horizon():
    env = TabularMDP([[0]], [[0.0]], gamma=0.9).to_gymnasium()
    with pytest.raises(InvalidInputError, match=r"has no step limit and an episode may never end: pass horizon"):
        asked(env, gamma=0.9)
    assert asked(env, gamma=0.9, horizon=3).returns.shape == (1, 5)


@pytest.mark.parametrize(("env", "algorithm"), [("CartPole-v1", "DQN"), ("Pendulum-v1", "SAC")])
def test_q_learning_is_refused_for_observations_that_are_no_states_and_another_learner_named(env, algorithm):
    sentence = rf"learner is a QLearning, which needs Discrete .*, for Box .*such as SB3Learning\('{algorithm}'\)"
    with pytest.raises(InvalidInputError, match=sentence):
        asked(env, gamma=0.9, learner=QLearning(0.1))


def test_array_sources_are_refused_for_observations_that_are_no_states():
    with pytest.raises(InvalidInputError, match=r"sources\[0\] is a table, which needs Discrete observations"):
        asked("CartPole-v1", [[0, 1]], gamma=0.9, learner=Linear(0.1))


def test_sharing_needs_a_learner_whose_likelihoods_are_known():
    with pytest.raises(InvalidInputError, match=r"share=True needs the likelihood of the learner's actions"):
        asked("CartPole-v1", gamma=0.9, learner=Linear(0.1), share=True)


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("horizon", [1, 5])
def test_a_task_without_a_horizon_takes_the_one_it_is_given(horizon, functions):
    """A loop that pays 1 at gamma 1/2: 2 - 2^-(n - 1) in n steps, in either body. gamma may be told, if it is true."""
    sources = [left if functions else [0]]
    run = asked(LOOP, sources, horizon=horizon, gamma=0.5, bounds=(0, 2), episodes=20)
    assert (run.returns == 2 - 0.5 ** (horizon - 1)).all()
    own = TabularMDP(LOOP.next_state, LOOP.reward, gamma=0.5, horizon=horizon)
    for told in ({}, {"horizon": horizon}):
        same = asked(own, sources, bounds=(0, 2), episodes=20, **told)
        assert np.array_equal(run.returns, same.returns)
        assert np.array_equal(run.arms, same.arms)


def test_a_horizon_cuts_episodes_that_would_end_later():
    """Three steps of a corridor without a horizon, whose end is four steps away; four steps do reach it."""
    mdp = corridor()
    open_end = TabularMDP(mdp.next_state, mdp.reward, terminated=mdp.terminated, gamma=0.9)
    for horizon, value in ((3, 0.0), (4, 0.9**3), (50, 0.9**3)):
        run = asked(open_end, [[1] * 4], selector=UNIFORM, episodes=30, horizon=horizon)
        assert run.returns[run.arms == 0] == pytest.approx(value)


def test_a_selector_that_cannot_be_called_as_documented_is_refused_in_words_that_say_so():
    def wrong(n_sources, bounds, rng):
        raise AssertionError("called")

    def fails(n_sources, episodes, *, bounds, rng):
        return 1 + "1"

    for selector, why in ((wrong, "wrong"), (fails, "unsupported operand")):
        with pytest.raises(InvalidInputError, match=rf"selector cannot be called as selector\(n_sources.*: .*{why}"):
            asked(selector=selector)


# Tasks that may never end


def test_a_task_that_may_never_end_is_refused_unless_it_has_a_horizon():
    loop = TabularMDP([[1, 0], [1, 1]], np.zeros((2, 2)), terminated=[[False, True], [True, False]], gamma=0.9)
    assert endless_states(loop).tolist() == [True, True]
    with pytest.raises(
        InvalidInputError, match=r"no horizon and an episode may never end \(for example in state 0\): pass"
    ):
        asked(loop)
    capped = TabularMDP(loop.next_state, loop.reward, terminated=loop.terminated, gamma=0.9, horizon=3)
    assert asked(capped).returns.shape == (1, 5)


def test_it_is_refused_even_if_only_chance_leads_to_where_it_never_ends():
    """State 0 ends the episode with probability 0.9; the rest leads to a state that goes on for ever."""
    mdp = TabularMDP(
        [[[0, 1]], [[1, 1]]],
        np.zeros((2, 1, 2)),
        probability=[[[0.9, 0.1]], [[1.0, 0.0]]],
        terminated=[[[True, False]], [[False, True]]],
        gamma=0.9,
    )
    assert endless_states(mdp).tolist() == [False, True]
    with pytest.raises(InvalidInputError, match=r"may never end \(for example in state 1\): pass horizon"):
        asked(mdp)


def test_a_task_that_surely_ends_needs_no_horizon():
    forward = TabularMDP(
        [[1, 1], [1, 1]], [[0.0, 0.1], [0.2, 0.3]], terminated=[[False, True], [True, True]], gamma=0.9
    )
    run = asked(forward, [[0, 0]], episodes=40)
    assert set(run.returns[0].round(12)) <= {0.1, 0.18, 0.27}
    assert len(set(run.returns[0])) > 1
    circles = TabularMDP(
        np.zeros((1, 1, 2), int),
        [[[0.5, 0.0]]],
        probability=[[[0.1, 0.9]]],
        terminated=[[[True, False]]],
        gamma=0.5,
    )
    run = asked(circles, episodes=200, bounds=(0, 0.5))  # goes on for ten steps on average, for ever never
    assert len(set(run.returns[0])) > 5
    assert run.returns.min() > 0


def test_states_that_cannot_be_met_may_go_on_for_ever():
    mdp = TabularMDP([[0], [1]], [[1.0], [0.0]], terminated=[[True], [False]], gamma=0.9, start=0)
    assert endless_states(mdp).tolist() == [False, False]
    assert (asked(mdp).returns == 1).all()
    elsewhere = TabularMDP([[0], [1]], [[1.0], [0.0]], terminated=[[True], [False]], gamma=0.9, start=[0.5, 0.5])
    with pytest.raises(InvalidInputError, match="may never end"):
        asked(elsewhere)


# Any Gymnasium environment


class Linear:
    """Settings of a small learner for CartPole: a line through the observation, moved at random and kept if better.

    What ``transfer`` asks of such an object: ``start(observations, actions, gamma, rng)``, which gives one with
    ``act(observation)`` and ``learn(observation, action, reward, following, terminated)``; ``end_own_episode()`` and
    ``policy`` are optional.
    """

    def __init__(self, size: float) -> None:
        self.size = size

    def start(self, observations, actions, gamma, rng):
        assert isinstance(observations, gym.spaces.Box)
        assert actions == gym.spaces.Discrete(2)
        assert gamma == 0.99
        return RunningLinear(self.size, observations.shape[0], rng)


class RunningLinear:
    def __init__(self, size: float, n: int, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.best, self.tried, self.best_length, self.length = np.zeros(n), rng.normal(size=n), -1, 0
        self.own_episodes, self.steps = 0, 0

    def act(self, observation):
        return int(self.tried @ observation > 0)

    def learn(self, observation, action, reward, following, terminated):
        assert observation.shape == following.shape == (4,)
        assert action in (0, 1)
        assert isinstance(reward, float)
        self.length += 1
        self.steps += 1

    def end_own_episode(self):
        if self.length > self.best_length:
            self.best, self.best_length = self.tried, self.length
        self.tried, self.length = self.best + self.size * self.rng.normal(size=4), 0
        self.own_episodes += 1


def leaning(observation) -> int:
    """A fair CartPole policy: push to where the pole falls."""
    return int(observation[2] + observation[3] > 0)


@pytest.mark.parametrize("selector", sorted(set(SELECTORS) - {"ppr"}))
def test_it_runs_cart_pole_with_functions_and_a_learner_of_ones_own(selector):
    chosen = {"episodes": 30, "bounds": (0, 100), "gamma": 0.99, "trials": 2, "selector": selector}
    chosen |= some_experience(selector, 2, (0, 100))
    if "experience" in chosen or selector == "regret-balancing":  # of which every arm gets its share within 30 episodes
        chosen["selector"] = partial(SELECTORS[selector], preference=1.2)
    run = transfer("CartPole-v1", [leaning, left], rng=np.random.default_rng(0), learner=Linear(0.3), **chosen)
    again = transfer("CartPole-v1", [leaning, left], rng=np.random.default_rng(0), learner=Linear(0.3), **chosen)
    assert np.array_equal(run.returns, again.returns)
    assert np.array_equal(run.arms, again.arms)
    assert set(run.arms.ravel()) == {0, 1, 2}
    assert run.returns[run.arms == 0].mean() > 2 * run.returns[run.arms == 1].mean()
    for k, learner in enumerate(run.learners):
        assert learner.own_episodes == (run.arms[k] == 2).sum()
    assert callable(run.policy)
    assert run.policy(np.ones(4)) in (0, 1)
    assert run.recommended_policy is leaning
    assert "keep leaning" in repr(run)


def test_a_learner_of_ones_own_learns_from_every_episode_if_its_settings_say_so():
    counts = []
    for learn_from in ("own", "every"):
        settings = Linear(0.3)
        settings.learn_from = learn_from
        chosen = {"episodes": 20, "bounds": (0, 100), "gamma": 0.99, "selector": UNIFORM, "learner": settings}
        run = transfer("CartPole-v1", [left], rng=np.random.default_rng(0), **chosen)
        steps = np.round(np.log1p(-run.returns[0] * 0.01) / math.log(0.99)).astype(int)  # r = (1 - 0.99^n) / 0.01
        counts.append(run.learners[0].steps)
        assert counts[-1] == (steps.sum() if learn_from == "every" else steps[run.arms[0] == 1].sum())
    assert counts[0] < counts[1]


def test_a_learner_needs_no_more_than_act_and_learn():
    """As the docstring of ``transfer`` says."""
    run = asked("CartPole-v1", [leaning], gamma=0.9, bounds=(0, 10), learner=Tied(), selector=UNIFORM, episodes=20)
    assert run.returns.shape == (1, 20)
    assert (run.arms == 1).any()
    assert run.policy is left


@pytest.mark.parametrize("selector", ["ppr", partial(ProbabilisticPolicyReuse, psi=1.0, upsilon=1.0)])
def test_policy_reuse_refuses_a_learner_of_ones_own_before_any_work(selector):
    """It asks for greedy actions, ``learner.act(observation, 0.0)``, even where psi = upsilon = 1."""
    with pytest.raises(InvalidInputError, match=r"policy reuse acts greedily by its learner, which must be a QLearn"):
        asked(Untouched(), [left], gamma=0.99, selector=selector, learner=Tied())


@pytest.mark.parametrize("task", ["tabular", LAKE, "CartPole-v1"])
def test_a_learner_is_started_with_the_spaces_of_the_task_and_a_stream_of_its_own(task):
    heard = []

    def start(observations, actions, gamma, rng):
        heard.append((observations, actions, gamma, rng))
        return Tied().start(observations, actions, gamma, rng)

    task, more = (corridor(), {}) if task == "tabular" else (task, {"gamma": 0.9})
    env = task.to_gymnasium() if isinstance(task, TabularMDP) else gym.make(task)
    asked(task, [], trials=2, bounds=(0, 10), learner=SimpleNamespace(start=start), **more)
    for k, (observations, actions, gamma, rng) in enumerate(heard):
        assert (observations, actions, gamma) == (env.observation_space, env.action_space, 0.9)
        expected = np.random.default_rng(0).spawn(2)[k].spawn(3)[2]
        assert rng.bit_generator.state == expected.bit_generator.state
    assert len(heard) == 2


def test_random_sources_need_nothing_of_a_learner_of_ones_own():
    """They draw from the learner's stream, but a learner need not keep it as ``rng``."""

    class First(Turns):
        def ask(self) -> int:
            return 0

    chosen = {"sources": [np.full((4, 2), 0.5)], "selector": First, "episodes": 40}
    run, ours = (asked(learner=learner, **chosen) for learner in (Tied(), QLearning()))
    assert len(set(run.returns[0])) > 3  # it does draw
    assert np.array_equal(run.returns, ours.returns)  # and from the same stream, whoever learns
    mixed = asked(learner=Tied(), **(chosen | {"selector": UNIFORM}))
    assert set(mixed.arms[0]) == {0, 1}


def test_a_learner_of_ones_own_can_learn_a_tabular_task():
    class Wrapped:
        """Q-learning, handed over as a stranger."""

        learn_from = "own"

        def start(self, observations, actions, gamma, rng):
            return QLearning().start(observations, actions, gamma, rng)

    mdp = corridor()
    ours, theirs = (
        asked(mdp, [[1] * 4], episodes=30, rng=np.random.default_rng(1), learner=x) for x in (QLearning(), Wrapped())
    )
    assert np.array_equal(ours.returns, theirs.returns)
    assert np.array_equal(ours.learners[0].Q, theirs.learners[0].Q)


@pytest.mark.parametrize("selector", SELECTORS)
def test_it_runs_frozen_lake_by_id_just_as_the_table_behind_it(selector):
    """Gymnasium draws outcomes as we do, by one number each: the plain body over it equals the compiled one."""
    mdp = TabularMDP.from_gymnasium(LAKE, 0.95)
    sources = [solve(mdp).policy, np.zeros(16, int), np.full((16, 4), 0.25)]
    chosen = {"episodes": 60, "bounds": (0, 1), "trials": 2, "selector": selector, **some_experience(selector, 3)}
    played = transfer(LAKE, sources, gamma=0.95, rng=np.random.default_rng(0), **chosen)
    computed = transfer(mdp, sources, rng=np.random.default_rng(0), **chosen)
    assert np.array_equal(played.returns, computed.returns)
    assert np.array_equal(played.arms, computed.arms)
    assert played.returns.any()
    assert isinstance(played.learners[0], QLearner)
    assert np.array_equal(played.learners[0].Q, computed.learners[0].Q)


def test_a_function_that_makes_an_environment_serves_any_number_of_workers():
    chosen = {"episodes": 20, "bounds": (0, 1), "gamma": 0.95, "trials": 4, "selector": "exp3-transfer"}
    sources = [np.full((16, 4), 0.25), np.ones(16, int)]

    def make() -> gym.Env:
        return gym.make(LAKE, is_slippery=False)

    one, two = (transfer(make, sources, rng=np.random.default_rng(0), n_jobs=n, **chosen) for n in (1, 2))
    shared = transfer(make(), sources, rng=np.random.default_rng(0), **chosen)
    for other in (two, shared):
        assert np.array_equal(one.returns, other.returns)
        assert np.array_equal(one.arms, other.arms)
    assert len({row.tobytes() for row in one.arms}) == 4


def test_environments_that_it_made_are_closed_and_one_that_was_passed_stays_open():
    class Watched(gym.Wrapper):
        def __init__(self, env: gym.Env) -> None:
            super().__init__(env)
            self.times_closed = 0

        def close(self) -> None:
            self.times_closed += 1
            super().close()

    made: list[Watched] = []

    def make() -> gym.Env:
        made.append(Watched(gym.make(LAKE)))
        return made[-1]

    passed = make()
    asked(passed, gamma=0.9, trials=2)
    assert passed.times_closed == 0
    asked(make, gamma=0.9, trials=2)
    assert len(made) > 2
    assert [env.times_closed > 0 for env in made[1:]] == [True] * len(made[1:])


def test_an_environment_may_be_passed_with_any_number_of_workers_if_there_is_one_trial():
    run = asked(gym.make(LAKE), gamma=0.9, n_jobs=2, trials=1)
    assert run.returns.shape == (1, 5)


def test_a_selector_that_is_called_by_name_of_its_class_or_by_a_function_is_the_same():
    mdp = corridor()
    runs = [
        asked(mdp, [[1] * 4, [0] * 4], episodes=50, rng=np.random.default_rng(3), selector=selector)
        for selector in ("tsallis-inf", TsallisINF, lambda n, _, *, bounds, rng: TsallisINF(n, bounds=bounds, rng=rng))
    ]  # fmt: skip
    for other in runs[1:]:
        assert np.array_equal(runs[0].arms, other.arms)


@pytest.mark.parametrize(
    "selector",
    [
        partial(ProbabilisticPolicyReuse, psi=0.5),
        lambda n_sources, episodes, *, bounds, rng: TsallisINF(n_sources, bounds=bounds, rng=rng),
    ],
)
def test_clipping_calls_a_function_that_makes_selectors_as_documented(selector):
    """selector(n_sources, episodes, bounds=..., rng=...) and nothing more."""
    run, calm = (
        asked(corridor(), [[1] * 4], selector=selector, on_violation=on_violation) for on_violation in ("clip", "raise")
    )
    assert run.clipped.tolist() == [0]
    assert np.array_equal(run.returns, calm.returns)
    assert np.array_equal(run.arms, calm.arms)


@pytest.mark.parametrize("functions", [False, True])
def test_clipping_moves_returns_onto_the_bounds_for_a_function_that_makes_our_selectors(functions):
    """The same run as with ``clip=True`` of the selector itself; 0.9^3 is 0.729, and the bounds end at 0.5."""
    sources = [left if functions else [0] * 4, (lambda s: 1) if functions else [1] * 4]
    chosen = {"episodes": 60, "bounds": (0.1, 0.5)}
    run = asked(
        corridor(),
        sources,
        selector=partial(TsallisINF, estimator="importance-weighted"),
        on_violation="clip",
        **chosen,
    )
    own = asked(corridor(), sources, selector=partial(TsallisINF, estimator="importance-weighted", clip=True), **chosen)
    outside = (run.returns < 0.1) | (run.returns > 0.5)
    assert len(set(run.returns[outside])) > 1
    for name in ("returns", "arms", "clipped"):
        assert np.array_equal(getattr(run, name), getattr(own, name))
    assert run.clipped.tolist() == [outside.sum()]
    assert run.selectors[0].mean_returns == pytest.approx(own.selectors[0].mean_returns, abs=0, nan_ok=True)


class Turns:
    """A selector of one's own: every arm in turn. It remembers how it was made and what it was told."""

    def __init__(self, n_sources: int, episodes: int, *, bounds, rng: np.random.Generator) -> None:
        self.n_sources, self.episodes, self.bounds, self.rng, self.told = n_sources, episodes, bounds, rng, []

    def ask(self) -> int:
        return len(self.told) % (self.n_sources + 1)

    def tell(self, arm: int, episode_return: float) -> None:
        self.told.append((arm, episode_return))


def test_a_selector_of_ones_own_is_made_as_documented_and_told_what_happened():
    run = asked(sources=[[1] * 4, [0] * 4], selector=Turns, episodes=7, trials=2)
    for k, selector in enumerate(run.selectors):
        assert (selector.n_sources, selector.episodes, tuple(selector.bounds)) == (2, 7, (0.0, 1.0))
        assert isinstance(selector.rng, np.random.Generator)
        assert run.arms[k].tolist() == [0, 1, 2, 0, 1, 2, 0]
        assert selector.told == list(zip(run.arms[k].tolist(), run.returns[k].tolist(), strict=True))
    assert run.eliminated_at.tolist() == [[-1, -1]] * 2
    assert asked(selector=Turns, bounds=None).selectors[0].bounds == return_bounds(corridor())


def test_a_selector_of_ones_own_is_told_returns_within_the_bounds_where_they_are_clipped():
    """Source 0 earns 0.9^3 = 0.729, source 1 nothing. The run still tells what happened."""
    run = asked(sources=[[1] * 4, [0] * 4], selector=Turns, episodes=40, bounds=(0.1, 0.5), on_violation="clip")
    for arm, told in run.selectors[0].told:
        assert 0.1 <= told <= 0.5
        assert arm == 2 or told == (0.5, 0.1)[arm]
    assert run.returns[run.arms == 0] == pytest.approx(0.9**3)
    assert run.clipped.tolist() == [((run.returns < 0.1) | (run.returns > 0.5)).sum()]
    within = asked(sources=[[1] * 4, [0] * 4], selector=Turns, episodes=40, bounds=(0, 0.73), on_violation="clip")
    assert within.clipped.tolist() == [0]


def test_a_selector_of_ones_own_is_held_to_the_declared_bounds():
    options = {"sources": [[1] * 4, [0] * 4], "selector": Turns, "episodes": 40, "bounds": (0.0, 0.5)}
    with pytest.raises(InvalidInputError, match=r"episode 0 is 0.729, must be within the declared bounds 0 .. 0.5"):
        asked(**options)
    run = asked(**options, on_violation="widen")
    assert run.widened.tolist() == [1]
    assert tuple(run.selectors[0].bounds) == (0.0, 1.0)
    assert run.selectors[0].episodes == 39


@pytest.mark.parametrize("on_violation", ["raise", "widen", "clip"])
@pytest.mark.parametrize("bounds", [(0, 1), None])
def test_a_selector_of_ones_own_is_never_told_a_return_that_is_no_number(on_violation, bounds):
    class Broken(gym.Env):
        observation_space, action_space, horizon = gym.spaces.Discrete(1), gym.spaces.Discrete(1), 1

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, math.nan, True, False, {}

    with pytest.raises(InvalidInputError, match="the return of episode 0 is nan, must be a finite number"):
        asked(Broken(), gamma=0.9, selector=Turns, bounds=bounds, on_violation=on_violation)


def test_a_selector_that_asks_in_its_own_way_is_asked_whatever_the_task():
    class First(Exp3Transfer):
        def ask(self):
            while (episode := super().ask()).arm != 0:
                self.cancel(episode)
            return episode

    run = asked(sources=[[1] * 4, [0] * 4], selector=First, episodes=20)
    assert (run.arms == 0).all()


def test_a_selector_with_an_open_episode_keeps_it_open():
    def begun(n_sources, episodes, *, bounds, rng):
        selector = Exp3Transfer(n_sources, episodes, bounds=bounds, rng=np.random.default_rng(3))
        selector.ask()
        return selector

    by_table = asked(sources=[[1] * 4, [0] * 4], selector=begun, episodes=20)
    task = corridor()
    by_steps = asked(task.to_gymnasium(), gamma=task.gamma, sources=[[1] * 4, [0] * 4], selector=begun, episodes=20)
    assert (by_table.arms == by_steps.arms).all()
    assert [len(run.selectors[0].open) for run in (by_table, by_steps)] == [1, 1]


def test_a_selector_that_keeps_to_bounds_of_its_own_cannot_be_widened():
    def narrow(n_sources, episodes, *, bounds, rng):
        return Exp3Transfer(n_sources, episodes, bounds=(0.0, 0.1), rng=rng)

    with pytest.raises(InvalidInputError, match=r"selector keeps to \(0.0, 0.1\), must take the bounds it is given"):
        asked(sources=[[1] * 4], selector=narrow, on_violation="widen", episodes=50)


def test_a_policy_that_does_not_learn_may_stand_in_the_learners_place():
    right = [1] * 4
    run = asked(sources=[[0] * 4], learner=FixedPolicy(right), episodes=30)
    assert run.returns[run.arms == 1] == pytest.approx(0.9**3)
    assert run.policy.tolist() == right
    same = asked(sources=[[0] * 4], learner=FixedPolicy(lambda state: right[state]), episodes=30)
    assert (same.returns == run.returns).all()


# What comes out


def test_without_sources_it_is_q_learning_alone_whatever_the_selector():
    mdp = corridor()
    runs = [
        asked(
            mdp,
            [],
            episodes=200,
            trials=2,
            rng=np.random.default_rng(2),
            selector=selector,
            learner=QLearning(),
            **some_experience(selector, 0),
        )
        for selector in SELECTORS
        if selector != "ppr"  # plays greedily
    ]
    for run in runs:
        assert (run.arms == 0).all()
        assert run.eliminated_at.shape == (2, 0)
        assert np.array_equal(run.returns, runs[0].returns)
        assert run.recommended.tolist() == [0, 0]
        assert evaluate(mdp, run.policy)[0] == pytest.approx(0.9**3)
    learner = QLearner(QLearning(), 4, 2, 0.9, None)  # and it is the learner's own loop, by hand
    learner.rng = np.random.default_rng(2).spawn(2)[0].spawn(3)[2]
    for episode in range(200):
        s, steps, over = 0, 0, False
        while not over and steps < 20:
            a = learner.act(s)
            over = bool(mdp.terminated[s, a])
            learner.learn(s, a, float(mdp.reward[s, a]), int(mdp.next_state[s, a]), over)
            s, steps = int(mdp.next_state[s, a]), steps + 1
        learner.end_own_episode()
        assert runs[0].returns[0, episode] == pytest.approx(0.9 ** (steps - 1) if over else 0.0)
    assert np.array_equal(learner.Q, runs[0].learners[0].Q)


@pytest.mark.parametrize("horizon", [3, 20])
def test_the_return_of_a_source_in_a_deterministic_task_is_its_value(rng, horizon):
    mdp = reference.random_mdp(rng, 8, 3, None, horizon=horizon, ending=0.1)
    mdp = TabularMDP(mdp.next_state, mdp.reward, terminated=mdp.terminated, gamma=0.9, horizon=horizon, start=2)
    sources = [reference.random_policy(rng, mdp) for _ in range(4)]
    for share in (False, True):
        run = asked(mdp, sources, episodes=300, bounds=return_bounds(mdp), selector=UNIFORM, share=share)
        for arm, policy in enumerate(sources):
            returns = run.returns[run.arms == arm]
            assert len(returns) > 20
            assert (returns == returns[0]).all()
            assert returns[0] == pytest.approx(evaluate(mdp, policy)[2], abs=1e-12)


def test_the_mean_return_of_a_source_in_a_stochastic_task_is_its_value(rng, seed):
    """Hoeffding: P(|mean - V| >= e) <= 2 exp(-2 n e^2 / span^2), the level shared by three sources."""
    mdp = reference.random_mdp(rng, horizon=15, ending=0.1)
    sources = [reference.random_policy(rng, mdp, mixed=i > 0) for i in range(3)]
    bounds = return_bounds(mdp)
    chosen = {"episodes": 80_000, "bounds": bounds, "selector": UNIFORM}
    run = transfer(mdp, sources, rng=np.random.default_rng(seed), **chosen)
    values = [float(reference.start_distribution(mdp) @ evaluate(mdp, policy)) for policy in sources]
    for arm, value in enumerate(values):
        returns = run.returns[run.arms == arm]
        allowed = bounds.span * math.sqrt(math.log(6 / LEVEL) / (2 * len(returns)))
        assert abs(returns.mean() - value) < allowed
        assert np.std(returns) > 0
    assert max(values) - min(values) > allowed  # the test tells the sources apart


def test_the_recommended_combination_is_the_default():
    mdp = corridor(6)
    sources = [np.ones(6, int), np.zeros(6, int)]
    chosen = {"episodes": 400, "bounds": (0, 1), "trials": 2, "rng": 0}
    run, named = transfer(mdp, sources, **chosen), transfer(mdp, sources, **chosen, **pastmaster.RECOMMENDED)
    assert np.array_equal(run.returns, named.returns)
    assert np.array_equal(run.learners[0].Q, named.learners[0].Q)
    assert run.selectors[0].name == pastmaster.RECOMMENDED["selector"] == "regret-balancing"
    assert run.recommended_policy.tolist() == [1] * 6
    assert run.returns[:, 200:].mean() > 0.9 * 0.9**5  # the value of the good source, nearly


@pytest.mark.parametrize("selector", sorted(set(SELECTORS) - {"ppr"}))
def test_a_perfect_source_among_useless_ones_is_found(selector):
    mdp = corridor(12)
    sources = [np.zeros(12, int)] * 3 + [np.ones(12, int)]
    known = some_experience(selector, 4, return_bounds(mdp))
    run = asked(mdp, sources, episodes=5000, selector=selector, bounds=return_bounds(mdp), trials=2, **known)
    assert run.returns[:, -1000:].mean() > 0.7 * 0.9**11


def test_sources_may_be_any_iterable_of_policies():
    sources = [[1] * 4, [[0.5, 0.5]] * 4]
    expected = asked(sources=sources).returns
    for same in (tuple(sources), (np.array(source) for source in sources)):
        assert np.array_equal(asked(sources=same).returns, expected)
    assert np.array_equal(asked(sources=np.ones((2, 4), int)).returns, asked(sources=[[1] * 4] * 2).returns)


def test_the_callers_arrays_are_neither_changed_nor_kept(rng):
    source = np.ones(4, int)
    run = asked(sources=[source], selector=UNIFORM, episodes=20)
    source[:] = 0
    assert run.sources[0].tolist() == [1] * 4


# Progress


@pytest.mark.parametrize("task", ["tabular", LAKE])
@pytest.mark.parametrize("trials", [1, 3])
def test_a_progress_bar_changes_nothing_and_needs_no_terminal(task, trials, capsys):
    chosen = {"episodes": 30, "trials": trials}
    task, more = (corridor(), {}) if task == "tabular" else (task, {"gamma": 0.9})
    with_bar, without = (asked(task, progress=progress, **more, **chosen) for progress in (True, False))
    assert np.array_equal(with_bar.returns, without.returns)
    assert "Traceback" not in capsys.readouterr().err


def test_a_progress_bar_survives_restarts():
    env = TabularMDP([[0]], [[5.0]], terminated=[[True]], gamma=0.9).to_gymnasium()
    run = asked(env, gamma=0.9, horizon=1, on_violation="widen", progress=True)
    assert run.widened.tolist() == [1]
    assert (run.returns == 5).all()
