"""The tables of the service, beside those of the repository in the same database.

An episode is one row. Every ask and every close (told, cancelled or expired) is an *event* of its task, numbered from 1
on: the row has the numbers of both. So the rows tell the order of all calls. A task's *state* is its selector as it was
after so many events; the rows say what happened since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import sqlalchemy as sa

from pastmaster.errors import RepositoryError
from pastmaster.repository.database import Database, migrate
from pastmaster.repository.schema import ID, Bytes

REVISION = "0001"
VERSION_TABLE = "pastmaster_service_version"
MIGRATIONS = [Path(__file__).parent / "migrations" / "versions"]
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


TURN = 7245312
"""The turn of whoever makes or removes tasks and tokens: they neither wait for writers of policies, who may compute for
long in a transaction, nor may stand still for as long as these."""


def prepare(database: Database) -> None:
    """Make the tables of the service where there are none, and bring them up to date."""
    if database.read(_revision) == REVISION:
        return

    def upgrade(connection: sa.Connection) -> None:
        migrate(connection, database.place, MIGRATIONS, VERSION_TABLE, _revision(connection), REVISION)

    try:
        database.write(upgrade)
    except RepositoryError as error:
        raise RepositoryError(f"serve: {error}") from error.__cause__


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return found
