"""The one place that knows about workers: an ordered map over independent jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from oldhand.errors import InvalidInputError

Item = TypeVar("Item")
Result = TypeVar("Result")


def run(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    n_jobs: int = 1,
    progress: bool = False,
    label: str = "",
    on_interrupt: Callable[[], None] | None = None,
) -> list[Result]:
    """``[function(item) for item in items]`` on ``n_jobs`` threads (-1: one to a core), with a bar if asked.

    Threads suit jobs that spend their time in kernels, which release the GIL. The order of the results, and the
    results themselves, do not depend on the number of workers. Ctrl-C calls ``on_interrupt``, after which jobs should
    end by themselves, early, and every result is still returned; on one worker the jobs themselves meet Ctrl-C.
    """
    workers = worker_count(n_jobs)
    if workers == 1:
        return list(tracked(map(function, items), len(items), progress, label))
    pool = ThreadPoolExecutor(workers)
    futures = [pool.submit(function, item) for item in items]
    try:
        return list(tracked((future.result() for future in futures), len(items), progress, label))
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def worker_count(n_jobs: int) -> int:
    """The number of workers meant by ``n_jobs``."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0 or n_jobs < -1:
        raise InvalidInputError(f"n_jobs is {n_jobs!r}, must be a positive number of workers, or -1 for one to a core")
    return len(os.sched_getaffinity(0)) if n_jobs == -1 and hasattr(os, "sched_getaffinity") else abs(int(n_jobs))


def tracked(results: Iterable[Result], total: int, progress: bool, label: str) -> Iterable[Result]:
    """The results as they come, with a bar if asked."""
    if not progress:
        return results
    from rich.progress import track

    return track(results, total=total, description=label, transient=True)
