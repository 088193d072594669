"""A repository in a SQLite file.

All that was committed is in the one file: SQLite keeps a rollback journal, which holds the former state of what a
transaction is changing and is deleted when the transaction ends. With a write-ahead log the latest changes are in a
second file, which is lost when the first is copied or restored alone, and readers need to write a third. But it brings
a commit to the disk at once, where a journal takes five or six times as long, so a file has one while it is served
(``keep_log``). It is turned off when the service ends; after a kill, when the file is opened and ``wal`` has looked
whether the log is complete.

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
from pastmaster.repository import location, outside
from pastmaster.repository.forks import USERS
from pastmaster.repository.schema import metadata
from pastmaster.repository.wal import check_log
from pastmaster.shield import Shield

State = tuple[int, str]
MAKE, WRITE = "mode=rwc", "mode=rw"


class Handle(sqlite3.Connection):
    """A connection that takes no lock along when it is closed, and that only the process that made it can close."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.process = os.getpid()
        self.changes = 0  # rows that it had changed when its transaction began
        self.seen: outside.Look | None = None  # how the file looked when it was opened, if it cannot be written to
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

    def __init__(self, url: sa.URL, create: bool) -> None:
        _check_path(url, create)
        self.place = str(url.database)
        self.path = Path(os.path.abspath(self.place))  # whatever the working directory will be
        self.identity = outside.identity(self.path)
        self._state: State | None = None
        self._logs = False  # whether it is to have a write-ahead log
        self._mode = WRITE if self.identity else MAKE
        if self.identity is not None:
            with USERS.alone(self.identity) as alone:
                if alone:
                    outside.check_companions(self.path)
                    check_log(self.path)
                    self._mode = outside.reading_mode(self.path) or WRITE
        self.engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=sa.QueuePool, pool_size=5, max_overflow=-1
        )  # fmt: skip
        USERS.add(self)

    @property
    def reads_only(self) -> bool:
        """Whether the file cannot be written to here."""
        folder = os.access(self.path.parent, os.W_OK)  # a journal is made beside it
        return self._mode in (outside.READ, outside.READ_ALONE) or not (folder and os.access(self.path, os.W_OK))

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
        before = self._seen()
        try:
            connection: sa.Connection = self._patiently(shield, self.engine.connect)
            if self.has_changed(connection):  # since this connection was made
                connection.invalidate()
                connection.close()
                connection = self.engine.connect()
        except (sa.exc.DBAPIError, sqlite3.Error):  # SQLite reads the first page at once, which may be half written
            if before is not None and outside.changes(self.path, before):
                raise ChangedError from None
            raise
        return connection

    def _seen(self) -> outside.Look | None:
        """How the file looks; None for those who make or may write it: SQLite's locks are enough for them."""
        return outside.look(self.path) if self.identity is not None and self.reads_only else None

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

    def begin(self, connection: sa.Connection, turn: int | None, shield: Shield) -> None:
        """Begin a transaction, when there is no other writer; a reader sees the last state there was before."""
        connection.begin()

        def lock() -> None:
            try:
                if turn is not None:  # takes its lock at once: it cannot fail half-way because another was first
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

    def commit(self, connection: sa.Connection, writes: bool, shield: Shield, settled: bool) -> None:
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
        if self.has_changed(connection):
            raise ChangedError

    def has_changed(self, connection: sa.Connection) -> bool:
        """Whether a file that is read as if nobody wrote to it may have been written to."""
        seen = _handle(connection).seen
        return (
            self._mode == outside.READ_ALONE
            and seen is not None
            and not (seen.is_settled and seen == outside.look(self.path))
        )

    def has_misled(self, connection: sa.Connection, error: BaseException) -> bool:
        """Whether an error may be due to a change that the reader could not be protected from."""
        seen = _handle(connection).seen
        refused = isinstance(error, (sa.exc.DBAPIError, sqlite3.Error))
        return self.has_changed(connection) or (refused and seen is not None and outside.changes(self.path, seen))

    def look_again(self) -> None:
        """Choose anew how the file is read: its owner may have turned its log off or on since it was opened."""
        if self.identity is not None:
            with USERS.alone(self.identity) as alone:
                if alone:
                    self._mode = outside.reading_mode(self.path) or WRITE

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
        handle, token = _handle(connection), secrets.token_hex(8)
        if not handle.execute("UPDATE pastmaster_commits SET commits = commits + 1, token = ?", [token]).rowcount:
            handle.execute("INSERT INTO pastmaster_commits VALUES (1, ?)", [token])
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

    def stamp(self, connection: sa.Connection) -> None:
        """Give a file that has none a number of its own, and a count of its commits, in the open transaction."""
        handle = _handle(connection)
        if not handle.execute("PRAGMA user_version").fetchone()[0]:
            handle.execute(f"PRAGMA user_version={_new_stamp()}")
        handle.execute("CREATE TABLE IF NOT EXISTS pastmaster_commits (commits INTEGER NOT NULL, token TEXT NOT NULL)")

    def abandon(self, connection: sa.Connection) -> None:
        """Give up what was begun, with the connection."""
        connection.invalidate()

    def _connect(self) -> Handle:
        if self.identity is not None:
            self._check_identity("nothing was changed")
        seen = self._seen()
        handle = sqlite3.connect(
            f"{self.path.as_uri()}?{self._mode}", uri=True, timeout=0, isolation_level=None, check_same_thread=False,
            factory=Handle,
        )  # fmt: skip
        handle.seen = seen
        try:
            handle.execute("PRAGMA foreign_keys=ON")
            handle.execute("PRAGMA synchronous=EXTRA")  # the journal's end is on the disk too before it counts
            handle.execute("PRAGMA cache_spill=OFF")  # nothing is written, or locked for it, before the commit
            if self._logs:
                _set_log(handle, True)
        except BaseException:
            handle.close()
            raise
        if self.identity is None:
            self.identity = outside.identity(self.path)
            self._mode = self._mode.replace(MAKE, WRITE)
        return handle

    def _check_identity(self, outcome: str) -> None:
        """Refuse a file that is not the one that was opened: what is written to that is lost."""
        found = outside.identity(self.path)
        if found != self.identity:
            what = "is gone" if found is None else "is another file"
            raise RepositoryError(
                f"{self.place} {what} since it was opened (deleted, moved or replaced), {outcome}: "
                "put it back in its place, or close this Repository and open it again"
            )

    @contextmanager
    def _idle_connection(self) -> Iterator[tuple[Shield, sa.Connection]]:
        """A connection without a transaction, which no fork happens beside."""
        with Shield() as shield:
            number = self.enter()
            try:
                with self.connect(shield) as connection:
                    yield shield, connection
            finally:
                self.leave(number)

    def adopt(self) -> None:
        """Go on with the file that is in the place now: it is ours."""
        self.release()
        self.identity, self._state = outside.identity(self.path), None

    def keep_log(self, wanted: bool) -> None:
        """Keep a write-ahead log from now on, or none, unless somebody else uses the file now."""
        if self._mode in (outside.READ, outside.READ_ALONE):
            return
        if wanted != self._logs:
            self._logs = wanted
            self.release()
        with self._idle_connection() as (_, connection):
            _set_log(_handle(connection), wanted)

    def explained(self, reason: str) -> RepositoryError | None:
        """SQLite's error in one sentence, None if there is none for it."""
        for sign, sentence in COMPLAINTS.items():
            if sign in reason:
                kind = DamagedError if "damaged" in sentence else RepositoryError
                return kind(sentence.format(place=self.place, reason=reason))
        return None

    def copy(self, target: Path) -> None:
        """Copy the file as it is at one moment into another, which is made; writers wait meanwhile."""
        copied = sqlite3.connect(target)
        try:
            with self._idle_connection() as (shield, connection):
                self._patiently(shield, lambda: _handle(connection).backup(copied))
            copied.execute("PRAGMA journal_mode=DELETE")
            copied.execute(f"PRAGMA user_version={_new_stamp()}")  # it goes its own way from here
            copied.commit()
        finally:
            copied.close()


LOST_TABLES = dict.fromkeys(
    (f"no such table: {name}" for name in metadata.tables),
    "{place} is damaged: a table is not there ({reason}). Restore a backup",
)
FULL = "the disk is full, nothing was changed in {place}: make room and try again ({reason})"
COMPLAINTS = LOST_TABLES | {
    "disk is full": FULL,
    "No space left": FULL,
    "disk I/O error": "{place} cannot be written, nothing was changed: is the disk full? ({reason})",
    "readonly database": "{place} is read-only, nothing was changed: make file and folder writable ({reason})",
    "not a database": "{place} is not a repository: it is some other kind of file, or its beginning is damaged",
    "malformed": "{place} is damaged ({reason}): see what `pastmaster repo check` still finds, or restore a backup",
    "unable to open": "{place} cannot be opened: may file and folder be read and written? ({reason})",
}


class ChangedError(Exception):
    """The file was written to while it was read as if nobody could."""


def _new_stamp() -> int:
    return secrets.randbelow(2**31 - 1) + 1


def _state(handle: Handle) -> State | None:
    """How many commits a file has seen, and the token of the last; None of one that does not count them yet."""
    counts = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'pastmaster_commits'"
    if handle.execute(counts).fetchone() is None:
        return None
    found: State | None = handle.execute("SELECT commits, token FROM pastmaster_commits").fetchone()
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


def _check_path(url: sa.URL, create: bool) -> None:
    """Refuse a path at which no SQLite file is or can be."""
    if not url.database or url.database == ":memory:":
        raise InvalidInputError(f"Repository: {url.database or 'the path'} is no file, must be one: it is what lasts")
    path = Path(url.database)
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
