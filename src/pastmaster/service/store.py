"""Tasks and episodes in and out of the tables of the service, each function inside an open transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from pastmaster.errors import DamagedError
from pastmaster.reuse.selector import Selector
from pastmaster.service.decider import SNAPSHOT_EVERY, Decider, Event, Row
from pastmaster.service.history import History
from pastmaster.service.schema import OPEN, episodes, pending, states, tasks

_CLOSE = (
    sa.update(episodes)
    .where(episodes.c.task_id == sa.bindparam("of_task"), episodes.c.number == sa.bindparam("of_number"))
    .values(closed=sa.bindparam("closed"), outcome=sa.bindparam("outcome"), value=sa.bindparam("value"))
)
_INSERT = sa.insert(episodes)


def task_rows(connection: sa.Connection, names: Iterable[str], *, locked: bool) -> dict[str, Row]:
    """The tasks of these names that there are; nobody else changes a locked one before the transaction ends."""
    query = sa.select(tasks).where(tasks.c.name.in_(sorted(set(names)))).order_by(tasks.c.id)
    rows = connection.execute(query.with_for_update() if locked else query).mappings()
    return {row["name"]: dict(row) for row in rows}


def task_names(connection: sa.Connection) -> list[str]:
    """The names of all tasks, in order."""
    return sorted(connection.execute(sa.select(tasks.c.name)).scalars())


def make_task(connection: sa.Connection, name: str, settings: Mapping[str, Any], selector: Selector) -> None:
    """Store a new task."""
    number = secrets.randbelow(2**47) + 1  # never given twice: what is known of an id in memory stays true
    made = Decider(number, name, settings, selector, History(selector.n_sources + 1))
    row = {"id": number, "name": name, "settings": json.dumps(settings), "events": 0, "clock": 0.0, "chain": ""}
    connection.execute(sa.insert(tasks), row)
    connection.execute(sa.insert(states), made.state() | {"task_id": number})


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
    return Decider.restored(task, dict(state), connection.execute(query).scalars().all())


def catch_up(connection: sa.Connection, decider: Decider, task: Row) -> None:
    """Do what was done to a task since; ``DamagedError`` if that does not lead to what its row says."""
    place, counted = f"service task {decider.id}", task["events"]
    if decider.events != counted:
        decider.replay(event for event in _since(connection, decider) if event.sequence <= counted)
        if decider.events != counted:
            raise DamagedError(f"{place}: {counted} events are counted, {decider.events} are there")
    if decider.chain != task["chain"]:
        raise DamagedError(f"{place}: its {decider.events} events are not those that were counted")


def _since(connection: sa.Connection, decider: Decider) -> list[Event]:
    """The events that are stored and not in memory."""
    c = episodes.c
    asks = sa.select(c.asked, c.number, sa.literal(OPEN), c.arm, sa.literal(None))
    closes = sa.select(c.closed, c.number, c.outcome, c.arm, c.value)
    queries = (
        asks.where(c.task_id == decider.id, c.number >= decider.selector.n_asked),
        closes.where(c.task_id == decider.id, c.closed > decider.events),
    )
    return [Event(*row) for query in queries for row in connection.execute(query)]


def write(connection: sa.Connection, decider: Decider, clock: float) -> None:
    """Write the events that are not written yet, and the state if there were many since the last one."""
    if decider.asked:
        connection.execute(_INSERT, list(decider.asked.values()))
    if decider.closed:
        connection.execute(_CLOSE, list(decider.closed.values()))
    here = tasks.c.id == decider.id
    connection.execute(sa.update(tasks).where(here).values(events=decider.events, clock=clock, chain=decider.chain))
    if decider.events - decider.stored >= SNAPSHOT_EVERY:
        _write_state(connection, decider)


def _write_state(connection: sa.Connection, decider: Decider) -> None:
    """Write the state as it is now. Of the selector's episodes, only those that something happened to are written."""
    touched = sorted(decider.touched)
    for gone in (pending.c.number < decider.selector.first_open, pending.c.number.in_(touched)):
        connection.execute(sa.delete(pending).where(pending.c.task_id == decider.id, gone))
    entries = decider.selector.pending(touched)
    if entries:
        rows = [{"task_id": decider.id, "number": n, "entry": json.dumps(entry)} for n, entry in entries.items()]
        connection.execute(sa.insert(pending), rows)
    connection.execute(sa.update(states).where(states.c.task_id == decider.id).values(**decider.state()))
    decider.stored, decider.touched = decider.events, set()


def episode_rows(connection: sa.Connection, task: int, numbers: Iterable[int]) -> dict[int, Row]:
    """The rows of these episodes, of those that there are."""
    query = sa.select(episodes).where(episodes.c.task_id == task, episodes.c.number.in_(sorted(numbers)))
    return {row["number"]: dict(row) for row in connection.execute(query).mappings()}


def keyed_rows(connection: sa.Connection, task: int, keys: Iterable[str]) -> dict[str, list[Row]]:
    """The episodes that requests with these keys asked for, in order."""
    found: dict[str, list[Row]] = {}
    here = episodes.c.task_id + 0 == task  # or SQLite looks through all episodes of the task
    query = sa.select(episodes).where(here, episodes.c.key.in_(sorted(keys))).order_by(episodes.c.number)
    for row in connection.execute(query).mappings():
        found.setdefault(row["key"], []).append(dict(row))
    return found


def count_on(connection: sa.Connection, clocks: Mapping[int, float]) -> None:
    """Write the time of tasks, unless another process has counted further."""
    for task, now in clocks.items():
        connection.execute(sa.update(tasks).where(tasks.c.id == task, tasks.c.clock < now).values(clock=now))


def next_open(connection: sa.Connection, task: int, most: int, late: float = float("inf")) -> list[Row]:
    """The open episodes that expire next, or of those the ones whose deadline is over at some time."""
    c = episodes.c
    query = sa.select(c.number, c.arm, c.deadline).where(c.task_id == task, c.closed.is_(None), c.deadline <= late)
    return [dict(row) for row in connection.execute(query.order_by(c.deadline, c.number).limit(most)).mappings()]
