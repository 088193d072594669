"""The one decorator for compiled loops.

``@kernel`` is Numba's ``njit`` with the project's settings: cached on disk, the GIL released, no fast-math.
A compiled loop and the Python it is written in give the same bits; run with ``NUMBA_DISABLE_JIT=1`` to use the
Python. The first call on a machine compiles and is slow: one line on stderr announces it.

A cached loop holds copies of the loops and constants of other modules that it uses. Numba looks at the date and size of
a loop's own file alone, so that after an upgrade it could run code of two versions. We look at the text of all files
that a loop may have been made of.

The cache is beside the sources, or in the home folder, or where ``NUMBA_CACHE_DIR`` says. Where none of them can be
written, every process compiles for itself, and a warning says so once. No shared folder takes their place: a cache is
code, and whoever can write it can run it.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import warnings
from collections.abc import Callable
from multiprocessing import parent_process
from pathlib import Path
from types import ModuleType
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
        _stamp(compiled)
    return compiled


def _stamp(compiled: Any) -> None:
    """Let a cached loop be used only if all files that it may have been made of are as they were."""
    file = getattr(compiled._cache, "_cache_file", None)  # there is none where nothing can be written
    if file is not None:
        digest = hashlib.sha256(Path(__file__).read_bytes())  # how it is compiled
        for name in sorted(_made_of(compiled.py_func.__module__, set())):
            digest.update(_text_of(name))
        file._source_stamp = (file._source_stamp, digest.hexdigest())


def _made_of(name: str, found: set[str]) -> set[str]:
    """A module and, of this package, all those whose names it has, as far as that goes."""
    if name in found or name.partition(".")[0] != "pastmaster" or name not in sys.modules:
        return found
    found.add(name)
    for value in tuple(vars(sys.modules[name]).values()):
        if isinstance(value, ModuleType):
            _made_of(value.__name__, found)
        elif isinstance(value, Dispatcher):
            _made_of(value.py_func.__module__, found)
    return found


@functools.cache
def _text_of(name: str) -> bytes:
    """The text of a module, if it has a file."""
    file = sys.modules[name].__file__
    return Path(file).read_bytes() if file is not None and Path(file).is_file() else b""


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
    """Announces once that our kernels are being compiled: in the program itself, not in each of its workers."""

    def __init__(self) -> None:
        self.announced = False

    def on_start(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func.__module__.partition(".")[0] != "pastmaster":
            return  # somebody else's function
        is_worker = parent_process() is not None
        if not (self.announced or is_worker or sys.stderr is None):
            how_often = "every run" if _warn_of_no_cache.cache_info().currsize else "first run on this machine only"
            print(f"pastmaster: compiling ({how_often}, under a minute)", file=sys.stderr, flush=True)
        self.announced = True

    def on_end(self, event: object) -> None:
        pass


announcement = _Announcement()
event.register("numba:compile", announcement)  # type: ignore[no-untyped-call]  # numba is untyped
