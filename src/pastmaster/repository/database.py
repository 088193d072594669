"""Transactions on a repository's database, and its schema brought up to date.

``read`` gives a function one consistent snapshot; ``write`` gives it the only writer's transaction. If a server goes
away, they wait for it and run the function again, unless the server holds the receipt of that transaction.

Whatever ends a transaction early, an error, Ctrl-C or a second one, its connection is given up with it: no lock stays.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import sqlalchemy as sa

from pastmaster import formerly
from pastmaster.errors import DamagedError, PastmasterError, RepositoryError
from pastmaster.files import unfinished
from pastmaster.repository import location, schema
from pastmaster.repository.postgres import WRITERS, Server, is_away
from pastmaster.repository.sqlite import ChangedError, File
from pastmaster.shield import Shield

Result = TypeVar("Result")
Work = Callable[[sa.Connection], Result]
RECONNECT_SECONDS = 60.0
AT_ONCE = 15  # transactions of one process; more threads wait for their turn
MIGRATIONS = [Path(__file__).parent / "migrations" / "versions"]


class Database:
    """A repository's database, opened, with the newest schema."""

    def __init__(self, url_or_path: Any, *, create: bool) -> None:
        url = location.parse(url_or_path)
        self.backend: File | Server = File(url, create) if url.drivername == "sqlite" else Server(url)
        self.place = self.backend.place
        self._turns, self._process = _turns(), os.getpid()
        try:
            if isinstance(self.backend, File):
                self._calmly(self.backend.check_schema)
            self.revision = self._calmly(current_revision)
            if self.revision != schema.REVISION and not self._readable():
                self._calmly(lambda connection: upgrade(connection, self.place, create), WRITERS)
                self.revision = schema.REVISION
            self._former = self._calmly(version_table) == formerly.VERSION_TABLE
            if isinstance(self.backend, File):
                self.backend.keep_log(False)
        except (sa.exc.DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            sentence = self.translated(error)
            raise type(sentence)(f"Repository: {sentence}") from None
        except PastmasterError as error:
            self.close()
            raise type(error)(f"Repository: {error}") from error.__cause__

    def _readable(self) -> bool:
        """Whether this is an earlier schema in a file that cannot be written to, and that can be read as it is."""
        return isinstance(self.backend, File) and self.revision in schema.READABLE and self.backend.reads_only

    @property
    def is_sqlite(self) -> bool:
        return isinstance(self.backend, File)

    def read(self, work: Work[Result], *, settled: bool = False) -> Result:
        """``work(connection)`` on one consistent snapshot; ``settled``: what it saw is on the disk when it returns."""
        return self._persistently(None, work, settled)

    def write(self, work: Work[Result], turn: int = WRITERS) -> Result:
        """``work(connection)`` as the only writer: all of it is committed, or nothing.

        Writers with another ``turn`` do not wait for each other on a server; such work locks the rows that it changes.
        What they have written others may see before it is on the disk, unless they read what is ``settled``.
        """
        if not self._former:
            return self._persistently(turn, work)
        done = self._persistently(turn, lambda connection: work(_renamed(connection)))
        self._former = False
        return done

    def close(self) -> None:
        """Close the connections."""
        self.backend.close()

    def keep_log(self, wanted: bool) -> None:
        """Keep a write-ahead log or not: a file that is served has one. Where that cannot be changed, it stays."""
        if isinstance(self.backend, File):
            with suppress(sqlite3.Error, sa.exc.DBAPIError, PastmasterError):
                self.backend.keep_log(wanted)

    @contextmanager
    def snapshot(self) -> Iterator[Database]:
        """The database as it is now, to be read at length without holding up writers.

        Of a file that is a copy in a temporary folder; where there is no room for one, or the file cannot be copied, it
        is the file itself, and writers wait. A server keeps snapshots by itself.
        """
        with ExitStack() as stack:
            still = self
            if isinstance(self.backend, File):
                with suppress(OSError, sqlite3.Error, sa.exc.DBAPIError, UnicodeDecodeError, PastmasterError):
                    copy = stack.enter_context(unfinished(Path(tempfile.gettempdir()))) / "copy.db"
                    self.backend.copy(copy)
                    still = stack.enter_context(closing(Database(copy, create=False)))
                    still.place = still.backend.place = self.place  # what errors call it
            yield still

    def _persistently(self, turn: int | None, work: Work[Result], settled: bool = False) -> Result:
        """Run ``work``, and again while the server is away; work that was committed is not repeated."""
        deadline, pause = 0.0, 0.05
        sent: list[tuple[str, Result]] = []  # receipts of commits that were asked for, with what the work returned
        while True:
            try:
                if sent and turn is not None and self._committed(sent[-1][0], turn):
                    return sent[-1][1]
                return self._once(turn, work, sent, settled)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self.translated(error) from None
            except sa.exc.DBAPIError as error:
                if self.is_sqlite or not is_away(error) or time.monotonic() > (deadline or _soon()):
                    raise self.translated(error) from None
            except ChangedError:
                self._look_again(deadline or _soon())
            deadline = deadline or _soon()
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _calmly(self, work: Work[Result], turn: int | None = None) -> Result:
        """Run ``work``, and again while the file is written to meanwhile; a server that is away is not waited for."""
        deadline = _soon()
        while True:
            try:
                return self._once(turn, work)
            except ChangedError:
                self._look_again(deadline)
            time.sleep(0.05)

    def _look_again(self, deadline: float) -> None:
        """A file was written to while it was read as if nobody could."""
        if time.monotonic() > deadline:
            raise RepositoryError(f"{self.place} is written to all the time, it cannot be read here") from None
        if isinstance(self.backend, File):
            self.backend.look_again()

    def _committed(self, receipt: str, turn: int) -> bool:
        """Whether a transaction whose acknowledgement was lost was committed."""
        server = self.backend
        return isinstance(server, Server) and self._once(turn, lambda c: server.has_receipt(c, receipt))

    def _once(
        self,
        turn: int | None,
        work: Work[Result],
        sent: list[tuple[str, Result]] | None = None,
        settled: bool = False,
    ) -> Result:
        """One transaction, a writer's if it has a ``turn``.

        Ctrl-C strikes while the work is done and while we wait, and nowhere else.
        """
        backend, turns, writes = self.backend, self._own_turns(), turn is not None
        with Shield() as shield:
            if not shield.wait_for(lambda: _take(turns), location.BUSY_SECONDS):
                raise RepositoryError(
                    f"{self.place} was in use by {AT_ONCE} threads of this process for {location.BUSY_SECONDS} "
                    "seconds, try again"
                )
            try:
                number = backend.enter()
                try:
                    connection = backend.connect(shield)
                    handle = connection.connection.dbapi_connection
                    try:
                        backend.begin(connection, turn, shield)
                        result: Result = shield.run(self._work, connection, work, writes, sent)
                        backend.commit(connection, writes, shield, settled)
                        return result
                    except BaseException as error:
                        changed = isinstance(error, Exception) and backend.has_misled(connection, error)
                        backend.abandon(connection)
                        if handle is not None:
                            handle.close()  # Ctrl-C may have struck where SQLAlchemy was about to
                        if changed:  # what was read is of two states
                            raise ChangedError from None
                        raise
                    finally:
                        connection.close()
                finally:
                    backend.leave(number)
            finally:
                turns.put(None)

    def _work(
        self, connection: sa.Connection, work: Work[Result], writes: bool, sent: list[tuple[str, Result]] | None
    ) -> Result:
        result = work(connection)
        if writes and isinstance(self.backend, File):
            self.backend.stamp(connection)
        if writes and sent is not None and isinstance(self.backend, Server):
            sent.append((self.backend.leave_receipt(connection), result))
        return result

    def _own_turns(self) -> SimpleQueue[None]:
        """The turns of this process: those that a parent's threads had taken are not ours."""
        if self._process != os.getpid():
            self._turns, self._process = _turns(), os.getpid()
        return self._turns

    def translated(self, error: sa.exc.DBAPIError | sqlite3.Error | UnicodeDecodeError) -> RepositoryError:
        """The database's error in one sentence."""
        if isinstance(error, UnicodeDecodeError):  # SQLite quotes what it cannot read
            return DamagedError(f"{self.place} is damaged: text in it is not UTF-8 ({error})")
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        if (sentence := self.backend.explained(reason)) is not None:
            return sentence
        if not self.is_sqlite and isinstance(error, sa.exc.DBAPIError) and is_away(error):
            return RepositoryError(f"the database at {self.place} does not answer: {reason}")
        return RepositoryError(f"the database at {self.place} refuses: {reason}")


def _turns() -> SimpleQueue[None]:
    """So many turns; a queue of this kind may be used where it is in use already, by a signal's handler."""
    turns: SimpleQueue[None] = SimpleQueue()
    for _ in range(AT_ONCE):
        turns.put(None)
    return turns


def _take(turns: SimpleQueue[None]) -> bool:
    try:
        turns.get_nowait()
    except Empty:
        return False
    return True


def _soon() -> float:
    return time.monotonic() + RECONNECT_SECONDS


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
    revision = current_revision(connection)  # anew: another process may have been faster
    if revision is None and sa.inspect(connection).get_table_names():
        raise RepositoryError(f"{place} is not a repository: it holds the tables of something else")
    if revision is None and not create:
        raise RepositoryError(f"{place} holds no repository: `pastmaster repo init` makes one")
    migrate(connection, place, MIGRATIONS, version_table(connection), revision, schema.REVISION)


def migrate(
    connection: sa.Connection, place: str, folders: Sequence[Path], table: str, revision: str | None, newest: str
) -> None:
    """Run the migrations in some folders inside the open transaction; ``table`` holds the revision there is."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, folders)).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = table
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise RepositoryError(
            f"{place} was written by a newer pastmaster (schema {revision}, this one knows up to {newest}): "
            "install that version to use it; nothing was changed"
        )
    try:
        command.upgrade(config, "head")
    except sa.exc.DBAPIError:
        raise
    except Exception as error:
        raise RepositoryError(
            f"{place} could not be brought from schema {revision} to {newest}, it stays as it was: {error!r}"
        ) from error
