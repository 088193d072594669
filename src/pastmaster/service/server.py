"""``serve``: a repository's tasks decided over HTTP, until somebody stops it."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pastmaster.checks import called_as, text, whole, within
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import Repository
from pastmaster.service.logs import start_log
from pastmaster.service.schema import opened
from pastmaster.service.tokens import Token, list_tokens

BACKLOG = 2048


def serve(
    repository: Repository,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    rate: float = 10_000.0,
    log_requests: bool = False,
) -> None:
    """Serve a repository's tasks over HTTP until SIGINT or SIGTERM; without tokens, to this computer only.

    Parameters
    ----------
    repository : Repository
    host, port : str, int
        Where to listen; port 0 is any that is free.
    rate : float
        The most requests a second of a token; twice as many may come at once.
    log_requests : bool
        Whether each request has a line in the log, which is JSON on standard error.
    """
    with called_as("serve"):
        tokens = list_tokens(repository)
        host = text("serve", "host", host)
    with _server("serve", repository, host, port, rate, tokens, log_requests) as (server, url, listening):
        fields = {"url": url, "repository": repository.place, "tokens": _shown_tokens(tokens), "pid": os.getpid()}
        log = start_log()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn sends it to us again when it has stopped
        log.info("serving", extra={"fields": fields})
        server.run(sockets=[listening])


@contextmanager
def started(repository: Repository, *, port: int = 0, rate: float = 1e9) -> Iterator[str]:
    """The service on a thread of this process, for notebooks, examples and tests; gives its address.

    Examples
    --------
    >>> import tempfile
    >>> from pastmaster import Client, Repository, service
    >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/tasks.db") as repository:
    ...     with service.started(repository) as url, Client(url) as client:
    ...         made = client.make_task("site", sources=["red", "blue"], bounds=[0, 1], seed=0)
    ...         for _ in range(20):
    ...             with client.episode("site") as episode:
    ...                 episode.value = {"red": 0.2, "blue": 0.6, "learner": 0.1}[episode.name]
    ...         state = client.state("site")
    >>> state["told"], state["arms"][state["best"]["arm"]]["name"]
    (20, 'blue')
    """
    with called_as("started"), opened(repository):
        pass  # whatever is wrong with it is told here
    with _server("started", repository, "127.0.0.1", port, rate, [], False) as (server, url, listening):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _server(
    caller: str, repository: Repository, host: str, port: int, rate: float, tokens: list[Token], log_requests: bool
) -> Iterator[tuple[Any, str, socket.socket]]:
    """A server of uvicorn that is not running yet, its address, and the socket it listens on."""
    rate = within(caller, "rate", rate, 0.001, 1e12)
    port = whole(caller, "port", port, at_least=0, at_most=65535)
    uvicorn, *_ = map(_needed, ("uvicorn", "httptools", "pydantic", "prometheus_client"))
    from pastmaster.service.api import ROUTES, Service  # which cannot be read without these packages
    from pastmaster.service.app import App
    from pastmaster.service.gate import is_loopback

    if all(token.revoked for token in tokens) and not is_loopback(host):
        raise InvalidInputError(
            f"serve: host is {host}, must be 127.0.0.1 while there are no good tokens: `pastmaster token add` makes one"
        )
    with _listen(host, port) as listening:
        service = Service(repository, rate=rate)
        try:
            app = App(ROUTES, service, log_requests=log_requests)
            config = uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                http="httptools",
                ws="none",
                lifespan="off",
                backlog=BACKLOG,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=10,
            )
            server = uvicorn.Server(config)
            service.live.stopping = lambda: server.should_exit  # or it would wait for those who watch
            shown = f"[{host}]" if ":" in host else host
            yield server, f"http://{shown}:{listening.getsockname()[1]}", listening
        finally:
            service.close()


def _needed(package: str) -> Any:
    """A package of the extra ``serve``."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise InvalidInputError(
            f"serve: {package} is not installed ({error}): pip install 'pastmaster[serve]'"
        ) from None


def _shown_tokens(tokens: list[Token]) -> str:
    """Who is served, for the log."""
    if not tokens:
        return "no tokens: this computer only"
    good = sum(not token.revoked for token in tokens)
    if good:
        return f"{good} tokens"
    return f"all {len(tokens)} tokens are revoked: every request is refused until `pastmaster token add` makes one"


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise RepositoryError(f"serve: cannot listen on {host}:{port}: {error.strerror or error}") from None
