"""The events of the live page: for those who may watch, as long as they may, and of every task that can be read."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest
from service_world import PATIENCE, alter, often, small_task

from pastmaster import Client, Repository
from pastmaster.service import add_token, live, make_task, revoke_token, started

pytestmark = pytest.mark.usefixtures(often.__name__)


@pytest.fixture
def repository(tmp_path) -> Iterator[Repository]:
    small_task(tmp_path / "tasks.db")
    with Repository(tmp_path / "tasks.db") as opened:
        yield opened


def watcher(url: str, secret: str = "", **options: int) -> socket.socket:
    """A connection that has asked for the events."""
    made = socket.socket()
    for option, value in options.items():
        made.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
    made.settimeout(PATIENCE)
    host, port = url.removeprefix("http://").split(":")
    made.connect((host, int(port)))
    token = f"authorization: Bearer {secret}\r\n" if secret else ""
    made.sendall(f"GET /v1/live HTTP/1.1\r\nhost: localhost\r\n{token}\r\n".encode())
    return made


def status_of(connection: socket.socket) -> int:
    return int(connection.recv(12).split()[1])


def first_event(connection: socket.socket) -> dict:
    answer = b""
    while b"\n\n" not in answer.partition(b"data: ")[2]:
        answer += connection.recv(65536)
    return json.loads(answer.partition(b"data: ")[2].partition(b"\n\n")[0])


@pytest.mark.parametrize("had_token", [True, False])
def test_a_stream_ends_when_its_token_is_revoked_or_the_first_token_is_made(repository, had_token):
    secret = add_token(repository, "screen", "read") if had_token else ""
    with started(repository) as url, watcher(url, secret) as connection:
        assert first_event(connection)["tasks"][0]["name"] == "site"
        if had_token:
            revoke_token(repository, "screen")
        else:
            add_token(repository, "screen", "read")
        deadline, answer = time.monotonic() + PATIENCE / 4, b""
        while not answer.endswith(b"0\r\n\r\n"):  # the end of an answer in chunks
            answer += connection.recv(65536)
            assert time.monotonic() < deadline, "it goes on"


def test_no_more_watch_than_may_however_many_come_at_once(repository, monkeypatch):
    monkeypatch.setattr(live, "MOST_WATCHERS", 5)
    with started(repository) as url:
        for _ in range(2):  # those who went make room
            connections = [watcher(url) for _ in range(40)]
            statuses = [status_of(connection) for connection in connections]
            assert (statuses.count(200), statuses.count(429)) == (5, 35)
            for connection in connections:
                connection.close()
            wait_for_room(url)


def wait_for_room(url: str) -> None:
    deadline = time.monotonic() + PATIENCE / 4
    while True:
        with watcher(url) as connection:
            if status_of(connection) == 200:
                break
        assert time.monotonic() < deadline, "there is no room"
        time.sleep(0.05)
    time.sleep(0.5)  # it is seen to be gone


def test_one_damaged_task_does_not_hide_the_others(repository, tmp_path):
    make_task(repository, "bad", sources=["a", "b"], bounds=(0.0, 1.0), seed=0)
    with started(repository) as url, Client(url) as client:
        client.ask_many("bad", 3)
        client.ask("site")
    of_it = "task_id = (SELECT id FROM service_tasks WHERE name = 'bad')"
    alter(tmp_path / "tasks.db", f"UPDATE service_episodes SET arm = (arm + 1) % 3 WHERE {of_it}")
    with started(repository) as url, watcher(url) as connection:
        found = {task["name"]: task for task in first_event(connection)["tasks"]}
    assert found["site"]["open"] == 1
    assert set(found["bad"]) == {"name", "error"}
    assert "but the selector chooses" in found["bad"]["error"]
