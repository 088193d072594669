"""How Alembic runs the migrations: on the connection it is handed, inside the transaction that is open there."""

from __future__ import annotations

from alembic import context

from oldhand.repository.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
