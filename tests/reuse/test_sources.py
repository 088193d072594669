"""Every kind of policy serves as a source and in the learner's place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pastmaster import FixedPolicy, TabularMDP, solve, transfer
from pastmaster.policies import FunctionPolicy, NetworkPolicy, TablePolicy

TASK = TabularMDP(
    [[0, 0], [1, 1]], [[0.25, 1.0], [1.0, 0.5]], terminated=np.ones((2, 2), bool), gamma=0.9, start=[0.5, 0.5]
)
BEST = [1, 0]


class Acts:
    """A policy by its method alone; that it can be called as well does not matter."""

    def act(self, observations):
        return np.array(BEST)[np.asarray(observations)]

    def __call__(self, observation):
        raise AssertionError("called")


KINDS = {
    "list": BEST,
    "array": np.array(BEST),
    "table": TablePolicy(BEST),
    "probabilities": [[0.0, 1.0], [1.0, 0.0]],
    "table of probabilities": TablePolicy([[0.0, 1.0], [1.0, 0.0]]),
    "function": lambda state: BEST[state],
    "function policy": FunctionPolicy(lambda state: BEST[state]),
    "object": Acts(),
}


def played(**changes):
    chosen = {"episodes": 40, "bounds": (0, 2), "rng": np.random.default_rng(1)} | changes
    return transfer(TASK, chosen.pop("sources", []), **chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_policy_is_a_source(kind):
    run = played(sources=[KINDS[kind]])
    assert (run.returns[run.arms == 0] == 1.0).all()
    assert (run.arms == 0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_policy_stands_in_the_learners_place(kind):
    run = played(learner=FixedPolicy(KINDS[kind]))
    assert (run.returns == 1.0).all()


def test_a_solution_is_a_source_and_stands_in_the_learners_place():
    solution = solve(TASK)
    assert isinstance(solution, TablePolicy)
    by_array, by_solution = (played(sources=[policy]) for policy in (solution.policy, solution))
    assert np.array_equal(by_array.returns, by_solution.returns)
    assert (played(learner=FixedPolicy(solution)).returns == 1.0).all()


def test_a_random_policy_in_the_learners_place_draws_from_the_learners_stream():
    coin = FixedPolicy(np.full((2, 2), 0.5))
    one, two = (played(learner=coin, trials=2) for _ in range(2))
    assert np.array_equal(one.returns, two.returns)
    assert len(set(one.returns.ravel())) == 3
    assert not np.array_equal(one.returns[0], one.returns[1])
    again = pickle.loads(pickle.dumps(one.learners[0]))
    assert [again.act(0) for _ in range(20)] == [one.learners[0].act(0) for _ in range(20)]


def test_networks_stand_in_the_learners_place():
    left = NetworkPolicy([(np.zeros((2, 4)), np.array([1.0, 0.0]))], head="argmax")
    right = NetworkPolicy([(np.zeros((2, 4)), np.array([0.0, 1.0]))], head="argmax")
    chosen = {"episodes": 3, "bounds": (0, 100), "gamma": 0.9}
    ran = [
        transfer("CartPole-v1", [], learner=FixedPolicy(policy), rng=np.random.default_rng(0), **chosen)
        for policy in (left, lambda observation: 0, right)
    ]
    assert np.array_equal(ran[0].returns, ran[1].returns)
    assert not np.array_equal(ran[0].returns, ran[2].returns)
