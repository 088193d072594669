"""HTTP as uvicorn speaks it, with limits on what comes before the gate: the size and the time of a request's head."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 65536  # bytes of the request line and all headers
HEAD_SECONDS = 10.0  # in which the head must come, from the connection or the first byte on


class LimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose head is too large or too slow; what is no HTTP gets an error in our form."""

    _head: int | None = 0  # bytes of the head so far, None while no head is awaited
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
            if self._head > LARGEST_HEAD and b"\r\n\r\n" not in data[:LARGEST_HEAD]:
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._forget_timer()
        self._head = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"error": {"code": "http", "message": "request: this is no HTTP"}}).encode()
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _await_head(self) -> None:
        self._forget_timer()
        self._head = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
