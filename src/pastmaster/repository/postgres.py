"""A database on a PostgreSQL server: a schema of one.

As with a file there is one writer at a time: it takes an advisory lock. What a writer has committed is known to the
server by a receipt, so that a commit whose answer was lost with the connection is not done twice. A connection on which
an answer is due is watched: where the network swallows it, nobody else would notice.
"""

from __future__ import annotations

import os
import secrets
import threading
import uuid
from queue import SimpleQueue
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import location
from pastmaster.repository.schema import Kind
from pastmaster.repository.watch import Watch
from pastmaster.shield import Shield

CONNECT_SECONDS = 10
FIRST_SECONDS = 30  # for a new connection
PATIENCE = {  # with a server that does not answer, or a host that vanished
    "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5,
    "keepalives_count": 3, "tcp_user_timeout": 30_000,
}  # fmt: skip


LEAVE = sa.text(
    "WITH old AS (DELETE FROM pastmaster_receipts WHERE written < now() - interval '1 day' AND writer <> :writer) "
    "INSERT INTO pastmaster_receipts VALUES (:writer, :receipt, now()) "
    "ON CONFLICT (writer) DO UPDATE SET receipt = EXCLUDED.receipt, written = EXCLUDED.written"
)


class Server:
    """The server, and connections to it."""

    def __init__(self, url: sa.URL, kind: Kind) -> None:
        self.place, self.kind = location.shown(url), kind
        self._lock = kind.lock
        options: dict[str, Any] = PATIENCE | {"connect_timeout": CONNECT_SECONDS}
        if kind.schema is not None:
            self.place += f", schema {kind.schema}"
            options["options"] = f"{url.query.get('options', '')} -c search_path={kind.schema}"
        self._name, self._process = uuid.uuid4().hex, os.getpid()
        try:
            self.engine = sa.create_engine(url, max_overflow=-1, connect_args=options)
        except ImportError as error:
            raise InvalidInputError(
                f"Repository: PostgreSQL needs psycopg ({error}): pip install 'psycopg[binary]'"
            ) from None
        self._watch = Watch()
        event.listen(self.engine, "before_cursor_execute", self._expect)
        event.listen(self.engine, "after_cursor_execute", self._answered)
        event.listen(self.engine, "handle_error", lambda context: self._answered(context.connection))

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose(close=self._process == os.getpid())

    def enter(self) -> int:
        """Before a transaction: a forked child must not talk on its parent's connections."""
        if self._process != os.getpid():
            self.engine.dispose(close=False)
            self._process = os.getpid()
        return 0

    def leave(self, number: int) -> None:
        """After a transaction."""

    def connect(self, shield: Shield) -> sa.Connection:
        """A connection, out of those that are idle or new; Ctrl-C ends the waiting.

        A new one is made on a thread of its own, and given up after a while: what is asked on it first is not watched.
        """
        if self.engine.pool.checkedin():  # type: ignore[attr-defined]  # a QueuePool
            return shield.run(self.engine.connect)
        made: SimpleQueue[sa.Connection | BaseException] = SimpleQueue()
        given_up = threading.Event()

        def make() -> None:
            try:
                connection = self.engine.connect()
            except BaseException as error:
                made.put(error)
                return
            made.put(connection)
            if given_up.is_set():
                connection.invalidate()

        threading.Thread(target=make, daemon=True).start()
        try:
            if not shield.wait_for(lambda: not made.empty(), FIRST_SECONDS):
                raise RepositoryError(f"the database at {self.place} does not answer: it took the login, then nothing")
        except BaseException:
            given_up.set()
            raise
        found = made.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def share(self) -> None:
        """From now on, do not wait for other writers: all that these write is rows which they lock.

        They go on when this one has committed, before that is on the disk.
        """
        self._lock = secrets.randbits(62)

    @property
    def is_shared(self) -> bool:
        return self._lock != self.kind.lock

    def make_ready(self, connection: sa.Connection) -> None:
        """Make the place where tables will be, and that of receipts, in the open transaction."""
        if self.kind.schema is not None:
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {self.kind.schema}")
        columns = "writer varchar(100) PRIMARY KEY, receipt varchar(32) NOT NULL, written timestamptz NOT NULL"
        connection.exec_driver_sql(f"CREATE TABLE pastmaster_receipts ({columns})")

    def begin(self, connection: sa.Connection, writes: bool, shield: Shield) -> None:
        """Begin a transaction: a reader's sees one state, a writer's is the only one that has the lock."""
        connection.execution_options(isolation_level="READ COMMITTED" if writes else "REPEATABLE READ")
        connection.begin()
        if writes:
            shield.run(self._take_lock, connection)

    def _take_lock(self, connection: sa.Connection) -> None:
        """Be the only writer, or the only one here if it is shared. Only then the commit itself waits for no disk."""
        settings = [
            f"lock_timeout = '{location.BUSY_SECONDS}s'",
            f"idle_in_transaction_session_timeout = '{self.kind.idle:g}s'",
        ]
        if self.is_shared:
            settings.append("synchronous_commit = off")
        statements = [*(f"SET LOCAL {setting}" for setting in settings), f"SELECT pg_advisory_xact_lock({self._lock})"]
        connection.exec_driver_sql("; ".join(statements))  # in one go: others may wait for what this transaction holds

    def commit(self, connection: sa.Connection, writes: bool, shield: Shield) -> None:
        """Commit: what was written is on the disk when this returns, and if it is shared what was read too.

        Others that wait for rows go on at once, before the disk has them. The server writes its log in order, so a
        later commit that waits for the disk, as this one's second does, waits for all before it: whoever ends like this
        tells nobody anything that a crash of the server could undo.
        """
        transaction = connection.get_transaction()
        assert transaction is not None
        self._expect(connection)
        try:
            transaction.commit()
            if writes or self.is_shared:
                with connection.begin():
                    connection.exec_driver_sql(TO_DISK)
        finally:
            self._answered(connection)

    def abandon(self, connection: sa.Connection) -> None:
        """Give up what was begun, with the connection: the server then undoes it."""
        self._answered(connection)
        connection.invalidate()

    def _expect(self, connection: sa.Connection, *_: Any) -> None:
        """An answer is due on a connection."""
        self._watch.begin(id(connection), connection.connection.dbapi_connection)

    def _answered(self, connection: sa.Connection | None, *_: Any) -> None:
        if connection is not None:
            self._watch.end(id(connection))

    def leave_receipt(self, connection: sa.Connection) -> str:
        """Put a new receipt in the place of the writer's last one, in the open transaction; old ones are removed."""
        receipt = uuid.uuid4().hex
        connection.execute(LEAVE, {"writer": self._writer(), "receipt": receipt})
        return receipt

    def has_receipt(self, connection: sa.Connection, receipt: str) -> bool:
        """Whether this writer's last transaction that was committed is the one with this receipt.

        It took the writer's turn and left its receipt as its last act, so whoever has the turn after it can see. A
        transaction's number would not do: after a crash the server gives the same number to another one.
        """
        query = sa.text("SELECT receipt FROM pastmaster_receipts WHERE writer = :writer")
        return connection.execute(query, {"writer": self._writer()}).scalar() == receipt

    def _writer(self) -> str:
        """Who writes: one thread of one process writes one thing at a time."""
        return f"{self._name}/{os.getpid()}/{threading.get_ident()}"

    def explained(self, reason: str) -> RepositoryError | None:
        """The server's error in one sentence, None if there is none for it."""
        if "lock timeout" in reason:
            return RepositoryError(
                f"{self.place} was in use by another program for {location.BUSY_SECONDS} seconds, try again"
            )
        if "idle-in-transaction" in reason:
            return RepositoryError(
                f"{self.place} has undone a change that stood still between two statements for more than "
                f"{self.kind.idle:g} seconds, so that others go on: try again"
            )
        if "No space left" in reason:
            return RepositoryError(f"the disk of {self.place} is full, nothing was changed: make room and try again")
        return None


TO_DISK = (
    "SET LOCAL synchronous_commit = on; SELECT CASE WHEN pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn() "
    "THEN pg_logical_emit_message(true, 'pastmaster', '') END"
)
"""A transaction that waits until the server's log is on the disk: unless it is, by an entry of its own there."""


COMING_BACK = (
    "starting up", "not yet accepting", "shutting down", "in recovery", "terminating", "too many clients",
    "remaining connection",
)  # fmt: skip
AWAY = ("connect", "server closed", "timeout expired", "timed out", "resolve host")


def is_away(error: sa.exc.DBAPIError) -> bool:
    """Whether the server went away or does not answer, rather than refusing what was asked."""
    reason = str(error.orig).lower()
    if any(sign in reason for sign in COMING_BACK):
        return True
    if "fatal:" in reason and not error.connection_invalidated:
        return False  # it answers, and refuses: a wrong password, a database that is not there
    return error.connection_invalidated or (
        isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) and any(sign in reason for sign in AWAY)
    )
