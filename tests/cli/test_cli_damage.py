"""``repo check``: damage record by record."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pastmaster import Repository
from pastmaster.cli import main
from pastmaster.cli.damage import damage_lines
from pastmaster.domains import coloured_grid
from pastmaster.repository.check import Damage

TASKS = coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]], size=4)


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


def test_damage_is_told_and_the_exit_code_is_1(db):
    spoil(
        db,
        "UPDATE arrays SET data=x'00' WHERE owner='policies' AND owner_id=2 AND name='policy'",
        "UPDATE sequences SET last=1 WHERE name='tasks'",
    )
    done = check(db)
    assert done.exit_code == 1
    assert "policies 2: " in done.stdout
    assert done.stdout.splitlines()[-1] == "1 record and 1 counter are damaged"


def test_records_come_first_each_once_and_the_structure_of_the_file_last_in_three_lines():
    damage = [
        *(Damage("tasks.db", f"Tree 9 page {i}") for i in range(7)), Damage("sequences tasks", "is 1"),
        Damage("tasks 5", "one"), Damage("policies 2", "is missing"), Damage("tasks 5", "two"),
    ]  # fmt: skip
    assert damage_lines(damage) == [
        "tasks 5: 2 problems, the first: one",
        "policies 2: is missing",
        "sequences tasks: is 1",
        "tasks.db: Tree 9 page 0",
        "tasks.db: Tree 9 page 1",
        "tasks.db: Tree 9 page 2",
        "and 4 more about the structure of the file",
        "2 records, 1 counter and the structure of the file are damaged",
    ]
    assert damage_lines(damage[-1:])[-1] == "1 record is damaged"
