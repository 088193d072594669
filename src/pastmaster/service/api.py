"""The table of routes, and what each does. ``app`` reads requests by this table, ``openapi`` describes it."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from functools import cache
from importlib import resources
from typing import Any

from pastmaster.repository import Repository
from pastmaster.service import answers, bodies, store
from pastmaster.service.app import Reply, Request, Route, as_json
from pastmaster.service.engine import Engine
from pastmaster.service.gate import Gate, Rates
from pastmaster.service.live import Live
from pastmaster.service.metrics import Metrics
from pastmaster.service.openapi import document
from pastmaster.service.operations import Ask, Cancel, Look, Refused, Tell, TellMany
from pastmaster.service.policies import policy_file
from pastmaster.service.schema import opened
from pastmaster.service.state import Describe
from pastmaster.service.tasks import make_task, remove_task
from pastmaster.service.tokens import Keys

PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


class Service:
    """All that the requests of one process share."""

    def __init__(self, repository: Repository, *, rate: float = 10_000.0, sweep: float = 1.0) -> None:
        self.repository, self.metrics = repository, Metrics()
        with ExitStack() as stack:
            database = stack.enter_context(opened(repository))
            self.engine = Engine(database, sweep=sweep, committed=self.metrics.commit)
            stack.callback(self.engine.close)
            self.gate = Gate(Keys(database), Rates(rate))
            stack.callback(self.gate.keys.close)
            self.live = Live(database, self.engine)
            self.close = stack.pop_all().close  # ends its threads


# Decisions


async def ask(service: Service, request: Request) -> Any:
    """Ask for the next episode, or for several: which arm is to run each."""
    body = request.body
    return await service.engine.do(Ask(request.task, body.count, body.key, body.lease))


async def tell(service: Service, request: Request) -> Any:
    """Tell the return of an episode. The same again is fine; another value is a conflict."""
    return await service.engine.do(Tell(request.task, request.number, request.body.value))


async def tell_many(service: Service, request: Request) -> Any:
    """Tell the returns of several episodes; each is answered on its own."""
    returns = [(item.episode, item.value) for item in request.body.returns]
    return await service.engine.do(TellMany(request.task, returns))


async def cancel(service: Service, request: Request) -> Any:
    """Forget an episode that will never be told. The same again is fine."""
    return await service.engine.do(Cancel(request.task, request.number))


async def look(service: Service, request: Request) -> Any:
    """Read what became of an episode."""
    return await service.engine.do(Look(request.task, request.number))


async def state(service: Service, request: Request) -> Any:
    """Read the state of a task: shares, means with intervals, what is proven, what is open."""
    return await service.engine.do(Describe(request.task))


# Tasks and policies


async def tasks(service: Service, request: Request) -> answers.TaskNames:
    """Read the names of all tasks."""
    return {"tasks": await asyncio.to_thread(service.live.database.read, store.task_names)}


async def make(service: Service, request: Request) -> Reply:
    """Make a task: its sources, its selector, its lease. The same again is fine; other settings are a conflict."""
    settings = request.body.model_dump()
    made = await asyncio.to_thread(make_task, service.repository, settings.pop("name"), **settings)
    return as_json(await service.engine.do(Describe(request.body.name)), 201 if made else 200)


async def remove(service: Service, request: Request) -> answers.Removed:
    """Remove a task with all its episodes."""
    name = request.task
    await asyncio.to_thread(remove_task, service.repository, name)
    return {"removed": name}


async def policies(service: Service, request: Request) -> answers.Policies:
    """Read which policies are stored."""
    found = await asyncio.to_thread(service.repository.policy_records)
    return {"policies": [{"id": one.id, "name": one.name, "digest": one.digest} for one in found]}


async def policy(service: Service, request: Request) -> Reply:
    """Download a policy by its content, as an .npz file of plain numbers."""
    digest = request.named["digest"]
    if re.fullmatch("[0-9a-f]{64}", digest) is None:
        raise Refused(422, "invalid", "request: path.digest is wrong: String should match pattern '^[0-9a-f]{64}$'")
    file = await asyncio.to_thread(policy_file, service.repository, digest)
    if file is None:
        raise Refused(404, "no_policy", f"serve: no stored policy has the digest {digest}")
    headers = {"etag": f'"{digest}"', "cache-control": "private, immutable, max-age=31536000"}
    return Reply(file, kind="application/octet-stream", headers=headers)


# Health, figures, the live page


async def health(service: Service, request: Request) -> Reply:
    """Tell whether the last transaction went well, and none takes long."""
    healthy = service.engine.healthy
    return as_json({"status": "ok" if healthy else "failing"}, 200 if healthy else 503)


async def figures(service: Service, request: Request) -> Reply:
    """Figures for Prometheus."""
    text = service.metrics.text(service.engine.expired)
    return Reply(text, kind="text/plain; version=0.0.4; charset=utf-8")


async def live(service: Service, request: Request) -> Reply:
    """Server-sent events: the states of all tasks, every second."""

    def admit() -> str:
        return service.gate.admit(request.scope, request.headers, "read")

    return Reply(service.live.watch(admit, request.receive), kind="text/event-stream; charset=utf-8")


async def page(service: Service, request: Request) -> Reply:
    """A file of the live page."""
    name, kind = PAGE[request.scope["path"]]
    content = resources.files(__package__).joinpath(name).read_bytes()
    return Reply(content, kind=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})


async def description(service: Service, request: Request) -> Any:
    """This description of all requests."""
    return _described()


@cache
def _described() -> dict[str, Any]:
    return document(ROUTES)


ONE = "/v1/tasks/{task}"
EPISODE = "/v1/tasks/{task}/episodes/{number}"
TASK = answers.TaskState
ROUTES = (
    Route("POST", f"{ONE}/episodes", "decide", ask, {200: answers.AskAnswer}, bodies.AskBody),
    Route("POST", f"{EPISODE}/return", "decide", tell, {200: answers.Told}, bodies.ReturnBody),
    Route("POST", f"{ONE}/returns", "decide", tell_many, {200: answers.ReturnsAnswer}, bodies.ReturnsBody),
    Route("POST", f"{EPISODE}/cancel", "decide", cancel, {200: answers.Told}),
    Route("GET", EPISODE, "read", look, {200: answers.EpisodeState}),
    Route("GET", ONE, "read", state, {200: TASK}),
    Route("DELETE", ONE, "admin", remove, {200: answers.Removed}),
    Route("GET", "/v1/tasks", "read", tasks, {200: answers.TaskNames}),
    Route("POST", "/v1/tasks", "admin", make, {201: TASK, 200: TASK}, bodies.TaskBody),
    Route("GET", "/v1/policies", "read", policies, {200: answers.Policies}),
    Route("GET", "/v1/policies/{digest}", "read", policy, {200: "application/octet-stream"}),
    Route("GET", "/v1/live", "read", live, {200: "text/event-stream"}),
    Route("GET", "/metrics", "read", figures, {200: "text/plain"}),
    Route("GET", "/healthz", None, health, {200: answers.Health, 503: answers.Health | answers.ErrorAnswer}),
    Route("GET", "/openapi.json", "read", description, {}),
    *(Route("GET", path, None, page, {}) for path in PAGE),
)
