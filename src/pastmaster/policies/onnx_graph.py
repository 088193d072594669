"""What an ONNX file may hold: one graph of the standard's operators on tensors, all of its weights in the file.

The ``onnx`` package reads the file, and this module decides before ``onnxruntime`` sees it. Refused are what reaches
outside of the file (weights in other files, operators of others), and what may run for ever or draw at random. The
allow-list of operators keeps out all that is not known here. What a file with allowed operators takes of time and
memory is found out in a process with limits: see ``onnx_run``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from pastmaster.errors import InvalidInputError, MissingPackageError
from pastmaster.tables import shown

DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
"""The types of numbers that are known here, by ONNX's numbers."""
EXTERNAL = 1  # a tensor's data_location
STANDARD = ("", "ai.onnx")
RANDOM = frozenset(
    [
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ]
)
ENDLESS = frozenset({"Loop", "Scan", "SequenceMap"})
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
        if self.shape is None:
            return f"{self.dtype} [?]"
        sizes = ["n" if size is None else str(size) for size in self.shape]
        return f"{self.dtype} [{', '.join(sizes)}]"


class Graph(NamedTuple):
    """The tensors that go in and out of a graph, by name, and the names of all that its operators take."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    taken: frozenset[str]


def read_graph(content: bytes, place: str) -> Graph:
    """What goes in and out of the graph of an ONNX file, all of which is allowed; errors begin with ``place``."""
    model = _parsed(content, place)
    if not model.graph.node or not model.graph.output:
        raise _unreadable(place, "it has no graph with nodes and outputs")
    _check_model(model, place)
    _check_graph(model.graph, place)
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in held]
    taken = frozenset(_taken(model.graph))
    return Graph(_named(inputs, place), _named(model.graph.output, place), taken)


def check_onnx(place: str) -> None:
    """An error where onnx is not installed."""
    if find_spec("onnx") is None:
        raise MissingPackageError(f"{place} needs onnx: pip install onnx onnxruntime")


def _parsed(content: bytes, place: str) -> Any:
    """The file as the messages of the ``onnx`` package."""
    check_onnx(place)
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise _unreadable(place, shown(error)) from None


def _unreadable(place: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{place} is no ONNX file that can be read: {why}, must be one")


def _check_model(model: Any, place: str) -> None:
    """Refuse what stands beside the graph."""
    if not any(version.domain in STANDARD for version in model.opset_import):
        raise _unreadable(place, "it names no version of the ONNX standard")
    if model.functions:
        raise InvalidInputError(
            f"{place} has functions of its own, must have operators alone: onnx.inliner.inline_local_functions"
        )
    if model.training_info:
        raise InvalidInputError(f"{place} has a training graph, must have the policy's alone")
    if any(entry.key == "ort_config" for entry in model.metadata_props):
        raise InvalidInputError(f"{place} has settings for onnxruntime (ort_config), must have none")


def _check_graph(graph: Any, place: str) -> None:
    """Refuse a graph, and those within it, with anything that is not operators and weights in this file."""
    if graph.sparse_initializer:
        raise InvalidInputError(f"{place} has sparse weights, must have dense ones")
    _check_weights(graph.initializer, place)
    for node in graph.node:
        _check_operator(node, place)
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                raise InvalidInputError(f"{place} has sparse weights, must have dense ones")
            _check_weights([attribute.t, *attribute.tensors], place)
        for inner in _inner_graphs(node):
            _check_graph(inner, place)


def _check_operator(node: Any, place: str) -> None:
    name = node.op_type
    if node.domain not in STANDARD:
        raise InvalidInputError(
            f"{place} has the operator {shown(name)} of {shown(node.domain)}, must have operators of the ONNX "
            "standard alone"
        )
    trains = name == "Dropout" and len(node.input) > 2
    if name in RANDOM or trains:
        raise InvalidInputError(
            f"{place} has the operator {name}, which draws at random, must be the policy that acts alike each time: "
            "export the logits or the mean"
        )
    if name in ENDLESS:
        raise InvalidInputError(f"{place} has the operator {name}, which may never end, must have none that repeats")
    if name not in OPERATORS:
        raise InvalidInputError(f"{place} has the operator {shown(name)}, must be one on numbers that is known here")


def _check_weights(tensors: Iterable[Any], place: str) -> None:
    """Refuse weights that are in other files."""
    for tensor in tensors:
        if tensor.data_location != EXTERNAL and not tensor.external_data:
            continue
        told = {entry.key: entry.value for entry in tensor.external_data}
        raise InvalidInputError(
            f"{place}: its weights {shown(tensor.name)} are in another file ({shown(told.get('location', ''))}), must "
            "all be in this one: torch.onnx.export(..., external_data=False), or onnx.save(onnx.load(path), path)"
        )


def _inner_graphs(node: Any) -> Iterator[Any]:
    """The graphs within an operator, such as the branches of If."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _taken(graph: Any) -> Iterator[str]:
    """The names that operators take, also those of graphs within."""
    for node in graph.node:
        yield from node.input
        for inner in _inner_graphs(node):
            yield from _taken(inner)


def _named(values: Iterable[Any], place: str) -> dict[str, Tensor]:
    """The types and shapes of what goes in or out."""
    found: dict[str, Tensor] = {}
    for value in values:
        kind = value.type.tensor_type
        dtype = DTYPES.get(kind.elem_type)
        if dtype is None or not value.name or value.name in found:
            raise InvalidInputError(
                f"{place}: {shown(value.name)} is no tensor of numbers with a name of its own, must be: all that goes "
                "in and out of the graph must"
            )
        found[value.name] = Tensor(np.dtype(dtype), _shape(kind))
    return found


def _shape(kind: Any) -> tuple[int | None, ...] | None:
    """The sizes of axes, None for one that is free; None alone where the file tells no shape."""
    if not kind.HasField("shape"):
        return None
    sizes = [dim.dim_value for dim in kind.shape.dim]
    return tuple(size if size > 0 else None for size in sizes)
