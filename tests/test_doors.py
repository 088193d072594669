"""The way in for arrays, and how values are shown: what is odd is refused in one short sentence."""

from __future__ import annotations

import math
import tempfile

import numpy as np
import pytest

import pastmaster as pm
from pastmaster import domains, policies, testing
from pastmaster.arrays import as_array, as_floats
from pastmaster.errors import InvalidInputError
from pastmaster.estimation import estimate_values
from pastmaster.tables import shown
from pastmaster.values import CrossValues

DISTANCE = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]])
PLACE = "f: x"


def masked(values, first=True):
    """The values as a masked array, whose first entry is masked unless told otherwise."""
    array = np.ma.masked_array(np.array(values))
    if first:
        array[(0,) * array.ndim] = np.ma.masked
    return array


TASK = pm.TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
NETWORK = policies.NetworkPolicy([(np.eye(2), np.zeros(2))])
SEARCH = {"episodes": 10, "span": 1.0, "rng": 0}
TAKING_ARRAYS = {
    "TabularMDP: next_state": lambda a: pm.TabularMDP(a([[0, 1], [1, 1]]), [[0.0, 1.0], [0.0, 0.0]], gamma=0.5),
    "TabularMDP: reward": lambda a: pm.TabularMDP([[0, 1], [1, 1]], a([[0.0, 1.0], [0.0, 0.0]]), gamma=0.5),
    "TabularMDP: terminated": lambda a: pm.TabularMDP([[0]], [[1.0]], gamma=0.5, terminated=a([[True]])),
    "TabularMDP: probability": lambda a: pm.TabularMDP(
        [[[0, 0]]], [[[1.0, 2.0]]], gamma=0.5, probability=a([[[0.5, 0.5]]])
    ),
    "TabularMDP: start": lambda a: pm.TabularMDP([[0], [1]], [[1.0], [1.0]], gamma=0.5, start=a([0.5, 0.5])),
    "evaluate: policy": lambda a: pm.evaluate(TASK, a([1, 0])),
    "evaluate: probabilities": lambda a: pm.evaluate(TASK, a([[0.5, 0.5], [1.0, 0.0]])),
    "cross_values: policies[0]": lambda a: pm.cross_values([TASK], [a([1, 0])]),
    "estimate_cross_values: policies[0]": lambda a: pm.estimate_cross_values([TASK], [a([1, 0])], budget=2, rng=0),
    "policy_distance: U": lambda a: pm.policy_distance(a(DISTANCE), directed=True),
    "CrossValues: U": lambda a: CrossValues(a(DISTANCE), paired=False),
    "clustering_cost: distance": lambda a: pm.clustering_cost(a(DISTANCE), [0, 0, 1], episodes=10, span=1.0),
    "clustering_cost: labels": lambda a: pm.clustering_cost(DISTANCE, a([0, 0, 1]), episodes=10, span=1.0),
    "Clustering.from_labels: labels": lambda a: pm.Clustering.from_labels(DISTANCE, a([0, 0, 1])),
    "search_clusterings: distance": lambda a: pm.search_clusterings(a(DISTANCE), restarts=1, iterations=9, **SEARCH),
    "greedy_clustering: distance": lambda a: pm.greedy_clustering(a(DISTANCE), **SEARCH),
    "greedy_clustering: thresholds": lambda a: pm.greedy_clustering(DISTANCE, thresholds=a([1.0, 2.0]), **SEARCH),
    "exhaustive_clustering: distance": lambda a: pm.exhaustive_clustering(a(DISTANCE), episodes=10, span=1.0),
    "cost_lower_bound: distance": lambda a: pm.cost_lower_bound(a(DISTANCE), episodes=10, span=1.0, time_limit=0.1),
    "cost_lower_bound: labels": lambda a: pm.cost_lower_bound(
        DISTANCE, episodes=10, span=1.0, labels=a([0, 0, 1]), time_limit=0.1
    ),
    "regret_bound: c": lambda a: pm.regret_bound(a([1, 2]), 10, 1.0),
    "Chain: ladder": lambda a: pm.Chain(ladder=a([1.0, 2.0])),
    "mhav.minimize: ladder": lambda a: pm.mhav.minimize(
        lambda y: 0.0, lambda y, rng: (y, 0.0), 0, ladder=a([1.0, 2.0]), iterations=3, rng=0
    ),
    "mhav.minimize: weights": lambda a: pm.mhav.minimize(
        lambda y: 0.0, lambda y, rng: (y, 0.0), 0, ladder=[1.0, 2.0], weights=a([0.0, 1.0]), iterations=3, rng=0
    ),
    "transfer: sources[0]": lambda a: pm.transfer(TASK, [a([1, 0])], episodes=3, rng=0),
    "FixedPolicy: policy": lambda a: pm.FixedPolicy(a([1, 0])),
    "QLearning: step_size": lambda a: pm.QLearning(step_size=a([0.5, 0.1])),
    "tell: likelihood": lambda a: _told(a([1.0, 1.0])),
    "TablePolicy: table": lambda a: policies.TablePolicy(a([1, 0])),
    "TablePolicy.act: observations": lambda a: policies.TablePolicy([1, 0]).act(a([0, 1])),
    "TablePolicy.act: uniforms": lambda a: policies.TablePolicy([[0.5, 0.5]]).act([0, 0], a([0.1, 0.2])),
    "NetworkPolicy: layers[0]": lambda a: policies.NetworkPolicy([(a(np.eye(2)), np.zeros(2))]),
    "NetworkPolicy: normalise": lambda a: policies.NetworkPolicy(
        [(np.eye(2), np.zeros(2))], normalise={"mean": a([0.0, 0.0]), "var": [1.0, 1.0]}
    ),
    "NetworkPolicy: low": lambda a: policies.NetworkPolicy(
        [(np.eye(2), np.zeros(2))], head="clip", low=a([-1.0, -1.0]), high=[1.0, 1.0]
    ),
    "act: observations": lambda a: NETWORK.act(a(np.eye(2))),
    "NetworkPolicy.from_data: weights": lambda a: policies.NetworkPolicy.from_data(
        NETWORK.settings, a(NETWORK.weights)
    ),
    "NetworkStack.act: observations": lambda a: NETWORK.stack.act(a(np.eye(2)[None])),
    "PredictPolicy.act: observations": lambda a: policies.PredictPolicy(Model()).act(a(np.eye(2))),
    "as_policy: policy": lambda a: policies.as_policy(a([1, 0]), "f: policy"),
    "estimate_values: policies[0]": lambda a: estimate_values(TASK, [a([1, 0])], episodes=2, seed=0),
    "check_policy: policy": lambda a: testing.check_policy(a([1, 0]), TASK),
    "Repository.add: policy": lambda a: _stored(a([1, 0])),
    "coloured_grid.task: weights": lambda a: domains.coloured_grid.task(a([0.5, 0.5]), size=3),
    "coloured_grid.family: weights": lambda a: domains.coloured_grid.family(a([[0.5, 0.5]]), size=3),
}


class Model:
    """What PredictPolicy takes."""

    def predict(self, observations, deterministic):
        return observations[:, 0], None


def _stored(policy):
    with tempfile.TemporaryDirectory() as folder, pm.Repository(f"{folder}/tasks.db") as repository:
        repository.add(TASK, policy)


def _told(likelihood):
    selector = pm.TsallisINF(1, bounds=(0, 1), rng=0)
    selector.tell(selector.ask(), 0.5, likelihood)


@pytest.mark.parametrize("place", TAKING_ARRAYS)
def test_a_masked_entry_is_refused_wherever_an_array_is_taken(place):
    with pytest.raises(InvalidInputError, match=r"masked entries|must be numbers in 0 \.\. 1"):
        TAKING_ARRAYS[place](masked)


@pytest.mark.parametrize("place", ["evaluate: policy", "policy_distance: U", "TabularMDP: reward"])
def test_a_masked_array_without_masked_entries_is_an_array(place):
    TAKING_ARRAYS[place](lambda values: masked(values, first=False))


def test_a_masked_row_in_a_list_is_refused():
    with pytest.raises(InvalidInputError, match=r"^f: x has masked entries, must have none"):
        as_array([masked([1.0, 2.0]), [1.0, 2.0]], PLACE, "iuf")
    assert as_array([masked([1.0, 2.0], first=False), [1.0, 2.0]], PLACE, "iuf").tolist() == [[1.0, 2.0]] * 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, ">f8", "<f4", np.int8, np.uint64, ">i4"])
def test_numbers_of_any_type_and_order_become_the_same_floats(dtype):
    values = np.arange(6).astype(dtype)
    for array in (
        values,
        values[::2],
        values[::-1],
        np.ma.masked_array(values),
        values.reshape(2, 3).T,
        np.asfortranarray(values),
    ):
        taken = as_floats(array, PLACE)
        assert taken.dtype.str == np.dtype(np.float64).str
        assert type(taken) is np.ndarray
        assert (taken == np.asarray(array)).all()


def test_floats_are_not_copied():
    assert as_floats(DISTANCE, PLACE) is DISTANCE


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "x is None, must be an array"),
        ([[1, 2], [3]], "x is ragged"),
        ({1, 2}, "x has dtype object, must hold numbers"),
        ((x for x in (1, 2)), "x has dtype object"),
        ([10**400], "x has dtype object"),
        ("abc", "x has dtype <U3"),
        ([1j], "x has dtype complex128"),
        (np.array(["2020"], "datetime64[Y]"), "x has dtype datetime64"),
        (np.zeros(2, [("a", float)]), "x has dtype"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(values, message):
    with pytest.raises(InvalidInputError, match=f"^f: {message}"):
        as_array(values, PLACE, "iuf")


def test_a_number_too_large_for_a_float_is_infinite_and_not_an_error():
    assert as_floats(np.full(1, np.longdouble("1e4000")), PLACE).tolist() == [math.inf]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a\ud800", r"'a\ud800'"),
        (5, "5"),
        ([1, "a"], "[1, 'a']"),
    ],
)
def test_a_value_is_shown_as_python_writes_it(value, told):
    assert shown(value) == told


def test_what_is_shown_is_never_long_and_takes_no_time():
    for value in (
        "x" * 10**6,
        {"x" * 9999: 1},
        list(range(10**5)),
        np.zeros(10**6),
        ValueError("y" * 9999),
    ):
        assert len(shown(value)) <= 200


def test_a_span_whose_regret_bound_is_no_number_is_refused():
    assert pm.regret_bound(3, np.float32(10), np.float32(0.1)) == pm.regret_bound(3, 10.0, float(np.float32(0.1)))
    with pytest.raises(InvalidInputError, match=r"^search_clusterings: span is 1e\+308, must be smaller"):
        pm.search_clusterings(DISTANCE, episodes=1, span=1e308, rng=0)
