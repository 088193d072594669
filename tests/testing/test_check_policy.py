"""``check_policy`` passes policies that keep the contract, and names what the broken ones break."""

from __future__ import annotations

import threading

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import GymTask, TabularMDP, solve
from pastmaster.errors import ContractError
from pastmaster.policies import FunctionPolicy, NetworkPolicy, TablePolicy
from pastmaster.testing import check_policy

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
TWO = gym.spaces.Discrete(2)
LINE = TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [0.0, 0.0]], gamma=0.9, horizon=5)
RNG = np.random.default_rng(0)
NETWORK = [(RNG.normal(size=(2, 3)), np.zeros(2))]


class Good:
    """Acts by the sign of the first number."""

    random = False

    def act(self, observations):
        return (np.asarray(observations)[:, 0] > 0).astype(np.int64)


class Chance(Good):
    """Random, by the uniform numbers it is given."""

    random = True

    def act(self, observations, uniforms):
        return (uniforms > 0.5).astype(np.int64)


def test_good_policies_pass():
    check_policy(Good(), (BOX, TWO))
    check_policy(Chance(), (BOX, TWO), seed=4)
    check_policy(NetworkPolicy(NETWORK), (BOX, TWO))
    check_policy(NetworkPolicy(NETWORK, head="clip", low=[-1, -1], high=[1, 1]), (BOX, gym.spaces.Box(-1, 1, (2,))))
    for policy in (solve(LINE), [0, 1], TablePolicy([[0.5, 0.5], [0.0, 1.0]])):
        check_policy(policy, LINE)
    check_policy(lambda x: int(x[2] > 0), GymTask("CartPole-v1"))
    with gym.make("CartPole-v1") as env:
        check_policy(FunctionPolicy(lambda x: (x[:, 2] > 0).astype(int), batched=True), env)


class Drawing(Good):
    def act(self, observations):
        return np.random.default_rng().integers(2, size=len(observations))


class Counting(Good):
    calls = 0

    def act(self, observations):
        self.calls += 1
        return np.full(len(observations), self.calls % 2)


class Mixing(Good):
    def act(self, observations):
        x = np.asarray(observations)
        return (x[:, 0] > x[:, 0].mean()).astype(np.int64)


class FirstOnly(Good):
    def act(self, observations):
        return super().act(observations)[:1]


class Changing(Good):
    def act(self, observations):
        observations *= 0.5
        return super().act(observations)


class OwnChance(Chance):
    def act(self, observations, uniforms):
        return np.random.default_rng().integers(2, size=len(observations))


class Unsendable(Good):
    def __init__(self):
        self.lock = threading.Lock()


class Forgetful(Good):
    def __init__(self, sign=1):
        self.sign = sign

    def act(self, observations):
        return super().act(self.sign * np.asarray(observations))

    def __reduce__(self):
        return Forgetful, (-1,)


class TooHigh(Good):
    def act(self, observations):
        return super().act(observations) + 1


class Failing(Good):
    def act(self, observations):
        raise ZeroDivisionError


BROKEN = {
    Drawing: "other actions in a second call: does it draw at random",
    Counting: "other actions in a second call: .*or remember calls",
    Mixing: "other actions in batches of one: does it mix the rows",
    FirstOnly: r"actions of shape \(1,\) for 16 observations, must be \[16, \.\.\.\]",
    Changing: "act changes its observations, must work on a copy",
    OwnChance: "other actions in a second call",
    Unsendable: "cannot be sent to another process: cannot pickle '_thread.lock' object",
    Forgetful: "other actions in a pickled copy: does pickling lose part of it",
    TooHigh: r"act gives the action 2, must be in Discrete\(2\)",
    Failing: r"act raises ZeroDivisionError\(\) on 16 observations",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_policies_are_named(kind):
    with pytest.raises(ContractError, match=f"^check_policy: .*{BROKEN[kind]}"):
        check_policy(kind(), (BOX, TWO))


@pytest.mark.parametrize("table", [[0, 1, 0], [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [0, 2]])
def test_tables_of_another_task_are_named(table):
    with pytest.raises(ContractError, match=r"^check_policy: the table.*(must be \[2\] integer|must be in 0..1)"):
        check_policy(table, LINE)


class Overwriting:
    def act(self, observations):
        for observation in observations:
            observation["x"][:] = 0.0
        return np.zeros(len(observations), np.int64)


def test_a_policy_that_overwrites_a_mapping_is_named():
    spaces = gym.spaces.Dict({"x": BOX}), TWO
    with pytest.raises(ContractError, match="act changes its observations"):
        check_policy(Overwriting(), spaces)
