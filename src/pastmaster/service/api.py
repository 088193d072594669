"""The HTTP interface: thin functions between requests and the engine. Everything passes the ``Gate`` first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BeforeValidator
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import Repository
from pastmaster.service import answers, models, store
from pastmaster.service.engine import Engine
from pastmaster.service.express import Express, check_name, read_ask, read_tell
from pastmaster.service.gate import App, Gate, Misdirected, Rates, log
from pastmaster.service.live import Live, Watched
from pastmaster.service.metrics import Metrics
from pastmaster.service.openapi import BODY, Described, complete, described, errors, events, plain
from pastmaster.service.operations import Cancel, Look, Operation, Refused, TellMany, away
from pastmaster.service.policies import policy_file
from pastmaster.service.state import Describe
from pastmaster.service.tasks import make_task, remove_task
from pastmaster.service.tokens import Keys
from pastmaster.texts import printable

TaskName = Annotated[str, Path(description="The name of the task.", examples=["site"])]
Number = Annotated[int, Path(ge=0, le=models.LARGEST_NUMBER, examples=[12]), BeforeValidator(models.read_number)]
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


class Service:
    """All that the requests of one process share."""

    def __init__(self, repository: Repository, *, rate: float = 10_000.0, sweep: float = 1.0) -> None:
        self.repository, self.metrics = repository, Metrics()
        self.engine = Engine(repository.database, sweep=sweep, committed=self.metrics.commit)
        self.keys, self.rates = Keys(repository.database), Rates(rate)
        self.live = Live(repository.database, self.engine)

    def close(self) -> None:
        """End the engine."""
        self.engine.close()


def make_app(service: Service, *, log_requests: bool = False) -> App:
    """The service as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="pastmaster", version="1", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        description="Which policy runs the next episode: ask, run it, tell its return.",
    )  # fmt: skip
    misdirected = partial(_misdirected, app)
    _handle_errors(app, misdirected)
    _add_decisions(app, service)
    _add_tasks(app, service)
    _add_rest(app, service)
    complete(app)
    express = Express(app, service.engine)
    return Gate(express, service.keys, service.rates, service.metrics, misdirected, log_requests=log_requests)


def answer(body: Any, status: int = 200) -> Response:
    """JSON as it is sent."""
    return Response(json.dumps(body), status, media_type="application/json", headers={"cache-control": "no-store"})


def _misdirected(app: FastAPI, method: str, path: str) -> Refused | None:
    """The error of a request whose path is known, but not with its method."""
    found = [
        route.methods or set() for route in app.routes if isinstance(route, Route) and route.path_regex.match(path)
    ]
    allowed = sorted(set().union(*found))
    if not allowed or method in allowed:
        return None
    words = f"request: the method is {printable(method)[:20]}, must be {' or '.join(allowed)} here"
    return Refused(405, "method", words, allowed=allowed)


def _handle_errors(app: FastAPI, misdirected: Misdirected) -> None:
    """All errors in one form."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return Response(json.dumps({"error": error.shown()}), error.status, error.headers, "application/json")

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _error(422, "invalid", models.explained(error.errors()[0]))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = error.status_code
        if status == 405 and (wrong_method := misdirected(request.method, request.scope["path"])) is not None:
            return await refused(request, wrong_method)
        words = {404: "there is nothing here", 400: "the body is no JSON"}
        return _error(status, "http", f"request: {words.get(status, 'it cannot be served')}")

    async def impossible(_: Request, error: Exception) -> Response:
        return _error(409, "impossible", str(error))  # each field is right by itself: ``models`` has seen to that

    async def unavailable(request: Request, error: Exception) -> Response:
        log.error("failed", exc_info=error, extra={"fields": {"path": request.scope["path"]}})
        return await refused(request, away())

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(InvalidInputError, impossible)
    app.add_exception_handler(RepositoryError, unavailable)


def _error(status: int, code: str, message: str) -> Response:
    return answer({"error": {"code": code, "message": message}}, status)


def _add_decisions(app: FastAPI, service: Service) -> None:
    """Ask, tell, cancel."""

    async def done(operation: Operation) -> Response:
        check_name(operation.task)
        return answer(await service.engine.do(operation))

    @app.post(
        "/v1/tasks/{task}/episodes", response_model=answers.AskAnswer, responses=errors(404, 409, *BODY),
        tags=["decide"], openapi_extra=described(models.AskBody, required=False),
    )  # fmt: skip
    async def ask(request: Request) -> Response:
        """Ask for the next episode, or for several: which arm is to run each."""
        return await done(read_ask(request.path_params["task"], await request.body()))

    @app.post(
        "/v1/tasks/{task}/episodes/{number}/return", response_model=answers.Told, responses=errors(404, 409, *BODY),
        tags=["decide"], openapi_extra=described(models.ReturnBody, "number"),
    )  # fmt: skip
    async def tell(request: Request) -> Response:
        """Tell the return of an episode. The same again is fine; another value is a conflict."""
        named = request.path_params
        return await done(read_tell(named["task"], named["number"], await request.body()))

    @app.post(
        "/v1/tasks/{task}/returns", response_model=answers.ReturnsAnswer, responses=errors(404, *BODY), tags=["decide"]
    )
    async def tell_many(task: TaskName, body: models.ReturnsBody) -> Response:
        """Tell the returns of several episodes; each is answered on its own."""
        return await done(TellMany(task, [(item.episode, item.value) for item in body.returns]))

    @app.post(
        "/v1/tasks/{task}/episodes/{number}/cancel", response_model=answers.Told, responses=errors(404, 409, *BODY),
        tags=["decide"],
    )  # fmt: skip
    async def cancel(task: TaskName, number: Number) -> Response:
        """Forget an episode that will never be told. The same again is fine."""
        return await done(Cancel(task, number))

    @app.get(
        "/v1/tasks/{task}/episodes/{number}", response_model=answers.EpisodeState, responses=errors(404, 422),
        tags=["read"],
    )  # fmt: skip
    async def look(task: TaskName, number: Number) -> Response:
        """Read what became of an episode."""
        return await done(Look(task, number))

    @app.get("/v1/tasks/{task}", response_model=answers.TaskState, responses=errors(404), tags=["read"])
    async def state(task: TaskName) -> Response:
        """Read the state of a task: shares, means with intervals, what is proven, what is open."""
        return await done(Describe(task))


def _add_tasks(app: FastAPI, service: Service) -> None:
    """Tasks, made and removed; and policies."""

    @app.get("/v1/tasks", response_model=answers.TaskNames, responses=errors(), tags=["read"])
    async def tasks() -> Response:
        """Read the names of all tasks."""
        return answer({"tasks": await asyncio.to_thread(service.repository.database.read, store.task_names)})

    again: Described = {200: {"model": answers.TaskState, "description": "It was there, made with the same settings."}}

    @app.post(
        "/v1/tasks", status_code=201, response_model=answers.TaskState, responses=again | errors(409, *BODY),
        tags=["admin"],
    )  # fmt: skip
    async def make(body: models.TaskBody) -> Response:
        """Make a task: its sources, its selector, its lease. The same again is fine; other settings are a conflict."""
        settings = body.model_dump()
        made = await asyncio.to_thread(make_task, service.repository, settings.pop("name"), **settings)
        return answer(await service.engine.do(Describe(body.name)), 201 if made else 200)

    @app.delete("/v1/tasks/{task}", response_model=answers.Removed, responses=errors(404), tags=["admin"])
    async def remove(task: TaskName) -> Response:
        """Remove a task with all its episodes."""
        check_name(task)
        await asyncio.to_thread(remove_task, service.repository, task)
        return answer({"removed": task})

    @app.get("/v1/policies", response_model=answers.Policies, responses=errors(), tags=["read"])
    async def policies() -> Response:
        """Read which policies are stored."""
        found = await asyncio.to_thread(service.repository.policy_records)
        return answer({"policies": [{"id": one.id, "name": one.name, "digest": one.digest} for one in found]})

    file_of_numbers = plain("application/octet-stream", "An .npz file.")

    @app.get(
        "/v1/policies/{digest}", response_class=Response, responses=file_of_numbers | errors(404, 422), tags=["read"]
    )
    async def policy(digest: Annotated[str, Path(pattern="^[0-9a-f]{64}$", examples=["01" * 32])]) -> Response:
        """Download a policy by its content, as an .npz file of plain numbers."""
        file = await asyncio.to_thread(policy_file, service.repository, digest)
        if file is None:
            raise Refused(404, "no_policy", f"serve: no stored policy has the digest {digest}")
        headers = {"etag": f'"{digest}"', "cache-control": "private, immutable, max-age=31536000"}
        return Response(file, 200, headers, "application/octet-stream")


def _add_rest(app: FastAPI, service: Service) -> None:
    """Health, figures, the live page."""

    failing = {"model": answers.Health | answers.ErrorAnswer, "description": "It failed, or takes long."}

    @app.get("/healthz", response_model=answers.Health, responses=errors() | {503: failing}, tags=["watch"])
    async def health() -> Response:
        """Tell whether the last transaction went well, and none takes long."""
        healthy = service.engine.healthy
        return answer({"status": "ok" if healthy else "failing"}, 200 if healthy else 503)

    text = plain("text/plain", "Figures, one a line.", "pastmaster_operations_total 3.0\n")

    @app.get("/metrics", response_class=Response, responses=text | errors(), tags=["watch"])
    async def figures() -> Response:
        """Figures for Prometheus."""
        text = service.metrics.text(service.engine.expired)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/live", response_class=Response, responses=events() | errors(), tags=["watch"])
    async def live(request: Request) -> Response:
        """Server-sent events: the states of all tasks, every second."""
        return Watched(service.live, request)

    for path, (name, kind) in PAGE.items():
        _add_page(app, path, resources.files(__package__).joinpath(name).read_bytes(), kind)


def _add_page(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    async def page() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})

    app.add_api_route(path, page, methods=["GET"], include_in_schema=False)
