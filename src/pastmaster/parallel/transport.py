"""What goes to a worker process and comes back: bytes, so that every executor carries the same.

They are cloudpickle's, which knows functions without a name, and which keeps an array read-only (the kernels would be
compiled anew for others). They go between the processes of one run only, never to or from a file.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import uuid4

import cloudpickle

from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line


@dataclass(frozen=True)
class Failure:
    """A job's error, and where in the worker it was raised."""

    error: BaseException
    where: str


def packed(content: Any) -> bytes:
    """Anything as bytes."""
    try:
        pickled: bytes = cloudpickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
        return pickled
    except Exception as error:  # pickling runs code of whatever it meets
        raise InvalidInputError(
            f"run: the jobs hold something that cannot be sent to another process ({one_line(str(error))}), must hold "
            "nothing of the kind; n_jobs=1 or a ThreadPoolExecutor as executor sends nothing"
        ) from error


def packed_function(function: Callable[[Any], Any]) -> bytes:
    """A function for ``work``, with the places where the modules it names are found."""
    return packed((sys.path, packed(function)))


def work(function: bytes, items: bytes) -> bytes:
    """In the worker: the results of a chunk, or its ``Failure``."""
    try:
        call = _unpacked_function(function)
        return packed([call(item) for item in pickle.loads(items)])
    except BaseException as error:  # SystemExit too: it ends the job, not the worker
        where = traceback.format_exc()
        try:
            failure = packed(Failure(error, where))
            pickle.loads(failure)
        except Exception:  # an error that cannot be pickled: its text is sent
            failure = packed(Failure(RuntimeError(f"{type(error).__name__}: {error}"), where))
        return failure


@dataclass(frozen=True, repr=False)
class Chunk:
    """Items and their function, to be called by a worker that has neither."""

    function: bytes
    items: bytes

    def __call__(self) -> bytes:
        return work(self.function, self.items)

    def __repr__(self) -> str:
        return "pastmaster.chunk"

    def __dask_tokenize__(self) -> str:
        """A name for the task, which dask would make from all the bytes, slowly."""
        return uuid4().hex


def received(outcome: bytes) -> list[Any]:
    """In the driver: the results of a chunk, or its error raised."""
    content = pickle.loads(outcome)
    if isinstance(content, Failure):
        content.error.add_note(f"In the worker:\n{content.where}")
        raise content.error
    results: list[Any] = content
    return results


@lru_cache(maxsize=1)
def _unpacked_function(content: bytes) -> Callable[[Any], Any]:
    """The function, made once for all chunks that a worker runs."""
    places, function = pickle.loads(content)
    sys.path.extend(place for place in places if place not in sys.path)
    call: Callable[[Any], Any] = pickle.loads(function)
    return call
