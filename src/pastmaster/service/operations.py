"""What can be asked of a task, one class each: what is read first, and what is done, in the order of the calls.

An operation is answered with plain JSON values, or with a ``Refused``: then nothing was changed by it. A batch of
returns is answered item by item.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from pastmaster.errors import PastmasterError
from pastmaster.service import store
from pastmaster.service.decider import Decider, Row
from pastmaster.service.schema import CANCELLED, EXPIRED, OPEN, OUTCOMES, TOLD

if TYPE_CHECKING:
    from pastmaster.service.answers import (
        AskAnswer,
        EpisodeAnswer,
        EpisodeState,
        ErrorWords,
        ReturnsAnswer,
        Told,
        Untold,
    )

MOST_EXPIRED = 1000  # episodes in one transaction


class Refused(PastmasterError):  # noqa: N818  an answer more than an error
    """A request that cannot be served as it is; ``code`` is for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str, *, allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.allowed = status, code, allowed

    def shown(self) -> ErrorWords:
        """As it is answered."""
        return {"code": self.code, "message": str(self)}

    @property
    def headers(self) -> dict[str, str]:
        """What its answer says to programs beside the code: how to come in, which methods there are, when to retry."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        if self.status == 405:
            return {"allow": ", ".join(self.allowed)}
        return {"retry-after": "1"} if self.status in (429, 503) else {}


def away() -> Refused:
    """What clients are told where the database fails; why, and where it is, is for the log alone."""
    return Refused(503, "unavailable", "serve: the database does not answer, try again later")


class Turn(NamedTuple):
    """A task in a transaction, and what its rows say that the operations on it need, read once for all of them."""

    decider: Decider
    connection: sa.Connection
    now: float
    rows: dict[int, Row]
    keyed: dict[str, list[Row]]


@dataclass(eq=False)
class Operation:
    """Something asked of the task of this name."""

    task: str
    writes = True

    @property
    def size(self) -> int:
        """How many episodes it is about."""
        return 1

    @property
    def numbers(self) -> Iterable[int]:
        """The episodes whose rows must be known if they are not open."""
        return ()

    def run(self, turn: Turn) -> Any:
        """Do it; returns the answer."""
        raise NotImplementedError


@dataclass(eq=False)
class Ask(Operation):
    """Open ``count`` episodes. The same key again gets the same episodes."""

    count: int = 1
    key: str | None = None
    lease: float | None = None

    @property
    def size(self) -> int:
        return self.count

    def run(self, turn: Turn) -> AskAnswer:
        rows = turn.keyed.get(self.key or "")
        if rows is None:
            rows = self._new(turn)
            if self.key is not None:
                turn.keyed[self.key] = rows
        elif len(rows) != self.count:
            raise Refused(
                409,
                "other_request",
                f"ask: count is {self.count}, but the request with this key asked for {len(rows)}, must be the same",
            )
        return {"episodes": [_shown(turn, row) for row in rows]}

    def _new(self, turn: Turn) -> list[Row]:
        decider = turn.decider
        settings, n_open = decider.settings, decider.selector.n_open
        if n_open + self.count > settings["most_open"]:
            raise Refused(
                429,
                "too_many_open",
                f"ask: {n_open} episodes of {decider.name} are open, must be at most {settings['most_open']} with "
                "these: tell or cancel some first",
            )
        deadline = turn.now + (settings["lease"] if self.lease is None else self.lease)
        return [decider.ask(deadline, self.key) for _ in range(self.count)]


@dataclass(eq=False)
class OfEpisode(Operation):
    """Something asked of one episode."""

    number: int

    @property
    def numbers(self) -> Iterable[int]:
        return (self.number,)


@dataclass(eq=False)
class Tell(OfEpisode):
    """Tell the return of one episode. The same again is fine, another value is a conflict."""

    value: float

    def run(self, turn: Turn) -> Told:
        return _tell(turn, self.number, self.value)


@dataclass(eq=False)
class TellMany(Operation):
    """Tell returns of several episodes; each is answered on its own."""

    returns: list[tuple[int, float]]

    @property
    def size(self) -> int:
        return len(self.returns)

    @property
    def numbers(self) -> Iterable[int]:
        return (number for number, _ in self.returns)

    def run(self, turn: Turn) -> ReturnsAnswer:
        answers: list[Told | Untold] = []
        for number, value in self.returns:
            try:
                answers.append(_tell(turn, number, value))
            except Refused as refused:
                answers.append({"episode": number, "error": refused.shown()})
        return {"returns": answers}


@dataclass(eq=False)
class Cancel(OfEpisode):
    """Forget an open episode. The same again is fine."""

    def run(self, turn: Turn) -> Told:
        row = _ended(turn, self.number, "cancel")
        if row is None:
            turn.decider.close(self.number, CANCELLED)
            return {"episode": self.number, "outcome": "cancelled", "repeated": False}
        if row["outcome"] == TOLD:
            raise Refused(409, "told", f"cancel: episode {self.number} was told {row['value']:g}, must be open")
        return {"episode": self.number, "outcome": OUTCOMES[row["outcome"]], "repeated": True}


@dataclass(eq=False)
class Look(OfEpisode):
    """What became of one episode."""

    writes = False

    def run(self, turn: Turn) -> EpisodeState:
        row = store.episode_rows(turn.connection, turn.decider.id, self.numbers).get(self.number)
        if row is None:
            raise _never_asked(turn.decider, self.number, "episode")
        return {**_shown(turn, row), "outcome": OUTCOMES[row["outcome"]], "value": row["value"]}


@dataclass(eq=False)
class Expire(Operation):
    """Forget the episodes whose lease is over, or tell the return that was declared for them."""

    def run(self, turn: Turn) -> int:
        decider = turn.decider
        late = store.next_open(turn.connection, decider.id, MOST_EXPIRED, turn.now)
        numbers = [row["number"] for row in late if decider.is_open(row["number"])]
        for number in numbers:
            decider.close(number, EXPIRED, decider.settings["expired_return"])
        return len(numbers)


def _tell(turn: Turn, number: int, value: float) -> Told:
    decider, row = turn.decider, _ended(turn, number, "tell")
    if row is None:
        if decider.selector.refuses(value):
            lower, upper = decider.selector.bounds
            raise Refused(
                409,
                "out_of_bounds",
                f"tell: value is {value:g} for episode {number}, must be within the bounds {lower:g} .. {upper:g} of "
                f'{decider.name}: make a task with wider bounds, or one with "clip": true, if such returns are right',
            )
        decider.close(number, TOLD, value + 0.0)  # SQLite keeps no -0
    elif row["outcome"] != TOLD:
        became = OUTCOMES[row["outcome"]]
        raise Refused(409, became, f"tell: episode {number} is {became}, must be open: its return is not counted")
    elif row["value"] != value:
        was = f"was told {row['value']!r} before"
        raise Refused(409, "conflict", f"tell: value is {value!r} for episode {number}, which {was}, must be the same")
    return {"episode": number, "outcome": "told", "value": value, "repeated": row is not None}


def _ended(turn: Turn, number: int, caller: str) -> Row | None:
    """The row of an episode that is closed; None if it is open."""
    decider = turn.decider
    if decider.is_open(number):
        return None
    changed = decider.asked.get(number) or decider.closed.get(number)  # by a call just before, not written yet
    row = changed or turn.rows.get(number)
    if row is None or row["outcome"] == OPEN:
        raise _never_asked(decider, number, caller)
    return row


def _never_asked(decider: Decider, number: int, caller: str) -> Refused:
    asked = f"{decider.selector.n_asked} that {decider.name} asked for"
    return Refused(404, "no_episode", f"{caller}: episode is {number}, must be one of the {asked}")


def _shown(turn: Turn, row: Row) -> EpisodeAnswer:
    number, arm = row["number"], row["arm"]
    left = max(0.0, row["deadline"] - turn.now) if turn.decider.is_open(number) else 0.0
    source = turn.decider.settings["arms"][arm]
    return {"number": number, "arm": arm, "name": source["name"], "policy": source["policy"], "lease": left}
