"""The first schema: records of six kinds, their arrays, the ids given out, the repository's identity."""

from __future__ import annotations

import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op

from pastmaster.repository.schema import signed

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
RECORDS = ("policies", "tasks", "streams", "runs", "clusterings", "admissions")


def upgrade() -> None:
    """Make the tables, and a sequence for each kind of record."""
    _records("policies", _text("digest", 64), _text("provenance", 16))
    _records(
        "tasks",
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        _reference("own_policy", "policies", nullable=False),
        _reference("policy_of_record", "policies", nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("value_error", sa.Double, nullable=False),
        sa.Column("lower", sa.Double),
        sa.Column("upper", sa.Double),
    )
    _records("streams", sa.Column("name", sa.String(200), nullable=False, unique=True))
    for table, references in (("runs", ["task_id", "stream_id"]), ("clusterings", ["stream_id"])):
        _records(
            table,
            *(_reference(name, f"{name.removesuffix('_id')}s") for name in references),
            sa.Column("position", sa.BigInteger),
            sa.UniqueConstraint("stream_id", "position"),
        )
    _records("admissions", sa.Column("max_loss", sa.Double))
    op.create_table(
        "arrays",
        sa.Column("owner", sa.String(16), primary_key=True),
        sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        _text("sha256", 64),
    )
    sequences = op.create_table(
        "sequences",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(sequences, [{"name": name, "last": 0} for name in RECORDS])
    identity = op.create_table("identity", sa.Column("id", sa.String(32), primary_key=True), sqlite_with_rowid=False)
    op.bulk_insert(identity, [{"id": signed(secrets.token_hex(8))}])


def _records(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> None:
    op.create_table(
        name,
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        *columns,
        sa.Column("settings", sa.Text, nullable=False),
        _text("checksum", 64),
    )


def _text(name: str, length: int) -> sa.Column[Any]:
    return sa.Column(name, sa.String(length), nullable=False)


def _reference(name: str, to: str, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, ID, sa.ForeignKey(f"{to}.id"), nullable=nullable, index=True)
