"""Tasks and episodes in and out of the tables of the service, each function inside an open transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from pastmaster.errors import DamagedError
from pastmaster.reuse.selector import Selector
from pastmaster.service.decider import SNAPSHOT_EVERY, Decider, Event, Row
from pastmaster.service.history import History
from pastmaster.service.schema import OPEN, episodes, pending, states, tasks

AT_ONCE = 500  # rows that one question names
_CLOSE = (
    sa.update(episodes)
    .where(episodes.c.task_id == sa.bindparam("of_task"), episodes.c.number == sa.bindparam("of_number"))
    .values(closed=sa.bindparam("closed"), outcome=sa.bindparam("outcome"), value=sa.bindparam("value"))
)
_INSERT = sa.insert(episodes)


def task_rows(connection: sa.Connection, names: Iterable[str], *, locked: bool) -> dict[str, Row]:
    """The tasks of these names that there are; nobody else changes a locked one before the transaction ends."""
    found: dict[str, Row] = {}
    query = sa.select(tasks).where(tasks.c.name.in_(sorted(set(names)))).order_by(tasks.c.id)
    for row in connection.execute(query.with_for_update() if locked else query).mappings():
        found[row["name"]] = dict(row)
    return found


def task_names(connection: sa.Connection) -> list[str]:
    """The names of all tasks, in order."""
    return sorted(connection.execute(sa.select(tasks.c.name)).scalars())


def make_task(connection: sa.Connection, name: str, settings: Mapping[str, Any], selector: Selector) -> Decider:
    """Store a new task."""
    number = secrets.randbelow(2**47) + 1  # never given twice: what is known of an id in memory stays true
    made = Decider(number, name, settings, selector, History(selector.n_sources + 1))
    row = {"id": number, "name": name, "settings": json.dumps(settings), "events": 0, "clock": 0.0, "chain": ""}
    connection.execute(sa.insert(tasks), row)
    connection.execute(sa.insert(states), made.state() | {"task_id": number})
    return made


def remove_task(connection: sa.Connection, number: int) -> None:
    """Remove a task with all its episodes."""
    for table in (pending, episodes, states):
        connection.execute(sa.delete(table).where(table.c.task_id == number))
    connection.execute(sa.delete(tasks).where(tasks.c.id == number))


def load(connection: sa.Connection, task: Row) -> Decider:
    """A task as its last state has it; ``catch_up`` brings it up to date."""
    state = connection.execute(sa.select(states).where(states.c.task_id == task["id"])).mappings().first()
    if state is None:
        raise DamagedError(f"service task {task['id']}: its state is missing")
    query = sa.select(pending.c.entry).where(pending.c.task_id == task["id"]).order_by(pending.c.number)
    decider = Decider.restored(task, dict(state), connection.execute(query).scalars().all())
    if decider.history.former:
        _count_again(connection, decider)
    return decider


def _count_again(connection: sa.Connection, decider: Decider) -> None:
    """Make the history anew from the rows."""
    c = episodes.c
    query = sa.select(c.arm, c.outcome, c.value).where(c.task_id == decider.id, c.closed <= decider.events)
    decider.history = History(decider.selector.n_sources + 1)
    for arm, outcome, value in connection.execute(query.order_by(c.closed)):
        decider.count(arm, outcome, value)


def catch_up(connection: sa.Connection, decider: Decider, task: Row) -> None:
    """Do what was done to a task since; ``DamagedError`` if that does not lead to what its row says."""
    if decider.events != task["events"]:
        _replay(connection, decider, task["events"])
    if task["chain"] is not None and decider.chain != task["chain"]:
        raise DamagedError(f"service task {decider.id}: its {decider.events} events are not those that were counted")


def _replay(connection: sa.Connection, decider: Decider, events: int) -> None:
    here, c = episodes.c.task_id == decider.id, episodes.c
    asks = sa.select(c.asked, c.number, sa.literal(OPEN), c.arm, sa.literal(None)).where(
        here, c.number >= decider.selector.n_asked
    )
    closes = sa.select(c.closed, c.number, c.outcome, c.arm, c.value).where(here, c.closed > decider.events)
    found = [Event(*row) for query in (asks, closes) for row in connection.execute(query)]
    decider.replay(event for event in found if event.sequence <= events)
    if decider.events != events:
        raise DamagedError(f"service task {decider.id}: {events} events are counted, {decider.events} are there")


def write(connection: sa.Connection, decider: Decider, clock: float) -> None:
    """Write the events that are not written yet, and the state if there were many since the last one."""
    if decider.asked:
        connection.execute(_INSERT, list(decider.asked.values()))
    if decider.closed:
        connection.execute(_CLOSE, list(decider.closed.values()))
    here = tasks.c.id == decider.id
    connection.execute(sa.update(tasks).where(here).values(events=decider.events, clock=clock, chain=decider.chain))
    if decider.events - decider.stored >= SNAPSHOT_EVERY:
        write_state(connection, decider)


def write_state(connection: sa.Connection, decider: Decider) -> None:
    """Write the state as it is now. Of the selector's episodes, only those that something happened to are written."""
    entries = decider.selector.pending(sorted(decider.touched))
    here, first = pending.c.task_id == decider.id, decider.selector.first_open
    connection.execute(sa.delete(pending).where(here, pending.c.number < first))
    for batch in _batches(sorted(number for number in decider.touched if number >= first)):
        connection.execute(sa.delete(pending).where(here, pending.c.number.in_(batch)))
    if entries:
        rows = [{"task_id": decider.id, "number": n, "entry": json.dumps(entry)} for n, entry in entries.items()]
        connection.execute(sa.insert(pending), rows)
    connection.execute(sa.update(states).where(states.c.task_id == decider.id).values(**decider.state()))
    decider.stored, decider.touched = decider.events, set()


def episode_rows(connection: sa.Connection, task: int, numbers: Iterable[int]) -> dict[int, Row]:
    """The rows of these episodes, of those that there are."""
    found: dict[int, Row] = {}
    for batch in _batches(sorted(set(numbers))):
        query = sa.select(episodes).where(episodes.c.task_id == task, episodes.c.number.in_(batch))
        found |= {row["number"]: dict(row) for row in connection.execute(query).mappings()}
    return found


def keyed_rows(connection: sa.Connection, task: int, keys: Iterable[str]) -> dict[str, list[Row]]:
    """The episodes that requests with these keys asked for, in order."""
    found: dict[str, list[Row]] = {}
    for batch in _batches(sorted(set(keys))):
        here = episodes.c.task_id + 0 == task  # or SQLite looks through all episodes of the task
        query = sa.select(episodes).where(here, episodes.c.key.in_(batch))
        for row in connection.execute(query.order_by(episodes.c.number)).mappings():
            found.setdefault(row["key"], []).append(dict(row))
    return found


def count_on(connection: sa.Connection, clocks: Mapping[int, float]) -> None:
    """Write the time of tasks, unless another process has counted further."""
    for task, now in clocks.items():
        connection.execute(sa.update(tasks).where(tasks.c.id == task, tasks.c.clock < now).values(clock=now))


def overdue(connection: sa.Connection, task: int, now: float, most: int) -> list[int]:
    """Open episodes whose deadline is over, the oldest deadline first."""
    c = episodes.c
    query = sa.select(c.number).where(c.task_id == task, c.closed.is_(None), c.deadline <= now)
    return list(connection.execute(query.order_by(c.deadline, c.number).limit(most)).scalars())


def next_open(connection: sa.Connection, task: int, most: int) -> list[Row]:
    """The open episodes that expire next."""
    c = episodes.c
    query = sa.select(c.number, c.arm, c.deadline).where(c.task_id == task, c.closed.is_(None))
    return [dict(row) for row in connection.execute(query.order_by(c.deadline, c.number).limit(most)).mappings()]


def _batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[first : first + AT_ONCE] for first in range(0, len(items), AT_ONCE))
