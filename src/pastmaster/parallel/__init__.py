"""The one place that knows about workers: an ordered map over independent jobs, on threads, processes or a cluster.

Jobs are grouped in chunks, at most ``MOST_CHUNKS`` and however many workers there are, so that results and saved files
are the same on one core and on a cluster. A chunk is what a lost worker, or a killed driver, can cost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import pairwise
from typing import Any, TypeVar

from pastmaster.checks import called_as, is_whole
from pastmaster.errors import InvalidInputError
from pastmaster.parallel import interrupts
from pastmaster.parallel.on_dask import Dask
from pastmaster.parallel.on_ray import Ray
from pastmaster.parallel.saved import Saved, as_text, digest, from_text, saving_folder
from pastmaster.parallel.workers import ATTEMPTS, Function, Loky, LostWorkerError, Threads, Workers, in_words
from pastmaster.tables import shown

__all__ = [
    "BACKENDS", "MOST_CHUNKS", "LostWorkerError", "Saved", "Team", "as_text", "checked_backend", "digest", "from_text",
    "run", "saving_folder", "tracked", "worker_count",
]  # fmt: skip

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_CHUNKS = 256  # few enough that handing one over (about 1 ms) and saving it (about 5 ms) do not matter
BACKENDS: dict[str, Callable[[Function, int], Workers]] = {
    "threads": Threads,
    "loky": Loky,
    "dask": Dask,
    "ray": Ray,
}


class Team:
    """Workers that are kept from one ``run`` of a function to the next, since starting processes takes seconds.

    ``close`` it when done.
    """

    def __init__(self) -> None:
        self.workers: Workers | None = None

    def hire(self, function: Callable[[Any], Any], kind: str, count: int) -> Workers:
        """The workers, made at the first call."""
        if self.workers is None:
            with interrupts.deferred():
                self.workers = BACKENDS[kind](function, count)
            self.workers.greet()
        return self.workers

    def close(self) -> None:
        """End the workers that were started here."""
        workers, self.workers = self.workers, None
        if workers is not None:
            with interrupts.deferred():
                workers.close()


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
    caller: str = "parallel.run",
) -> list[Result]:
    """``[function(item) for item in items]`` on several workers.

    Neither the results nor their order depend on the workers. A chunk whose worker dies is run again; an error in a
    job reaches the caller.

    Parameters
    ----------
    function, items : callable, sequence
        What to run, and on what.
    n_jobs : int
        The number of workers; -1 is one to a core.
    backend : "threads", "loky", "dask", "ray" or None
        Threads suit jobs that spend their time in kernels, which release the GIL; "loky" is worker processes on this
        machine; "dask" and "ray" are the cluster this program is connected to, which then settles the number of
        workers, or else a local one. None is threads, or the caller itself for one worker.
    save : Saved, optional
        Where finished chunks are written at once, and not run again if they are found there.
    progress, label : bool, str
        Whether to show a bar, and what it is called.
    on_interrupt : callable, optional
        Called on Ctrl-C. After that jobs on threads should end by themselves, early, and every result is still
        returned; workers of other kinds are ended, and the results of finished chunks are returned, if there are any.
        In the caller itself the jobs get the KeyboardInterrupt.
    team : Team, optional
        Keeps its workers for the next call.
    caller : str
        The function that a person called, with which errors begin.

    Examples
    --------
    >>> from pastmaster import parallel
    >>> parallel.run(abs, [-1, 2, -3], n_jobs=2)
    [1, 2, 3]
    """
    count, kind = worker_count(n_jobs, caller), checked_backend(backend, caller)
    chunks = _Chunks(items, save, progress, label, caller)
    left = chunks.left
    if kind in (None, "threads") and (count == 1 or not left):
        chunks.collect((index, [function(item) for item in chunk]) for index, chunk in left.items())
    elif left:
        held, kind, undisturbed = team or Team(), kind or "threads", False
        try:
            with in_words(caller, kind):
                workers = held.hire(function, kind, min(count, len(left)) if team is None else count)
            undisturbed = chunks.run_on(workers, on_interrupt)
        finally:
            if team is None or not undisturbed:
                held.close()
    return [result for index in sorted(chunks.results) for result in chunks.results[index]]


class _Chunks:
    """The chunks of one ``run``, and the results of those that are finished, by number."""

    def __init__(
        self, items: Sequence[Any], save: Saved[Any, Any] | None, progress: bool, label: str, caller: str
    ) -> None:
        self.chunks, self.save, self.progress, self.label, self.caller = _chunks(items), save, progress, label, caller
        with called_as(caller):
            self.results: dict[int, list[Any]] = {} if save is None else save.found(self.chunks)
            if save is not None and self.left:
                save.check_writable()
        self.futures: dict[int, Future[Any]] = {}

    @property
    def left(self) -> dict[int, Sequence[Any]]:
        """The chunks that are not finished."""
        return {index: chunk for index, chunk in enumerate(self.chunks) if index not in self.results}

    def collect(self, finished: Iterable[tuple[int, list[Any]]]) -> None:
        """Take chunks as they finish, and write them to the disk."""

        def taken() -> Iterator[None]:
            for index, results in finished:
                self.results[index] = results
                if self.save is not None:
                    with called_as(self.caller):
                        self.save.write(index, results)
                yield

        for _ in tracked(taken(), len(self.left), self.progress, self.label):
            pass

    def run_on(self, workers: Workers, on_interrupt: Callable[[], None] | None) -> bool:
        """Run the chunks that are left; returns whether all of them ran.

        Where chunks are saved, workers of this machine begin no other chunk before that: a killed driver costs each of
        them one.
        """
        most = len(self.chunks) if self.save is None or workers.count is None else workers.count
        try:
            self.collect(self._finished(workers, most))
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            on_interrupt()
            if workers.in_this_process:
                self.save, self.progress = None, False
                self.collect(self._finished(workers, most))
            if not self.results:
                raise
            return False
        return True

    def _finished(self, workers: Workers, most: int) -> Iterator[tuple[int, list[Any]]]:
        """The chunks that are left with their results as they finish, at most ``most`` under way."""
        left = self.left
        under_way = {self.futures[index]: index for index in left if index in self.futures}
        waiting = [index for index in left if index not in self.futures][::-1]
        checked = time.monotonic()
        while waiting or under_way:
            while waiting and len(under_way) < most:
                index = waiting.pop()
                with in_words(self.caller, workers.backend):
                    self.futures[index] = workers.submit(left[index])
                under_way[self.futures[index]] = index
            for future in wait(under_way, timeout=workers.check_every, return_when=FIRST_COMPLETED).done:
                index = under_way.pop(future)
                yield index, workers.received(self._outcome(workers, future, index))
            if workers.check_every is not None and time.monotonic() > checked + workers.check_every:
                with in_words(self.caller, workers.backend):
                    workers.check()
                checked = time.monotonic()

    def _outcome(self, workers: Workers, future: Future[Any], index: int) -> Any:
        """What a chunk's worker sent; errors are those of the worker, not of the chunk's jobs."""
        if workers.in_this_process:
            return future.result()
        with in_words(self.caller, workers.backend):
            try:
                return workers.greeted(future.result())
            except workers.lost as error:
                raise LostWorkerError(
                    f"a worker died at least {ATTEMPTS} times on chunk {index + 1} of {len(self.chunks)}: "
                    "is it out of memory?"
                ) from error


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """The items in order, cut into at most ``MOST_CHUNKS`` pieces of nearly one size."""
    count = min(len(items), MOST_CHUNKS)
    edges = [i * len(items) // count for i in range(count + 1)] if count else [0]
    return [items[first:last] for first, last in pairwise(edges)]


def worker_count(n_jobs: int, caller: str = "parallel.run") -> int:
    """The number of workers meant by ``n_jobs``."""
    if not is_whole(n_jobs) or n_jobs == 0 or n_jobs < -1:
        raise InvalidInputError(
            f"{caller}: n_jobs is {shown(n_jobs)}, must be a positive number of workers, or -1 for one to a core"
        )
    if n_jobs > 0:
        return int(n_jobs)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checked_backend(backend: str | None, caller: str = "parallel.run") -> str | None:
    """The name of a backend, or None."""
    if backend is not None and (not isinstance(backend, str) or backend not in BACKENDS):
        raise InvalidInputError(f"{caller}: backend is {shown(backend)}, must be one of {', '.join(BACKENDS)}, or None")
    return backend


def tracked(results: Iterable[Result], total: int, progress: bool, label: str) -> Iterable[Result]:
    """The results as they come, with a bar if asked."""
    if not progress:
        return results
    from rich.console import Console
    from rich.progress import track

    return track(results, total=total, description=label, transient=True, console=Console(stderr=True))
