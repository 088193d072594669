"""Forks: no handle of SQLite crosses one.

SQLite remembers for the whole process which locks it holds on which file. A forked child inherits that memory but not
the locks, so it would write without any. So before a fork all transactions on files end, and all connections to files
are closed; parent and child open their own when they need one. Where a transaction does not end in time, or the fork
happens inside it, the child refuses to use the files that were in use.

Nothing here concerns ``subprocess``, which starts another program, nor the start methods "spawn" and "forkserver".
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pastmaster.errors import RepositoryError

PATIENCE = 10.0  # seconds that a fork waits for transactions of other threads


class Releasing(Protocol):
    """What has connections to a file, and can close those that are idle."""

    path: Path

    def release(self) -> None: ...


class Users:
    """Everything in this process that has connections to files, and the transactions that are open now."""

    def __init__(self) -> None:
        self.releasing: weakref.WeakSet[Releasing] = weakref.WeakSet()
        self.handles: weakref.WeakSet[object] = weakref.WeakSet()
        self.inherited: list[object] = []  # handles of the parent's, never to be closed here: that would undo its work
        self.lost: set[str] = set()  # files that were in use when this process was forked
        self._renew()

    def _renew(self) -> None:
        self.gate = threading.Lock()  # held during a fork
        self.open: dict[int, tuple[str, int]] = {}  # file and thread of each open transaction, by a number
        self.numbers = itertools.count()

    def begin(self, path: str) -> int:
        """Note that a transaction begins; returns its number."""
        with self.gate:
            if path in self.lost:
                raise RepositoryError(
                    f"{path} was in use when this process was forked, so it cannot be used safely here: "
                    'fork when nothing is running, or start processes by the method "spawn"'
                )
            number = next(self.numbers)
            self.open[number] = path, threading.get_ident()
            return number

    def end(self, number: int) -> None:
        """Note that it has ended."""
        self.open.pop(number, None)

    def before(self) -> None:
        """Let no transaction begin, wait for those of other threads, close the connections that are idle."""
        self.gate.acquire()
        self._wait(lambda path, thread: True)
        for user in list(self.releasing):
            user.release()

    @contextmanager
    def alone(self, path: str) -> Iterator[bool]:
        """Whether this process has nothing open on the file in the block, so that it may be opened and closed there.

        The system takes away all locks that a process has on a file when it closes the file once, in any thread.
        """
        with self.gate:
            self._wait(lambda found, _: found == path)
            for user in list(self.releasing):
                if str(user.path) == path:
                    user.release()
            yield all(found != path for found, _ in self.open.values())

    def _wait(self, in_the_way: Callable[[str, int], bool]) -> None:
        """Wait until no transaction is in the way; those of this very thread do not end while we wait."""
        deadline, here = time.monotonic() + PATIENCE, threading.get_ident()
        while time.monotonic() < deadline:
            if not any(in_the_way(path, thread) for path, thread in list(self.open.values()) if thread != here):
                return
            time.sleep(0.002)

    def after_in_parent(self) -> None:
        """Go on."""
        self.gate.release()

    def after_in_child(self) -> None:
        """Go on with a gate of our own; transactions that are open are the parent's."""
        self.lost |= {path for path, _ in self.open.values()}
        self.inherited += list(self.handles)
        self._renew()


USERS = Users()
if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(before=USERS.before, after_in_parent=USERS.after_in_parent, after_in_child=USERS.after_in_child)
