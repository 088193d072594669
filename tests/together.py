"""Threads that do things at the same time, and what is public of the objects that they share."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from pastmaster import PastmasterError


def at_once(*works: Callable[[], Any]) -> list[PastmasterError]:
    """Do all of this, each on a thread of its own; the library's errors are returned, others are raised."""
    errors: list[Exception] = []
    ready = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> None:
        ready.wait()
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    foreign: Sequence[Exception] = [error for error in errors if not isinstance(error, PastmasterError)]
    if foreign:
        raise ExceptionGroup("not the library's own", foreign)
    return [error for error in errors if isinstance(error, PastmasterError)]


def public_names(cls: type) -> list[str]:
    """The methods and properties of a class that a person may use, those of its own that Python calls among them."""
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls)}
    kinds = (FunctionType, classmethod, staticmethod, property)
    of_python = {name for name in found if name.startswith("__") and not hasattr(object, name)} | {"__repr__"}
    return sorted(
        name
        for name, item in found.items()
        if isinstance(item, kinds) and (name in of_python or not name.startswith("_"))
    )
