"""ONNX files, right and wrong ones, made with the ``onnx`` package."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper = onnx.helper


def tensor(array: Any, name: str = "", **more: Any) -> Any:
    """Weights; ``more`` are fields of theirs that are set besides."""
    found = onnx.numpy_helper.from_array(np.asarray(array), name)
    for field, given in more.items():
        setattr(found, field, given)
    return found


def value(name: str, dtype: str, shape: Sequence[int | str] | None) -> Any:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, number, shape)


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs, outputs, domain=domain, **attributes)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: Sequence[Any] = ()) -> Any:
    return helper.make_graph(nodes, "g", inputs, outputs, list(weights))


def versions(**domains: int) -> list[Any]:
    """The standard's version, and those of others, with underscores for dots."""
    named = {"": 20} | {domain.replace("_", "."): version for domain, version in domains.items()}
    return [helper.make_opsetid(domain, version) for domain, version in named.items()]


def model(
    nodes: list[Any],
    inputs: list[Any],
    outputs: list[Any],
    weights: Sequence[Any] = (),
    opset_imports: Any = None,
    **more: Any,
) -> bytes:
    """A file of one graph."""
    inner = graph(nodes, inputs, outputs, weights)
    made = helper.make_model(inner, ir_version=10, opset_imports=opset_imports or versions(), **more)
    content: bytes = made.SerializeToString()
    return content


def dense(x: str, sizes: Sequence[int], rng: np.random.Generator, last: str = "out") -> tuple[list[Any], list[Any]]:
    """The nodes and weights of layers with tanh between them."""
    nodes, weights = [], []
    for k, (m, d) in enumerate(pairwise(sizes)):
        end = k == len(sizes) - 2
        weights += [
            tensor(rng.normal(size=(m, d)).astype(np.float32), f"w{k}"),
            tensor(rng.normal(size=d).astype(np.float32), f"b{k}"),
        ]
        nodes.append(node("Gemm", [x, f"w{k}", f"b{k}"], [last if end else f"y{k}"]))
        if not end:
            nodes.append(node("Tanh", [f"y{k}"], [f"h{k}"]))
        x = f"h{k}"
    return nodes, weights


def flat_model(shape: Sequence[int | str], size: int, outputs: int, *, dtype: str = "float32", then: str = "") -> bytes:
    """A network on the numbers of one input; ``then`` makes an index of its outputs ("index")."""
    rng = np.random.default_rng(0)
    nodes = [node("Cast", ["obs"], ["cast"], to=1), node("Reshape", ["cast", "flat"], ["x"])]
    layers, weights = dense("x", [size, 8, outputs], rng, "scores" if then else "out")
    weights.append(tensor(np.array([1, size]), "flat"))
    if then == "index":
        layers.append(node("ArgMax", ["scores"], ["out"], axis=1, keepdims=0))
    made = value("out", "int64" if then == "index" else "float32", None)
    return model([*nodes, *layers], [value("obs", dtype, shape)], [made], weights)


def mlp(inputs: int = 4, outputs: int = 2, **more: Any) -> bytes:
    nodes, weights = dense("obs", [inputs, 8, outputs], np.random.default_rng(0))
    return model(
        nodes, [value("obs", "float32", ["n", inputs])], [value("out", "float32", ["n", outputs])], weights, **more
    )


def counter() -> bytes:
    """A recurrent policy: it counts steps, and acts 1 in every third of an episode; observations do not matter."""
    nodes = [
        node("Add", ["count_in", "one"], ["count_out"]),
        node("Mod", ["count_out", "three"], ["left"]),
        node("Cast", ["left"], ["as_float"], to=1),
        node("ReduceSum", ["obs"], ["sum"], keepdims=1),
        node("Mul", ["sum", "zero"], ["nothing"]),
        node("Sub", ["as_float", "half"], ["zero_is_less"]),
        node("Neg", ["zero_is_less"], ["one_is_more"]),
        node("Add", ["one_is_more", "nothing"], ["b"]),
        node("Concat", ["zero", "b"], ["out"], axis=1),
    ]
    one = np.ones((1, 1))
    weights = [
        tensor(np.ones((1, 1), np.int64), "one"), tensor(np.full((1, 1), 3), "three"),
        tensor((0 * one).astype(np.float32), "zero"), tensor((0.5 * one).astype(np.float32), "half"),
    ]  # fmt: skip
    inputs = [value("obs", "float32", ["n", 4]), value("count_in", "int64", [1, 1])]
    outputs = [value("out", "float32", [1, 2]), value("count_out", "int64", [1, 1])]
    return model(nodes, inputs, outputs, weights)


def written(folder: Path, content: bytes, name: str = "policy.onnx") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
