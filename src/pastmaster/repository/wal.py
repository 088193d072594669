"""Whether a write-ahead log still holds all that was committed to it: looked at before SQLite reads it.

While a file is served, its last commits are in its log alone. After a kill, SQLite reads the log up to the first frame
whose checksum is wrong, and drops all that follows without a word: that is where the last transaction was cut short. A
bit that flips in an earlier frame looks the same to it, and commits that were acknowledged would be gone.

Two things tell them apart:

* The index beside the log (``-shm``) has the number of frames that were committed. SQLite writes it after the frames
  are on the disk. A kill leaves it as it was, so every commit that was acknowledged is in that number. A power cut may
  leave an older one, which is smaller, or none. If fewer frames can be read than it tells, the log is damaged.
* A frame's checksum starts from the one before it, as it stands in the log, so the frames after a bad one can be
  checked too. A transaction is written when all before it are on the disk. If a bad frame is followed by a good commit
  and then by a good frame of a further transaction, it is no transaction cut short, and the log is damaged.

Never called damaged: what a kill or a power cut leaves of the last transaction, whichever of its parts are on the disk;
and frames from before the log was begun anew, which have other salts. Not noticed: after a power cut, or in files that
were copied without the ``-shm``, damage to the last two transactions or to the log's first 32 bytes; a log that is
deleted or emptied; a disk that loses all it said was written from some moment on.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pastmaster.errors import DamagedError

Words = NDArray[np.uint32]
MAGIC, VERSION = 0x377F0682, 3007000
HEAD, FRAME_HEAD, INDEX_HEAD = 32, 24, 48  # bytes
PAGE_SIZES = {2**power for power in range(9, 17)}
AT_ONCE = 2**22  # bytes that are read at once


class Index(NamedTuple):
    """What the index says of the log: its salts, the size of its pages, how many frames are committed."""

    salts: bytes
    page: int
    committed: int


class Log(NamedTuple):
    """A log as it was read."""

    head: bytes
    page: int
    known: int  # frames that were committed, as far as the index tells
    good: int  # frames up to the first bad one
    committed: int  # of these, up to the last commit: what SQLite would read
    goes_on: bool  # whether a further transaction follows a good commit after the bad frame

    @property
    def is_damaged(self) -> bool:
        """Whether commits would be lost."""
        return self.committed < self.known or self.goes_on


def check_log(path: Path) -> None:
    """Refuse a file whose log has lost commits. Another process may be writing to it meanwhile."""
    path = path.resolve()
    found = _read(path)
    if found is None or not found.is_damaged:
        return
    again = _read(path)  # what was being written at the first look is there at the second
    if again is None or not again.is_damaged or (again.head, again.good) != (found.head, found.good):
        return
    name = path.name
    length = HEAD + found.committed * (FRAME_HEAD + found.page) if found.committed else 0
    raise DamagedError(
        f"Repository: {name}-wal in {path.parent} is damaged, nothing was changed. It is the log of {name} and has its "
        f"last commits; only the first {found.committed} of its pages can be read, and commits follow them. Copy the "
        f"files {name}* elsewhere, then restore a backup. Or go on without those commits: delete {name}-shm, cut the "
        f"log (`truncate -s {length} {name}-wal`), and see what `pastmaster repo check` says"
    )


def _read(path: Path) -> Log | None:
    """The log beside a file; None if there is none, or nothing is known of it."""
    try:
        index = _index(Path(f"{path}-shm"))
        with open(f"{path}-wal", "rb") as file:
            head = file.read(HEAD)
            if len(head) < HEAD:
                return None
            magic, version, page, _, first, second = struct.unpack(">4I8x2I", head)
            order = ">" if magic & 1 else "<"
            start = np.array([[first, second]], np.uint32)
            words = np.frombuffer(head[:24], f"{order}u4").astype(np.uint32)[None]
            if magic & ~1 != MAGIC or page not in PAGE_SIZES or (_sums(words) != start).any():
                return _beheaded(head, index, file.read(FRAME_HEAD))
            if version != VERSION:
                return None
            known = index.committed if index is not None and index.salts == head[16:24] else 0
            follows, commits = _frames(file, page, order, head[16:24], start)
    except OSError:
        return None
    good = int(np.argmin(follows))
    committed = int(np.flatnonzero(commits[:good])[-1]) + 1 if commits[:good].any() else 0
    later = slice(good + 1, -1)
    goes_on = bool((follows[later] & commits[good + 1 :] & follows[good + 2 :]).any())
    return Log(head, page, known, good, committed, goes_on)


def _beheaded(head: bytes, index: Index | None, first: bytes) -> Log | None:
    """A log whose first bytes make no sense, if the index tells that its frames are committed ones."""
    if index is None or first[8:16] != index.salts:
        return None
    return Log(head, index.page, index.committed, 0, 0, False)


def _frames(
    file: BinaryIO, page: int, order: str, salts: bytes, start: Words
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of each frame, whether it is whole and follows the one before it, and whether it ends a transaction.

    The first has one more entry at its end, which is False.
    """
    size = FRAME_HEAD + page
    own, stored, sums, commits = [np.array([True])], [start], [], [np.zeros(0, bool)]
    while count := len(raw := file.read(max(1, AT_ONCE // size) * size)) // size:
        frames = np.frombuffer(raw, np.uint8, count * size).reshape(count, size)
        heads = frames[:, :FRAME_HEAD].copy().view(">u4")  # page, pages in the file if it is a commit, salts, checksum
        words = np.concatenate([frames[:, :8], frames[:, FRAME_HEAD:]], axis=1).view(f"{order}u4").astype(np.uint32)
        own.append((heads[:, 0] != 0) & (frames[:, 8:16] == np.frombuffer(salts, np.uint8)).all(axis=1))
        commits.append(heads[:, 1] != 0)
        stored.append(heads[:, 4:].astype(np.uint32))
        sums.append(_sums(words, np.concatenate([stored[-2][-1:], stored[-1][:-1]])))
        if len(raw) % size:
            break
    fits = [(found == kept).all(axis=1) for found, kept in zip(sums, stored[1:], strict=True)]
    ours = np.concatenate(own)
    return np.concatenate([*fits, [False]]) & ours & np.append(ours[1:], False), np.concatenate(commits)


def _sums(words: Words, start: Words | None = None) -> Words:
    """SQLite's checksums [n, 2] of n rows of words, each from its own start.

    It takes words two at a time: s1 += x + s2, then s2 += y + s1, modulo 2^32. All of that is linear.
    """
    weights, power = _weights(words.shape[1] // 2)
    found: Words = words @ weights
    return found if start is None else found + start @ power


@cache
def _weights(pairs: int) -> tuple[Words, Words]:
    """How much each of so many pairs of words adds to both sums, and each sum at the start."""
    rows = []
    one, two, mask = (1, 0), (0, 1), 2**32 - 1  # what s1 and s2 of now add to the sums in the end
    for _ in range(pairs):
        both = (one[0] + two[0]) & mask, (one[1] + two[1]) & mask  # x is added to s1, and with it to s2; y to s2 alone
        rows += [two, both]
        one, two = both, ((both[0] + two[0]) & mask, (both[1] + two[1]) & mask)
    return np.array(rows[::-1], np.uint32).reshape(-1, 2), np.array([one, two], np.uint32)


def _index(path: Path) -> Index | None:
    """What is committed by the index, which has its head twice; None if there is none that makes sense."""
    try:
        with open(path, "rb") as file:
            raw = file.read(2 * INDEX_HEAD)
    except FileNotFoundError:
        return None
    found = []
    for head in (raw[:INDEX_HEAD], raw[INDEX_HEAD:]):
        if len(head) == INDEX_HEAD:
            version, ready, page, committed, salts = struct.unpack("=I8xBxHI12x8s8x", head)
            words = np.frombuffer(head, np.uint32)[None]
            if version == VERSION and ready and (_sums(words[:, :10]) == words[:, 10:]).all():
                found.append(Index(salts, (page & 0xFE00) + ((page & 1) << 16), committed))
    return max(found, key=lambda index: index.committed, default=None)
