"""Group commit: one thread does all operations that have come in meanwhile in one transaction, and then answers them.

An answer is sent when its transaction is on the disk. While one is written, the next operations gather. Any number of
processes may serve one database: each transaction locks the rows of its tasks, and first does again what the others did
since (``store.catch_up``). After a failure the tasks are read anew, as what is in memory may be ahead of the database.

Time is the task's own: it counts seconds while a process serves the task and episodes are open. A computer's clock that
is set, and the time while nobody serves, change no deadline. Each process counts by itself. A sweep writes what it has
counted where nobody else has, so that processes differ by little more than the time between two sweeps.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import sqlalchemy as sa

from pastmaster.errors import DamagedError, PastmasterError
from pastmaster.repository.database import Database
from pastmaster.repository.postgres import Server
from pastmaster.service import store
from pastmaster.service.decider import Decider, Row
from pastmaster.service.operations import Ask, Expire, Operation, Refused, Turn, away
from pastmaster.service.schema import tasks

MOST_AT_ONCE = 1000  # episodes in one transaction, as far as its last request does not bring more
LONG = 10.0  # seconds of a transaction after which the database counts as away
PATIENCE = 0.25  # of a transaction's time, that it waits for those who were just answered
Answer = Any
log = logging.getLogger("pastmaster.service")


class Waiting(NamedTuple):
    """An operation, and who waits for its answer."""

    operation: Operation
    future: asyncio.Future[Answer]


class Engine:
    """Does operations on the tasks of a service's database.

    Parameters
    ----------
    database : Database
    sweep : float
        Seconds between two looks for episodes whose lease is over.
    clock : callable
        Seconds that only grow.
    committed : callable
        Called after each transaction with the number of operations in it and the seconds it took.
    """

    def __init__(
        self,
        database: Database,
        *,
        sweep: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        committed: Callable[[int, float], None] = lambda count, seconds: None,
    ) -> None:
        if isinstance(database.backend, Server):
            database.backend.share()
        self.database = database
        self.expired = 0
        self.failure: str | None = None  # of the last transaction
        self._missed = False  # whether the last sweep failed
        self._began: float | None = None  # when the transaction began that is not over yet
        self._sweep_every, self._clock, self._committed = sweep, clock, committed
        self._transaction, self._last = 0.0, 0  # seconds of one, on average; operations in the last
        self._deciders: dict[int, Decider] = {}
        self._times: dict[int, tuple[float, float]] = {}  # of each task: its time, and ours, when it was last looked at
        self._queue: SimpleQueue[Waiting | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="pastmaster-writer", daemon=True)
        self._thread.start()

    async def do(self, operation: Operation) -> Answer:
        """Do an operation and wait for its answer; ``Refused`` is raised."""
        if self._closed:
            raise Refused(503, "stopping", "serve: the service is stopping, try again later")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.put(Waiting(operation, future))
        return await future

    def close(self) -> None:
        """Do what has come in, write the time, then end."""
        first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        self._thread.join()
        if first:
            self._look()

    @property
    def healthy(self) -> bool:
        """Whether the last transaction went well, none has taken long, and there is somebody to do the next."""
        began = self._began
        soon = began is None or time.perf_counter() - began < LONG
        works = self._closed or self._thread.is_alive()
        return self.failure is None and not self._missed and soon and works

    def _run(self) -> None:
        """The thread: gather, do, answer. Between two batches of expired episodes others have their turn."""
        swept, ended, late = self._clock(), False, list[str]()
        while not ended:
            batch, ended = self._gather(0.0 if late else self._sweep_every)
            if batch:
                self._deliver(batch, self._answers([waiting.operation for waiting in batch]))
            if late:
                late = self._expire(late)
            elif self._clock() - swept >= self._sweep_every:
                swept = self._clock()
                late = self._look()

    def _gather(self, seconds: float) -> tuple[list[Waiting], bool]:
        """What has come in, within some seconds, and whether it was the last.

        Those who were just answered ask again at once. So where others wait already, it waits a little for them: a part
        of what a transaction takes, in which all of them then go together.
        """
        batch: list[Waiting] = []
        size, until = 0, 0.0
        while size < MOST_AT_ONCE:
            try:
                found = self._queue.get(timeout=seconds)
            except Empty:
                break
            if found is None:
                return batch, True
            batch.append(found)
            size += found.operation.size
            until = until or time.perf_counter() + PATIENCE * self._transaction
            seconds = max(0.0, until - time.perf_counter()) if len(batch) < self._last else 0.0
        return batch, False

    def sweep(self) -> None:
        """Let the episodes expire whose lease is over."""
        late = self._look()
        while late:
            late = self._expire(late)

    def _expire(self, late: list[str]) -> list[str]:
        """Let some of the episodes of these tasks expire; returns the tasks that may have more."""
        answers = self._answers([Expire(name) for name in late])
        counts = {name: n for name, n in zip(late, answers, strict=True) if isinstance(n, int) and n}
        self.expired += sum(counts.values())
        return list(counts)

    def _look(self) -> list[str]:
        """The tasks that have episodes whose lease is over. Writes the time of tasks, and forgets those removed."""
        try:
            late, clocks = self.database.read(self._deadlines)
            if clocks:
                self.database.write(lambda connection: store.count_on(connection, clocks))
        except Exception:  # of whatever kind: this thread must go on, and the next look may succeed
            self._missed, late = True, []
        else:
            self._missed = False
        return late

    def _deadlines(self, connection: sa.Connection) -> tuple[list[str], dict[int, float]]:
        """The names of tasks with overdue episodes, and by id the time of those whose time is to be written."""
        late, clocks = list[str](), dict[int, float]()
        rows = {row["id"]: dict(row) for row in connection.execute(sa.select(tasks)).mappings()}
        for held in (self._times, self._deciders):
            for number in held.keys() - rows.keys():
                del held[number]
        for number, row in rows.items():
            first = store.next_open(connection, number, 1)
            if not first:  # nothing waits for time to pass
                self._times[number] = row["clock"], self._clock()
                continue
            now = self._now(row)
            if first[0]["deadline"] <= now:
                late.append(row["name"])
            if now > row["clock"]:
                clocks[number] = now
        return late, clocks

    def _answers(self, operations: Sequence[Operation]) -> list[Answer]:
        """Do operations in one transaction; whatever fails is their answer."""
        began = self._began = time.perf_counter()
        writes = any(operation.writes for operation in operations)
        try:
            if writes:
                answers = self.database.write(lambda c: self._work(c, operations, True))
            else:
                answers = self.database.read(lambda c: self._work(c, operations, False))
        except PastmasterError as error:
            self.failure = str(error)
            log.error("failed", extra={"fields": {"error": self.failure}})
            return [away()] * len(operations)
        except Exception as error:  # of whatever kind: those who wait must hear of it
            self.failure = repr(error)
            return [error] * len(operations)
        finally:
            self._began = None
        self.failure = None
        for decider in self._deciders.values():
            if decider.changed:
                decider.written()
        if writes:
            seconds = time.perf_counter() - began
            self._transaction += (seconds - self._transaction) / 8.0
            self._last = len(operations)
            self._committed(len(operations), seconds)
        return answers

    def _work(self, connection: sa.Connection, operations: Sequence[Operation], writes: bool) -> list[Answer]:
        """The work of a transaction; it may be done again if a server went away meanwhile."""
        places: dict[str, list[int]] = {}
        for place, operation in enumerate(operations):
            places.setdefault(operation.task, []).append(place)
        rows, answers = store.task_rows(connection, places, locked=writes), list[Answer]([None]) * len(operations)
        for name, here in places.items():
            found = self._of_task(connection, name, rows.get(name), [operations[place] for place in here], writes)
            for place, answer in zip(here, found, strict=True):
                answers[place] = answer
        return answers

    def _of_task(
        self, connection: sa.Connection, name: str, row: Row | None, operations: Sequence[Operation], writes: bool
    ) -> list[Answer]:
        """Do operations on one task, and write what they changed."""
        if row is None:
            return [Refused(404, "no_task", f"serve: there is no task {name}")] * len(operations)
        try:
            decider = self._current(connection, row)
        except DamagedError as error:
            return [Refused(500, "damaged", f"serve: {error}")] * len(operations)
        decider.dirty = writes
        turn, answers = self._turn_of(connection, decider, row, operations), list[Answer]()
        for operation in operations:
            try:
                answers.append(operation.run(turn))
            except Refused as refused:
                answers.append(refused)
        if decider.changed:
            store.write(connection, decider, turn.now)
        else:
            decider.dirty = False
        return answers

    def _turn_of(self, connection: sa.Connection, decider: Decider, row: Row, operations: Sequence[Operation]) -> Turn:
        """What the operations on one task must know."""
        numbers = {n for operation in operations for n in operation.numbers if not decider.is_open(n)}
        keys = {o.key for o in operations if isinstance(o, Ask) and o.key is not None}
        rows = store.episode_rows(connection, decider.id, numbers) if numbers else {}
        keyed = store.keyed_rows(connection, decider.id, keys) if keys else {}
        return Turn(decider, connection, self._now(row), rows, keyed)

    def _current(self, connection: sa.Connection, row: Row) -> Decider:
        """The task as the database has it now."""
        decider = self._deciders.pop(row["id"], None)
        if decider is not None and not decider.dirty and decider.events <= row["events"]:
            with suppress(DamagedError):  # what is in memory may be of events that a server has lost
                store.catch_up(connection, decider, row)
                return self._deciders.setdefault(row["id"], decider)
        decider = store.load(connection, row)
        store.catch_up(connection, decider, row)
        return self._deciders.setdefault(row["id"], decider)

    def _now(self, row: Row) -> float:
        """The time of a task: what others have written, or what we have counted since we looked."""
        ours = self._clock()
        before, then = self._times.get(row["id"], (row["clock"], ours))
        now = max(float(row["clock"]), before + ours - then)
        self._times[row["id"]] = now, ours
        return now

    def _deliver(self, batch: Sequence[Waiting], answers: Sequence[Answer]) -> None:
        """Hand out the answers, to each event loop all at once."""
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Answer], Answer]]] = {}
        for (_, future), answer in zip(batch, answers, strict=True):
            loops.setdefault(future.get_loop(), []).append((future, answer))
        for loop, pairs in loops.items():
            with suppress(RuntimeError):  # it is closed: nobody waits any more
                loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: Sequence[tuple[asyncio.Future[Answer], Answer]]) -> None:
    for future, answer in pairs:
        if not future.done():
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
