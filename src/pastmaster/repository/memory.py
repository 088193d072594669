"""Tasks and policies that have been read are kept: their ids always mean the same, so nothing goes stale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.repository import records, rows
from pastmaster.repository.worth import Valued

MOST_BYTES = 2**31  # of arrays kept of one kind; what comes after is read anew each time
Thing = TypeVar("Thing")


class Memory(Generic[Thing]):
    """The records of one table, made into things, kept as long as there is room."""

    def __init__(self, table: str, names: Sequence[str], make: Callable[[rows.Row, dict[str, Array]], Thing]) -> None:
        self.table, self.names, self.make = table, names, make
        self.kept: dict[int, Thing] = {}
        self.sizes: dict[int, int] = {}
        self.room = MOST_BYTES

    def get(self, connection: sa.Connection, wanted: Sequence[int]) -> list[Thing]:
        """The things of these numbers, in their order."""
        found = {number: thing for number in wanted if (thing := self.kept.get(number)) is not None}
        missing = [number for number in wanted if number not in found]
        for batch in rows.batches(missing):
            stored = dict(rows.fetch_arrays(connection, self.table, batch, self.names))
            for row in rows.fetch(connection, self.table, batch):
                found[row["id"]] = self.put(row["id"], self.make(row, stored[row["id"]]), stored[row["id"]])
        return [found[number] for number in wanted]

    def put(self, number: int, thing: Thing, arrays: dict[str, Array]) -> Thing:
        """Keep a thing if there is room."""
        size = sum(array.nbytes for array in arrays.values())
        if number not in self.kept and size <= self.room:
            self.room -= size
            self.kept[number], self.sizes[number] = thing, size
        return thing

    def forget(self, number: int) -> None:
        """A record was removed."""
        self.kept.pop(number, None)
        self.room += self.sizes.pop(number, 0)


def valued_of(row: rows.Row, arrays: dict[str, Array]) -> Valued:
    """A task, and how policies are valued in it."""
    return Valued(records.task_of(row, arrays), row["settings"]["evaluation_episodes"], evaluation_seed(row["digest"]))


def evaluation_seed(digest: str) -> int:
    """The seed of a task's evaluation episodes: its own, so that values do not depend on when it was added."""
    return int(digest[:15], 16)


def task_memory() -> Memory[Valued]:
    """For tasks."""
    return Memory("tasks", records.MODEL, valued_of)


def policy_memory() -> Memory[Any]:
    """For policies."""
    return Memory("policies", ("policy",), records.policy_of)
