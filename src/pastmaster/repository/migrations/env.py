"""How Alembic runs the migrations: on the connection it is handed, inside the transaction that is open there."""

from __future__ import annotations

from alembic import context

given = context.config.attributes
context.configure(connection=given["connection"], version_table=given["version_table"])
with context.begin_transaction():
    context.run_migrations()
