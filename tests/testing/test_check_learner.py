"""``check_learner`` passes every learner of ours, and names what the broken ones break."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import FixedPolicy, QLearning, SB3Learning, decay
from pastmaster.errors import ContractError
from pastmaster.reuse import QLearner
from pastmaster.testing import check_learner

STATES, TWO = gym.spaces.Discrete(4), gym.spaces.Discrete(2)
BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
SMALL = {"learning_starts": 20, "batch_size": 8, "policy_kwargs": {"net_arch": [8]}}


@pytest.mark.parametrize(
    "settings",
    [
        QLearning(),
        QLearning(step_size=decay(1.0, 5), epsilon=(1.0, 0.5, 0.0), learn_from="every"),
        FixedPolicy([1, 0, 1, 0]),
        FixedPolicy([[0.5, 0.5]] * 4),
        FixedPolicy(lambda state: int(state) % 2),
    ],
)
def test_our_learners_keep_the_contract(settings, seed):
    check_learner(settings, STATES, TWO, seed=seed)


@pytest.mark.parametrize(
    ("settings", "actions"),
    [
        (SB3Learning("DQN", **SMALL), TWO),
        (SB3Learning("SAC", learn_from="every", **SMALL), gym.spaces.Box(-2, 2, (1,), np.float32)),
        (FixedPolicy(lambda observation: int(observation[0] > 0)), TWO),
    ],
)
def test_learners_from_numbers_keep_the_contract(settings, actions, seed):
    if isinstance(settings, SB3Learning):
        pytest.importorskip("stable_baselines3")
    check_learner(settings, BOX, actions, steps=60, seed=seed)


class Made:
    """Settings that start a given class of Q-learner."""

    def __init__(self, kind, settings=None):
        self.kind, self.settings = kind, settings or QLearning(epsilon=0.3)

    def start(self, observations, actions, gamma, rng):
        return self.kind(self.settings, observations.n, actions.n, gamma, rng)


def test_the_learners_below_are_broken_by_what_they_change():
    check_learner(Made(QLearner), STATES, TWO)


class Mute(QLearner):
    learn = None


class Outside(QLearner):
    """Acts outside the space."""

    def act(self, state, epsilon=None):
        return super().act(state, epsilon) + 1


class Wild(QLearner):
    """Draws from a generator of its own."""

    source = np.random.default_rng(3)

    def __init__(self, settings, n_states, n_actions, gamma, rng):
        super().__init__(settings, n_states, n_actions, gamma, self.source)


class Sharing(QLearner):
    """Goes on where the last learner stopped."""

    table = np.zeros((4, 2))

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.Q = self.table


class Failing(QLearner):
    def learn(self, *step):
        raise ZeroDivisionError("nothing to divide by")


class BadPolicy(QLearner):
    @property
    def policy(self):
        return np.full(4, 5)


class Unlikely(QLearner):
    """Likelihoods that do not sum to 1."""

    def likelihood(self, state, action):
        return 0.9


class Undefined(QLearner):
    """Likelihoods that are no numbers."""

    def likelihood(self, state, action):
        return math.nan


class Raising(QLearner):
    """Cannot take updates back."""

    def unlearn(self, changes):
        raise RuntimeError("not here")


class Unstarted(Made):
    def start(self, observations, actions):
        raise AssertionError("called")


class Certain(QLearner):
    """Likelihoods of other actions than those taken."""

    def likelihood(self, state, action):
        return float(action == self.Q[state].argmin())


class Forward(QLearner):
    """Takes updates back in the wrong order."""

    def unlearn(self, changes):
        super().unlearn(changes[::-1])


class Own(Made):
    learn_from = "others"


BROKEN = [
    (QLearning, "has no method start"),
    (3, "has no method start"),
    (Own(QLearner), "learn_from is 'others', must be 'own' or 'every'"),
    (Made(Mute), "which has no method learn"),
    (Made(Outside), r"act gives 2, must be an action of Discrete\(2\)"),
    (Made(Wild), "the same seed and steps give other actions"),
    (Made(Sharing), "the same seed and steps give other actions"),
    (Made(Failing), "learn raises ZeroDivisionError"),
    (Made(BadPolicy), "its policy breaks the contract of a policy"),
    (Made(Unlikely), "must be probabilities that sum to 1"),
    (Made(Undefined), "must be probabilities that sum to 1"),
    (Made(Raising), "unlearn raises RuntimeError"),
    (Unstarted(QLearner), "start raises TypeError"),
    (Made(Certain), "which has likelihood 0"),
    (Made(Forward, QLearning(epsilon=0.3, step_size=1.0)), "unlearn does not take the updates back"),
]


@pytest.mark.parametrize(("settings", "sentence"), BROKEN, ids=lambda part: getattr(part, "kind", None) and part.kind)
def test_what_is_broken_is_named(settings, sentence):
    with pytest.raises(ContractError, match=sentence):
        check_learner(settings, STATES, TWO)


class Greedy:
    """A learner from numbers that changes what it is given."""

    def __init__(self, place):
        self.place = place

    def start(self, observations, actions, gamma, rng):
        return self

    def act(self, observation):
        if self.place == "act":
            observation += 1
        return 0

    def learn(self, observation, action, reward, following, terminated):
        if self.place == "learn":
            following[:] = 0


@pytest.mark.parametrize("place", ["act", "learn", ""])
def test_a_learner_leaves_what_it_is_given_as_it_is(place):
    if place:
        with pytest.raises(ContractError, match=f"{place} changes"):
            check_learner(Greedy(place), BOX, TWO)
    else:
        check_learner(Greedy(place), BOX, TWO)
