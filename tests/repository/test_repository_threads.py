"""Threads that share one repository and write to it, with a ``max_loss`` and without: what they store is true."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from faults import repetitions, report, small_task
from repository_reference import wrong_values
from together import at_once

from pastmaster import Repository, cross_values, solve

THREADS = 4
LIMITS = (0.05, None)
BESIDE = repetitions(125, 12)  # tasks of each thread that adds beside others that do something else
RUNS = range(repetitions(10, 1))

pytestmark = [pytest.mark.usefixtures("quick_switches"), pytest.mark.repeated]


def numbers_of(thread: int, count: int) -> range:
    """The tasks of a thread; neighbours share a tenth of theirs."""
    first = 9 * thread * count // 10
    return range(first, first + count)


def adding(repository: Repository, thread: int, count: int) -> Callable[[], None]:
    """Adds tasks one by one."""

    def add() -> None:
        for number in numbers_of(thread, count):
            repository.add(small_task(number))

    return add


def adding_many(repository: Repository, thread: int, count: int) -> Callable[[], None]:
    """Adds tasks a batch at a time."""
    return lambda: repository.add_many(map(small_task, numbers_of(thread, count)), batch=7)


def assert_true(repository: Repository, numbers: set[int], max_loss: float | None) -> None:
    """These tasks are stored, each once; all values are those of the policies; no task loses more than it may."""
    assert repository.check() == []
    assert wrong_values(repository) == 0
    tasks = {task.params["number"]: task for task in repository.tasks()}
    assert len(tasks) == len(repository)
    assert set(tasks) == numbers
    policies = [repository.policy(record.id) for record in repository.policy_records()]
    U = cross_values(list(tasks.values()), policies)
    best = np.array([cross_values([task], [solve(task)])[0, 0] for task in tasks.values()])
    assert (best - U.max(axis=1) <= (max_loss or 0.0) + 1e-9).all()
    known = np.array([record.best_value for record in repository.records()])
    assert (known >= best - 1e-9).all()
    # solve knows no horizon: of many policies one may be worth more within it
    assert (known <= np.maximum(best, U.max(axis=1)) + 1e-9).all()
    if max_loss is None:
        assert len(policies) == len(tasks)


def tell(repository: Repository) -> None:
    """The figures of a run, whose values were all compared."""
    tasks, policies = len(repository), len(repository.policy_records())
    report(f"{tasks} tasks, {policies} policies: no error, no wrong value")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("max_loss", LIMITS)
@pytest.mark.parametrize("how", [adding, adding_many])
def test_threads_that_add_store_what_is_true(place, max_loss, how, run):
    count = repetitions(250, 20)
    with Repository(place, max_loss=max_loss) as repository:
        assert at_once(*(how(repository, thread, count) for thread in range(THREADS))) == []
        assert_true(repository, {n for thread in range(THREADS) for n in numbers_of(thread, count)}, max_loss)
        tell(repository)
        repository.add(small_task(10_000))
        assert wrong_values(repository) == 0


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("max_loss", LIMITS)
@pytest.mark.parametrize("how", [adding, adding_many])
def test_a_question_beside_threads_that_add_is_answered(place, max_loss, how, run):
    with Repository(place, max_loss=max_loss) as repository:
        repository.add_many(map(small_task, range(10)))
        answers = []

        def ask() -> None:
            for _ in range(4):
                answers.append(repository.keep(k=2, rng=0, certify=False))
                answers.append(repository.experience())

        assert at_once(ask, *(how(repository, thread, BESIDE) for thread in range(2))) == []
        assert len(answers) == 8
        assert_true(repository, {*range(10), *numbers_of(0, BESIDE), *numbers_of(1, BESIDE)}, max_loss)
        tell(repository)
