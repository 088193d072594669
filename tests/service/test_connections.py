"""Raw connections: bodies that break off, requests that are refused before their body has come."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from service_world import PATIENCE, small_task

from pastmaster import Client, Repository
from pastmaster.service import add_token, started

HEAD = b"POST /v1/tasks/site/episodes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture
def repository(tmp_path) -> Iterator[Repository]:
    small_task(tmp_path / "tasks.db")
    with Repository(tmp_path / "tasks.db") as opened:
        yield opened


def connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def answered(connection: socket.socket) -> bytes:
    """All that comes until the service closes the connection."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            answer += part
    return answer


def head_of(connection: socket.socket) -> bytes:
    """One answer of a connection that stays open: its head, in small letters."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = connection.recv(65536)
        assert part, "the connection was closed"
        answer += part
    return answer.lower().partition(b"\r\n\r\n")[0]


def test_what_is_refused_is_answered_at_once_and_its_body_does_not_spoil_the_next_request(repository):
    add_token(repository, "one", "admin")
    with started(repository) as url, connected(url) as connection:
        for _ in range(3):
            connection.sendall(HEAD + b"content-length: 100000\r\n\r\n")
            assert head_of(connection).startswith(b"http/1.1 401")
            connection.sendall(b" " * 100_000)


BROKEN = [
    b"content-length: 20\r\n\r\n", b'content-length: 20\r\n\r\n{"count": 3}', CHUNKED, CHUNKED + b"2\r\n{}\r\n",
    CHUNKED + b"ZZ\r\n", CHUNKED + b"2\r\n{}ZZ\r\n", CHUNKED + b"2\r\n{}\r\n0\r\nx", b"content-length: 2\r\n" + CHUNKED,
    b"transfer-encoding: xchunked\r\n\r\n{}", b"content-length: 2\r\ncontent-length: 0\r\n\r\n{}",
]  # fmt: skip


def test_an_ask_that_breaks_off_is_not_carried_out(repository):
    with started(repository) as url, Client(url) as client:
        client.cancel("site", client.ask("site"))
        for rest in BROKEN:
            with connected(url) as connection:  # which is closed at once
                connection.sendall(HEAD + rest)
            with connected(url) as connection:
                connection.sendall(HEAD + rest)
                connection.shutdown(socket.SHUT_WR)
                answered(connection)
            assert client.state("site")["asked"] == 1, rest
