"""Transactions on a database, a repository's or the service's, and its schema brought up to date.

``read`` gives a function one consistent snapshot; ``write`` gives it the only writer's transaction. If a server goes
away, they wait for it and run the function again, unless the server holds the receipt of that transaction.

Whatever ends a transaction early, an error, Ctrl-C or a second one, its connection is given up with it: no lock stays.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import sqlalchemy as sa

from pastmaster.errors import DamagedError, PastmasterError, RepositoryError
from pastmaster.files import unfinished
from pastmaster.repository import location
from pastmaster.repository.postgres import Server, is_away
from pastmaster.repository.schema import REPOSITORY, Kind
from pastmaster.repository.sqlite import File
from pastmaster.shield import Shield

Result = TypeVar("Result")
Work = Callable[[sa.Connection], Result]
RECONNECT_SECONDS = 60.0
AT_ONCE = 15  # transactions of one process; more threads wait for their turn


class Database:
    """A database, opened, with the newest schema of its kind."""

    def __init__(self, url_or_path: Any, *, create: bool, kind: Kind = REPOSITORY) -> None:
        url = location.parse(url_or_path)
        self.kind = kind
        self.backend: File | Server = (
            File(url.database or "", create, kind) if url.drivername == "sqlite" else Server(url, kind)
        )
        self.place = self.backend.place
        self._turns, self._process = _turns(), os.getpid()
        try:
            if isinstance(self.backend, File):
                self._once(False, self.backend.check_schema)
            if self._once(False, self._revision) != kind.revision:
                self._once(True, lambda connection: self._upgrade(connection, create))
            if isinstance(self.backend, File):
                self.backend.set_log()
        except (sa.exc.DBAPIError, sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            sentence = self.translated(error)
            raise type(sentence)(f"{kind.caller}: {sentence}") from None
        except PastmasterError as error:
            self.close()
            raise type(error)(f"{kind.caller}: {error}") from error.__cause__

    def _revision(self, connection: sa.Connection) -> str | None:
        """The schema it has, None if it has none."""
        table = self.kind.version_table
        if not sa.inspect(connection).has_table(table):
            return None
        found: str | None = connection.execute(sa.text(f"SELECT version_num FROM {table}")).scalar()
        return found

    def _upgrade(self, connection: sa.Connection, create: bool) -> None:
        """Bring the schema up to date inside the open transaction; refuse what is newer, or is not ours."""
        revision = self._revision(connection)  # anew: another process may have been faster
        if revision is None:
            if sa.inspect(connection).get_table_names():
                raise RepositoryError(f"{self.place} is not {self.kind.what}: it holds the tables of something else")
            if not create:
                raise RepositoryError(f"{self.place} holds no repository: `pastmaster repo init` makes one")
            self.backend.make_ready(connection)
        migrate(connection, self.place, self.kind, revision)

    @property
    def is_sqlite(self) -> bool:
        return isinstance(self.backend, File)

    def read(self, work: Work[Result]) -> Result:
        """``work(connection)`` on one consistent snapshot, which is on the disk when this returns."""
        return self._persistently(False, work)

    def write(self, work: Work[Result]) -> Result:
        """``work(connection)`` as the only writer: all of it is committed, or nothing."""
        return self._persistently(True, work)

    def close(self) -> None:
        """Close the connections."""
        self.backend.close()

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

    def _persistently(self, writes: bool, work: Work[Result]) -> Result:
        """Run ``work``, and again while the server is away; work that was committed is not repeated."""
        deadline, pause = 0.0, 0.05
        sent: list[tuple[str, Result]] = []  # receipts of commits that were asked for, with what the work returned
        while True:
            try:
                if sent and self._committed(sent[-1][0]):
                    return sent[-1][1]
                return self._once(writes, work, sent)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self.translated(error) from None
            except sa.exc.DBAPIError as error:
                if self.is_sqlite or not is_away(error) or time.monotonic() > (deadline or _soon()):
                    raise self.translated(error) from None
            deadline = deadline or _soon()
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def _committed(self, receipt: str) -> bool:
        """Whether a transaction whose acknowledgement was lost was committed."""
        server = self.backend
        return isinstance(server, Server) and self._once(True, lambda c: server.has_receipt(c, receipt))

    def _once(self, writes: bool, work: Work[Result], sent: list[tuple[str, Result]] | None = None) -> Result:
        """One transaction. Ctrl-C strikes while the work is done and while we wait, and nowhere else."""
        backend, turns = self.backend, self._own_turns()
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
                        backend.begin(connection, writes, shield)
                        result: Result = shield.run(self._work, connection, work, writes, sent)
                        backend.commit(connection, writes, shield)
                        return result
                    except BaseException:
                        backend.abandon(connection)
                        if handle is not None:
                            handle.close()  # Ctrl-C may have struck where SQLAlchemy was about to
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


def migrate(connection: sa.Connection, place: str, kind: Kind, revision: str | None) -> None:
    """Run the migrations inside the open transaction."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, kind.migrations)).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = kind.version_table
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise RepositoryError(
            f"{place} was written by a newer pastmaster (schema {revision}, this one knows up to {kind.revision}): "
            "install that version to use it; nothing was changed"
        )
    try:
        command.upgrade(config, "head")
    except sa.exc.DBAPIError:
        raise
    except Exception as error:
        raise RepositoryError(
            f"{place} could not be brought from schema {revision} to {kind.revision}, it stays as it was: {error!r}"
        ) from error
