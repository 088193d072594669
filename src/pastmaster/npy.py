"""NumPy's .npy and .npz formats, and zip files, read without trust.

Arrays hold plain numbers only and nothing is unpickled. What a file says of itself is not believed: names, sizes and
headers are checked before memory is taken, and no more is unpacked than was said.
"""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError
from pastmaster.files import LARGEST, reading
from pastmaster.tables import one_line, shown

LONGEST_HEADER = 10_000
WIDTHS = {(1, 0): 2, (2, 0): 4}  # bytes of the header's length, by the version of the format
_TUPLE = r"\(\s*\)|\(\s*\d+\s*,\s*\)|\(\s*\d+(?:\s*,\s*\d+)+\s*(?:,\s*)?\)"
_ENTRY = rf"\s*'(\w+)'\s*:\s*('[^'\\]*'|True|False|{_TUPLE})"
HEADER = re.compile(rf"\s*\{{{_ENTRY}\s*,{_ENTRY}\s*,{_ENTRY}\s*(?:,\s*)?\}}\s*")
"""A .npy header: a Python dict of three entries, in any order."""
PLAIN = "biufcSU"  # kinds of dtype that hold no Python objects
SMALL = 2**28  # bytes to which any zip file may unpack
RATIO = 100  # a larger one unpacks to at most so many times its own size
MOST_MEMBERS = 10_000
LONGEST_LIST = 2**20  # bytes of the list of members


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
    try:
        header = _parsed_header(head)
        np.broadcast_to(np.int8(0), header.shape)  # refused where no array can have this shape
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedError(f"{place}: has no readable .npy header: {one_line(str(error), 200)}") from None
    shape, _, dtype, _ = header
    if dtype.kind not in PLAIN or dtype.hasobject or not dtype.itemsize:
        raise DamagedError(f"{place}: has dtype {dtype}, must hold plain numbers; objects are never read")
    if min(shape, default=0) < 0 or header.size != size or size > LARGEST:
        raise DamagedError(
            f"{place}: its header asks for {shape} of {dtype}, {header.size:,} bytes in all, "
            f"must be the {size:,} there are, and at most {LARGEST:,}"
        )
    return header


def _parsed_header(head: bytes) -> Header:
    """The header at the beginning of a .npy file.

    NumPy reads headers by ``ast.literal_eval``, which in CPython 3.11 fails now and then if two threads do so at once:
    then whole records were called damaged.
    """
    version = np.lib.format.read_magic(io.BytesIO(head))
    if version not in WIDTHS:
        raise ValueError(f"its version is {version}, must be (1, 0) or (2, 0)")
    begin = np.lib.format.MAGIC_LEN + WIDTHS[version]
    end = begin + int.from_bytes(head[np.lib.format.MAGIC_LEN : begin], "little")
    text = head[begin:end].decode("latin1")
    if len(head) < end:
        raise ValueError(f"it says that it has {end:,} bytes, must have at most the {len(head):,} read")
    found = HEADER.fullmatch(text)
    entries = {} if found is None else dict(zip(found.groups()[::2], found.groups()[1::2], strict=True))
    if set(entries) != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"it is {shown(text)}, must name descr, fortran_order and shape")
    descr, order, axes = entries["descr"], entries["fortran_order"], entries["shape"]
    if not descr.startswith("'") or order not in ("True", "False") or not axes.startswith("("):
        raise ValueError(f"it is {shown(text)}, must have a type, True or False, and a shape")
    shape = tuple(int(size) for size in re.findall(r"\d+", axes))
    return Header(shape, order == "True", np.dtype(descr[1:-1]), end)


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
        with reading(path, str(path)) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(LONGEST_HEADER)
            if not head.startswith(np.lib.format.MAGIC_PREFIX):
                raise InvalidInputError(
                    f"{path} is not an .npy file, must be a .npy file of {holding}: np.save makes one"
                )
            header = read_header(head, size, str(path))
            file.seek(0)
            return npy_array(file.read(header.size), str(path))
    except DamagedError as error:
        raise InvalidInputError(f"{error}: must be a .npy file of {holding}") from None


def read_npz(
    source: str | os.PathLike[str] | bytes,
    place: str = "",
    *,
    most: int = 4 * LARGEST,
    examine: Callable[[dict[str, Header]], object] = lambda headers: None,
) -> dict[str, Array]:
    """The arrays of an .npz file, by name.

    ``most`` is as for ``read_zip``. ``examine`` is called with the headers before anything is unpacked, and raises an
    ``InvalidInputError`` that begins with ``place`` where they are not what is wanted.
    """
    place, kind = place or str(source), "an .npz file of numbers"
    with _opened(source, place, kind, most) as archive:
        headers = {}
        for entry in archive.infolist():
            with archive.open(entry) as member:
                head = member.read(min(entry.file_size, LONGEST_HEADER))
            headers[entry.filename.removesuffix(".npy")] = read_header(head, entry.file_size, _name(entry))
        if len(headers) < len(archive.infolist()):
            raise ValueError("two of its arrays have the same name")
        examine(headers)
        named = zip(headers, archive.infolist(), strict=True)
        return {name: npy_array(_content(archive, entry), _name(entry)) for name, entry in named}


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
    with _opened(source, place, kind, most, limits, stored) as archive:
        wanted = [entry for entry in archive.infolist() if limits is None or entry.filename in limits]
        return {entry.filename: _content(archive, entry) for entry in wanted}


@contextmanager
def _opened(
    source: str | os.PathLike[str] | bytes,
    place: str,
    kind: str,
    most: int,
    limits: Mapping[str, int] | None = None,
    stored: bool = False,
) -> Iterator[zipfile.ZipFile]:
    """A zip file whose list of members has been checked; whatever is wrong here and in the block is one sentence."""
    try:
        with (
            _sized(source, place) as (file, length),
            _Listed(file) as listed,
            zipfile.ZipFile(listed) as archive,
        ):
            listed.is_open = True
            _check_members(archive.infolist(), length, place, most, limits, stored)
            yield archive
    except DamagedError as error:
        raise InvalidInputError(f"{place} is not {kind}: {error}") from None
    except PastmasterError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{place} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile raises nearly anything where a file is damaged
        raise InvalidInputError(f"{place} is not {kind}: {one_line(str(error), 200) or type(error).__name__}") from None


@contextmanager
def _sized(source: str | os.PathLike[str] | bytes, place: str) -> Iterator[tuple[Any, int]]:
    """A file, or bytes as one, and its length."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), len(source)
    else:
        with reading(source, place) as file:
            yield file, os.fstat(file.fileno()).st_size


class _Listed(io.BufferedReader):
    """A zip file, of which ``zipfile`` reads the list of members at once, as long as the file says it is.

    A list that is too long is refused. Of members, which are read once the file ``is_open``, sizes are checked first.
    """

    is_open = False

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > LONGEST_LIST and not self.is_open:
            raise ValueError(f"its list of members takes {size:,} bytes, must take at most {LONGEST_LIST:,}")
        return super().read(size)


def _check_members(
    entries: list[zipfile.ZipInfo], length: int, place: str, most: int, limits: Mapping[str, int] | None, stored: bool
) -> None:
    """Refuse a list of members that would take too much memory or time, or that no honest program writes."""
    if len(entries) > MOST_MEMBERS:
        raise ValueError(f"it has {len(entries):,} members, must have at most {MOST_MEMBERS:,}")
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("two of its members have the same name")
    wanted = [entry for entry in entries if limits is None or entry.filename in limits]
    for entry in wanted:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{_name(entry)} is compressed by method {entry.compress_type}, must be by deflate")
    total = sum(entry.file_size for entry in (entries if stored else wanted))
    if stored and (total > length or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)):
        raise ValueError(f"it would unpack to {total:,} bytes, must not be compressed")
    for entry in wanted if limits is not None else []:
        name, size, limit = entry.filename, entry.file_size, (limits or {})[entry.filename]
        if size > limit:
            raise InvalidInputError(f"{place}: {name} has {size:,} bytes, must have at most {limit:,}")
    fair = max(SMALL, RATIO * length)
    if total > min(most, fair):
        why = "" if most <= fair else f" from a file of {length:,}: np.savez writes it without compression"
        raise ValueError(f"it would unpack to {total:,} bytes, must be at most {min(most, fair):,}{why}")
    if sum(entry.compress_size for entry in entries) > length:
        raise ValueError("its members overlap")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A member, of exactly as many bytes as the list says."""
    with archive.open(entry) as member:
        raw = member.read(entry.file_size + 1)
    if len(raw) != entry.file_size:
        raise ValueError(f"{_name(entry)} has {len(raw):,} bytes, must have {entry.file_size:,}")
    return raw


def _name(entry: zipfile.ZipInfo) -> str:
    """What a member is called, as an error tells it: a file may call it anything."""
    return entry.filename if re.fullmatch(r"[\w./-]{1,80}", entry.filename) else shown(entry.filename)
