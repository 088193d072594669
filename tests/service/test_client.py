"""The client: few lines, from threads and from asyncio; an answer that is lost is asked for again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pickle
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from service_world import SOURCES, certificate, free_port, small_task

from pastmaster import Client, InvalidInputError, Repository
from pastmaster.domains import windy_corridor
from pastmaster.errors import ServiceError
from pastmaster.service import Asked, make_task, started


class Running(NamedTuple):
    """A service with a task of named sources and one of kept policies, which are here by their digests."""

    url: str
    kept: dict[str, Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("service") / "tasks.db"
    small_task(place)
    with Repository(place) as repository:
        for task in windy_corridor.family()[::20]:
            repository.add(task)
        repository.keep(k=2, rng=0)
        make_task(repository, "kept")
        digests = [record.digest for record in repository.policy_records(repository.source_ids())]
        with started(repository) as url:
            yield Running(url, dict(zip(digests, repository.sources(), strict=True)))


def test_the_readmes_lines(running):
    with Client(running.url) as client:
        before = client.state("site")["told"]
        with client.episode("site") as episode:
            assert episode.name == [*SOURCES, "learner"][episode.arm]
            episode.value = 0.5
        assert client.state("site")["told"] == before + 1


def test_an_episode_without_a_value_or_with_an_error_is_cancelled(running):
    with Client(running.url) as client:
        before = client.state("site")
        with client.episode("site"):
            pass
        with pytest.raises(ZeroDivisionError), client.episode("site") as episode:
            episode.value = 1 / 0
        with pytest.raises(ServiceError, match="within the bounds") as caught, client.episode("site") as episode:
            episode.value = 7.0
        assert (caught.value.status, caught.value.code) == (409, "out_of_bounds")
        client.cancel("site", episode)
        client.cancel("site", episode)
        state = client.state("site")
        assert (state["cancelled"], state["told"]) == (before["cancelled"] + 3, before["told"])


def test_threads_share_a_client(running):
    with Client(running.url) as client, ThreadPoolExecutor(12) as pool:

        def visit(k: int) -> int:
            with client.episode("site") as episode:
                episode.value = k / 60
            return episode.number

        assert len(set(pool.map(visit, range(60)))) == 60


def test_asyncio_uses_the_same_client(running):
    async def visit(client: Client, k: int) -> int:
        async with client.episode("site") as episode:
            await asyncio.sleep(0)
            episode.value = k / 60
        return episode.number

    async def all_visits() -> list[int]:
        with Client(running.url) as client:
            return await asyncio.gather(*(visit(client, k) for k in range(60)))

    assert len(set(asyncio.run(all_visits()))) == 60


def test_asyncio_that_gives_up_while_it_asks_leaves_no_episode_open(running):
    """A timeout strikes before, while and after the ask is sent; the episode that nobody got is cancelled."""

    async def visit(client: Client, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), client.episode("site") as episode:
                episode.value = 0.5
                await asyncio.sleep(0.05)

    async def all_visits(client: Client) -> None:
        await asyncio.gather(*(visit(client, 0.0005 * k) for k in range(100)))

    with Client(running.url) as client:
        before = client.state("site")
        asyncio.run(all_visits(client))
        for _ in range(600):
            state = client.state("site")
            if state["open"] == before["open"]:
                break
            time.sleep(0.1)
        assert state["open"] == before["open"]
        assert state["asked"] > before["asked"]


def test_many_are_asked_and_told_with_one_request_each(running):
    with Client(running.url) as client:
        asked = client.ask_many("site", 5)
        returns = {one.number: 0.25 for one in asked}
        assert client.tell_many("site", returns) == {}
        refused = client.tell_many("site", returns | {asked[0].number: 0.5, 10**6: 0.5})
        assert {number: error.code for number, error in refused.items()} == {
            asked[0].number: "conflict",
            10**6: "no_episode",
        }


def test_a_policy_is_downloaded_by_its_content(running):
    with Client(running.url) as client:
        digests = [arm["policy"] for arm in client.state("kept")["arms"][:-1]]
        assert set(digests) == set(running.kept)
        for digest in digests:
            np.testing.assert_array_equal(client.policy(digest), running.kept[digest])
        with pytest.raises(ServiceError, match="no stored policy has the digest"):
            client.policy("0" * 64)
        with pytest.raises(ServiceError):
            client.policy("../../etc/passwd")


class Forgetful(BaseHTTPRequestHandler):
    """Passes requests on, but loses two answers out of three, all but a part: after the service has acted."""

    target, count, part = "", 0, 0.0
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with socket.create_connection(("127.0.0.1", int(self.target)), timeout=60) as there:
            head = f"POST {self.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            head += "connection: close\r\n"
            there.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = b"".join(iter(lambda: there.recv(65536), b""))
        type(self).count += 1
        if type(self).count % 3:
            self.close_connection = True
            head, _, content = answer.partition(b"\r\n\r\n")
            if self.part:
                self.wfile.write(head + b"\r\n\r\n" + content[: int((self.part - 0.5) * len(content))])
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(answer)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_lost_answers_are_asked_for_again_and_nothing_counts_twice(running, part):
    """Nothing of them comes, or the head alone, or half of the body: a service was killed while it answered."""
    handler = type("Forgetful", (Forgetful,), {"target": running.url.rpartition(":")[2], "part": part})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
    with Client(running.url) as direct, Client(f"http://127.0.0.1:{proxy.server_port}") as client:
        before = direct.state("site")
        for k in range(4):
            with client.episode("site") as episode:
                episode.value = k / 4
        after = direct.state("site")
        assert handler.count == 3 * 8
        made = client.make_task("made through losses", sources=SOURCES, bounds=[0, 1])
        assert direct.state("made through losses") == made
        direct.remove_task("made through losses")
    proxy.shutdown()
    proxy.server_close()
    assert handler.count == 3 * 9
    assert (after["asked"] - before["asked"], after["told"] - before["told"]) == (4, 4)


@contextmanager
def answering(body: bytes, pair: tuple[Path, Path] | None = None) -> Iterator[str]:
    """The address of somebody who answers everything with this; over HTTPS if there are a certificate and its key."""

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    if pair is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*pair)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http{'s' if pair else ''}://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


STRANGE = [
    b"<html>Sign in</html>", b"null", b"[]", b"7", b"{}", b"[" * 100_000, b'{"tasks": null, "episodes": null}',
    b'{"episodes": [{"number": 0, "arm": 0, "name": "a", "policy": null}], "tasks": 1, "returns": [{"error": {}}]}',
]  # fmt: skip


def test_an_answer_of_another_shape_is_none_of_the_services():
    for body in STRANGE:
        with answering(body) as url, Client(url) as client:
            for call in (client.tasks, lambda: client.ask("site"), lambda: client.tell_many("site", {0: 0.5})):
                with pytest.raises(ServiceError, match="none of the service's") as caught:
                    call()
                assert (caught.value.status, caught.value.code) == (200, "http")


def test_only_a_certificate_that_is_trusted_is_talked_to(tmp_path, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the PATH: no certificate can be made")
    pair = certificate(tmp_path)
    with answering(b'{"tasks": ["site"]}', pair) as url:
        with Client(url) as client, pytest.raises(ServiceError, match=r"is not trusted.*SSL_CERT_FILE"):
            client.tasks()  # nothing is sent again: that would last for the patience of a minute
        monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
        with Client(url) as client:
            assert client.tasks() == ["site"]


def test_what_a_later_service_adds_to_an_answer_is_ignored():
    episode = {"number": 3, "arm": 1, "name": "a", "policy": None, "lease": 5, "value": 0.5, "later": {"x": 1}}
    with answering(json.dumps({"episodes": [episode], "later": 1}).encode()) as url, Client(url) as client:
        assert client.ask("site") == Asked(3, 1, "a", None, 5.0)


def test_where_nobody_answers_it_gives_up_with_a_sentence():
    with Client(f"http://127.0.0.1:{free_port()}", patience=0.2) as client:
        with pytest.raises(ServiceError, match="does not answer") as caught:
            client.tasks()
        assert (caught.value.status, caught.value.code) == (0, "no_answer")
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.code) == (str(caught.value), "no_answer")


WRONG = [
    "http://h:99999", "http://h:x", "http://h:-1", "http://h:0", "http://[::1", "http://::1]", "http://[x]",
    "http://a b", "http://a..b", f"http://{'a' * 70}", "http://h/\N{SNOWMAN}", "http://h\x7f",
]  # fmt: skip


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x", "http://", "http://a?b=c", 7, None, "http://u:p@h", *WRONG]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InvalidInputError, match="Client: url is"):
        Client(url)


def test_arguments_are_checked_before_anything_is_sent():
    with Client("http://127.0.0.1:9", patience=0) as client:
        for call in (
            lambda: client.tell("site", 0, float("nan")),
            lambda: client.tell("site", 0, True),
            lambda: client.tell("site", -1, 0.5),
            lambda: client.tell("site", "0", 0.5),
            lambda: client.ask_many("site", 0),
            lambda: client.ask("site", lease=-1.0),
            lambda: client.ask(7),
            lambda: client.make_task("a", sources={1}),
            lambda: client.policy(None),
        ):
            with pytest.raises(InvalidInputError):
                call()
    with pytest.raises(InvalidInputError, match="token"):
        Client("http://localhost", "a\nb")
    assert repr(Client("http://localhost:8000/", "secret")) == "Client(http://localhost:8000)"
