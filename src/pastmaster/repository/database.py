"""Transactions on a repository's database, and its schema brought up to date.

``read`` gives a function one consistent snapshot; ``write`` gives it the only writer's transaction. If the server goes
away, they wait for it and run the function again, unless the server holds the receipt of that transaction.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from pastmaster import formerly
from pastmaster.errors import DamagedError, PastmasterError, RepositoryError
from pastmaster.repository import location, schema

Result = TypeVar("Result")
Work = Callable[[sa.Connection], Result]
RECONNECT_SECONDS = 60.0
MIGRATIONS = [Path(__file__).parent / "migrations" / "versions"]


class Database:
    """A repository's database, opened, with the newest schema."""

    def __init__(self, url_or_path: Any, *, create: bool) -> None:
        self.url = location.parse(url_or_path)
        self.place = location.shown(self.url)
        if self.is_sqlite:
            location.check_path(self.url, create)
        self._engine, self._process = location.engine(self.url), os.getpid()
        self._name = uuid.uuid4().hex
        try:
            if self._once(False, current_revision) != schema.REVISION:
                self._once(True, lambda connection: upgrade(connection, self.place, create))
            self._former = self._once(False, version_table) == formerly.VERSION_TABLE
            if self.is_sqlite:
                location.use_log(self._engine)
        except (sa.exc.DBAPIError, sqlite3.Error) as error:
            self.close()
            sentence = self._translated(error)
            raise type(sentence)(f"Repository: {sentence}") from None
        except PastmasterError as error:
            self.close()
            raise type(error)(f"Repository: {error}") from error.__cause__

    @property
    def is_sqlite(self) -> bool:
        return self.url.drivername == "sqlite"

    def read(self, work: Work[Result]) -> Result:
        """``work(connection)`` on one consistent snapshot."""
        return self._persistently(False, work)

    def write(self, work: Work[Result]) -> Result:
        """``work(connection)`` as the only writer: all of it is committed, or nothing."""
        if not self._former:
            return self._persistently(True, work)
        done = self._persistently(True, lambda connection: work(_renamed(connection)))
        self._former = False
        return done

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose(close=self._process == os.getpid())

    def _persistently(self, writes: bool, work: Work[Result]) -> Result:
        """Run ``work``, and again while the server is away; work that was committed is not repeated."""
        deadline, pause = 0.0, 0.05
        sent: list[tuple[str, Result]] = []  # receipts of commits that were asked for, with what the work returned
        while True:
            try:
                if sent and self._committed(sent[-1][0]):
                    return sent[-1][1]
                return self._once(writes, work, sent)
            except sa.exc.DBAPIError as error:
                now = time.monotonic()
                deadline = deadline or now + RECONNECT_SECONDS
                if self.is_sqlite or not _lost(error) or now > deadline:
                    raise self._translated(error) from None
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _committed(self, receipt: str) -> bool:
        """Whether a transaction whose acknowledgement was lost was committed.

        It took the writer's turn and left its receipt as its last act, so whoever has the turn after it can see. A
        transaction's number would not do: after a crash the server gives the same number to another one.
        """
        query = sa.text("SELECT receipt FROM pastmaster_receipts WHERE writer = :writer")

        def held(connection: sa.Connection) -> bool:
            if not _has_receipts(connection):
                return False
            return connection.execute(query, {"writer": self._writer()}).scalar() == receipt

        return self._once(True, held)

    def _writer(self) -> str:
        """Who writes: one thread of one process writes one thing at a time."""
        return f"{self._name}/{os.getpid()}/{threading.get_ident()}"

    def _once(self, writes: bool, work: Work[Result], sent: list[tuple[str, Result]] | None = None) -> Result:
        if self._process != os.getpid():  # a forked child must not talk on its parent's connections
            self._engine.dispose(close=False)
            self._process = os.getpid()
        options: dict[str, Any] = {"writes": writes}
        if not self.is_sqlite:
            options["isolation_level"] = "READ COMMITTED" if writes else "REPEATABLE READ"
        with self._engine.connect().execution_options(**options) as connection, connection.begin():
            if writes and not self.is_sqlite:
                _take_turn(connection)
            try:
                result = work(connection)
            except UnicodeDecodeError as error:  # SQLite quotes what it cannot read
                raise DamagedError(f"{self.place} is damaged: text in it is not UTF-8 ({error})") from None
            if writes and not self.is_sqlite and sent is not None:
                sent.append((_leave_receipt(connection, self._writer()), result))
            return result

    def _translated(self, error: sa.exc.DBAPIError | sqlite3.Error) -> RepositoryError:
        """The database's error in one sentence."""
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        for sign, sentence in COMPLAINTS.items():
            if sign in reason:
                kind = DamagedError if "damaged" in sentence else RepositoryError
                return kind(sentence.format(place=self.place, reason=reason))
        if not self.is_sqlite and isinstance(error, sa.exc.DBAPIError) and _lost(error):
            return RepositoryError(f"the database at {self.place} does not answer: {reason}")
        return RepositoryError(f"the database at {self.place} refuses: {reason}")


FULL = "the disk is full, nothing was changed in {place}: make room and try again ({reason})"
IN_USE = f"{{place}} was in use by another program for {location.BUSY_SECONDS} seconds, try again"
COMPLAINTS = {
    "disk is full": FULL,
    "disk I/O error": "{place} cannot be written, nothing was changed: is the disk full? ({reason})",
    "No space left": FULL,
    "readonly database": "{place} is read-only, nothing was changed: make file and folder writable ({reason})",
    "database is locked": IN_USE,
    "lock timeout": IN_USE,
    "not a database": "{place} is not a repository: it is some other kind of file, or its beginning is damaged",
    "malformed": "{place} is damaged ({reason}); where it still opens, `pastmaster repo check` names what is lost",
    "unable to open": "{place} cannot be opened: may file and folder be read and written? ({reason})",
}


def _take_turn(connection: sa.Connection) -> None:
    """Be the only writer, as in SQLite, and have commits on the disk before they are acknowledged."""
    connection.execute(sa.text(f"SET LOCAL lock_timeout = '{location.BUSY_SECONDS}s'"))
    connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(7245311)"))


def _has_receipts(connection: sa.Connection) -> bool:
    return connection.execute(sa.text("SELECT to_regclass('pastmaster_receipts')")).scalar() is not None


def _leave_receipt(connection: sa.Connection, writer: str) -> str:
    """Put a new receipt in the place of the writer's last one, in the open transaction; old ones are thrown away."""
    receipt = uuid.uuid4().hex
    if not _has_receipts(connection):
        columns = "writer varchar(100) PRIMARY KEY, receipt varchar(32) NOT NULL, written timestamptz NOT NULL"
        connection.execute(sa.text(f"CREATE TABLE pastmaster_receipts ({columns})"))
    connection.execute(
        sa.text(
            "INSERT INTO pastmaster_receipts VALUES (:writer, :receipt, now()) "
            "ON CONFLICT (writer) DO UPDATE SET receipt = EXCLUDED.receipt, written = EXCLUDED.written"
        ),
        {"writer": writer, "receipt": receipt},
    )
    connection.execute(sa.text("DELETE FROM pastmaster_receipts WHERE written < now() - interval '1 day'"))
    return receipt


def _lost(error: sa.exc.DBAPIError) -> bool:
    """Whether the server went away or does not answer, rather than refusing what was asked."""
    signs = (
        "connect", "shutting down", "starting up", "in recovery", "terminating", "server closed", "timeout expired",
        "timed out", "resolve host",
    )  # fmt: skip
    return error.connection_invalidated or (
        isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
        and any(sign in str(error.orig).lower() for sign in signs)
    )


def current_revision(connection: sa.Connection) -> str | None:
    """The schema a database has, None if it has none."""
    table = version_table(connection)
    if not sa.inspect(connection).has_table(table):
        return None
    found: str | None = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalar()
    return found


def _renamed(connection: sa.Connection) -> sa.Connection:
    """The connection of a writer; a database of the former name takes the new one, so that the former refuses it.

    It would take environments stored under their new ids for damage.
    """
    if version_table(connection) == formerly.VERSION_TABLE:
        connection.execute(sa.text(f"ALTER TABLE {formerly.VERSION_TABLE} RENAME TO {schema.VERSION_TABLE}"))
    return connection


def version_table(connection: sa.Connection) -> str:
    """The table that holds a database's revision, or will."""
    former = sa.inspect(connection).has_table(formerly.VERSION_TABLE)
    return formerly.VERSION_TABLE if former else schema.VERSION_TABLE


def upgrade(connection: sa.Connection, place: str, create: bool) -> None:
    """Bring the schema up to date inside the open transaction; refuse what is newer, or is not ours."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    revision = current_revision(connection)  # anew: another process may have been faster
    if revision is None and sa.inspect(connection).get_table_names():
        raise RepositoryError(f"{place} is not a repository: it holds the tables of something else")
    if revision is None and not create:
        raise RepositoryError(f"{place} holds no repository: `pastmaster repo init` makes one")
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, MIGRATIONS)).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = version_table(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise RepositoryError(
            f"{place} was written by a newer pastmaster (schema {revision}, this one knows up to {schema.REVISION}): "
            "install that version to use it; nothing was changed"
        )
    try:
        command.upgrade(config, "head")
    except sa.exc.DBAPIError:
        raise
    except Exception as error:
        raise RepositoryError(
            f"{place} could not be brought from schema {revision} to {schema.REVISION}, it stays as it was: {error!r}"
        ) from error
