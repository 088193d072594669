"""A process that stands still in a transaction, as on a host that is paused, does not stop the others for long."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from seams import SERVICE, Ask, Engine, Refused, Tell, schema, service_store
from service_world import engine, small_task, stored

from pastmaster import Repository
from pastmaster.errors import RepositoryError
from pastmaster.service import add_token, list_tokens, make_task, remove_task

pytestmark = pytest.mark.long(20)
LONG = 60.0  # seconds in which others must have gone on: the limit and the time of a busy machine


class Stopped:
    """Stands still in the first transactions of an engine, after it has locked and changed the rows of its tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.inside, self.may_go_on, self.left = threading.Event(), threading.Event(), times
        write = service_store.write

        def stop(*arguments: Any) -> None:
            write(*arguments)
            if threading.current_thread().name == "held" and self.left:
                self.left -= 1
                self.inside.set()
                assert self.may_go_on.wait(240.0)

        monkeypatch.setattr(service_store, "write", stop)


def called(served: Engine, operation: Any, answers: list[Any]) -> threading.Thread:
    """An operation in a transaction of its own, on a thread that can be stopped."""
    thread = threading.Thread(target=lambda: answers.extend(served._answers([operation])), name="held", daemon=True)
    thread.start()
    return thread


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are one second, also that of trying again."""
    for kind in (SERVICE, schema.REPOSITORY):
        monkeypatch.setattr(kind, "idle", 1)
    monkeypatch.setattr("pastmaster.repository.database.RECONNECT_SECONDS", 1)


def test_others_go_on_after_ten_seconds_and_what_stood_still_is_done_once(postgres_url, monkeypatch):
    """The limit is ten seconds, and here one: nobody waits for two minutes."""
    assert SERVICE.idle <= 10
    monkeypatch.setattr(SERVICE, "idle", 1)
    small_task(postgres_url)
    held, answers = Stopped(monkeypatch, times=1), list[Any]()
    with engine(postgres_url) as one, engine(postgres_url) as other:
        assert other.call(Ask("site"))["episodes"][0]["number"] == 0
        thread = called(one, Ask("site", 2), answers)
        assert held.inside.wait(240.0)
        began = time.monotonic()
        assert other.call(Ask("site"))["episodes"][0]["number"] == 1  # nothing of what stood still is there
        assert 0.5 < time.monotonic() - began < LONG
        held.may_go_on.set()
        thread.join(240.0)
        assert [episode["number"] for episode in answers[0]["episodes"]] == [2, 3]
        assert other.call(Tell("site", 3, 0.5))["outcome"] == "told"
    assert [row.number for row in stored(postgres_url)] == [0, 1, 2, 3]


def test_what_always_stands_still_gets_an_error_and_leaves_nothing(postgres_url, monkeypatch, caplog):
    shorten(monkeypatch)
    small_task(postgres_url)
    held, answers = Stopped(monkeypatch, times=10**6), list[Any]()
    held.may_go_on.wait = lambda _: time.sleep(1.5) or True  # type: ignore[method-assign]
    with engine(postgres_url) as one, engine(postgres_url) as other:
        thread = called(one, Ask("site", 7), answers)
        for number in range(3):
            assert other.call(Ask("site"))["episodes"][0]["number"] == number
        thread.join(240.0)
        assert isinstance(answers[0], Refused)
        assert answers[0].code == "unavailable"
        held.left = 0
        assert other.call(Ask("site"))["episodes"][0]["number"] == 3
        assert one.call(Ask("site"))["episodes"][0]["number"] == 4
    assert any("stood still between two statements" in record.fields["error"] for record in caplog.records)
    assert len(stored(postgres_url)) == 5


def test_a_writer_of_the_repository_that_stands_still_is_told_so(postgres_url, monkeypatch):
    shorten(monkeypatch)
    with Repository(postgres_url) as repository:

        def work(connection: Any) -> None:
            connection.exec_driver_sql("CREATE TABLE half_done (x int)")
            time.sleep(1.5)
            connection.exec_driver_sql("INSERT INTO half_done VALUES (1)")

        with pytest.raises(RepositoryError, match="stood still between two statements"):
            repository.database.write(work)
        assert repository.database.read(lambda c: c.exec_driver_sql("SELECT to_regclass('half_done')").scalar() is None)


def test_tasks_and_tokens_are_made_while_policies_are_valued_in_a_transaction(postgres_url):
    """Such a transaction takes long by right: it solves and values."""
    small_task(postgres_url)
    with Repository(postgres_url) as one, Repository(postgres_url) as other:
        done = threading.Event()
        inside = threading.Event()

        def value(_: Any) -> None:
            inside.set()
            assert done.wait(240.0)

        valuing = threading.Thread(target=lambda: one.database.write(value), daemon=True)
        valuing.start()
        assert inside.wait(240.0)
        assert make_task(other, "more", sources=["a"], bounds=(0, 1))
        remove_task(other, "more")
        add_token(other, "t", "read")
        assert [token.name for token in list_tokens(other)] == ["t"]
        assert valuing.is_alive()
        done.set()
        valuing.join(240.0)
