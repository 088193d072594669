"""A watch on connections to a server that owe an answer.

A connection may be dead without anybody being told: a firewall forgot it, a proxy lost its other half. Then an answer
never comes, and whoever waits for it waits for ever. So where an answer takes long, the server is asked on a second
connection what the first is doing there. If it does nothing, or nobody answers, the first is cut, which ends the
waiting. A statement that simply takes long is left alone.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

SILENT_SECONDS = 20.0
ANSWER_SECONDS = 10.0
IDLE_FOR = "3 seconds"  # an answer may be under way
STATE = "SELECT state, now() - state_change > %s::interval FROM pg_stat_activity WHERE pid = %s"


class Watch:
    """The connections that owe an answer, and a thread that looks at them, which ends with its owner."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._due: dict[int, tuple[float, Any]] = {}
        self._thread: threading.Thread | None = None

    def begin(self, number: int, connection: Any) -> None:
        """An answer is due on this connection of psycopg."""
        if self._process != os.getpid():  # forked: the thread is the parent's
            self._renew()
        with self._lock:
            self._due[number] = time.monotonic() + SILENT_SECONDS, connection
            if self._thread is None:
                self._thread = threading.Thread(target=_look, args=(weakref.ref(self),), daemon=True)
                self._thread.start()

    def end(self, number: int) -> None:
        """The answer came, or an error."""
        if self._process == os.getpid():
            with self._lock:
                self._due.pop(number, None)

    def look(self) -> None:
        """Cut those that have owed an answer for long and will not give it."""
        now = time.monotonic()
        late = [(number, deadline, owing) for number, (deadline, owing) in list(self._due.items()) if deadline < now]
        for number, deadline, connection in late:
            dead = _is_dead(connection)
            with self._lock:
                if self._due.get(number, (None,))[0] != deadline:
                    continue  # it came
                self._due[number] = time.monotonic() + SILENT_SECONDS, connection
                if dead:
                    cut(connection)


def _look(watch: weakref.ref[Watch]) -> None:
    while (here := watch()) is not None:
        here.look()
        del here
        time.sleep(SILENT_SECONDS / 10)


def _is_dead(connection: Any) -> bool:
    """Whether the server has nothing to do for a connection that waits for it, or does not answer a second one."""
    states: list[tuple[str, bool] | None] = []

    def ask() -> None:
        import psycopg

        parameters: dict[str, Any] = dict(connection.info.get_parameters())
        parameters |= {"password": connection.info.password, "connect_timeout": int(ANSWER_SECONDS)}
        try:
            with psycopg.connect(**parameters, autocommit=True) as probe:
                states.append(probe.execute(STATE, (IDLE_FOR, connection.info.backend_pid)).fetchone())
        except psycopg.Error as error:
            if "FATAL:" in str(error):  # it is there, and has no room for another: no reason to doubt the first
                states.append(("active", False))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    state = states[0] if states else None
    return state is None or (state[0] != "active" and bool(state[1]))


def cut(connection: Any) -> None:
    """End a connection under whoever waits on it: to him it is as if the server had closed it."""
    with suppress(OSError, ValueError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
