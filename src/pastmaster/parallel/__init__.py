"""An ordered map over independent jobs, on the workers of any executor, or on those of this machine.

Jobs are grouped in chunks, at most ``MOST_CHUNKS`` and however many workers there are, so that results and saved files
are the same on one core and on a cluster. A chunk is what a killed driver can cost each worker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from itertools import pairwise
from typing import Any, TypeVar

from pastmaster.checks import called_as, is_whole
from pastmaster.errors import InvalidInputError, LostWorkerError, PastmasterError
from pastmaster.parallel.saved import Saved, as_text, digest, from_text, saving_folder
from pastmaster.parallel.workers import Function, Workers, workers_for
from pastmaster.shield import Shield
from pastmaster.tables import one_line, shown

__all__ = [
    "MOST_CHUNKS",
    "Saved",
    "Team",
    "as_text",
    "check_workers",
    "digest",
    "from_text",
    "run",
    "saving_folder",
    "tracked",
    "worker_count",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

LOOK_AGAIN = 1.0  # seconds
MOST_CHUNKS = 256  # few enough that handing one over (about 1 ms) and saving it (about 5 ms) do not matter
LONGEST_REASON = 200  # letters of an executor's error


class Team:
    """Workers that are kept from one ``run`` of a function to the next, since starting processes takes seconds.

    ``close`` it when done.
    """

    def __init__(self) -> None:
        self.workers: Workers | None = None

    def hire(self, function: Function, count: int, executor: Executor | None, processes: bool) -> Workers:
        """The workers, made at the first call."""
        if self.workers is None:
            self.workers = workers_for(function, count, executor, processes)
        return self.workers

    def close(self, futures: Iterable[Future[Any]] = ()) -> None:
        """End the workers that were started here, and what is under way or waits."""
        workers = self.workers
        self.workers = None
        if workers is not None:
            workers.close(list(futures))


def run(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    n_jobs: int = 1,
    executor: Executor | None = None,
    processes: bool = False,
    save: Saved[Item, Result] | None = None,
    progress: bool = False,
    label: str = "",
    on_interrupt: Callable[[], None] | None = None,
    team: Team | None = None,
    caller: str = "parallel.run",
) -> list[Result]:
    """``[function(item) for item in items]`` on several workers.

    Neither the results nor their order depend on the workers. An error in a job reaches the caller as it is.

    Parameters
    ----------
    function, items : callable, sequence
        What to run, and on what.
    n_jobs : int
        The number of workers of this machine; -1 is one to a core, 1 is the caller itself.
    executor : concurrent.futures.Executor, optional
        Other workers instead: a ``ProcessPoolExecutor``, loky's, ``distributed.Client(...).get_executor()``. It stays
        open. Its workers are sent bytes, except for a ``ThreadPoolExecutor``, which shares what this process has.
    processes : bool
        Whether several workers of this machine are processes: for jobs in Python, which hold the GIL. Threads, which
        start at once, suit jobs that spend their time in kernels.
    save : Saved, optional
        Where finished chunks are written at once, and not run again if they are found there.
    progress, label : bool, str
        Whether to show a bar, and what it is called.
    on_interrupt : callable, optional
        Called on Ctrl-C. After that jobs on threads should end by themselves, early, and every result is still
        returned; of other workers the results of finished chunks are returned, if there are any. In the caller itself
        the jobs get the KeyboardInterrupt.
    team : Team, optional
        Keeps its workers for the next call.
    caller : str
        The function that a person called, with which errors begin.

    Raises
    ------
    LostWorkerError
        If the executor cannot go on because a worker died.

    Examples
    --------
    >>> from pastmaster import parallel
    >>> parallel.run(abs, [-1, 2, -3], n_jobs=2)
    [1, 2, 3]
    """
    check_workers(caller, n_jobs, executor)
    count = worker_count(n_jobs, caller)
    chunks = _Chunks(items, save, progress, label, caller)
    left = chunks.left
    if executor is None and (count == 1 or not left):
        chunks.collect((index, [function(item) for item in chunk]) for index, chunk in left.items())
    elif left:
        held = team or Team()
        if team is None:
            count = min(count, len(left))
        undisturbed = False
        try:
            with called_as(caller):
                workers = held.hire(function, count, executor, processes)
            undisturbed = chunks.run_on(workers, on_interrupt)
        finally:
            if team is None or not undisturbed:
                held.close(chunks.futures.values())
    return [result for index in sorted(chunks.results) for result in chunks.results[index]]


class _Chunks:
    """The chunks of one ``run``, and the results of those that are finished, by number."""

    def __init__(
        self,
        items: Sequence[Any],
        save: Saved[Any, Any] | None,
        progress: bool,
        label: str,
        caller: str,
    ) -> None:
        self.chunks = _chunks(items)
        self.save = save
        self.progress = progress
        self.label = label
        self.caller = caller
        self.results: dict[int, list[Any]] = {}
        self.futures: dict[int, Future[Any]] = {}  # of the chunks that were handed over and are not finished
        if save is None:
            return
        with called_as(caller):
            self.results = save.found(self.chunks)
            if self.left:
                save.check_writable()

    @property
    def left(self) -> dict[int, Sequence[Any]]:
        """The chunks that are not finished."""
        return {index: chunk for index, chunk in enumerate(self.chunks) if index not in self.results}

    def collect(self, finished: Iterable[tuple[int, list[Any]]]) -> None:
        """Take chunks as they finish, and write them to the disk."""

        def taken() -> Iterator[None]:
            for index, results in finished:
                self.results[index] = results
                self.futures.pop(index, None)
                if self.save is not None:
                    with called_as(self.caller):
                        self.save.write(index, results)
                yield

        for _ in tracked(taken(), len(self.left), self.progress, self.label):
            pass

    def run_on(self, workers: Workers, on_interrupt: Callable[[], None] | None) -> bool:
        """Run the chunks that are left; returns whether all of them ran."""
        try:
            self.collect(self._finished(workers))
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            on_interrupt()
            if workers.in_this_process:
                self.save = None
                self.progress = False
                self.collect(self._finished(workers))
            if not self.results:
                raise
            return False
        return True

    def _finished(self, workers: Workers) -> Iterator[tuple[int, list[Any]]]:
        """The chunks that are left with their results, as they finish."""
        left = self.left
        waiting = [index for index in left if index not in self.futures][::-1]
        unlimited = self.save is None and workers.in_this_process
        most = len(left) if unlimited else workers.most
        numbers = {future: index for index, future in self.futures.items()}
        while waiting or numbers:
            while waiting and len(numbers) < most:
                index = waiting.pop()
                numbers[self._submit(workers, index, left[index])] = index
            done = wait(numbers, LOOK_AGAIN, FIRST_COMPLETED).done
            cancelled = {future for future in numbers if future.cancelled()}  # of which ``wait`` may never hear
            for future in done | cancelled:
                yield numbers.pop(future), self._results(workers, future)

    def _submit(self, workers: Workers, index: int, items: Sequence[Any]) -> Future[Any]:
        """Hand a chunk over. Ctrl-C waits for that, so that no job and no process is forgotten."""
        try:
            with called_as(self.caller), Shield():
                self.futures[index] = workers.submit(items)
            return self.futures[index]
        except PastmasterError:
            raise
        except Exception as error:
            if workers.ours or isinstance(error, BrokenExecutor):
                raise self._lost(error) from error
            raise InvalidInputError(
                f"{self.caller}: executor is {shown(workers.executor)}, which takes no job ({_reason(error)}), "
                "must be one that was not shut down"
            ) from error

    def _results(self, workers: Workers, future: Future[Any]) -> list[Any]:
        """The results of a finished chunk; errors are those of its jobs, or of the executor."""
        try:
            outcome = future.result()
        except workers.lost as error:
            raise self._lost(error) from error
        return workers.received(outcome)

    def _lost(self, error: Exception) -> LostWorkerError:
        if self.save is None:
            next_time = "with save='a folder' the same call goes on from the chunks that were finished"
        else:
            next_time = f"the same call goes on from the chunks kept in {shown(str(self.save.folder))}"
        return LostWorkerError(f"{self.caller}: the workers failed ({_reason(error)}); {next_time}")


def _reason(error: Exception) -> str:
    """The error of an executor, in a few words."""
    return one_line(f"{type(error).__name__}: {error}", LONGEST_REASON).removesuffix(":")


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """The items in order, cut into at most ``MOST_CHUNKS`` pieces of nearly one size."""
    if not items:
        return []
    count = min(len(items), MOST_CHUNKS)
    edges = [i * len(items) // count for i in range(count + 1)]
    return [items[first:last] for first, last in pairwise(edges)]


def worker_count(n_jobs: int, caller: str = "parallel.run") -> int:
    """The number of workers meant by ``n_jobs``."""
    if not is_whole(n_jobs) or n_jobs == 0 or n_jobs < -1:
        raise InvalidInputError(
            f"{caller}: n_jobs is {shown(n_jobs)}, must be a positive number of workers, or -1 for one to a core"
        )
    if n_jobs > 0:
        return int(n_jobs)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_workers(caller: str, n_jobs: int, executor: Executor | None) -> None:
    """Refuse workers that are none, or that are asked for twice."""
    worker_count(n_jobs, caller)
    if executor is None:
        return
    if not isinstance(executor, Executor):
        raise InvalidInputError(
            f"{caller}: executor is {shown(executor)}, must be a concurrent.futures.Executor, such as "
            "ProcessPoolExecutor(4) or distributed.Client(address).get_executor()"
        )
    if n_jobs != 1:
        raise InvalidInputError(
            f"{caller}: n_jobs is {n_jobs} and executor {shown(executor)}, must be one of the two: an executor has "
            "workers of its own"
        )


def tracked(results: Iterable[Result], total: int, progress: bool, label: str) -> Iterable[Result]:
    """The results as they come, with a bar if asked."""
    if not progress:
        return results
    from rich.console import Console
    from rich.progress import track

    return track(results, total=total, description=label, transient=True, console=Console(stderr=True))
