"""``serve``: a repository's tasks decided over HTTP, until somebody stops it."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pastmaster.checks import called_as, text, whole, within
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import Repository
from pastmaster.service.gate import is_loopback
from pastmaster.service.logs import start_log
from pastmaster.service.metrics import needed
from pastmaster.service.tasks import opened
from pastmaster.service.tokens import Token, list_tokens

BACKLOG = 2048


def serve(
    repository: Repository,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    rate: float = 10_000.0,
    log_requests: bool = False,
    certificate: Path | None = None,
    key: Path | None = None,
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
    certificate, key : Path, optional
        PEM files, to serve HTTPS.
    """
    with called_as("serve"):
        tokens = list_tokens(repository)
        host, rate = text("serve", "host", host), within("serve", "rate", rate, 0.001, 1e12)
        port = whole("serve", "port", port, at_least=0, at_most=65535)
    if all(token.revoked for token in tokens) and not is_loopback(host):
        raise InvalidInputError(
            f"serve: host is {host}, must be 127.0.0.1 while there are no good tokens: `pastmaster token add` makes one"
        )
    tls = _checked_tls(certificate, key)
    with _server(repository, host, port, rate, log_requests, **tls) as (server, listening, url):
        fields = {"url": url, "repository": repository.place, "tokens": _shown_tokens(tokens), "pid": os.getpid()}
        log = start_log()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn sends it to us again when it has stopped
        log.info("serving", extra={"fields": fields})
        server.run(sockets=[listening])


def _checked_tls(certificate: Path | None, key: Path | None) -> dict[str, Path | None]:
    """What uvicorn serves HTTPS with, or nothing. A certificate's file may have its key too."""
    if certificate is None:
        if key is not None:  # whoever gives a key does not want HTTP
            raise InvalidInputError(f"serve: key is {key}, but certificate is not given, must be given too")
        return {}
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ValueError, TypeError) as error:  # an SSLError is an OSError
        given = f"key {key}" if key is not None else "key is not given"
        raise InvalidInputError(
            f"serve: certificate is {certificate} and {given}, must be PEM files that belong together: {error}"
        ) from None
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


def _shown_tokens(tokens: list[Token]) -> str:
    """Who is served, for the log."""
    if not tokens:
        return "no tokens: this computer only"
    good = sum(not token.revoked for token in tokens)
    if good:
        return f"{good} tokens"
    return f"all {len(tokens)} tokens are revoked: every request is refused until `pastmaster token add` makes one"


@contextmanager
def started(repository: Repository, *, port: int = 0, rate: float = 1e9) -> Iterator[str]:
    """The service on a thread of this process, for notebooks, examples and tests; gives its address.

    Examples
    --------
    >>> import tempfile
    >>> from pastmaster import Repository, service
    >>> from pastmaster.client import Client
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
    with called_as("started"):
        opened(repository)
        rate = within("started", "rate", rate, 0.001, 1e12)
        port = whole("started", "port", port, at_least=0, at_most=65535)
    with _server(repository, "127.0.0.1", port, rate, False) as (server, listening, url):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _server(
    repository: Repository, host: str, port: int, rate: float, log_requests: bool, **options: Any
) -> Iterator[tuple[Any, socket.socket, str]]:
    """A server of uvicorn that is not running yet, the socket it listens on, and its address."""
    uvicorn = needed("uvicorn")
    for package in ("fastapi", "httptools"):
        needed(package)
    from pastmaster.service.api import Service, make_app  # which cannot be read without these packages
    from pastmaster.service.protocol import LimitedProtocol

    listening = _listen(host, port)
    try:
        service = Service(repository, rate=rate)

        class Server(uvicorn.Server):  # type: ignore[misc, name-defined]  # found at run time
            """Tells those who watch to go before it waits for all requests to end."""

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                service.live.stopping = True
                await super().shutdown(sockets)

        config = uvicorn.Config(
            make_app(service, log_requests=log_requests), log_config=None, access_log=False, server_header=False,
            date_header=False, proxy_headers=False, ws="none", backlog=BACKLOG, timeout_keep_alive=30,
            timeout_graceful_shutdown=10, http=LimitedProtocol, **options,
        )  # fmt: skip
        try:
            scheme = "https" if options else "http"
            yield Server(config), listening, f"{scheme}://{_shown(host)}:{listening.getsockname()[1]}"
        finally:
            service.close()
    finally:
        listening.close()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as error:
        raise RepositoryError(f"serve: cannot listen on {host}:{port}: {error.strerror or error}") from None
    return made
