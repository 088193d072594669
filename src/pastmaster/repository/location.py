"""Where a repository is: a file for SQLite, a URL for a server; and an engine for it."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from pastmaster import tables
from pastmaster.errors import InvalidInputError, RepositoryError

BUSY_SECONDS = 60
CONNECT_SECONDS = 10
PATIENCE = {  # with a server that does not answer, or a host that vanished
    "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5,
    "keepalives_count": 3, "tcp_user_timeout": 30_000,
}  # fmt: skip
SERVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def parse(url_or_path: Any) -> sa.URL:
    """The address of a database, from a path or a URL."""
    if not isinstance(url_or_path, str | os.PathLike) or not os.fspath(url_or_path):
        raise InvalidInputError(
            f"Repository: url_or_path is {tables.shown(url_or_path)}, must be a path, or a URL of PostgreSQL"
        )
    text = os.fspath(url_or_path)
    if "://" not in text:
        return sa.URL.create("sqlite", database=text)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidInputError("Repository: the URL cannot be read, must be postgresql://user@host/name") from None
    url = url.set(drivername=SERVERS.get(url.drivername, url.drivername))
    if url.drivername not in ("sqlite", *SERVERS.values()):
        raise InvalidInputError(
            f"Repository: the URL is for {url.drivername}, must begin with postgresql:// (or be a path: SQLite)"
        )
    return url


def shown(url: sa.URL) -> str:
    """The address without a password."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)


def check_path(url: sa.URL, create: bool) -> None:
    """Refuse a path at which no SQLite file is or can be."""
    if not url.database or url.database == ":memory:":
        raise InvalidInputError(f"Repository: {url.database or 'the path'} is no file, must be one: it is what lasts")
    path = Path(url.database)
    try:
        if path.is_dir():
            raise RepositoryError(f"Repository: {path} is a directory, must be a file")
        if not path.exists() and not create:
            raise RepositoryError(
                f"Repository: there is no repository at {path}: check the path, or make one: "
                f"`pastmaster repo add {path}` with tasks, or `pastmaster repo init {path}` without any"
            )
        if not path.parent.is_dir():
            raise RepositoryError(f"Repository: {path} cannot be made: there is no folder {path.parent}")
    except (OSError, ValueError) as error:
        raise RepositoryError(f"Repository: {str(path)[:80]!r} is no path for a repository: {error}") from None


def engine(url: sa.URL) -> sa.Engine:
    """An engine that begins transactions where the library begins them, on either database."""
    if url.drivername == "sqlite":
        url = _as_it_can_be_opened(url)
        made = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})
        event.listen(made, "connect", _prepare_sqlite)
        event.listen(made, "begin", _begin_sqlite)
        return made
    try:
        return sa.create_engine(url, pool_pre_ping=True, connect_args=PATIENCE | {"connect_timeout": CONNECT_SECONDS})
    except ImportError as error:
        raise InvalidInputError(
            f"Repository: PostgreSQL needs psycopg ({error}): pip install 'psycopg[binary]'"
        ) from None


def _as_it_can_be_opened(url: sa.URL) -> sa.URL:
    """A file that nobody may write, or one in a folder that we may not, is opened for reading only and leaves nothing.

    Not while someone is writing there: what he wrote last is in his log.
    """
    path = Path(str(url.database))
    if not path.exists() or any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal")):
        return url
    if os.access(path.parent, os.W_OK) and path.stat().st_mode & 0o222:
        return url
    return url.set(database=path.absolute().as_uri(), query={"mode": "ro", "immutable": "1", "uri": "true"})


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    """Every commit on the disk before it is acknowledged, references checked."""
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def use_log(engine: sa.Engine) -> None:
    """Turn the write-ahead log on; SQLite does not wait here for another process that does the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    with engine.connect() as connection:
        cursor = connection.connection.cursor()
        while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                cursor.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if "readonly" in str(error):
                    break
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    """A writer takes its lock at once, so that it cannot fail half-way because another was first."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
