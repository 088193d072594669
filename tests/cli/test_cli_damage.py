"""``repo check``: damage record by record, and what its removal cost."""

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


def test_a_removal_says_which_tasks_went_and_how_many_remain(db):
    spoil(db, "UPDATE arrays SET data=x'00' WHERE owner='policies' AND owner_id=2 AND name='policy'")
    done = check(db, "--remove")
    assert done.exit_code == 0, done.output
    cost = done.stdout.splitlines()[-1]
    assert cost == f"removed: task 2 '{TASKS[1].name}', 1 policy; 3 of 4 tasks remain"
    assert check(db).stdout == "all is well: 3 tasks\n"


def test_a_task_whose_name_cannot_be_read_is_told_by_its_number_the_others_by_name(db):
    spoil(
        db,
        "UPDATE tasks SET name='forged' WHERE id=3",
        "UPDATE arrays SET data=x'00' WHERE owner='policies' AND owner_id=2 AND name='policy'",
    )
    cost = check(db, "--remove").stdout.splitlines()[-1]
    assert cost == f"removed: task 2 '{TASKS[1].name}', task 3, 2 policies; 2 of 4 tasks remain"


def test_a_task_that_was_lost_before_counts_as_lost(db):
    spoil(db, "DELETE FROM tasks WHERE id=4")
    cost = check(db, "--remove").stdout.splitlines()[-1]
    assert cost.startswith("removed: task 4")
    assert cost.endswith("3 of 4 tasks remain")


def test_counters_are_repaired_and_nothing_is_removed(db):
    spoil(db, "UPDATE sequences SET last=1 WHERE name='tasks'")
    assert check(db).stdout.splitlines()[-1] == "1 counter is damaged"
    done = check(db, "--remove")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "repaired: sequences tasks; 4 of 4 tasks remain"


def test_damage_that_is_left_is_told_and_the_exit_code_is_1(db, monkeypatch):
    spoil(db, "UPDATE arrays SET data=x'00' WHERE owner='policies' AND owner_id=2 AND name='policy'")
    monkeypatch.setattr(Repository, "remove_damaged", Repository.check)
    for more in ((), ("--json",)):
        done = check(db, "--remove", *more)
        assert done.exit_code == 1
        assert "policies 2: " in done.stderr
        assert done.stderr.splitlines()[-1] == "this could not be repaired: restore a backup"


def test_a_file_whose_structure_is_broken_is_left_as_it_is(db):
    """What is below the records is SQLite's: a backup is the remedy."""
    with closing(sqlite3.connect(db)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_tasks_own_policy'"
        page = connection.execute(query).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(db.read_bytes())
    content[page * size - 12 : page * size] = bytes(12)  # the keys of an index
    db.write_bytes(content)
    done = check(db, "--remove")
    assert done.exit_code == 1
    assert "and the structure of the file are damaged" in done.stdout
    assert f"the structure of {db} is broken, nothing was changed: restore a backup" in done.stderr
    assert db.read_bytes() == content


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
