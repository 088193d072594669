"""The one decorator for compiled loops.

``@kernel`` is Numba's ``njit`` with the project's settings: cached on disk, the GIL released, no fast-math.
A compiled loop and the Python it is written in give the same bits; run with ``NUMBA_DISABLE_JIT=1`` to use the
Python. The first call on a machine compiles and is slow: on a terminal one line announces it.

The cache is beside the sources, or in the home folder, or where ``NUMBA_CACHE_DIR`` says. Where none of them can be
written, every process compiles for itself, and a warning says so once. No shared folder takes their place: a cache is
code, and whoever can write it can run it.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event
from numba.core.dispatcher import Dispatcher

from pastmaster.shield import Shield

Function = Callable[..., Any]


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call; later processes load it from the cache."""
    return _compiled(function)


def inlined(function: Function) -> Function:
    """A piece of a kernel: copied into each that uses it, since calls that pass arrays cost more than small bodies."""
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    compiled: Function
    try:
        compiled = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        _warn_of_no_cache()
        compiled = njit(nogil=True, **options)(function)
    if isinstance(compiled, Dispatcher):  # not where compiling is turned off
        _shield(compiled)
    return compiled


def _shield(compiled: Any) -> None:
    """Let Ctrl-C wait while Numba compiles a function or loads it.

    An exception there ends generators that Numba reads its own tables by, after which nothing can be compiled any more,
    or is lost in a callback of LLVM, which ends the process.
    """
    compile_for = compiled._compile_for_args

    def shielded(*arguments: Any, **options: Any) -> Any:
        with Shield():
            return compile_for(*arguments, **options)

    compiled._compile_for_args = shielded


@functools.cache
def _warn_of_no_cache() -> None:
    """Once in a process."""
    warnings.warn(
        "pastmaster: compiled code cannot be kept, neither the package's folder nor the home folder can be written: "
        "every process compiles anew, which takes up to a minute; set NUMBA_CACHE_DIR to a folder of your own",
        RuntimeWarning,
        stacklevel=2,
    )


class _Announcement(event.Listener):
    """Announces once, on a terminal, that our kernels are being compiled."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func.__module__.partition(".")[0] != "pastmaster":
            return  # somebody else's function
        if not self.announced and sys.stderr.isatty():
            how_often = "every run" if _warn_of_no_cache.cache_info().currsize else "first run on this machine only"
            print(f"pastmaster: compiling ({how_often}, under a minute)", file=sys.stderr)
        self.announced = True

    def on_end(self, event: object) -> None:
        pass


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]  # numba is untyped
