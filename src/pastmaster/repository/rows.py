"""Records in and out of the tables: numbered, checksummed, with their arrays."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.repository.arrays import Packed, pack, unpack
from pastmaster.repository.schema import RECORDS, arrays, row_checksum, sequences
from pastmaster.tables import shown

Row = dict[str, Any]
Key = TypeVar("Key", int, str)
ONE_OF = {name: name.removesuffix("s") for name in RECORDS} | {"policies": "policy"}
BATCH = 200  # records asked for at once
LARGEST_ID = 10**12  # a larger one is a bit that flipped
NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What values that make no sense raise. A lack of memory is no damage: ``MemoryError`` is never among them."""


class NoRecordError(RepositoryError):
    """No record has this id."""

    def __init__(self, number: int, kind: str) -> None:
        super().__init__(f"there is no {kind} {number} in the repository")
        self.number, self.kind = number, kind


@contextmanager
def asked_by(caller: str) -> Iterator[None]:
    """An id that no record has is refused by the name of the function that was called with it; also a decorator."""
    try:
        yield
    except NoRecordError as error:
        sentence = f"{caller}: number is {error.number}, must be the id of a stored {error.kind}"
        raise RepositoryError(sentence) from None


def insert(connection: sa.Connection, table: str, row: Row, its_arrays: Mapping[str, Array | Packed]) -> int:
    """Store a record under the next id; ``row["settings"]`` are plain values."""
    inserts = Inserts(connection)
    number = inserts.add(table, row, its_arrays)
    inserts.write()
    return number


class Inserts:
    """Records that are written together, in few statements, by the only writer; each has its id at once."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.last: dict[str, Any] = {row.name: row.last for row in connection.execute(sa.select(sequences))}
        self.records: dict[str, list[Row]] = {}
        self.arrays: list[Row] = []

    def add(self, table: str, row: Row, its_arrays: Mapping[str, Array | Packed]) -> int:
        """A record with its arrays, under the next id that was never given out."""
        last = self.last.get(table)
        if not isinstance(last, int) or not 0 <= last < LARGEST_ID:
            raise DamagedError(f"sequences {table}: is {shown(last)}, must be the last id given out")
        number = self.last[table] = last + 1
        self.records.setdefault(table, []).append(stored(table, row | {"id": number}))
        for name, array in its_arrays.items():
            packed = array if isinstance(array, Packed) else pack(array)
            self.arrays.append(stored_array(table, number, name, packed))
        return number

    def write(self) -> None:
        """Write what was added."""
        if not self.records:
            return
        for table, columns in RECORDS.items():  # each after those it refers to
            if table in self.records:
                self.connection.execute(sa.insert(columns), self.records[table])
        if self.arrays:
            self.connection.execute(sa.insert(arrays), self.arrays)
        counted = sa.update(sequences).where(sequences.c.name == sa.bindparam("table"))
        last = [{"table": table, "number": self.last[table]} for table in self.records]
        self.connection.execute(counted.values(last=sa.bindparam("number")), last)
        self.records, self.arrays = {}, []


def replace_arrays(connection: sa.Connection, table: str, number: int, its_arrays: Mapping[str, Array]) -> None:
    """Put arrays into the place of those of the same names."""
    here = (arrays.c.owner == table) & (arrays.c.owner_id == number) & arrays.c.name.in_(list(its_arrays))
    connection.execute(sa.delete(arrays).where(here))
    packed = [stored_array(table, number, name, pack(array)) for name, array in its_arrays.items()]
    connection.execute(sa.insert(arrays), packed)


def stored_array(table: str, number: int, name: str, packed: Packed) -> Row:
    """An array as the table holds it: its checksum is good for this array of this record only."""
    return {"owner": table, "owner_id": number, "name": name} | packed.of(table, number, name)._asdict()


def stored(table: str, row: Row) -> Row:
    """A row as the table holds it: settings as text, every column there, the checksum."""
    full = {column.name: row.get(column.name) for column in RECORDS[table].columns if column.name != "checksum"}
    full |= {name: value + 0.0 for name, value in full.items() if isinstance(value, float)}  # SQLite keeps no -0
    full["settings"] = json.dumps(row["settings"], sort_keys=True)
    return full | {"checksum": row_checksum(table, full)}


def update(connection: sa.Connection, table: str, row: Row, **changes: Any) -> None:
    """Change columns of a record that has been read."""
    columns = RECORDS[table].columns
    full = stored(table, {name: value for name, value in row.items() if name in columns} | changes)
    connection.execute(sa.update(RECORDS[table]).where(columns.id == row["id"]).values(**full))


def remove(connection: sa.Connection, table: str, number: int) -> None:
    """Remove a record and its arrays."""
    connection.execute(sa.delete(arrays).where(arrays.c.owner == table, arrays.c.owner_id == number))
    connection.execute(sa.delete(RECORDS[table]).where(RECORDS[table].c.id == number))


def verified(table: str, raw: sa.RowMapping) -> Row:
    """A record as it was stored, settings as plain values, or ``DamagedError`` naming it."""
    row: Row = {str(name): value for name, value in raw.items()}
    place = f"{table} {row['id']}"
    try:
        if row_checksum(table, row) != row["checksum"]:
            raise DamagedError(f"{place}: its checksum does not match its columns")
        return row | {"settings": json.loads(row["settings"])}
    except NONSENSE as error:  # bytes, say, where text must be
        raise DamagedError(f"{place}: its columns cannot be read: {error}") from None


def numbers(connection: sa.Connection, table: str) -> list[int]:
    """The ids of all records, in order."""
    column = RECORDS[table].c.id
    return [int(number) for number in connection.execute(sa.select(column).order_by(column)).scalars()]


def require(connection: sa.Connection, table: str, wanted: Sequence[int]) -> None:
    """Refuse ids that no record has."""
    _refuse_missing(table, wanted, set(present(connection, table, wanted)))


def _refuse_missing(table: str, wanted: Sequence[int], found: Collection[int]) -> None:
    if missing := [number for number in wanted if number not in found]:
        raise NoRecordError(missing[0], ONE_OF[table])


def present(connection: sa.Connection, table: str, wanted: Sequence[int]) -> list[int]:
    """Those of these ids that records have, in their order."""
    column, found = RECORDS[table].c.id, set[int]()
    for batch in batches(wanted):
        found |= set(connection.execute(sa.select(column).where(column.in_(batch))).scalars())
    return [number for number in wanted if number in found]


def fetch(connection: sa.Connection, table: str, wanted: Sequence[int] | None = None) -> list[Row]:
    """The records of these ids, in their order, or all of them."""
    if wanted is None:
        return fetch_where(connection, table)
    columns = RECORDS[table]
    by_number: dict[int, Row] = {}
    for batch in batches(wanted):
        for raw in connection.execute(sa.select(columns).where(columns.c.id.in_(batch))).mappings():
            by_number[raw["id"]] = verified(table, raw)
    _refuse_missing(table, wanted, by_number)
    return [by_number[number] for number in wanted]


def fetch_where(connection: sa.Connection, table: str, *conditions: sa.ColumnElement[bool]) -> list[Row]:
    """The records that meet the conditions, in order of id."""
    columns = RECORDS[table]
    found = connection.execute(sa.select(columns).where(*conditions).order_by(columns.c.id)).mappings()
    return [verified(table, raw) for raw in found]


def fetch_arrays(
    connection: sa.Connection, table: str, wanted: Iterable[int], names: Sequence[str] | None = None
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Id and arrays of each record, batch by batch; a record without any gives an empty dict."""
    for batch in batches(list(wanted)):
        query = sa.select(arrays).where(arrays.c.owner == table, arrays.c.owner_id.in_(batch))
        if names is not None:
            query = query.where(arrays.c.name.in_(names))
        found: dict[int, dict[str, Array]] = {number: {} for number in batch}
        for row in connection.execute(query):
            if not isinstance(row.name, str):
                raise DamagedError(f"{table} {row.owner_id}: it has an array {shown(row.name)}, which none is called")
            if row.owner_id not in found:  # an index that is damaged leads anywhere
                raise DamagedError(f"{table} {row.owner_id}: its array {row.name!r} is where another should be")
            packed = Packed(row.data, row.size, row.sha256)
            found[row.owner_id][row.name] = unpack(packed, table, row.owner_id, row.name)
        yield from found.items()


def batches(wanted: Sequence[Key]) -> Iterator[Sequence[Key]]:
    """The ids a batch at a time: databases limit how many one query may name."""
    for first in range(0, len(wanted), BATCH):
        yield wanted[first : first + BATCH]
