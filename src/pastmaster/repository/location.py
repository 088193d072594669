"""Where a repository is: the path of a SQLite file, or the URL of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pastmaster.checks import file_path
from pastmaster.errors import InvalidInputError

BUSY_SECONDS = 60  # that a writer waits for its turn
SERVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def parse(url_or_path: Any) -> sa.URL:
    """The address of a database, from a path or a URL."""
    path = file_path("Repository", "url_or_path", url_or_path, "a path, or a URL of PostgreSQL")
    text = url_or_path if isinstance(url_or_path, str) else str(path)  # a path has "/" once where a URL has it twice
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


def beside(path: Path) -> Path:
    """The file in which the service keeps its tasks, of the repository in another one: ``shop.service.db``."""
    own = Path(os.path.realpath(path))
    return own.with_name(f"{own.stem}.service{own.suffix}")


def shown(url: sa.URL) -> str:
    """The address without a password."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)
