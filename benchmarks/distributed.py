"""The stream of ``benchmarks.scale`` over four dask workers that write to one PostgreSQL repository.

``python -m benchmarks.distributed [tasks]``; needs dask, psycopg and the wheel pgserver.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
import time
from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.scale import MAX_LOSS, tasks
from pastmaster import Repository, parallel

sys.path.append(str(Path(__file__).parent.parent / "tests"))
WORKERS, PIECE = 4, 250


def work(piece: tuple[str, int, int]) -> list[int]:
    """Store so many tasks of one seed. A worker opens the repository once: what it has read it then knows."""
    place, seed, count = piece
    return opened(place).add_many(itertools.islice(tasks(seed), count))


@cache
def opened(place: str) -> Repository:
    return Repository(place)


def streamed(place: str, total: int, executor: Executor | None = None) -> float:
    """The seconds in which workers store the tasks; nothing may be lost, and the rule must hold."""
    with Repository(place, max_loss=MAX_LOSS) as repository:
        pieces = [(place, 1000 + seed, PIECE) for seed in range(total // PIECE)]
        begun = time.perf_counter()
        ids = parallel.run(work, pieces, executor=executor, caller="benchmark")
        took = time.perf_counter() - begun
        records = repository.records()
        assert {number for piece in ids for number in piece} == {record.id for record in records}
        assert max(record.best_value - record.value for record in records) <= MAX_LOSS * (1 + 1e-9)
        workers = 1 if executor is None else WORKERS
        print(f"{workers} workers: {took:.1f} s, {1000 * took / total:.1f} ms a task, {repository}", flush=True)
    return took


def run(total: int = 2000) -> None:
    from postgres import start  # type: ignore[import-not-found]  # of the tests

    dask: Any = importlib.import_module("distributed")  # untyped

    with tempfile.TemporaryDirectory(prefix="pastmaster") as folder:
        server = start(Path(folder) / "data")
        try:
            with server.fresh_database() as one, server.fresh_database() as four:
                alone = streamed(one, total)
                with (
                    dask.LocalCluster(n_workers=WORKERS, threads_per_worker=1) as cluster,
                    dask.Client(cluster) as client,
                ):
                    together = streamed(four, total, client.get_executor())
                print(f"speed-up by {WORKERS} workers: {alone / together:.2f}")
        finally:
            server.stop()


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
