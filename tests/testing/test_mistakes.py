"""What the checks say to those who pass something else than they check."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import Exp3Transfer, GymTask, InvalidInputError, QLearning, TabularMDP
from pastmaster.policies import TablePolicy
from pastmaster.testing import check_learner, check_policy, check_selector, check_task

TASK = TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.9, horizon=2)
ONE = gym.spaces.Discrete(2)


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (
            lambda: check_selector(Exp3Transfer(1, 10, bounds=(0, 1), rng=np.random.default_rng(0))),
            r"check_selector: factory is Exp3Transfer\(.*, must be a class or a function that makes selectors",
        ),
        (lambda: check_selector("ppr"), "check_selector: factory is 'ppr', must be a class or a function"),
        (
            lambda: check_policy(TablePolicy, TASK),
            r"check_policy: policy is the class TablePolicy, must be a policy: make one, TablePolicy\(\.\.\.\)",
        ),
        (lambda: check_policy(None, TASK), "check_policy: policy is None, must be an array"),
        (lambda: check_policy([1], 3), "check_policy: task is 3, must be a task"),
        (lambda: check_learner(QLearning(), 2, ONE), "check_learner: observation_space is 2, must be a space"),
        (lambda: check_learner(QLearning(), ONE, 2), "check_learner: action_space is 2, must be a space"),
        (lambda: check_task(GymTask), "check_task: task is <class .*>, must be a TabularMDP or a GymTask"),
        (lambda: check_task(gym.make("CartPole-v1")), "check_task: task is <.*>, must be .*wrap an environment"),
    ],
)
def test_a_mistake_is_told_from_a_broken_contract(check, sentence):
    with pytest.raises(InvalidInputError, match=f"^{sentence}"):
        check()
