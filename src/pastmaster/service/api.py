"""The HTTP interface: thin functions between requests and the engine. Everything passes the ``Gate`` first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException

from pastmaster.errors import InvalidInputError, PastmasterError, RepositoryError
from pastmaster.repository import Repository
from pastmaster.service import models, store
from pastmaster.service.engine import Engine
from pastmaster.service.express import Express, check_name, read_ask, read_tell
from pastmaster.service.gate import App, Gate, Rates
from pastmaster.service.metrics import Metrics
from pastmaster.service.operations import Cancel, Look, Operation, Refused, TellMany
from pastmaster.service.policies import policy_file
from pastmaster.service.state import Describe
from pastmaster.service.tasks import make_task, remove_task
from pastmaster.service.tokens import Keys

TaskName = Annotated[str, Path(description="The name of the task.", examples=["site"])]
Number = Annotated[int, Path(ge=0, le=models.LARGEST_NUMBER, examples=[12])]
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.ErrorAnswer, "description": words}
    for status, words in {
        401: "No good token.", 403: "The token is for another role.", 404: "No such task or episode.",
        409: "Another value was told before, or the episode is over.", 422: "The request makes no sense.",
        429: "Too many requests, or too many open episodes.", 503: "The database does not answer: try again.",
    }.items()
}  # fmt: skip
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
LIVE_SECONDS = 1.0
MOST_WATCHERS = 100


class Service:
    """All that the requests of one process share."""

    def __init__(self, repository: Repository, *, rate: float = 10_000.0, sweep: float = 1.0) -> None:
        self.repository, self.metrics = repository, Metrics()
        self.engine = Engine(repository.database, sweep=sweep, committed=self.metrics.commit)
        self.keys, self.rates = Keys(repository.database), Rates(rate)
        self.watchers, self.stopping = 0, False
        self._latest: tuple[float, bytes] = (-1e9, b"")

    def close(self) -> None:
        """End the engine."""
        self.engine.close()

    async def states(self) -> list[Any]:
        """The states of all tasks."""
        names = await asyncio.to_thread(self.repository.database.read, store.task_names)
        return [await self.engine.do(Describe(name)) for name in names]

    async def live(self) -> bytes:
        """The states of all tasks as a server-sent event, made once a second for all who watch."""
        now = asyncio.get_running_loop().time()
        if now - self._latest[0] >= LIVE_SECONDS:
            self._latest = now, self._latest[1]
            try:
                body: dict[str, Any] = {"tasks": await self.states()}
            except PastmasterError as error:
                body = {"error": str(error)}
            self._latest = now, f"data: {json.dumps(body)}\n\n".encode()
        return self._latest[1]


def make_app(service: Service, *, log_requests: bool = False) -> App:
    """The service as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="pastmaster", version="1", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan,
        description="Which policy runs the next episode: ask, run it, tell its return.",
    )  # fmt: skip
    _handle_errors(app)
    _add_decisions(app, service)
    _add_tasks(app, service)
    _add_rest(app, service)
    express = Express(app, service.engine)
    return Gate(express, service.keys, service.rates, service.metrics, log_requests=log_requests)


def answer(body: Any, status: int = 200) -> Response:
    """JSON as it is sent."""
    return Response(json.dumps(body), status, media_type="application/json", headers={"cache-control": "no-store"})


def _handle_errors(app: FastAPI) -> None:
    """All errors in one form."""

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        headers = {"retry-after": "1"} if error.status in (429, 503) else {}
        return Response(json.dumps({"error": error.shown()}), error.status, headers, "application/json")

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _error(422, "invalid", models.explained(error.errors()[0]))

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "there is nothing here", 405: "this cannot be done here", 400: "the body is no JSON"}
        status = error.status_code
        return _error(status, "http", f"request: {words.get(status, 'it cannot be served')}")

    async def wrong(_: Request, error: Exception) -> Response:
        return _error(422, "invalid", str(error))

    async def unavailable(_: Request, error: Exception) -> Response:
        return _error(503, "unavailable", str(error))

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(InvalidInputError, wrong)
    app.add_exception_handler(RepositoryError, unavailable)


def _error(status: int, code: str, message: str) -> Response:
    return answer({"error": {"code": code, "message": message}}, status)


def _add_decisions(app: FastAPI, service: Service) -> None:
    """Ask, tell, cancel."""

    async def done(operation: Operation) -> Response:
        check_name(operation.task)
        return answer(await service.engine.do(operation))

    @app.post(
        "/v1/tasks/{task}/episodes", response_model=models.AskAnswer, responses=ERRORS, tags=["decide"],
        openapi_extra=models.described(models.AskBody),
    )  # fmt: skip
    async def ask(request: Request) -> Response:
        """Ask for the next episode, or for several: which arm is to run each."""
        return await done(read_ask(request.path_params["task"], await request.body()))

    @app.post(
        "/v1/tasks/{task}/episodes/{number}/return", response_model=models.Told, responses=ERRORS, tags=["decide"],
        openapi_extra=models.described(models.ReturnBody, "number"),
    )  # fmt: skip
    async def tell(request: Request) -> Response:
        """Tell the return of an episode. The same again is fine; another value is a conflict."""
        named = request.path_params
        return await done(read_tell(named["task"], named["number"], await request.body()))

    @app.post("/v1/tasks/{task}/returns", responses=ERRORS, tags=["decide"])
    async def tell_many(task: TaskName, body: models.ReturnsBody) -> Response:
        """Tell the returns of several episodes; each is answered on its own."""
        return await done(TellMany(task, [(item.episode, item.value) for item in body.returns]))

    @app.post(
        "/v1/tasks/{task}/episodes/{number}/cancel", response_model=models.Told, responses=ERRORS, tags=["decide"]
    )
    async def cancel(task: TaskName, number: Number) -> Response:
        """Forget an episode that will never be told. The same again is fine."""
        return await done(Cancel(task, number))

    @app.get("/v1/tasks/{task}/episodes/{number}", response_model=models.EpisodeAnswer, responses=ERRORS, tags=["read"])
    async def look(task: TaskName, number: Number) -> Response:
        """Read what became of an episode."""
        return await done(Look(task, number))

    @app.get("/v1/tasks/{task}", responses=ERRORS, tags=["read"])
    async def state(task: TaskName) -> Response:
        """Read the state of a task: shares, means with intervals, what is proven, what is open."""
        return await done(Describe(task))


def _add_tasks(app: FastAPI, service: Service) -> None:
    """Tasks, made and removed; and policies."""

    @app.get("/v1/tasks", tags=["read"])
    async def tasks() -> Response:
        """Read the names of all tasks."""
        return answer({"tasks": await asyncio.to_thread(service.repository.database.read, store.task_names)})

    @app.post("/v1/tasks", status_code=201, responses=ERRORS, tags=["admin"])
    async def make(body: models.TaskBody) -> Response:
        """Make a task: its sources, its selector, its lease."""
        settings = body.model_dump()
        await asyncio.to_thread(make_task, service.repository, settings.pop("name"), **settings)
        return answer(await service.engine.do(Describe(body.name)), 201)

    @app.delete("/v1/tasks/{task}", responses=ERRORS, tags=["admin"])
    async def remove(task: TaskName) -> Response:
        """Remove a task with all its episodes."""
        check_name(task)
        await asyncio.to_thread(remove_task, service.repository, task)
        return answer({"removed": task})

    @app.get("/v1/policies", tags=["read"])
    async def policies() -> Response:
        """Read which policies are stored."""
        found = await asyncio.to_thread(service.repository.policy_records)
        return answer({"policies": [{"id": one.id, "name": one.name, "digest": one.digest} for one in found]})

    @app.get("/v1/policies/{digest}", responses=ERRORS, tags=["read"])
    async def policy(digest: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]) -> Response:
        """Download a policy by its content, as an .npz file of plain numbers."""
        file = await asyncio.to_thread(policy_file, service.repository, digest)
        if file is None:
            raise Refused(404, "no_policy", f"serve: no stored policy has the digest {digest}")
        headers = {"etag": f'"{digest}"', "cache-control": "private, immutable, max-age=31536000"}
        return Response(file, 200, headers, "application/octet-stream")


def _add_rest(app: FastAPI, service: Service) -> None:
    """Health, figures, the live page."""

    @app.get("/healthz", tags=["watch"])
    async def health() -> Response:
        """Tell whether the last transaction went well, and none takes long."""
        healthy = service.engine.healthy
        return answer({"status": "ok" if healthy else "failing"}, 200 if healthy else 503)

    @app.get("/metrics", tags=["watch"])
    async def figures() -> Response:
        """Figures for Prometheus."""
        text = service.metrics.text(service.engine.expired)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/live", tags=["watch"])
    async def live(request: Request) -> Response:
        """Server-sent events: the states of all tasks, every second."""
        if service.watchers >= MOST_WATCHERS:
            raise Refused(429, "too_many_watchers", f"serve: {MOST_WATCHERS} are watching, try again later")

        async def events() -> AsyncIterator[bytes]:
            service.watchers += 1
            try:
                while not service.stopping and not await request.is_disconnected():
                    yield await service.live()
                    await asyncio.sleep(LIVE_SECONDS)
            finally:
                service.watchers -= 1

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    for path, (name, kind) in PAGE.items():
        _add_page(app, path, resources.files(__package__).joinpath(name).read_bytes(), kind)


def _add_page(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    async def page() -> Response:
        return Response(content, media_type=f"{kind}; charset=utf-8", headers={"cache-control": "no-cache"})

    app.add_api_route(path, page, methods=["GET"], include_in_schema=False)
