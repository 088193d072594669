"""A SQLite file as a process leaves it that dies in the middle of a commit: half written, its journal beside it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

MAGIC = bytes.fromhex("d9d505f920a163d7")
SECTOR = 512


def tear(path: Path, before: bytes, after: bytes, rng: np.random.Generator) -> None:
    """Leave the file at ``path`` between two states, with the journal that leads back to the first."""
    size = int.from_bytes(before[16:18], "big") or 65536
    former, latter = _pages(before, size), _pages(after, size)
    changed = [number for number, page in enumerate(former) if latter[number : number + 1] != [page]]
    assert 0 in changed, "the first page counts the commits"
    nonce = int(rng.integers(2**32))
    head = MAGIC + struct.pack(">IIIII", len(changed), nonce, len(former), SECTOR, size)
    journal = head.ljust(SECTOR, b"\0")
    for number in rng.permutation(changed).tolist():
        page = former[number]
        total = (nonce + sum(page[i] for i in range(size - 200, 0, -200))) % 2**32
        journal += struct.pack(">I", number + 1) + page + struct.pack(">I", total)
    written = list(former) + [b"\0" * size] * (len(latter) - len(former))
    for number, page in enumerate(latter):
        if rng.random() < 0.5:
            written[number] = page
    path.write_bytes(b"".join(written))
    Path(f"{path}-journal").write_bytes(journal)


def _pages(content: bytes, size: int) -> list[bytes]:
    return [content[first : first + size] for first in range(0, len(content), size)]
