"""Graphs run by onnxruntime: on one thread of the CPU, with bounded memory and nothing from outside of the file."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line

MOST_MEMORY = 2**30  # bytes for all that graphs compute at one time in a process, besides their weights
LONGEST = 60.0  # seconds for the first observation


class Session:
    """A graph that onnxruntime has loaded; ``place`` begins errors."""

    def __init__(self, content: bytes, place: str) -> None:
        ort = runtime(place)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it would run parts of the graph
        options.log_severity_level = 4
        for key, value in (
            ("session.load_model_format", "ONNX"),
            ("session.use_env_allocators", "1"),
            ("session.use_device_allocator_for_initializers", "1"),
        ):
            options.add_session_config_entry(key, value)
        self.place = place
        with _errors_of_ours(place):
            self.session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array], options: Any = None) -> list[Array]:
        """The outputs of these names."""
        with _errors_of_ours(self.place):
            found: list[Array] = self.session.run(outputs, inputs, options)
            return found

    def try_out(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
        """The same, and it is ended between two operators where it takes too long."""
        options = runtime(self.place).RunOptions()
        clock = threading.Timer(LONGEST, lambda: setattr(options, "terminate", True))
        clock.daemon = True
        clock.start()
        try:
            return self.run(outputs, inputs, options)
        finally:
            clock.cancel()


@cache
def _runtime() -> Any:
    """onnxruntime, with a limit on the memory of all graphs of this process."""
    import onnxruntime as ort

    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    limits = {
        "max_mem": MOST_MEMORY, "arena_extend_strategy": 1, "initial_chunk_size_bytes": -1,
        "max_dead_bytes_per_chunk": -1,
    }  # fmt: skip
    with suppress(Exception):  # the program has registered one of its own before, which is used then
        ort.create_and_register_allocator(memory, ort.OrtArenaCfg(limits))
    return ort


def runtime(place: str) -> Any:
    """onnxruntime; an error where it is not installed."""
    try:
        return _runtime()
    except ImportError:
        raise InvalidInputError(f"{place} needs onnxruntime: pip install onnxruntime") from None


@contextmanager
def _errors_of_ours(place: str) -> Any:
    try:
        yield
    except Exception as error:  # onnxruntime raises classes of its own, without a common one
        why = one_line(str(error).partition(" : ")[2] or repr(error), 300)
        raise InvalidInputError(f"{place} cannot be run by onnxruntime: {why}") from None
