"""What goes to a worker process and comes back: bytes, so that every backend carries the same.

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

import cloudpickle

from pastmaster.errors import InvalidInputError


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
            f"run: the jobs hold something that cannot be sent to another process ({error}): use backend='threads'"
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
