"""The one place that knows about workers: an ordered map over independent jobs, on threads, processes or a cluster.

Jobs are grouped in chunks, at most ``MOST_CHUNKS`` and however many workers there are, so that results and saved files
are the same on one core and on a cluster. A chunk is what a lost worker, or a killed driver, can cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from pastmaster.errors import InvalidInputError, PastmasterError
from pastmaster.parallel.saved import Saved, as_text, digest, from_text, saving_folder
from pastmaster.parallel.workers import ATTEMPTS, BACKENDS, Workers

__all__ = [
    "MOST_CHUNKS", "LostWorkerError", "Saved", "Team", "as_text", "checked_backend", "digest", "from_text", "run",
    "saving_folder", "tracked", "worker_count",
]  # fmt: skip

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_CHUNKS = 256  # few enough that handing one over (about 1 ms) and saving it (about 5 ms) do not matter


class LostWorkerError(PastmasterError, RuntimeError):
    """A chunk of jobs took its worker down, again and again."""


class Team:
    """Workers that are kept from one ``run`` of a function to the next: starting processes takes seconds.

    With one worker that is the caller there is nothing to keep. ``close`` it when done.
    """

    def __init__(self) -> None:
        self.workers: Workers | None = None

    def hire(self, function: Callable[[Any], Any], kind: str, count: int) -> Workers:
        """The workers, made at the first call."""
        if self.workers is None:
            self.workers = BACKENDS[kind](function, count)
        return self.workers

    def close(self) -> None:
        """End the workers that were started here."""
        if self.workers is not None:
            self.workers.close()
        self.workers = None


def run(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    n_jobs: int = 1,
    backend: str | None = None,
    save: Saved[Item, Result] | None = None,
    progress: bool = False,
    label: str = "",
    on_interrupt: Callable[[], None] | None = None,
    team: Team | None = None,
) -> list[Result]:
    """``[function(item) for item in items]`` on ``n_jobs`` workers (-1: one to a core), with a bar if asked.

    ``backend`` is "threads", which suit jobs that spend their time in kernels (these release the GIL); "loky", worker
    processes on this machine; "dask" or "ray", the cluster this program is connected to, which then settles the number
    of workers, or else a local one. None is threads, or the caller itself for one worker. Neither the order of the
    results nor the results depend on it. A chunk whose worker dies is run again, an error in a job reaches the caller.
    With ``save`` finished chunks are written down at once, and those found there are not run.

    Ctrl-C calls ``on_interrupt``; after that jobs on threads should end by themselves, early, and every result is
    still returned; workers of other kinds are ended, and the results of finished chunks are returned, if there are
    any. In the caller itself the jobs meet Ctrl-C. A ``team`` keeps its workers for the next call.
    """
    count, kind = worker_count(n_jobs), checked_backend(backend)
    chunks = _chunks(items)
    results = {} if save is None else save.found(chunks)
    left = {index: chunk for index, chunk in enumerate(chunks) if index not in results}
    if kind in (None, "threads") and (count == 1 or not left):
        done = ((index, [function(item) for item in chunk]) for index, chunk in left.items())
        _collect(done, len(left), results, save, progress, label)
    elif left:
        held = team or Team()
        workers = held.hire(function, kind or "threads", min(count, len(left)) if team is None else count)
        undisturbed = False
        try:
            undisturbed = _run_on(workers, left, len(chunks), results, save, progress, label, on_interrupt)
        finally:
            if team is None or not undisturbed:
                held.close()
    return [result for index in sorted(results) for result in results[index]]


def _run_on(
    workers: Workers,
    left: dict[int, Sequence[Any]],
    n_chunks: int,
    results: dict[int, list[Any]],
    save: Saved[Any, Any] | None,
    progress: bool,
    label: str,
    on_interrupt: Callable[[], None] | None,
) -> bool:
    """Run the chunks that are ``left`` and put what they give into ``results``; returns whether all of them ran.

    Where chunks are saved, workers of this machine begin no other before that: a killed driver costs each of them one.
    """
    most = len(left) if save is None or workers.count is None else workers.count
    futures: dict[int, Future[Any]] = {}
    try:
        _collect(_completed(workers, left, futures, most, n_chunks), len(left), results, save, progress, label)
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
        if workers.in_this_process:
            left = {index: chunk for index, chunk in left.items() if index not in results}
            _collect(_completed(workers, left, futures, most, n_chunks), len(left), results, None, False, label)
        if not results:
            raise
        return False
    return True


def _completed(
    workers: Workers, left: dict[int, Sequence[Any]], futures: dict[int, Future[Any]], most: int, n_chunks: int
) -> Iterator[tuple[int, list[Any]]]:
    """The chunks with their results as they finish, at most so many under way; some may have begun, in ``futures``."""
    under_way = {futures[index]: index for index in left if index in futures}
    waiting = [index for index in left if index not in futures][::-1]
    while waiting or under_way:
        while waiting and len(under_way) < most:
            index = waiting.pop()
            futures[index] = workers.submit(left[index])
            under_way[futures[index]] = index
        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
            index = under_way.pop(future)
            try:
                outcome = future.result()
            except workers.lost as error:
                raise LostWorkerError(
                    f"run: a worker died at least {ATTEMPTS} times on chunk {index + 1} of {n_chunks}: "
                    "is it out of memory?"
                ) from error
            yield index, workers.received(outcome)


def _collect(
    done: Iterator[tuple[int, list[Any]]],
    total: int,
    results: dict[int, list[Any]],
    save: Saved[Any, Any] | None,
    progress: bool,
    label: str,
) -> None:
    """Put chunks as they finish into ``results``, and on disk."""

    def kept() -> Iterator[None]:
        for index, chunk_results in done:
            results[index] = chunk_results
            if save is not None:
                save.write(index, chunk_results)
            yield

    for _ in tracked(kept(), total, progress, label):
        pass


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """The items in order, cut into at most ``MOST_CHUNKS`` pieces of nearly one size."""
    count = min(len(items), MOST_CHUNKS)
    edges = [i * len(items) // count for i in range(count + 1)] if count else [0]
    return [items[first:last] for first, last in pairwise(edges)]


def worker_count(n_jobs: int) -> int:
    """The number of workers meant by ``n_jobs``."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0 or n_jobs < -1:
        raise InvalidInputError(f"n_jobs is {n_jobs!r}, must be a positive number of workers, or -1 for one to a core")
    if n_jobs > 0:
        return int(n_jobs)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checked_backend(backend: str | None) -> str | None:
    """A backend that there is, or a refusal."""
    if backend is not None and (not isinstance(backend, str) or backend not in BACKENDS):
        raise InvalidInputError(f"backend is {backend!r}, must be one of {', '.join(BACKENDS)}, or None")
    return backend


def tracked(results: Iterable[Result], total: int, progress: bool, label: str) -> Iterable[Result]:
    """The results as they come, with a bar if asked."""
    if not progress:
        return results
    from rich.console import Console
    from rich.progress import track

    return track(results, total=total, description=label, transient=True, console=Console(stderr=True))
