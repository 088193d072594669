"""Forks: no handle of SQLite crosses one.

SQLite remembers for the whole process which locks it holds on which file. A forked child inherits that memory but not
the locks, so it would write without any. So before a fork all transactions on files end, and all connections to files
are closed; parent and child open their own when they need one. A child that is forked in the middle of a transaction
leaves it to its parent; it must not use the file, for SQLite's memory of its locks is wrong.

Nothing here concerns ``subprocess``, which starts another program, nor the start methods "spawn" and "forkserver".
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pastmaster.shield import Shield

Identity = tuple[int, ...]
"""Device and inode of a file, which may have several names."""
PATIENCE = 10.0  # seconds that a fork waits for transactions of other threads


def identity(path: Path) -> Identity | None:
    """Device and inode; None where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Releasing(Protocol):
    """What has connections to a file, and can close those that are idle."""

    identity: Identity | None  # once it was opened

    def release(self) -> None: ...


class Users:
    """Everything in this process that has connections to files, and the transactions that are open now."""

    def __init__(self) -> None:
        self._users: weakref.WeakSet[Releasing] = weakref.WeakSet()
        self._handles: weakref.WeakSet[object] = weakref.WeakSet()
        self._renew()

    def _renew(self) -> None:
        # A signal's handler may come here while its thread is here already.
        self.gate, self._listing = threading.RLock(), threading.RLock()  # the first is held during a fork
        self.open: dict[int, tuple[Releasing, int]] = {}  # user and thread of each open transaction, by a number
        self.numbers = itertools.count()

    def add(self, user: Releasing) -> None:
        """Something that will have connections."""
        with self._listing:
            self._users.add(user)

    def add_handle(self, handle: object) -> None:
        """A connection."""
        with self._listing:
            self._handles.add(handle)

    def _release(self, *, of: Identity | None = None) -> None:
        """Close the connections that are idle: all, or those to one file."""
        with self._listing:
            users = list(self._users)
        for user in users:
            if of is None or user.identity == of:
                user.release()

    def begin(self, user: Releasing) -> int:
        """Note that a transaction begins; returns its number."""
        with self.gate:
            number = next(self.numbers)
            self.open[number] = user, threading.get_ident()
            return number

    def end(self, number: int) -> None:
        """Note that it has ended."""
        self.open.pop(number, None)

    def before(self) -> None:
        """Let no transaction begin, wait for those of other threads, close the connections that are idle.

        Python swallows what is raised here, also by Ctrl-C: nothing may be left half-done by it.
        """
        with Shield():
            self.gate.acquire()
            deadline, here = time.monotonic() + PATIENCE, threading.get_ident()
            while any(thread != here for _, thread in list(self.open.values())) and time.monotonic() < deadline:
                time.sleep(0.002)
            self._release()

    @contextmanager
    def alone(self, identity: Identity) -> Iterator[bool]:
        """Whether this process has nothing open on the file in the block, so that it may be opened and closed there.

        The system takes away all locks that a process has on a file when it closes the file once, in any thread.
        """
        with self.gate:
            used = any(user.identity == identity for user, _ in list(self.open.values()))
            if not used:
                self._release(of=identity)
            yield not used

    def after_in_parent(self) -> None:
        """Go on."""
        self.gate.release()

    def after_in_child(self) -> None:
        """Go on with a gate of our own; transactions that are open are the parent's.

        So are their handles. To close one would undo the parent's work, so they are never closed here: not even the end
        of the interpreter, which lets go of everything, takes away the reference that is counted here.
        """
        for handle in list(self._handles):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
        self._renew()


USERS = Users()
if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(before=USERS.before, after_in_parent=USERS.after_in_parent, after_in_child=USERS.after_in_child)
