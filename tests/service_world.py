"""The service for tests: in this process without a network, or in a process of its own on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from seams import TOLD, Engine, service_opened, service_tables

from pastmaster import Client, Repository
from pastmaster.service import make_task
from pastmaster.service.api import ROUTES, Service
from pastmaster.service.app import App

SOURCES = ["left", "right", "straight"]
PATIENCE = 240.0  # seconds, on a busy machine too


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Api:
    """The service in this process: requests go through all of it but the network."""

    def __init__(self, place: str | Path, clock: Clock | None = None, **settings: Any) -> None:
        self.place, self.clock = place, clock
        self.repository = Repository(place)
        self.service = Service(self.repository, **({"sweep": 1e9} | settings))
        if clock is not None:
            self.service.engine._clock = clock
        self.app, self.loop = App(ROUTES, self.service), Loop()

    def __call__(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None,
        headers: dict[str, str] | None = None, client: str = "127.0.0.1",
    ) -> tuple[int, Any]:  # fmt: skip
        sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        given = {"host": "localhost:8000", "content-type": "application/json", "content-length": str(len(sent))}
        given |= headers or {}
        answers: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            answers.append(message)

        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode("utf-8", "replace"),
            "root_path": "", "scheme": "http", "query_string": query.encode(), "http_version": "1.1",
            "server": ("127.0.0.1", 8000), "client": (client, 1), "asgi": {"version": "3.0"},
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in given.items()],
        }  # fmt: skip
        self.loop.run(self.app(scope, receive, send))
        raw_answer = b"".join(message.get("body", b"") for message in answers[1:])
        self.headers = {k.decode(): v.decode() for k, v in answers[0]["headers"]}
        is_json = self.headers.get("content-type", "").startswith("application/json")
        return answers[0]["status"], json.loads(raw_answer) if is_json else raw_answer

    def ask(self, task: str = "site", **body: Any) -> dict[str, Any]:
        status, answer = self("POST", f"/v1/tasks/{task}/episodes", body)
        assert status == 200, answer
        return answer["episodes"][0]

    def tell(self, number: int, value: float, task: str = "site") -> tuple[int, Any]:
        return self("POST", f"/v1/tasks/{task}/episodes/{number}/return", {"value": value})

    def state(self, task: str = "site") -> dict[str, Any]:
        status, answer = self("GET", f"/v1/tasks/{task}")
        assert status == 200, answer
        return answer

    def event(self) -> Any:
        """What the live page would be told now."""
        self.service.live._latest = (-1e9, b"")
        return json.loads(self.loop.run(self.service.live.event()).removeprefix(b"data: "))

    def learn_tokens(self) -> None:
        """Read the tokens now, which happens twice a second by itself."""
        self.service.gate.keys.refresh()

    def close(self) -> None:
        self.service.close()
        self.repository.close()
        self.loop.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live page's events come ten times a second: nothing waits for a second to pass."""
    monkeypatch.setattr("pastmaster.service.live.SECONDS", 0.1)


@contextmanager
def api(place: str | Path, clock: Clock | None = None, **settings: Any) -> Iterator[Api]:
    made = Api(place, clock, **settings)
    try:
        yield made
    finally:
        made.close()


def small_task(place: str | Path, name: str = "site", **settings: Any) -> None:
    """A task of three sources in a new or old repository."""
    with Repository(place) as repository:
        given = {"sources": SOURCES, "bounds": (0.0, 1.0), "seed": 7, "selector": "tsallis-inf"} | settings
        make_task(repository, name, **given)


class Called(Engine):
    """An engine that is called from threads."""

    def __init__(self, database: Any, **settings: Any) -> None:
        self.loop = Loop()
        super().__init__(database, **({"sweep": 1e9} | settings))

    def call(self, operation: Any) -> Any:
        return self.loop.run(self.do(operation))


@contextmanager
def tables(place: str | Path) -> Iterator[Any]:
    """The service's own database."""
    with Repository(place) as repository, service_opened(repository) as database:
        yield database


@contextmanager
def engine(place: str | Path, **settings: Any) -> Iterator[Called]:
    with tables(place) as database:
        made = Called(database, **settings)
        try:
            yield made
        finally:
            made.close()
            made.loop.close()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Served:
    """``pastmaster serve`` in a process of its own."""

    def __init__(self, place: str | Path, port: int | None = None, *options: str) -> None:
        self.place, self.port, self.options = place, port or free_port(), options
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.log = b""
        self.start()

    def start(self) -> float:
        """Start it; returns the seconds until it answered."""
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "pastmaster",
            "serve",
            str(self.place),
            "--port",
            str(self.port),
            *self.options,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"PYTHONWARNINGS": "error"})
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"the service did not start: {self.kill().decode()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def kill(self, how: int = signal.SIGKILL) -> bytes:
        """End it; returns what it logged."""
        assert self.process is not None
        self.process.send_signal(how)
        self.log += self.process.communicate(timeout=PATIENCE)[1]
        return self.log

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def served(place: str | Path, *options: str) -> Iterator[Served]:
    made = Served(place, None, *options)
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.kill(signal.SIGTERM)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this computer, signed by itself, and its key."""
    made, key = folder / "certificate.pem", folder / "key.pem"
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *kind, "-keyout", key, "-out", made, *named]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def stored(place: str | Path) -> list[Any]:
    """The rows of all episodes."""
    with tables(place) as database:
        episodes = service_tables.tables["service_episodes"]
        return database.read(lambda c: c.execute(episodes.select().order_by(episodes.c.number)).all())


def all_rows(place: str | Path) -> list[Any]:
    """The rows of all tables of the service but that which names the repository."""
    wanted = [table for table in service_tables.sorted_tables if table.name != "service_repository"]
    with tables(place) as database:
        return database.read(lambda c: [c.execute(table.select()).all() for table in wanted])


def alter(place: str | Path, statement: str) -> None:
    """Change what is stored, as nobody should."""
    with tables(place) as database:
        database.write(lambda c: c.exec_driver_sql(statement))


def selector_state(served: Engine) -> Any:
    """The selector of the only task, as it is in memory."""
    (decider,) = served._deciders.values()
    return decider.selector.to_dict()


class Load:
    """Threads that ask and tell until they are stopped, and remember what was acknowledged."""

    def __init__(self, urls: list[str], threads: int = 6) -> None:
        self.urls, self.over = urls, threading.Event()
        self.told: dict[int, float] = {}
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(k,), daemon=True) for k in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, k: int) -> None:
        draw = random.Random(k)
        try:
            with Client(self.urls[k % len(self.urls)], timeout=20.0, patience=240.0) as client:
                while not self.over.is_set():
                    asked, value = client.ask("site"), draw.random()
                    if draw.random() < 0.1:
                        client.cancel("site", asked)
                        continue
                    client.tell("site", asked, value)
                    assert self.told.setdefault(asked.number, value) == value, "an episode was given out twice"
        except BaseException as error:
            self.errors.append(error)

    def wait_for(self, count: int) -> None:
        """Until so many more are acknowledged."""
        goal, deadline = len(self.told) + count, time.monotonic() + 240.0
        while len(self.told) < goal and not self.errors:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            time.sleep(0.002)

    def stop(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(240.0)
        assert self.errors == []

    def lost(self, place: str | Path) -> dict[int, float]:
        """What was acknowledged and is not in the database."""
        told = {row.number: row.value for row in stored(place) if row.outcome == TOLD}
        return {number: value for number, value in self.told.items() if told.get(number) != value}
