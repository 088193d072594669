"""``check_task`` passes tasks that keep the contract, and names what the broken ones break."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from reference import random_mdp

from pastmaster import GymTask, TabularMDP
from pastmaster.errors import ContractError
from pastmaster.testing import check_task


class Walk(gym.Env):
    """A random walk in a box; each way to break the contract is a class of its own below."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float64)
        self.position, self.steps = np.zeros(2), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.steps = self.np_random.normal(size=2), 0
        return self.position.copy(), {}

    def step(self, action):
        self.steps += 1
        self.position = self.position + action + self.np_random.normal(size=2)
        return self.position.copy(), self.reward(), False, self.steps == 20, {}

    def reward(self):
        return float(np.tanh(self.position[0]))


class GlobalChance(Walk):
    def reward(self):
        return float(np.random.default_rng().random())


class Remembers(Walk):
    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return super().reset(seed=seed)

    def reward(self):
        return float(self.episodes)


class OneBuffer(Walk):
    def step(self, action):
        self.steps += 1
        self.position += action
        return self.position, 0.0, False, self.steps == 20, {}


class ClipsInPlace(Walk):
    def step(self, action):
        action *= 0.5
        return super().step(action)


class NotANumber(Walk):
    def reward(self):
        return float("nan")


class Raises(Walk):
    def step(self, action):
        raise KeyError("lost")


class LosesState(Walk):
    scale = 1.0

    def reward(self):
        return self.scale


class Unpickled:
    """Makes environments of another scale once it has been sent to a worker."""

    __name__ = "Unpickled"
    scale = 1.0

    def __call__(self):
        env = LosesState()
        env.scale = self.scale
        return env

    def __reduce__(self):
        return _changed, ()


def _changed():
    made = Unpickled()
    made.scale = 2.0
    return made


def box(env, **options):
    return GymTask(env, gamma=0.9, horizon=20, **options)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "pastmaster/CartPole-v0", "FrozenLake-v1", "Pendulum-v1"])
def test_good_environments_pass(env_id):
    check_task(GymTask(env_id))


def test_good_tasks_pass():
    rng = np.random.default_rng(0)
    check_task(random_mdp(rng, 8, 3, 2), seed=3, episodes=2)
    check_task(TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.5))
    check_task(box(Walk, reward_range=(-1.0, 1.0)))


BROKEN = {
    "global chance": (GlobalChance, r"seed 2 gives another episode in .*draw from a generator other than self\.np_ran"),
    "remembers": (Remembers, "keep something from one episode to the next"),
    "one buffer": (OneBuffer, "step changes observations that it returned before: return a copy"),
    "clips in place": (ClipsInPlace, "step changes its action, .* it must work on a copy"),
    "not a number": (NotANumber, r"step returned the reward nan, must be a finite number, in NotANumber"),
    "raises": (Raises, r"step raised KeyError\('lost'\), in Raises"),
    "loses its state": (Unpickled(), "in an environment of a pickled copy of the task"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_environments_are_named(case):
    env, message = BROKEN[case]
    with pytest.raises(ContractError, match=f"^check_task: .*{message}") as raised:
        check_task(box(env))
    assert isinstance(raised.value, AssertionError)


def test_rewards_beyond_their_range_are_named():
    with pytest.raises(ContractError, match=r"the reward \S+, must be within -0\.1 \.\. 0\.1: .*wider reward_range"):
        check_task(box(Walk, reward_range=(-0.1, 0.1)))


def test_lanes_that_differ_are_named(monkeypatch):
    from pastmaster.domains.cart_pole import CartPoleVectorEnv

    step = CartPoleVectorEnv.step

    def halved(self, actions):
        observations, rewards, *rest = step(self, actions)
        return observations, 0.5 * rewards, *rest

    monkeypatch.setattr(CartPoleVectorEnv, "step", halved)
    with pytest.raises(ContractError, match="step 1 of its vector environment differs from single environments"):
        check_task(GymTask("pastmaster/CartPole-v0"))


def test_lanes_that_do_not_end_are_named(monkeypatch):
    from pastmaster.domains.cart_pole import CartPoleVectorEnv

    step = CartPoleVectorEnv.step

    def endless(self, actions):
        observations, rewards, terminated, truncated, info = step(self, actions)
        return observations, rewards, np.zeros_like(terminated), truncated, info

    monkeypatch.setattr(CartPoleVectorEnv, "step", endless)
    with pytest.raises(ContractError, match=r"step \d+ of its vector environment differs from single environments"):
        check_task(GymTask("pastmaster/CartPole-v0"))
