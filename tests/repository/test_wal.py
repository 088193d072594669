"""A log that lost commits is refused before SQLite reads it; what kills and power cuts leave never is."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from faults import repetitions
from service_world import engine, served, small_task

from pastmaster import DamagedError, Repository
from pastmaster.client import Client
from pastmaster.repository import sqlite, wal
from pastmaster.service.state import Describe

ENDS = ("", "-wal", "-shm")
SIZE = wal.FRAME_HEAD + 4096


class Files:
    """A file, its log and its index, as they were at one moment; ``put`` writes them, changed, to a new place."""

    def __init__(self, path: Path) -> None:
        self.files = {end: Path(f"{path}{end}").read_bytes() for end in ENDS}
        self.log = self.files["-wal"]

    def put(self, folder: Path, log: bytes | None = None, index: bytes | None = b"same") -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = folder / "site.db"
        given = {"-wal": self.log if log is None else log, "-shm": self.files["-shm"] if index == b"same" else index}
        for end, content in (self.files | given).items():
            if content is not None:
                Path(f"{path}{end}").write_bytes(content)
        return path


def flipped(log: bytes, place: int, bit: int) -> bytes:
    return log[:place] + bytes([log[place] ^ 1 << bit]) + log[place + 1 :]


def is_refused(path: Path) -> bool:
    try:
        wal.check_log(path)
    except DamagedError:
        return True
    return False


def frames(log: bytes) -> int:
    return (len(log) - wal.HEAD) // SIZE


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> tuple[Files, int]:
    """What a service leaves that is killed, and how many returns it had acknowledged."""
    path = tmp_path_factory.mktemp("killed") / "site.db"
    small_task(path)
    with served(path) as running, Client(running.url) as client:
        for _ in range(12):
            with client.episode("site") as episode:
                episode.value = 0.5
        running.kill(signal.SIGKILL)
    return Files(path), 12


def told(path: Path) -> int:
    with engine(path) as served:
        return served.call(Describe("site"))["told"]


def test_what_a_kill_leaves_is_opened_with_all_that_was_acknowledged(killed, tmp_path):
    files, acknowledged = killed
    assert frames(files.log) >= 24
    assert told(files.put(tmp_path / "a")) == acknowledged
    assert told(files.put(tmp_path / "b", index=None)) == acknowledged


def test_checksums_are_those_of_the_format(killed, tmp_path):
    """Every frame of a real log, word by word."""
    log, first, second = killed[0].log, 0, 0
    assert log[3] & 1 == 0  # little-endian

    def add(part: bytes) -> tuple[int, int]:
        one, two = first, second
        for x, y in struct.iter_unpack("<2I", part):
            one = (one + x + two) % 2**32
            two = (two + y + one) % 2**32
        return one, two

    first, second = add(log[:24])
    assert struct.pack(">2I", first, second) == log[24:32]
    for start in range(wal.HEAD, len(log), SIZE):
        first, second = add(log[start : start + 8] + log[start + 24 : start + SIZE])
        assert struct.pack(">2I", first, second) == log[start + 16 : start + 24]
    found = wal._read(killed[0].put(tmp_path / "a"))
    assert (found.good, found.committed, found.known, found.goes_on) == (*[frames(log)] * 3, False)


@pytest.mark.repeated
def test_a_bit_that_flips_in_any_region_of_a_log_is_noticed(killed, tmp_path, seed, attempts):
    tally = attempts("one bit flipped in the log of a killed service", "refused by name")
    files, _ = killed
    draw, log = random.Random(seed), files.log
    places = [(place, bit) for place in range(wal.HEAD) for bit in range(8)]
    for frame in range(frames(log)):
        start = wal.HEAD + frame * SIZE
        places += [(start + place, draw.randrange(8)) for place in range(wal.FRAME_HEAD)]
        inside = [draw.randrange(wal.FRAME_HEAD, SIZE) for _ in range(repetitions(100, 4))]
        places += [(start + place, draw.randrange(8)) for place in (wal.FRAME_HEAD, SIZE - 1, *inside)]
    path = files.put(tmp_path / "a")
    for place, bit in places:
        Path(f"{path}-wal").write_bytes(flipped(log, place, bit))
        with tally.attempt(f"bit {bit} of byte {place}"):
            assert is_refused(path)


def test_a_damaged_log_is_refused_by_name_and_nothing_is_changed(killed, tmp_path):
    files, acknowledged = killed
    path = files.put(tmp_path / "a", flipped(files.log, wal.HEAD + frames(files.log) * 3 // 4 * SIZE + 1000, 3))
    before = Files(path).files
    for _ in range(2):
        with pytest.raises(DamagedError, match=r"site.db-wal in .* is damaged, nothing was changed") as caught:
            Repository(path)
    assert Files(path).files == before
    words = str(caught.value)
    length = int(words.partition("truncate -s ")[2].partition(" ")[0])
    assert (length - wal.HEAD) % SIZE == 0
    Path(f"{path}-wal").write_bytes(Path(f"{path}-wal").read_bytes()[:length])  # as it says
    Path(f"{path}-shm").unlink()
    assert 0 < told(path) < acknowledged
    with Repository(path) as repository:
        assert repository.check() == []


def test_without_the_look_sqlite_loses_returns_without_a_word(killed, tmp_path, monkeypatch):
    """A negative control: this is what is looked for."""
    files, acknowledged = killed
    monkeypatch.setattr(sqlite, "check_log", lambda path: None)
    assert (
        told(files.put(tmp_path / "a", flipped(files.log, wal.HEAD + frames(files.log) * 3 // 4 * SIZE + 1000, 3)))
        < acknowledged
    )


@pytest.fixture(scope="module")
def states(tmp_path_factory) -> list[Files]:
    """A file with a log after each of some transactions, of one to five frames, as a kill at that moment leaves it."""
    path = tmp_path_factory.mktemp("states") / "site.db"
    small_task(path)
    found = []
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE noise (a INTEGER PRIMARY KEY, b BLOB)")
    for pages in (1, 3, 2, 5, 1, 4):
        connection.execute("INSERT INTO noise (b) VALUES (randomblob(?))", [4000 * pages])
        found.append(Files(path))
    connection.close()
    return found


@pytest.mark.parametrize("index", ["of that moment", "of an earlier one", "none"])
def test_the_last_transaction_may_be_cut_short_anywhere(states, tmp_path, index):
    """After a kill the log ends anywhere in it."""
    path, refused = states[-1].put(tmp_path / "a"), []
    for before, after in pairwise(states):
        left = {"of that moment": before, "of an earlier one": states[0]}.get(index)
        after.put(tmp_path / "a", index=left and left.files["-shm"])
        for length in range(len(before.log), len(after.log) + 1, 131):
            Path(f"{path}-wal").write_bytes(after.log[:length])
            refused += [length] if is_refused(path) else []
    assert refused == []


@pytest.mark.repeated
@pytest.mark.parametrize("index", ["of that moment", "of an earlier one", "none"])
def test_a_power_cut_may_leave_any_parts_of_the_last_transaction(states, tmp_path, seed, index, attempts):
    """Sectors of it are there or not, in any order; what is not is nothing, or what was there before."""
    tally = attempts("any sectors of a log's last transaction lost", "no false damage")
    draw, path = random.Random(seed), states[-1].put(tmp_path / "a")
    for before, after in pairwise(states):
        left = {"of that moment": before, "of an earlier one": states[0]}.get(index)
        after.put(tmp_path / "a", index=left and left.files["-shm"])
        old = [bytes(len(after.log)), draw.randbytes(len(after.log))]
        for _ in range(repetitions(500, 40)):
            log, share = bytearray(after.log), draw.random()
            for sector in range(len(before.log) // 512, len(log) // 512 + 1):
                where = slice(max(512 * sector, len(before.log)), 512 * sector + 512)
                if draw.random() < share:
                    log[where] = draw.choice(old)[where]
            Path(f"{path}-wal").write_bytes(log)
            with tally.attempt(f"transaction of {frames(after.log) - frames(before.log)} frames"):
                assert not is_refused(path)


def test_a_log_alone_tells_of_damage_before_its_last_two_transactions(states, tmp_path):
    last, draw = states[-1], random.Random(0)
    path = last.put(tmp_path / "a", index=None)
    safe = len(states[-3].log)
    for place in [*range(wal.HEAD, safe, 997), safe - 1]:
        Path(f"{path}-wal").write_bytes(flipped(last.log, place, draw.randrange(8)))
        assert is_refused(path), place
    for place in range(len(states[-2].log), len(last.log), 997):  # it may be one that was cut short
        Path(f"{path}-wal").write_bytes(flipped(last.log, place, draw.randrange(8)))
        assert not is_refused(path), place


def test_frames_of_a_former_cycle_are_neither_missed_nor_feared(tmp_path):
    path = tmp_path / "site.db"
    small_task(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=wal")
    connection.execute("CREATE TABLE noise (b BLOB)")
    for _ in range(10):
        connection.execute("INSERT INTO noise VALUES (randomblob(8000))")
    former = Files(path)
    connection.execute("PRAGMA wal_checkpoint(RESTART)")  # the next transaction begins the log anew
    moments = [Files(path)]
    for _ in range(3):
        connection.execute("INSERT INTO noise VALUES (randomblob(2000))")
        moments.append(Files(path))
    connection.close()
    assert {len(moment.log) for moment in moments} == {len(former.log)}
    for number, moment in enumerate(moments):
        for index in (b"same", None, former.files["-shm"], moments[0].files["-shm"]):
            assert not is_refused(moment.put(tmp_path / "a", index=index)), number
    last = moments[-1]
    found = wal._read(last.put(tmp_path / "a"))
    assert 0 < found.committed == found.known < frames(last.log)
    end = wal.HEAD + found.committed * SIZE
    path = last.put(tmp_path / "a")
    for place in range(0, len(last.log), 1009):
        Path(f"{path}-wal").write_bytes(flipped(last.log, place, 5))
        assert is_refused(path) == (place < end), place


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 55, 56, 4000])
def test_a_log_with_hardly_anything_in_it_is_no_damage(states, tmp_path, length):
    assert not is_refused(states[0].put(tmp_path / "a", states[0].log[:length], None))
    assert not is_refused(states[0].put(tmp_path / "a", bytes(length), None))


@pytest.mark.parametrize("index", [b"", b"\0" * 96, b"\xff" * 32768, None])
def test_an_index_that_makes_no_sense_says_nothing(states, tmp_path, index):
    assert not is_refused(states[-1].put(tmp_path / "a", index=index))
    cut = states[-1].log[: len(states[-2].log)]
    assert not is_refused(states[-1].put(tmp_path / "a", cut, index=index))
    assert is_refused(states[-1].put(tmp_path / "a", cut))


def test_a_log_that_is_written_meanwhile_is_no_damage(tmp_path):
    """Another process commits, and begins the log anew every few commits, while this one looks again and again."""
    path = tmp_path / "site.db"
    small_task(path)
    program = """
        import sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("PRAGMA wal_autocheckpoint=40")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("CREATE TABLE noise (b BLOB)")
        print("ready", flush=True)
        while True:
            connection.execute("INSERT INTO noise VALUES (randomblob(abs(random() % 20000)))")
            connection.execute("DELETE FROM noise WHERE rowid < (SELECT max(rowid) FROM noise) - 5")
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            looks = [wal._read(path) for _ in range(300)]
            refused = sum(is_refused(path) for _ in range(repetitions(20_000, 1000)))
            assert process.poll() is None
        finally:
            process.kill()
    assert refused == 0
    assert len({look.head for look in looks if look}) > 3


@pytest.mark.parametrize("page", [512, 1024, 8192, 65536])
def test_logs_of_any_page_size_are_read_to_their_end(tmp_path, page):
    path = tmp_path / "site.db"
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (f"page_size={page}", "journal_mode=wal", "wal_autocheckpoint=0", "synchronous=OFF"):
        connection.execute(f"PRAGMA {statement}")
    connection.execute("CREATE TABLE noise (b BLOB)")
    for _ in range(10):
        connection.execute("INSERT INTO noise VALUES (randomblob(1000000))")
    files, found = Files(path), wal._read(path)
    connection.close()
    assert found.committed == found.known == found.good == (len(files.log) - 32) // (page + 24)
    assert is_refused(files.put(tmp_path / "a", flipped(files.log, len(files.log) * 2 // 3, 0)))
    assert is_refused(files.put(tmp_path / "a", flipped(files.log, 10, 0)))


def test_a_commit_that_was_never_acknowledged_may_be_written_over(states, tmp_path):
    """One of two processes is killed when its commit is in the log but not in the index; the other goes on."""
    for before, after in pairwise(states):
        path = before.put(tmp_path / "a", index=None)
        connection = sqlite3.connect(path, isolation_level=None)
        for pages in (0, 1, 2):
            connection.execute("INSERT INTO noise (b) VALUES (randomblob(?))", [4000 * pages + 10])
            shorter = Files(path)
            assert shorter.log[: len(before.log)] == before.log
            mixed = shorter.log + after.log[len(shorter.log) :]
            for index in (b"same", None):
                assert not is_refused(shorter.put(tmp_path / "b", mixed, index))
                assert not is_refused(shorter.put(tmp_path / "b", mixed, before.files["-shm"]))
        connection.close()
