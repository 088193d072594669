"""Tasks and policies as objects: read when they are looked at, then kept. An id always means the same record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.checks import is_whole
from pastmaster.errors import InvalidInputError
from pastmaster.repository import admission, records, rows
from pastmaster.repository.database import Database, Work
from pastmaster.repository.schema import admissions, policies as policies_table, tasks as tasks_table
from pastmaster.repository.stack import Stack
from pastmaster.repository.worth import Valued, Vector, Worth
from pastmaster.tables import shown
from pastmaster.tasks.tabular import ARRAYS, TabularMDP

MOST_BYTES = 2**31  # of arrays kept of one kind; what comes after is read anew each time
Item = TypeVar("Item")
Ask = Callable[[Work[Any]], Any]
"""Runs work on a connection: in a transaction of its own, like ``Database.read``, or in one that is open."""
STATE = sa.select(
    sa.select(sa.func.min(tasks_table.c.id)).scalar_subquery(),
    sa.select(sa.func.max(admissions.c.id)).scalar_subquery(),
    sa.select(sa.func.count()).select_from(policies_table).scalar_subquery(),
    sa.select(sa.func.max(policies_table.c.id)).scalar_subquery(),
)
"""What tells whether the first task, the rule, or the list of policies are others: no id is given twice."""


def on(connection: sa.Connection) -> Ask:
    """Asks in a transaction that is open."""
    return lambda work: work(connection)


class Memory(Generic[Item]):
    """The records of one table as objects, kept as long as there is room.

    Threads share it without a lock, which a fork or a signal's handler might find taken: each change is one operation
    on a dict, and only who has put an object there, or taken it away, counts its bytes.
    """

    def __init__(self, table: str, names: Sequence[str], make: Callable[[rows.Row, dict[str, Array]], Item]) -> None:
        self.table, self.names, self.make = table, names, make
        self.kept: dict[int, tuple[Item, int]] = {}  # with their bytes
        self.room = MOST_BYTES

    def get(self, ask: Ask, wanted: Sequence[int]) -> list[Item]:
        """The objects of these ids, in their order; ``ask`` gives a connection if some are to be read."""
        found = {number: held[0] for number in wanted if (held := self.kept.get(number)) is not None}
        for batch in rows.batches([number for number in wanted if number not in found]):
            found |= ask(partial(self._read, wanted=batch))
        return [found[number] for number in wanted]

    def _read(self, connection: sa.Connection, wanted: Sequence[int]) -> dict[int, Item]:
        arrays = dict(rows.fetch_arrays(connection, self.table, wanted, self.names))
        found = {}
        for row in rows.fetch(connection, self.table, wanted):
            number = row["id"]
            found[number] = self.put(number, self.make(row, arrays[number]), arrays[number])
        return found

    def put(self, number: int, item: Item, arrays: dict[str, Array]) -> Item:
        """Keep an object if there is room."""
        held = item, sum(array.nbytes for array in arrays.values())
        if held[1] <= self.room and self.kept.setdefault(number, held) is held:
            self.room -= held[1]
        return item

    def copy(self) -> Memory[Item]:
        """Another memory of the same objects."""
        other = Memory(self.table, self.names, self.make)
        other.kept, other.room = dict(self.kept), self.room
        return other

    def forget(self, number: int) -> None:
        """Drop the object of a record that was removed."""
        held = self.kept.pop(number, None)
        if held is not None:
            self.room += held[1]


class Contents:
    """A repository's database, with the tasks and policies that were read from it.

    Threads share it. Another thread may replace any attribute at any time, so each is looked up once, and then used.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clear()

    def clear(self) -> None:
        """Drop all objects that were read."""
        self.tasks = Memory("tasks", (*ARRAYS, records.MOVES), valued_of)
        self.policies = Memory("policies", ("policy",), records.policy_of)
        self.worths: dict[tuple[int, int], Worth] = {}  # by the ids of task and policy
        self.spreads: dict[tuple[int, int], float] = {}  # of one return
        self.stack = Stack()
        self._first: rows.Row | None = None
        self._rule: tuple[int | None, admission.Admission | None] = (None, None)
        self._ids: tuple[tuple[int, int | None], list[int]] = ((0, None), [])

    def apart(self) -> Contents:
        """The same, for one try of a transaction that reads its own records again.

        If it is not committed, their ids are given to other records: nothing that is read there may be found here.
        """
        other = Contents(self.database)
        other.tasks, other.policies, other.stack = self.tasks.copy(), self.policies.copy(), self.stack
        other._first, other._rule, other._ids = self._first, self._rule, self._ids
        return other

    def take(self, other: Contents) -> None:
        """Remember what was read ``apart`` by a transaction that is committed."""
        self.tasks, self.policies, self.stack = other.tasks, other.policies, other.stack
        self._first, self._rule, self._ids = other._first, other._rule, other._ids

    def look(self, connection: sa.Connection) -> tuple[rows.Row | None, admission.Admission | None, list[int]]:
        """The task that was stored first, the rule by which policies are stored, and the ids of all policies.

        What was read before is not read again.
        """
        first, last_rule, count, last = connection.execute(STATE).one()
        task, rule, ids = self._first, self._rule, self._ids
        if first is not None and (task is None or task["id"] != first):
            task = self._first = rows.fetch(connection, "tasks", [first])[0]
        if rule[0] != last_rule:
            rule = self._rule = last_rule, admission.current(connection)
        if ids[0] != (count, last):
            ids = self._ids = (count, last), rows.numbers(connection, "policies")
        return None if first is None else task, rule[1], ids[1]

    def rule(self, connection: sa.Connection) -> admission.Admission | None:
        """The rule by which policies are stored; None: all are."""
        return self.look(connection)[1]

    def value_policies(
        self, ask: Ask, row: Vector, valued: Valued, numbers: Sequence[int],
        *, stacked: bool,
    ) -> None:  # fmt: skip
        """Add the values of stored policies in one task to its row; ``ask`` gives a function a connection.

        With ``stacked``, tables of actions are held in one array from now on, and valued by one loop.
        """
        memory = self.policies
        if stacked and isinstance(valued.task, TabularMDP) and valued.episodes is None:
            stack = self.stack
            for batch in rows.batches([number for number in numbers if number not in stack.places]):
                stack = stack.joined(dict(zip(batch, memory.get(ask, batch), strict=True)))
            self.stack = stack
            held = [number for number in numbers if number in stack.places]
            row.take(held, stack.values(valued.task, held))
            numbers = [number for number in numbers if number not in stack.places]
        for batch in rows.batches(numbers):
            row.value_policies(valued, batch, memory.get(ask, batch))

    def read(self, memory: Memory[Item], numbers: list[int]) -> list[Item]:
        """The objects of these ids; an id that another process has removed is refused."""

        def get(connection: sa.Connection) -> list[Item]:
            rows.require(connection, memory.table, numbers)
            return memory.get(on(connection), numbers)

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
