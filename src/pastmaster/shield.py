"""Ctrl-C where it would do harm: it waits until what was begun is ended.

Python raises ``KeyboardInterrupt`` between any two instructions, so also between taking a database's connection and the
block that gives it back, or while it is given back. A connection that is lost there keeps its lock, and everybody
waits. And Numba runs some Python while it hands a generator of random numbers to compiled code: an exception there ends
the process. Within a ``Shield`` Ctrl-C is noted; it is raised at once only while ``run`` runs, otherwise at the end.
"""

from __future__ import annotations

import math
import random
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

Result = TypeVar("Result")
AGAIN = 1.0  # seconds in which what Ctrl-C has ended may give back what it holds, before a second one strikes
LONGEST_PAUSE = 0.05  # seconds between two attempts: so soon is Ctrl-C heard, and a lock that was given up taken


class Shield:
    """A block in which Ctrl-C waits, unless the block says that it may strike."""

    def __init__(self) -> None:
        self._previous: Any = None
        self._noted = self._may_strike = False
        self._struck = -math.inf

    def __enter__(self) -> Shield:
        # Python raises it in the main thread only, and only where its handler is a function.
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._previous = signal.signal(signal.SIGINT, self._strike)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._previous is None:
            return
        signal.signal(signal.SIGINT, self._previous)
        if self._noted and not isinstance(error, KeyboardInterrupt):
            self._previous(signal.SIGINT, None)

    def _strike(self, number: int, frame: FrameType | None) -> None:
        if not self._may_strike:
            self._noted = True
            return
        self._noted = True  # Python swallows what is raised in a destructor, say: then it is raised at the end
        ending = frame is not None and frame.f_code is Shield.run.__code__
        if ending or time.monotonic() > self._struck + AGAIN:
            self._may_strike = not ending  # a second one must not strike what comes after ``run``
            self._struck = time.monotonic()
            self._previous(number, frame)

    def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """``work(*arguments)``, which Ctrl-C interrupts."""
        self._raise_noted()
        self._may_strike = self._previous is not None
        try:
            result = work(*arguments)
        finally:
            self._may_strike = False
        self._raise_noted()
        return result

    def wait_for(self, attempt: Callable[[], bool], seconds: float) -> bool:
        """Attempt until it succeeds, False after so many seconds; Ctrl-C ends the wait between two attempts."""
        deadline, pause = time.monotonic() + seconds, 0.0005
        while not attempt():
            self._raise_noted()
            if time.monotonic() > deadline:
                return False
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(1.5 * pause, LONGEST_PAUSE)
        return True

    def _raise_noted(self) -> None:
        if self._noted:
            self._noted = False
            self._previous(signal.SIGINT, None)


def unwrapped(error: BaseException) -> BaseException:
    """Ctrl-C that Numba has wrapped into an error of its own, or that error if it was something else."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return KeyboardInterrupt()
        cause = cause.__cause__ or cause.__context__
    return error
