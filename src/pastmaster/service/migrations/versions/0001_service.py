"""The first tables of the service: tasks, their states, episodes, tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables and the indexes that the service looks things up by."""
    op.create_table(
        "service_tasks",
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("clock", sa.Double, nullable=False),
        sa.Column("chain", sa.String(16), nullable=False),
    )
    op.create_table(
        "service_states",
        _of_task(),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
    )
    op.create_table("service_pending", _of_task(), _number(), sa.Column("entry", sa.Text, nullable=False))
    episodes = op.create_table(
        "service_episodes",
        _of_task(),
        _number(),
        sa.Column("arm", sa.Integer, nullable=False),
        sa.Column("deadline", sa.Double, nullable=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("closed", sa.BigInteger),
        sa.Column("outcome", sa.SmallInteger, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("key", sa.String(100)),
        sqlite_with_rowid=False,
    )
    # Of keys given an index that begins with the task, SQLite took the primary key, and read all episodes of the task.
    for name, columns, wanted in (
        ("closed", ["task_id", "closed"], episodes.c.closed.is_not(None)),
        ("deadline", ["task_id", "deadline"], episodes.c.closed.is_(None)),
        ("key", ["key"], episodes.c.key.is_not(None)),
    ):
        op.create_index(
            f"service_episodes_{name}",
            "service_episodes",
            columns,
            sqlite_where=wanted,
            postgresql_where=wanted,
        )
    op.create_table(
        "service_tokens",
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False),
    )


def _of_task() -> sa.Column[int]:
    return sa.Column("task_id", ID, sa.ForeignKey("service_tasks.id"), primary_key=True, autoincrement=False)


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False)
