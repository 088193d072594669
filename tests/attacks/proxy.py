"""A bad network: a proxy before a server that drops connections, or leaves them open and passes nothing on."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from types import TracebackType


class Link:
    """One connection through the proxy: what comes from either side goes to the other, unless it is swallowed."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.swallows: set[str] = set()  # "questions", "answers"
        self.thread: threading.Thread

    def drop(self) -> None:
        """Close both sides."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def carry(self, proxy: Proxy) -> None:
        ends = {self.client: (self.server, "questions"), self.server: (self.client, "answers")}
        try:
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    other, what = ends[end]
                    if what == "questions":
                        proxy.heard(self, data)
                    if what not in self.swallows:
                        other.sendall(data)
        except OSError:
            pass
        finally:
            if not self.swallows:  # else its other half never hears of it
                self.client.close()
            self.server.close()


class Proxy:
    """Listens on loopback and connects to a server's socket in the file system."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.links: list[Link] = []
        self.at_commit: str | None = None  # what to do with the next link that commits: "drop", "questions", "answers"
        self.struck = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else a thread that accepts keeps it open
        self._listening.close()
        for link in self.links:
            link.drop()
            link.thread.join()
            link.client.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.target)
            except OSError:
                return
            link = Link(client, server)
            link.thread = threading.Thread(target=link.carry, args=(self,), daemon=True)
            link.thread.start()
            self.links.append(link)

    def heard(self, link: Link, data: bytes) -> None:
        """A client asked something: a commit may be what we wait for."""
        if self.at_commit is not None and b"COMMIT" in data:
            how, self.at_commit = self.at_commit, None
            self.struck += 1
            self.strike(link, how)

    def strike(self, link: Link, how: str) -> None:
        """Drop a link, or swallow its questions, its answers, or both."""
        if how == "drop":
            link.drop()
        else:
            link.swallows |= {"questions", "answers"} if how == "both" else {how}
