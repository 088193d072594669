"""onnxruntime as graphs are run here, and the program that reads and runs a graph first, with hard limits.

A file of many empty messages takes 100 times its size once it is read. One operator can take any time, and some keep
numbers outside of the arena that bounds memory. Neither can be stopped from inside a process. So the first reading of a
large file and the first run are in one of their own. It is this file, run as a program: it imports nothing of ours, so
that it starts quickly.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from typing import Any

MOST_MEMORY = 2**30  # bytes for all that graphs compute at one time in a process, besides their weights
BESIDES = 2**28  # bytes that onnxruntime and Python may need besides
COPIES = 4  # of the file, while onnxruntime loads it


@cache
def limited_runtime() -> Any:
    """onnxruntime, with a limit on the memory of all graphs of this process."""
    import onnxruntime as ort

    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    limits = {
        "max_mem": MOST_MEMORY,
        "arena_extend_strategy": 1,
        "initial_chunk_size_bytes": -1,
        "max_dead_bytes_per_chunk": -1,
    }
    with suppress(Exception):  # the program has registered one of its own before, which is used then
        ort.create_and_register_allocator(memory, ort.OrtArenaCfg(limits))
    return ort


def opened(content: bytes) -> Any:
    """A graph that onnxruntime has loaded: it runs on one thread of the CPU."""
    ort = limited_runtime()
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
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _limit(seconds: int, content: bytes) -> None:
    """Bound this process, as far as the system can; the seconds matter where the one that waits for it is gone."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        with open("/proc/self/statm") as sizes:
            used = int(sizes.read().split()[0]) * resource.getpagesize()
        most = used + MOST_MEMORY + BESIDES + COPIES * len(content)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def answer(asked: dict[str, Any], content: bytes) -> dict[str, Any]:
    """The type and shape of each output for inputs of zeros, and whether nan is in it; of no outputs: only read."""
    import numpy as np

    try:
        if not asked["outputs"]:
            import onnx

            onnx.ModelProto.FromString(content)
            return {"outputs": []}
        zeros = {name: np.zeros(shape, dtype) for name, (dtype, shape) in asked["inputs"].items()}
        found = opened(content).run(asked["outputs"], zeros)
        return {"outputs": [[str(x.dtype), x.shape, bool(x.dtype.kind == "f" and np.isnan(x).any())] for x in found]}
    except Exception as error:  # onnxruntime raises classes of its own, without a common one
        why = str(error) or repr(error)
        memory = isinstance(error, MemoryError) or "bad_alloc" in why or "alloc failed" in why  # NumPy, C++, protobuf
        return {"error": why, "memory": memory}


def main() -> None:
    """Read a line of JSON and a file, try it out, and write a line of JSON."""
    asked = json.loads(sys.stdin.buffer.readline())
    content = sys.stdin.buffer.read()
    limited_runtime()
    _limit(asked["seconds"], content)
    print(json.dumps(answer(asked, content)), flush=True)


if __name__ == "__main__":
    main()
