"""Graphs run by onnxruntime: on one thread of the CPU, with bounded memory and nothing from outside of the file."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError, MissingPackageError
from pastmaster.policies import onnx_trial
from pastmaster.policies.onnx_graph import Tensor, check_onnx
from pastmaster.policies.onnx_trial import MOST_MEMORY, limited_runtime, opened
from pastmaster.tables import one_line

LONGEST = 60.0  # seconds for the first observation, with the start of the process that it is tried in
SURE = MOST_MEMORY // 256  # bytes of a file; an empty message takes 100 times its size once it is read


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

    A small file takes little, and what else is wrong with one is left to ``read_graph``, which says it in words.
    """
    check_runtime(place)
    if len(content) > SURE:
        _first_run([], {}, content, place)


def tried_out(
    content: bytes, outputs: Sequence[str], inputs: Mapping[str, Tensor], place: str
) -> list[tuple[Tensor, bool]]:
    """What a graph gives for zeros, and whether nan is in it.

    It is run in a process of its own, which is ended where it takes too much.
    """
    check_runtime(place)
    zeros = {name: [str(tensor.dtype), tensor.shape] for name, tensor in inputs.items()}
    found = _first_run(outputs, zeros, content, place)
    if "error" in found:
        raise _cannot_run(found["error"], place)
    return [(Tensor(np.dtype(dtype), tuple(shape)), nan) for dtype, shape, nan in found["outputs"]]


def _first_run(outputs: Sequence[str], zeros: Mapping[str, Any], content: bytes, place: str) -> dict[str, Any]:
    """What the program ``onnx_trial`` answers; with no outputs it reads the file and runs nothing."""
    asked = {"outputs": list(outputs), "inputs": zeros, "seconds": math.ceil(LONGEST)}
    paths = os.pathsep.join(path for path in sys.path if path)  # it finds the same onnxruntime as this process
    try:
        ended = subprocess.run(
            [sys.executable, "-P", onnx_trial.__file__],
            input=json.dumps(asked).encode() + b"\n" + content,
            capture_output=True,
            timeout=LONGEST,
            check=False,
            env=os.environ | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise InvalidInputError(
            f"{place} takes more than {LONGEST:g} s to be read and run once, must take less"
        ) from None
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        why = one_line(ended.stderr.decode(errors="replace")[-200:], 200)
        raise InvalidInputError(
            f"{place} ended the process that it was tried out in, with {ended.returncode} ({why}), must run"
        )
    found: dict[str, Any] = json.loads(lines[-1])
    if found.get("memory"):
        most = f"{MOST_MEMORY:,} bytes"
        raise InvalidInputError(f"{place} takes more than {most} to be read and run once, must take less")
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
