"""A service that decides: many episodes open at once over HTTP, late returns, nothing lost.

Its names are loaded when they are first used: a client needs neither a database nor a web server.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pastmaster.service.client import Asked as Asked, Client as Client
    from pastmaster.service.server import serve as serve, started as started
    from pastmaster.service.tasks import make_task as make_task, remove_task as remove_task
    from pastmaster.service.tokens import (
        add_token as add_token,
        list_tokens as list_tokens,
        revoke_token as revoke_token,
    )

_PLACES = {
    "client": "Asked Client",
    "server": "serve started",
    "tasks": "make_task remove_task",
    "tokens": "add_token list_tokens revoke_token",
}
_MODULE = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'pastmaster.service' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pastmaster.service.{_MODULE[name]}"), name)
