"""What every request passes before anything else sees it: its size, its sender, its rate; and how every answer leaves.

Whatever goes wrong is answered in one form, ``{"error": {"code": ..., "message": ...}}``, never with a traceback.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from pastmaster.errors import PastmasterError
from pastmaster.service.body import Body, Gone, Receive
from pastmaster.service.metrics import Metrics
from pastmaster.service.operations import Refused, away
from pastmaster.service.tokens import Keys, allows

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Misdirected = Callable[[str, str], Refused | None]
"""Of a method and a path: the error if the path is known and the method is not one of its own, else None."""

KEYS_SECONDS = 3.0  # for the tokens to be read
AGAIN_SECONDS = 1.0  # after they could not be
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via")
"""What a proxy adds: who sent such a request is somewhere else."""
HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]+))(?::\d*)?")
OPEN_PATHS = ("/healthz", "/", "/page.js", "/page.css")
"""What needs no token: it tells nothing of tasks."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
log = logging.getLogger("pastmaster.service")


def needed_role(method: str, path: str) -> str | None:
    """The role that a request needs, None if it needs no token. What is not named here needs the highest."""
    if method in ("GET", "HEAD"):
        return None if path in OPEN_PATHS else "read"
    parts = path.strip("/").split("/")
    decides = parts[:2] == ["v1", "tasks"] and len(parts) >= 4 and parts[3] in ("episodes", "returns")
    return "decide" if method == "POST" and decides else "admin"


@dataclass
class Rates:
    """So many requests a second for each sender, and at most twice as many at once, but always one."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def allow(self, sender: str) -> bool:
        """Whether one more request is within the rate."""
        now, most = self.clock(), max(1.0, 2.0 * self.per_second)
        left, then = self._left.pop(sender, (most, now))
        left = min(most, left + (now - then) * self.per_second)
        self._left[sender] = (left - 1.0 if left >= 1.0 else left), now
        if len(self._left) > 10_000:
            self._left.popitem(last=False)
        return left >= 1.0


class Gate:
    """The outermost layer of the service."""

    def __init__(
        self, app: App, keys: Keys, rates: Rates, metrics: Metrics, misdirected: Misdirected, *,
        log_requests: bool = False,
    ) -> None:  # fmt: skip
        self.app, self.keys, self.rates, self.metrics, self.log_requests = app, keys, rates, metrics, log_requests
        self.misdirected = misdirected
        self._reading: asyncio.Future[None] | None = None  # the tokens, while they are read
        self._began = self._again_at = -1e9  # when this began, and when it may begin again

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        began, status = time.perf_counter(), [0]
        scope["pastmaster"] = "?"  # who sent it

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        headers = dict(scope["headers"])  # of one that is there twice, the last
        body = Body(scope["method"], headers, receive)
        try:
            await self._admit(scope, headers)
            if not self.rates.allow(scope["pastmaster"]):
                words = f"serve: more than {self.rates.per_second:g} requests a second, try again later"
                raise Refused(429, "rate", words)
            scope["still_admitted"] = lambda: self._admit(scope, headers)
            raw = await self._read(scope, body)
            await self.app(scope, _replayed(raw, receive), sending)
        except Gone:
            return
        except Refused as refused:
            if not status[0]:
                await refuse(refused, sending, last=not await body.skip())
        except Exception as error:  # of whatever kind: people get a sentence, the log gets the rest
            log.error("failed", exc_info=error, extra={"fields": {"path": scope["path"]}})
            if not status[0]:
                fault = Refused(500, "fault", "serve: this is a fault of the service")
                await refuse(away() if isinstance(error, PastmasterError) else fault, sending)
        seconds = time.perf_counter() - began
        self.metrics.request(scope["method"], status[0], seconds)
        if self.log_requests:
            fields = {
                "method": scope["method"],
                "path": scope["path"],
                "status": status[0],
                "from": scope["pastmaster"],
            }
            log.info("request", extra={"fields": fields | {"ms": round(1e3 * seconds, 2)}})

    async def _read(self, scope: Scope, body: Body) -> bytes:
        """The body of a request that its sender may make. Of a method that a path does not have, no body is right."""
        try:
            return await body.read()
        except Refused as refused:
            raise self.misdirected(scope["method"], scope["path"]) or refused from None

    async def _refresh(self, *, wait: bool) -> None:
        """Have the tokens read again, once for all who wait, and not for long; ``Refused`` if they do not come.

        Where the database is away, the reading goes on until it is back, and nobody waits for it any more.
        """
        now = asyncio.get_running_loop().time()
        if self._reading is None and now >= self._again_at:
            self._reading, self._began = asyncio.ensure_future(asyncio.to_thread(self.keys.refresh)), now
            self._reading.add_done_callback(self._was_read)
        if not wait:
            return
        reading, left = self._reading, self._began + KEYS_SECONDS - now
        if reading is not None and left > 0.0:
            await asyncio.wait([reading], timeout=left)
        if reading is None or not reading.done() or reading.exception() is not None:
            raise away()

    def _was_read(self, reading: asyncio.Future[None]) -> None:
        self._reading = None
        if not reading.cancelled() and (error := reading.exception()) is not None:
            self._again_at = reading.get_loop().time() + AGAIN_SECONDS
            log.error("failed", exc_info=error, extra={"fields": {"reading": "tokens"}})

    async def _admit(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Note in the scope who sent a request, a token's name or an address; ``Refused`` if nobody who may."""
        needed = needed_role(scope["method"], scope["path"])
        if self.keys.stale:
            await self._refresh(wait=needed is not None or not self.keys.were_read)
        client = (scope.get("client") or ("127.0.0.1", 0))[0]
        if not self.keys.any:
            _check_local(scope, headers, client)
        scope["pastmaster"] = client
        if self.keys.any and needed is not None:
            kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            found = self.keys.found(secret.strip()) if kind.lower() == "bearer" else None
            if found is None:
                raise Refused(
                    401,
                    "no_token",
                    "serve: the token is missing, unknown or revoked, must be sent as `Authorization: Bearer TOKEN`",
                )
            scope["pastmaster"], role = found
            if not allows(role, needed):
                refused = Refused(
                    403, "role", f"serve: the token {scope['pastmaster']} is for {role}, must be for {needed}"
                )
                raise self.misdirected(scope["method"], scope["path"]) or refused  # what nobody may do needs no role


def _check_local(scope: Scope, headers: Mapping[bytes, bytes], client: str) -> None:
    """Refuse what another computer or a page elsewhere may have sent: no token tells who it was."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    named = HOST.fullmatch(host)
    if named is None or not is_loopback(named[1] or named[2]) or not is_loopback(client):
        raise Refused(403, "loopback_only", "serve: there are no tokens, so only this computer is served")
    if any(name in headers for name in FORWARDED):
        raise Refused(
            403, "forwarded",
            "serve: there are no tokens, so what a proxy passes on is refused: `pastmaster token add` makes one",
        )  # fmt: skip
    if needed_role(scope["method"], scope["path"]) is None:
        return  # the page may be opened by a link of another site
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


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body that was read, then whatever comes."""
    sent = False

    async def next_message() -> MutableMapping[str, Any]:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def refuse(refused: Refused, send: Send, *, last: bool = False) -> None:
    """Answer with an error; ``last``: then close the connection."""
    body = json.dumps({"error": refused.shown()}).encode()
    named = {"content-type": "application/json", "content-length": str(len(body))} | refused.headers
    if last:
        named["connection"] = "close"
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
