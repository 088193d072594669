"""The service under load: asks and tells that are on the disk, by one process and by two, and its memory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, machine, write
from pastmaster import Repository
from pastmaster.service import engine, make_task, serve
from pastmaster.service.engine import Engine
from pastmaster.service.operations import Ask, TellMany
from pastmaster.service.schema import SERVICE, opened
from pastmaster.tables import counted

TESTS = Path(__file__).parent.parent / "tests"
CONNECTIONS, SECONDS = 50, 15.0
OPEN, EARLY, TOLD, AT_ONCE = 100_000, 10_000, 1_000_000, 1000
REPEATS = 5  # of what is compared closely
KILLS, PAUSE = 100, 6.0  # and the seconds from one to the next
ARMS = [f"layout {letter}" for letter in "abcdefghijkl"]


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        load = f"Load while it was measured: {os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores."
        rows = [*on_a_file(Path(folder)), *on_a_server(Path(folder)), *memory(Path(folder)), *kills(Path(folder))]
        write("service", f"{machine('sqlalchemy', 'pydantic', 'uvicorn')} {load}", rows)


def on_a_file(folder: Path) -> list[Row]:
    """Pairs of ask and tell a second in a SQLite file, beside a transaction for each call, with and without a log."""
    ours, late, work = _measured([_new(folder / "ours.db")])
    peer, peer_late, peer_work = _measured([_new(folder / "peer.db")], "alone", "journal")
    logged, logged_late, _ = _measured([_new(folder / "logged.db")], "alone")
    return [
        Row(
            f"ask and tell, on the disk, SQLite, {CONNECTIONS} connections", f"{ours:,.0f} pairs/s",
            f"{peer:,.0f} pairs/s, a transaction each", f"{ours / peer:.1f}x", ">= 1,500 pairs/s, >= 8x",
            ours >= 1500 and ours >= 8 * peer,
        ),
        Row(
            "99% of these answers within", f"{1e3 * late:.0f} ms", f"{1e3 * peer_late:.0f} ms", "", "<= 60 ms",
            late <= 0.06,
        ),
        Row(
            "the peer with a write-ahead log, as ours has", f"{ours:,.0f} pairs/s",
            f"{logged:,.0f} pairs/s, 99% within {1e3 * logged_late:.0f} ms", f"{ours / logged:.1f}x", "", None,
        ),
        Row(
            "processor time of a pair, whatever else runs", f"{1e3 * work:.2f} ms", f"{1e3 * peer_work:.2f} ms",
            f"{peer_work / work:.1f}x", "<= 0.67 ms: 1,500 pairs/s of one core", work <= 1 / 1500,
        ),
    ]  # fmt: skip


def on_a_server(folder: Path) -> list[Row]:
    """Two processes on one PostgreSQL, beside one: on ten tasks, and on one, whose calls wait for each other."""
    sys.path.insert(0, str(TESTS))
    import postgres  # type: ignore[import-not-found]  # of the tests

    rows, server = [], postgres.start(folder / "postgres")
    try:
        for names in ([f"site-{k}" for k in range(10)], ["site"]):
            with server.fresh_database() as url:
                one, _, _ = _measured([_new(url, names)], names=names)
            with server.fresh_database() as url:
                two, late, _ = _measured([_new(url, names), url], names=names)
            told = f"{two:,.0f} pairs/s, 99% within {1e3 * late:.0f} ms"
            what = f"the same on PostgreSQL, two processes, {counted(len(names), 'task')}"
            peer = f"{one:,.0f} pairs/s, one process"
            rows.append(Row(what, told, peer, f"{two / one:.2f}x", ">= 1.3x", two >= 1.3 * one))
    finally:
        server.stop()
    return rows


def memory(folder: Path) -> list[Row]:
    """Memory, and the time of answers, with many episodes open, when 10,000 were told and when a million were."""
    place, copy = _new(folder / "memory.db"), folder / "early.db"
    sizes = _told(place, copy)
    runs = np.array([[_measured([copy]), _measured([place])] for _ in range(REPEATS)])  # in turn, as machines drift
    early, end = np.median(runs, axis=0)
    grown, ratio = sizes[1] / sizes[0] - 1.0, end[1] / early[1]
    spans = [
        f"{1e3 * low:.1f} to {1e3 * high:.1f}"
        for low, high in zip(*np.quantile(runs[..., 1], [0, 1], axis=0), strict=True)
    ]
    return [
        Row(
            f"memory with {OPEN:,} open, after {TOLD:,} told", f"{sizes[1] / 2**20:,.0f} MiB",
            f"{sizes[0] / 2**20:,.0f} MiB after {EARLY:,}", f"{grown:+.0%}", "within 10%", abs(grown) <= 0.1,
        ),
        Row(
            f"99% of the answers then within, median and range of {REPEATS}", f"{1e3 * end[1]:.1f} ms ({spans[1]})",
            f"{1e3 * early[1]:.1f} ms ({spans[0]}) after {EARLY:,}", f"{ratio:.2f}x", "unchanged", ratio <= 1.1,
        ),
        Row(
            "processor time of a pair then", f"{1e3 * end[2]:.2f} ms", f"{1e3 * early[2]:.2f} ms after {EARLY:,}",
            f"{end[2] / early[2]:.2f}x", "", None,
        ),
    ]  # fmt: skip


def _told(place: Path | str, early: Path) -> list[float]:
    """Ask and tell in a process of its own, the oldest open episodes first; its memory at two times, and a copy."""
    command = [sys.executable, "-m", "benchmarks.service", str(place), str(early), "told"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(line) for line in found.split()]


async def _tell(place: str, early: str) -> None:
    with Repository(place) as repository, opened(repository) as database:
        served, numbers = Engine(database), list[int]()

        async def ask() -> None:
            asked = await served.do(Ask("site", AT_ONCE))
            numbers.extend(episode["number"] for episode in asked["episodes"])

        for _ in range(OPEN // AT_ONCE):
            await ask()
        for done in range(AT_ONCE, TOLD + 1, AT_ONCE):
            await served.do(TellMany("site", [(number, 0.5) for number in numbers[:AT_ONCE]]))
            del numbers[:AT_ONCE]
            await ask()
            if done in (EARLY, TOLD):
                print(_resident())
            if done == EARLY:
                repository.backup(early)
        served.close()


def kills(folder: Path) -> list[Row]:
    """Ten kills -9 a minute for ten minutes, under load: what is lost, and when the service answers again."""
    sys.path.insert(0, str(TESTS))
    from service_world import Load, Served  # type: ignore[import-not-found]  # of the tests

    place, waits = folder / "killed.db", []
    _new(place)
    running = Served(place)
    load = Load([running.url])
    begun = time.monotonic()
    for number in range(1, KILLS + 1):
        time.sleep(max(0.0, begun + number * PAUSE - time.monotonic()))
        running.kill()
        waits.append(running.start())
    load.stop()
    running.kill()
    lost, minutes = len(load.lost(place)), (time.monotonic() - begun) / 60.0
    asked = f"{np.median(waits):.2f} s in the median, {max(waits):.2f} s at most"
    return [
        Row(
            f"{KILLS} kills -9 in {minutes:.0f} minutes under load: acknowledged returns lost",
            f"{lost} of {len(load.told):,}", "", "", "0", lost == 0,
        ),
        Row("the first answer after a start", asked, "", "", "<= 2 s", max(waits) <= 2.0),
    ]  # fmt: skip


def _new(place: Path | str, names: Sequence[str] = ("site",)) -> Path | str:
    settings: dict[str, Any] = {"bounds": (0.0, 1.0), "seed": 0, "selector": "tsallis-inf", "most_open": 10**6}
    with Repository(place) as repository:
        for name in names:
            make_task(repository, name, sources=ARMS, **settings)
    return place


def _resident() -> float:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return float(pages) * os.sysconf("SC_PAGE_SIZE")


def _measured(places: list[Path | str], *how: str, names: Sequence[str] = ("site",)) -> tuple[float, float, float]:
    """Pairs a second, the time within which 99% of the answers came, and the processor time of a pair."""
    with _served(places, *how) as (ports, processes):
        asyncio.run(_load(ports, names, 2.0))
        before = sum(map(_worked, processes))
        pairs, late = asyncio.run(_load(ports, names, SECONDS))
        return pairs, late, (sum(map(_worked, processes)) - before) / (pairs * SECONDS)


def _worked(process: int) -> float:
    """The processor time of a process so far, in seconds."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (float(user) + float(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _served(places: list[Path | str], *how: str) -> Iterator[tuple[list[int], list[int]]]:
    """The service in a process for each place: ports and processes."""
    ports, processes = [], []
    for place in places:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(int(free.getsockname()[1]))
        command = [sys.executable, "-m", "benchmarks.service", str(place), str(ports[-1]), *how]
        processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    try:
        for port in ports:
            _wait_for(port)
        yield ports, [process.pid for process in processes]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 120.0
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


async def _load(ports: list[int], names: Sequence[str], duration: float) -> tuple[float, float]:
    times: list[float] = []
    until, loop = time.perf_counter() + duration, asyncio.get_running_loop()
    visitors = []
    for k in range(CONNECTIONS):
        made = partial(Visitor, names[k % len(names)], until, times)
        visitors.append((await loop.create_connection(made, "127.0.0.1", ports[k % len(ports)]))[1])
    await asyncio.gather(*(visitor.done for visitor in visitors))
    return len(times) / 2 / duration, float(np.percentile(times, 99))


class Visitor(asyncio.Protocol):
    """One connection: ask, tell, ask, tell. It does little itself, since it works on the same cores as the service."""

    def __init__(self, task: str, until: float, times: list[float]) -> None:
        self.task, self.until, self.times = task, until, times
        self.done = asyncio.get_running_loop().create_future()
        self.read, self.asking, self.begun = b"", True, 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send("", b'{"key": "%d-%d"}' % (id(self), time.monotonic_ns()))

    def send(self, path: str, body: bytes) -> None:
        self.begun = time.perf_counter()
        head = f"POST /v1/tasks/{self.task}/episodes{path} HTTP/1.1\r\nhost: localhost\r\n"
        kind = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.transport.write(f"{head}{kind}".encode() + body)

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, _, body = self.read.partition(b"\r\n\r\n")
        if not body or len(body) < int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            return
        assert head.startswith(b"HTTP/1.1 200"), self.read
        self.times.append(time.perf_counter() - self.begun)
        self.read = b""
        if self.asking:
            self.asking = False
            self.send(f"/{json.loads(body)['episodes'][0]['number']}/return", b'{"value": 0.5}')
        elif self.begun < self.until:
            self.asking = True
            self.send("", b'{"key": "%d-%d"}' % (id(self), time.monotonic_ns()))
        else:
            self.transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the service closed the connection"))


if __name__ == "__main__":
    where, port, *how = sys.argv[1:]
    if "told" in how:
        asyncio.run(_tell(where, port))
        sys.exit()
    if "alone" in how:  # every call has a transaction of its own
        engine.MOST_AT_ONCE = 1
    if "journal" in how:  # SQLite's own default
        SERVICE.log = False
    with Repository(where) as repository:
        serve(repository, port=int(port), rate=1e9)
