"""Several processes serve one database: their time, and what they have in memory when a server has lost something."""

from __future__ import annotations

import sqlite3
import threading
import time

import psycopg
import pytest
import sqlalchemy as sa
from seams import Ask, Cancel, Describe, Engine, Look, Refused, Tell, service_operations, service_store
from service_world import Clock, all_rows, alter, engine, small_task, tables

from pastmaster import Repository
from pastmaster.errors import RepositoryError
from pastmaster.repository import sqlite
from pastmaster.service import remove_task

# Time


def pass_time(clock: Clock, served: Engine, seconds: float, times: int) -> None:
    for _ in range(times):
        clock.now += seconds
        served.sweep()


def test_a_process_that_starts_later_gives_whole_leases(place):
    """The first one was idle for an hour: if it counted that, it would end the second one's lease at once."""
    first, second = Clock(), Clock()
    small_task(place, lease=10.0)
    with engine(place, clock=first) as one:
        one.call(Ask("site"))
        one.call(Cancel("site", 0))
        pass_time(first, one, 60.0, times=60)
        with engine(place, clock=second) as two:
            number = two.call(Ask("site"))["episodes"][0]["number"]
            one.sweep()
            assert one.call(Look("site", number))["outcome"] == "open"
            first.now, second.now = first.now + 9.0, second.now + 9.0
            one.sweep()
            two.sweep()
            assert two.call(Look("site", number))["outcome"] == "open"
            second.now += 1.5
            two.sweep()
            assert one.call(Look("site", number))["outcome"] == "expired"


def test_a_process_that_starts_later_knows_what_the_others_have_counted(path):
    first, second = Clock(), Clock()
    small_task(path, lease=10.0)
    with engine(path, clock=first) as one:
        one.call(Ask("site", lease=1000.0))
        pass_time(first, one, 1.0, times=100)
        with engine(path, clock=second) as two:
            number = two.call(Ask("site"))["episodes"][0]["number"]
            one.sweep()
            assert one.call(Look("site", number))["lease"] == pytest.approx(10.0)


def test_leases_end_however_often_the_service_is_restarted(path):
    small_task(path, lease=4.0)
    with engine(path) as served:
        served.call(Ask("site"))
    outcomes = []
    for _ in range(5):
        clock = Clock()
        with engine(path, clock=clock) as served:
            served.call(Describe("site"))
            clock.now = 1.5
            served.sweep()
            outcomes.append(served.call(Look("site", 0))["outcome"])
    assert outcomes == ["open", "open", "expired", "expired", "expired"]


def test_time_since_the_last_sweep_is_written_at_the_end(path):
    small_task(path, lease=4.0)
    with engine(path) as served:
        served.call(Ask("site"))
    for expected in ("open", "expired"):
        clock = Clock()
        with engine(path, clock=clock) as served:
            served.sweep()
            assert served.call(Look("site", 0))["outcome"] == "open"
            clock.now = 3.0
        if expected == "expired":
            with engine(path) as served:
                served.sweep()
                assert served.call(Look("site", 0))["outcome"] == expected


def test_an_answer_that_is_sent_again_has_no_lease_if_the_episode_is_over(path):
    small_task(path)
    with engine(path) as served:
        assert served.call(Ask("site", key="a"))["episodes"][0]["lease"] > 3000.0
        served.call(Cancel("site", 0))
        assert served.call(Ask("site", key="a"))["episodes"][0]["lease"] == 0.0


def test_requests_are_served_while_many_leases_end(tmp_path, monkeypatch):
    monkeypatch.setattr(service_operations, "MOST_EXPIRED", 1)
    place, clock = tmp_path / "tasks.db", Clock()
    small_task(place, lease=1.0)
    small_task(place, "other")
    with engine(place, clock=clock) as served:
        served.call(Ask("site", 400))
    with engine(place, clock=clock, sweep=0.05) as served:
        served.call(Describe("site"))
        clock.now += 5.0
        while served.expired == 0:
            time.sleep(0.001)
        served.call(Ask("other"))
        assert served.expired < 400


# Memory


def lose_last_event(place: str, state: dict) -> None:
    """What a server does that crashes: a commit that was not on the disk yet is gone."""

    events = f"events = {state['events']}, chain = '{state['chain']}'"
    alter(
        place, f"UPDATE service_episodes SET closed = NULL, outcome = 0, value = NULL WHERE closed > {state['events']}"
    )
    alter(place, f"UPDATE service_tasks SET {events}")


def task_row(place: str) -> dict:
    return next(row._asdict() for rows in all_rows(place) for row in rows if "chain" in row._fields)


@pytest.mark.parametrize("another", [1, 3])
def test_what_a_server_has_lost_is_forgotten_though_other_events_came_in_its_place(place, another):
    """The second process had read an event that a crash undid. ``another`` events came then."""
    small_task(place)
    with engine(place) as one, engine(place) as two:
        one.call(Ask("site", 6))
        before = task_row(place)
        one.call(Tell("site", 3, 1.0))
        assert two.call(Describe("site"))["told"] == 1
        lose_last_event(place, before)
        with engine(place) as again:  # the first one, started again
            for number in range(another):
                again.call(Tell("site", 3 + number, 0.0))
            assert [two.call(Ask("site"))["episodes"][0]["arm"] for _ in range(40)]
            told = [served.call(Describe("site")) for served in (two, again)]
        with engine(place) as fresh:
            told.append(fresh.call(Describe("site")))
        for state in told:
            assert state["told"] == another
            assert state["arms"] == told[0]["arms"]


def test_rows_that_lead_elsewhere_are_damage(path):
    small_task(path)
    with engine(path) as served:
        served.call(Ask("site", 3))
        served.call(Tell("site", 0, 0.25))
    alter(path, "UPDATE service_episodes SET value = 0.75 WHERE number = 0")
    with engine(path) as served, pytest.raises(Refused, match="are not those that were counted"):
        served.call(Describe("site"))


def test_who_reads_is_told_what_is_on_the_disk(postgres_url):
    small_task(postgres_url)
    with engine(postgres_url) as served, psycopg.connect(postgres_url) as other:
        for _ in range(20):
            other.execute("SET LOCAL synchronous_commit = off")
            other.execute("UPDATE pastmaster_service.service_tasks SET clock = clock")
            other.commit()
            end = other.execute("SELECT pg_current_wal_insert_lsn()").fetchone()[0]
            other.commit()
            served.call(Describe("site"))
            assert other.execute("SELECT pg_current_wal_flush_lsn() >= %s", [end]).fetchone()[0]
            other.commit()


def test_what_the_repository_commits_waits_for_the_disk(postgres_url):
    with Repository(postgres_url) as repository, tables(postgres_url) as apart, engine(postgres_url) as served:
        shown = [
            database.write(lambda c: c.exec_driver_sql("SHOW synchronous_commit").scalar())
            for database in (repository.database, apart, served.database)
        ]
    assert shown == ["on", "on", "off"]  # those of a service wait for it after they have let others go on


def test_an_error_in_a_sweep_ends_nothing(tmp_path, monkeypatch):
    place = tmp_path / "tasks.db"
    small_task(place)
    with engine(place, sweep=0.02) as served:
        broken = threading.Event()

        def fail(*_: object) -> None:
            broken.set()
            raise sqlite3.OperationalError("something new")

        monkeypatch.setattr(service_store, "next_open", fail)
        assert broken.wait(60.0)
        while served.healthy:
            time.sleep(0.001)
        monkeypatch.undo()
        assert served.call(Ask("site"))["episodes"][0]["number"] == 0
        while not served.healthy:
            time.sleep(0.001)


def test_an_error_of_sqlites_own_is_told_in_words(tmp_path, monkeypatch):
    with Repository(tmp_path / "r.db") as repository:

        def fail(handle: sqlite.Handle) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(sqlite, "_state", fail)
        with pytest.raises(RepositoryError, match="cannot be written"):
            repository.database.read(lambda connection: None)


def test_a_task_that_is_removed_is_forgotten(tmp_path):
    place = tmp_path / "tasks.db"
    small_task(place)
    with engine(place) as served, Repository(place) as repository:
        served.call(Ask("site", 10))
        remove_task(repository, "site")
        served.sweep()
        assert not served._deciders
        assert not served._times


def test_what_a_transaction_reads_does_not_grow_with_what_was_told(tmp_path):
    """Every statement of asks, returns and looks goes by an index, down to few rows."""
    place, seen = tmp_path / "tasks.db", []
    small_task(place)
    with engine(place) as served:
        served.call(Ask("site", 20))
        event = (served.database.backend.engine, "before_cursor_execute", lambda *call: seen.append(call[2:4]))
        sa.event.listen(*event)
        served.call(Ask("site", key="a"))
        served.call(Ask("site", key="a"))
        served.call(Tell("site", 0, 0.5))
        served.call(Tell("site", 0, 0.5))
        served.call(Cancel("site", 1))
        served.call(Look("site", 1))
        served.call(Describe("site"))
        served.sweep()
        sa.event.remove(*event)

        def plans(connection: sa.Connection) -> list[str]:
            lines = []
            for text, values in dict.fromkeys((text, str(values)) for text, values in seen):
                if "service_episodes" in text and not text.startswith("INSERT"):
                    values = next(v for t, v in seen if (t, str(v)) == (text, values))
                    one = values[0] if isinstance(values, list) else values
                    found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", one).all()
                    lines += [row[3] for row in found]
            return lines

        found = served.database.read(plans)
    steps = [line for line in found if "service_episodes" in line]
    assert len(steps) >= 5
    assert any("service_episodes_key (key=?)" in line for line in steps)
    for line in steps:
        assert "number" in line or "key=?" in line or "service_episodes_deadline" in line, line
