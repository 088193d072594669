"""Names, returns and code that a person brings: nothing is lost in silence, and each error says where it comes from."""

from __future__ import annotations

import math
import re

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import (
    FixedPolicy,
    GymTask,
    InvalidInputError,
    SB3Learning,
    TabularMDP,
    TaskError,
    return_bounds,
    transfer,
)

TASK = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
TABLE = TabularMDP([[0, 1], [1, 0]], [[0.0, 1.0], [0.5, 0.0]], gamma=0.9, horizon=5)


class Named:
    """A policy with a name of its own."""

    def __init__(self, name, action=0):
        self.name, self.action = name, action

    def act(self, observations):
        return np.full(len(observations), self.action)


def played(sources, task=TASK, **changes):
    return transfer(task, sources, **({"episodes": 6, "rng": 0} | changes))


def refused(call, kind=InvalidInputError):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        ({1: [0], "1": [1]}, ["1 (0)", "1 (1)"]),
        ({"a": [0], "a (1)": [1], 2: [0], "2": [1]}, ["a", "a (1)", "2 (2)", "2 (3)"]),
        ([Named("a"), Named("a"), Named("a (0)")], ["a (0) (0)", "a (1)", "a (0) (2)"]),
        ([Named("source 1"), [0]], ["source 1 (0)", "source 1 (1)"]),
        ({"learner": [0]}, ["learner (0)"]),
        ([Named("learner"), Named("learner (0)")], ["learner (0) (0)", "learner (0) (1)"]),
        ({"": [0], "b": [1]}, ["source 0", "b"]),
    ],
)
def test_no_source_is_lost_and_no_two_arms_have_one_name(sources, names):
    run = played(sources)
    assert run.arm_names == [*names, "learner"]
    assert run.n_sources == len(run.sources) == len(sources)
    assert len(set(run.arm_names)) == len(run.arm_names)


def test_sources_with_keys_that_print_alike_keep_their_order():
    run = played({1: [0], "1": [1]}, learner=FixedPolicy([0]), episodes=60)
    assert [source.tolist() for source in run.sources] == [[0], [1]]
    assert set(run.returns[run.arms == 1]) == {1.0}


# Returns that are no numbers


class Paying(gym.Env):
    """Five steps of one reward; or, at the third, what ``at_three`` raises."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

    def __init__(self, reward=1.0, at_three=None):
        self.reward, self.at_three = reward, at_three

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        if self.steps == 3 and self.at_three is not None:
            raise self.at_three
        return 1, self.reward, False, self.steps == 5, {}


def in_environment(make, sources=(), **changes):
    return played(list(sources), make, **({"gamma": 0.9, "horizon": 5} | changes))


@pytest.mark.parametrize("reward", [math.nan, math.inf, 1e308])
@pytest.mark.parametrize("bounds", [None, "running", (0, 1)])
@pytest.mark.parametrize("sources", [[], [[0, 0]]])
def test_a_return_that_is_no_number_is_named_whoever_ran_the_episode(reward, bounds, sources):
    wrong = refused(lambda: in_environment(lambda: Paying(reward), sources, bounds=bounds))
    shown = "nan" if math.isnan(reward) else "inf"
    assert wrong == f"transfer: the return of episode 0 is {shown}, must be a finite number"


# Bounds of the task


def test_the_bounds_of_a_task_are_those_of_the_horizon_it_is_given():
    arrays = ([[0, 1], [2, 2], [2, 2]], [[1.0, 1.0], [-5.0, -5.0], [1.0, 1.0]])
    free, capped = (TabularMDP(*arrays, gamma=0.9, horizon=horizon) for horizon in (None, 3))
    run = played([], free, horizon=3)
    assert run.bounds == [return_bounds(capped)]
    assert run.bounds[0].upper == pytest.approx(1 + 0.9 + 0.81)
    assert np.array_equal(run.returns, played([], capped).returns)


def test_an_environment_by_its_id_has_the_bounds_of_its_task():
    run = played([], "FrozenLake-v1", gamma=0.9, horizon=20)
    assert run.bounds == [return_bounds(GymTask("FrozenLake-v1", gamma=0.9, horizon=20))]
    assert run.bounds_from == "task"
    assert played([], "CartPole-v1", gamma=0.9, learner=FixedPolicy(lambda x: 0)).bounds_from == "running"


# Other people's code


@pytest.mark.parametrize("task", [TABLE, "FrozenLake-v1", GymTask("FrozenLake-v1"), Paying])
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda state: 1 / 0, "raised ZeroDivisionError('division by zero') on the observation"),
        (lambda state, more: 0, "raised TypeError("),
        (lambda state: [][state], "raised IndexError("),
    ],
)
def test_an_error_of_a_source_names_the_source(task, source, words):
    chosen = {"learner": FixedPolicy(lambda state: 0), "episodes": 40}
    chosen |= {} if isinstance(task, TabularMDP | GymTask) else {"gamma": 0.9, "horizon": 5}
    with pytest.raises(InvalidInputError) as caught:
        played([lambda state: 0, source], task, **chosen)
    assert str(caught.value).startswith(f"transfer: sources[1] {words}")
    assert not isinstance(caught.value.__cause__, InvalidInputError | None)


@pytest.mark.parametrize("action", [7, -1, None, 0.5, "left"])
@pytest.mark.parametrize("task", [TABLE, "CartPole-v1", GymTask("CartPole-v1"), lambda: gym.make("CartPole-v1")])
def test_an_action_outside_the_space_names_the_source_and_the_action(task, action):
    chosen = {"learner": FixedPolicy(lambda state: 0), "episodes": 40}
    chosen |= {} if isinstance(task, TabularMDP | GymTask) else {"gamma": 0.9}
    wrong = refused(lambda: played([lambda state: 0, lambda state: action], task, **chosen))
    assert wrong.startswith(f"transfer: sources[1] gives the action {action!r}, must be of Discrete(")
    wrong = refused(lambda: played([], task, **(chosen | {"learner": FixedPolicy(lambda state: action)})))
    assert wrong.startswith(f"transfer: learner gives the action {action!r}, must be of Discrete(")


def test_an_error_of_a_fixed_policy_names_it():
    wrong = refused(lambda: played([], learner=FixedPolicy(lambda state: 1 / 0)))
    assert wrong.startswith("transfer: learner.policy raised ZeroDivisionError")


def test_an_error_of_an_environment_names_the_environment():
    problem = ZeroDivisionError("in there")
    with pytest.raises(TaskError, match=r"^<Paying instance>: step raised ZeroDivisionError\('in there'\)") as caught:
        in_environment(Paying(at_three=problem))
    assert caught.value.__cause__ is problem
    with pytest.raises(TaskError, match=r"step raised TypeError"):
        in_environment(lambda: Paying(None))


# Learners and selectors


class Free(Paying):
    """Actions without limits."""

    action_space = gym.spaces.Box(-np.inf, np.inf, (1,))


class Half(Paying):
    """Actions with one limit."""

    action_space = gym.spaces.Box(0, np.inf, (2,))


class Blind(Paying):
    """Observations of no numbers."""

    observation_space = gym.spaces.Box(0, 1, (0,))


@pytest.mark.parametrize(
    ("make", "words"),
    [(Free, "actions without finite limits"), (Half, "actions without finite limits"), (Blind, "observations of no")],
)
def test_a_task_in_which_no_learner_of_ours_learns_asks_for_one(make, words):
    wrong = refused(lambda: in_environment(make))
    assert wrong.startswith(f"transfer: learner is None, must be given for this task: no learner here takes {words}")
    assert wrong.endswith("pass a learner of your own, or FixedPolicy(policy)")
    pytest.importorskip("stable_baselines3")
    wrong = refused(lambda: in_environment(make, learner=SB3Learning("SAC")))
    assert wrong.startswith("transfer: learner.algorithm is 'SAC', must be another learner: no learner here takes")


def test_settings_that_an_algorithm_does_not_take_are_those_of_the_learner():
    pytest.importorskip("stable_baselines3")
    wrong = refused(lambda: played([], "CartPole-v1", gamma=0.9, learner=SB3Learning("DQN", wings=2)))
    assert re.match(r"transfer: learner\.settings are .*'wings': 2.*, must be settings that DQN takes: .*wings", wrong)
