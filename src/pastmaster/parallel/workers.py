"""Kinds of workers. Each is given a function, takes chunks of items, and hands back futures.

A worker process keeps its mathematics on one thread: there is one worker to a core, and some libraries round
differently on several.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.parallel import transport

Function = Callable[[Any], Any]
ATTEMPTS = 3  # how often a chunk may take its worker down
DASK_SETTINGS = {
    "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
    "distributed.scheduler.worker-saturation": 1.0,  # a worker holds no chunk but the one it runs
}
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


class Workers(ABC):
    """What ``run`` asks of a kind of workers. By default they are processes, and are sent bytes."""

    in_this_process = False
    """Whether jobs see what the driver changes while they run."""
    count: int | None = None
    """How many they are, where that is settled here."""
    lost: tuple[type[Exception], ...] = ()
    """What a future raises when its chunk has taken its worker down ``ATTEMPTS`` times."""

    @abstractmethod
    def submit(self, items: Sequence[Any]) -> Future[Any]:
        """Begin a chunk, now or when there is a worker for it."""

    def received(self, outcome: Any) -> list[Any]:
        """The results in what a future gave, or the error of the job that failed."""
        return transport.received(outcome)

    @abstractmethod
    def close(self) -> None:
        """End the chunks that wait or run, and the workers that were started here."""


class Threads(Workers):
    """Threads of this process. A job that runs cannot be ended, and is waited for."""

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
    process has an executor to itself: when it dies, one chunk is run again, in a new one.
    """

    def __init__(self, function: Function, count: int) -> None:
        loky = importlib.import_module("joblib.externals.loky.process_executor")
        self.lost = (loky.BrokenProcessPool,)
        self.count, content = count, transport.packed_function(function)
        self.processes = [_Process(loky, content) for _ in range(count)]
        self.idle: SimpleQueue[_Process] = SimpleQueue()
        for process in self.processes:
            self.idle.put(process)
        self.pool = ThreadPoolExecutor(count, initializer=_ignore_interrupts)

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
            if self.executor is None:
                self.executor = self.loky.ProcessPoolExecutor(
                    1, initializer=_begin, initargs=(self.function, os.getpid()), env=ONE_THREAD
                )
            self.future = self.executor.submit(_work_here, items)
        try:
            outcome: bytes = self.future.result()
            return outcome
        except self.loky.BrokenProcessPool:
            with self.lock:
                self._drop()
            raise

    def end(self) -> None:
        with self.lock:
            self.ended = True
            self._drop()

    def _drop(self) -> None:
        if self.executor is not None:
            while not (self.future.running() or self.future.done()):
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


def _ignore_interrupts() -> None:
    """Ctrl-C is for the driver: what is started from this thread does not hear it."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


class Dask(Workers):
    """Workers of the dask client that is current, or else of a local cluster that lives as long as the call.

    Not by way of joblib: its dask backend gives results back only when all are there, batches jobs by how long they
    take, and cannot tell a lost worker from an error.
    """

    def __init__(self, function: Function, count: int) -> None:
        content = transport.packed_function(function)
        distributed, self.dask = _imported("distributed", "dask"), _imported("dask", "dask")
        self.lost = (distributed.KilledWorker,)
        self.cluster: Any = None
        try:
            self.client = distributed.Client.current()
        except ValueError:
            self.cluster = self._local_cluster(distributed, count)
            self.client = distributed.Client(self.cluster, set_as_default=False)
        self.running: dict[Future[Any], Any] = {}
        self.function = self._submitted(_itself, content)  # a task, not scattered data: made again if its worker dies

    def _local_cluster(self, distributed: Any, count: int) -> Any:
        try:
            with self.dask.config.set(DASK_SETTINGS):
                return distributed.LocalCluster(
                    n_workers=count, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
                    memory_limit=0, silence_logs=logging.CRITICAL,
                )  # fmt: skip
        except RuntimeError as error:  # each worker runs the main script once more, up to here if nothing forbids it
            raise InvalidInputError(
                "backend is 'dask', whose local workers do not start: a script must do its work "
                "under if __name__ == '__main__'"
            ) from error

    def _submitted(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self.dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self.client.submit(function, *arguments, pure=False)

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        done: Future[Any] = Future()
        task = self._submitted(transport.work, self.function, transport.packed(items))
        self.running[done] = task

        def hand_over(task: Any) -> None:
            try:
                done.set_result(task.result())
            except BaseException as error:
                done.set_exception(error)
            self.running.pop(done)  # the cluster may forget the result

        task.add_done_callback(hand_over)
        return done

    def close(self) -> None:
        for task in list(self.running.values()):
            task.release()  # and what nobody wants is not run; to cancel takes the scheduler seconds
        if self.cluster is not None:
            self.client.close()
            self.cluster.close()


def _itself(content: bytes) -> bytes:
    return content


class Ray(Workers):
    """Workers of the Ray cluster this program is connected to, or else of a local one that lives as long as the call.

    Not by way of joblib: Ray's backend for it changes joblib for the whole program and fails with its first worker.
    """

    def __init__(self, function: Function, count: int) -> None:
        content = transport.packed_function(function)
        self.ray = _imported("ray", "ray")
        errors = self.ray.exceptions
        self.lost = (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError)
        self.ours = not self.ray.is_initialized()
        if self.ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            self.ray.init(
                address="local", num_cpus=count, include_dashboard=False, log_to_driver=False,
                logging_level=logging.ERROR, _node_ip_address="127.0.0.1",
            )  # fmt: skip
        self.function = self.ray.put(content)
        self.work = self.ray.remote(max_retries=ATTEMPTS - 1, num_cpus=1)(transport.work)
        self.running: list[Any] = []

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        self.running.append(self.work.remote(self.function, transport.packed(items)))
        done: Future[Any] = self.running[-1].future()
        return done

    def close(self) -> None:
        for task in self.running:
            self.ray.cancel(task, force=True)
        if self.ours:
            self.ray.shutdown()


def _imported(module: str, backend: str) -> Any:
    """A package that is needed by one backend only, or how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidInputError(
            f"backend is {backend!r}, which needs the package {module}: pip install {module}"
        ) from None


BACKENDS: dict[str, Callable[[Function, int], Workers]] = {
    "threads": Threads,
    "loky": Loky,
    "dask": Dask,
    "ray": Ray,
}
