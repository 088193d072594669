"""A file whose own structure is broken, written anew from the records in it that can still be read.

SQLite refuses to write where its trees are broken, so nothing can be removed there. The damaged file is kept beside the
new one.
"""

from __future__ import annotations

import itertools
import os
import secrets
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.files import flush_folder
from pastmaster.repository import rows
from pastmaster.repository.arrays import pack
from pastmaster.repository.check import UNREADABLE, Examiner, find_damage
from pastmaster.repository.database import Database
from pastmaster.repository.forgetting import forget_damaged
from pastmaster.repository.memory import Contents
from pastmaster.repository.schema import RECORDS, arrays, sequences
from pastmaster.repository.sqlite import File

CALLER = "Repository.remove_damaged"
SERVICE = (
    "pastmaster_service_version", "service_tasks", "service_states", "service_pending", "service_episodes",
    "service_tokens",
)  # fmt: skip
"""The tables of the service, which may be in the file too."""


def rebuild(database: Database) -> Path:
    """Put a new file with all that can be read into the place of a damaged one; returns where that is kept."""
    file = database.backend
    assert isinstance(file, File)
    new = file.path.with_name(f".{file.path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with closing(Database(new, create=True)) as fresh:
                _copy_all(database, fresh)
                if left := find_damage(fresh):
                    raise DamagedError(f"{CALLER}: {database.place} cannot be repaired, restore a backup: {left[0]}")
            kept = _exchange(file.path, new)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise RepositoryError(
            f"{CALLER}: {database.place} cannot be written anew, it stays as it was: {error.strerror or error}"
        ) from None
    file.adopt()
    return kept


def _copy_all(database: Database, fresh: Database) -> None:
    copied = []

    def copy(source: sa.Connection) -> None:
        fresh.write(lambda target: _copy(source, target, fresh))
        copied.append(True)

    try:
        database.read(copy)
    except DamagedError:
        if not copied:  # SQLite may refuse even to end the transaction in which all was read
            raise


def _copy(source: sa.Connection, target: sa.Connection, fresh: Database) -> None:
    """Copy every record that is what it claims to be, and heal what the others leave behind."""
    target.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
    examiner = Examiner(source)
    for table in RECORDS:
        for number in dict.fromkeys(examiner.numbers(table)):  # a broken tree may lead to a record twice
            examiner.record(table, number)
            row = examiner.rows[table].get(number)
            if row is None:
                continue
            target.execute(sa.insert(RECORDS[table]).prefix_with("OR IGNORE"), rows.stored(table, row))
            for name, array in examiner.arrays(table, number).items():
                target.execute(sa.insert(arrays), rows.stored_array(table, number, name, pack(array)))
    for name, last in _counters(source):
        target.execute(sa.update(sequences).where(sequences.c.name == name).values(last=last))
    _copy_service(source, target)
    forget_damaged(target, Contents(fresh))


def _copy_service(source: sa.Connection, target: sa.Connection) -> None:
    """Copy the tables of the service as they are, as far as they can be read; it checks by itself what is missing."""
    names = ", ".join(f"'{name}'" for name in SERVICE)
    query = (
        f"SELECT name, type, sql FROM sqlite_master WHERE tbl_name IN ({names}) AND sql IS NOT NULL ORDER BY type DESC"
    )
    try:
        for name, kind, sql in source.exec_driver_sql(query).all():
            target.exec_driver_sql(sql)
            if kind == "table":
                for row in source.exec_driver_sql(f'SELECT * FROM "{name}"'):
                    places = ", ".join("?" * len(row))
                    target.exec_driver_sql(f'INSERT OR IGNORE INTO "{name}" VALUES ({places})', tuple(row))
    except UNREADABLE:
        return


def _counters(source: sa.Connection) -> list[tuple[str, int]]:
    try:
        found = source.execute(sa.select(sequences.c.name, sequences.c.last)).all()
    except UNREADABLE:
        return []
    return [(name, last) for name, last in found if isinstance(last, int) and last >= 0]


def _exchange(path: Path, new: Path) -> Path:
    """Move the new file into the place of the old, which keeps a name of its own."""
    for number in itertools.count(1):
        kept = path.with_name(f"{path.name}.damaged-{number}")
        try:
            os.link(path, kept)
            break
        except FileExistsError:
            continue
    os.chmod(new, path.stat().st_mode & 0o777)
    os.replace(new, path)
    flush_folder(path.parent)
    return kept
