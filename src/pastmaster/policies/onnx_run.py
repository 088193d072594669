"""Graphs run by onnxruntime: on one thread of the CPU, with bounded memory and nothing from outside of the file."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError, MissingPackageError
from pastmaster.policies import onnx_trial
from pastmaster.policies.onnx_graph import Tensor, check_onnx
from pastmaster.policies.onnx_trial import MOST_MEMORY, limited_runtime, opened
from pastmaster.tables import one_line, shown

LONGEST = 60.0  # seconds for the first observation, with the start of the process that it is tried in


class Tried(NamedTuple):
    """What an output was in a first run: its type and shape, and whether nan was in it."""

    tensor: Tensor
    nan: bool


class Session:
    """A graph that onnxruntime has loaded; ``place`` begins errors."""

    def __init__(self, content: bytes, place: str) -> None:
        check_runtime(place)
        self.place = place
        with _errors_of_ours(place):
            self.session = opened(content)

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs of these names."""
        with _errors_of_ours(self.place):
            found: list[Array] = self.session.run(outputs, inputs)
            return found


def try_reading(content: bytes, place: str) -> None:
    """Refuse a file that takes too much to read, found out in a process of its own.

    What else is wrong with it is left to ``read_graph``, which says it in words.
    """
    check_runtime(place)
    found = _first_run({"outputs": [], "inputs": {}}, content, place)
    if found.get("memory"):
        raise InvalidInputError(f"{place} takes more than {MOST_MEMORY:,} bytes to read, must take less")


def tried_out(content: bytes, outputs: Sequence[str], inputs: Mapping[str, Tensor], place: str) -> list[Tried]:
    """What a graph gives for zeros, run in a process of its own that is ended where it takes too much."""
    check_runtime(place)
    zeros = {name: [str(tensor.dtype), tensor.shape] for name, tensor in inputs.items()}
    found = _first_run({"outputs": list(outputs), "inputs": zeros}, content, place)
    if found.get("memory"):
        raise InvalidInputError(
            f"{place} takes more than {MOST_MEMORY:,} bytes for an observation of zeros, must take less"
        )
    if "error" in found:
        raise _cannot_run(found["error"], place)
    return [Tried(Tensor(np.dtype(dtype), tuple(shape)), nan) for dtype, shape, nan in found["outputs"]]


def _first_run(asked: dict[str, Any], content: bytes, place: str) -> dict[str, Any]:
    """What the program answers to what is asked of a file."""
    question = json.dumps(asked | {"seconds": math.ceil(LONGEST)})
    return _answer(question.encode() + b"\n" + content, place)


def _answer(question: bytes, place: str) -> dict[str, Any]:
    """What the program ``onnx_trial`` answers."""
    paths = os.pathsep.join(path for path in sys.path if path)  # it finds the same onnxruntime as this process
    try:
        ended = subprocess.run(
            [sys.executable, "-P", onnx_trial.__file__], input=question, capture_output=True, timeout=LONGEST,
            check=False, env=os.environ | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InvalidInputError(
            f"{place} takes more than {LONGEST:g} s to be read and run once, must take less"
        ) from None
    except OSError as error:
        raise InvalidInputError(
            f"{place} is tried out by {shown(sys.executable)}, must be a Python that starts: {shown(error)}"
        ) from None
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        why = one_line(ended.stderr.decode(errors="replace")[-200:], 200)
        code = f"{ended.returncode}{why and f' ({why})'}"
        raise InvalidInputError(f"{place} ended the process that it was tried out in, with {code}, must run")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def check_runtime(place: str) -> None:
    """An error where onnx or onnxruntime is not installed."""
    check_onnx(place)
    try:
        limited_runtime()
    except ImportError:
        raise MissingPackageError(f"{place} needs onnxruntime: pip install onnx onnxruntime") from None


@contextmanager
def _errors_of_ours(place: str) -> Any:
    try:
        yield
    except Exception as error:  # onnxruntime raises classes of its own, without a common one
        raise _cannot_run(str(error) or repr(error), place) from None


def _cannot_run(error: str, place: str) -> InvalidInputError:
    why = one_line(error.partition(" : ")[2] or error, 300)
    return InvalidInputError(f"{place} cannot be run by onnxruntime: {why}")
