"""Ctrl-C in a process that goes on, as a notebook does: nothing acknowledged is lost, and nobody is locked out."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from attempts import Tally
from faults import acknowledge, acknowledged, repetitions, small_task
from seams import Shield

from pastmaster import Repository, search_clusterings, solve, transfer

LOCKED_OUT = 30.0  # seconds without an add of another process, on a busy machine


def strike(at: list[float], rounds: int, over: threading.Event, seed: int) -> None:
    """Ctrl-C at any time, once or three times at once; each time is noted."""
    rng = np.random.default_rng([17, seed])
    for _ in range(rounds):
        if over.wait(rng.uniform(0.0, 0.08)):
            return
        for _ in range(rng.choice([1, 1, 3])):
            at.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(rng.choice([0.0, 0.0005, 0.003]))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def add_under_interrupts(place: str, log: Path, rounds: int, seed: int) -> None:
    """Add and read while Ctrl-C strikes; a traceback of each is kept, as a notebook keeps the last."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kept: list[BaseException] = []
    strikes: list[float] = []
    over = threading.Event()
    thread = threading.Thread(target=strike, args=(strikes, rounds, over, seed), daemon=True)
    numbers = itertools.count(10**6 * (seed + 1))
    repository = Repository(place)
    number = next(numbers)
    thread.start()
    while thread.is_alive():
        try:
            acknowledge(log, number, repository.add(small_task(number)))
            number = next(numbers)
            repository.cross_values()
            len(repository.records())
        except (KeyboardInterrupt, SystemError) as error:  # Numba wraps one that strikes inside it
            kept = [*kept[-5:], error]
            if not any(isinstance(cause, KeyboardInterrupt) for cause in causes(error)):
                raise
    over.set()
    for _ in range(3):  # the last ones may strike late
        try:
            time.sleep(0.2)
        except KeyboardInterrupt as error:
            kept.append(error)
    acknowledge(log, "struck", len(strikes))
    acknowledge(log, 1, repository.add(small_task(1)))
    repository.close()


def add_beside(place: str, log: Path, stop: Path) -> None:
    """Another process, which must always get its turn; the time of each add is noted."""
    with Repository(place) as repository:
        for number in itertools.count(2):
            acknowledge(log, number, repository.add(small_task(number)), time.monotonic())
            if stop.exists():
                return
            time.sleep(0.05)


@pytest.mark.repeated
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_ctrl_c_loses_nothing_and_locks_nobody_out(
    request: pytest.FixtureRequest, database: str, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[480 times on SQLite, 120 on PostgreSQL]"""
    tally = attempts(f"Ctrl-C during adds, the process goes on, {database}", "nothing lost, nobody locked out")
    server = request.getfixturevalue("postgres_server") if database == "postgres" else None
    for seed in range(repetitions(4, 1) if database == "sqlite" else 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        logs, stop = [folder / "here.log", folder / "beside.log"], folder / "stop"
        with faults.fresh_place(server, folder) as place:
            Repository(place).close()
            beside = faults.start(add_beside, place, logs[1], stop)
            struck = faults.start(add_under_interrupts, place, logs[0], repetitions(120, 30), seed)
            struck.join(faults.PATIENCE)
            stop.touch()
            faults.finish(struck, beside)
            with Repository(place) as repository:
                names = {record.name for record in repository.records()}
                damage = repository.check()
        words = acknowledged(logs[0])
        count = next(int(line[1]) for line in words if line[0] == "struck")
        acks = [line[0] for line in (*words, *acknowledged(logs[1])) if line[0] != "struck"]
        times = [float(line[2]) for line in acknowledged(logs[1])]
        longest = float(np.diff(times).max(initial=0.0))
        lost = [number for number in acks if f"task {number}" not in names]
        if lost or damage or longest > LOCKED_OUT:
            tally.failed(f"seed {seed}: lost {lost}, damage {damage}, {longest:.1f} s without an add beside")
        else:
            tally.survived(count)


def add_and_look(repository: Repository, number: int) -> None:
    """What Ctrl-C strikes in ``leave_no_lock``, and nothing around it."""
    repository.add(small_task(number))
    repository.cross_values()


def raise_inside(number: int, frame: Any) -> None:
    """Ctrl-C that strikes in ``add_and_look`` alone."""
    while frame is not None:
        if frame.f_code is add_and_look.__code__:
            raise KeyboardInterrupt
        frame = frame.f_back


def leave_no_lock(place: str, log: Path, rounds: int, seed: int) -> None:
    """Ctrl-C, also twice at once; after each the system is asked which locks this process still has on the file."""
    signal.signal(signal.SIGINT, raise_inside)
    inode, strikes, kept = os.stat(place).st_ino, list[float](), list[BaseException]()
    repository, number = Repository(place), 1
    thread = threading.Thread(target=strike, args=(strikes, rounds, threading.Event(), seed), daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            add_and_look(repository, number)
        except (KeyboardInterrupt, SystemError) as error:
            kept = [*kept[-5:], error]
        number += 1
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        assert not [line for line in locks if f" {os.getpid()} " in line and f":{inode} " in line]
    acknowledge(log, len(strikes))


@pytest.mark.repeated
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="asks Linux which locks there are")
def test_ctrl_c_leaves_no_lock(tmp_path: Path, attempts: Callable[[str, str], Tally]) -> None:
    """[2,000 times]: a second one came while SQLAlchemy closed the connection of the first, and its lock stayed."""
    tally = attempts("Ctrl-C, often twice at once, SQLite", "no lock stays")
    for seed in range(repetitions(4, 1)):
        place, log = tmp_path / f"{seed}.db", tmp_path / f"{seed}.log"
        Repository(place).close()
        faults.finish(faults.start(leave_no_lock, str(place), log, repetitions(300, 30), seed))
        tally.survived(int(acknowledged(log)[0][0]))


def compute_under_interrupts(log: Path, rounds: int, seed: int) -> None:
    """Search, solve and transfer while Ctrl-C strikes: it is raised, or what was found so far is returned."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng([23, seed])
    points = rng.random((12, 2))
    distance = np.abs(points[:, None] - points[None]).sum(-1)
    task = small_task(3)
    source = solve(task).policy
    strikes: list[float] = []
    thread = threading.Thread(target=strike, args=(strikes, rounds, threading.Event(), seed), daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            search_clusterings(distance, n_clusters=2, rng=0, restarts=2)
            solve(task)
            transfer(task, [source], episodes=30, trials=1, rng=0)
        except KeyboardInterrupt:
            pass
    for _ in range(3):  # the last ones may strike late
        with suppress(KeyboardInterrupt):
            time.sleep(0.2)
    acknowledge(log, len(strikes))


@pytest.mark.repeated
def test_ctrl_c_in_compiled_loops_is_raised_and_nothing_else(
    tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[600 times]: Numba ends the process where an exception comes while it takes a generator."""
    tally = attempts("Ctrl-C in compiled loops, the process goes on", "KeyboardInterrupt or a result, no crash")
    for seed in range(repetitions(4, 1)):
        log = tmp_path / f"{seed}.log"
        process = faults.start(compute_under_interrupts, log, repetitions(100, 20), seed)
        process.join(faults.PATIENCE)
        if process.exitcode == 0:
            tally.survived(int(acknowledged(log)[0][0]))
        else:
            tally.failed(f"seed {seed}: exit code {process.exitcode}")


def wait_for_a_lock(place: str, log: Path) -> None:
    """Wait for a writer that does not end; Ctrl-C ends the waiting, not the repository."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    repository = Repository(place)
    acknowledge(log, "waiting")
    began = time.monotonic()
    try:
        repository.add(small_task(1))
    except KeyboardInterrupt:
        acknowledge(log, time.monotonic() - began)
    repository.close()


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_ctrl_c_ends_a_wait_for_another_writer(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> None:
    server = request.getfixturevalue("postgres_server") if database == "postgres" else None
    log = tmp_path / "log"
    with faults.fresh_place(server, tmp_path) as place, Repository(place) as repository:

        def hold(_: object) -> None:
            waiting = faults.start(wait_for_a_lock, place, log)
            faults.wait_for_lines(log, 1, waiting)
            time.sleep(0.3)
            assert waiting.pid is not None
            os.kill(waiting.pid, signal.SIGINT)
            faults.finish(waiting)

        repository.database.write(hold)
        assert float(acknowledged(log)[1][0]) < LOCKED_OUT  # of the 60 seconds that a writer waits
        assert repository.add(small_task(2)) == 1


# The shield itself


@pytest.fixture
def pressed() -> Iterator[Callable[[], None]]:
    """Ctrl-C, pressed; SIGINT raises KeyboardInterrupt meanwhile."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_the_end_of_the_block(pressed: Callable[[], None]) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), Shield():  # noqa: PT012
        pressed()
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_strikes_work_at_once_and_only_once(pressed: Callable[[], None]) -> None:
    done = []

    def work() -> None:
        pressed()
        done.append("never")

    with pytest.raises(KeyboardInterrupt), Shield() as shield:  # noqa: PT012
        try:
            shield.run(work)
        finally:
            pressed()
            done.append("put away")
    assert done == ["put away"]


def test_ctrl_c_before_work_keeps_it_from_beginning(pressed: Callable[[], None]) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), Shield() as shield:  # noqa: PT012
        pressed()
        shield.run(done.append, "never")
    assert done == []


def test_a_wait_ends_with_success_time_or_ctrl_c(pressed: Callable[[], None]) -> None:
    with Shield() as shield:
        answers = iter([False, False, True])
        assert shield.wait_for(lambda: next(answers), 60.0)
        assert not shield.wait_for(lambda: False, 0.02)
    with pytest.raises(KeyboardInterrupt), Shield() as shield:
        shield.wait_for(lambda: bool(pressed()), 60.0)


def test_a_handler_of_somebody_elses_is_called_once_and_put_back() -> None:
    called: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: called.append(1))
    try:
        with Shield() as shield:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)
            shield.run(lambda: None)
        assert called == [1]
    finally:
        signal.signal(signal.SIGINT, before)
