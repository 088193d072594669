"""One task's decisions: its selector, in step with the events in the database.

``ask`` and ``close`` do what the library's selector does, one event each. The events that are not written yet are kept
here until they are. A state and the rows after it give the same selector again, bit for bit: the
events are done again in their order, and each ask must choose the arm that was stored.

The events are linked: each has a digest of itself and of the one before. A task's row holds the last one, so a process
knows whether what it has in memory is what the database has. A server that crashed may have lost events that another
process had read, and others may have come in their place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pastmaster.errors import DamagedError, InvalidInputError
from pastmaster.reuse import SELECTORS, Episode
from pastmaster.reuse.selector import Selector
from pastmaster.service.history import History
from pastmaster.service.schema import CANCELLED, EXPIRED, OPEN

Row = dict[str, Any]
SNAPSHOT_EVERY = 1000  # events: so many are done again after a restart, at most
SERVED = {name: kind for name, kind in SELECTORS.items() if not kind.mixes and kind.bounded}
"""The selectors of the service: each episode is one arm's."""


class Event(NamedTuple):
    """Something that happened to an episode, as the rows tell it."""

    sequence: int
    number: int
    outcome: int
    arm: int
    value: float | None


@dataclass(eq=False)
class Decider:
    """A task that is served: settings, selector, history, and what is not written yet."""

    id: int
    name: str
    settings: Mapping[str, Any]
    selector: Selector
    history: History
    events: int = 0  # done so far
    stored: int = 0  # the events in the last state that was written
    chain: str = ""  # the digest of the last event, and so of all
    asked: dict[int, Row] = field(default_factory=dict)  # new rows, by number
    closed: dict[int, Row] = field(default_factory=dict)  # changes of older rows, by number
    touched: set[int] = field(default_factory=set)  # episodes that something happened to since the last state
    dirty: bool = False  # whether it may be ahead of the database

    @property
    def changed(self) -> bool:
        """Whether there are events that are not written."""
        return bool(self.asked or self.closed)

    def ask(self, deadline: float, key: str | None) -> Row:
        """The next episode."""
        episode = self.selector.ask()
        self.events += 1
        self._link(episode.number, OPEN, episode.arm, None)
        row = {
            "task_id": self.id,
            "number": episode.number,
            "arm": episode.arm,
            "deadline": deadline,
            "asked": self.events,
            "closed": None,
            "outcome": OPEN,
            "value": None,
            "key": key,
        }
        self.asked[episode.number] = row
        self.touched.add(episode.number)
        return row

    def is_open(self, number: int) -> bool:
        """Whether an episode is open."""
        return self.selector.arm_of(number) is not None

    def close(self, number: int, outcome: int, value: float | None = None) -> None:
        """An open episode is told, cancelled, or expires; ``InvalidInputError`` if the return is refused."""
        arm = self._close(number, outcome, value)
        self.events += 1
        self._link(number, outcome, arm, value)
        change = {"closed": self.events, "outcome": outcome, "value": value}
        if number in self.asked:
            self.asked[number] |= change
        else:
            self.closed[number] = {"of_task": self.id, "of_number": number} | change
        self.touched.add(number)

    def _close(self, number: int, outcome: int, value: float | None) -> int:
        arm = self.selector.arm_of(number)
        assert arm is not None
        if value is None:
            self.selector.cancel(Episode(arm, number))
        else:
            self.selector.tell(Episode(arm, number), value)
            lower, span = self.selector.bounds.lower, self.selector.bounds.span
            self.history.tell(arm, min(max((value - lower) / span, 0.0), 1.0))
        if outcome == EXPIRED:
            self.history.expire(arm)
        if outcome == CANCELLED:
            self.history.cancelled += 1
        return arm

    def _link(self, number: int, outcome: int, arm: int, value: float | None) -> None:
        """Add the last event to the chain."""
        event = f"{self.chain} {self.events} {number} {outcome} {arm} {value!r}"
        self.chain = hashlib.blake2b(event.encode(), digest_size=8).hexdigest()

    def written(self) -> None:
        """All events are in the database."""
        self.asked, self.closed, self.dirty = {}, {}, False

    def replay(self, events: Iterable[Event]) -> None:
        """Do again what others did, or what was done before a restart."""
        for event in sorted(events):
            if event.sequence != self.events + 1:
                raise DamagedError(f"service task {self.id}: event {self.events + 1} is missing")
            place = f"service task {self.id}: episode {event.number}"
            if event.outcome == OPEN:
                episode = self.selector.ask()
                if tuple(episode) != (event.arm, event.number):
                    raise DamagedError(f"{place}: is of arm {event.arm}, but the selector chooses {tuple(episode)}")
            elif not self.is_open(event.number):
                raise DamagedError(f"{place}: is closed by event {event.sequence}, but is not open then")
            else:
                try:
                    self._close(event.number, event.outcome, event.value)
                except InvalidInputError as error:
                    raise DamagedError(f"{place}: {error}") from None
            self.events += 1
            self._link(event.number, event.outcome, event.arm, event.value)
            self.touched.add(event.number)

    def state(self) -> Row:
        """The row that holds its state after all events; the selector's episodes are apart."""
        state = {"selector": self.selector.to_dict_alone(), "history": self.history.to_dict(), "chain": self.chain}
        text = json.dumps(state, allow_nan=False)
        return {"events": self.events, "state": text, "checksum": checksum(self.id, self.events, text)}

    @classmethod
    def restored(cls, task: Row, state: Row, entries: Sequence[str]) -> Decider:
        """From the rows of a task and its state, and the selector's episodes then."""
        place = f"service task {task['id']}"
        if state["checksum"] != checksum(task["id"], state["events"], state["state"]):
            raise DamagedError(f"{place}: the checksum does not match its state")
        try:
            numbers = json.loads(state["state"])
            selector = SERVED[numbers["selector"]["selector"]].from_dict(numbers["selector"])
            selector._put_back(json.loads(entry) for entry in entries)
            history, chain = History.from_dict(numbers["history"]), str(numbers["chain"])
        except (KeyError, TypeError, ValueError) as error:  # InvalidInputError is one
            raise DamagedError(f"{place}: its state cannot be read: {error}") from None
        settings = json.loads(task["settings"])
        events = state["events"]
        return cls(task["id"], task["name"], settings, selector, history, events, stored=events, chain=chain)


def checksum(task: int, events: int, text: str) -> str:
    """Of a state, for this task after so many events."""
    return hashlib.sha256(f"{task} {events} {text}".encode()).hexdigest()
