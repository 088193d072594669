"""The live page's events: the states of all tasks, every second, to a limited number who watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from pastmaster.errors import PastmasterError
from pastmaster.repository.database import Database
from pastmaster.service import store
from pastmaster.service.app import Receive, log
from pastmaster.service.engine import Engine
from pastmaster.service.operations import Refused, away
from pastmaster.service.state import Describe

if TYPE_CHECKING:
    from pastmaster.service.answers import DamagedTask, LiveFailure, LiveTasks, TaskState

SECONDS = 1.0
MOST_WATCHERS = 100


class Live:
    """Makes the events, once a second for all who watch."""

    def __init__(self, database: Database, engine: Engine) -> None:
        self.database, self.engine = database, engine
        self.watchers = 0
        self.stopping: Callable[[], bool] = lambda: False
        self._latest: tuple[float, bytes] = (-1e9, b"")

    def watch(self, admit: Callable[[], object], receive: Receive) -> AsyncIterator[bytes]:
        """An event a second, until whoever watches goes or is not admitted any more; ``Refused`` if too many watch."""
        if self.watchers >= MOST_WATCHERS:
            raise Refused(429, "too_many_watchers", f"serve: {MOST_WATCHERS} are watching, try again later")
        self.watchers += 1
        return self._events(admit, asyncio.ensure_future(_gone(receive)))

    async def _events(self, admit: Callable[[], object], gone: asyncio.Future[None]) -> AsyncIterator[bytes]:
        try:
            while not (self.stopping() or gone.done()):
                try:
                    admit()
                    event = await self.event()
                except Refused as refused:
                    if refused.status != 503:  # revoked
                        return
                    event = _event({"error": str(refused)})
                yield event
                await asyncio.wait([gone], timeout=SECONDS)
        finally:
            gone.cancel()
            self.watchers -= 1

    async def event(self) -> bytes:
        """The latest."""
        now = asyncio.get_running_loop().time()
        if now - self._latest[0] >= SECONDS:
            self._latest = now, self._latest[1]  # whoever else comes now gets the one before
            try:
                body: LiveTasks | LiveFailure = {"tasks": await self._states()}
            except PastmasterError as error:
                log.error("failed", extra={"fields": {"path": "/v1/live", "error": str(error)}})
                body = {"error": str(away())}
            self._latest = now, _event(body)
        return self._latest[1]

    async def _states(self) -> list[TaskState | DamagedTask]:
        """The states of all tasks; of one that is damaged its name and what is wrong with it."""
        found: list[TaskState | DamagedTask] = []
        for name in await asyncio.to_thread(self.database.read, store.task_names):
            try:
                found.append(await self.engine.do(Describe(name)))
            except Refused as refused:
                if refused.status == 503:
                    raise
                if refused.status != 404:  # it was removed just now
                    found.append({"name": name, "error": str(refused)})
        return found


async def _gone(receive: Receive) -> None:
    """Wait until whoever sent a request has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(body: LiveTasks | LiveFailure) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()
