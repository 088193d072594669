"""Ctrl-C while workers start or end: it is heard when they have, so that no process is left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred() -> Iterator[None]:
    """The first Ctrl-C within is raised at the end of the block, the third at once: then something hangs."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[FrameType | None] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(frame)
        if len(heard) > 2:
            before(number, frame)

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            before(signal.SIGINT, heard[0])


def not_heard_here() -> None:
    """Ctrl-C is for the driver: what is started from this thread does not hear it."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
