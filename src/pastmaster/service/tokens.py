"""Bearer tokens: who may read, decide or administer. A token is shown once; the database has its SHA-256 alone.

A token is 32 random bytes, so nobody finds one by trying, and a plain hash needs no salt.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from pastmaster.checks import called_as, chosen
from pastmaster.errors import InvalidInputError, PastmasterError
from pastmaster.repository import Repository
from pastmaster.repository.database import Database
from pastmaster.service.schema import opened, tokens
from pastmaster.service.tasks import checked_name

ROLES = ("read", "decide", "admin")
"""What a token allows, each with all before it."""
PREFIX = "pm_"  # so that scanners for leaked secrets can know one
SECONDS = 0.5  # from one reading of the tokens to the next
LOST_SECONDS = 10.0  # without a reading, after which nobody is let in
log = logging.getLogger("pastmaster.service")


@dataclass(frozen=True)
class Token:
    """A token as it is stored: without what it is."""

    name: str
    role: str
    revoked: bool


def add_token(repository: Repository, name: str, role: str) -> str:
    """Make a token; what is returned is stored nowhere.

    Parameters
    ----------
    repository : Repository
        What it lets others use.
    name : str
        What it is called, to revoke it.
    role : {"read", "decide", "admin"}
        What it allows: to look, to ask and tell too, to make and remove tasks too.
    """
    with called_as("add_token"):
        name, role = checked_name(name, "name"), chosen("add_token", "role", role, ROLES)
    secret = PREFIX + secrets.token_urlsafe(32)

    def work(connection: sa.Connection) -> None:
        if connection.execute(sa.select(tokens.c.name).where(tokens.c.name == name)).first() is not None:
            raise InvalidInputError(f"add_token: name is {name}, must be one that no token has or had")
        row = {"name": name, "role": role, "digest": _digest(secret), "revoked": False}
        connection.execute(sa.insert(tokens), row)

    with called_as("add_token"), opened(repository) as database:
        database.write(work)
    return secret


def revoke_token(repository: Repository, name: str) -> None:
    """Refuse the token of this name from now on, in every process within a second."""
    with called_as("revoke_token"):
        name = checked_name(name, "name")

    def work(connection: sa.Connection) -> None:
        if not connection.execute(sa.update(tokens).where(tokens.c.name == name).values(revoked=True)).rowcount:
            raise InvalidInputError(f"revoke_token: name is {name}, must be that of a token")

    with called_as("revoke_token"), opened(repository) as database:
        database.write(work)


def list_tokens(repository: Repository) -> list[Token]:
    """All tokens, also those revoked."""
    query = sa.select(tokens.c.name, tokens.c.role, tokens.c.revoked).order_by(tokens.c.name)
    with called_as("list_tokens"), opened(repository) as database:
        return database.read(lambda c: [Token(name, role, bool(revoked)) for name, role, revoked in c.execute(query)])


class Keys:
    """The tokens that are good now, read again and again on a thread of its own.

    Attributes
    ----------
    any : bool
        Whether there ever was one: then no request goes without.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self.database, self.clock = database, clock
        self.any = False
        self._known: dict[bytes, tuple[str, str]] = {}  # name and role by digest
        self.refresh()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pastmaster-tokens", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether they could not be read for so long that one may have been revoked."""
        return self.clock() - self._read_at > LOST_SECONDS

    def refresh(self) -> None:
        """Read them again."""
        query = sa.select(tokens.c.name, tokens.c.role, tokens.c.digest, tokens.c.revoked)
        began = self.clock()
        rows = self.database.read(lambda connection: connection.execute(query).all())
        self._known = {row.digest: (row.name, row.role) for row in rows if not row.revoked}
        self.any = self.any or bool(rows)
        self._read_at = began

    def found(self, secret: str) -> tuple[str, str] | None:
        """Name and role of a token that is good; None of any other. Timing tells nothing: its hash is looked up."""
        return self._known.get(_digest(secret))

    def close(self) -> None:
        """Read them no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(SECONDS):
            try:
                self.refresh()
            except PastmasterError as error:
                log.error("failed", exc_info=error, extra={"fields": {"reading": "tokens"}})


def allows(role: str, needed: str) -> bool:
    """Whether a role may do what needs another."""
    return ROLES.index(role) >= ROLES.index(needed)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
