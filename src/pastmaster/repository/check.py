"""The check of a repository: every record is read, every checksum verified, every reference followed.

A value that was wrong when it was stored has a right checksum: ``spot_check`` computes values again. A file may be
damaged anywhere, also in the trees that lead to records. So each record is asked for on its own, a missing record that
others refer to is named, and SQLite's own check of the file is added.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array, LongArray
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.repository import location, records, rows
from pastmaster.repository.clusterings import ClusteringRecord
from pastmaster.repository.database import Database
from pastmaster.repository.schema import RECORDS, arrays, identity, sequences, signed
from pastmaster.repository.sqlite import File
from pastmaster.repository.worth import vector
from pastmaster.tables import shown
from pastmaster.texts import printable

UNREADABLE = (RepositoryError, sa.exc.SQLAlchemyError, *rows.NONSENSE)
MOST_IDS = 10**6  # that are tried one by one, where a table cannot be walked
PAIR = 2**31  # a task and a policy as one number
Result = TypeVar("Result")


class Damage(NamedTuple):
    """The ``place`` of damage, like "tasks 12" or the file's path, and the ``problem`` there."""

    place: str
    problem: str

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.problem}")


def examine(database: Database) -> Examiner:
    """All damage in a repository, and its records."""
    found = Examiner()

    def look(connection: sa.Connection) -> None:
        nonlocal found
        found = Examiner()
        if database.is_sqlite:
            found.damage += examine_file(connection, database.place)
        found.examine(connection)

    try:
        database.read(look)
    except DamagedError as error:  # SQLite may refuse even to end the transaction
        found.damage.append(Damage(database.place, str(error)))
    return found


class Examiner:
    """The records found good so far, and the ``damage``."""

    def __init__(self) -> None:
        self.damage: list[Damage] = []
        self.rows: dict[str, dict[int, rows.Row]] = {table: {} for table in RECORDS}
        self.listed: dict[str, set[int]] = {table: set() for table in RECORDS}
        self.vectors: dict[tuple[str, int], tuple[Array, Array, Array]] = {}  # ids, values, errors
        self.judged: LongArray = np.empty(0, np.int64)  # which entries are of policies of record

    def examine(self, connection: sa.Connection) -> None:
        """Look at everything."""
        for table in RECORDS:
            self.listed[table] = set(self._numbers(connection, table))
            for number in sorted(self.listed[table]):
                self._try(connection, f"{table} {number}", partial(self._record, connection, table, number))
        self._references()
        self._streams()
        self._try(connection, "arrays", lambda: self._orphans(connection))
        self._try(connection, "sequences", lambda: self._sequences(connection))
        self._try(connection, "identity", lambda: _identity(connection))
        self._values()
        self.damage = list(dict.fromkeys(self.damage))

    def _numbers(self, connection: sa.Connection, table: str) -> list[int]:
        """The ids of a table; where it cannot be walked, all that were ever given out."""
        found = self._try(connection, table, lambda: rows.numbers(connection, table))
        if found is not None:
            return found
        query = sa.select(sequences.c.last).where(sequences.c.name == table)
        last = self._try(connection, "sequences", lambda: connection.execute(query).scalar())
        return list(range(1, min(last, MOST_IDS) + 1)) if isinstance(last, int) else []

    def _record(self, connection: sa.Connection, table: str, number: int) -> None:
        """One record and its arrays."""
        columns = RECORDS[table].c
        found = rows.fetch_where(connection, table, columns.id == number)
        if not found:  # it was removed; if not, its arrays are still there
            self.listed[table].discard(number)
            return
        row = self.rows[table][number] = found[0]
        ((_, its_arrays),) = rows.fetch_arrays(connection, table, [number])
        for name in its_arrays:  # as readers ask for it: another way down the index
            here = arrays.c.owner == table, arrays.c.owner_id == number, arrays.c.name == name
            if connection.execute(sa.select(arrays.c.name).where(*here)).scalar() != name:
                raise DamagedError(f"array {name!r} is not found by its name")
        if table == "tasks":
            if row["settings"]["kind"] == "tabular":  # an environment need not be known here
                records.task_of(row, its_arrays)
            self._vector(table, number, "row", its_arrays)
        elif table == "policies":
            records.policy_of(row, its_arrays)
            self._vector(table, number, "column", its_arrays)
        elif table == "runs":
            records.verify_run(row, its_arrays)
        elif table == "clusterings":
            ClusteringRecord.of(row).arrays(connection)

    def _vector(self, table: str, number: int, name: str, its_arrays: dict[str, Array]) -> None:
        """A row or column of U, whole."""
        place = f"{table} {number}"
        _, errors = vector(its_arrays, name, "errors", place)
        self.vectors[table, number] = *vector(its_arrays, name, "values", place), errors

    def _references(self) -> None:
        """Every record that another refers to is there."""
        for table, columns in RECORDS.items():
            for key in sorted(columns.foreign_keys, key=lambda key: key.parent.name):
                target = key.column.table.name
                for row in self.rows[table].values():
                    number = row[key.parent.name]
                    if number is not None and number not in self.listed[target]:
                        self.damage.append(Damage(f"{target} {number}", f"is missing, {table} {row['id']} needs it"))

    def _streams(self) -> None:
        """The runs of a stream follow each other, from 0 on."""
        found: dict[int | None, set[int]] = {}
        for row in self.rows["runs"].values():
            found.setdefault(row["stream_id"], set()).add(row["position"])
        for number in self.rows["streams"]:
            positions = found.get(number, set())
            missing = sorted(set(range(len(positions))) - positions)
            if missing:
                self.damage.append(Damage(f"streams {number}", f"its runs are not complete: {missing[0]} is missing"))

    def _orphans(self, connection: sa.Connection) -> None:
        """No array belongs to a record that is not there."""
        for owner, number, name in connection.execute(sa.select(arrays.c.owner, arrays.c.owner_id, arrays.c.name)):
            if number not in self.listed.get(owner, ()):
                self.damage.append(Damage(f"{owner} {number}", f"is missing, though its array {name!r} is there"))

    def _sequences(self, connection: sa.Connection) -> None:
        """No id will be given out twice; and the last rule is there, as none is ever removed."""
        last = {row.name: row.last for row in connection.execute(sa.select(sequences))}
        for table in RECORDS:
            given, highest = last.get(table), max(self.listed[table], default=0)
            if not (isinstance(given, int) and highest <= given < rows.LARGEST_ID):
                self.damage.append(Damage(f"sequences {table}", f"is {shown(given)}, must be {highest} or more"))
        rule = last.get("admissions")
        if rule and rule not in self.listed["admissions"]:
            self.damage.append(Damage(f"admissions {rule}", "is missing"))

    def entries(self) -> tuple[Array, Array, Array, Array]:
        """All that was read of U: the task, the policy, the value and the standard error of each entry."""
        none = np.empty(0, np.int64)
        parts = [(none, none, np.empty(0), np.empty(0))]
        for (table, number), (ids, values, errors) in self.vectors.items():
            own = np.full(len(ids), number)
            parts.append((own, ids, values, errors) if table == "tasks" else (ids, own, values, errors))
        tasks, policies, values, errors = (np.concatenate(part) for part in zip(*parts, strict=True))
        return tasks, policies, values, errors

    def good(self, table: str) -> list[int]:
        """The tasks or policies whose values could be read."""
        return sorted(number for kind, number in self.vectors if kind == table)

    def _values(self) -> None:
        """Every policy has a value in every task, and a task's value is its policy of record's.

        Under a ``max_loss`` only the policy of record need have a value.
        """
        tasks, policies, values, _ = self.entries()
        good, pairs = self.good("policies"), tasks * PAIR + policies
        if not len(pairs):
            return
        judged = [row for task in self.good("tasks") if (row := self.rows["tasks"][task])["policy_of_record"] in good]
        wanted = of_record = np.array([row["id"] * PAIR + row["policy_of_record"] for row in judged], np.int64)
        if not self.listed["admissions"]:
            wanted = np.add.outer(np.array(self.good("tasks"), np.int64) * PAIR, np.array(good, np.int64)).ravel()
        for pair in np.setdiff1d(wanted, pairs).tolist():
            self.damage.append(Damage(f"tasks {pair // PAIR}", f"its value under policy {pair % PAIR} is missing"))
        order = np.argsort(pairs, kind="stable")
        at = order[np.minimum(np.searchsorted(pairs, of_record, sorter=order), len(pairs) - 1)]
        there = pairs[at] == of_record
        self.judged = at[there]
        wrong = there & (values[at] != np.array([row["value"] for row in judged]))
        for i in np.flatnonzero(wrong).tolist():
            self.damage.append(Damage(f"tasks {judged[i]['id']}", "its value is not that of its policy of record"))

    def _try(self, connection: sa.Connection, place: str, look: Callable[[], Result]) -> Result | None:
        """What ``look`` returns; a failure is noted. On a server a failed question would spoil those after it."""
        try:
            with connection.begin_nested():
                return look()
        except RepositoryError as error:
            self.damage.append(Damage(place, str(error).removeprefix(f"{place}: ")))
        except UNREADABLE as error:
            reason = str(getattr(error, "orig", error)).strip().splitlines()
            self.damage.append(Damage(place, f"cannot be read: {reason[0] if reason else type(error).__name__}"))
        return None


def _identity(connection: sa.Connection) -> None:
    """The repository is known by one text, which is whole."""
    found = connection.execute(sa.select(identity.c.id)).scalars().all()
    if found != [signed(text[:16]) for text in found][:1]:
        raise DamagedError("is missing, or its checksum does not match")


def examine_service(path: Path, place: str) -> list[Damage]:
    """The damage in the file of the service beside a repository in a file, if there is one; it is called ``place``."""
    path = location.beside(path)
    if not path.exists():
        return []
    with closing(File(path)) as file, file.idle_connection() as (_, connection):
        return examine_file(connection, place)


def examine_file(connection: sa.Connection, place: str) -> list[Damage]:
    """The damage that SQLite finds in its file."""
    found: list[str] = []
    try:
        found.extend(connection.exec_driver_sql("PRAGMA integrity_check").scalars())  # keeps what came before an error
    except sa.exc.DBAPIError as error:
        found.append(str(error.orig))
    lines = "\n".join(found).splitlines()
    return [Damage(place, line) for line in lines if line != "ok" and not line.startswith("***")]
