"""Many tasks in one transaction: what an add asks of the database is asked once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from pastmaster.repository import rows
from pastmaster.repository.addition import Addition, Arrays, check_like, first_task
from pastmaster.repository.admission import Admission
from pastmaster.repository.memory import Contents
from pastmaster.repository.schema import tasks as tasks_table


def commit_all(contents: Contents, additions: Sequence[Addition]) -> list[int]:
    """Store tasks and policies; returns the tasks' ids.

    Each try begins with what was known before the transaction: ids of records that were not committed are given to
    other records, and what was read or valued under them would then be taken for theirs.
    """
    database, inside = contents.database, contents
    rule = database.read(contents.rule)
    if rule is not None:
        database.read(lambda connection: _value(connection, contents, additions))
    else:
        for one in additions:
            one.prepare(database.read)
    known = [(dict(one.row.worths), dict(one.column.worths)) for one in additions]

    def insert(connection: sa.Connection) -> list[int]:
        nonlocal inside
        inside = contents.apart()
        for one, (row, column) in zip(additions, known, strict=True):
            one.contents, one.row.worths, one.column.worths = inside, dict(row), dict(column)
        now = contents.rule(connection)
        return [one.insert(connection, None) for one in additions] if now is None else _insert(connection, now)

    def _insert(connection: sa.Connection, now: Admission) -> list[int]:
        return Group(connection, inside, now).insert(additions)

    numbers = database.write(insert)
    contents.take(inside)
    for one in additions:
        one.contents = contents
        one.remember(task=rule is None)
    return numbers


def _value(connection: sa.Connection, contents: Contents, additions: Sequence[Addition]) -> None:
    """Value the candidates there are now in all tasks."""
    first, policies = first_task(connection), contents.policy_ids(connection)
    for one in additions:
        check_like(first, one.task, one.caller)
        contents.value_policies(lambda work: work(connection), one.row, one.valued, policies, stacked=True)


class Group:
    """Tasks that are stored by a rule in one transaction, in which nobody else writes."""

    def __init__(self, connection: sa.Connection, contents: Contents, rule: Admission) -> None:
        self.connection, self.contents, self.rule = connection, contents, rule
        self.policies, self.first = [*contents.policy_ids(connection)], first_task(connection)
        self.waiting: list[tuple[Addition, rows.Row, Arrays]] = []

    def insert(self, additions: Sequence[Addition]) -> list[int]:
        """Store the tasks; returns their ids."""
        known, found = self._stored([one.task_row["digest"] for one in additions]), dict[int, int]()
        for place, one in enumerate(additions):
            digest = one.task_row["digest"]
            one.numbers.clear()
            if digest in known or self.first is None:
                self._write(found)
                found[place] = one.insert(self.connection, None)
                self.policies, self.first = [*self.contents.policy_ids(self.connection)], first_task(self.connection)
            else:
                known.add(digest)
                self.waiting.append(self._placed(one))
                found[place] = 0
        self._write(found)
        return [found[place] for place in range(len(additions))]

    def _stored(self, digests: Sequence[str]) -> set[str]:
        """Those of these tasks that are stored already."""
        found: set[str] = set()
        for first in range(0, len(digests), rows.BATCH):
            here = tasks_table.c.digest.in_(digests[first : first + rows.BATCH])
            found |= set(self.connection.execute(sa.select(tasks_table.c.digest).where(here)).scalars())
        return found

    def _placed(self, one: Addition) -> tuple[Addition, rows.Row, Arrays]:
        """A task with its own policy, valued under what it has not been yet."""
        check_like(self.first, one.task, one.caller)
        missing = [number for number in self.policies if number not in one.row.worths]
        if missing:
            ask = lambda work: work(self.connection)  # noqa: E731
            self.contents.value_policies(ask, one.row, one.valued, missing, stacked=True)
        one.rule = self.rule
        own, row, arrays = one.placed(self.connection, self.policies)
        if "policies" in one.numbers:
            self.policies.append(own)
        return one, row, arrays

    def _write(self, found: dict[int, int]) -> None:
        """Store the tasks that wait, and note their ids."""
        numbers = rows.insert_many(self.connection, "tasks", [(row, arrays) for _, row, arrays in self.waiting])
        for (one, _, _), number in zip(self.waiting, numbers, strict=True):
            one.numbers["tasks"] = number
        places = [place for place, number in found.items() if number == 0]
        found |= zip(places, numbers, strict=True)
        self.waiting.clear()
