"""Killed at any moment, on any database: what was acknowledged is there, once, and decisions go on as they would."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import faults
import psycopg
import pytest
from faults import repetitions
from seams import OPEN, TOLD, Ask, Describe, Refused, Tell
from service_world import Load, Served, engine, selector_state, small_task, stored

from pastmaster import Repository, TsallisINF
from pastmaster.reuse import Episode
from pastmaster.service import started

pytestmark = pytest.mark.repeated


def assert_decisions_are_the_librarys(place) -> None:
    """All events, in the order in which the database has them, done by the library's selector."""
    rows, plain = stored(place), TsallisINF(3, bounds=(0.0, 1.0), rng=7)
    events = [(row.asked, OPEN, row) for row in rows] + [(row.closed, row.outcome, row) for row in rows if row.closed]
    assert [number for number, _, _ in sorted(events)] == list(range(1, len(events) + 1))
    for _, outcome, row in sorted(events):
        if outcome == OPEN:
            assert tuple(plain.ask()) == (row.arm, row.number)
        elif outcome == TOLD:
            plain.tell(Episode(row.arm, row.number), row.value)
        else:
            plain.cancel(Episode(row.arm, row.number))
    with engine(place) as served:
        served.call(Describe("site"))
        assert selector_state(served) == plain.to_dict()


@pytest.mark.long(20)
def test_a_service_that_is_killed_again_and_again_loses_nothing(tmp_path, attempts, seed):
    place, draw = tmp_path / "tasks.db", random.Random(seed)
    tally = attempts("kill -9 of the service under load", "no acknowledged return is lost or told twice")
    small_task(place)
    running = Served(place)
    load = Load([running.url])
    for _ in range(repetitions(100, 1)):
        load.wait_for(draw.randint(1, 60))
        running.kill()
        seconds = running.start()
        tally.survived()
        print(f"answered {seconds:.2f} s after the start")
    load.wait_for(5)
    load.stop()
    running.kill()
    assert load.lost(place) == {}
    assert_decisions_are_the_librarys(place)


@pytest.mark.long(20)
def test_two_services_and_a_writer_of_policies_share_a_file_and_one_is_killed(tmp_path, attempts, seed):
    place, draw, added = tmp_path / "tasks.db", random.Random(seed), []
    tally = attempts("kill -9 of one of two services beside a writer", "no acknowledged return or policy is lost")
    small_task(place)
    stays, goes, over = Served(place), Served(place), threading.Event()

    def write() -> None:
        with Repository(place) as repository:
            while not over.is_set():
                added.append(repository.add(faults.small_task(len(added))))

    writer = threading.Thread(target=write)
    writer.start()
    load = Load([stays.url, goes.url])
    try:
        for _ in range(repetitions(50, 1)):
            load.wait_for(draw.randint(1, 40))
            goes.kill()
            goes.start()
            tally.survived()
        load.wait_for(5)
    finally:
        over.set()
        writer.join()
    load.stop()
    stays.kill()
    goes.kill()
    assert load.lost(place) == {}
    with Repository(place, create=False) as repository:
        assert added
        assert [record.id for record in repository.records()] == added
        assert repository.check() == []
    assert_decisions_are_the_librarys(place)


@pytest.mark.long(20)
def test_two_services_share_a_server_whose_connections_are_killed(postgres_url, attempts, seed):
    tally = attempts("killed connections under two services", "no acknowledged return is lost, decisions as in order")
    small_task(postgres_url)
    draw = random.Random(seed)
    with Repository(postgres_url) as one, Repository(postgres_url) as other, started(one) as stays:
        with started(other) as goes:
            load = Load([stays, goes])
            for _ in range(repetitions(200, 4)):
                load.wait_for(draw.randint(5, 30))
                with psycopg.connect(postgres_url, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                        "AND datname = current_database()"
                    )
                tally.survived()
        load.wait_for(10)  # the first one goes on alone
        with started(other, port=int(goes.rpartition(":")[2])):
            load.wait_for(10)
            load.stop()
    assert load.lost(postgres_url) == {}
    assert_decisions_are_the_librarys(postgres_url)


def test_two_engines_on_one_database_decide_in_turn(place):
    small_task(place)
    with engine(place) as one, engine(place) as two, ThreadPoolExecutor(8) as pool:

        def visit(k: int) -> int:
            served = (one, two)[k % 2]
            number = served.call(Ask("site", key=f"visitor {k}".replace(" ", "-")))["episodes"][0]["number"]
            (two, one)[k % 2].call(Tell("site", number, k / 40))  # whoever asked, any may be told
            return number

        assert sorted(pool.map(visit, range(40))) == list(range(40))
        assert one.call(Describe("site")) | {"next_to_expire": 0} == two.call(Describe("site")) | {"next_to_expire": 0}
    assert_decisions_are_the_librarys(place)


def test_a_full_disk_is_told_and_nothing_is_acknowledged_that_is_not_there(tmp_path):
    place = tmp_path / "tasks.db"
    small_task(place)
    with engine(place) as served:
        first = served.call(Ask("site", 5))["episodes"]
        pages = served.database.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar())
        limit = f"PRAGMA max_page_count={pages}"
        pool = served.database.backend.engine
        connections = [pool.connect() for _ in range(3)]  # every connection that there will be
        for connection in connections:
            connection.exec_driver_sql(limit)
            connection.rollback()
            connection.close()

        def ask_on() -> None:
            for _ in range(40):
                served.call(Ask("site", 1000))

        with pytest.raises(Refused, match="does not answer, try again later") as caught:
            ask_on()
        assert caught.value.status == 503
        assert "disk is full" in served.failure
        count = len(stored(place))
    with engine(place) as served:
        assert served.call(Tell("site", first[0]["number"], 0.5))["repeated"] is False
        assert served.call(Ask("site"))["episodes"][0]["number"] == count
    assert_decisions_are_the_librarys(place)


def test_what_waits_when_the_service_stops_is_answered(tmp_path):
    place = tmp_path / "tasks.db"
    small_task(place)
    with engine(place) as served, ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(served.call, Ask("site")) for _ in range(20)]
        served.close()
        done = [one for one in asked if one.exception() is None]
    assert len(stored(place)) == len(done)
