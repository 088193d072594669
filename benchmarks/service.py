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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, machine, write
from pastmaster import Repository
from pastmaster.service import engine, make_task, serve
from pastmaster.service.engine import Engine
from pastmaster.service.operations import Ask, TellMany
from pastmaster.service.schema import prepare

TESTS = Path(__file__).parent.parent / "tests"
CONNECTIONS, SECONDS = 50, 15.0
OPEN, TOLD, AT_ONCE = 100_000, 1_000_000, 1000
ARMS = [f"layout {letter}" for letter in "abcdefghijkl"]


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        load = f"Load while it was measured: {os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores."
        rows = [*on_a_file(Path(folder)), *on_a_server(Path(folder)), *memory(Path(folder))]
        write("service", f"{machine('sqlalchemy', 'fastapi', 'uvicorn')} {load}", rows)


def on_a_file(folder: Path) -> list[Row]:
    """Pairs of ask and tell a second in a SQLite file, beside a transaction for each call."""
    ours, late, work = _measured([_new(folder / "ours.db")])
    peer, peer_late, peer_work = _measured([_new(folder / "peer.db")], "alone")
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
            "processor time of a pair, whatever else runs", f"{1e3 * work:.2f} ms", f"{1e3 * peer_work:.2f} ms",
            f"{peer_work / work:.1f}x", "<= 0.67 ms: 1,500 pairs/s of one core", work <= 1 / 1500,
        ),
    ]  # fmt: skip


def on_a_server(folder: Path) -> list[Row]:
    """Two processes on one PostgreSQL, beside one: on one task, and on a task each."""
    sys.path.insert(0, str(TESTS))
    import postgres  # type: ignore[import-not-found]  # of the tests

    server = postgres.start(folder / "postgres")
    try:
        with server.fresh_database() as url:
            one, _, _ = _measured([_new(url)])
        with server.fresh_database() as url:
            two, late, _ = _measured([_new(url), url])
    finally:
        server.stop()
    row = Row(
        f"the same on PostgreSQL, two processes, one task, {CONNECTIONS} connections",
        f"{two:,.0f} pairs/s, 99% within {1e3 * late:.0f} ms", f"{one:,.0f} pairs/s, one process", f"{two / one:.2f}x",
        ">= 1.3x", two >= 1.3 * one,
    )  # fmt: skip
    return [row]


def memory(folder: Path) -> list[Row]:
    """Memory and time of a thousand asks and tells, after 10,000 returns and after a million, with many open."""
    place = _new(folder / "memory.db")
    with Repository(place) as repository:
        served = Engine(repository.database)
        numbers = [e["number"] for _ in range(OPEN // AT_ONCE) for e in served.call(Ask("site", AT_ONCE))["episodes"]]
        sizes, times = [], []
        for done in range(0, TOLD, AT_ONCE):
            begun = time.perf_counter()
            served.call(TellMany("site", [(number, 0.5) for number in numbers[:AT_ONCE]]))
            numbers = numbers[AT_ONCE:] + [e["number"] for e in served.call(Ask("site", AT_ONCE))["episodes"]]
            times.append(time.perf_counter() - begun)
            if done in (10 * AT_ONCE, TOLD - AT_ONCE):
                sizes.append(_resident())
        served.close()
    early, end = (float(np.percentile(part, 99)) for part in (times[:100], times[-100:]))
    grown = sizes[1] / sizes[0] - 1.0
    return [
        Row(
            f"memory with {OPEN:,} open, after {TOLD:,} told", f"{sizes[1] / 2**20:,.0f} MiB",
            f"{sizes[0] / 2**20:,.0f} MiB after {10 * AT_ONCE:,}", f"{grown:+.0%}", "within 10%", abs(grown) <= 0.1,
        ),
        Row(
            f"99% of {AT_ONCE:,} asks and tells in one request within", f"{1e3 * end:.0f} ms",
            f"{1e3 * early:.0f} ms at the beginning", f"{end / early:.2f}x", "", None,
        ),
    ]  # fmt: skip


def _new(place: Path | str) -> Path | str:
    with Repository(place) as repository:
        prepare(repository.database)
        make_task(repository, "site", sources=ARMS, bounds=(0.0, 1.0), seed=0, selector="tsallis-inf", most_open=10**6)
    return place


def _resident() -> float:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return float(pages) * os.sysconf("SC_PAGE_SIZE")


def _measured(places: list[Path | str], *how: str) -> tuple[float, float, float]:
    """Pairs a second, the time within which 99% of the answers came, and the processor time of a pair."""
    with _served(places, *how) as (ports, processes):
        asyncio.run(_load(ports, 2.0))
        before = sum(map(_worked, processes))
        pairs, late = asyncio.run(_load(ports, SECONDS))
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


async def _load(ports: list[int], duration: float) -> tuple[float, float]:
    times: list[float] = []
    until = time.perf_counter() + duration
    await asyncio.gather(*(_visit(ports[k % len(ports)], k, until, times) for k in range(CONNECTIONS)))
    return len(times) / 2 / duration, float(np.percentile(times, 99))


async def _visit(port: int, k: int, until: float, times: list[float]) -> None:
    """One connection: ask, tell, ask, tell."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (begun := time.perf_counter()) < until:
        asked = await _send(reader, writer, "/v1/tasks/site/episodes", {"key": f"{k}-{time.monotonic_ns()}"})
        middle = time.perf_counter()
        number = asked["episodes"][0]["number"]
        await _send(reader, writer, f"/v1/tasks/site/episodes/{number}/return", {"value": 0.5})
        times += [middle - begun, time.perf_counter() - middle]
    writer.close()


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: object) -> dict[str, list]:  # type: ignore[type-arg]
    sent = json.dumps(body).encode()
    kind = f"content-type: application/json\r\ncontent-length: {len(sent)}"
    writer.write(f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{kind}\r\n\r\n".encode() + sent)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body_read = await reader.readexactly(length)
    assert answer.startswith(b"HTTP/1.1 200"), body_read
    found: dict[str, list] = json.loads(body_read)  # type: ignore[type-arg]
    return found


if __name__ == "__main__":
    where, port, *how = sys.argv[1:]
    if how:  # every call has a transaction of its own
        engine.MOST_AT_ONCE = 1
    with Repository(where) as opened:
        serve(opened, port=int(port), rate=1e9)
