"""Tasks and policies as objects: read when they are looked at, then kept. An id always means the same record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.checks import is_whole
from pastmaster.errors import InvalidInputError
from pastmaster.repository import records, rows
from pastmaster.repository.database import Database
from pastmaster.repository.worth import Valued, Worth
from pastmaster.tables import shown
from pastmaster.tasks.tabular import ARRAYS

MOST_BYTES = 2**31  # of arrays kept of one kind; what comes after is read anew each time
Item = TypeVar("Item")


class Memory(Generic[Item]):
    """The records of one table as objects, kept as long as there is room."""

    def __init__(self, table: str, names: Sequence[str], make: Callable[[rows.Row, dict[str, Array]], Item]) -> None:
        self.table, self.names, self.make = table, names, make
        self.kept: dict[int, Item] = {}
        self.sizes: dict[int, int] = {}
        self.room = MOST_BYTES

    def get(self, connection: sa.Connection, wanted: Sequence[int]) -> list[Item]:
        """The objects of these ids, in their order."""
        found = {number: self.kept[number] for number in wanted if number in self.kept}
        for batch in rows.batches([number for number in wanted if number not in found]):
            arrays = dict(rows.fetch_arrays(connection, self.table, batch, self.names))
            for row in rows.fetch(connection, self.table, batch):
                number = row["id"]
                found[number] = self.put(number, self.make(row, arrays[number]), arrays[number])
        return [found[number] for number in wanted]

    def put(self, number: int, item: Item, arrays: dict[str, Array]) -> Item:
        """Keep an object if there is room."""
        size = sum(array.nbytes for array in arrays.values())
        if number not in self.kept and size <= self.room:
            self.room -= size
            self.kept[number], self.sizes[number] = item, size
        return item

    def forget(self, number: int) -> None:
        """Drop the object of a record that was removed."""
        self.kept.pop(number, None)
        self.room += self.sizes.pop(number, 0)


class Contents:
    """A repository's database, with the tasks and policies that were read from it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clear()

    def clear(self) -> None:
        """Drop all objects that were read."""
        self.tasks = Memory("tasks", ARRAYS, valued_of)
        self.policies = Memory("policies", ("policy",), records.policy_of)
        self.worths: dict[tuple[int, int], Worth] = {}  # by the ids of task and policy
        self.spreads: dict[tuple[int, int], float] = {}  # of one return

    def read(self, memory: Memory[Item], numbers: list[int]) -> list[Item]:
        """The objects of these ids; an id that another process has removed is refused."""

        def get(connection: sa.Connection) -> list[Item]:
            rows.require(connection, memory.table, numbers)
            return memory.get(connection, numbers)

        return self.database.read(get)


class NoItemError(InvalidInputError, IndexError):
    """A sequence has no item of this number: an ``IndexError``, as loops expect it."""


class Lazy(Sequence[Item]):
    """A sequence that reads an item when it is looked at; a loop over it reads some at a time.

    Errors call it ``name``.
    """

    def __init__(self, name: str, ids: list[int], read: Callable[[list[int]], list[Item]]) -> None:
        self.name, self.ids, self._read = name, ids, read

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return Lazy(self.name, self.ids[index], self._read)
        n = len(self.ids)
        if not (is_whole(index) and -n <= index < n):
            there = f"in 0..{n - 1}: a place in the list, not an id" if n else "a place in the list, which is empty"
            raise NoItemError(f"{self.name}: index is {shown(index)}, must be {there}")
        return self._read([self.ids[index]])[0]

    def __iter__(self) -> Iterator[Item]:
        for batch in rows.batches(self.ids):
            yield from self._read(list(batch))

    def __repr__(self) -> str:
        return f"<{len(self)} records, read when looked at>"


def valued_of(row: rows.Row, arrays: dict[str, Array]) -> Valued:
    """A stored task, and how policies are valued in it."""
    return Valued(records.task_of(row, arrays), row["settings"]["evaluation_episodes"], evaluation_seed(row["digest"]))


def evaluation_seed(digest: str) -> int:
    """The seed of a task's evaluation episodes: its own, so that values do not depend on when it was added."""
    return int(digest[:15], 16)
