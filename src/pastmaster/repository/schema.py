"""The tables of a repository.

A task has a policy of its own; its policy of record is the stored policy that is worth most in it. The value of a
policy in a task is stored with the one that came later: the task's *row* holds the values of the policies there were
when it was added, the policy's *column* its values in the tasks there were. So an addition writes one row and one
column, and rewrites none. Ids are never used twice.

Where a repository has a ``max_loss`` (the last record of *admissions*), a policy is stored only if its task would lose
more without it. Other tasks have the policy that serves them as their own; their rows hold its value among others.

Every row carries a checksum of its other columns, every array one of its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

REVISION = "0001"
"""The newest migration: what this version of the library reads and writes."""

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # in SQLite the row's own number, which needs no index
metadata = sa.MetaData()


@dataclass
class Kind:
    """What a database holds, and how it is kept."""

    what: str  # as errors call it
    caller: str  # what errors begin with
    tables: sa.MetaData
    revision: str  # the newest migration
    version_table: str  # of Alembic: not under the name that every other program uses
    migrations: list[Path]  # folders
    lock: int  # on a server: the number of the lock that a writer has
    idle: float  # there: seconds between two statements, after which a writer that stands still is given up
    schema: str | None = None  # there: where the tables are
    log: bool = False  # in a file: whether it has a write-ahead log


REPOSITORY = Kind(
    "a repository",
    "Repository",
    metadata,
    REVISION,
    "pastmaster_version",
    [Path(__file__).parent / "migrations" / "versions"],
    lock=7245311,
    idle=120.0,  # tasks are solved and valued between statements
)


class Bytes(sa.LargeBinary):
    """Bytes as they are stored; what a damaged file has in their place is left to be refused.

    Some versions of SQLAlchemy would make as many bytes of a number as it says.
    """

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return lambda value: bytes(value) if isinstance(value, memoryview | bytearray) else value


def _table(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> sa.Table:
    """A table of records: a number, columns, the other settings as JSON, a checksum."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        *columns,
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
    )


def _number(name: str, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=nullable)


def _reference(name: str, to: str, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, ID, sa.ForeignKey(f"{to}.id"), nullable=nullable, index=True)


policies = _table(
    "policies",
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("provenance", sa.String(16), nullable=False),
)
tasks = _table(
    "tasks",
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False),
    _reference("own_policy", "policies"),
    _reference("policy_of_record", "policies"),
    _number("value"),  # of the policy of record in the task
    _number("value_error"),  # its standard error, 0 where it is exact
    _number("lower", nullable=True),  # bounds on a return, where there is a model
    _number("upper", nullable=True),
)
streams = _table("streams", sa.Column("name", sa.String(200), nullable=False, unique=True))
runs = _table(
    "runs",
    _reference("task_id", "tasks", nullable=True),
    _reference("stream_id", "streams", nullable=True),
    sa.Column("position", sa.BigInteger, nullable=True),
    sa.UniqueConstraint("stream_id", "position"),
)
clusterings = _table(
    "clusterings",
    _reference("stream_id", "streams", nullable=True),
    sa.Column("position", sa.BigInteger, nullable=True),
    sa.UniqueConstraint("stream_id", "position"),
)
admissions = _table("admissions", _number("max_loss", nullable=True))
RECORDS = {table.name: table for table in (policies, tasks, streams, runs, clusterings, admissions)}
"""The tables of records, each after those it refers to."""

arrays = sa.Table(
    "arrays",
    metadata,
    sa.Column("owner", sa.String(16), primary_key=True),  # a table's name
    sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("data", Bytes, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
)
sequences = sa.Table(
    "sequences",
    metadata,
    sa.Column("name", sa.String(16), primary_key=True),  # a table's name
    sa.Column("last", sa.BigInteger, nullable=False),  # the last id given out
)

identity = sa.Table("identity", metadata, sa.Column("id", sa.String(32), primary_key=True), sqlite_with_rowid=False)
"""One row: a random text, ``signed``, by which others know the repository; its copies have the same."""


def signed(text: str) -> str:
    """A text with a checksum of its own."""
    return text + hashlib.sha256(text.encode()).hexdigest()[:16]


def row_checksum(table: str, row: Mapping[str, Any]) -> str:
    """SHA-256 of a row: its table and its columns but ``checksum``, by name."""
    columns = {name: row[name] for name in sorted(row) if name != "checksum"}
    return hashlib.sha256(json.dumps([table, columns]).encode()).hexdigest()
