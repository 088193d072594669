"""The service's client: ask for episodes and tell their returns over HTTP, with Python's own library alone.

Every request can be sent again without harm: an ask carries a key of its own, a return that is told twice counts once,
a task that is made twice is there once. So where an answer is lost, the client asks again until it has one. One client
serves any number of threads, and asyncio.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import ssl
import time
import uuid
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from pastmaster.checks import is_finite, is_whole, text, whole, within
from pastmaster.errors import InvalidInputError, ServiceError
from pastmaster.tables import shown

AGAIN = (408, 429, 500, 502, 503, 504)  # answers after which it tries again
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
THREADS = 64  # for asyncio
LARGEST_ANSWER = 2**30
NOT_OURS = {"code": "http", "message": "the answer is none of the service's"}


@dataclass
class Asked:
    """An episode to run.

    Attributes
    ----------
    number, arm : int
        The number of the episode, and who is to run it: a source, or the learner, which is the last arm.
    name : str
        What the arm is called.
    policy : str or None
        The digest of its policy, for ``Client.policy``, where it is a stored one.
    lease : float
        Seconds until it is forgotten.
    value : float or None
        Its return, once you have set it; ``Client.episode`` tells it.
    """

    number: int
    arm: int
    name: str
    policy: str | None
    lease: float
    value: float | None = None


class Client:
    """Talks to ``pastmaster serve``.

    Parameters
    ----------
    url : str
        Where it is served, like ``http://localhost:8000``.
    token : str, optional
        What ``pastmaster token add`` printed.
    timeout : float
        Seconds to wait for one answer.
    patience : float
        Seconds to try again where there is none, or the service is busy.

    Examples
    --------
    >>> from pastmaster.client import Client
    >>> client = Client("http://localhost:8000")
    >>> client
    Client(http://localhost:8000)

    With a service that has a task ``site``::

        with client.episode("site") as episode:
            episode.value = run(episode.name)  # told at the end; cancelled if there is none, or an error
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 10.0, patience: float = 60.0) -> None:
        parts = _address(text("Client", "url", url))
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise InvalidInputError(
                "Client: token is no text of ASCII letters, must be what `pastmaster token add` printed"
            )
        self.url, self._parts = url.rstrip("/"), parts
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._timeout = within("Client", "timeout", timeout, 0.001, 86400.0)
        self._patience = within("Client", "patience", patience, 0.0, 86400.0)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._process = os.getpid()
        self._threads: ThreadPoolExecutor | None = None

    def ask(self, task: str, *, lease: float | None = None) -> Asked:
        """Open an episode: who is to run it."""
        return self.ask_many(task, 1, lease=lease)[0]

    def ask_many(self, task: str, count: int, *, lease: float | None = None) -> list[Asked]:
        """Open several episodes with one request."""
        body: dict[str, Any] = {"count": whole("Client.ask", "count", count, at_least=1, at_most=1000)}
        body["key"] = uuid.uuid4().hex
        if lease is not None:
            body["lease"] = within("Client.ask", "lease", lease, 0.001, 1e9)
        found = self._call("POST", _task(task, "episodes"), body)
        return [_asked(episode) for episode in _part(found, "episodes", list)]

    def tell(self, task: str, episode: Asked | int, value: float) -> None:
        """Tell the discounted return of an episode. The same again is fine, another value is refused."""
        number = _number("Client.tell", episode)
        self._call("POST", _task(task, "episodes", number, "return"), {"value": _return("Client.tell", value)})

    def tell_many(self, task: str, returns: Mapping[int, float]) -> dict[int, ServiceError]:
        """Tell the returns of several episodes, by number; returns the errors of those refused, by number."""
        if not isinstance(returns, Mapping):
            raise InvalidInputError(
                f"Client.tell_many: returns is {shown(returns)}, must be a dict of returns by number"
            )
        items = [
            {"episode": _number("Client.tell_many", n), "value": _return("Client.tell_many", v)}
            for n, v in returns.items()
        ]
        refused: dict[int, ServiceError] = {}
        for first in range(0, len(items), 1000):
            answer = self._call("POST", _task(task, "returns"), {"returns": items[first : first + 1000]})
            for one in _part(answer, "returns", list):
                if "error" in _is(one, dict):
                    refused[_part(one, "episode", int)] = _refusal(200, _words(one))
        return refused

    def cancel(self, task: str, episode: Asked | int) -> None:
        """Forget an episode that will never be told, for a reason that has nothing to do with its arm or return."""
        self._call("POST", _task(task, "episodes", _number("Client.cancel", episode), "cancel"))

    def episode(self, task: str, *, lease: float | None = None) -> EpisodeContext:
        """An episode for ``with`` and ``async with``: asked for at the start, told or cancelled at the end.

        Set its ``value`` inside. Without one, or after an error, it is cancelled. If your code fails *because* an
        arm did badly, set a bad value instead: what is proven counts on it.
        """
        return EpisodeContext(self, task, lease)

    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return [_is(name, str) for name in _part(self._call("GET", "/v1/tasks"), "tasks", list)]

    def state(self, task: str) -> dict[str, Any]:
        """The state of a task: shares, means with intervals, what is proven, what is open."""
        found: dict[str, Any] = self._call("GET", _task(task))
        return found

    def make_task(self, name: str, **settings: Any) -> dict[str, Any]:
        """Make a task, as ``pastmaster.service.make_task`` does; returns its state. Needs the role admin.

        The same again is fine, other settings for the same name are refused.
        """
        made: dict[str, Any] = self._call("POST", "/v1/tasks", {"name": name} | settings)
        return made

    def remove_task(self, name: str) -> None:
        """Remove a task with all its episodes. Needs the role admin."""
        self._call("DELETE", _task(name))

    def policy(self, digest: str) -> Any:
        """A stored policy by its digest, which is checked: an array, a ``NetworkPolicy`` or an ``OnnxPolicy``."""
        from pastmaster.service.policies import read_policy  # others need no database here

        return read_policy(
            self._send("GET", f"/v1/policies/{quote(text('Client.policy', 'digest', digest), safe='')}"), digest
        )

    def close(self) -> None:
        """Close the connections; whoever goes on with the client, another thread too, opens others."""
        with suppress(IndexError):  # there is none left
            while True:
                self._idle.pop().close()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url})"

    async def in_thread(self, work: Any, *arguments: Any, **options: Any) -> Any:
        """One of the client's functions, called without holding up an event loop."""
        return await asyncio.wrap_future(self._submit(work, *arguments, **options))

    def _submit(self, work: Any, *arguments: Any, **options: Any) -> Future[Any]:
        while True:
            threads = self._threads
            if threads is None:
                threads = self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pastmaster-client")
            try:
                return threads.submit(work, *arguments, **options)
            except RuntimeError:
                if self._threads is threads:  # the program ends; else another thread has closed the client
                    raise

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._send(method, path, body)
        try:
            return _is(json.loads(answer), dict)
        except (ValueError, RecursionError):
            raise _refusal(200, NOT_OURS) from None

    def _send(self, method: str, path: str, body: Any = None) -> bytes:
        """The answer to a request, which is sent again while there is none."""
        try:
            sent = b"" if body is None else json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"Client: the arguments are no plain values: {shown(error)}") from None
        deadline, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                status, answer = self._once(method, path, sent)
                if status < 300:
                    return answer
                problem = _refusal(status, _words(answer))
                if status not in AGAIN:
                    raise problem
            except ssl.SSLCertVerificationError as error:
                raise ServiceError(
                    f"Client: the certificate of {self.url} is not trusted: {error.verify_message}; the environment "
                    "variable SSL_CERT_FILE names a PEM file of those that are",
                    0, "certificate",
                ) from None  # fmt: skip
            except (OSError, http.client.HTTPException) as error:
                problem = ServiceError(f"Client: {self.url} does not answer: {error!r}", 0, "no_answer")
            if time.monotonic() + pause > deadline:
                raise problem
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2.0 * pause, LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """One request on a connection that is idle, or a new one."""
        if self._process != os.getpid():  # a forked child talks on its own
            self._idle, self._process, self._threads = deque(), os.getpid(), None
        try:
            connection, fresh = self._idle.pop(), False
        except IndexError:
            connection, fresh = self._connect(), True
        try:
            headers = self._headers | ({"content-type": "application/json"} if method == "POST" else {})
            connection.request(method, self._parts.path.rstrip("/") + path, body or None, headers)
            response = connection.getresponse()
            answer = response.read(LARGEST_ANSWER)
            if response.length:  # read(n) does not say that a connection ended before the answer did
                raise http.client.IncompleteRead(answer, response.length)
        except BaseException as error:
            connection.close()
            if not fresh and isinstance(error, ConnectionError):  # it was closed while it was idle
                return self._once(method, path, body)
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        return response.status, answer

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


class EpisodeContext:
    """An episode from its ask to its end; see ``Client.episode``."""

    def __init__(self, client: Client, task: str, lease: float | None) -> None:
        self._client, self._task, self._lease = client, task, lease
        self._asked: Asked | None = None

    def __enter__(self) -> Asked:
        self._asked = self._client.ask(self._task, lease=self._lease)
        return self._asked

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asked = self._asked
        assert asked is not None
        if error is None and asked.value is not None:
            self._client.tell(self._task, asked, asked.value)
            return
        try:
            self._client.cancel(self._task, asked)
        except ServiceError:
            if error is None:  # else the error itself is what matters
                raise

    async def __aenter__(self) -> Asked:
        asking = self._client._submit(self.__enter__)
        try:
            asked: Asked = await asyncio.wrap_future(asking)
        except asyncio.CancelledError:  # the ask goes on
            asking.add_done_callback(self._forget)
            raise
        return asked

    def _forget(self, asking: Future[Asked]) -> None:
        """Cancel an episode that nobody waits for any more."""

        def cancel(asked: Asked) -> None:
            with suppress(ServiceError):  # then its lease ends it
                self._client.cancel(self._task, asked)

        if not asking.cancelled() and asking.exception() is None:
            try:
                self._client._submit(cancel, asking.result())  # this may be the thread of an event loop
            except RuntimeError:  # the program ends
                cancel(asking.result())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.wrap_future(self._client._submit(self.__exit__, kind, error, traceback)))


def _task(name: str, *rest: object) -> str:
    """The path of a task, and of something in it."""
    return "/".join(["/v1/tasks", quote(text("Client", "task", name), safe=""), *map(str, rest)])


def _number(caller: str, episode: Asked | int) -> int:
    number = episode.number if isinstance(episode, Asked) else episode
    if not is_whole(number) or not 0 <= number < 2**63:
        raise InvalidInputError(f"{caller}: episode is {shown(episode)}, must be what ask returned, or its number")
    return int(number)


def _return(caller: str, value: float) -> float:
    if isinstance(value, bool) or not is_finite(value):
        raise InvalidInputError(f"{caller}: value is {shown(value)}, must be a finite number")
    return float(value)


def _address(url: str) -> SplitResult:
    """An address in its parts."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna"), parts.port
        plain = url.isprintable() and " " not in url and parts.path.isascii()
        if (
            parts.scheme in ("http", "https")
            and host
            and port != 0
            and plain
            and not parts.query
            and not parts.username
        ):
            return parts
    except ValueError:  # a bracket, a port that is none, a host that no one can have
        pass
    raise InvalidInputError(f"Client: url is {shown(url)}, must be like http://localhost:8000") from None


def _is(found: Any, kind: type) -> Any:
    """What an answer has here, if it is of this kind; else it is no answer of the service's."""
    if not isinstance(found, kind) or isinstance(found, bool):
        raise _refusal(200, NOT_OURS)
    return found


def _part(answer: Any, name: str, kind: type) -> Any:
    return _is(_is(answer, dict).get(name), kind)


def _asked(episode: Any) -> Asked:
    """An episode; a later service may say more of it than we know."""
    policy, lease = _is(episode, dict).get("policy"), episode.get("lease")
    number, arm, name = _part(episode, "number", int), _part(episode, "arm", int), _part(episode, "name", str)
    if not is_finite(lease) or not (policy is None or isinstance(policy, str)):
        raise _refusal(200, NOT_OURS)
    return Asked(number, arm, name, policy, float(lease))


def _words(answer: bytes | dict[str, Any]) -> Any:
    try:
        found = (json.loads(answer) if isinstance(answer, bytes) else answer)["error"]
        return {"code": str(found["code"]), "message": str(found["message"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        return NOT_OURS


def _refusal(status: int, error: Mapping[str, str]) -> ServiceError:
    return ServiceError(f"Client: {error['message']}", status, error["code"])
