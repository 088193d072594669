"""The body of a request, as it comes: JSON, not too large, and all of it within one time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from pastmaster.service.operations import Refused
from pastmaster.texts import printable

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

LARGEST_BODY = 2**20  # bytes
BODY_SECONDS = 10.0  # for the whole body to come, from its head on
JSON = b"application/json"


class Gone(Exception):  # noqa: N818  no error of anybody's
    """Whoever sent a request has gone before its end: it is not carried out, and there is nobody to answer."""


class Body:
    """The body of one request. It is read or skipped, or skipped after a part of it was read.

    Attributes
    ----------
    ended : bool
        Whether nothing more of it is to come. Of a GET or HEAD nothing is read at all.
    """

    def __init__(self, method: str, headers: Mapping[bytes, bytes], receive: Receive) -> None:
        self._headers, self._receive = headers, receive
        self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        self._size = 0
        self.ended = method in ("GET", "HEAD")

    async def read(self) -> bytes:
        """All of it. ``Refused`` if it is too large, too slow or no JSON; ``Gone`` if it breaks off."""
        self._check_length()
        body = bytearray()
        while not self.ended:
            body += await self._next()
        self._check_type(empty=not body)
        return bytes(body)

    async def skip(self) -> bool:
        """Whether all of it has come, which nobody wants: a sender may not look for an answer before.

        If it has not, the connection cannot be used again.
        """
        if not self.ended and b"expect" in self._headers:  # it is sent only when somebody asks for it
            return False
        try:
            self._check_length()
            while not self.ended:
                await self._next()
        except (Refused, Gone):
            return False
        return True

    async def _next(self) -> bytes:
        """The next part."""
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, "slow", f"serve: the body took more than {BODY_SECONDS:g} seconds") from None
        if message["type"] != "http.request":
            raise Gone
        part: bytes = message.get("body", b"")
        self._size += len(part)
        if self._size > LARGEST_BODY:
            raise _too_large()
        self.ended = not message.get("more_body", False)
        return part

    def _check_length(self) -> None:
        """Refuse by its length what need not come."""
        length = self._headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > LARGEST_BODY:
            raise _too_large()

    def _check_type(self, *, empty: bool) -> None:
        """A page of another site can make a browser send a form, but no JSON; what is empty needs no type."""
        given = self._headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if given == JSON or (empty and not given):
            return
        shown = printable(given.decode("latin-1"))[:100] or "missing"
        raise Refused(415, "not_json", f"serve: the content type is {shown}, must be application/json")


def _too_large() -> Refused:
    return Refused(413, "too_large", f"serve: the body is larger than {LARGEST_BODY:,} bytes, must be smaller")
