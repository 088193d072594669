"""A database in a SQLite file.

All that was committed is in the one file: SQLite keeps a rollback journal, which holds the former state of what a
transaction is changing and is deleted when the transaction ends. With a write-ahead log the latest changes are in a
second file, which is lost when the first is copied or restored alone, and readers need to write a third. But it brings
a commit to the disk at once, where a journal waits for it several times. So the service's own file has one, and a
repository never.

SQLite asks for locks without waiting. The waiting is done here, where Ctrl-C ends it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pastmaster.errors import DamagedError, InvalidInputError, RepositoryError
from pastmaster.repository import journals, location
from pastmaster.repository.forks import USERS, identity
from pastmaster.repository.schema import REPOSITORY, Kind
from pastmaster.shield import Shield

State = tuple[int, str]


class Handle(sqlite3.Connection):
    """A connection that takes no lock along when it is closed, and that only the process that made it can close."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.process = os.getpid()
        self.changes = 0  # rows that it had changed when its transaction began
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()
        super().__init__(*arguments, **options)
        USERS.add_handle(self)

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        made: sqlite3.Cursor = super().cursor(*arguments, **options)
        self._cursors.add(made)
        return made

    def rollback(self) -> None:
        if self.process == os.getpid():
            super().rollback()

    def let_go(self) -> None:
        """Forget all answers: one that is only half read, kept by a traceback say, would keep the file locked."""
        for cursor in list(self._cursors):
            with suppress(sqlite3.ProgrammingError):  # it was closed before
                cursor.close()

    def close(self) -> None:
        if self.process == os.getpid():
            self.let_go()
            super().close()


class File:
    """The file, and connections to it."""

    def __init__(self, place: str | Path, create: bool = False, kind: Kind = REPOSITORY) -> None:
        self.place, self.kind = str(place), kind
        _check_path(self.place, create)
        self.path = Path(os.path.abspath(self.place))  # whatever the working directory will be
        self.identity = identity(self.path)
        self._state: State | None = None
        if self.identity is not None:
            with USERS.alone(self.identity) as alone:
                if alone:  # else it was looked at when it was opened first
                    journals.check_companions(self.path)
                    self._check_rights()
        self.engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=sa.QueuePool, pool_size=5, max_overflow=-1
        )  # fmt: skip
        USERS.add(self)

    def _check_rights(self) -> None:
        """Refuse a file with a log to those who may not write it: they would leave files that lock out its owner."""
        may_write = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        if not may_write and journals.keeps_log(self.path):
            raise RepositoryError(
                f"{self.kind.caller}: {self.place} has a write-ahead log and may only be read here, must be writable: "
                "ask its owner for a copy made by `pastmaster repo backup`"
            )

    def mode(self) -> int:
        """Who may read and write the file."""
        return self.path.stat().st_mode & 0o777

    def release(self) -> None:
        """Close the connections that are idle."""
        self.engine.dispose()

    close = release

    def enter(self) -> int:
        """Note that a transaction is about to begin."""
        return USERS.begin(self)

    def leave(self, number: int) -> None:
        """Note that it has ended."""
        USERS.end(number)

    def connect(self, shield: Shield) -> sa.Connection:
        """A connection, out of those that are idle or new."""
        connection: sa.Connection = self._patiently(shield, self.engine.connect)
        return connection

    def _patiently(self, shield: Shield, ask: Callable[[], Any]) -> Any:
        """What ``ask`` returns, when no other program's lock is in its way."""
        answers = []

        def answered() -> bool:
            try:
                answers.append(ask())
            except (sa.exc.OperationalError, sqlite3.OperationalError) as error:
                if "locked" not in str(error):
                    raise
            return bool(answers)

        if not shield.wait_for(answered, location.BUSY_SECONDS):
            raise RepositoryError(
                f"{self.place} was in use by another program for {location.BUSY_SECONDS} seconds, try again"
            )
        return answers[0]

    def begin(self, connection: sa.Connection, writes: bool, shield: Shield) -> None:
        """Begin a transaction, when there is no other writer; a reader sees the last state there was before."""
        connection.begin()

        def lock() -> None:
            try:
                if writes:  # takes its lock at once: it cannot fail half-way because another was first
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    connection.exec_driver_sql("BEGIN")
                    connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").all()
            except sa.exc.OperationalError:
                _handle(connection).rollback()
                raise

        seen = self._state  # before the transaction sees the file: another thread may commit right after that
        self._patiently(shield, lock)
        _handle(connection).changes = _handle(connection).total_changes
        self._check_identity("nothing was changed")
        self._check_state(connection, seen)

    def commit(self, connection: sa.Connection, writes: bool, shield: Shield) -> None:
        """Commit: what was written is on the disk when this returns; what can be read is there already."""
        handle = _handle(connection)
        if handle.process != os.getpid():
            raise RepositoryError(f"{self.place} was in use when this process was forked: nothing was changed by it")
        handle.let_go()
        changed = writes and handle.total_changes != handle.changes  # else there is nothing to bring to the disk
        state = self._mark(connection) if changed else None
        self._patiently(shield, lambda: connection.exec_driver_sql("COMMIT"))
        self._note(state)
        transaction = connection.get_transaction()
        assert transaction is not None
        transaction.commit()
        if writes:
            self._check_identity("the last change may be lost")

    def _check_state(self, connection: sa.Connection, seen: State | None) -> None:
        """Refuse a file that went back from a state seen before: a copy was put into it, under its own name.

        What was read before, and is kept in memory, is not true of it. With a log a reader's snapshot stays where it
        was while others commit, so it is compared with what was seen before it began.
        """
        found = _state(_handle(connection))
        if seen is not None and (found is None or found[0] < seen[0] or (found[0] == seen[0] and found != seen)):
            raise RepositoryError(
                f"{self.place} was replaced by a copy since it was opened, nothing was changed: close this Repository "
                "and open it again"
            )
        self._note(found)

    def _note(self, state: State | None) -> None:
        """Remember the last state seen; other threads may have seen a later one meanwhile."""
        if self._state is None or (state is not None and state[0] >= self._state[0]):
            self._state = state

    def _mark(self, connection: sa.Connection) -> State:
        """Count a commit, in the open transaction, under a token that no other has."""
        handle = _handle(connection)
        handle.execute("UPDATE pastmaster_commits SET commits = commits + 1, token = ?", [secrets.token_hex(8)])
        state = _state(handle)
        assert state is not None
        return state

    def check_schema(self, connection: sa.Connection) -> None:
        """Refuse what would run when it is read or written: nothing of the kind is in a repository."""
        query = (
            "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
            "OR sql LIKE 'CREATE VIRTUAL%' OR sql LIKE '%GENERATED%' OR sql LIKE '% AS (%' LIMIT 1"
        )
        if (found := connection.exec_driver_sql(query).first()) is not None:
            what, name = f"a {found[0]}"[:20], str(found[1])[:60]
            raise DamagedError(f"{self.place} holds {what} {name!r} that computes, must hold records alone")

    def make_ready(self, connection: sa.Connection) -> None:
        """Give a new file a number of its own, and a count of its commits, in the open transaction."""
        handle = _handle(connection)
        handle.execute(f"PRAGMA user_version={_new_stamp()}")
        handle.execute("CREATE TABLE pastmaster_commits (commits INTEGER NOT NULL, token TEXT NOT NULL)")
        handle.execute("INSERT INTO pastmaster_commits VALUES (0, '')")

    def abandon(self, connection: sa.Connection) -> None:
        """Give up what was begun, with the connection."""
        connection.invalidate()

    def _connect(self) -> Handle:
        if self.identity is not None:
            self._check_identity("nothing was changed")
        mode = "rwc" if self.identity is None else "rw"
        handle = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            factory=Handle,
        )
        try:
            handle.execute("PRAGMA foreign_keys=ON")
            handle.execute("PRAGMA synchronous=EXTRA")  # the journal's end is on the disk too before it counts
            handle.execute("PRAGMA cache_spill=OFF")  # nothing is written, or locked for it, before the commit
        except BaseException:
            handle.close()
            raise
        if self.identity is None:
            self.identity = identity(self.path)
        return handle

    def _check_identity(self, outcome: str) -> None:
        """Refuse a file that is not the one that was opened: what is written to that is lost."""
        found = identity(self.path)
        if found != self.identity:
            what = "is gone" if found is None else "is another file"
            raise RepositoryError(
                f"{self.place} {what} since it was opened (deleted, moved or replaced), {outcome}: "
                "put it back in its place, or close this Repository and open it again"
            )

    @contextmanager
    def idle_connection(self) -> Iterator[tuple[Shield, sa.Connection]]:
        """A connection without a transaction, which no fork happens beside."""
        with Shield() as shield:
            number = self.enter()
            try:
                with self.connect(shield) as connection:
                    yield shield, connection
            finally:
                self.leave(number)

    def set_log(self) -> None:
        """Have a write-ahead log if a file of this kind has one, and else none; not while somebody else uses it."""
        with self.idle_connection() as (_, connection):
            _set_log(_handle(connection), self.kind.log)

    def explained(self, reason: str) -> RepositoryError | None:
        """SQLite's error in one sentence, None if there is none for it."""
        if reason.removeprefix("no such table: ") in self.kind.tables.tables:
            return DamagedError(f"{self.place} is damaged: a table is not there ({reason}). Restore a backup")
        for sign, sentence in COMPLAINTS.items():
            if sign in reason:
                error = DamagedError if "damaged" in sentence else RepositoryError
                return error(sentence.format(place=self.place, what=self.kind.what, reason=reason))
        return None

    def copy(self, target: Path) -> None:
        """Copy the file as it is at one moment into another, which is made; writers wait meanwhile."""
        with self.idle_connection() as (shield, connection):
            self._patiently(shield, lambda: self.copy_seen(connection, target))

    def copy_seen(self, connection: sa.Connection, target: Path) -> None:
        """The same, as a connection sees it, in its transaction if there is one."""
        copied = sqlite3.connect(target)
        try:
            _handle(connection).backup(copied)
            copied.execute("PRAGMA journal_mode=DELETE")
            copied.execute(f"PRAGMA user_version={_new_stamp()}")  # it goes its own way from here
            copied.commit()
        finally:
            copied.close()


FULL = "the disk is full, nothing was changed in {place}: make room and try again ({reason})"
COMPLAINTS = {
    "disk is full": FULL,
    "No space left": FULL,
    "disk I/O error": "{place} cannot be written, nothing was changed: is the disk full? ({reason})",
    "readonly database": "{place} is read-only, nothing was changed: make file and folder writable, or read a copy "
    "made by `pastmaster repo backup` ({reason})",
    "not a database": "{place} is not {what}: it is some other kind of file, or its beginning is damaged",
    "malformed": "{place} is damaged ({reason}): see what `pastmaster repo check` still finds, or restore a backup",
    "unable to open": "{place} cannot be opened: may file and folder be read and written? ({reason})",
}


def _new_stamp() -> int:
    return secrets.randbelow(2**31 - 1) + 1


def _state(handle: Handle) -> State | None:
    """How many commits a file has seen, and the token of the last; None of a new one."""
    try:
        found: State | None = handle.execute("SELECT commits, token FROM pastmaster_commits").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return None
    return found


def _handle(connection: sa.Connection) -> Handle:
    handle = connection.connection.dbapi_connection
    assert isinstance(handle, Handle)
    return handle


def _set_log(handle: Handle, wanted: bool) -> None:
    """Turn the write-ahead log on or off; it stays as it is where somebody else uses the file."""
    cursor = handle.cursor()
    try:
        if (cursor.execute("PRAGMA journal_mode").fetchone()[0] == "wal") != wanted:
            cursor.execute(f"PRAGMA journal_mode={'wal' if wanted else 'delete'}")
    except sqlite3.OperationalError as error:
        if not any(sign in str(error) for sign in ("locked", "readonly")):
            raise
    finally:
        cursor.close()


def _check_path(place: str, create: bool) -> None:
    """Refuse a path at which no SQLite file is or can be."""
    if place in ("", ":memory:"):
        raise InvalidInputError(f"Repository: {place or 'the path'} is no file, must be one: it is what lasts")
    path = Path(place)
    try:
        if path.is_dir():
            raise RepositoryError(f"Repository: {path} is a directory, must be a file")
        if path.exists() and not path.is_file():
            raise RepositoryError(f"Repository: {path} is a device or a pipe, must be a file")
        if not path.exists() and not create:
            raise RepositoryError(
                f"Repository: there is no repository at {path}: check the path, or make one: "
                f"`pastmaster repo add {path}` with tasks, or `pastmaster repo init {path}` without any"
            )
        if not path.parent.is_dir():
            raise RepositoryError(f"Repository: {path} cannot be made: there is no folder {path.parent}")
    except (OSError, ValueError) as error:
        raise RepositoryError(f"Repository: {str(path)[:80]!r} is no path for a repository: {error}") from None
