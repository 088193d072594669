"""HTTP as uvicorn speaks it, with limits on what the gate does not see: the head, and what is around a body."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 65536  # bytes of the request line and all headers
SEND_SECONDS = 30.0  # in which some of what is sent must be taken
HEAD_SECONDS = 10.0  # in which the head must come, from the connection or the first byte on


class LimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose head is too large or too slow; what is no HTTP gets an error in our form.

    Headers that come after the body (*trailers*) are dropped: who sends a request, and to whom, is in its head.
    """

    _head: int | None = 0  # bytes of the head so far, None while no head is awaited
    _extra: int | None = None  # bytes since the body's last, None while no body is awaited
    _body_came = False
    _timer: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_sending(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
            if self._head > LARGEST_HEAD and b"\r\n\r\n" not in data[:LARGEST_HEAD]:
                self.transport.close()
                return
        self._body_came = False
        super().data_received(data)
        if self._extra is not None:
            self._extra = 0 if self._body_came else self._extra + len(data)
            if self._extra > LARGEST_HEAD:  # the parser keeps a trailer until it ends
                self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._forget_timer()
        self._head, self._extra = None, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_came = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._extra = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body:  # nobody reads the rest of this request
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"error": {"code": "http", "message": "request: this is no HTTP"}}).encode()
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _watch_sending(self, size: int) -> None:
        """Give up a connection that takes nothing of what is sent for so long."""

        def look() -> None:
            now = self.transport.get_write_buffer_size()
            if now < size:
                self._watch_sending(now)
            else:
                self.transport.abort()

        self._stuck = self.loop.call_later(SEND_SECONDS, look)

    def _await_head(self) -> None:
        self._forget_timer()
        self._head = 0
        self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
