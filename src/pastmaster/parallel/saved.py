"""Finished chunks on disk: one ``.npz`` file each, arrays only, never a pickle.

A file is there whole or not at all. In it is the SHA-256 of its name and its arrays; what does not fit is computed
again. That finds damage and files of another problem, not a forger: but even a forged file runs no code, and no more
memory is taken than the file is long.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, NamedArrays
from pastmaster.checks import file_path
from pastmaster.errors import InvalidInputError
from pastmaster.files import LARGEST, read_whole, remove_left, write_whole
from pastmaster.generators import rng_to_dict
from pastmaster.npy import npy_array, read_zip, to_npy
from pastmaster.tables import shown

Item = TypeVar("Item")
Result = TypeVar("Result")
SUM = "sha256"
MOST = 4 * LARGEST  # bytes of a file that is read


def saving_folder(caller: str, save: str | os.PathLike[str]) -> Path:
    """The folder to save to, made if need be."""
    folder = file_path(caller, "save", save, "the path of a folder")
    place = f"{caller}: save is {shown(str(save))}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{place}, must be a folder ({error.strerror})") from None
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InvalidInputError(f"{place}, must be a folder that can be read (Permission denied)")
    return folder


@dataclass(frozen=True)
class Saved(Generic[Item, Result]):
    """Where and how the chunks of one problem are kept.

    ``key`` is the ``digest`` of all that the results depend on. ``encode`` turns a chunk's results into arrays, or
    into None if they are not worth keeping (cut short, say); ``decode`` makes them again from arrays and items, which
    it leaves as they are, and raises any error where the arrays do not fit. Files are called by the key and the number
    of the chunk, or by ``names``, one to a chunk.
    """

    folder: Path
    key: str
    encode: Callable[[list[Result]], NamedArrays | None]
    decode: Callable[[NamedArrays, Sequence[Item]], list[Result]]
    names: Sequence[str] = ()

    def found(self, chunks: Sequence[Sequence[Item]]) -> dict[int, list[Result]]:
        """The results of the chunks that are there, by number."""
        found = {}
        for chunk, items in enumerate(chunks):
            path = self._path(chunk)
            if not os.path.lexists(path):
                continue
            if path.exists() and not path.is_file():  # a folder, say, which a file cannot replace
                raise InvalidInputError(
                    f"save is {shown(str(self.folder))}, where {path.name!r} is no file, must be a folder of files"
                )
            try:
                results = self.decode(unpacked(read_whole(path, MOST), path.name), items)
                if len(results) != len(items):
                    raise ValueError(f"it holds {len(results)} results, not {len(items)}")
                found[chunk] = results
            except Exception as error:  # whatever is wrong with it, the chunk can be computed
                warnings.warn(f"{path} is damaged or not ours, it is computed again: {error}", stacklevel=3)
        return found

    def write(self, chunk: int, results: list[Result]) -> None:
        """Keep the results of a chunk."""
        arrays = self.encode(results)
        if arrays is None:
            return
        path = self._path(chunk)
        try:
            write_whole(path, packed(arrays, path.name))
        except InvalidInputError as error:
            raise self._unwritable(str(error)) from None

    def check_writable(self) -> None:
        """Refuse a folder that cannot be written before anything is computed, not after."""
        remove_left(self.folder)
        if self.folder.exists() and not os.access(self.folder, os.W_OK):
            raise self._unwritable("Permission denied")

    def _unwritable(self, why: str) -> InvalidInputError:
        return InvalidInputError(f"save is {shown(str(self.folder))}, must be a folder that can be written ({why})")

    def _path(self, chunk: int) -> Path:
        return self.folder / f"{self.names[chunk] if self.names else f'{self.key}-{chunk:03d}'}.npz"


def packed(arrays: NamedArrays, name: str) -> bytes:
    """Arrays as the bytes of an ``.npz`` file with their sum."""
    members = {key: to_npy(array) for key, array in arrays.items()}
    total = to_npy(np.frombuffer(_sum(members, name), np.uint8))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for key, content in (members | {SUM: total}).items():
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), content)
    return stream.getvalue()


def unpacked(content: bytes, name: str) -> dict[str, Array]:
    """The arrays of a file that ``packed`` made under this name; any error where it is not that."""
    members = {key.removesuffix(".npy"): raw for key, raw in read_zip(content, name, stored=True).items()}
    total = members.pop(SUM, b"")
    if not total.endswith(_sum(members, name)):
        raise ValueError("its checksum is not that of its content")
    return {key: npy_array(raw, key).copy() for key, raw in members.items()}


def _sum(members: Mapping[str, bytes], name: str) -> bytes:
    """SHA-256 of a file's name and members."""
    total = hashlib.sha256(name.encode())
    for key in sorted(members):
        total.update(hashlib.sha256(key.encode()).digest() + hashlib.sha256(members[key]).digest())
    return total.digest()


def as_text(value: Any) -> npt.NDArray[np.uint8]:
    """Plain JSON values as an array."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def from_text(array: Array) -> Any:
    """What ``as_text`` was given."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("its text is no text")
    return json.loads(array.tobytes())


def digest(*parts: Any, versions: bool = True) -> str:
    """A name for a problem, different for every other: 40 hexadecimal digits over arrays, numbers, texts, generators.

    With ``versions`` those of pastmaster and NumPy are part of it: others may draw or round differently.

    >>> digest("problem", 3, [1.5, None], versions=False)
    '8f32cc8c4447fae09ead5407c917ddf04d9e8e7a'
    """
    total = hashlib.sha256()
    for part in (*([_versions()] if versions else []), *parts):
        _feed(total, part)
    return total.hexdigest()[:40]


@cache
def _versions() -> str:
    try:
        return f"pastmaster {version('pastmaster')}, numpy {np.__version__}"
    except PackageNotFoundError:  # run from its sources
        return f"numpy {np.__version__}"


def _feed(total: Any, part: Any) -> None:
    """Put one part into the sum, with its type and length before it, so that no two are written alike."""
    if isinstance(part, list | tuple):
        total.update(f"list {len(part)};".encode())
        for inner in part:
            _feed(total, inner)
    elif isinstance(part, np.random.Generator):
        seed: Any = part.bit_generator.seed_seq
        spawning = (
            str(seed.entropy),
            list(seed.spawn_key),
            seed.n_children_spawned,
            seed.pool_size,
        )
        _feed(total, ["generator", json.dumps(rng_to_dict(part)), *spawning])
    elif isinstance(part, np.ndarray) and not part.dtype.hasobject:
        total.update(f"array {part.dtype.str} {part.shape};".encode())
        total.update(part.tobytes())
    elif part is None or isinstance(part, bool | int | float | str | np.number | np.bool_):
        text = repr(part.item() if isinstance(part, np.generic) else part).encode()
        total.update(f"value {len(text)};".encode() + text)
    else:
        raise TypeError(f"digest: {type(part).__name__} cannot be told apart from others")
