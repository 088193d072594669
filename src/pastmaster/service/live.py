"""The live page's events: the states of all tasks, every second, to a limited number who watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from pastmaster.errors import PastmasterError
from pastmaster.repository.database import Database
from pastmaster.service import store
from pastmaster.service.body import Receive
from pastmaster.service.engine import Engine
from pastmaster.service.gate import Scope, Send, log
from pastmaster.service.operations import Refused, away
from pastmaster.service.state import Describe

SECONDS = 1.0
MOST_WATCHERS = 100


class Live:
    """Makes the events, once a second for all who watch."""

    def __init__(self, database: Database, engine: Engine) -> None:
        self.database, self.engine = database, engine
        self.watchers, self.stopping = 0, False
        self._latest: tuple[float, bytes] = (-1e9, b"")

    async def states(self) -> list[Any]:
        """The states of all tasks; of one that is damaged its name and what is wrong with it."""
        found = []
        for name in await asyncio.to_thread(self.database.read, store.task_names):
            try:
                found.append(await self.engine.do(Describe(name)))
            except Refused as refused:
                if refused.status == 503:
                    raise
                if refused.status != 404:  # it was removed just now
                    found.append({"name": name, "error": str(refused)})
        return found

    async def event(self) -> bytes:
        """The latest."""
        now = asyncio.get_running_loop().time()
        if now - self._latest[0] >= SECONDS:
            self._latest = now, self._latest[1]
            try:
                body: dict[str, Any] = {"tasks": await self.states()}
            except PastmasterError as error:
                log.error("failed", extra={"fields": {"path": "/v1/live", "error": str(error)}})
                body = {"error": str(away())}
            self._latest = now, _event(body)
        return self._latest[1]

    async def events(self, request: Request) -> AsyncIterator[bytes]:
        """One a second, until whoever watches goes or may not watch any more."""
        still_admitted: Callable[[], Awaitable[None]] = request.scope["still_admitted"]
        while not self.stopping and not await request.is_disconnected():
            try:
                await still_admitted()
                event = await self.event()
            except Refused as refused:
                if refused.status != 503:  # revoked
                    return
                event = _event({"error": str(refused)})
            yield event
            await asyncio.sleep(SECONDS)


class Watched(StreamingResponse):
    """The answer to one who watches; ``Refused`` if there are too many."""

    def __init__(self, live: Live, request: Request) -> None:
        super().__init__(
            live.events(request), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )  # fmt: skip
        self.live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.live.watchers >= MOST_WATCHERS:
            raise Refused(429, "too_many_watchers", f"serve: {MOST_WATCHERS} are watching, try again later")
        self.live.watchers += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.live.watchers -= 1


def _event(body: Any) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()
