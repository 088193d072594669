from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from repository_reference import assert_whole, random_task, random_tasks, same_bits
from seams import schema

from pastmaster import Repository, RepositoryError

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = depends_on = None


def upgrade():
    op.create_table("colours", sa.Column("name", sa.Text, primary_key=True))
    op.add_column("tasks", sa.Column("colour", sa.Text))
    op.execute("UPDATE tasks SET colour = 'red'")
"""
FAILURES = {
    "python": "    raise RuntimeError('half-way')\n",
    "database": "    op.execute('UPDATE no_such_table SET a = 1')\n",
    "constraint": "    op.execute(\"INSERT INTO colours VALUES ('a'), ('a')\")\n",
}


@pytest.fixture
def filled(place, rng):
    """A place with three tasks, as the first schema holds them."""
    with Repository(place) as repository:
        for task in random_tasks(rng, 3):
            repository.add(task)
    return place


def add_migration(monkeypatch, tmp_path, text=NEXT):
    """Make believe that this version of the library has a newer schema."""
    folder = tmp_path / "newer 100% versions"  # a path may hold anything
    folder.mkdir()
    (folder / "0002_next.py").write_text(text)
    monkeypatch.setattr(schema.REPOSITORY, "migrations", [*schema.REPOSITORY.migrations, folder])
    monkeypatch.setattr(schema.REPOSITORY, "revision", "0002")


def contents(place):
    """Every table with its columns and rows, read without the library."""
    engine = sa.create_engine(
        place.replace("postgresql:", "postgresql+psycopg:") if "://" in place else f"sqlite:///{place}"
    )
    with engine.connect() as connection:
        metadata = sa.MetaData()
        metadata.reflect(connection)
        found = {
            name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
            for name, table in metadata.tables.items()
        }
        columns = {name: sorted(table.columns.keys()) for name, table in metadata.tables.items()}
    engine.dispose()
    return found, columns


def file_bytes(place):
    return b"" if "://" in place else Path(place).read_bytes()


def execute(place, statement):
    with Repository(place) as repository:
        repository.database.write(lambda connection: connection.execute(sa.text(statement)))


# The newest schema


def of_the_schema(name, kind, _):
    """Receipts and counts of commits are the writers' own: no migration makes them."""
    return kind != "table" or name not in ("pastmaster_receipts", "pastmaster_commits")


def test_the_migrations_make_the_tables_that_the_code_uses(place):
    def differences(connection):
        options = {
            "compare_type": True,
            "version_table": schema.REPOSITORY.version_table,
            "include_name": of_the_schema,
        }
        return compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata)

    with Repository(place) as repository:
        assert repository.database.read(differences) == []
        repository.database.write(lambda connection: connection.execute(sa.text("DROP INDEX ix_runs_stream_id")))
        assert [kind for kind, *_ in repository.database.read(differences)] == ["add_index"]


def test_the_newest_migration_is_the_one_the_code_names():
    config = Config()
    config.set_main_option("script_location", str(schema.REPOSITORY.migrations[0].parent))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_current_head() == schema.REVISION
    assert len(scripts.get_bases()) == 1


# Older and newer


def test_an_old_schema_is_brought_up_to_date_and_keeps_its_data(filled, tmp_path, monkeypatch, rng):
    with Repository(filled) as repository:
        records, U = repository.records(), repository.cross_values()
    rows_before, _ = contents(filled)
    add_migration(monkeypatch, tmp_path)
    with Repository(filled, create=False) as upgraded:
        assert upgraded.records() == records
        assert same_bits(upgraded.cross_values(), U)
        upgraded.add(random_task(rng))
        assert_whole(upgraded)
    rows, columns = contents(filled)
    assert "colours" in columns
    assert "colour" in columns["tasks"]
    assert rows["pastmaster_version"] == [("0002",)]
    assert set(rows_before["arrays"]) < set(rows["arrays"])
    with Repository(filled) as again:
        assert len(again) == 4


def test_a_new_place_gets_all_migrations_at_once(place, tmp_path, monkeypatch):
    add_migration(monkeypatch, tmp_path)
    Repository(place).close()
    rows, columns = contents(place)
    assert rows["pastmaster_version"] == [("0002",)]
    assert "colour" in columns["tasks"]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_migration_that_fails_half_way_leaves_the_old_schema(filled, tmp_path, monkeypatch, rng, failure):
    before = contents(filled)
    with monkeypatch.context() as newer:
        add_migration(newer, tmp_path, NEXT + FAILURES[failure])
        with pytest.raises(RepositoryError, match=r"could not be brought from schema 0001 to 0002|refuses"):
            Repository(filled)
    assert contents(filled) == before
    with Repository(filled, create=False) as repository:
        repository.add(random_task(rng))
        assert_whole(repository)


def test_a_first_migration_that_fails_leaves_nothing(place, tmp_path, monkeypatch):
    with monkeypatch.context() as newer:
        add_migration(newer, tmp_path, NEXT + FAILURES["python"])
        with pytest.raises(RepositoryError, match="could not be brought from schema None to 0002"):
            Repository(place)
    assert contents(place) == ({}, {})
    with Repository(place) as repository:
        assert len(repository) == 0


def test_a_newer_schema_is_refused_and_nothing_is_changed(filled):
    execute(filled, "UPDATE pastmaster_version SET version_num = '9999'")
    before = contents(filled)
    before_bytes = file_bytes(filled)
    for create in (True, False):
        with pytest.raises(RepositoryError, match=r"newer pastmaster \(schema 9999, this one knows up to 0001\)"):
            Repository(filled, create=create)
    assert contents(filled) == before
    assert file_bytes(filled) == before_bytes


# What is not ours


def test_tables_of_another_program_are_refused_and_left_alone(place):
    if "://" in place:
        engine = sa.create_engine(place.replace("postgresql:", "postgresql+psycopg:"))
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE theirs (a INTEGER)"))
        engine.dispose()
    else:
        with sqlite3.connect(place) as connection:
            connection.execute("CREATE TABLE theirs (a INTEGER)")
        connection.close()
    before = contents(place)
    before_bytes = file_bytes(place)
    for create in (True, False):
        with pytest.raises(RepositoryError, match="is not a repository: it holds the tables of something else"):
            Repository(place, create=create)
    assert contents(place) == before
    assert file_bytes(place) == before_bytes, "another program's file was changed"


@pytest.mark.parametrize("text", ["hello", "hello\n" * 5000])
def test_a_text_file_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    for create in (True, False):
        with pytest.raises(RepositoryError, match="is not a repository"):
            Repository(path, create=create)
    assert path.read_text() == text
    assert [child.name for child in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_file_becomes_a_repository_only_if_asked(tmp_path, rng):
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(RepositoryError, match="holds no repository: `pastmaster repo init` makes one"):
        Repository(path, create=False)
    assert path.read_bytes() == b""
    with Repository(path) as repository:
        repository.add(random_task(rng))
        assert_whole(repository)


def test_an_empty_database_becomes_a_repository_only_if_asked(postgres_url):
    with pytest.raises(RepositoryError, match="holds no repository: `pastmaster repo init` makes one"):
        Repository(postgres_url, create=False)
    assert contents(postgres_url) == ({}, {})
    with Repository(postgres_url) as repository:
        assert len(repository) == 0


# At the same time

OPEN = """
import sys
from pastmaster import Repository
for place in sys.argv[1:]:
    print("ready", flush=True)
    sys.stdin.readline()
    with Repository(place) as repository:
        print(len(repository), repository.check(), flush=True)
"""


def test_processes_that_open_a_new_place_at_once_all_succeed(tmp_path, postgres_url):
    places = [*(str(tmp_path / f"{i}.db") for i in range(3)), postgres_url]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, *places], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for _ in places:
        assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.stdout.readline() for process in processes] == ["0 []\n"] * 2
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
