"""Arrays as they are stored: NumPy's .npy format, compressed, with a checksum; nothing is ever unpickled.

What comes back is checked before memory is taken: the checksum, then the header (which must describe plain numbers and
exactly the stated number of bytes), and only then is the rest unpacked.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import NamedTuple

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError
from pastmaster.npy import LONGEST_HEADER, from_npy, read_header, to_npy


class Packed(NamedTuple):
    """An array as it is stored: bytes, how many they unpack to, and the SHA-256 of the bytes."""

    data: bytes
    size: int
    sha256: str

    def of(self, owner: str, number: int, name: str) -> Packed:
        """The same with a checksum that holds for one array of one record only: elsewhere it is damage."""
        place = f"{owner} {number} {name} {self.size} {self.sha256}"
        return self._replace(sha256=hashlib.sha256(place.encode()).hexdigest())


def pack(array: Array) -> Packed:
    """An array of plain numbers as stored."""
    raw = to_npy(array)
    data = zlib.compress(raw, 1)
    return Packed(data, len(raw), hashlib.sha256(data).hexdigest())


def unpack(packed: Packed, owner: str, number: int, name: str) -> Array:
    """The array of this name and record, read-only, or ``DamagedError`` naming it."""
    place, (data, size, sha256) = f"{owner} {number}: array {name!r}", packed
    if not (isinstance(data, bytes) and isinstance(size, int)):  # SQLite keeps a type with each value
        raise DamagedError(f"{place}: is stored as {type(data).__name__} of {size!r} bytes, must be bytes")
    if Packed(data, size, hashlib.sha256(data).hexdigest()).of(owner, number, name).sha256 != sha256:
        raise DamagedError(f"{place}: its checksum does not match its {len(data):,} bytes")
    try:
        header = read_header(zlib.decompressobj().decompress(data, LONGEST_HEADER), size, place)
        raw = zlib.decompressobj().decompress(data, header.size + 1)
    except zlib.error as error:
        raise DamagedError(f"{place}: cannot be unpacked: {error}") from None
    if len(raw) != size:
        raise DamagedError(f"{place}: does not unpack to the {size:,} bytes it says")
    return from_npy(raw, header)
