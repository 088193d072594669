"""Kinds of workers. Each is given a function, takes chunks of items, and hands back futures.

A worker process keeps its mathematics on one thread: there is one worker to a core, and some libraries round
differently on several.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from pastmaster.checks import called_as
from pastmaster.errors import PastmasterError
from pastmaster.parallel import transport
from pastmaster.parallel.interrupts import not_heard_here

Function = Callable[[Any], Any]
ATTEMPTS = 3  # how often a chunk may take its worker down
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


class LostWorkerError(PastmasterError, RuntimeError):
    """A chunk of jobs made its worker die, several times, or the workers are all lost."""


@contextmanager
def in_words(caller: str, backend: str) -> Iterator[None]:
    """Whatever workers of a kind raise is one sentence that begins with the function a person called."""
    try:
        with called_as(caller):
            yield
    except LostWorkerError as error:
        raise LostWorkerError(f"{caller}: {error}") from error.__cause__
    except PastmasterError:
        raise
    except Exception as error:
        raise LostWorkerError(
            f"{caller}: backend is {backend!r}, which failed ({first_line(error)}), must be one whose workers run"
        ) from error


def first_line(error: BaseException) -> str:
    """An error of others in a few words."""
    lines = ["".join(c if c.isprintable() else " " for c in line).strip() for line in str(error).splitlines()]
    return f"{type(error).__name__}: {next(filter(None, lines), '')[:200]}".removesuffix(": ")


class Workers(ABC):
    """What ``run`` asks of a kind of workers. By default they are processes, and are sent bytes."""

    backend = ""
    """What a person calls this kind."""
    in_this_process = False
    """Whether jobs see what the driver changes while they run."""
    count: int | None = None
    """How many they are, where that is settled here."""
    lost: tuple[type[Exception], ...] = ()
    """What a future raises when its chunk has taken its worker down ``ATTEMPTS`` times."""
    check_every: float | None = None
    """The seconds after which to ``check`` again."""

    def greet(self) -> None:  # noqa: B027  nothing to do for workers of this machine
        """Refuse workers that do not have the code of this program."""

    @abstractmethod
    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Begin a chunk, now or when there is a worker for it."""

    def greeted(self, outcome: Any) -> Any:
        """What a future gave, if its worker has the code of this program."""
        return outcome

    def received(self, outcome: Any) -> list[Any]:
        """The results in what a future gave, or the error of the job that failed."""
        return transport.received(outcome)

    def check(self) -> None:  # noqa: B027
        """Raise an error if there are no workers any more."""

    @abstractmethod
    def close(self) -> None:
        """End the chunks that wait or run, and the workers that were started here."""


class Threads(Workers):
    """Threads of this process. A job that runs cannot be ended, and is waited for."""

    backend = "threads"
    in_this_process = True

    def __init__(self, function: Function, count: int) -> None:
        self.function, self.count, self.pool = function, count, ThreadPoolExecutor(count)

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        return self.pool.submit(lambda: [self.function(item) for item in items])

    def received(self, outcome: Any) -> list[Any]:
        results: list[Any] = outcome
        return results

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)


class Loky(Workers):
    """Processes of this machine, each driven by a thread of its own.

    A loky executor breaks as a whole when one of its processes dies, and takes every chunk under way with it. So each
    process has an executor to itself: when it dies, one chunk is run again, in a new one. They are not asked what they
    have: they run the interpreter and the files of the driver.
    """

    backend = "loky"

    def __init__(self, function: Function, count: int) -> None:
        loky = importlib.import_module("joblib.externals.loky.process_executor")
        self.lost = (loky.BrokenProcessPool,)
        self.count, content = count, transport.packed_function(function)
        self.processes = [_Process(loky, content) for _ in range(count)]
        self.idle: SimpleQueue[_Process] = SimpleQueue()
        for process in self.processes:
            self.idle.put(process)
        self.pool = ThreadPoolExecutor(count, initializer=not_heard_here)

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        return self.pool.submit(self._run, items)

    def _run(self, items: Sequence[Any]) -> bytes:
        content, process = transport.packed(items), self.idle.get()
        try:
            for _ in range(ATTEMPTS - 1):
                try:
                    return process.call(content)
                except self.lost:
                    continue
            return process.call(content)
        finally:
            self.idle.put(process)

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in self.processes:
            process.end()
        self.pool.shutdown(wait=True)


_starting = threading.Lock()  # joblib up to 1.4 forks here, and not every library that watches forks stands two at once


class _Process:
    """One worker process of loky, made when first needed and anew when it has died."""

    def __init__(self, loky: Any, function: bytes) -> None:
        self.loky, self.function = loky, function
        self.executor: Any = None
        self.future: Any = None
        self.ended, self.lock = False, threading.Lock()

    def call(self, items: bytes) -> bytes:
        with self.lock:
            if self.ended:
                raise CancelledError
            try:
                self.future = self._submitted(items)
            except self.loky.BrokenProcessPool:  # it has died between two chunks, when it had none
                self._drop()
                self.future = self._submitted(items)
        try:
            outcome: bytes = self.future.result()
            return outcome
        except self.loky.BrokenProcessPool:
            with self.lock:
                self._drop()
            raise

    def _submitted(self, items: bytes) -> Any:
        if self.executor is None:
            self.executor = self.loky.ProcessPoolExecutor(
                1, initializer=_begin, initargs=(self.function, os.getpid()), env=ONE_THREAD
            )
        with _starting:
            return self.executor.submit(_work_here, items)

    def end(self) -> None:
        with self.lock:
            self.ended = True
            self._drop()

    def _drop(self) -> None:
        if self.executor is not None:
            while self.future is not None and not (self.future.running() or self.future.done()):
                time.sleep(0.001)  # loky stumbles over a job that is not yet in its books
            self.executor.shutdown(wait=True, kill_workers=True)
            self.executor = None


_function = b""


def _begin(function: bytes, driver: int) -> None:
    """In a new worker: keep the function, and end when the driver does, even if it is killed."""
    global _function
    _function = function

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def _work_here(items: bytes) -> bytes:
    return transport.work(_function, items)
