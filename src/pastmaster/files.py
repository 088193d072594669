"""Files that are there whole or not at all, and the one reader of NumPy's .npy and .npz formats and of zip files.

Arrays hold plain numbers only, nothing is unpickled, and sizes and headers are checked before memory is taken.
"""

from __future__ import annotations

import io
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError

BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError)
"""What reading a file that is damaged, or is no zip file, may raise. NotImplementedError is a RuntimeError."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, flush it to the disk, and move it there; its folder is made if need be."""
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


def checked_file(place: str, path: Any, kind: str) -> Path:
    """The path of a file that is there and not empty; ``place`` begins the error, ``kind`` says what it must be."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"{place} is {path!r}, must be the path of {kind}")
    found = Path(path)
    if found.is_dir():
        raise InvalidInputError(f"{place} is {str(path)!r}, a folder, must be {kind}{_files_in(found, found)}")
    if not found.exists():
        folder = found.parent
        near = _files_in(folder, found) if folder.is_dir() else f"; there is no folder {str(folder)!r}"
        raise InvalidInputError(f"{place} is {str(path)!r}, which does not exist, must be {kind}{near}")
    if found.is_file() and not found.stat().st_size:
        raise InvalidInputError(f"{place} is {str(path)!r}, an empty file, must be {kind}")
    return found


def _files_in(folder: Path, wanted: Path) -> str:
    """The files of a folder with names most like the wanted one, as the end of a sentence."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return ""
    alike = get_close_matches(wanted.name, names, n=3, cutoff=0.5)
    same_kind = [name for name in names if Path(name).suffix == (wanted.suffix or ".zip")]
    near = list(dict.fromkeys([*alike, *same_kind]))
    return f"; {str(folder)!r} has {', '.join(map(repr, near[:3]))}" if near else ""


LARGEST = 2**31  # bytes of one array
LONGEST_HEADER = 10_000
PLAIN = "biufcSU"  # kinds of dtype that hold no Python objects


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


def npy_array(raw: bytes, place: str) -> Array:
    """The array in the bytes of a .npy file, sharing their memory; ``DamagedError`` names the ``place``."""
    return from_npy(raw, read_header(raw[:LONGEST_HEADER], len(raw), place))


def read_npy(path: str | os.PathLike[str], holding: str = "numbers") -> Array:
    """The array of a .npy file; its header is checked before the rest is read."""
    try:
        with open(path, "rb") as file:
            header = read_header(file.read(LONGEST_HEADER), os.fstat(file.fileno()).st_size, str(path))
            file.seek(0)
            return from_npy(file.read(), header)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None
    except DamagedError as error:
        raise InvalidInputError(f"{error}: must be a .npy file of {holding}") from None


def read_npz(source: str | os.PathLike[str] | bytes, place: str = "", *, most: int = 4 * LARGEST) -> dict[str, Array]:
    """The arrays of an .npz file, by name; the arguments are those of ``read_zip``."""
    place, kind = place or str(source), "an .npz file of numbers"
    members = read_zip(source, place, most=most, kind=kind)
    try:
        return {name.removesuffix(".npy"): npy_array(raw, name) for name, raw in members.items()}
    except DamagedError as error:
        raise InvalidInputError(f"{place} is not {kind}: {error}") from None


def read_zip(
    source: str | os.PathLike[str] | bytes,
    place: str,
    limits: Mapping[str, int] | None = None,
    *,
    most: int = 4 * LARGEST,
    stored: bool = False,
    kind: str = "a readable zip file",
) -> dict[str, bytes]:
    """The members of a zip file, given as its path or its bytes, by name.

    ``limits`` names the members that are read, where the file has them, and the most bytes of each; without it all are
    read, and have at most ``most`` bytes together. ``stored``: nothing may be compressed, so that no more memory is
    taken than the file is long. Anything wrong is an ``InvalidInputError`` that begins with ``place``.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
            entries = archive.infolist()
            total = sum(entry.file_size for entry in entries)
            length = len(source) if isinstance(source, bytes) else os.path.getsize(source)
            if stored and (total > length or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)):
                raise ValueError(f"it would unpack to {total:,} bytes, must not be compressed")
            if limits is None and total > most:
                raise ValueError(f"it would unpack to {total:,} bytes, must be at most {most:,}")
            wanted = [entry for entry in entries if limits is None or entry.filename in limits]
            for entry in wanted:
                name, size = entry.filename, entry.file_size
                if limits is not None and size > limits[name]:
                    raise InvalidInputError(f"{place}: {name} has {size:,} bytes, must have at most {limits[name]:,}")
            return {entry.filename: archive.read(entry) for entry in wanted}
    except PastmasterError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{place} cannot be read: {error.strerror or error}") from None
    except (*BROKEN_ZIP, ValueError) as error:
        raise InvalidInputError(f"{place} is not {kind}: {error}") from None
