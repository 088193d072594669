"""Forks of a process that has a repository open: what parent and children acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from attempts import Tally
from faults import acknowledge, acknowledged, repetitions, small_task

from pastmaster import Repository, RepositoryError

CHILDREN = 3


def fork(child: Callable[[], None]) -> int:
    """The number of a forked child that does this and ends."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        child()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def fork_and_add(place: str, log: Path, seed: int, each: int) -> None:
    """Add here, on a thread beside, and in three forked children, while the repository is open, then closed here."""
    rng = np.random.default_rng([16, seed])
    repository = Repository(place)

    def add(first: int) -> None:
        for number in range(first, first + each):
            acknowledge(log, number, repository.add(small_task(number)))

    add(0)
    beside = threading.Thread(target=add, args=(100,))
    if rng.random() < 0.5:
        beside.start()
    children = []
    for child in range(CHILDREN):
        time.sleep(rng.uniform(0, 0.03))
        children.append(fork(lambda first=1000 * (child + 1): add(first)))  # type: ignore[misc]
    if rng.random() < 0.5:
        add(200)
    time.sleep(rng.uniform(0, 0.05))
    if beside.ident is not None:
        beside.join()
    repository.close()
    codes = [os.waitpid(child, 0)[1] for child in children]
    assert codes == [0] * CHILDREN, codes


@pytest.mark.repeated
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_adds_of_forked_children_are_not_lost(
    request: pytest.FixtureRequest, database: str, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[210 forks on SQLite, 30 on PostgreSQL]"""
    tally = attempts(f"fork while open, {database}", "no acknowledged change lost")
    rounds = repetitions(70, 2) if database == "sqlite" else repetitions(10, 1)
    for seed in range(rounds):
        folder, log = tmp_path / str(seed), tmp_path / f"{seed}.log"
        folder.mkdir()
        server = request.getfixturevalue("postgres_server") if database == "postgres" else None
        with faults.fresh_place(server, folder) as place:
            faults.finish(faults.start(fork_and_add, place, log, seed, 5))
            with Repository(place) as repository:
                names = {record.name for record in repository.records()}
                lost = [line[0] for line in acknowledged(log) if f"task {line[0]}" not in names]
                damage = repository.check()
            if lost or damage or len(acknowledged(log)) < 5 * (CHILDREN + 1):
                tally.failed(f"seed {seed}: lost {lost}, damage {damage}, {len(acknowledged(log))} acknowledged")
            else:
                tally.survived(CHILDREN)


def end_in_the_child(place: str, log: Path) -> None:
    """The child of a fork inside a transaction ends as programs end: its interpreter lets go of all objects."""
    repository = Repository(place)
    repository.add(small_task(1))

    def work(connection: Any) -> None:
        connection.exec_driver_sql("UPDATE sequences SET last = 41 WHERE name = 'streams'")
        child = os.fork()
        if not child:
            sys.exit(0)
        acknowledge(log, os.waitpid(child, 0)[1])

    repository.database.write(work)
    repository.close()


def test_the_end_of_a_childs_interpreter_undoes_nothing(tmp_path: Path) -> None:
    place, log = str(tmp_path / "r.db"), tmp_path / "log"
    script = "import sys, test_forks, pathlib\ntest_forks.end_in_the_child(sys.argv[1], pathlib.Path(sys.argv[2]))"
    known = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script, place, log], env=known, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with Repository(place) as repository:
        query = "SELECT last FROM sequences WHERE name = 'streams'"
        assert repository.database.read(lambda c: c.exec_driver_sql(query).scalar()) == 41
        assert repository.check() == []


def fork_under_ctrl_c(place: str, log: Path) -> None:
    """Ctrl-C while a fork waits for the transaction of another thread: the fork is as safe as without."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    repository = Repository(place)
    inside = threading.Event()

    def work(_: object) -> None:
        inside.set()
        time.sleep(0.5)

    beside = threading.Thread(target=repository.database.write, args=(work,))
    beside.start()
    inside.wait()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    child = fork(lambda: acknowledge(log, 1, repository.add(small_task(1))))
    codes = os.waitpid(child, 0)[1]
    beside.join()
    acknowledge(log, codes, repository.add(small_task(2)))
    repository.close()


@pytest.mark.filterwarnings("ignore")
def test_ctrl_c_while_a_fork_waits_leaves_it_safe(tmp_path: Path) -> None:
    place, log = str(tmp_path / "r.db"), tmp_path / "log"
    faults.finish(faults.start(fork_under_ctrl_c, place, log))
    assert [line[0] for line in acknowledged(log)] == ["1", "0"]
    with Repository(place) as repository:
        assert len(repository) == 2


def use_in_a_handler(place: str, log: Path) -> None:
    """A repository used by a signal's handler, again and again, while it is in use."""
    repository = Repository(place)
    signal.signal(signal.SIGALRM, lambda *_: len(repository))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.003)
    for number in range(15):
        acknowledge(log, number, repository.add(small_task(number)))
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    repository.close()


def test_a_repository_may_be_used_by_a_signals_handler(tmp_path: Path) -> None:
    place, log = str(tmp_path / "r.db"), tmp_path / "log"
    faults.finish(faults.start(use_in_a_handler, place, log))
    assert len(acknowledged(log)) == 15


def leave_a_transaction_in_the_child(place: str, log: Path) -> None:
    """The child of a fork inside a transaction leaves the block by itself: it must not end its parent's transaction."""
    repository = Repository(place)
    parent = os.getpid()

    def work(connection: object) -> int:
        import sqlalchemy as sa

        assert isinstance(connection, sa.Connection)
        connection.exec_driver_sql("UPDATE sequences SET last = 41 WHERE name = 'streams'")
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            connection.exec_driver_sql("UPDATE sequences SET last = last + 1 WHERE name = 'streams'")
        return child

    try:
        repository.database.write(work)
    except RepositoryError as error:
        acknowledge(log, error)
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    repository.close()


def test_a_child_does_not_end_its_parents_transaction(tmp_path: Path) -> None:
    place, log = str(tmp_path / "r.db"), tmp_path / "log"
    faults.finish(faults.start(leave_a_transaction_in_the_child, place, log))
    assert "was in use when this process was forked: nothing was changed by it" in log.read_text()
    with Repository(place) as repository:
        last = repository.database.read(
            lambda c: c.exec_driver_sql("SELECT last FROM sequences WHERE name = 'streams'").scalar()
        )
    assert last == 42
