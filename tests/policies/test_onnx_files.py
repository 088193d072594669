"""Files that are no policies, or more than that: each is refused by name before onnxruntime sees it."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
import seams
from gymnasium.spaces import Box, Discrete
from onnx_models import dense, graph, helper, mlp, model, node, onnx, tensor, value, versions, written

from pastmaster import InvalidInputError, load_onnx

pytest.importorskip("onnxruntime")
SPACES = (Box(-1, 1, (4,)), Discrete(2))
OBS, OUT = value("obs", "float32", ["n", 4]), value("out", "float32", ["n", 2])
NODES, WEIGHTS = dense("obs", [4, 8, 2], np.random.default_rng(0))


@pytest.fixture
def unrun(monkeypatch):
    """Nothing is handed to onnxruntime."""
    seams.run_no_onnx(monkeypatch)


def refused(folder: Path, content: bytes, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match) as raised:
        load_onnx(written(folder, content), SPACES)
    assert str(raised.value).startswith("load_onnx: policy.onnx")
    assert "\n" not in str(raised.value)


def with_weights(first: Any, **more: Any) -> bytes:
    return model(NODES, [OBS], [OUT], [first, *WEIGHTS[1:]], **more)


def with_node(added: Any, **more: Any) -> bytes:
    return model([*NODES[:-1], node("Gemm", ["h0", "w1", "b1"], ["y"]), added], [OBS], [OUT], WEIGHTS, **more)


def changed(content: bytes, change: Callable[[Any], None]) -> bytes:
    """The file after a change to its model."""
    loaded = onnx.load_from_string(content)
    change(loaded)
    found: bytes = loaded.SerializeToString()
    return found


def test_the_right_file_is_read(tmp_path):
    assert load_onnx(written(tmp_path, with_node(node("Identity", ["y"], ["out"]))), SPACES).act([[0.0] * 4]).shape == (
        1,
    )


# what reaches outside


EXTERNAL = {"data_location": 1}


def elsewhere(**more: Any) -> Any:
    """Weights that are said to be in another file."""
    found = tensor(np.zeros((4, 8), np.float32), "w0", **more)
    if not more:
        found.external_data.add(key="location", value="/etc/passwd")
    return found


@pytest.mark.parametrize("told", [EXTERNAL, {}])
def test_weights_in_other_files_are_refused(unrun, tmp_path, told):
    refused(tmp_path, with_weights(elsewhere(**told)), r"its weights 'w0' are in another file \(.*\), must all be")
    constant = node("Constant", [], ["out"], value=elsewhere(**told))
    refused(tmp_path, with_node(constant), "are in another file")
    inner = graph([constant], [], [OUT])
    branch = node("If", ["yes"], ["out"], then_branch=inner, else_branch=inner)
    refused(tmp_path, with_node(branch), "are in another file")


def test_an_external_file_is_not_even_looked_for(unrun, tmp_path):
    path = tmp_path / "policy.onnx"
    onnx.save(onnx.load_from_string(mlp()), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(InvalidInputError, match=r"are in another file \('weights.bin'\).*external_data=False"):
        load_onnx(path, SPACES)


@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx.ml", "evil", "ai.onnx.contrib"])
def test_operators_of_others_are_refused(unrun, tmp_path, domain):
    opsets = [*versions(), helper.make_opsetid(domain, 1)]
    added = node("Relu", ["y"], ["out"], domain=domain)
    refused(
        tmp_path, with_node(added, opset_imports=opsets), f"has the operator 'Relu' of '{domain}', must have operators"
    )
    inner = graph([added], [], [OUT])
    branch = node("If", ["yes"], ["out"], then_branch=inner, else_branch=inner)
    refused(tmp_path, with_node(branch, opset_imports=opsets), f"has the operator 'Relu' of '{domain}'")


def test_a_domain_that_is_named_and_not_used_is_none_of_our_business(tmp_path):
    opsets = versions(com_microsoft=1)
    assert load_onnx(written(tmp_path, mlp(opset_imports=opsets)), SPACES).name == "policy.onnx"


@pytest.mark.parametrize(
    "name",
    [
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        *("Loop", "Scan", "StringConcat", "SequenceInsert", "ImageDecoder", "", "\x1b[31m"),
    ],
)
def test_operators_that_draw_repeat_or_are_unknown_are_refused(unrun, tmp_path, name):
    refused(tmp_path, with_node(node(name, ["y"], ["out"])), r"has the operator .*, must")


def test_dropout_that_trains_is_refused(unrun, tmp_path):
    refused(tmp_path, with_node(node("Dropout", ["y", "ratio", "training"], ["out"])), "Dropout, which draws at random")


def test_everything_besides_the_graph_is_refused(unrun, tmp_path):
    for change, match in (
        (
            lambda loaded: loaded.functions.add(name="f"),
            "has functions of its own, must have operators alone: onnx.inl",
        ),
        (lambda loaded: loaded.training_info.add(), "has a training graph"),
        (lambda loaded: loaded.metadata_props.add(key="ort_config", value="{}"), "has settings for onnxruntime"),
        (lambda loaded: loaded.graph.sparse_initializer.add(), "has sparse weights, must have dense ones"),
        (lambda loaded: loaded.graph.node[0].attribute.add().sparse_tensor.SetInParent(), "has sparse weights"),
        (lambda loaded: loaded.graph.node[0].attribute.add().sparse_tensors.add(), "has sparse weights"),
        (lambda loaded: loaded.ClearField("opset_import"), "it names no version of the ONNX standard"),
    ):
        refused(tmp_path, changed(mlp(), change), match)


# what is not what it says


@pytest.mark.parametrize("dims", [[2**40, 2**40], [4, 9], [4], [-4, -8], [2**62, 2**62, 4], [2**63 - 1]])
def test_weights_that_are_not_there_are_refused(tmp_path, dims):
    told = tensor(np.zeros((4, 8), np.float32), "w0")
    told.ClearField("dims")
    told.dims.extend(dims)
    refused(tmp_path, with_weights(told), "cannot be run by onnxruntime|takes more than .* bytes")


def test_inputs_that_are_no_tensors_are_refused(unrun, tmp_path):
    no_tensor = "'obs' is no tensor of numbers with a name of its own"
    sequence = helper.make_tensor_sequence_value_info("obs", 1, None)
    words = helper.make_tensor_value_info("obs", 8, ["n", 4])
    for odd in (sequence, words, helper.make_empty_tensor_value_info("obs")):
        refused(tmp_path, model(NODES, [odd], [OUT], WEIGHTS), no_tensor)
    refused(tmp_path, model(NODES, [OBS, OBS], [OUT], WEIGHTS), no_tensor)
    huge = value("obs", "float32", [1, 2**50])
    refused(tmp_path, model(NODES, [huge], [OUT], WEIGHTS), "its input 'obs' takes")


# accidents


@pytest.fixture
def in_this_process(monkeypatch):
    """Files are tried out here: hundreds of processes would take minutes."""
    seams.try_onnx_here(monkeypatch)


def test_a_file_that_is_cut_anywhere_is_refused(in_this_process, tmp_path):
    content = mlp()
    for length in range(1, len(content)):
        with pytest.raises(InvalidInputError, match=r"load_onnx: policy\.onnx"):
            load_onnx(written(tmp_path, content[:length]), SPACES)
    with pytest.raises(InvalidInputError, match=r"an empty file, must be a file in the ONNX format"):
        load_onnx(written(tmp_path, b""), SPACES)


def test_random_bytes_are_refused(unrun, in_this_process, tmp_path):
    rng = random.Random(0)
    for size in (1, 10, 1000, 10**5):
        for _ in range(20):
            refused(tmp_path, rng.randbytes(size), "is no ONNX file that can be read")
    for other in (b"PK\x03\x04" + bytes(50), b"\x00\x00\x00\x00ORTM" + bytes(50), b"\x93NUMPY", b"{}", b"<html>"):
        refused(tmp_path, other, "is no ONNX file that can be read")


def test_a_file_whose_bits_were_flipped_is_refused_or_acts(in_this_process, tmp_path):
    content, rng = mlp(), random.Random(1)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(400):
        flipped = bytearray(content)
        for _ in range(rng.choice((1, 2, 8))):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        try:
            policy = load_onnx(written(tmp_path, bytes(flipped)), SPACES)
            policy.act(np.zeros((2, 4)))
            outcomes["read"] += 1
        except InvalidInputError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20  # weights change nothing but numbers; all else is refused


# bombs


def limited(contents: list[bytes], folder: str, log: str) -> None:
    """Load files with little memory to spare; writes what became of each, and how much memory was taken."""
    load_onnx(written(Path(folder), mlp()), SPACES)  # and all that it needs is loaded
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 3 * 2**30, used + 3 * 2**30))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(log, "w") as lines:
        for content in contents:
            try:
                load_onnx(written(Path(folder), content), SPACES)
                lines.write("loaded\n")
            except InvalidInputError as error:
                lines.write(f"{error}\n")
        lines.write(f"{(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024:.0f}\n")


def test_a_small_file_cannot_take_much_memory(tmp_path):
    def made(size: int) -> bytes:
        nodes = [
            node("ConstantOfShape", ["shape"], ["big"]),
            node("ReduceSum", ["big"], ["sum"], keepdims=0),
            node("Mul", ["sum", "y"], ["out"]),
        ]
        shape = tensor(np.array([size, size]), "shape")
        return model([*NODES[:-1], node("Gemm", ["h0", "w1", "b1"], ["y"]), *nodes], [OBS], [OUT], [*WEIGHTS, shape])

    tiled = model(
        [*NODES[:-1], node("Gemm", ["h0", "w1", "b1"], ["y"]), node("Tile", ["y", "times"], ["out"])], [OBS], [OUT],
        [*WEIGHTS, tensor(np.array([2**20, 2**20]), "times")],
    )  # fmt: skip
    log = tmp_path / "log"
    contents = [made(30_000), made(10**9), tiled, many_messages(12_000_000)]
    process = faults.start(limited, contents, str(tmp_path), str(log))
    process.join(faults.PATIENCE)
    assert process.exitcode == 0
    *found, grown = log.read_text().splitlines()
    assert len(found) == len(contents)
    assert all(line.startswith("load_onnx: policy.onnx") for line in found)
    assert "ConstantOfShape" in found[0]
    assert "bytes to be read and run once, must take less" in found[3]
    assert int(grown) < 300  # MiB


def many_messages(n: int) -> bytes:
    """A file of n empty operators: 2 bytes each, and 150 once they are read."""
    inner = onnx.GraphProto(name="\0\0" * n).SerializeToString()
    return b"\x3a" + inner[1 : len(inner) - 2 * n] + b"\x0a\x00" * n


def on_large(shape: list[int], *nodes: Any, **made: Any) -> bytes:
    """A file that makes a large tensor, "big", and acts after the nodes have made "kept" of it."""
    then = [
        node("Shape", ["kept"], ["sizes"]),
        node("Cast", ["sizes"], ["floats"], to=1),
        node("ReduceMin", ["floats"], ["least"], keepdims=0),
        node("Mul", ["least", "y"], ["out"]),
    ]
    first = [*NODES[:-1], node("Gemm", ["h0", "w1", "b1"], ["y"]), node("ConstantOfShape", ["shape"], ["big"], **made)]
    return model([*first, *nodes, *then], [OBS], [OUT], [*WEIGHTS, tensor(np.array(shape), "shape")])


def test_memory_outside_of_the_arena_is_limited_too(tmp_path, monkeypatch):
    """NonZero keeps 8 bytes for each axis and element in memory of its own: this file of 600 bytes took 3.9 GB."""
    many = on_large([60_000_000] + [1] * 7, node("NonZero", ["big"], ["kept"]), value=tensor(np.array([True])))
    refused(tmp_path, many, "has the operator 'NonZero', must be one on numbers that is known here")
    seams.allow_onnx_operator(monkeypatch, "NonZero")  # another operator of that kind
    refused(tmp_path, many, "takes more than 1,073,741,824 bytes to be read and run once, must take less")


def test_an_operator_that_does_not_end_is_ended(tmp_path, monkeypatch):
    seams.limit_onnx(monkeypatch, 3.0)
    pool = on_large([1, 1, 4000, 4000], node("MaxPool", ["big"], ["kept"], kernel_shape=[2000, 2000]))
    start = time.monotonic()
    refused(tmp_path, pool, "takes more than 3 s to be read and run once, must take less")
    assert time.monotonic() - start < 30


def test_a_process_that_cannot_try_a_file_out_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    refused(tmp_path, mlp(), r"ended the process that it was tried out in, with 1 \(\), must run")


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = written(tmp_path, b"")
    with path.open("r+b") as file:
        file.truncate(2**28 + 1)  # a hole: it takes no room on the disk
    with pytest.raises(InvalidInputError, match=r"policy\.onnx has 268,435,457 bytes, must have at most 268,435,456"):
        load_onnx(path, SPACES)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"load_onnx: path is .*a folder, must be a file in the ONNX format"):
        load_onnx(tmp_path, SPACES)
    with pytest.raises(InvalidInputError, match=r"load_onnx: path is .*which does not exist, must be"):
        load_onnx(tmp_path / "none.onnx", SPACES)
