"""Damaged rows are healed: whatever row is lost or altered, alone or with another.

``check`` names it, ``remove_damaged`` removes it and what cannot be without it, ``check`` is then clean, all that was
not named reads as before bit for bit, and adding goes on with ids that were never given out.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
import sqlalchemy as sa
from attempts import Tally
from faults import repetitions, small_task, spoil
from postgres import Server

from pastmaster import ContinualTransfer, Repository, RepositoryError
from pastmaster.repository import location
from pastmaster.repository.schema import RECORDS, metadata

pytestmark = [pytest.mark.repeated, pytest.mark.long(20)]
SEED = 1600
CORPUS = (
    "DELETE FROM tasks WHERE id = 4",  # a run refers to it
    "DELETE FROM tasks WHERE id IN (SELECT task_id FROM runs)",
    "DELETE FROM sequences WHERE name = 'tasks'",
    "DELETE FROM sequences",
    "DELETE FROM runs WHERE position = 1; DELETE FROM arrays WHERE owner = 'runs'",  # nothing tells of it but the hole
    "DELETE FROM streams",
    "UPDATE arrays SET owner = 'nobody' WHERE owner = 'runs'",
    "UPDATE sequences SET name = 'tasls' WHERE name = 'tasks'",
    "UPDATE sequences SET last = -5",
    "UPDATE sequences SET last = 16 WHERE name = 'admissions'",
    "UPDATE sequences SET last = 9223372036854775807 WHERE name = 'policies'",
    "UPDATE tasks SET own_policy = 99, policy_of_record = 98 WHERE id = 3",
    "UPDATE tasks SET id = 77 WHERE id = 4",
    "UPDATE runs SET task_id = 99",
    "UPDATE runs SET stream_id = 99 WHERE position = 0",
    "DELETE FROM tasks; DELETE FROM policies",
    "DELETE FROM arrays",
)


def fill(place: str | Path) -> None:
    """A few tasks, one removed again, a clustering, and a stream of runs with clusterings of its own."""
    options = {"restarts": 1, "iterations": 50}
    with Repository(place) as repository:
        for number in range(3):
            repository.add(small_task(number))
        repository.cluster(rng=1, episodes=20, **options)
        agent(repository).run(map(small_task, range(2, 5)))
        repository.add(small_task(5))
        repository.remove(repository.records()[-1].id)


def agent(repository: Repository) -> ContinualTransfer:
    options = {"restarts": 1, "iterations": 50}
    return ContinualTransfer(repository, episodes=10, recluster_every=2, rng=2, clustering=options, name="stream")


class Copies:
    """A filled repository, damaged again and again: each attempt begins with it whole."""

    def __init__(self, place: str, folder: Path) -> None:
        fill(place)
        self.place, self.folder, self.made = place, folder, 0
        self.is_file = "://" not in place
        self.engine = sa.create_engine(location.parse(place), poolclass=sa.NullPool)
        with Repository(place) as repository:
            self.original = faults.Survey(repository)
        with self.engine.connect() as connection:
            self.rows = {t: connection.execute(sa.select(t)).mappings().all() for t in metadata.sorted_tables}
        self.given_out = {row["name"]: row["last"] for row in self.rows[metadata.tables["sequences"]]}
        assert self.given_out["tasks"] > max(row["id"] for row in self.rows[RECORDS["tasks"]]), "the last is removed"

    @contextmanager
    def copy(self) -> Iterator[tuple[str, sa.Engine]]:
        """A place to damage, and an engine that checks no references."""
        if self.is_file:
            self.made += 1
            copy = self.folder / f"{self.made}.db"
            shutil.copy(self.place, copy)
            engine = sa.create_engine(f"sqlite:///{copy}", poolclass=sa.NullPool)
            yield str(copy), engine
            for file in self.folder.glob(f"{copy.name}*"):
                file.unlink()
            return
        try:
            yield self.place, self.engine
        finally:
            with unchecked(self.engine) as connection:
                for table in reversed(metadata.sorted_tables):
                    connection.execute(sa.delete(table))
                for table, found in self.rows.items():
                    if found:
                        connection.execute(sa.insert(table), [dict(row) for row in found])


@contextmanager
def unchecked(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction in which references are not checked; in SQLite they are not unless one asks."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET session_replication_role = replica")
        yield connection


def heal(copies: Copies, damage: Any, tally: Tally, what: str) -> None:
    """Spoil a copy, and see it named and healed."""
    with tally.attempt(what), copies.copy() as (place, engine):
        with unchecked(engine) as connection:
            damage(connection)
        with Repository(place, create=False) as repository:
            found = repository.check()
            named = {item.place for item in found}
            changed = [] if found else list(changes(copies, repository))
            assert not changed, f"nothing is named, though {changed[:3]} changed"
            assert set(repository.remove_damaged()) == set(found)
        with Repository(place, create=False) as repository:
            assert repository.check() == []
            assert_rest_is_as_before(copies, repository, named)
            assert_goes_on(copies, repository, resume=faults.SOAK or tally.tried % 4 == 0)


def changes(copies: Copies, repository: Repository) -> Iterator[faults.Piece]:
    """What does not read as before."""
    now = faults.Survey(repository, copies.original.pieces)
    return (piece for piece in copies.original.pieces if now.found[piece] != copies.original.found[piece])


def assert_rest_is_as_before(copies: Copies, repository: Repository, named: set[str]) -> None:
    """What was neither named nor needs what was: tasks with policies, runs with their streams."""
    tasks = {row["id"]: row for row in copies.rows[RECORDS["tasks"]]}
    gone = set(named)
    for number, row in tasks.items():
        if gone & {f"policies {row[name]}" for name in ("own_policy", "policy_of_record")}:
            gone.add(f"tasks {number}")
    left = [row for number, row in tasks.items() if f"tasks {number}" not in gone]
    used = {row[name] for row in left for name in ("own_policy", "policy_of_record")}
    gone |= {f"policies {row['id']}" for row in copies.rows[RECORDS["policies"]] if row["id"] not in used}
    for piece in changes(copies, repository):
        blame = copies.original.pieces[piece]
        if piece[0] == "run":  # by its place in the stream, which ends where a run is lost
            blame = blame | {f"streams {piece[1]}"} | {f"runs {row['id']}" for row in copies.rows[RECORDS["runs"]]}
        if piece[:2] == ("row", "runs"):  # without its task, or its place in a stream
            row = next(row for row in copies.rows[RECORDS["runs"]] if row["id"] == piece[2])
            runs = {f"runs {row['id']}" for row in copies.rows[RECORDS["runs"]]}
            blame = blame | {f"tasks {row['task_id']}", f"streams {row['stream_id']}"} | runs
        if piece[0] == "clustering" or piece[:2] == ("row", "clusterings"):
            blame = blame | {f"streams {row['id']}" for row in copies.rows[RECORDS["streams"]]}
            blame = blame | {f"runs {row['id']}" for row in copies.rows[RECORDS["runs"]]}
        assert blame & gone, f"{piece} changed, though only {sorted(named)} were named"


def assert_goes_on(copies: Copies, repository: Repository, resume: bool) -> None:
    """New ids are new, what is stored agrees, and the stream can be resumed."""
    before = {row["id"] for row in copies.rows[RECORDS["tasks"]]}
    new = repository.add(small_task(100))
    assert new > copies.given_out["tasks"], f"{new} was given out before, up to {copies.given_out['tasks']}"
    assert repository.record(new).own_policy > copies.given_out["policies"]
    assert {record.id for record in repository.records()} <= before | {new}
    assert len(repository.runs()) <= len(copies.rows[RECORDS["runs"]])
    repository.cross_values()
    if resume:
        assert len(agent(repository).run(map(small_task, range(2, 5))).names) == 3
    assert repository.check() == []


@pytest.fixture(params=["sqlite", "postgres"])
def copies(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    if request.param == "sqlite":
        made = Copies(str(tmp_path / "whole.db"), tmp_path)
        yield made
        made.engine.dispose()
        return
    server: Server = request.getfixturevalue("postgres_server")
    with server.fresh_database() as url:
        made = Copies(url, tmp_path)
        yield made
        made.engine.dispose()


def kind(copies: Copies) -> str:
    return "SQLite" if copies.is_file else "PostgreSQL"


PROMISE = "named, removed, the rest as before, no id twice"


def test_every_row_in_turn_may_be_lost(copies: Copies, attempts: Any) -> None:
    tally = attempts(f"a row of any table deleted, {kind(copies)}", PROMISE)
    keys = [
        (table, {column.name: row[column.name] for column in table.primary_key})
        for table, found in copies.rows.items()
        for row in found
    ]
    every = 1 if faults.SOAK else 23 if copies.is_file else 79  # a few of each table
    for table, key in keys[::every]:
        here = [table.c[name] == value for name, value in key.items()]
        heal(copies, lambda c, t=table, h=here: c.execute(sa.delete(t).where(*h)), tally, f"{table.name} {key} deleted")


def test_what_once_was_not_healed(copies: Copies, attempts: Any) -> None:
    tally = attempts(f"a row of any table deleted, {kind(copies)}", PROMISE)
    for statements in CORPUS if faults.SOAK else CORPUS[:: 2 if copies.is_file else 6]:
        heal(copies, lambda c, s=statements: [c.exec_driver_sql(one) for one in s.split(";")], tally, statements)


def test_any_two_rows_may_be_altered_or_lost(copies: Copies, attempts: Any) -> None:
    """[150 pairs on each database]"""
    tally = attempts(f"two rows of any tables altered or deleted, {kind(copies)}", PROMISE)
    for number in range(repetitions(150, 4 if copies.is_file else 1)):
        rng = np.random.default_rng([SEED, number])
        heal(copies, lambda c, r=rng: [spoil(c, copies.rows, r) for _ in range(2)], tally, f"seed {[SEED, number]}")


def test_a_repository_that_is_whole_is_left_as_it_is(copies: Copies) -> None:
    with Repository(copies.place) as repository:
        before = faults.dump(repository)
        assert repository.remove_damaged() == []
        assert faults.dump(repository) == before
        assert list(changes(copies, repository)) == []
        with pytest.raises(RepositoryError):
            repository.task(99)
