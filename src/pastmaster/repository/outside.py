"""A SQLite file as it looks from outside: what lies beside it, who may write it, whether somebody does.

SQLite leaves a journal or a log beside a file that is written to. One that is not its own is refused. Who may not write
a file with a log cannot take part in SQLite's locks; such a reader looks at the file before and after each reading.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from pastmaster.errors import DamagedError
from pastmaster.repository.forks import Identity
from pastmaster.repository.wal import PAGE_SIZES

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
COMPANIONS = ("-wal", "-journal")
TICK = 50_000_000  # nanoseconds: two changes that are nearer to each other may have the same time
PATIENCE = 2.0  # seconds in which a log is turned on or off
COUNT, STAMP = slice(24, 28), slice(60, 64)  # of a file's first page: how many commits, and a number of its own
READ, READ_ALONE = "mode=ro", "mode=ro&immutable=1"  # alone: as if nobody wrote


def identity(path: Path) -> Identity | None:
    """Device and inode; None where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Look(NamedTuple):
    """How a file looks from outside: all that changes when it is written to.

    If it was settled and looks the same later, nobody wrote to it meanwhile: a journal or log is there before the first
    byte is written, and until after the last.
    """

    identity: Identity | None
    size: int = 0
    written: int = 0  # when, in nanoseconds
    is_settled: bool = False  # there was no log or journal beside it, and the next change will have another time


def look(path: Path) -> Look:
    """How the file at a path looks now."""
    try:
        found = path.stat()
    except OSError:
        return Look(None)
    settled = not _is_in_use(path) and not 0 <= time.time_ns() - found.st_mtime_ns < TICK
    return Look((found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns, settled)


def _is_in_use(path: Path) -> bool:
    """Whether a log or a journal lies beside the file."""
    return any(Path(f"{path}{end}").exists() for end in COMPANIONS)


def changes(path: Path, before: Look) -> bool:
    """Whether a file has changed since it looked so, or does soon, where somebody is at it.

    Who may not write cannot take part in SQLite's locks while a log is turned on or off.
    """
    deadline = time.monotonic() + PATIENCE
    while before == look(path):
        if before.is_settled or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def reading_mode(path: Path) -> str | None:
    """How a file that may only be read is opened; None for others.

    One with a write-ahead log, which a service leaves that was killed, is read as if nobody wrote to it. That leaves
    nothing beside it, and whether somebody did is looked at before and after each reading.
    """
    try:
        locked = not path.stat().st_mode & 0o222
        logs = _read(path, 18, 2) == b"\2\2"
        in_use = _is_in_use(path)
    except OSError:
        return None
    if logs and not in_use and (locked or not os.access(path.parent, os.W_OK) or not os.access(path, os.W_OK)):
        return READ_ALONE
    return READ if locked and not logs else None


def check_companions(path: Path) -> None:
    """Refuse a journal or log beside a file that are not its own: SQLite would write them into it."""
    path = path.resolve()
    try:
        log, journal = Path(f"{path}-wal"), Path(f"{path}-journal")
        foreign = None
        for companion in (log, journal):
            if companion.exists() and not companion.is_file():
                foreign = companion
        if foreign is None and log.exists() and log.stat().st_size and _read(path, 18, 2) == b"\1\1":
            foreign = log
        elif foreign is None and journal.exists() and not _fits(path, journal):
            foreign = journal
    except OSError:
        return  # what cannot be read is refused when it is opened
    if foreign is not None:
        raise DamagedError(
            f"Repository: {foreign.name} in {path.parent} does not belong to {path.name} as it is now, nothing was "
            f"changed: if {path.name} is a copy or a backup that you put there, delete {foreign.name} and open it again"
        )


def _fits(path: Path, journal: Path) -> bool:
    """Whether a journal can be that of a transaction on the file as it is now, cut short.

    The file's first page has its stamp and counts the transactions. The journal holds that page as it was before its
    transaction, and no page twice.
    """
    length = path.stat().st_size
    with open(path, "rb") as file, open(journal, "rb") as old:
        first, head = file.read(100), old.read(28)
        if len(head) < 28 or head[:8] != JOURNAL_MAGIC:
            return True  # it was ended, or not yet begun: SQLite ignores it
        sector, page = struct.unpack(">II", head[20:28])
        if page not in PAGE_SIZES or not 28 <= sector <= 65536:
            return True
        for record in range(length // page + 1):
            old.seek(sector + record * (page + 8))
            number, before = old.read(4), old.read(100)
            if len(before) < 100:
                return True
            if number == b"\0\0\0\1":
                count = int.from_bytes(before[COUNT], "big")
                counts = [count.to_bytes(4, "big"), ((count + 1) % 2**32).to_bytes(4, "big")]
                return first[STAMP] == before[STAMP] and first[COUNT] in counts
    return False


def _read(path: Path, offset: int, count: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(count)
