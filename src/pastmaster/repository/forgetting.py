"""Taking records out of a repository, damaged ones too: what is removed need not be readable."""

from __future__ import annotations

import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.repository import rows
from pastmaster.repository.addition import drop_unused
from pastmaster.repository.check import Damage
from pastmaster.repository.memory import Memory
from pastmaster.repository.schema import RECORDS, clusterings, runs, sequences, tasks


def forget_task(connection: sa.Connection, memory: Memory[Array], number: int) -> None:
    """Remove a task, its row, and its policies unless others go by them; its runs stay, without a task."""
    rows.require(connection, "tasks", [number])
    query = sa.select(tasks.c.own_policy, tasks.c.policy_of_record).where(tasks.c.id == number)
    policies = connection.execute(query).one()
    for run in rows.fetch_where(connection, "runs", runs.c.task_id == number):
        rows.update(connection, "runs", run, task_id=None)
    rows.remove(connection, "tasks", number)
    drop_unused(connection, memory, *policies)


def forget_damaged(connection: sa.Connection, memory: Memory[Array], damage: list[Damage]) -> None:
    """Remove damaged records: of a stream its runs and clusterings too, of a policy the tasks that go by it."""
    named = {table: _numbers(damage, table) for table in RECORDS}
    for table, its_table in (("runs", runs), ("clusterings", clusterings)):
        here = its_table.c.stream_id.in_(named["streams"])
        for number in {*named[table], *connection.execute(sa.select(its_table.c.id).where(here)).scalars()}:
            rows.remove(connection, table, number)
    for number in named["streams"]:
        rows.remove(connection, "streams", number)
    lost = named["policies"]
    using = sa.or_(tasks.c.own_policy.in_(lost), tasks.c.policy_of_record.in_(lost))
    for number in {*named["tasks"], *connection.execute(sa.select(tasks.c.id).where(using)).scalars()}:
        if connection.execute(sa.select(tasks.c.id).where(tasks.c.id == number)).first():
            forget_task(connection, memory, number)
        rows.remove(connection, "tasks", number)  # its arrays, where the record itself has gone
    for number in lost:
        rows.remove(connection, "policies", number)
    for table, columns in RECORDS.items():
        highest = connection.execute(sa.select(sa.func.max(columns.c.id))).scalar() or 0
        counter = sequences.c.name == table
        connection.execute(sa.update(sequences).where(counter, sequences.c.last < highest).values(last=highest))


def _numbers(damage: list[Damage], table: str) -> list[int]:
    """The ids of a table's damaged records."""
    words = [item.place.split() for item in damage]
    return sorted({int(word[1]) for word in words if len(word) == 2 and word[0] == table and word[1].isdigit()})
