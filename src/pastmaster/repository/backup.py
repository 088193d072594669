"""A backup of a repository in a file: a copy of one moment, made beside writers, verified before it is called one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.files import flush_folder, unfinished
from pastmaster.repository.check import examine
from pastmaster.repository.database import Database
from pastmaster.repository.sqlite import File

CALLER = "Repository.backup"


def back_up(database: Database, target: Path) -> Path:
    """Copy the file into a new one of its mode, which appears only when it is whole, on the disk and checked."""
    file = database.backend
    if not isinstance(file, File):
        raise RepositoryError(
            f"{CALLER}: {database.place} is on a server: use PostgreSQL's own pg_dump, or Repository.export"
        )
    try:
        if target.is_symlink() or target.exists():
            raise RepositoryError(f"{CALLER}: {target} is there already, must be a new file")
        with unfinished(target.parent) as folder:
            copied = folder / "copy.db"
            file.copy(copied)
            _verify(copied, target)
            copied.chmod(file.mode())
            _flush(copied)
            os.link(copied, target)  # refused where a file has appeared there meanwhile
            flush_folder(target.parent)
    except (sqlite3.Error, sa.exc.DBAPIError, UnicodeDecodeError) as error:
        told = database.translated(error)
        raise type(told)(f"{CALLER}: {target} is not made: {told}") from None
    except (OSError, ValueError) as error:
        raise RepositoryError(
            f"{CALLER}: {str(target)[:200]} cannot be written: {getattr(error, 'strerror', None) or error}"
        ) from None
    return target


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
        damage = examine(database).damage
    if damage:
        more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
        raise DamagedError(f"{CALLER}: {target} is not made, the repository is damaged: {damage[0]}{more}")
