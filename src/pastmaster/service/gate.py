"""What every request passes before anything else sees it: its size, its sender, its rate; and how every answer leaves.

Whatever goes wrong is answered in one form, ``{"error": {"code": ..., "message": ...}}``, never with a traceback.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from pastmaster.errors import PastmasterError
from pastmaster.service.metrics import Metrics
from pastmaster.service.operations import Refused
from pastmaster.service.tokens import Keys, allows

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 2**20  # bytes
BODY_SECONDS = 10.0  # for the whole body to come
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
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
    """So many requests a second for each sender, and at most twice as many at once."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def allow(self, sender: str) -> bool:
        """Whether one more request is within the rate."""
        now, most = self.clock(), 2.0 * self.per_second
        left, then = self._left.pop(sender, (most, now))
        left = min(most, left + (now - then) * self.per_second)
        self._left[sender] = (left - 1.0 if left >= 1.0 else left), now
        if len(self._left) > 10_000:
            self._left.popitem(last=False)
        return left >= 1.0


class Gate:
    """The outermost layer of the service."""

    def __init__(self, app: App, keys: Keys, rates: Rates, metrics: Metrics, *, log_requests: bool = False) -> None:
        self.app, self.keys, self.rates, self.metrics, self.log_requests = app, keys, rates, metrics, log_requests
        self._refreshing = asyncio.Lock()

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

        try:
            headers = dict(scope["headers"])  # of one that is there twice, the last
            await self._admit(scope, headers)
            body = await _body(scope["method"], headers, receive)
            await self.app(scope, _replayed(body, receive), sending)
        except Refused as refused:
            if not status[0]:
                await refuse(refused, sending)
        except Exception as error:  # of whatever kind: people get a sentence, the log gets the rest
            log.error("failed", exc_info=error, extra={"fields": {"path": scope["path"]}})
            if not status[0]:
                away = isinstance(error, PastmasterError)
                words = "serve: the database does not answer" if away else "serve: this is a fault of the service"
                await refuse(Refused(503 if away else 500, "unavailable" if away else "fault", words), sending)
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

    async def _admit(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Note in the scope who sent a request, a token's name or an address; ``Refused`` if nobody who may."""
        needed = needed_role(scope["method"], scope["path"])
        if self.keys.stale:
            async with self._refreshing:  # one of all who wait reads them
                if self.keys.stale:
                    await asyncio.to_thread(self.keys.refresh)
        client = (scope.get("client") or ("127.0.0.1", 0))[0]
        if not self.keys.any:
            host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
            if host not in LOOPBACK or client not in LOOPBACK:  # a page elsewhere may have led a browser here
                raise Refused(403, "loopback_only", "serve: there are no tokens, so only this computer is served")
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
                raise Refused(
                    403, "role", f"serve: the token {scope['pastmaster']} is for {role}, must be for {needed}"
                )
        if not self.rates.allow(scope["pastmaster"]):
            raise Refused(429, "rate", f"serve: more than {self.rates.per_second:g} requests a second, try again later")


async def _body(method: str, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """The whole body of a request, which is JSON and not too large."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > LARGEST_BODY:
        raise Refused(413, "too_large", f"serve: the body is larger than {LARGEST_BODY:,} bytes, must be smaller")
    body, more = b"", method not in ("GET", "HEAD")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False) and message["type"] == "http.request"
                if len(body) > LARGEST_BODY:
                    raise Refused(413, "too_large", f"serve: the body is larger than {LARGEST_BODY:,} bytes")
    except TimeoutError:
        raise Refused(408, "slow", f"serve: the body took more than {BODY_SECONDS:g} seconds") from None
    if body and headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
        raise Refused(415, "not_json", "serve: the content type must be application/json")
    return body


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


async def refuse(refused: Refused, send: Send) -> None:
    """Answer with an error."""
    body = json.dumps({"error": refused.shown()}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status in (429, 503):
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
