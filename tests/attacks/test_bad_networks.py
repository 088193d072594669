"""PostgreSQL behind a network that drops connections, or keeps them open and passes nothing on."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import faults
import numpy as np
import pytest
from attacks.proxy import Link, Proxy
from attempts import Tally
from faults import acknowledge, acknowledged, repetitions, small_task
from postgres import Server

from pastmaster import Repository, RepositoryError
from pastmaster.repository import postgres, schema, watch

HANG = 60.0


@contextmanager
def behind_a_proxy(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before a database, and the URL of the database behind it."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    with Proxy(f"{folder}/.s.PGSQL.5432") as proxy:
        yield proxy, f"postgresql://postgres@127.0.0.1:{proxy.port}{parts.path}"


def add_through(place: str, log: Path, stop: Path) -> None:
    """Add until told to stop; a connection that owes an answer is looked at sooner than otherwise."""
    watch.SILENT_SECONDS, watch.ANSWER_SECONDS, watch.IDLE_FOR = 1.0, 3.0, "0.5 seconds"
    with Repository(place) as repository:
        for number in itertools.count():
            acknowledge(log, number, repository.add(small_task(number)), time.monotonic())
            if stop.exists():
                return


@pytest.mark.repeated
def test_a_network_that_loses_connections_loses_nothing_else(
    postgres_server: Server, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[200 connections lost: half of them dropped, half left open; half of them as they commit]"""
    tally = attempts("PostgreSQL's connections dropped or half-open", "nothing lost or done twice, no wait over 60 s")
    rng, log, stop = np.random.default_rng(21), tmp_path / "log", tmp_path / "stop"
    with postgres_server.fresh_database() as url, behind_a_proxy(url) as (proxy, place):
        Repository(url).close()
        adding = faults.start(add_through, place, log, stop)
        for blow in range(repetitions(200, 5)):
            before = len(acknowledged(log))
            faults.wait_for_lines(log, before + int(rng.integers(1, 4)), adding)
            how = ["drop", "drop", "questions", "answers", "both"][blow % 5]
            began = time.monotonic()
            if blow % 2:
                proxy.at_commit, wanted = how, proxy.struck + 1
                while proxy.struck < wanted and adding.is_alive():
                    time.sleep(0.005)
            else:
                proxy.strike(proxy.links[-1], how)
            before = len(acknowledged(log))
            faults.wait_for_lines(log, before + 1, adding)
            seconds = time.monotonic() - began
            tally.survived() if seconds < HANG else tally.failed(f"{how}: {seconds:.0f} s")
        stop.touch()
        faults.finish(adding)
        with Repository(url) as repository:
            names = [record.name for record in repository.records()]
            assert repository.check() == []
    assert len(set(names)) == len(names)
    lost = [line[0] for line in acknowledged(log) if f"task {line[0]}" not in names]
    assert not lost, f"acknowledged tasks {lost} are lost"


def test_a_statement_that_takes_long_is_left_alone(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for again and again what the server is doing, and the server says: this."""
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.2)
    asked = []
    is_dead = watch._is_dead
    monkeypatch.setattr(watch, "_is_dead", lambda connection: asked.append(is_dead(connection)) or asked[-1])
    with Repository(postgres_url) as repository:
        repository.database.read(lambda c: c.exec_driver_sql("SELECT pg_sleep(0.6)").all())
        assert asked
        assert not any(asked)


def test_a_commit_whose_answer_never_comes_is_given_up_and_told_apart(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit reached the server: it is not done again. It did not: it is."""
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(watch, "IDLE_FOR", "0.2 seconds")
    with behind_a_proxy(postgres_url) as (proxy, place), Repository(place) as repository:
        repository.add(small_task(0))
        for number, how in enumerate(("answers", "questions", "both"), start=1):
            proxy.at_commit = how
            began = time.monotonic()
            assert repository.add(small_task(number)) == number + 1
            assert proxy.struck == number
            assert time.monotonic() - began < HANG
        assert [record.name for record in repository.records()] == [f"task {number}" for number in range(4)]
        assert repository.check() == []


def test_a_server_that_is_gone_for_good_is_given_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr("pastmaster.repository.database.RECONNECT_SECONDS", 1.0)
    with behind_a_proxy(postgres_url) as (proxy, place):
        repository = Repository(place)
        proxy.__exit__(None, None, None)
        with pytest.raises(RepositoryError, match="does not answer"):
            repository.add(small_task(0))


def test_a_server_that_says_nothing_after_the_login_is_given_up(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SQLAlchemy asks first on a new connection is not watched."""
    Repository(postgres_url).close()
    monkeypatch.setattr(postgres, "FIRST_SECONDS", 1.0)
    with behind_a_proxy(postgres_url) as (proxy, place):
        heard = proxy.heard

        def swallow_after_login(link: Link, data: bytes) -> None:
            heard(link, data)
            if b"SELECT" in data.upper():
                link.swallows |= {"answers"}

        proxy.heard = swallow_after_login  # type: ignore[method-assign]
        with pytest.raises(RepositoryError, match=r"does not answer: it took the login, then nothing"):
            Repository(place)


def vanish_inside(place: str, log: Path) -> None:
    """Take the writer's turn, and stop: as a machine that lost its power looks to the server."""
    schema.REPOSITORY.idle = 1
    repository = Repository(place)

    def work(_: object) -> None:
        acknowledge(log, "inside")
        os.kill(os.getpid(), signal.SIGSTOP)

    repository.database.write(work)


def test_a_writer_that_vanishes_does_not_keep_its_turn(postgres_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    Repository(postgres_url).close()
    gone = faults.start(vanish_inside, postgres_url, log)
    try:
        faults.wait_for_lines(log, 1, gone)
        with Repository(postgres_url) as repository:
            assert repository.add(small_task(0)) == 1
    finally:
        gone.kill()
        gone.join()


def test_a_wrong_password_is_called_one(postgres_server: Server, postgres_url: str) -> None:
    """Not a server that does not answer, for which one would wait."""
    began = time.monotonic()
    with pytest.raises(RepositoryError, match=r"refuses: .*password") as caught:
        Repository(postgres_url.replace("postgres@", "guarded:wrong@"))
    assert "does not answer" not in str(caught.value)
    assert time.monotonic() - began < HANG / 2
