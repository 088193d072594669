from __future__ import annotations

import os
import threading
import time

import pytest

from pastmaster import InvalidInputError, parallel


@pytest.mark.parametrize("n_jobs", [1, 2, 7, -1])
@pytest.mark.parametrize("progress", [False, True])
def test_results_come_in_order(n_jobs, progress):
    def slow_square(x: int) -> int:
        time.sleep(0.001 * (10 - x))  # the first is the last to finish
        return x * x

    assert parallel.run(slow_square, range(10), n_jobs=n_jobs, progress=progress) == [x * x for x in range(10)]


def test_there_are_as_many_workers_as_asked_for():
    together = threading.Barrier(3, timeout=240)  # breaks unless three jobs run at once
    assert len(parallel.run(lambda _: together.wait(), range(3), n_jobs=3)) == 3
    names = set(parallel.run(lambda _: threading.current_thread().name, range(20), n_jobs=1))
    assert names == {threading.current_thread().name}


def test_minus_one_is_one_to_a_core():
    assert parallel.worker_count(-1) == len(os.sched_getaffinity(0))
    assert parallel.worker_count(3) == 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_job_reaches_the_caller(n_jobs):
    def fails_at_three(x: int) -> int:
        if x == 3:
            raise ZeroDivisionError("job 3")
        return x

    with pytest.raises(ZeroDivisionError, match="job 3"):
        parallel.run(fails_at_three, range(6), n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [0, -2, 1.0, "1", None, False])
def test_a_wrong_number_of_workers_is_refused(n_jobs):
    with pytest.raises(InvalidInputError, match=r"n_jobs is .*, must be a positive number of workers, or -1"):
        parallel.run(abs, [1], n_jobs=n_jobs)


def test_no_jobs_give_no_results():
    assert parallel.run(abs, [], n_jobs=2) == []
