"""Brax environments as tasks: a small one of Brax's form always, Brax itself where it is installed."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from pastmaster import JaxTask, estimate_cross_values
from pastmaster.errors import InvalidInputError
from pastmaster.tasks import BraxEnv, JaxEnv

jax = pytest.importorskip("jax")
jnp = jax.numpy


class Link(NamedTuple):
    mass: Any
    parent: Any


class System(NamedTuple):
    gravity: Any
    link: Link


class State(NamedTuple):
    x: Any
    obs: Any
    reward: Any
    done: Any


class Fall:
    """Something that falls, and may push itself up."""

    observation_size, action_size = 2, 1

    def __init__(self):
        self.sys = System(jnp.array([0.0, -0.1]), Link(jnp.array([2.0]), jnp.array([0])))

    @property
    def unwrapped(self):
        return self

    def reset(self, key):
        x = jnp.concatenate([jax.random.uniform(key, (1,)), jnp.zeros(1)])
        return State(x, x, jnp.float32(0.0), jnp.float32(0.0))

    def step(self, state, action):
        speed = state.x[1] + self.sys.gravity[1] + action[0] / self.sys.link.mass[0]
        x = jnp.stack([state.x[0] + speed, speed])
        return State(x, x, x[0], jnp.where(x[0] < -3.0, 1.0, 0.0))


class Wrapper:
    """As Brax wraps: everything is passed on."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)


def fall(**params):
    return JaxEnv(BraxEnv(Fall()), params)


def test_the_numbers_of_the_system_are_parameters_by_their_paths():
    assert {name: value.tolist() for name, value in BraxEnv(Fall()).default_params.items()} == {
        "gravity": [0.0, pytest.approx(-0.1)],
        "link.mass": [2.0],
    }


def test_a_changed_system_is_the_same_as_brax_with_that_system():
    changed = Fall()
    changed.sys = changed.sys._replace(gravity=jnp.array([0.0, -0.3]))
    env = fall(gravity=[0.0, -0.3])
    observation, _ = env.reset(seed=3)
    state = changed.reset(jax.random.fold_in(jax.random.PRNGKey(3), 0))
    for _ in range(5):
        assert observation.tolist() == state.obs.tolist()
        observation, reward, over, _, _ = env.step(np.array([0.1], np.float32))
        state = changed.step(state, np.array([0.1], np.float32))
        assert (reward, over) == (float(state.reward), bool(state.done))


def test_a_family_of_systems_is_valued():
    falls = JaxTask.variants(BraxEnv(Fall()), [{"gravity": [0.0, g]} for g in (-0.1, -1.0)], horizon=8)
    assert [task.name for task in falls] == ["Fall", "Fall"]
    found = estimate_cross_values(falls, {"idle": lambda _: [0.0], "up": lambda _: [1.0]}, budget=40, rng=0)
    assert found.mean[0, 1] > found.mean[0, 0] > found.mean[1, 0]
    assert BraxEnv(Fall()).default_params["gravity"][1] == pytest.approx(-0.1)  # nothing of it is left behind


def test_modules_that_an_environment_holds_are_not_looked_into():
    """Brax keeps the module of its physics; by way of it one would reach all there is in the process."""

    class Trap:
        @property
        def dtype(self):
            pytest.fail("looked at")

    env = Fall()
    env.pipeline = ModuleType("pipeline")
    env.pipeline.trap = Trap()
    assert JaxEnv(BraxEnv(env)).reset(seed=0)[0].shape == (2,)


@pytest.mark.parametrize(
    ("env", "why"),
    [(Fall, "must be a Brax environment"), (object(), "must be a Brax environment"),
     (Wrapper(Fall()), "a wrapper, must be the environment itself")],
)  # fmt: skip
def test_what_is_no_bare_environment_is_refused(env, why):
    with pytest.raises(InvalidInputError, match=why):
        BraxEnv(env)


@pytest.mark.filterwarnings("ignore")  # Brax warns that it is no longer maintained, and of what it calls
def test_brax_itself():
    envs = pytest.importorskip("brax.envs", reason="Brax is not installed")
    heavy = {"gravity": 2 * BraxEnv(envs.get_environment("inverted_pendulum")).default_params["gravity"]}
    env = JaxEnv(BraxEnv(envs.get_environment("inverted_pendulum", backend="generalized")), heavy)
    plain = envs.get_environment("inverted_pendulum", backend="generalized")
    plain.sys = plain.sys.replace(gravity=2 * plain.sys.gravity)
    state = jax.jit(plain.reset)(jax.random.fold_in(jax.random.PRNGKey(7), 0))
    observation, _ = env.reset(seed=7)
    step, over = jax.jit(plain.step), False
    while not over:
        np.testing.assert_allclose(observation, state.obs, atol=1e-6)
        observation, reward, over, _, _ = env.step(np.array([0.3], np.float32))
        state = step(state, np.array([0.3], np.float32))
        assert (reward, over) == (float(state.reward), bool(state.done))
