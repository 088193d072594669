"""``serve``: a repository's tasks decided over HTTP, until somebody stops it."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import Any

from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import Repository
from pastmaster.service.logs import start_log
from pastmaster.service.metrics import needed
from pastmaster.service.tokens import list_tokens

BACKLOG = 2048


def serve(
    repository: Repository,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    rate: float = 10_000.0,
    sweep: float = 1.0,
    log_requests: bool = False,
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; without tokens, this computer only."""
    uvicorn = needed("uvicorn")
    needed("fastapi")
    from pastmaster.service.api import Service, make_app

    good = [token for token in list_tokens(repository.database) if not token.revoked]
    if not good and not is_loopback(host):
        raise InvalidInputError(
            f"serve: host is {host}, must be 127.0.0.1 while there are no tokens: `pastmaster token add` makes one"
        )
    log = start_log()
    listening = _listen(host, port)
    service = Service(repository, rate=rate, sweep=sweep)
    options: dict[str, Any] = {"ssl_certfile": certificate, "ssl_keyfile": key} if certificate is not None else {}
    config = uvicorn.Config(
        make_app(service, log_requests=log_requests), log_config=None, access_log=False, server_header=False,
        date_header=False, proxy_headers=False, ws="none", backlog=BACKLOG, timeout_keep_alive=30,
        timeout_graceful_shutdown=10, h11_max_incomplete_event_size=65536, **options,
    )  # fmt: skip
    where = f"http{'s' if certificate is not None else ''}://{_shown(host)}:{listening.getsockname()[1]}"
    who = f"{len(good)} tokens" if good else "no tokens: this computer only"
    log.info(
        "serving", extra={"fields": {"url": where, "repository": repository.place, "tokens": who, "pid": os.getpid()}}
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        service.close()
        listening.close()
        log.info("stopped", extra={"fields": {"url": where}})


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach a host of this name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
