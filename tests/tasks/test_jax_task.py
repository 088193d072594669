"""Tasks that are JAX programs: made, checked, told apart; and everything else without JAX."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import NamedTuple

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from pastmaster import GymTask, JaxTask
from pastmaster.errors import InvalidInputError, TaskError
from pastmaster.tasks import JaxEnv
from pastmaster.testing import check_task

jax = pytest.importorskip("jax")
jnp = jax.numpy

POLE = "pastmaster/JaxCartPole-v0"


class Params(NamedTuple):
    speed: float = 1.0
    max_steps_in_episode: int = 7


class Line:
    """A point that moves on a line."""

    default_params = Params()

    def reset(self, key, params):
        x = jax.random.uniform(key, (1,))
        return x, x

    def step(self, key, state, action, params):
        x = state + params.speed * (action - 1)
        return x, x, x[0], jnp.abs(x[0]) > 5, {}

    def observation_space(self, params):
        return gym.spaces.Box(-np.inf, np.inf, (1,))

    def action_space(self, params):
        return gym.spaces.Discrete(3)


def test_a_task_is_called_by_what_differs():
    assert repr(JaxTask(Line())) == "JaxTask('Line', gamma=0.99, horizon=7)"
    assert JaxTask(Line(), {"speed": 0.7}).name == "Line(speed=0.7)"
    assert JaxTask(Line(), Params(2.0, 9)).name == "Line(speed=2.0, max_steps_in_episode=9)"
    assert JaxTask(Line(), Params(2.0, 9)).horizon == 9
    assert JaxTask(Line(), name="mine", horizon=3).name == "mine"
    assert JaxTask(POLE, {"length": 0.7}).name == f"{POLE}(length=0.7)"


def test_names_are_those_of_numbers_as_they_are_computed_with():
    """Objects had 6 digits, so that two tasks could have one name, and ids 16."""
    first, then = (JaxTask(Line(), {"speed": speed}).name for speed in (0.12345671, 0.12345673))
    assert (first, then) == ("Line(speed=0.12345671)", "Line(speed=0.12345673)")
    assert JaxTask(POLE, {"length": 0.5488135039273248}).name == f"{POLE}(length=0.5488135)"
    assert JaxTask(POLE, {"length": 0.5488135039273248}).kwargs == {"length": 0.5488135039273248}


def test_parameters_are_of_one_type():
    """A whole number beside real ones, or where the environment's own is real, is real."""

    class Bare(Line):
        default_params = None

    families = (JaxTask.variants(Line(), [{"speed": 1}, {"speed": 1.5}]), [JaxTask(Line(), Params(1, 7))])
    assert {task.program[1].speed.dtype for some in families for task in some} == {np.dtype(np.float32)}
    assert families[0][0].program[1].max_steps_in_episode.dtype == np.int32
    bare = JaxTask.variants(Bare(), [Params(1), Params(1.5)])
    assert {task.program[1].speed.dtype for task in bare} == {np.dtype(np.float32)}
    assert JaxTask(POLE, {"length": 1}).program[1].length.dtype == np.float32


def test_a_change_of_a_setting_makes_another_program():
    """Of any setting: a dict, an array, an object in a list, a function."""
    from pastmaster.estimation import EpisodeRange, episode_returns
    from pastmaster.policies import FunctionPolicy, NetworkPolicy

    class Settings:
        def __init__(self, number):
            self.number = number

    class Set(Line):
        def __init__(self):
            self.table, self.array, self.several, self.own = {"pay": 1.0}, np.ones(2), [Settings(1.0)], self
            self.function = lambda x: x

        def step(self, key, state, action, params):
            observation, state, _, over, info = super().step(key, state, action, params)
            pay = self.function(self.table["pay"] * self.array[1] * self.several[0].number)
            return observation, state, jnp.float32(pay), over & False, info

    def change_function(env):
        env.function = lambda x: 16 * x

    env, policy = Set(), NetworkPolicy([([[0.0], [1.0], [0.0]], [0.0, 0.0, 0.0])])
    other, task = Set(), JaxTask(env, horizon=1, gamma=1.0)

    def paid(task):
        policies = [policy, FunctionPolicy(policy.act, batched=True)]
        found = episode_returns(task, policies, [EpisodeRange(j, 0, 1) for j in range(2)], seed=0)
        assert found[0] == found[1]
        return float(found[0][0])

    assert paid(task) == 1.0
    env.several[0].number = 2.0
    assert paid(task) == 2.0
    change_function(env)
    env.table["pay"], env.array[1] = 2.0, 2.0
    expected = 128.0
    assert paid(task) == expected
    assert paid(JaxTask(env, {"speed": 2.0}, horizon=1, gamma=1.0)) == expected
    assert paid(JaxTask(other, horizon=1, gamma=1.0)) == 1.0


def test_a_family_is_a_list_or_stacked_parameters():
    env = Line()
    stacked = JaxTask.variants(env, Params(np.array([1.0, 2.0]), np.array([3, 4])), gamma=0.5)
    listed = JaxTask.variants(env, [Params(1.0, 3), Params(2.0, 4)], gamma=0.5)
    named = JaxTask.variants(env, {"speed": [1.0, 2.0]}, gamma=0.5, horizon=3, names=["slow", "fast"])
    assert [task.name for task in stacked] == [task.name for task in listed]
    assert [(task.name, task.horizon) for task in named] == [("slow", 3), ("fast", 3)]
    assert [task.horizon for task in stacked] == [3, 4]
    assert stacked[0].program[0] == listed[1].program[0]


@pytest.mark.parametrize("task", [JaxTask(Line(), {"speed": 0.3}), JaxTask(POLE, {"length": 0.4}, horizon=30)])
def test_a_task_keeps_the_contract(task):
    check_task(task)
    copied = pickle.loads(cloudpickle.dumps(task))
    assert (copied.name, copied.gamma, copied.horizon) == (task.name, task.gamma, task.horizon)
    assert isinstance(copied, JaxTask)


def changed(**methods):
    return type("Changed", (Line,), methods)()


def step_with(change):
    def step(self, key, state, action, params):
        return change(Line.step(self, key, state, action, params))

    return {"step": step}


ONE = r"\[1\], must be float32\[1\] as from reset"
WRONG = {
    "a longer observation": (step_with(lambda o: (jnp.zeros(2), *o[1:])), r"step returns an observation float32\[2\]"),
    "another state": (step_with(lambda o: (o[0], jnp.zeros(3), *o[2:])), r"step returns state float32\[3\], must be"),
    "a state of integers": (step_with(lambda o: (o[0], o[1].astype(int), *o[2:])), f"step returns state int32{ONE}"),
    "a state of two": (
        step_with(lambda o: (o[0], (o[1], o[1]), *o[2:])),
        "step returns state is missing, must be float32",
    ),
    "rewards of two": (
        step_with(lambda o: (*o[:2], o[0] * jnp.zeros(2), *o[3:])),
        r"step returns the reward float32\[2\], must be one",
    ),
    "a number as end": (step_with(lambda o: (*o[:3], o[2], {})), r"step returns the end float32\[\], must be one bool"),
    "four results": (step_with(lambda o: o[:4]), "step raised"),
    "an error": (step_with(lambda o: o[0] @ jnp.zeros((3, 3))), "step raised"),
    "no space": (
        {"action_space": None},
        r"its action_space is None, must be a Discrete or a Box, of Gymnasium or of gymnax: set it, or define act",
    ),
    "another space": (
        {"observation_space": lambda self, params: gym.spaces.Box(0, 1, (2,))},
        r"reset returns an observation float32\[1\], must be of its space, float32\[2\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_shapes_are_told_when_the_task_is_made(wrong):
    methods, told = WRONG[wrong]
    with pytest.raises(InvalidInputError, match=f"^JaxTask: Changed: {told}"):
        JaxTask(changed(**methods))
    with pytest.raises(InvalidInputError, match=f"^JaxTask.variants: Changed: {told}"):
        JaxTask.variants(changed(**methods), [Params()])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((3,), "env is 3, must be an object with the methods reset"),
        ((Line,), "env is .*, must be an object with the methods reset"),
        ((Line(), {"sped": 1.0}), "params has 'sped', must be of Line's own: speed, max_steps_in_episode"),
        ((Line(), {"speed": "fast"}), "speed is 'fast', must be numbers"),
        ((Line(), {"speed": float("nan")}), "speed is nan, must be numbers"),
        (
            (Line(), {"max_steps_in_episode": 2**31}),
            r"is 2147483648, must be in -2147483648 .. 2147483647: JAX takes it",
        ),
        ((Line(), {"speed": 1e39}), r"speed is 1e\+39, must be in -3.403e\+38 .. 3.403e\+38: JAX takes it as float32"),
        ((POLE, {"length": 1e39}), r"length is 1e\+39, must be in"),
        (("CartPole-v1",), "must be the id of an environment that is a pastmaster.tasks.JaxEnv"),
        ((POLE, [1.0]), "params is .*, must be a dict of parameters by name for an id"),
        ((POLE, {"width": 1.0}), "width is no parameter"),
    ],
)
def test_wrong_arguments_are_told(arguments, told):
    with pytest.raises(InvalidInputError, match=f"^JaxTask: .*{told}"):
        JaxTask(*arguments)


def test_wrong_families_are_told():
    with pytest.raises(
        InvalidInputError, match=r"^JaxTask.variants: params is .*, must be a list of parameters, or arrays"
    ):
        JaxTask.variants(Line(), {"speed": [1.0, 2.0], "max_steps_in_episode": [3]})
    with pytest.raises(InvalidInputError, match=r"^JaxTask.variants: names has 1 entries, must have 2, one a task"):
        JaxTask.variants(Line(), {"speed": [1.0, 2.0]}, names=["a"])
    with pytest.raises(InvalidInputError, match=r"^JaxTask.variants: gamma is 3"):
        JaxTask.variants(Line(), {"speed": [1.0, 2.0]}, gamma=3)


def test_six_results_of_a_step_are_taken_apart():
    class Cut(Line):
        def step(self, key, state, action, params):
            *outcome, over, info = super().step(key, state, action, params)
            return *outcome, over, state[0] > 0.5, info

    env = JaxEnv(Cut())
    ends = set()
    for seed in range(20):
        env.reset(seed=seed)
        ends.add(env.step(1)[2:4])
    assert ends == {(False, False), (False, True)}


def test_an_environment_of_an_object_is_used_but_not_stored():
    with pytest.raises(
        InvalidInputError, match="JaxTask: env is 'Line', an object, must be an id to be stored: gymnasium"
    ):
        _ = JaxTask(Line()).identity
    assert JaxTask(POLE, {"length": 0.4}).identity == {"env_id": POLE, "kwargs": {"length": 0.4}}
    assert JaxTask(POLE, {"length": 0.4}).fingerprint == GymTask(POLE, {"length": 0.4}).fingerprint


def test_a_function_as_policy_tells_a_bad_reward_too():
    class Broken(Line):
        def step(self, key, state, action, params):
            *outcome, over, info = super().step(key, state, action, params)
            return outcome[0], outcome[1], jnp.nan * outcome[2], over, info

    env = JaxTask(Broken(), name="broken")()
    env.reset(seed=0)
    with pytest.raises(TaskError, match="broken: step returned the reward nan, must be a finite number"):
        env.step(1)


def test_gymnax_environments_are_tasks():
    gymnax = pytest.importorskip("gymnax")
    from pastmaster.estimation import EpisodeRange, episode_returns
    from pastmaster.policies import FunctionPolicy, NetworkPolicy

    env, params = gymnax.make("CartPole-v1")
    task = JaxTask(env, params, gamma=0.99)
    assert task.horizon == 500
    check_task(task)
    policies = [NetworkPolicy([([[-0.1, -0.2, -1, -1], [0.1, 0.2, 1, 1]], [0.0, 0.0])])]
    ours = episode_returns(task, policies, [EpisodeRange(0, 0, 3)], seed=1)
    functions = [FunctionPolicy(policies[0].act, batched=True)]
    np.testing.assert_allclose(ours, episode_returns(task, functions, [EpisodeRange(0, 0, 3)], seed=1), rtol=1e-9)


def test_everything_else_works_without_jax():
    script = (
        "import sys; sys.modules['jax'] = None\n"
        "import pastmaster, numpy as np\n"
        "from pastmaster.domains import cart_pole\n"
        "from pastmaster.policies import NetworkPolicy\n"
        "tasks = cart_pole.family(2, rng=0, horizon=20)\n"
        "policies = [NetworkPolicy([(np.eye(2, 4), np.zeros(2))])]\n"
        "print(pastmaster.estimate_cross_values(tasks, policies, budget=8, rng=0, paired=False).mean.shape)\n"
        "for made in (lambda: pastmaster.JaxTask(object()), lambda: pastmaster.JaxTask('pastmaster/JaxCartPole-v0')):\n"
        "    try:\n        made()\n    except pastmaster.InvalidInputError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    shape, *errors = done.stdout.splitlines()
    assert shape == "(2, 1)"
    assert len(errors) == 2
    assert all("needs JAX, which is not installed: pip install pastmaster[jax]" in error for error in errors)
