"""``repo check``: damage place by place."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pastmaster import Repository, domains
from pastmaster.cli import main

TASKS = domains.coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]], size=4)


def check(db: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["repo", "check", str(db), *more])


@pytest.fixture
def db(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        for task in TASKS:
            repository.add(task)
    return tmp_path / "tasks.db"


def spoil(db: Path, *statements: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_each_damaged_place_is_a_line_and_the_exit_code_is_1(db):
    spoil(
        db,
        "DELETE FROM tasks WHERE id=4",
        "UPDATE tasks SET name='forged' WHERE id=3",
        "UPDATE arrays SET data=x'00' WHERE owner='policies' AND owner_id=2 AND name='policy'",
    )
    found = check(db)
    assert found.exit_code == 1
    places = [line.partition(":")[0] for line in found.stdout.splitlines()[:-1]]
    assert {"tasks 3", "policies 2"} <= set(places)
    assert len(set(places)) == len(places)
    assert found.stdout.splitlines()[-1] == f"{len(places)} places damaged"


def test_a_counter_that_is_behind_is_damage_too(db):
    spoil(db, "UPDATE sequences SET last=1 WHERE name='tasks'")
    assert check(db).stdout.splitlines()[-1] == "1 place damaged"


def test_a_file_whose_structure_is_broken_is_named_and_left_as_it_is(db):
    """What is below the records is SQLite's: a backup is the remedy."""
    with closing(sqlite3.connect(db)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_tasks_own_policy'"
        page = connection.execute(query).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(db.read_bytes())
    content[page * size - 12 : page * size] = bytes(12)  # the keys of an index
    db.write_bytes(content)
    done = check(db)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{db}: ")
    assert re.search(r"\d+ places? damaged\n$", done.stdout)
    assert db.read_bytes() == content
