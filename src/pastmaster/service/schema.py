"""The database of the service: its tables, in a file or a schema of its own beside the repository.

It names policies by their content, and knows the repository by its identity.

An episode is one row. Every ask and every close (told, cancelled or expired) is an *event* of its task, numbered from 1
on: the row has the numbers of both. So the rows tell the order of all calls. A task's *state* is its selector as it was
after so many events; the rows say what happened since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, get_args

import sqlalchemy as sa

from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import Repository, location
from pastmaster.repository.database import Database
from pastmaster.repository.schema import ID, Bytes, Kind, identity
from pastmaster.repository.sqlite import File
from pastmaster.tables import shown

OPEN, TOLD, CANCELLED, EXPIRED = range(4)
"""What became of an episode."""
Outcome = Literal["open", "told", "cancelled", "expired"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
metadata = sa.MetaData()


def _of_task() -> sa.Column[int]:
    return sa.Column("task_id", ID, sa.ForeignKey("service_tasks.id"), primary_key=True, autoincrement=False)


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False)


tasks = sa.Table(
    "service_tasks",
    metadata,
    sa.Column("id", ID, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False, unique=True),
    sa.Column("settings", sa.Text, nullable=False),  # JSON
    sa.Column("events", sa.BigInteger, nullable=False),  # so many there were
    sa.Column("clock", sa.Double, nullable=False),  # seconds for which it was served
    sa.Column("chain", sa.String(16), nullable=False),  # the digest of the last event
)
states = sa.Table(
    "service_states",
    metadata,
    _of_task(),
    sa.Column("events", sa.BigInteger, nullable=False),  # after so many
    sa.Column("state", sa.Text, nullable=False),  # JSON
    sa.Column("checksum", sa.String(64), nullable=False),
)
pending = sa.Table(
    "service_pending",  # the selector's episodes in that state: open, or told and waiting for an earlier one
    metadata,
    _of_task(),
    _number(),
    sa.Column("entry", sa.Text, nullable=False),  # JSON
)
episodes = sa.Table(
    "service_episodes",
    metadata,
    _of_task(),
    _number(),
    sa.Column("arm", sa.Integer, nullable=False),
    sa.Column("deadline", sa.Double, nullable=False),  # by the task's clock
    sa.Column("asked", sa.BigInteger, nullable=False),  # the number of the event
    sa.Column("closed", sa.BigInteger, nullable=True),
    sa.Column("outcome", sa.SmallInteger, nullable=False),
    sa.Column("value", sa.Double, nullable=True),
    sa.Column("key", sa.String(100), nullable=True),  # of the request that asked
    sqlite_with_rowid=False,
)
# Of keys given an index that begins with the task, SQLite took the primary key, and read all episodes of the task.
for _name, _columns, _wanted in (
    ("closed", ["task_id", "closed"], episodes.c.closed.is_not(None)),
    ("deadline", ["task_id", "deadline"], episodes.c.closed.is_(None)),
    ("key", ["key"], episodes.c.key.is_not(None)),
):
    sa.Index(
        f"service_episodes_{_name}",
        *(episodes.c[column] for column in _columns),
        sqlite_where=_wanted,
        postgresql_where=_wanted,
    )
tokens = sa.Table(
    "service_tokens",
    metadata,
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("digest", Bytes, nullable=False),  # SHA-256
    sa.Column("revoked", sa.Boolean, nullable=False),
)


repository = sa.Table("service_repository", metadata, sa.Column("identity", sa.String(32), primary_key=True))
"""One row: the repository whose policies the tasks name."""

SERVICE = Kind(
    "the database of a service",
    "serve",
    metadata,
    "0001",
    "pastmaster_service_version",
    [Path(__file__).parent / "migrations" / "versions"],
    lock=7245312,
    idle=10.0,
    schema="pastmaster_service",
    log=True,
)


@contextmanager
def opened(given: Any) -> Iterator[Database]:
    """The service's own database: a file beside that of a repository, or a schema of the same server."""
    if not isinstance(given, Repository):
        raise InvalidInputError(f"serve: repository is {shown(given)}, must be a Repository")
    own = given.database.read(lambda connection: connection.execute(sa.select(identity.c.id)).scalar())
    file = given.database.backend
    if isinstance(file, File):
        place: Any = location.beside(file.path)
        with suppress(OSError):  # it is there, or cannot be made, as is then told
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file.mode()))
    else:
        place = file.engine.url.render_as_string(hide_password=False)
    with closing(Database(place, create=True, kind=SERVICE)) as database:
        known = database.read(_repository) or database.write(lambda connection: _belong(connection, own))
        if known != own:
            raise RepositoryError(
                f"serve: {database.place} belongs to another repository than {given.place}, must be its own: put that "
                "repository back, or take those tables away to begin anew"
            )
        yield database


def _repository(connection: sa.Connection) -> Any:
    return connection.execute(sa.select(repository.c.identity)).scalar()


def _belong(connection: sa.Connection, own: Any) -> Any:
    """Note the repository, unless another process has meanwhile."""
    if (known := _repository(connection)) is not None:
        return known
    connection.execute(sa.insert(repository).values(identity=own))
    return own
