"""The one writer and the one reader of files: a file is there whole or not at all, and only regular files are read.

Nothing that another user has put in the way is followed, hangs, or fills the memory: the name of an unfinished file
cannot be guessed, and type and size of a file are known before it is read. What goes wrong is one sentence.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from io import BufferedReader
from pathlib import Path
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

LARGEST = 2**31  # bytes of one array, or of a file that is read at once
KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, on the disk when this returns; its folder is made if need be.

    It is written beside its place under a name that nobody can guess, and moved there. A link at the place is replaced
    by the file; what the link leads to stays as it was. A folder, pipe or device at the place is refused.
    """
    beside = path.with_name(f".{secrets.token_hex(16)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            _check_regular(os.stat(path), str(path))
        try:
            write_new(beside, content)
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        flush_folder(path.parent)
    except InvalidInputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise InvalidInputError(f"{path} cannot be written: {_reason(error)}") from None


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not be there yet, not even as a link, and flush it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def flush_folder(folder: Path) -> None:
    """Have the disk know the names in a folder; some file systems cannot be asked to."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_whole(path: str | os.PathLike[str], most: int = LARGEST, place: str = "") -> bytes:
    """The bytes of a regular file of at most ``most``; errors begin with ``place``, the path by default."""
    place = place or str(path)
    with reading(path, place) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise InvalidInputError(f"{place} has {size:,} bytes, must have at most {most:,}")
        content = file.read(size + 1)
        if len(content) != size:
            raise InvalidInputError(f"{place} changed while it was read, must stay as it is")
        return content


@contextmanager
def reading(path: str | os.PathLike[str], place: str) -> Iterator[BufferedReader]:
    """A regular file, opened to read; a pipe, which could hang, and a device, which could be endless, are refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise InvalidInputError(f"{place} cannot be read: {_reason(error)}") from None
    try:
        _check_regular(os.fstat(descriptor), place)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    except OSError as error:
        raise InvalidInputError(f"{place} cannot be read: {_reason(error)}") from None
    finally:
        os.close(descriptor)


def _check_regular(found: os.stat_result, place: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise InvalidInputError(f"{place} is {kind}, must be a regular file")


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def from_json(text: bytes | str, place: str) -> Any:
    """The value that a text in JSON holds; errors begin with ``place``."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{place} is not JSON: {error.msg} (line {error.lineno})") from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{place} is not JSON: it is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:  # numbers of too many digits, lists too deep
        raise InvalidInputError(f"{place} is not JSON that can be read: {str(error)[:100]}") from None


def checked_file(place: str, path: Any, kind: str) -> Path:
    """The path of a file that is there and not empty; ``place`` begins the error, ``kind`` says what it must be."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"{place} is {path!r}, must be the path of {kind}")
    found = Path(path)
    try:
        seen = found.stat()
    except (FileNotFoundError, NotADirectoryError):
        folder = found.parent
        near = _files_in(folder, found) if folder.is_dir() else f"; there is no folder {str(folder)!r}"
        raise InvalidInputError(f"{place} is {str(path)!r}, which does not exist, must be {kind}{near}") from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{place} is {shown(str(path))}, which cannot be read: {_reason(error)}") from None
    if stat.S_ISDIR(seen.st_mode):
        raise InvalidInputError(f"{place} is {str(path)!r}, a folder, must be {kind}{_files_in(found, found)}")
    if not stat.S_ISREG(seen.st_mode):
        raise InvalidInputError(f"{place} is {str(path)!r}, {KINDS[stat.S_IFMT(seen.st_mode)]}, must be {kind}")
    if not seen.st_size:
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
