"""ONNX files made field by field, right and wrong ones; neither onnx nor onnxruntime is needed for that."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pastmaster.policies.onnx_graph import DTYPES
from pastmaster.policies.onnx_wire import BYTES, FOUR, MESSAGES, VARINT

NUMBERS = {name: number for number, name in DTYPES.items()}


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def encoded(message: str, fields: Mapping[str, Any]) -> bytes:
    """A message; a field with a list occurs for each of it, and "extra" is put at the end as it is."""
    kinds = {kind.name: (number, kind) for number, kind in MESSAGES[message].items()}
    found = b""
    for name, value in fields.items():
        if name == "extra":
            continue
        number, kind = kinds[name]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, float):
                found += varint(number << 3 | FOUR) + struct.pack("<f", one)
            elif isinstance(one, int):
                found += varint(number << 3 | VARINT) + varint(one)
            else:
                content = encoded(kind.holds, one) if isinstance(one, Mapping) else one
                content = content.encode() if isinstance(content, str) else bytes(content)
                found += varint(number << 3 | BYTES) + varint(len(content)) + content
    return found + fields.get("extra", b"")


def tensor(array: Any, name: str = "", **more: Any) -> dict[str, Any]:
    array = np.asarray(array)
    told = {"dims": list(array.shape), "data_type": NUMBERS[str(array.dtype)], "name": name}
    return told | {"raw_data": array.tobytes()} | more


def value(name: str, dtype: str, shape: Sequence[int | str] | None) -> dict[str, Any]:
    dims = [{"dim_param": n} if isinstance(n, str) else {"dim_value": n} for n in shape or ()]
    kind = {"elem_type": NUMBERS[dtype]} | ({} if shape is None else {"shape": {"dim": dims}})
    return {"name": name, "type": {"tensor_type": kind}}


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> Any:
    return {
        "input": list(inputs), "output": list(outputs), "op_type": op_type,
        **({"domain": domain} if domain else {}), "attribute": [_attribute(*pair) for pair in attributes.items()],
    }  # fmt: skip


def _attribute(name: str, given: Any) -> dict[str, Any]:
    if isinstance(given, float):
        return {"name": name, "f": given, "type": 1}
    if isinstance(given, int):
        return {"name": name, "i": given, "type": 2}
    if isinstance(given, Mapping):
        return {"name": name, "g" if "node" in given else "t": given, "type": 5 if "node" in given else 4}
    return {"name": name, "ints": list(given), "type": 7}


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any], **more: Any) -> dict[str, Any]:
    return {"node": nodes, "name": "g", "initializer": weights, "input": inputs, "output": outputs, **more}


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any] = (), **more: Any) -> bytes:
    """A file of one graph."""
    inner = graph(nodes, inputs, outputs, list(weights))
    told = {"ir_version": 10, "graph": inner, "opset_import": [{"domain": "", "version": 20}]}
    return encoded("model", told | more)


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
