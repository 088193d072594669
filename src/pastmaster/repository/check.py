"""The check of a repository: every record is read, every checksum verified, every reference followed.

A value that was wrong when it was stored has a right checksum: ``spot_check`` computes values again.
A file may be damaged anywhere, also in the trees that lead to records. So each record is asked for on its own, a
missing record that others refer to is named, and SQLite's own check of the file is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.repository import records, rows
from pastmaster.repository.arrays import Packed, unpack
from pastmaster.repository.clusterings import ClusteringRecord
from pastmaster.repository.database import Database
from pastmaster.repository.schema import RECORDS, arrays, sequences
from pastmaster.repository.worth import vector
from pastmaster.tables import shown
from pastmaster.texts import printable

UNREADABLE = (RepositoryError, sa.exc.SQLAlchemyError, *rows.NONSENSE)
MOST_IDS = 10**6  # that are tried one by one, where a table cannot be walked
LOOKUPS = {  # the columns of each index by which the records of a table are found
    name: sorted(
        [column.name for column in index.columns]
        for index in (*table.indexes, *table.constraints)
        if isinstance(index, sa.Index | sa.UniqueConstraint)
    )
    for name, table in RECORDS.items()
}


class Damage(NamedTuple):
    """The ``place`` of damage, like "tasks 12" or the file's path, and the ``problem`` there."""

    place: str
    problem: str

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.problem}")


def find_damage(database: Database) -> list[Damage]:
    """All damage in a repository, each place and problem once."""
    return inspected(database)[0]


def inspected(database: Database) -> tuple[list[Damage], Examiner | None]:
    """All damage in a repository, and its records; None where these cannot be read at all."""
    found: list[Damage] = []
    seen: list[Examiner] = []

    def examine_all(connection: sa.Connection) -> None:
        found[:] = _file(connection, database.place) if database.is_sqlite else []
        seen[:] = [examined(connection)]
        found.extend(seen[0].damage)

    try:
        database.read(examine_all)
    except DamagedError as error:  # SQLite may refuse even to end the transaction
        found.append(Damage(database.place, str(error)))
    return list(dict.fromkeys(found)), seen[0] if seen else None


def examine(connection: sa.Connection) -> list[Damage]:
    """All damage in the records."""
    return examined(connection).damage


def examined(connection: sa.Connection) -> Examiner:
    """The records, good and damaged."""
    examiner = Examiner(connection)
    for table in RECORDS:
        for number in examiner.numbers(table):
            examiner.record(table, number)
    examiner.references()
    examiner.streams()
    examiner.orphans()
    examiner.sequences()
    examiner.admissions()
    examiner.values()
    return examiner


class Examiner:
    """The ``rows`` found good so far, and the ``damage``."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.damage: list[Damage] = []
        self.rows: dict[str, dict[int, rows.Row]] = {table: {} for table in RECORDS}
        self.named: dict[str, set[int]] = {table: set() for table in RECORDS}
        self.vectors: dict[tuple[str, int], tuple[Array, Array, Array]] = {}  # ids, values, errors
        self.mentioned: dict[str, set[int]] = {table: set() for table in RECORDS}
        self.counted: dict[str, int] = {}

    def highest(self, table: str) -> int:
        """The highest id of a table that anything knows of, whether its record is there or not."""
        known = (*self.named[table], *self.mentioned[table])
        return max((number for number in known if number < rows.LARGEST_ID), default=0)

    def numbers(self, table: str) -> list[int]:
        """The ids of a table; where it cannot be walked, all that were ever given out."""
        found: list[int] | None = self._ask(table, lambda: rows.numbers(self.connection, table))
        if found is not None:
            return found
        query = sa.select(sequences.c.last).where(sequences.c.name == table)
        last = self._ask("sequences", lambda: self.connection.execute(query).scalar())
        return list(range(1, min(last, MOST_IDS) + 1)) if isinstance(last, int) else []

    def record(self, table: str, number: int) -> None:
        """One record and its arrays."""
        place = f"{table} {number}"
        self.named[table].add(number)
        columns = RECORDS[table]
        query = sa.select(columns).where(columns.c.id == number)
        raw = self._ask(place, lambda: self.connection.execute(query).mappings().first(), default=False)
        if raw is False:
            return
        if raw is None:  # it was listed, or may have been removed where the list cannot be read
            query = sa.select(arrays.c.name).where(arrays.c.owner == table, arrays.c.owner_id == number).limit(1)
            if self._ask(place, lambda: self.connection.execute(query).first()):
                self.damage.append(Damage(place, "is missing, though its arrays are there"))
            return
        its_arrays = self.arrays(table, number)
        self._ask(place, lambda: self._lookup_arrays(table, number, sorted(its_arrays)))
        row = self._try(place, lambda: rows.verified(table, raw))
        if row is None:
            return
        self.rows[table][number] = row
        for names in LOOKUPS[table]:
            self._ask(place, partial(self._lookup, table, row, names))
        self._ask(place, lambda: self._contents(table, row, its_arrays))

    def _lookup(self, table: str, row: rows.Row, names: list[str]) -> None:
        """Whether a record is found by what it holds: an index may be damaged where the record is not."""
        columns = RECORDS[table].c
        query = sa.select(columns.id).where(*(columns[name] == row[name] for name in names))
        if None not in map(row.get, names) and row["id"] not in self.connection.execute(query).scalars().all():
            raise DamagedError(f"is not found by its {' and '.join(names)}")

    def _lookup_arrays(self, table: str, number: int, names: list[str]) -> None:
        """Whether each array is found by its name, as readers ask for it: another way down the index."""
        for name in names:
            here = arrays.c.owner == table, arrays.c.owner_id == number, arrays.c.name == name
            if self.connection.execute(sa.select(arrays.c.name).where(*here)).scalar() != name:
                raise DamagedError(f"array {name!r} is not found by its name")

    def _contents(self, table: str, row: rows.Row, its_arrays: dict[str, Array]) -> None:
        """Whether a record is what it claims to be."""
        if table == "tasks":
            records.verify_task(row, its_arrays)
            self._vector(table, row["id"], "row", its_arrays)
        elif table == "policies":
            records.policy_of(row, its_arrays)
            self._vector(table, row["id"], "column", its_arrays)
        elif table == "runs":
            self._mention("policies", row["settings"].get("source_ids", ()))
            records.verify_run(row, its_arrays)
        elif table == "clusterings":
            ClusteringRecord.of(row).arrays(self.connection)
            self._mention("tasks", its_arrays.get("task_ids", ()))
            self._mention("policies", its_arrays.get("policy_ids", ()))

    def _vector(self, table: str, number: int, name: str, its_arrays: dict[str, Array]) -> None:
        """A row or column of U, whole."""
        place = f"{table} {number}"
        _, errors = vector(its_arrays, name, "errors", place)
        ids, values = vector(its_arrays, name, "values", place)
        self.vectors[table, number] = ids, values, errors
        self._mention("policies" if table == "tasks" else "tasks", ids)

    def _mention(self, table: str, ids: Sequence[int] | Array) -> None:
        """Ids that were given out, as others know them: the highest tells enough."""
        if len(ids):
            self.mentioned[table].add(int(np.max(ids)))

    def arrays(self, table: str, number: int) -> dict[str, Array]:
        """The undamaged arrays of a record; they are read one by one where they cannot be read all at once."""
        try:
            with self.connection.begin_nested():
                return next(iter(rows.fetch_arrays(self.connection, table, [number])))[1]
        except UNREADABLE as error:
            found, why = {}, str(error)
        place, here = f"{table} {number}", (arrays.c.owner == table) & (arrays.c.owner_id == number)
        noted = len(self.damage)
        names = self._ask(place, lambda: list(self.connection.execute(sa.select(arrays.c.name).where(here)).scalars()))
        for name in names or ():
            query = sa.select(arrays.c.data, arrays.c.size, arrays.c.sha256).where(here, arrays.c.name == name)
            packed = self._ask(place, lambda q=query: self.connection.execute(q).first())  # type: ignore[misc]
            if packed is None:
                self.damage.append(Damage(place, f"array {name!r} cannot be read"))
                continue
            array = self._try(place, partial(unpack, Packed(*packed), table, number, name))
            if array is not None:
                found[name] = array
        if len(self.damage) == noted:  # each can be found, but not all of them on the way that readers go
            self.damage.append(Damage(place, why.removeprefix(f"{place}: ")))
        return found

    def references(self) -> None:
        """Every record that another refers to is there."""
        for table, columns in RECORDS.items():
            for key in sorted(columns.foreign_keys, key=lambda key: key.parent.name):
                target = key.column.table.name
                for row in self.rows[table].values():
                    number = row[key.parent.name]
                    if number is not None and number not in self.named[target]:
                        self.mentioned[target].add(number)
                        self.damage.append(Damage(f"{target} {number}", f"is missing, {table} {row['id']} needs it"))

    def streams(self) -> None:
        """The runs of a stream follow each other, from 0 on."""
        found: dict[int | None, set[int]] = {}
        for row in self.rows["runs"].values():
            found.setdefault(row["stream_id"], set()).add(row["position"])
        for number in self.rows["streams"]:
            positions = found.get(number, set())
            missing = next(position for position in itertools.count() if position not in positions)
            if missing < len(positions):
                self.damage.append(Damage(f"streams {number}", f"its runs are not complete: {missing} is missing"))

    def orphans(self) -> None:
        """No array belongs to a record that is not there."""
        query = sa.select(arrays.c.owner, arrays.c.owner_id, arrays.c.name)
        for owner, number, name in self._ask("arrays", lambda: list(self.connection.execute(query))) or ():
            if number not in self.named.get(owner, ()):
                self.mentioned.get(owner, set()).add(number)
                self.damage.append(Damage(f"{owner} {number}", f"is missing, though its array {name!r} is there"))

    def sequences(self) -> None:
        """No id will be given out twice."""
        query = sa.select(sequences.c.name, sequences.c.last)
        found = self._ask("sequences", lambda: self.connection.execute(query).all()) or ()
        last = {row.name: row.last for row in found}
        for table in RECORDS:
            given, highest = last.get(table), self.highest(table)
            if isinstance(given, int) and highest <= given < rows.LARGEST_ID:
                self.counted[table] = given
            else:
                self.damage.append(Damage(f"sequences {table}", f"is {shown(given)}, must be {highest} or more"))

    def admissions(self) -> None:
        """The last rule is there: none is ever removed. Where nothing else tells of a rule, the counter is wrong."""
        last, there = self.counted.get("admissions", 0), self.named["admissions"]
        if not last or last in there:
            return
        if there or any("forgotten" in row["settings"] for row in self.rows["tasks"].values()):
            self.damage.append(Damage(f"admissions {last}", "is missing"))
        else:
            del self.counted["admissions"]
            self.damage.append(Damage("sequences admissions", f"is {last}, must be 0"))

    def values(self) -> None:
        """Every policy has a value in every task, and a task's value is its policy of record's.

        Where a ``max_loss`` is set, or policies were forgotten, only the policy of record need have a value.
        """
        settled = self.rows["admissions"]
        ruled = any(settled[number]["max_loss"] is not None for number in [*settled][-1:])
        complete = not (ruled or any("forgotten" in row["settings"] for row in self.rows["tasks"].values()))
        policies = np.array(sorted(n for t, n in self.vectors if t == "policies"), np.int64)
        columns = {int(number): np.sort(self.vectors["policies", int(number)][0]) for number in policies}
        for task in sorted(n for t, n in self.vectors if t == "tasks"):
            ids, values, _ = self.vectors["tasks", task]
            for policy in policies[~np.isin(policies, ids)].tolist() if complete else ():
                column = columns[policy]
                place = np.searchsorted(column, task)
                if place == len(column) or column[place] != task:
                    self.damage.append(Damage(f"tasks {task}", f"its value under policy {policy} is missing"))
            row = self.rows["tasks"][task]
            record = row["policy_of_record"]
            known = values[ids == record]
            if not len(known) and ("policies", record) in self.vectors:
                ids, values, _ = self.vectors["policies", record]
                known = values[ids == task]
            if not (complete or len(known)):
                self.damage.append(Damage(f"tasks {task}", f"its value under policy {record} is missing"))
            if len(known) and known[0] != row["value"]:
                self.damage.append(Damage(f"tasks {task}", "its value is not that of its policy of record"))

    def _ask(self, place: str, look: Callable[[], Any], default: Any = None) -> Any:
        """``_try`` for what asks the database: on a server a failed question would spoil those after it."""

        def apart() -> Any:
            with self.connection.begin_nested():
                return look()

        return self._try(place, apart, default)

    def _try(self, place: str, look: Callable[[], Any], default: Any = None) -> Any:
        """What ``look`` returns; where it fails, the failure is noted and ``default`` returned."""
        try:
            return look()
        except RepositoryError as error:
            self.damage.append(Damage(place, str(error).removeprefix(f"{place}: ")))
        except UNREADABLE as error:
            reason = str(getattr(error, "orig", error)).strip().splitlines()
            self.damage.append(Damage(place, f"cannot be read: {reason[0] if reason else type(error).__name__}"))
        return default


def _file(connection: sa.Connection, place: str) -> list[Damage]:
    """The damage that SQLite finds in its file."""

    def lines() -> Iterator[str]:
        try:
            yield from connection.exec_driver_sql("PRAGMA integrity_check").scalars()
        except sa.exc.DBAPIError as error:
            yield str(error.orig)

    found = [line for text in lines() for line in text.splitlines()]
    return [Damage(place, line) for line in found if line != "ok" and not line.startswith("***")]
