"""Removal of records, damaged ones too: what is removed need not be readable."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa

from pastmaster.errors import DamagedError
from pastmaster.repository import rows
from pastmaster.repository.check import Examiner, examined
from pastmaster.repository.memory import Contents
from pastmaster.repository.schema import RECORDS, arrays, clusterings, runs, sequences, tasks
from pastmaster.repository.worth import vector

ROW = ("row_ids", "row_values", "row_errors")
ROUNDS = 8  # what a removal leaves without its like is found in the next round; two or three are enough
LEFT_OUT = 1000


def forget_task(connection: sa.Connection, contents: Contents, number: int) -> None:
    """Remove a task, its row, and its policies unless other tasks use them; its runs stay, without a task."""
    rows.require(connection, "tasks", [number])
    query = sa.select(tasks.c.own_policy, tasks.c.policy_of_record).where(tasks.c.id == number)
    policies = connection.execute(query).one()
    _free_runs(connection, number)
    rows.remove(connection, "tasks", number)
    contents.tasks.forget(number)
    drop_unused(connection, contents, *policies)


def drop_unused(connection: sa.Connection, contents: Contents, *numbers: int) -> None:
    """Remove those of these policies that are neither a task's own nor of record."""
    for number in set(numbers):
        if not is_used(connection, number):
            rows.remove(connection, "policies", number)
            contents.policies.forget(number)


def is_used(connection: sa.Connection, policy: int, besides: int | None = None) -> bool:
    """Whether a policy is the own or the one of record of a task, ``besides`` this one."""
    here = sa.or_(tasks.c.own_policy == policy, tasks.c.policy_of_record == policy)
    if besides is not None:
        here = here & (tasks.c.id != besides)
    return connection.execute(sa.select(tasks.c.id).where(here).limit(1)).first() is not None


def forget_damaged(connection: sa.Connection, contents: Contents) -> None:
    """Remove damaged records, and what cannot be without them, until no damage is found.

    With a stream go its runs and clusterings; with a policy the tasks that use it, but for those that did not keep
    their own and were valued under others; with a task the policies that no other uses. A run whose task is lost
    stays, without a task. Where a run of a stream is lost, the stream ends before it: later runs and clusterings stay,
    but belong to no stream. Ids that were given out are not given out again.
    """
    for _ in range(ROUNDS):
        found = examined(connection)
        if not found.damage:
            break
        _count_on(connection, found)
        _forget_found(connection, contents, found)
        _forget_orphans(connection)


def _forget_found(connection: sa.Connection, contents: Contents, found: Examiner) -> None:
    """Remove the records that were found damaged or missing."""
    places = [
        place
        for item in found.damage
        if len(place := item.place.split()) == 2 and place[1].removeprefix("-").isdecimal()
    ]
    named = {table: sorted({int(number) for owner, number in places if owner == table}) for table in RECORDS}
    if named["admissions"]:
        raise DamagedError(
            f"Repository.remove_damaged: admissions {named['admissions'][0]}, which holds max_loss, is damaged, "
            "nothing was changed: restore a backup"
        )
    lost = [number for number in named["streams"] if number not in found.rows["streams"]]
    for table in (runs, clusterings):
        here = table.c.stream_id.in_(lost)
        for number in {*named[table.name], *connection.execute(sa.select(table.c.id).where(here)).scalars()}:
            rows.remove(connection, table.name, number)
    for number in lost:
        rows.remove(connection, "streams", number)
    for number in named["streams"]:
        _end_stream(connection, number)
    lost = named["policies"]
    using = sa.or_(tasks.c.own_policy.in_(lost), tasks.c.policy_of_record.in_(lost))
    without = {*connection.execute(sa.select(tasks.c.id).where(using)).scalars()} - {*named["tasks"]}
    gone = {*named["tasks"], *(number for number in without if not _served_by_another(connection, number, lost))}
    for number in gone:
        _free_runs(connection, number)
        rows.remove(connection, "tasks", number)
        contents.tasks.forget(number)
    for number in lost:
        rows.remove(connection, "policies", number)
    if gone:
        drop_unused(connection, contents, *rows.numbers(connection, "policies"))


def _served_by_another(connection: sa.Connection, number: int, lost: Sequence[int]) -> bool:
    """Give a task that did not keep its own policy the best of those it was valued under, if one is left."""
    task = rows.fetch(connection, "tasks", [number])[0]
    if "forgotten" not in task["settings"]:
        return False
    stored = next(iter(rows.fetch_arrays(connection, "tasks", [number], ROW)))[1]
    (ids, values), (_, errors) = (vector(stored, "row", what, f"tasks {number}") for what in ("values", "errors"))
    left = np.isin(ids, rows.numbers(connection, "policies")) & ~np.isin(ids, lost)
    if not left.any():
        return False
    best = np.flatnonzero(left)[values[left].argmax()]
    changed = {"own_policy": int(ids[best]), "policy_of_record": int(ids[best])}
    rows.update(connection, "tasks", task, **changed, value=float(values[best]), value_error=float(errors[best]))
    return True


def _end_stream(connection: sa.Connection, number: int) -> None:
    """Let a stream end before the first of its runs that is missing."""
    found = rows.fetch_where(connection, "runs", runs.c.stream_id == number)
    positions = {run["position"] for run in found}
    end = next(position for position in itertools.count() if position not in positions)
    for run in found:
        if run["position"] is None or run["position"] > end:
            rows.update(connection, "runs", run, stream_id=None, position=None)
    for made in rows.fetch_where(connection, "clusterings", clusterings.c.stream_id == number):
        if made["position"] is None or made["position"] > end:
            rows.update(connection, "clusterings", made, stream_id=None, position=None)


def _free_runs(connection: sa.Connection, task: int) -> None:
    """Let the runs on a task be without it."""
    for run in rows.fetch_where(connection, "runs", runs.c.task_id == task):
        rows.update(connection, "runs", run, task_id=None)


def _forget_orphans(connection: sa.Connection) -> None:
    """Remove arrays that belong to no record."""
    connection.execute(sa.delete(arrays).where(arrays.c.owner.not_in(list(RECORDS))))
    for name, table in RECORDS.items():
        there = sa.select(table.c.id)
        connection.execute(sa.delete(arrays).where(arrays.c.owner == name, arrays.c.owner_id.not_in(there)))


def _count_on(connection: sa.Connection, found: Examiner) -> None:
    """Give out no id again: where a counter is lost, some are left out, for records that were removed before."""
    connection.execute(sa.delete(sequences))
    for table in RECORDS:
        highest = found.highest(table)
        spare = 0 if table == "admissions" else highest + LEFT_OUT  # a rule is never removed
        last = found.counted.get(table, min(highest + spare, rows.LARGEST_ID - 1))
        connection.execute(sa.insert(sequences).values(name=table, last=last))
