"""The rule by which policies are stored: a record to each time it was settled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the table; no record: every policy is stored."""
    op.create_table(
        "admissions",
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        sa.Column("max_loss", sa.Double),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
    )
    sequences = sa.table("sequences", sa.column("name", sa.String), sa.column("last", sa.BigInteger))
    op.bulk_insert(sequences, [{"name": "admissions", "last": 0}])
