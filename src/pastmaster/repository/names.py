"""The records of policies and tasks, by name: a policy that was given none is called like the task it came with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from pastmaster.errors import DamagedError
from pastmaster.repository import rows
from pastmaster.repository.listing import Records
from pastmaster.repository.records import PolicyRecord, TaskRecord
from pastmaster.repository.schema import policies as policies_table, tasks as tasks_table


def policy_records(connection: sa.Connection, wanted: Sequence[int] | None = None) -> Records[PolicyRecord]:
    """The policies of these ids, in their order, or all of them."""
    found = rows.fetch(connection, "policies", wanted)
    names = _task_names(connection, [row["id"] for row in found])
    return Records(PolicyRecord.of(row, names.get(row["id"], "")) for row in found)


def distinct_names(policies: Sequence[PolicyRecord]) -> list[str]:
    """What each of these policies is called; its id tells it from others of the same name."""
    names = [policy.name for policy in policies]
    while len(set(names)) < len(names):  # "a (1)" may be another policy's name
        counts = Counter(names)
        names = [
            name if counts[name] == 1 else f"{name} ({policy.id})" for name, policy in zip(names, policies, strict=True)
        ]
    return names


def task_records(connection: sa.Connection, wanted: Sequence[int] | None = None) -> Records[TaskRecord]:
    """The tasks of these ids, in their order, or all of them; a damaged policy leaves its tasks readable."""
    found = rows.fetch(connection, "tasks", wanted)
    of_record = sorted({row["policy_of_record"] for row in found})
    names = _task_names(connection, of_record)
    policies = {number: PolicyRecord(number, f"policy {number}", None, "", "") for number in of_record}
    for batch in rows.batches(of_record):
        here = policies_table.c.id.in_(batch)
        for raw in connection.execute(sa.select(policies_table).where(here)).mappings():
            try:
                row = rows.verified("policies", raw)
            except DamagedError:
                continue
            policies[row["id"]] = PolicyRecord.of(row, names.get(row["id"], ""))
    return Records(TaskRecord.of(row, policies[row["policy_of_record"]]) for row in found)


def _task_names(connection: sa.Connection, wanted: Sequence[int]) -> dict[int, str]:
    """The name of the task that each policy came with, by the policy's id; of several tasks the first."""
    found: dict[int, str] = {}
    for batch in rows.batches(wanted):
        columns = tasks_table.c
        query = sa.select(columns.own_policy, columns.name).where(columns.own_policy.in_(batch)).order_by(columns.id)
        for number, name in connection.execute(query):
            found.setdefault(int(number), str(name))
    return found
