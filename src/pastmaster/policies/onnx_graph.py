"""What an ONNX file may hold: one graph of the standard's operators on tensors, all of its weights in the file.

Looked at before ``onnxruntime`` sees the file. Refused are what reaches outside of it (weights in other files,
operators of others), what may run for ever or draw at random, and weights that are not there in full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pastmaster.errors import InvalidInputError
from pastmaster.policies.onnx_wire import Message, Wire, count, numbers
from pastmaster.tables import one_line, shown

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
"""The types of numbers that are known here, by ONNX's numbers."""
HELD_AS = {
    "float_data": ("float32",), "double_data": ("float64",), "int64_data": ("int64",),
    "int32_data": ("int32", "int16", "int8", "uint16", "uint8", "bool", "float16"), "uint64_data": ("uint32", "uint64"),
}  # fmt: skip
MOST_AXES = 16
EXTERNAL = 1  # a tensor's data_location
STANDARD = ("", "ai.onnx")
RANDOM = {
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
}  # fmt: skip
ENDLESS = {"Loop", "Scan", "SequenceMap"}
_OPERATORS = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu CenterCropPad Clip Compress Concat Constant
    ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Det Div Dropout
    DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu
    Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HardSigmoid
    HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax LpNormalization LpPool MatMul MatMulInteger Max MaxPool Mean MeanVarianceNormalization
    Min Mish Mod Mul Neg Not OneHot Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization
    RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RotaryEmbedding Round ScatterElements ScatterND Selu
    Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum
    Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
"""
OPERATORS = frozenset(_OPERATORS.split())
"""Operators on tensors of the ONNX standard that end, draw nothing, and keep their numbers in onnxruntime's arena."""


class Tensor(NamedTuple):
    """A tensor that goes in or out: its type and shape, None for a free axis; no shape where it is not told."""

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        axes = "?" if self.shape is None else ", ".join("n" if size is None else str(size) for size in self.shape)
        return f"{self.dtype} [{axes}]"


class Graph(NamedTuple):
    """The tensors that go in and out of a graph, by name, and the names of all that its operators take."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    taken: frozenset[str]


def read_graph(content: bytes, place: str) -> Graph:
    """What goes in and out of the graph of an ONNX file, all of which was looked at; errors begin with ``place``."""
    wire = Wire(content, place)
    model = wire.message("model", 0, len(content))
    graph = model.get("graph")
    if graph is None or not graph.get("node") or not graph.get("output"):
        raise wire.refused("it has no graph with nodes and outputs")
    if not any(entry.get("domain", "") in STANDARD for entry in model.get("opset_import", ())):
        raise wire.refused("it names no version of the ONNX standard")
    for key, what in (
        ("functions", "functions of its own, must have operators alone: onnx.inliner.inline_local_functions"),
        ("training_info", "a training graph, must have the policy's alone"),
        ("configuration", "settings of several devices, must have none"),
    ):
        if key in model:
            raise InvalidInputError(f"{place} has {what}")
    if any(entry.get("key") == "ort_config" for entry in model.get("metadata_props", ())):
        raise InvalidInputError(f"{place} has settings for onnxruntime (ort_config), must have none")
    _check_graph(graph, place)
    held = {tensor.get("name", "") for tensor in graph.get("initializer", ())}
    inputs = {name: tensor for name, tensor in _named(graph.get("input", ()), place).items() if name not in held}
    return Graph(inputs, _named(graph["output"], place), frozenset(_taken(graph)))


def _taken(graph: Message) -> Iterator[str]:
    """The names that operators take, also those of graphs within."""
    for node in graph.get("node", ()):
        yield from node.get("input", ())
        for inner in (inner for attribute in node.get("attribute", ()) for inner in _graphs(attribute)):
            yield from _taken(inner)


def _graphs(attribute: Message) -> list[Message]:
    return [*([attribute["g"]] if "g" in attribute else []), *attribute.get("graphs", ())]


def _check_graph(graph: Message, place: str) -> None:
    """Refuse a graph, and those within it, with anything that is not operators and whole weights."""
    if "sparse_initializer" in graph:
        raise InvalidInputError(f"{place} has sparse weights, must have dense ones")
    for tensor in graph.get("initializer", ()):
        _check_weights(tensor, place)
    for node in graph.get("node", ()):
        _check_operator(node, place)
        for attribute in node.get("attribute", ()):
            called = f"{node['op_type']}'s {one_line(attribute.get('name', ''))}"
            if not {"sparse_tensor", "sparse_tensors", "tp", "type_protos", "ref_attr_name"}.isdisjoint(attribute):
                raise InvalidInputError(f"{place} has {called}, which is no number, text, tensor or graph, must be one")
            for tensor in (*([attribute["t"]] if "t" in attribute else []), *attribute.get("tensors", ())):
                _check_weights(tensor, place)
            for inner in _graphs(attribute):
                _check_graph(inner, place)


def _check_operator(node: Message, place: str) -> None:
    name, domain = node.setdefault("op_type", ""), node.get("domain", "")
    if domain not in STANDARD:
        raise InvalidInputError(
            f"{place} has the operator {shown(name)} of {shown(domain)}, must have operators of the ONNX standard alone"
        )
    training = name == "Dropout" and len(node.get("input", ())) > 2
    if name in RANDOM or training:
        raise InvalidInputError(
            f"{place} has the operator {name}, which draws at random, must be the policy that acts alike each time: "
            "export the logits or the mean"
        )
    if name in ENDLESS:
        raise InvalidInputError(f"{place} has the operator {name}, which may never end, must have none that repeats")
    if name not in OPERATORS:
        raise InvalidInputError(f"{place} has the operator {shown(name)}, must be one on numbers that is known here")


def _check_weights(tensor: Message, place: str) -> None:
    """Refuse a tensor whose numbers are not all in the file, whatever it says of their shape."""
    called = f"{place}: its weights {shown(tensor.get('name', ''))}"
    if tensor.get("data_location", 0) == EXTERNAL or "external_data" in tensor:
        told = {entry.get("key"): entry.get("value", "") for entry in tensor.get("external_data", ())}
        raise InvalidInputError(
            f"{called} are in another file ({shown(told.get('location', ''))}), must all be in this one: "
            "torch.onnx.export(..., external_data=False), or onnx.save(onnx.load(path), path)"
        )
    dtype = DTYPES.get(tensor.get("data_type", 0))
    held = [key for key in (*HELD_AS, "raw_data", "string_data", "segment") if len(tensor.get(key, b""))]
    if dtype is None or not {"string_data", "segment"}.isdisjoint(held) or len(held) > 1:
        raise InvalidInputError(
            f"{called} have type {tensor.get('data_type', 0)} in {' and '.join(held) or 'nothing'}, must be numbers"
        )
    dims = numbers(tensor.get("dims", b"")[: 10 * MOST_AXES])
    key = held[0] if held else "raw_data"
    there = _numbers_there(key, tensor.get(key, b""), np.dtype(dtype).itemsize)
    wanted = -1 if min(dims, default=0) < 0 or len(dims) > MOST_AXES else math.prod(dims)
    if there != wanted or dtype not in HELD_AS.get(key, (dtype,)):
        raise InvalidInputError(
            f"{called} have shape {shown(dims)} and type {dtype}, must be as many numbers as the file has: {there:g}"
        )


def _numbers_there(key: str, held: bytes, itemsize: int) -> float:
    """How many numbers a tensor's bytes hold."""
    if key in ("int32_data", "int64_data", "uint64_data"):
        return count(held)
    width = {"raw_data": itemsize, "float_data": 4, "double_data": 8}[key]
    return len(held) / width


def _named(values: list[Message], place: str) -> dict[str, Tensor]:
    """The types and shapes of what goes in or out."""
    found = {}
    for value in values:
        name, kind = value.get("name", ""), value.get("type", {}).get("tensor_type")
        dtype = None if kind is None else DTYPES.get(kind.get("elem_type", 0))
        if dtype is None or not name or name in found:
            raise InvalidInputError(
                f"{place}: {shown(name)} is no tensor of numbers with a name of its own, must be: all that goes in and "
                "out of the graph must"
            )
        found[name] = Tensor(np.dtype(dtype), _shape(kind))
    return found


def _shape(kind: Message) -> tuple[int | None, ...] | None:
    """The sizes of axes; None for one that is free, or all of them None where none are told."""
    if "shape" not in kind:
        return None
    sizes = [dim.get("dim_value", 0) for dim in kind["shape"].get("dim", ())]
    return tuple(size if size > 0 else None for size in sizes)
