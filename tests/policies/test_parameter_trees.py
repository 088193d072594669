"""Parameter trees of Flax and Haiku as networks; jax is needed only to compare with it."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster import InvalidInputError
from pastmaster.policies import NetworkPolicy


def layer(rng, m, d, **more):
    return {"kernel": rng.normal(size=(m, d)), "bias": rng.normal(size=d)} | more


def forward(layers, x):
    for i, part in enumerate(layers):
        x = x @ part["kernel"] + part.get("bias", 0.0)
        x = np.tanh(x) if i < len(layers) - 1 else x
    return x


@pytest.mark.parametrize("order", ["as made", "sorted", "reversed"])
def test_numbered_layers_go_by_their_numbers(order, rng):
    layers = [layer(rng, 5, 5) for _ in range(12)]  # Dense_10 is sorted before Dense_2
    named = {f"Dense_{i}": part for i, part in enumerate(layers)}
    keys = {"as made": list(named), "sorted": sorted(named), "reversed": [*reversed(named)]}[order]
    policy = NetworkPolicy.from_params({"params": {key: named[key] for key in keys}})
    seen = rng.normal(size=(20, 5))
    assert np.allclose(policy.outputs(seen), forward(layers, seen), atol=1e-4)


def test_names_do_not_matter_where_sizes_decide(rng):
    body, neck, head = layer(rng, 4, 8), layer(rng, 8, 6), layer(rng, 6, 2)
    seen = rng.normal(size=(9, 4))
    for tree in (
        {"head": head, "body": body, "neck": neck},
        {"params": {"encoder": {"body": body, "neck": neck}, "head": head}},
        {"0": {"body": body}, "layers": {0: neck, 2: head}},
    ):
        assert np.allclose(NetworkPolicy.from_params(tree).outputs(seen), forward([body, neck, head], seen), atol=1e-5)


def test_an_order_that_is_open_must_be_told(rng):
    tree = {"a": layer(rng, 4, 4), "b": layer(rng, 4, 4), "c": layer(rng, 4, 2)}
    with pytest.raises(
        InvalidInputError, match=r"from_params: tree has the layers \['a', 'b', 'c'\], whose sizes fit in several"
    ):
        NetworkPolicy.from_params(tree)
    seen = rng.normal(size=(9, 4))
    expected = forward([tree["b"], tree["a"], tree["c"]], seen)
    assert np.allclose(NetworkPolicy.from_params(tree, layers=["b", "a", "c"]).outputs(seen), expected, atol=1e-5)
    with pytest.raises(
        InvalidInputError, match=r"from_params: layers is \['a', 'c'\], must name each of \['a', 'b', 'c'\]"
    ):
        NetworkPolicy.from_params(tree, layers=["a", "c"])


def test_haiku_and_settings(rng):
    tree = {"mlp/~/linear_0": {"w": np.eye(3)}, "mlp/~/linear_1": {"w": np.eye(3), "b": np.ones(3)}}
    policy = NetworkPolicy.from_params(tree, activation="relu", head="clip", low=[0, 0, 0], high=[2, 2, 2])
    assert policy.act([[-5.0, 0.5, 3.0]]).tolist() == [[1.0, 1.5, 2.0]]


def test_a_network_of_jax_gives_what_jax_gives(rng):
    jax = pytest.importorskip("jax")
    flax = pytest.importorskip("flax.linen")

    class Net(flax.Module):
        @flax.compact
        def __call__(self, x):
            for _ in range(2):
                x = flax.tanh(flax.Dense(16)(x))
            return flax.Dense(3)(x)

    net = Net()
    seen = rng.normal(size=(40, 4)).astype(np.float32)
    tree = net.init(jax.random.key(0), seen)
    policy = NetworkPolicy.from_params(tree)
    expected = np.asarray(net.apply(tree, seen))
    assert np.abs(policy.outputs(seen) - expected).max() < 1e-5
    assert (policy.act(seen) == expected.argmax(axis=1)).all()


def test_what_is_no_network_is_refused_by_name(rng):
    dense = layer(rng, 4, 2)
    endless: dict = {}
    endless["inner"] = endless
    for tree, match in (
        ({}, "tree has no layers, must have a kernel"),
        (3, r"tree is 3, must be a mapping of layers"),
        ({"a": dense, "norm": {"scale": np.ones(3)}}, r"tree\['norm'\] holds 'scale', must hold layers .*ONNX"),
        ({"a": dense | {"scale": 1}}, r"tree\['a'\] holds .*'scale'.*, must hold a kernel and a bias alone: export"),
        ({"a": {"bias": np.ones(3)}}, r"tree\['a'\] holds \['bias'\], must hold a kernel"),
        ({"conv": {"kernel": np.ones((3, 3, 1, 4))}}, r"kernel has shape \(3, 3, 1, 4\), must be \[in, out\]: export"),
        ({"a": {"kernel": [["x"]]}}, r"layers\[0\] has dtype"),
        (
            {"actor": dense, "critic": layer(rng, 4, 1)},
            r"whose sizes fit in no order, must be one network: pass its part",
        ),
        (endless, "nested more than 20 deep"),
    ):
        with pytest.raises(InvalidInputError, match=match) as raised:
            NetworkPolicy.from_params(tree)
        assert str(raised.value).startswith("NetworkPolicy.from_params: ")
    with pytest.raises(InvalidInputError, match=r"NetworkPolicy.from_params: activations is no option here"):
        NetworkPolicy.from_params({"a": dense}, activations="relu")
    with pytest.raises(InvalidInputError, match=r"NetworkPolicy.from_params: activation is"):
        NetworkPolicy.from_params({"a": dense}, activation="swishy")
