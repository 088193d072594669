"""A backup of a repository in a file, and of the service's file: copies of one moment, verified before they appear."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.files import flush_folder, unfinished
from pastmaster.repository import location
from pastmaster.repository.check import examine, examine_service
from pastmaster.repository.database import Database
from pastmaster.repository.sqlite import File

CALLER = "Repository.backup"


def back_up(database: Database, target: Path) -> Path:
    """Copy the files into new ones of the same mode, which appear only when they are whole, on the disk and checked."""
    file = database.backend
    if not isinstance(file, File):
        raise RepositoryError(
            f"{CALLER}: {database.place} is on a server: use PostgreSQL's own pg_dump, or Repository.export"
        )
    try:
        for path in (target, location.beside(target)):
            if path.is_symlink() or path.exists():
                raise RepositoryError(f"{CALLER}: {path} is there already, must be a new file")
        with unfinished(target.parent) as folder:
            copies = _copies(database, file, folder / target.name, target)
            _verify(folder / target.name, target)
            for copied in copies:
                copied.chmod(file.mode())
                _flush(copied)
                os.link(copied, target.with_name(copied.name))  # refused where a file has appeared there meanwhile
            flush_folder(target.parent)
    except (OSError, ValueError) as error:
        raise RepositoryError(
            f"{CALLER}: {str(target)[:200]} cannot be written: {getattr(error, 'strerror', None) or error}"
        ) from None
    return target


def _copies(database: Database, file: File, copied: Path, target: Path) -> list[Path]:
    """Copy the service's file if there is one, and the repository's: no policy is removed from that meanwhile."""
    served = location.beside(file.path)

    def copy(connection: sa.Connection) -> list[Path]:
        copies = [copied]
        if served.exists():
            copies = [location.beside(copied), copied]
            with closing(File(served)) as other:
                other.copy(copies[0])
        file.copy_seen(connection, copied)
        return copies

    try:
        return database.read(copy)
    except RepositoryError as error:
        raise type(error)(f"{CALLER}: {target} is not made: {error}") from None


def _flush(path: Path) -> None:
    """Have a file and its mode on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _verify(copied: Path, target: Path) -> None:
    with closing(Database(copied, create=False)) as database:
        database.place = database.backend.place = str(target)
        damage = examine(database).damage + examine_service(copied, str(location.beside(target)))
    if damage:
        more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
        raise DamagedError(f"{CALLER}: {target} is not made, the repository is damaged: {damage[0]}{more}")
