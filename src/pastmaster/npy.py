"""NumPy's .npy and .npz formats, and zip files, read without trust.

Arrays hold plain numbers only and nothing is unpickled. What a file says of itself is not believed: sizes and headers
are checked before memory is taken, and no more is unpacked than was said.
"""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError
from pastmaster.files import LARGEST, read_whole, reading
from pastmaster.tables import one_line

LONGEST_HEADER = 10_000
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>[^'\\]*)', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>|\d+,|\d+(?:, ?\d+)+)\),? ?\}\s*",
    re.DOTALL,
)
"""The beginning of a .npy file, as NumPy and others write it; ``..`` is the length of what follows."""
PLAIN = "biufcSU"  # kinds of dtype that hold no Python objects
SMALL = 2**28  # bytes to which any zip file may unpack
RATIO = 100  # a larger one unpacks to at most so many times its own size
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of compression, which can be undone piece by piece


class Header(NamedTuple):
    """A .npy header: shape, order and type of the array, and the offset of its numbers in the file."""

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
    """The header of a .npy file of ``size`` bytes that begins with ``head``, or ``DamagedError``.

    NumPy reads headers by ``ast.literal_eval``, which in CPython 3.11 fails now and then if two threads do so at once:
    then whole records were called damaged.
    """
    end = 10 + int.from_bytes(head[8:10], "little")
    found = HEADER.fullmatch(head[:end])
    if found is None:
        raise DamagedError(f"{place}: has no readable .npy header")
    try:
        dtype = np.dtype(found["type"].decode("latin1"))
        shape = tuple(int(length) for length in re.findall(rb"\d+", found["shape"]))
        np.broadcast_to(np.int8(0), shape)  # refused where no array can have this shape
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedError(f"{place}: has no readable .npy header: {one_line(str(error), 200)}") from None
    header = Header(shape, found["fortran"] == b"True", dtype, end)
    if dtype.kind not in PLAIN or not dtype.itemsize:
        raise DamagedError(f"{place}: has dtype {dtype}, must hold plain numbers; objects are never read")
    if header.size != size or size > LARGEST:
        raise DamagedError(
            f"{place}: its header asks for {shape} of {dtype}, {header.size:,} bytes in all, "
            f"must be the {size:,} there are, and at most {LARGEST:,}"
        )
    return header


def from_npy(raw: bytes, header: Header) -> Array:
    """The array, sharing the memory of the bytes."""
    return np.ndarray(header.shape, header.dtype, raw, header.offset, order="F" if header.fortran else "C")


def npy_array(raw: bytes, place: str) -> Array:
    """The array in the bytes of a .npy file, sharing their memory; ``DamagedError`` names the ``place``."""
    return from_npy(raw, read_header(raw[:LONGEST_HEADER], len(raw), place))


def read_npy(path: str | os.PathLike[str], holding: str = "numbers") -> Array:
    """The array of a .npy file."""
    raw = read_whole(path)
    if not raw.startswith(np.lib.format.MAGIC_PREFIX):
        raise InvalidInputError(f"{path} is not an .npy file, must be a .npy file of {holding}: np.save makes one")
    try:
        return npy_array(raw, str(path))
    except DamagedError as error:
        raise InvalidInputError(f"{error}: must be a .npy file of {holding}") from None


def read_npz(source: str | os.PathLike[str] | bytes, place: str = "") -> dict[str, Array]:
    """The arrays of an .npz file, given as its path or its bytes, by name."""
    place, kind = place or str(source), "an .npz file of numbers"
    members = read_zip(source, place, kind=kind)
    try:
        return {name.removesuffix(".npy"): npy_array(raw, one_line(name)) for name, raw in members.items()}
    except DamagedError as error:
        raise InvalidInputError(f"{place} is not {kind}: {error}") from None


def read_zip(
    source: str | os.PathLike[str] | bytes,
    place: str,
    limits: Mapping[str, int] | None = None,
    *,
    stored: bool = False,
    kind: str = "a readable zip file",
) -> dict[str, bytes]:
    """The members of a zip file, given as its path or its bytes, by name.

    ``limits`` names the members that are read, where the file has them, and the most bytes of each; without it all are
    read. ``stored``: nothing may be compressed, so that no more memory is
    taken than the file is long. Anything wrong is an ``InvalidInputError`` that begins with ``place``.
    """
    opened = nullcontext(io.BytesIO(source)) if isinstance(source, bytes) else reading(source, place)
    try:
        with opened as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            wanted = [entry for entry in entries if limits is None or entry.filename in limits]
            for entry in wanted:
                limit = math.inf if limits is None else limits[entry.filename]
                if entry.file_size > limit:
                    raise InvalidInputError(
                        f"{place}: {entry.filename} has {entry.file_size:,} bytes, must have at most {limit:,}"
                    )
            _check_sizes(entries if stored else wanted, file.seek(0, io.SEEK_END), stored)
            return {entry.filename: _content(archive, entry) for entry in wanted}
    except PastmasterError:
        raise
    except Exception as error:  # zipfile raises nearly anything where a file is damaged
        raise InvalidInputError(f"{place} is not {kind}: {one_line(str(error), 200) or type(error).__name__}") from None


def _check_sizes(entries: list[zipfile.ZipInfo], length: int, stored: bool) -> None:
    """Refuse members that would take too much memory, of a file of this length."""
    total = sum(entry.file_size for entry in entries)
    methods = {entry.compress_type for entry in entries}
    if stored and (methods - {zipfile.ZIP_STORED} or total > length):
        raise ValueError(f"it would unpack to {total:,} bytes, must not be compressed")
    if methods.difference(METHODS):
        raise ValueError(f"it is compressed by method {max(methods)}, must be by deflate")
    most = max(SMALL, RATIO * length)
    if total > most:
        raise ValueError(
            f"it would unpack to {total:,} bytes, must be at most {most:,} from a file of {length:,}: np.savez writes "
            "it without compression"
        )


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A member, of which no more is unpacked than the list says it has."""
    with archive.open(entry) as member:
        return member.read(entry.file_size)
