"""Workers of a cluster: they may be on other machines, have other code, come late and go early.

Every worker that is there is asked what it has before the first chunk, and each chunk asks again in the process that
runs it, so that workers that come later are compared too.
"""

from __future__ import annotations

import importlib
import inspect
import time
from abc import abstractmethod
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.parallel import greeting
from pastmaster.parallel.sockets import Listening, listening
from pastmaster.parallel.workers import LostWorkerError, Workers, first_line


class Cluster(Workers):
    """What the two kinds of clusters have in common."""

    check_every = 5.0
    patience = 60.0
    """The seconds that a cluster may take to answer, or be without workers."""
    alone_since: float | None = None

    @abstractmethod
    def members(self) -> list[str]:
        """The workers there are now, by the names that the cluster gives them."""

    @abstractmethod
    def answers(self, members: list[str]) -> dict[str, Any]:
        """What the workers have, or the error of asking them; those that do not answer in time are left out."""

    def greet(self) -> None:
        """Compare what every worker has with what this program has; wait for the first worker if there is none."""
        deadline = time.monotonic() + self.patience
        while not (members := self.members()):
            if time.monotonic() > deadline:
                raise InvalidInputError(
                    f"backend is {self.backend!r}, whose cluster has no worker after {self.patience:.0f} seconds, "
                    "must have one: wait for it before this call"
                )
            time.sleep(0.1)
        answers = self.answers(members)
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, dict):
                self._compare(worker, answer)
        silent = [worker for worker in members if not isinstance(answers.get(worker), dict)]
        for worker in set(silent) & set(self.members() if silent else ()):  # others have left in the meantime
            answer = answers.get(worker)
            why = f"within {self.patience:.0f} seconds" if answer is None else f"but fails ({first_line(answer)})"
            raise InvalidInputError(
                f"backend is {self.backend!r}, whose worker {worker} does not answer {why}, must be one that runs"
            )

    def greeted(self, outcome: Any) -> Any:
        if isinstance(outcome, dict):
            self._compare(outcome["place"], outcome)
        return outcome

    def _compare(self, worker: str, found: dict[str, str]) -> None:
        """Refuse a worker that does not have what this program has: it could return something else."""
        here = greeting.identity()
        other = [f"its {what} is {found[what]}, must be {here[what]}" for what in here if found[what] != here[what]]
        if other:
            raise InvalidInputError(
                f"backend is {self.backend!r}, whose worker {worker} is not like this program: {'; '.join(other)}"
            )

    def check(self) -> None:
        if self.members():
            self.alone_since = None
            return
        now = time.monotonic()
        self.alone_since = self.alone_since or now
        if now - self.alone_since > self.patience:
            raise LostWorkerError(
                f"backend is {self.backend!r}, whose cluster has been without workers for {self.patience:.0f} seconds"
            )


def source() -> str:
    """The source of ``greeting``, for workers."""
    return inspect.getsource(greeting)


def refuse_open(backend: str, before: set[Listening], remedy: str) -> None:
    """Refuse a cluster that was started here if another machine can reach it: whoever can may run code."""
    outside = sorted(one for one in listening() - before if not one.is_local)
    if outside:
        where = ", ".join(sorted({f"{one.host or 'an unknown address'} port {one.port}" for one in outside})[:4])
        raise InvalidInputError(
            f"backend is {backend!r}, whose local cluster listens to other machines ({where}), must listen to this one "
            f"alone: {remedy}"
        )


def imported(module: str, backend: str) -> Any:
    """A package that is needed by one backend only, or how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidInputError(
            f"backend is {backend!r}, which needs the package {module}: pip install {module}"
        ) from None
