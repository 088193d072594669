from __future__ import annotations

import json
import pickle
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pastmaster import InvalidInputError, TabularMDP, evaluate, solve
from pastmaster.policies import (
    FunctionPolicy,
    NetworkPolicy,
    Policy,
    TablePolicy,
    _kernels as kernels,
    as_policy,
    stacked,
)

TASK = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)


def layers(rng, sizes):
    return [
        (rng.normal(size=(d, m)) / np.sqrt(m), rng.normal(size=d))
        for m, d in pairwise(sizes)
    ]  # fmt: skip


KINDS = {
    "argmax": lambda rng: NetworkPolicy(layers(rng, [3, 8, 4]), start=2),
    "argmaxes": lambda rng: NetworkPolicy(layers(rng, [3, 8, 5]), head="argmaxes", nvec=[2, 3]),
    "clip": lambda rng: NetworkPolicy(
        layers(rng, [3, 8, 8, 2]), head="clip", low=[-1, -np.inf], high=[0.1, 3], activation="elu"
    ),
    "tanh": lambda rng: NetworkPolicy(layers(rng, [3, 9, 4]), head="tanh", low=[[-1, 0], [0, 0]], high=np.ones((2, 2))),
    "normalised": lambda rng: NetworkPolicy(
        layers(rng, [3, 8, 4]), normalise={"mean": [0, 1, 2], "var": [1, 2, 0.1], "clip": 1.5}
    ),
    "one hot": lambda rng: NetworkPolicy(layers(rng, [6, 8, 4]), one_hot=True),
    "linear": lambda rng: NetworkPolicy(layers(rng, [3, 4])),
}


def observations(kind, rng, *shape):
    return rng.integers(6, size=shape) if kind == "one hot" else rng.normal(size=(*shape, 3))


# the contract


@pytest.mark.parametrize("kind", [*KINDS, "table", "random table", "function", "batched function"])
def test_every_policy_acts_on_a_batch_row_by_row(kind, rng):
    if kind in KINDS:
        policy, seen = KINDS[kind](rng), observations(kind, rng, 12)
    elif "table" in kind:
        table = np.full((6, 3), 1 / 3) if kind == "random table" else [0, 2, 1, 0, 2, 2]
        policy, seen = TablePolicy(table), rng.integers(6, size=12)
    else:
        batched = kind == "batched function"
        policy = FunctionPolicy((lambda x: x.argmax(-1)) if batched else (lambda x: int(x.argmax())), batched)
        seen = rng.normal(size=(12, 3))
    assert isinstance(policy, Policy)
    assert as_policy(policy, "here") is policy
    assert "\n" not in repr(policy)
    assert len(repr(policy)) < 100
    arguments = (rng.random(12),) if policy.random else ()
    actions = policy.act(seen, *arguments)
    assert len(actions) == 12
    for i in range(12):
        one = policy.act(seen[i : i + 1], *(u[i : i + 1] for u in arguments))
        assert np.array_equal(one[0], actions[i])
    assert len(policy.act(seen[:0], *(u[:0] for u in arguments))) == 0 or kind == "function"


# tables


def test_a_table_of_actions_is_looked_up():
    policy = TablePolicy([2, 0, 1])
    assert policy.act(np.array([0, 0, 2, 1])).tolist() == [2, 2, 1, 0]
    assert policy.n_states == 3
    assert not policy.random


def test_a_table_of_probabilities_draws_by_the_uniform_number():
    policy = TablePolicy([[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]])
    assert policy.random
    drawn = policy.act(np.zeros(5, int), np.array([0.0, 0.2499, 0.25, 0.5, 1 - 2**-53]))
    assert drawn.tolist() == [0, 0, 2, 2, 2]
    assert policy.act(np.ones(2, int), np.array([0.0, 1 - 2**-53])).tolist() == [1, 1]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_random_tables_draw_as_the_compiled_episodes_do(seed, n_actions):
    from pastmaster.reuse._selector_kernels import draw

    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(n_actions, 0.3), size=4)
    table, states, uniforms = TablePolicy(chances), rng.integers(4, size=50), rng.random(50)
    wanted = [draw(table.table[s], u) for s, u in zip(states, uniforms, strict=True)]
    assert table.act(states, uniforms).tolist() == wanted


WRONG_TABLES = {
    "negative": ([0, -1], r"table\[1\] is action -1"),
    "halves": ([0.5, 1.0], "must be .2. integer actions"),
    "rows": ([[0.5, 0.4], [1, 0]], r"table\[0\] is .*, must be probabilities that sum to 1"),
    "empty": ([], "must be .S. actions or .S, A. probabilities"),
    "a number": (3, r"has shape \(\), must be"),
    "ragged": ([[1], [1, 0]], "is ragged"),
}


@pytest.mark.parametrize("case", WRONG_TABLES)
def test_a_wrong_table_is_refused(case):
    table, message = WRONG_TABLES[case]
    with pytest.raises(InvalidInputError, match=message):
        TablePolicy(table)


# functions and conversion


def test_a_batched_function_must_give_an_action_to_each_observation():
    with pytest.raises(InvalidInputError, match=r"shape \(3,\) for 2 observations"):
        FunctionPolicy(lambda x: np.zeros(3), batched=True).act(np.zeros((2, 4)))
    with pytest.raises(InvalidInputError, match="function is 5, must be callable"):
        FunctionPolicy(5)


def test_arrays_and_functions_become_policies():
    assert as_policy([0, 1], "here").act(np.array([1])).tolist() == [1]
    assert as_policy(np.eye(2), "here").random
    solution = solve(TabularMDP([[0]], [[1.0]], gamma=0.5))
    assert as_policy(solution, "here") is solution
    assert as_policy(lambda x: int(x[0] > 0), "here").act(np.array([[1.0], [-1.0]])).tolist() == [1, 0]


def test_what_is_no_policy_is_refused_by_the_place_it_stood_in():
    for thing in (None, 5, TablePolicy, object()):
        with pytest.raises(InvalidInputError, match=r"^cluster: policies\[3\] is .*, must be an array"):
            as_policy(thing, "cluster: policies[3]")
    with pytest.raises(InvalidInputError, match=r"^here\[0\] is action -1"):
        as_policy([-1, 0], "here")


# networks


def test_a_network_is_what_it_says(rng):
    (w, b), (v, c) = parts = layers(rng, [3, 8, 2])
    x = rng.normal(size=(7, 3))
    wanted = np.tanh(x @ w.T + b) @ v.T + c
    policy = NetworkPolicy(parts)
    assert np.allclose(policy.outputs(x), wanted, atol=1e-5)
    assert np.array_equal(policy.act(x), wanted.argmax(axis=1))
    limits = {"low": [-0.5, 0], "high": [0.5, 3]}
    assert np.allclose(
        NetworkPolicy(parts, head="clip", **limits).act(x), np.clip(wanted, [-0.5, 0], [0.5, 3]), atol=1e-5
    )
    squashed = np.array([-0.5, 0]) + (np.tanh(wanted) + 1) / 2 * np.array([1, 3])
    assert np.allclose(NetworkPolicy(parts, head="tanh", **limits).act(x), squashed, atol=1e-5)


def test_normalised_observations_are_what_the_network_sees(rng):
    parts, x = layers(rng, [3, 8, 2]), 3 * rng.normal(size=(50, 3))
    mean, var = np.array([1.0, 0, -1]), np.array([2.0, 1, 0.1])
    policy = NetworkPolicy(parts, normalise={"mean": mean, "var": var, "epsilon": 0.01, "clip": 2.0})
    seen = np.clip((x - mean) / np.sqrt(var + 0.01), -2, 2)
    assert np.allclose(policy.outputs(x), NetworkPolicy(parts).outputs(seen), atol=1e-5)


def test_one_hot_is_a_row_of_the_first_layer(rng):
    parts = layers(rng, [6, 8, 4])
    wanted = NetworkPolicy(parts).outputs(np.eye(6))
    assert np.allclose(NetworkPolicy(parts, one_hot=True).outputs(np.arange(6)), wanted, atol=1e-6)


OF_TORCH = {
    "tanh": "Tanh",
    "relu": "ReLU",
    "leaky_relu": "LeakyReLU",
    "elu": "ELU",
    "selu": "SELU",
    "sigmoid": "Sigmoid",
    "silu": "SiLU",
    "gelu": "GELU",
    "softplus": "Softplus",
    "mish": "Mish",
    "identity": "Identity",
}


def activated(name, x):
    """A network of one number that does nothing before its activation."""
    return NetworkPolicy([([[1.0]], [0.0])], activation=[name]).outputs(x[:, None])[:, 0]


@pytest.mark.parametrize("name", OF_TORCH)
def test_an_activation_is_torchs(name, rng):
    torch = pytest.importorskip("torch")
    x = np.concatenate([rng.normal(size=500) * 5, [0, -0.0, 30, -30, 100, -100, 1e-6]]).astype(np.float32)
    wanted = getattr(torch.nn, OF_TORCH[name])()(torch.tensor(x)).numpy()
    got = activated(name, x)
    assert got.dtype == np.float32
    assert np.allclose(got, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", OF_TORCH)
def test_an_activation_does_not_depend_on_its_neighbours(name, rng):
    x = (rng.normal(size=257) * 4).astype(np.float32)
    whole = activated(name, x)
    assert all(
        np.array_equal(activated(name, x[i : i + n].copy()), whole[i : i + n]) for i in range(40) for n in (1, 7, 33)
    )


def test_the_compiled_layer_is_the_plain_one_bit_by_bit(rng):
    for m in (1, 3, 4, 7):
        x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, m), (2, m, 5), (2, 5)))
        plain, compiled = np.empty((2, 3, 5), np.float32), np.empty((2, 3, 5), np.float32)
        kernels.affine.py_func(x, w, b, plain)
        kernels.affine(x, w, b, compiled)
        assert np.array_equal(plain, compiled)
        assert np.allclose(plain, x @ w + b[:, None], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_batch_nor_its_stack(kind, rng):
    policies, seen = [KINDS[kind](rng) for _ in range(5)], observations(kind, rng, 5, 33)
    stack = stacked(policies)
    together, outputs = stack.act(seen), stack.outputs(seen)
    for p, policy in enumerate(policies):
        assert np.array_equal(policy.act(seen[p]), together[p])
        assert np.array_equal(policy.outputs(seen[p][4:9]), outputs[p, 4:9])
    assert len(stack) == 5
    assert "5 networks" in repr(stack)


def test_networks_that_differ_are_not_stacked(rng):
    first = KINDS["argmax"](rng)
    assert stacked([]) is None
    assert stacked([first, TablePolicy([0])]) is None
    assert stacked([first, KINDS["normalised"](rng)]) is None
    assert stacked([first, KINDS["linear"](rng)]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_made_again_from_its_data(kind, rng):
    policy, seen = KINDS[kind](rng), observations(kind, rng, 30)
    again = NetworkPolicy.from_data(json.loads(json.dumps(policy.settings, allow_nan=False)), policy.weights)
    assert again.settings == policy.settings
    assert np.array_equal(again.weights, policy.weights)
    assert np.array_equal(again.act(seen), policy.act(seen))
    assert np.array_equal(pickle.loads(pickle.dumps(policy)).act(seen), policy.act(seen))
    assert policy.weights.dtype == np.float32
    assert not policy.weights.flags.writeable


WRONG_DATA = {
    "no dict": (lambda s, w: ([], w), "settings is not a dict of sizes"),
    "a key too many": (lambda s, w: (s | {"code": "import os"}, w), "settings is not a dict"),
    "a key too few": (lambda s, w: ({k: v for k, v in s.items() if k != "head"}, w), "settings is not a dict"),
    "no sizes": (lambda s, w: (s | {"sizes": []}, w), "settings must be those of a network"),
    "many layers": (lambda s, w: (s | {"sizes": [1] * 200}, w), "weights have shape"),
    "huge": (lambda s, w: (s | {"sizes": [10**11, 10**11, 2]}, w), "weights have shape"),
    "size 0": (lambda s, w: (s | {"sizes": [3, 0, 2]}, w), "sizes is 0"),
    "size true": (lambda s, w: (s | {"sizes": [3, True, 2]}, w), "sizes is True"),
    "short": (lambda s, w: (s, w[:-1]), r"weights have shape \(49,\)"),
    "float64": (lambda s, w: (s, w.astype(float)), "and dtype float64"),
    "objects": (lambda s, w: (s, w.astype(object)), "and dtype object"),
    "nan": (lambda s, w: (s, np.where(np.arange(50) == 7, np.nan, w).astype("f4")), r"layers\[0\] has numbers that"),
    "activation": (lambda s, w: (s | {"activation": "os.system"}, w), "activation is 'os.system', must be one of"),
    "activation list": (lambda s, w: (s | {"activation": ["tanh"]}, w), "activation is"),
    "head": (lambda s, w: (s | {"head": "max"}, w), "head is 'max', must be one of"),
    "head list": (lambda s, w: (s | {"head": []}, w), "head is"),
    "start": (lambda s, w: (s | {"start": 1}, w), "start is 1, must be"),
    "start text": (lambda s, w: (s | {"start": "0"}, w), "start is '0'"),
    "nvec": (lambda s, w: (s | {"nvec": [2]}, w), "nvec is"),
    "nvec number": (lambda s, w: (s | {"nvec": 2}, w), "nvec is 2, must be a list"),
    "one_hot": (lambda s, w: (s | {"one_hot": 1}, w), "one_hot is 1"),
    "low missing": (lambda s, w: (s | {"low": None}, w), "low must hold 2 numbers"),
    "low short": (lambda s, w: (s | {"low": [1]}, w), "low must hold 2 numbers"),
    "low text": (lambda s, w: (s | {"low": ["a", "b"]}, w), "settings must be those of a network"),
    "low above": (lambda s, w: (s | {"low": [9, 9]}, w), "low must be at most high"),
    "low ragged": (lambda s, w: (s | {"low": [[1], 2]}, w), "settings must be those of a network"),
    "normalise": (lambda s, w: (s | {"normalise": 5}, w), "normalise must be a dict"),
    "mean": (lambda s, w: (s | {"normalise": {"mean": [1], "var": [1] * 3}}, w), r"normalise\['mean'\] must hold 3"),
    "var": (lambda s, w: (s | {"normalise": {"mean": [1] * 3, "var": [1, -1, 1]}}, w), "those of var not below 0"),
    "epsilon": (lambda s, w: (s | {"normalise": {"mean": [1] * 3, "var": [1] * 3, "epsilon": -1}}, w), "'epsilon'"),
    "by 0": (lambda s, w: (s | {"normalise": {"mean": [1] * 3, "var": [0] * 3, "epsilon": 0}}, w), "divide by 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_DATA)
def test_data_that_is_no_network_is_refused(case, rng):
    policy = NetworkPolicy(layers(rng, [3, 8, 2]), head="clip", low=[-1, -1], high=[1, 1])
    change, message = WRONG_DATA[case]
    settings, weights = change(deepcopy(policy.settings), policy.weights)
    with pytest.raises(InvalidInputError, match=message):
        NetworkPolicy.from_data(settings, weights)


def test_observations_that_do_not_fit_are_refused(rng):
    policy, discrete = KINDS["argmax"](rng), KINDS["one hot"](rng)
    for wrong in (np.zeros((2, 4)), np.zeros(2), np.array([["a"] * 3])):
        with pytest.raises(InvalidInputError, match="act: observations have shape"):
            policy.act(wrong)
    for wrong in (np.array([6]), np.array([-1])):
        with pytest.raises(InvalidInputError, match=r"must be in 0\.\.5"):
            discrete.act(wrong)
    with pytest.raises(InvalidInputError, match="integers"):
        discrete.act(np.array([0.0]))
    with pytest.raises(InvalidInputError, match=r"must be \[2, n"):
        stacked([policy, policy]).act(np.zeros((3, 1, 3)))


@pytest.mark.parametrize("path", ["cart.zip", Path("cart.zip")])
def test_a_file_is_told_to_be_loaded(path):
    sentence = r"is 'cart\.zip', and there is no such file, must be a policy: pass load_sb3\(path\)"
    with pytest.raises(InvalidInputError, match=f"^here {sentence}"):
        as_policy(path, "here")
    with pytest.raises(InvalidInputError, match=f"^evaluate: policy {sentence}"):
        evaluate(TASK, path)


def test_a_number_in_a_list_of_policies_is_told_to_be_a_policy_in_a_list():
    with pytest.raises(InvalidInputError, match=r" is 1, a number, must be \[2\] .*pass \[policy\]"):
        evaluate(TASK, np.int64(1))


def test_what_is_no_policy_is_printed_in_one_short_line():
    with pytest.raises(InvalidInputError) as caught:
        as_policy(set(range(10_000)), "here")
    assert len(str(caught.value)) < 250
