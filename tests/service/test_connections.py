"""Raw connections: bodies that break off, endless trailers, answers that nobody reads. None of it costs anything."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from service_world import PATIENCE, small_task

from pastmaster import Repository
from pastmaster.client import Client
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


def test_endless_trailers_are_cut_off(repository):
    """Many of them, or one that does not end: each would be kept in memory."""
    add_token(repository, "one", "admin")
    with started(repository) as url:
        for start in (b"POST /v1/tasks", b"GET /v1/tasks", b"GET /healthz"):
            for block in (b"y" * 4000, b"y" * 4000 + b"\r\nx: "):
                with connected(url) as connection:
                    connection.sendall(start + b" HTTP/1.1\r\nhost: localhost\r\n" + CHUNKED + b"0\r\nx: y")
                    with pytest.raises(ConnectionError):
                        connection.sendall(block * 12_000)


def test_trailers_are_no_headers(repository):
    secret = add_token(repository, "one", "admin").encode()
    with started(repository) as url, Client(url, secret.decode()) as client:
        for trailers in (b"authorization: bearer " + secret, b"host: evil.example\r\ncontent-type: text/plain"):
            own = b"" if b"bearer" in trailers else b"authorization: bearer " + secret + b"\r\n"
            with connected(url) as connection:
                connection.sendall(HEAD + own + CHUNKED + b"2\r\n{}\r\n")
                time.sleep(0.1)
                connection.sendall(b"0\r\n" + trailers + b"\r\n\r\n")
                assert head_of(connection).startswith(b"http/1.1 200" if own else b"http/1.1 401")
        with connected(url) as connection:  # all at once: the gate sees the request when all of it is there
            connection.sendall(HEAD + CHUNKED + b"2\r\n{}\r\n0\r\nauthorization: bearer " + secret + b"\r\n\r\n")
            assert head_of(connection).startswith(b"http/1.1 401")
        assert client.state("site")["asked"] == 1


def test_a_refused_request_ends_its_connection_unless_all_of_its_body_came(repository, monkeypatch):
    monkeypatch.setattr("pastmaster.service.body.BODY_SECONDS", 0.3)
    add_token(repository, "one", "admin")
    with started(repository) as url:
        with connected(url) as connection:
            for _ in range(3):  # a body that is sent late does not spoil the answer, nor the next request
                connection.sendall(HEAD + b"content-length: 100000\r\n\r\n")
                connection.sendall(b" " * 100_000)
                head = head_of(connection)
                assert head.startswith(b"http/1.1 401")
                assert b"connection: close" not in head
        for rest in (
            b"content-length: 10\r\n\r\n123", b"expect: 100-continue\r\ncontent-length: 10\r\n\r\n",
            b"content-length: 99999999\r\n\r\n", CHUNKED + b"5\r\n",
        ):  # fmt: skip
            with connected(url) as connection:
                connection.sendall(HEAD + rest)
                answer = answered(connection).lower()
            assert answer.startswith(b"http/1.1 401")
            assert b"connection: close" in answer
        with connected(url) as connection:  # it is answered without its body
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n123")
            assert answered(connection).startswith(b"HTTP/1.1 200")


def test_a_refused_body_is_answered_at_once_and_a_slow_one_after_one_time_limit(repository, monkeypatch):
    """Refusing a body that is all there waits for nothing; the limit of one that is not there counts once."""
    secret = add_token(repository, "one", "admin").encode()
    own = HEAD.replace(b"application/json", b"text/plain") + b"authorization: bearer " + secret + b"\r\n"
    with started(repository) as url:
        for rest in (b"content-length: 2\r\n\r\n{}", CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"):
            with connected(url) as connection:
                began = time.monotonic()
                connection.sendall(own + rest)
                head = head_of(connection)
                assert time.monotonic() - began < 5.0
            assert head.startswith(b"http/1.1 415")
            assert b"connection: close" not in head
        monkeypatch.setattr("pastmaster.service.body.BODY_SECONDS", 3.0)
        with connected(url) as connection:
            began = time.monotonic()
            connection.sendall(own + b"content-length: 10\r\n\r\n123")
            assert answered(connection).startswith(b"HTTP/1.1 408")
            assert 2.9 < time.monotonic() - began < 5.0


BROKEN = [
    b"content-length: 20\r\n\r\n", b'content-length: 20\r\n\r\n{"count": 3}', CHUNKED, CHUNKED + b"2\r\n{}\r\n",
    CHUNKED + b"ZZ\r\n", CHUNKED + b"2\r\n{}ZZ\r\n", CHUNKED + b"2\r\n{}\r\n0\r\nx", b"content-length: 2\r\n" + CHUNKED,
    b"transfer-encoding: xchunked\r\n\r\n{}", b"content-length: 2\r\ncontent-length: 0\r\n\r\n{}",
]  # fmt: skip


def test_an_ask_that_breaks_off_is_not_carried_out(repository):
    with started(repository) as url, Client(url) as client:
        client.cancel("site", client.ask("site"))
        for rest in BROKEN:
            for pause in (0.0, 0.1):
                with connected(url) as connection:
                    connection.sendall(HEAD + rest)
                    time.sleep(pause)
            with connected(url) as connection:
                connection.sendall(HEAD + rest)
                connection.shutdown(socket.SHUT_WR)
                answered(connection)
            assert client.state("site")["asked"] == 1, rest
