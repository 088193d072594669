"""Who may send a request: a token's name and role, this computer alone where there are no tokens, and how often."""

from __future__ import annotations

import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pastmaster.service.operations import Refused, away
from pastmaster.service.tokens import Keys, allows

Headers = Mapping[bytes, bytes]

FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via")
"""What a proxy adds: who sent such a request is somewhere else."""
HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]+))(?::\d*)?")


@dataclass
class Rates:
    """So many requests a second for each sender, and at most twice as many at once, but always one."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def check(self, sender: str) -> None:
        """Count one more request; ``Refused`` if it is beyond the rate."""
        now, most = self.clock(), max(1.0, 2.0 * self.per_second)
        left, then = self._left.pop(sender, (most, now))
        left = min(most, left + (now - then) * self.per_second)
        allowed = left >= 1.0
        self._left[sender] = (left - 1.0 if allowed else left), now
        if len(self._left) > 10_000:
            self._left.popitem(last=False)
        if not allowed:
            raise Refused(429, "rate", f"serve: more than {self.per_second:g} requests a second, try again later")


class Gate:
    """Lets requests in."""

    def __init__(self, keys: Keys, rates: Rates) -> None:
        self.keys, self.rates = keys, rates

    def admit(self, scope: Any, headers: Headers, role: str | None) -> str:
        """The sender of a request that needs a role, a token's name or an address; ``Refused`` if it may not."""
        client: str = (scope.get("client") or ("127.0.0.1", 0))[0]
        if role is not None and self.keys.lost:
            raise away()
        if not self.keys.any:
            _check_local(scope, headers, client, may_be_linked=role is None)
            return client
        if role is None:
            return client
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = self.keys.found(secret.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise Refused(
                401,
                "no_token",
                "serve: the token is missing, unknown or revoked, must be sent as `Authorization: Bearer TOKEN`",
            )
        name, its_role = found
        if not allows(its_role, role):
            raise Refused(403, "role", f"serve: the token {name} is for {its_role}, must be for {role}")
        return name


def _check_local(scope: Any, headers: Headers, client: str, *, may_be_linked: bool) -> None:
    """Refuse what another computer or a page elsewhere may have sent: no token tells who it was."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    named = HOST.fullmatch(host)
    if named is None or not is_loopback(named[1] or named[2]) or not is_loopback(client):
        raise Refused(403, "loopback_only", "serve: there are no tokens, so only this computer is served")
    if any(name in headers for name in FORWARDED):
        raise Refused(
            403,
            "forwarded",
            "serve: there are no tokens, so what a proxy passes on is refused: `pastmaster token add` makes one",
        )
    if may_be_linked:  # a link of another site may lead to the page, which tells nothing
        return
    own = f"{scope['scheme']}://{host}".encode("latin-1")
    elsewhere = headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none")
    if elsewhere or headers.get(b"origin", own).lower() != own:
        raise Refused(403, "other_site", "serve: there are no tokens, so what a page of another site sends is refused")


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach a host of this name."""
    if host in ("127.0.0.1", "localhost", "::1"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
