"""Slips that a person makes: nothing is lost in silence, and each error says where it comes from."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pastmaster import FixedPolicy, InvalidInputError, TabularMDP, transfer

TASK = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)


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


@pytest.mark.parametrize("sources", [[1], (0,), np.array([0])])
def test_one_policy_in_place_of_a_list_is_told_to_be_put_in_one(sources):
    assert re.match(r"transfer: sources.*must be a.*pass \[policy\]$", refused(lambda: played(sources)))


@pytest.mark.parametrize("name", ["progress", "share"])
def test_flags_are_true_or_false(name):
    assert refused(lambda: played([], **{name: "yes"})) == f"transfer: {name} is 'yes', must be True or False"
