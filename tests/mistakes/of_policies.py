"""Mistakes in calls that make policies, and in what they are asked."""

from __future__ import annotations

import math

import numpy as np
from right import NETWORK, TASK, Call

import pastmaster as pm
from pastmaster import policies

TABLE = policies.TablePolicy(np.full((3, 2), 0.5))
FUNCTION = policies.FunctionPolicy(lambda x: 0)
LAYERS = {"layers": [(np.eye(2), np.zeros(2))]}
TREE = {"tree": {"a": {"kernel": np.eye(2), "bias": np.zeros(2)}, "b": {"kernel": np.eye(2)}}, "layers": ["b", "a"]}

NETWORKS = [
    ({"layers": "x"}, "layers is 'x', must be a list"),
    ({"layers": [[1.0, 2.0], [3.0]]}, "layers[0] has shapes (1,) and (1,), must be [out, in] and"),
    ({"activation": "x"}, "activation is 'x', must be one of 'tanh', 'relu', 'leaky_relu', 'elu',"),
    ({"activation": -1}, "activation is -1, must be a list"),
    ({"head": "x"}, "head is 'x', must be one of 'argmax', 'argmaxes', 'clip', 'tanh'"),
    ({"start": "x"}, "start is 'x', must be a whole number, and 0 unless head is 'argmax'"),
    ({"nvec": "x"}, "nvec is 'x', must be a list"),
    ({"nvec": [[1.0, 2.0], [3.0]]}, "nvec is [[1.0, 2.0], [3.0]], must be empty unless head is"),
    ({"one_hot": "x"}, "one_hot is 'x', must be True or False"),
    ({"normalise": "x"}, "normalise must be a dict of mean and var, and perhaps epsilon and clip"),
]

CALLS = {
    "policies.TablePolicy": Call(policies.TablePolicy, lambda: {"table": [0, 1, 1]}).refuses(
        ({"table": "x"}, "table has shape (), must be [S] actions or [S, A] probabilities"),
        ({"table": [[1.0, 2.0], [3.0]]}, "table is ragged, must have rows of one length"),
    ),
    "policies.TablePolicy.act": Call(TABLE.act, lambda: {"observations": [0, 2], "uniforms": [0.5, 0.1]}).refuses(
        ({"observations": [3]}, "observations reach 3 .. 3, must be in 0..2"),
        ({"observations": [-1]}, "observations reach -1 .. -1, must be in 0..2"),
        ({"observations": [0.0]}, "observations have shape (1,) and dtype float64, must be [n] integers"),
        (
            {"observations": np.zeros((2, 1), int)},
            "observations have shape (2, 1) and dtype int64, must be [n] integers",
        ),
        ({"uniforms": None}, "uniforms have shape"),
        ({"observations": "x"}, "observations have shape () and dtype <U1, must be [n] integers"),
        ({"observations": [[1.0, 2.0], [3.0]]}, "observations is ragged, must have rows of one length"),
        ({"uniforms": "x"}, "uniforms have shape (), must be (2,): one number to each draw"),
        ({"uniforms": [[1.0, 2.0], [3.0]]}, "uniforms is ragged, must have rows of one length"),
    ),
    "policies.FunctionPolicy": Call(policies.FunctionPolicy, lambda: {"function": lambda x: 0}).refuses(
        ({"function": "x"}, "function is 'x', must be callable"),
        ({"batched": "x"}, "batched is 'x', must be True or False"),
    ),
    "policies.FunctionPolicy.act": Call(FUNCTION.act, lambda: {"observations": [[1.0], [2.0]]}).refuses(
        ({"observations": "x"}, "observations is 'x', must be a list"),
    ),
    "policies.NetworkPolicy": Call(policies.NetworkPolicy, lambda: LAYERS).refuses(
        ({"layers": []}, "layers is empty, must have at least one"),
        ({"layers": [(np.zeros((8, 3)), np.zeros(8))] * 2}, "layers[1] takes 3 numbers, must take 8"),
        ({"layers": [(np.zeros((2, 3)), np.zeros(3))]}, "layers[0] has shapes (2, 3) and (3,), must be [out, in]"),
        ({"layers": [(np.zeros((2, 3)),)]}, "layers[0] must be weights [out, in] and biases [out]"),
        ({"layers": [5]}, "layers[0] is 5, must be weights [out, in] and biases [out]"),
        ({"head": "argmaxes", "nvec": [3]}, "nvec is [3], must sum to the 2 outputs"),
        ({"low": [0, 0]}, "low and high are given, must be None for head 'argmax'"),
        ({"head": "tanh", "low": [-math.inf, 0], "high": [1, 1]}, "low and high must be finite for"),
        ({"one_hot": True, "normalise": {"mean": [0, 0], "var": [1, 1]}}, "one_hot is True, must be False with"),
        *NETWORKS,
        ({"low": "x"}, "low and high are given, must be None for head 'argmax'"),
        ({"high": "x"}, "low and high are given, must be None for head 'argmax'"),
    ),
    "policies.NetworkPolicy, box": Call(
        policies.NetworkPolicy, lambda: LAYERS | {"head": "clip", "low": [-1.0, -1.0], "high": [1.0, 1.0]}
    ).refuses(
        *NETWORKS,
        ({"low": "x"}, "low has dtype <U1, must hold numbers"),
        ({"low": -1}, "low must hold 2 numbers, not 1"),
        ({"high": "x"}, "high has dtype <U1, must hold numbers"),
        ({"high": -1}, "high must hold 2 numbers, not 1"),
    ),
    "policies.NetworkPolicy.act": Call(NETWORK.act, lambda: {"observations": np.ones((2, 2))}).refuses(
        ({"observations": "x"}, "observations have shape (1,), must be [1, n, ...]"),
        ({"observations": [[1.0, 2.0], [3.0]]}, "observations is ragged, must have rows of one length"),
    ),
    "policies.NetworkPolicy.outputs": Call(
        NETWORK.outputs, lambda: {"observations": np.ones((2, 2))}, says="act"
    ).refuses(
        ({"observations": "x"}, "observations have shape (1,), must be [1, n, ...]"),
        ({"observations": [[1.0, 2.0], [3.0]]}, "observations is ragged, must have rows of one length"),
    ),
    "policies.NetworkStack.act": Call(NETWORK.stack.act, lambda: {"observations": np.ones((1, 2, 2))}).refuses(
        ({"observations": "x"}, "observations have shape (), must be [1, n, ...]"),
        ({"observations": [[1.0, 2.0], [3.0]]}, "observations is ragged, must have rows of one length"),
    ),
    "policies.NetworkPolicy.from_data": Call(
        policies.NetworkPolicy.from_data, lambda: {"settings": NETWORK.settings, "weights": NETWORK.weights}
    ).refuses(
        ({"settings": "x"}, "settings is not a dict of sizes, activation, head, start, nvec, low, high, ... must be"),
        ({"weights": "x"}, "weights have shape () and dtype <U1, must be [6] float32 for layers of [2,"),
        ({"weights": [[1.0, 2.0], [3.0]]}, "weights is ragged, must have rows of one length"),
    ),
    "policies.NetworkPolicy.from_params": Call(policies.NetworkPolicy.from_params, lambda: TREE).refuses(
        ({"tree": "x"}, "tree is 'x', must be a mapping of layers"),
        ({"tree": {"zebra": 1}}, "tree holds 'zebra', must hold layers of a kernel and a bias alone:"),
        ({"layers": "x"}, "layers is 'x', must be the names of layers, in their order"),
        ({"layers": [[1.0, 2.0], [3.0]]}, "layers is [[1.0, 2.0], [3.0]], must name each of ['a', 'b']"),
    ),
    "policies.as_policy": Call(
        lambda policy: policies.as_policy(policy, "example: policy"), lambda: {"policy": [0, 1, 1]}, says="example"
    ).refuses(
        ({"policy": "x"}, "policy is 'x', and there is no such file, must be a policy: pass"),
        ({"policy": -1}, "policy is -1, must be an array, an object with a method act, a"),
    ),
    "policies.stacked": Call(policies.stacked, lambda: {"policies": [NETWORK, NETWORK]}).refuses(
        ({"policies": "x"}, "policies is 'x', must be a list"),
    ),
    "load_sb3": Call(pm.load_sb3, lambda: {"path": "policy.zip"}, runs=False).refuses(
        ({"path": 3}, "path is 3, must be the path of a .zip file that a model of Stable-Baselines3 saved"),
        ({"path": ""}, "path is '', a folder, must be a .zip file that a model of Stable-Baselines3 saved"),
        ({"trust": "x"}, "trust is 'x', must be True or False"),
        ({"activation": "x"}, "activation is 'x', must be one of 'tanh', 'relu', 'leaky_relu', 'elu',"),
        ({"activation": [[1.0, 2.0], [3.0]]}, "activation is [[1.0, 2.0], [3.0]], must be one of 'tanh',"),
        ({"algorithm": "x"}, "algorithm is 'x', must be left out without trust=True"),
    ),
    "load_onnx": Call(pm.load_onnx, lambda: {"path": "policy.onnx", "task": TASK}, runs=False).refuses(
        ({"path": 3}, "path is 3, must be the path of a file in the ONNX format"),
        ({"path": ""}, "path is '', a folder, must be a file in the ONNX format"),
    ),
}
