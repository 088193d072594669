"""What a worker has: its Python, its NumPy, its pastmaster. It is asked before its first chunk.

The source of this module is sent to the workers of a cluster as text, since a worker may have another Python, another
pastmaster or none. So it needs the standard library only.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

CALL = "exec(source, here := {}) or here[name](*arguments)"
"""For ``eval``, which every worker has: calls a function of this module, made from its source."""


def identity() -> dict[str, str]:
    """Versions, and a digest of pastmaster's source files as they were when this process was first asked.

    Files may change after they were imported; then the process runs the old ones, and so the old digest stays.
    """
    found = {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}", "NumPy": _version("numpy")}
    found |= {"pastmaster": _version("pastmaster"), "source digest": "missing"}
    if not found["pastmaster"].startswith("missing"):
        package: Any = sys.modules["pastmaster"]
        known = vars(package)
        if "_source_digest" not in known:
            known["_source_digest"] = _digest(Path(package.__file__).parent)
        found["source digest"] = known["_source_digest"]
    return found


def _version(package: str) -> str:
    try:
        return str(importlib.import_module(package).__version__)
    except Exception as error:  # importing runs code of whatever is found under the name
        return f"missing ({type(error).__name__}: {error})"


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{name} {len(content)};".encode() + content)
    return total.hexdigest()[:16]


def work(expected: dict[str, str], function: bytes, items: bytes) -> bytes | dict[str, str]:
    """In the worker: what ``transport.work`` returns, or what the worker has if the driver has something else."""
    found = identity()
    if found != expected:
        return found | {"place": f"process {os.getpid()} on {socket.gethostname()}"}
    transport = importlib.import_module("pastmaster.parallel.transport")
    outcome: bytes = transport.work(function, items)
    return outcome
