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
import re
import ssl
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from pastmaster.checks import is_finite, is_whole, text, whole, within
from pastmaster.errors import InvalidInputError, ServiceError
from pastmaster.tables import shown

AGAIN = (408, 429, 500, 502, 503, 504)  # answers after which it tries again
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds
THREADS = 64  # for asyncio
MOST_AT_ONCE = 1000  # episodes in a request
ADDRESS = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[\w-]{1,63}(\.[\w-]{1,63})*)(:(?P<port>\d+))?(/[!->@-~]*)?")
Found = TypeVar("Found")


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
    >>> from pastmaster import Client
    >>> client = Client("http://localhost:8000")
    >>> client
    Client(http://localhost:8000)

    With a service that has a task ``site``::

        with client.episode("site") as episode:
            episode.value = run(episode.name)  # told at the end; cancelled if there is none, or an error
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 10.0, patience: float = 60.0) -> None:
        self._parts = _address(text("Client", "url", url))
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise InvalidInputError(
                "Client: token is no text of ASCII letters, must be what `pastmaster token add` printed"
            )
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._timeout = within("Client", "timeout", timeout, 0.001, 86400.0)
        self._patience = within("Client", "patience", patience, 0.0, 86400.0)
        self._kind: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        if self._parts.scheme == "https":
            self._kind = partial(http.client.HTTPSConnection, context=ssl.create_default_context())
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._process = os.getpid()

    def ask(self, task: str, *, lease: float | None = None) -> Asked:
        """Open an episode: who is to run it."""
        return self.ask_many(task, 1, lease=lease)[0]

    def ask_many(self, task: str, count: int, *, lease: float | None = None) -> list[Asked]:
        """Open several episodes with one request."""
        count = whole("Client.ask", "count", count, at_least=1, at_most=MOST_AT_ONCE)
        body: dict[str, Any] = {"count": count, "key": uuid.uuid4().hex}
        if lease is not None:
            body["lease"] = within("Client.ask", "lease", lease, 0.001, 1e9)
        return self._call(_asked, "POST", _task(task, "episodes"), body)

    def tell(self, task: str, episode: Asked | int, value: float) -> None:
        """Tell the discounted return of an episode. The same again is fine, another value is refused."""
        path = _task(task, "episodes", _number("Client.tell", episode), "return")
        self._call(dict, "POST", path, {"value": _return("Client.tell", value)})

    def tell_many(self, task: str, returns: Mapping[int, float]) -> dict[int, ServiceError]:
        """Tell the returns of several episodes, by number; returns the errors of those refused, by number."""
        caller, refused = "Client.tell_many", dict[int, ServiceError]()
        if not isinstance(returns, Mapping):
            raise InvalidInputError(f"{caller}: returns is {shown(returns)}, must be a dict of returns by number")
        items = [{"episode": _number(caller, n), "value": _return(caller, v)} for n, v in returns.items()]
        for first in range(0, len(items), MOST_AT_ONCE):
            body = {"returns": items[first : first + MOST_AT_ONCE]}
            refused |= self._call(_refused, "POST", _task(task, "returns"), body)
        return refused

    def cancel(self, task: str, episode: Asked | int) -> None:
        """Forget an episode that will never be told, for a reason that has nothing to do with its arm or return."""
        self._call(dict, "POST", _task(task, "episodes", _number("Client.cancel", episode), "cancel"))

    def episode(self, task: str, *, lease: float | None = None) -> EpisodeContext:
        """An episode for ``with`` and ``async with``: asked for at the start, told or cancelled at the end.

        Set its ``value`` inside. Without one, or after an error, it is cancelled. If your code fails *because* an
        arm did badly, set a bad value instead: what is proven counts on it.
        """
        return EpisodeContext(self, task, lease)

    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return self._call(lambda found: list(found["tasks"]), "GET", "/v1/tasks")

    def state(self, task: str) -> dict[str, Any]:
        """The state of a task: shares, means with intervals, what is proven, what is open."""
        return self._call(dict, "GET", _task(task))

    def make_task(self, name: str, **settings: Any) -> dict[str, Any]:
        """Make a task, as ``pastmaster.service.make_task`` does; returns its state. Needs the role admin.

        The same again is fine, other settings for the same name are refused.
        """
        return self._call(dict, "POST", "/v1/tasks", {"name": name} | settings)

    def remove_task(self, name: str) -> None:
        """Remove a task with all its episodes. Needs the role admin."""
        self._call(dict, "DELETE", _task(name))

    def policy(self, digest: str) -> Any:
        """A stored policy by its digest, which is checked: an array, a ``NetworkPolicy`` or an ``OnnxPolicy``."""
        from pastmaster.service.policies import read_policy  # others need no database here

        path = quote(text("Client.policy", "digest", digest), safe="")
        return read_policy(self._send("GET", f"/v1/policies/{path}"), digest)

    def close(self) -> None:
        """Close the connections; whoever goes on with the client, another thread too, opens others."""
        with suppress(IndexError):  # there is none left
            while True:
                self._idle.pop().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url})"

    async def in_thread(self, work: Any, *arguments: Any, **options: Any) -> Any:
        """One of the client's functions, called without holding up an event loop."""
        return await asyncio.wrap_future(_submitted(work, *arguments, **options))

    def _call(self, read: Callable[[Any], Found], method: str, path: str, body: Any = None) -> Found:
        """What ``read`` makes of an answer."""
        answer = self._send(method, path, body)
        try:
            return read(json.loads(answer))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise _error(200, None) from None

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
                problem = _error(status, answer)
                if status not in AGAIN:
                    raise problem
            except ssl.SSLCertVerificationError as error:
                words = f"Client: the certificate of {self.url} is not trusted: {error.verify_message}"
                remedy = "the environment variable SSL_CERT_FILE names a PEM file of those that are"
                raise ServiceError(f"{words}; {remedy}", 0, "certificate") from None
            except (OSError, http.client.HTTPException) as error:
                problem = ServiceError(f"Client: {self.url} does not answer: {error!r}", 0, "no_answer")
            if time.monotonic() + pause > deadline:
                raise problem
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2.0 * pause, LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """One request on a connection that is idle, or a new one."""
        if self._process != os.getpid():  # a forked child talks on its own
            self._idle, self._process = deque(), os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout)
        fresh = connection.sock is None
        try:
            headers = self._headers | ({"content-type": "application/json"} if method == "POST" else {})
            connection.request(method, self._parts.path.rstrip("/") + path, body or None, headers)
            response = connection.getresponse()
            answer = response.read()
        except BaseException as error:
            connection.close()
            if not fresh and isinstance(error, ConnectionError):  # it was closed while it was idle
                return self._once(method, path, body)
            raise
        self._idle.append(connection)  # http.client opens it again if the service closes it
        return response.status, answer


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
        elif error is None:
            self._client.cancel(self._task, asked)
        else:
            with suppress(ServiceError):  # the error itself is what matters
                self._client.cancel(self._task, asked)

    async def __aenter__(self) -> Asked:
        asking = _submitted(self.__enter__)
        try:
            return await asyncio.wrap_future(asking)
        except asyncio.CancelledError:  # the ask goes on
            asking.add_done_callback(self._forget)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.wrap_future(_submitted(self.__exit__, kind, error, traceback)))

    def _forget(self, asking: Future[Asked]) -> None:
        """Cancel an episode that nobody waits for any more. This may be the thread of an event loop."""
        if not asking.cancelled() and asking.exception() is None:
            _submitted(self.__exit__, None, None, None)


def _submitted(work: Callable[..., Found], *arguments: Any, **options: Any) -> Future[Found]:
    """The outcome of a call on a thread."""
    return _threads(os.getpid()).submit(work, *arguments, **options)


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads in which asyncio's requests wait; a forked child has its own."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="pastmaster-client")


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
    found = ADDRESS.fullmatch(url)
    if found is None or not 0 < int(found["port"] or 80) < 2**16:
        raise InvalidInputError(f"Client: url is {shown(url)}, must be like http://localhost:8000")
    return urlsplit(url)


def _asked(answer: Any) -> list[Asked]:
    """The episodes in an answer; a later service may say more of them than we know."""
    names = ("number", "arm", "name", "policy", "lease")
    return [Asked(*(episode[name] for name in names)) for episode in answer["episodes"]]


def _refused(answer: Any) -> dict[int, ServiceError]:
    return {one["episode"]: _error(200, one) for one in answer["returns"] if "error" in one}


def _error(status: int, answer: Any) -> ServiceError:
    """The error in an answer; one without is none of the service's."""
    try:
        found = (json.loads(answer) if isinstance(answer, bytes) else answer)["error"]
        code, message = str(found["code"]), str(found["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        code, message = "http", "the answer is none of the service's"
    return ServiceError(f"Client: {message}", status, code)
