"""Removal of records: of a task with what only it uses, of policies that no task uses."""

from __future__ import annotations

import sqlalchemy as sa

from pastmaster.repository import rows
from pastmaster.repository.memory import Contents
from pastmaster.repository.schema import runs, tasks


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


def _free_runs(connection: sa.Connection, task: int) -> None:
    """Let the runs on a task be without it."""
    for run in rows.fetch_where(connection, "runs", runs.c.task_id == task):
        rows.update(connection, "runs", run, task_id=None)
