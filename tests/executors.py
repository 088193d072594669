"""Executors as users have them, and what tests ask of the world around."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PATIENCE = 240.0  # seconds after which a test gives up, on a busy machine too
PROCESSES = ["processes", "dask"]
EXECUTORS = ["threads", *PROCESSES]


@contextmanager
def opened(kind: str) -> Iterator[Executor]:
    """An executor with two workers; it ends with the block, whatever it does by then."""
    if kind == "dask":
        with dask_cluster() as executor:
            yield executor
    elif kind == "threads":
        with ThreadPoolExecutor(2) as executor:
            yield executor
    else:
        executor = processes(kind)
        try:
            yield executor
        finally:
            for process in list(executor._processes or ()):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            executor.shutdown()


def processes(kind: str) -> Any:
    if kind == "processes":
        return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
    from joblib.externals.loky import ProcessPoolExecutor as LokyExecutor

    return LokyExecutor(2)


@contextmanager
def dask_cluster() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    dask = pytest.importorskip("dask")
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),  # 3 by default, of seconds each
        distributed.LocalCluster(n_workers=2, **settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client.get_executor()


def wait_until(happened: Callable[[], object], what: str) -> None:
    """Return when something has happened."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"in {PATIENCE:.0f} seconds {what}"
        time.sleep(0.02)


def note_run(folder: Path, item: int) -> None:
    """Leave a file for this run of an item, with the worker's process id."""
    (folder / f"run-{item}-{os.getpid()}-{time.monotonic_ns()}").touch()


def items_run(folder: Path) -> list[int]:
    """The items that were begun, once for each time."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("run-*"))


def started_here() -> set[str]:
    """Process ids of the processes that ``n_jobs`` started from here, without the ones that are ending."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.read_text().split(" ", 1)
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        state, parent = rest.rsplit(")", 1)[1].split()[:2]
        if parent == str(os.getpid()) and state != "Z" and "LokyProcess" in command:
            found.add(pid)
    return found


# jobs: a worker process imports this module for them, not a whole file of tests


def square(item: int) -> int:
    time.sleep(0.002 * (item % 3))  # they do not finish in order
    return item * item


def process_of(_):
    return os.getpid()


def drawn(item: int) -> np.ndarray:
    return np.random.default_rng(item).random(3)


def deadly(folder: Path, times: int):
    """A job whose item 5 takes the worker with it, so many times."""

    def job(item):
        note_run(folder, item)
        time.sleep(0.05)
        if item == 5 and items_run(folder).count(5) <= times:
            os.kill(os.getpid(), signal.SIGKILL)
        return drawn(item)

    return job
