"""The one writer and the one reader of files: a file is there whole or not at all, and only regular files are read.

Nothing that another user has put in the way is followed, hangs, or fills the memory: the name of an unfinished file
cannot be guessed, and type and size of a file are known before it is read. What goes wrong is one sentence.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from io import BufferedReader
from pathlib import Path
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

UNFINISHED = ".pastmaster-"  # what the names of folders begin with that hold what is not finished
ABANDONED = 3600.0  # seconds after which nobody writes a file any more
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


def remove_left(folder: Path) -> None:
    """Remove what ``write_whole`` left in a folder where its process was killed, an hour ago or earlier."""
    for left in folder.glob(".*.part"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()


def write_new(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file that must not be there yet, not even as a link, and flush it to the disk.

    It has this mode from the first byte on, by default that of any new file.
    """
    made = 0o666 if mode is None else mode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, made)
    with open(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)  # whatever the umask is
        file.write(content)
        file.flush()
        os.fsync(descriptor)


@contextmanager
def unfinished(parent: Path) -> Iterator[Path]:
    """A hidden folder that only its owner may enter, for what is not finished; it is removed at the end.

    A process that is killed leaves it behind, without its lock: whoever next makes one in the same place removes it.
    """
    for left in parent.glob(f"{UNFINISHED}*"):
        with suppress(OSError), ExitStack() as held:  # it is in use, or somebody else's
            held.callback(os.close, _locked(left))
            shutil.rmtree(left, ignore_errors=True)
    with ExitStack() as held:
        made = Path(tempfile.mkdtemp(prefix=".", dir=parent))
        with suppress(OSError):  # where a file system has no locks, nobody removes it either
            held.callback(os.close, _locked(made))
        folder = made.rename(parent / f"{UNFINISHED}{made.name[1:]}")  # it is locked before it can be taken for left
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder


def _locked(folder: Path) -> int:
    """The descriptor of a folder, which is locked until it is closed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


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
        return file.read(size)


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
    except (ValueError, RecursionError) as error:  # also of numbers of too many digits, and of lists too deep
        raise InvalidInputError(f"{place} is not JSON: {str(error)[:100]}") from None


def checked_file(place: str, path: Any, kind: str) -> Path:
    """The path of a file that is there and not empty; ``place`` begins the error, ``kind`` says what it must be."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"{place} is {path!r}, must be the path of {kind}")
    found = Path(path)
    try:
        seen = found.stat()
    except (FileNotFoundError, NotADirectoryError):
        wrong = "which does not exist"
    except (OSError, ValueError) as error:
        wrong = f"which cannot be read: {_reason(error)}"
    else:
        if stat.S_ISREG(seen.st_mode) and seen.st_size:
            return found
        wrong = KINDS.get(stat.S_IFMT(seen.st_mode), "an empty file")
    raise InvalidInputError(f"{place} is {shown(str(path))}, {wrong}, must be {kind}{_near(found)}")


def _near(wanted: Path) -> str:
    """The files most like the wanted one in its folder, or in the folder that it is, as the end of a sentence."""
    try:
        folder = wanted if wanted.is_dir() else wanted.parent
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except FileNotFoundError:
        return f"; there is no folder {str(folder)!r}"
    except (OSError, ValueError):
        return ""
    same_kind = [name for name in names if Path(name).suffix == (wanted.suffix or ".zip")]
    near = dict.fromkeys([*get_close_matches(wanted.name, names, cutoff=0.5), *same_kind])
    return f"; {str(folder)!r} has {', '.join(map(repr, list(near)[:3]))}" if near else ""
