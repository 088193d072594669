"""The first tables of the service. When they change, what they are now moves here from ``service.schema``."""

from __future__ import annotations

from alembic import op

from pastmaster.service.schema import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and the indexes that the service looks things up by."""
    metadata.create_all(op.get_bind())
