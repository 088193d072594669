"""Removal of records, damaged ones too: what is removed need not be readable."""

from __future__ import annotations

import sqlalchemy as sa

from pastmaster.repository import rows
from pastmaster.repository.check import Damage
from pastmaster.repository.memory import Contents
from pastmaster.repository.schema import RECORDS, clusterings, runs, sequences, tasks


def forget_task(connection: sa.Connection, contents: Contents, number: int) -> None:
    """Remove a task, its row, and its policies unless other tasks use them; its runs stay, without a task."""
    rows.require(connection, "tasks", [number])
    query = sa.select(tasks.c.own_policy, tasks.c.policy_of_record).where(tasks.c.id == number)
    policies = connection.execute(query).one()
    for run in rows.fetch_where(connection, "runs", runs.c.task_id == number):
        rows.update(connection, "runs", run, task_id=None)
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


def forget_damaged(connection: sa.Connection, contents: Contents, damage: list[Damage]) -> None:
    """Remove damaged records; with a stream its runs and clusterings, with a policy the tasks that use it."""
    places = [place for item in damage if len(place := item.place.split()) == 2 and place[1].isdigit()]
    named = {table: sorted({int(number) for owner, number in places if owner == table}) for table in RECORDS}
    for table in (runs, clusterings):
        here = table.c.stream_id.in_(named["streams"])
        for number in {*named[table.name], *connection.execute(sa.select(table.c.id).where(here)).scalars()}:
            rows.remove(connection, table.name, number)
    for number in named["streams"]:
        rows.remove(connection, "streams", number)
    lost = named["policies"]
    using = sa.or_(tasks.c.own_policy.in_(lost), tasks.c.policy_of_record.in_(lost))
    for number in {*named["tasks"], *connection.execute(sa.select(tasks.c.id).where(using)).scalars()}:
        if connection.execute(sa.select(tasks.c.id).where(tasks.c.id == number)).first():
            forget_task(connection, contents, number)
        rows.remove(connection, "tasks", number)  # its arrays, where the record itself is missing
    for number in lost:
        rows.remove(connection, "policies", number)
    for name, table in RECORDS.items():
        highest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0
        counter = sequences.c.name == name
        connection.execute(sa.update(sequences).where(counter, sequences.c.last < highest).values(last=highest))
