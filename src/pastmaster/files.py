"""Files that are there whole or not at all, and NumPy's .npy format as bytes.

Arrays hold plain numbers only, nothing is pickled, and headers are checked before memory is taken.
"""

from __future__ import annotations

import io
import lzma
import math
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, InvalidInputError

BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError)
"""What reading a zip file that is damaged, or is none, may raise; of a NotImplementedError it is a RuntimeError."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, see it to the disk, and move it there; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


LARGEST = 2**31  # bytes of one array
LONGEST_HEADER = 10_000
PLAIN = "biufcSU"  # kinds of dtype that hold no Python objects


class Header(NamedTuple):
    """What a .npy header says, and where the numbers begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def size(self) -> int:
        """The bytes of header and numbers together."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def to_npy(array: Array) -> bytes:
    """The bytes of a .npy file; a Fortran array stays one."""
    if array.dtype.kind not in PLAIN:
        raise InvalidInputError(f"to_npy: the array has dtype {array.dtype}, must hold plain numbers or text")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    raw = buffer.getvalue()
    if len(raw) > LARGEST:
        raise InvalidInputError(f"to_npy: the array has {len(raw):,} bytes, must have at most {LARGEST:,}")
    return raw


def read_header(head: bytes, size: int, place: str) -> Header:
    """The header of a .npy file of ``size`` bytes that begins with ``head``, or ``DamagedError``."""
    buffer = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(buffer)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(buffer, max_header_size=LONGEST_HEADER)
        np.broadcast_to(np.int8(0), shape)  # refused where no array can have this shape
    except (ValueError, KeyError, EOFError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise DamagedError(f"{place}: has no readable .npy header: {error!r}") from None
    header = Header(shape, fortran, dtype, buffer.tell())
    if dtype.kind not in PLAIN or dtype.hasobject or not dtype.itemsize:
        raise DamagedError(f"{place}: has dtype {dtype}, must hold plain numbers; objects are never read")
    if min(shape, default=0) < 0 or header.size != size or size > LARGEST:
        raise DamagedError(
            f"{place}: its header asks for {shape} of {dtype}, {header.size:,} bytes in all, "
            f"must be the {size:,} there are, and at most {LARGEST:,}"
        )
    return header


def from_npy(raw: bytes, header: Header) -> Array:
    """The array, sharing the memory of the bytes."""
    count = math.prod(header.shape)
    if not count:
        return np.empty(header.shape, header.dtype, order="F" if header.fortran else "C")
    flat: Array = np.frombuffer(raw, header.dtype, count, header.offset)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")
