"""A task's row holds the digest of its last event; keys are looked up by an index that begins with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of tasks that are there already it is not known before their next event.

    Given an index that begins with the task, SQLite took the primary key, and read all episodes of the task.
    """
    op.add_column("service_tasks", sa.Column("chain", sa.String(16), nullable=True))
    op.drop_index("service_episodes_key", "service_episodes")
    wanted = sa.text('"key" IS NOT NULL')
    op.create_index(
        "service_episodes_key", "service_episodes", ["key"], sqlite_where=wanted, postgresql_where=wanted
    )  # fmt: skip
