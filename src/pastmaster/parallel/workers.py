"""Three kinds of workers: threads, processes of this machine, and those of an executor that the caller has.

Each is given a function once; then it takes chunks of items, and hands back futures.
"""

from __future__ import annotations

import importlib
import math
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from pastmaster.parallel import transport
from pastmaster.shield import Shield

Function = Callable[[Any], Any]

# One worker to a core, and some libraries round differently on several threads.
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
UNDER_WAY = 2**30  # bytes of functions that an executor of the caller's holds at a time
FEWEST = 16  # chunks that it has in any case
PATIENCE = 5.0  # seconds that loky may take to hand a job to a process


def workers_for(function: Function, count: int, executor: Executor | None, processes: bool) -> Workers:
    """The workers of this executor, or so many of this machine."""
    if isinstance(executor, ThreadPoolExecutor):
        return Threads(function, executor)
    if executor is not None:
        return Remote(function, executor)
    if processes:
        return Processes(function, count)
    return Threads(function, ThreadPoolExecutor(count), count)


class Workers(ABC):
    """What ``run`` asks of workers. By default they are elsewhere, and are sent bytes."""

    executor: Any
    ours = True
    """Whether they were started here, and end with ``close``."""
    in_this_process = False
    """Whether jobs see what the caller changes while they run."""
    lost: type[Exception] = Exception
    """What a future raises if its chunk did not run to its end. A job's own error comes back in the bytes."""
    most: float = math.inf
    """How many chunks may be under way: of those that are saved, a killed driver costs so many."""

    @abstractmethod
    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Begin a chunk, now or when there is a worker for it."""

    def received(self, outcome: Any) -> list[Any]:
        """The results in what a future gave, or the error of the job that failed."""
        return transport.received(outcome)

    @abstractmethod
    def close(self, futures: list[Future[Any]]) -> None:
        """End these chunks, and the workers if they were started here."""


class Threads(Workers):
    """Threads of this process. A job that runs cannot be ended, and is waited for."""

    in_this_process = True
    lost = BrokenExecutor  # all else is an error of the job

    def __init__(self, function: Function, executor: ThreadPoolExecutor, count: int | None = None) -> None:
        self.function = function
        self.executor = executor
        self.ours = count is not None
        if count is not None:
            self.most = count

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        future: Future[Any] = self.executor.submit(self._run, items)
        return future

    def _run(self, items: Sequence[Any]) -> list[Any]:
        return [self.function(item) for item in items]

    def received(self, outcome: Any) -> list[Any]:
        results: list[Any] = outcome
        return results

    def close(self, futures: list[Future[Any]]) -> None:
        wait([future for future in futures if not future.cancel()])
        if self.ours:
            self.executor.shutdown()


class Remote(Workers):
    """Workers of an executor that the caller has. It replaces those that die, or fails; it stays open."""

    ours = False

    def __init__(self, function: Function, executor: Executor) -> None:
        self.executor = executor
        self.function = transport.packed_function(function)
        self.most = max(FEWEST, UNDER_WAY // len(self.function))  # it travels with each chunk

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        future: Future[Any] = self.executor.submit(transport.Chunk(self.function, transport.packed(items)))
        return future

    def close(self, futures: list[Future[Any]]) -> None:
        for future in reversed(futures):  # the last has not begun
            future.cancel()


class Processes(Workers):
    """Processes of this machine. They are loky's, which does not run the main script again to start them."""

    def __init__(self, function: Function, count: int) -> None:
        loky = importlib.import_module("joblib.externals.loky.process_executor")
        told = transport.packed_function(function), os.getpid()
        self.executor = loky.ProcessPoolExecutor(count, initializer=_begin, initargs=told, env=ONE_THREAD)
        self.most = count

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        content = transport.packed(items)
        with _deaf_to_ctrl_c():  # processes start here
            future: Future[Any] = self.executor.submit(_work_here, content)
        return future

    def close(self, futures: list[Future[Any]]) -> None:
        with Shield():
            # A job that waits for a process would make the thread that ends them stumble: it has none in a moment.
            deadline = time.monotonic() + PATIENCE
            while not all(future.running() or future.done() for future in futures) and time.monotonic() < deadline:
                time.sleep(0.001)
            self.executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Ctrl-C is for the driver: processes and threads that are started within do not hear it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_function = b""


def _begin(function: bytes, driver: int) -> None:
    """In a new worker: keep the function, and end when the driver does, even if it is killed."""
    global _function
    _function = function

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work_here(items: bytes) -> bytes:
    return transport.work(_function, items)
