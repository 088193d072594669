"""A service that decides: many episodes open at once over HTTP, late returns, nothing lost."""

from pastmaster.service.server import serve, started
from pastmaster.service.tasks import make_task, remove_task
from pastmaster.service.tokens import add_token, list_tokens, revoke_token

__all__ = ["add_token", "list_tokens", "make_task", "remove_task", "revoke_token", "serve", "started"]
