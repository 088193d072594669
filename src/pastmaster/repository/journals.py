"""What lies beside a SQLite file: a journal or a log that is not the file's own is refused.

SQLite keeps a journal beside a file that is written to. Where a program was killed, the journal stays, and whoever
opens the file next writes it back into the file. Beside a copy or a restored backup such a journal would destroy it.
"""

from __future__ import annotations

import struct
from pathlib import Path

from pastmaster.errors import DamagedError

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
PAGE_SIZES = {2**power for power in range(9, 17)}
COUNT, STAMP = slice(24, 28), slice(60, 64)  # of a file's first page: how many commits, and a number of its own
LOGGED, UNLOGGED = b"\2\2", b"\1\1"  # what the first page says of a file with a write-ahead log, and of one without


def keeps_log(path: Path) -> bool:
    """Whether a file has a write-ahead log, or needs one to be read."""
    try:
        return _mode(path) == LOGGED
    except OSError:
        return False


def check_companions(path: Path) -> None:
    """Refuse a journal or log beside a file that are not its own: SQLite would write them into it."""
    path = path.resolve()
    try:
        foreign = _foreign(path)
    except OSError:
        return  # what cannot be read is refused when it is opened
    if foreign is not None:
        raise DamagedError(
            f"Repository: {foreign.name} in {path.parent} does not belong to {path.name} as it is now, nothing was "
            f"changed: if {path.name} is a copy or a backup that you put there, delete {foreign.name} and open it again"
        )


def _foreign(path: Path) -> Path | None:
    """The journal or log beside a file that is not its own."""
    log, journal = Path(f"{path}-wal"), Path(f"{path}-journal")
    for companion in (log, journal):
        if companion.exists() and not companion.is_file():
            return companion
    if log.exists() and log.stat().st_size and _mode(path) == UNLOGGED:
        return log
    if journal.exists() and not _fits(path, journal):
        return journal
    return None


def _mode(path: Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(18)
        return file.read(2)


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
