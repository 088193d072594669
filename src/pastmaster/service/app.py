"""The one way of every request: its route, its sender, its body, what is done, and the answer.

Whatever goes wrong is answered in one form, ``{"error": {"code": ..., "message": ...}}``, never with a traceback.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pastmaster.errors import InvalidInputError, PastmasterError
from pastmaster.service import bodies
from pastmaster.service.operations import Refused, away
from pastmaster.service.tasks import checked_name
from pastmaster.texts import printable

if TYPE_CHECKING:
    from pastmaster.service.api import Service

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST_BODY = 2**20  # bytes
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


class Gone(Exception):  # noqa: N818  no error of anybody's
    """Whoever sent a request has gone before its end: it is not carried out, and there is nobody to answer."""


@dataclass(slots=True)
class Request:
    """A request, as the function of its route gets it; ``body`` is read where the route has one."""

    scope: Scope
    receive: Receive
    headers: Mapping[bytes, bytes]  # of one that is there twice, the last
    named: Mapping[str, str] = field(default_factory=dict)  # the parts of its path
    sender: str = "?"
    body: Any = None

    @property
    def task(self) -> str:
        """The name of a task; ``Refused`` if no task can have it: a database may take offence at it."""
        name = self.named["task"]
        try:
            return checked_name(name, "task")
        except InvalidInputError:
            raise Refused(404, "no_task", "serve: there is no such task") from None

    @property
    def number(self) -> int:
        """The number of an episode."""
        text, largest = self.named["number"], bodies.LARGEST_NUMBER
        if text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= largest:
            return int(text)
        raise Refused(422, "invalid", f"request: path.number is wrong: it must be a whole number up to {largest}")


@dataclass(slots=True)
class Reply:
    """An answer that is more than JSON with status 200; a stream goes on until it ends or whoever reads it goes."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=lambda: {"cache-control": "no-store"})


def as_json(body: Any, status: int = 200) -> Reply:
    """JSON as it is sent."""
    return Reply(json.dumps(body).encode(), status)


@dataclass(frozen=True)
class Route:
    """A way in: who may use it, what it does, and for OpenAPI what it answers by status: a type, or a content type."""

    method: str
    path: str
    role: str | None
    run: Callable[[Any, Request], Awaitable[Any]]
    answers: Mapping[int, Any]
    body: type[bodies.Body] | None = None


class App:
    """The service as an ASGI application."""

    def __init__(self, routes: Iterable[Route], service: Service, *, log_requests: bool = False) -> None:
        self.service, self.log_requests = service, log_requests
        self._ways: dict[re.Pattern[str], dict[str, Route]] = {}
        for route in routes:
            pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path))
            self._ways.setdefault(pattern, {})[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope, receive, dict(scope["headers"]))
        try:
            reply = await self._reply(request)
        except Gone:
            return
        except Exception as error:  # of whatever kind: people get a sentence, the log gets the rest
            reply = _refusal(error, scope["path"])
        await _send(reply, send)
        seconds = time.perf_counter() - began
        self.service.metrics.request(scope["method"], reply.status, seconds)
        if self.log_requests:
            fields = {"method": scope["method"], "path": scope["path"], "status": reply.status, "from": request.sender}
            log.info("request", extra={"fields": fields | {"ms": round(1e3 * seconds, 2)}})

    async def _reply(self, request: Request) -> Reply:
        ways, request.named = self._find(request.scope["path"])
        route = ways.get(request.scope["method"])
        role = "read" if route is None else route.role
        request.sender = self.service.gate.admit(request.scope, request.headers, role)
        self.service.gate.rates.check(request.sender)
        if route is None:
            raise _misdirected(request.scope["method"], sorted(ways))
        raw = bytearray() if route.method == "GET" else await _read(request)
        if route.body is not None:
            request.body = bodies.read(route.body, raw)
        answer = await route.run(self.service, request)
        return answer if isinstance(answer, Reply) else as_json(answer)

    def _find(self, path: str) -> tuple[Mapping[str, Route], Mapping[str, str]]:
        """The routes of a path by method, and what it names."""
        for pattern, ways in self._ways.items():
            found = pattern.fullmatch(path)
            if found is not None:
                return ways, found.groupdict()
        return {}, {}


def _misdirected(method: str, allowed: list[str]) -> Refused:
    if not allowed:
        return Refused(404, "http", "request: there is nothing here")
    words = f"request: the method is {printable(method)[:20]}, must be {' or '.join(allowed)} here"
    return Refused(405, "method", words, allowed=allowed)


async def _read(request: Request) -> bytearray:
    """The body of a request. ``Refused`` if it is too large or no JSON; ``Gone`` if it breaks off."""
    length = request.headers.get(b"content-length", b"0")
    too_large = Refused(413, "too_large", f"serve: the body is larger than {LARGEST_BODY:,} bytes, must be smaller")
    if not length.isdigit() or int(length[:20]) > LARGEST_BODY:
        raise too_large
    body, more = bytearray(), True
    while more:
        message = await request.receive()
        if message["type"] != "http.request":
            raise Gone
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            raise too_large
    # A page of another site can make a browser send a form, but no JSON. What is empty needs no type.
    given = request.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if given != b"application/json" and (body or given):
        shown = printable(given.decode("latin-1"))[:100] or "missing"
        raise Refused(415, "not_json", f"serve: the content type is {shown}, must be application/json")
    return body


def _refusal(error: Exception, path: str) -> Reply:
    """The answer to a request that cannot be served."""
    if isinstance(error, InvalidInputError):  # each field is right by itself: ``bodies`` has seen to that
        error = Refused(409, "impossible", str(error))
    if not isinstance(error, Refused):
        log.error("failed", exc_info=error, extra={"fields": {"path": path}})
        fault = Refused(500, "fault", "serve: this is a fault of the service")
        error = away() if isinstance(error, PastmasterError) else fault
    reply = as_json({"error": error.shown()}, error.status)
    reply.headers = {**reply.headers, **error.headers}
    return reply


async def _send(reply: Reply, send: Send) -> None:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    headers += [(b"content-type", reply.kind.encode()), *HEADERS]
    body = b""
    if isinstance(reply.body, bytes):
        body = reply.body
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if not isinstance(reply.body, bytes):
        async for part in reply.body:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": body})
