"""The one decorator for compiled loops.

``@kernel`` is Numba's ``njit`` with the project's settings: cached on disk, the GIL released, no fast-math.
A compiled loop and the Python it is written in give the same bits; run with ``NUMBA_DISABLE_JIT=1`` to use the
Python. The first call on a machine compiles and is slow: on a terminal one line announces it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

Function = Callable[..., Any]


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call; later processes load it from the cache."""
    compiled: Function = njit(cache=True, nogil=True)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A piece of a kernel: copied into each that uses it, since calls that pass arrays cost more than small bodies."""
    compiled: Function = njit(cache=True, nogil=True, inline="always")(function)
    return compiled


class _Announcement(event.Listener):
    """Announces once, on a terminal, that our kernels are being compiled."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func.__module__.partition(".")[0] != "pastmaster":
            return  # somebody else's function
        if not self.announced and sys.stderr.isatty():
            print("pastmaster: compiling (first run on this machine only, under a minute)", file=sys.stderr)
        self.announced = True

    def on_end(self, event: object) -> None:
        pass


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]  # numba is untyped
