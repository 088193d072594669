from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from repository_reference import assert_whole, random_task, random_tasks, same_bits
from seams import location, postgres

from pastmaster import InvalidInputError, Repository, RepositoryError


@pytest.fixture
def filled(tmp_path, rng):
    """A file with three tasks, and what is in it."""
    with Repository(tmp_path / "filled.db") as repository:
        for task in random_tasks(rng, 3):
            repository.add(task)
    return tmp_path / "filled.db"


def snapshot(path):
    with Repository(path, create=False) as repository:
        assert_whole(repository)
        return repository.records(), repository.cross_values().tobytes()


def run(script, *arguments):
    """A script as a process of its own that knows the tests' modules."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


# Places that are none


@pytest.mark.parametrize("memory", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_memory_is_refused(memory):
    with pytest.raises(InvalidInputError, match=r"is no file, must be one"):
        Repository(memory)


@pytest.mark.parametrize("url", ["mysql://u@h/d", "http://example.com/x", "oracle+cx://h", "postgresql+nosuch://h/d"])
def test_other_servers_are_refused(url):
    with pytest.raises(InvalidInputError, match=r"^Repository: the URL is for .*, must begin with postgresql://"):
        Repository(url)


@pytest.mark.parametrize("url", ["postgresql://host:port/name", "postgresql://[::1/x"])
def test_a_url_that_cannot_be_read_is_refused(url):
    with pytest.raises(InvalidInputError, match=r"^Repository: the URL cannot be read"):
        Repository(url)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(RepositoryError, match=r"is a directory, must be a file$"):
        Repository(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(RepositoryError, match=r"cannot be made: there is no folder .*/no/where$"):
        Repository(tmp_path / "no" / "where" / "file.db")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_made_unless_asked(tmp_path):
    with pytest.raises(RepositoryError, match=r"there is no repository at .*: check the path, or make one"):
        Repository(tmp_path / "file.db", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "a?b#c.db", "ünï.db", "'quoted'.db", "a:b.db"])
def test_a_path_may_hold_anything(tmp_path, rng, name):
    for path in (tmp_path / name, str(tmp_path / ("text " + name))):
        with Repository(path) as repository:
            repository.add(random_task(rng))
        assert os.path.getsize(path) > 0
        with Repository(path, create=False) as repository:
            assert len(repository) == 1


# Servers


def refused_soon(url, sentence):
    """Within ten seconds, were the machine idle; for ever, if nobody gave up."""
    before = time.monotonic()
    with pytest.raises(RepositoryError, match=sentence) as caught:
        Repository(url)
    print(f"refused after {time.monotonic() - before:.1f} s: {caught.value}")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_given_up_soon(tmp_path):
    refused_soon("postgresql://me:secret@127.0.0.1:1/name", r"does not answer: ")
    refused_soon(f"postgresql://me:secret@/name?host={tmp_path}", r"does not answer: ")


def test_a_server_that_says_nothing_is_given_up_soon(monkeypatch):
    assert postgres.CONNECT_SECONDS <= 10
    monkeypatch.setattr(postgres, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused_soon(f"postgresql://me:secret@127.0.0.1:{silent.getsockname()[1]}/name", r"does not answer: ")


def test_a_wrong_password_or_name_is_refused(postgres_url):
    refused_soon(postgres_url.replace("postgres@", "guarded:wrong@"), "password")
    refused_soon(postgres_url.replace("postgres@", "guarded@"), r"password|fe_sendauth")
    refused_soon(postgres_url.replace("test_", "untested_"), r'database "untested_\w+" does not exist')
    refused_soon(postgres_url.replace("postgres@", "stranger@"), r'role "stranger" does not exist')


def test_a_password_is_not_shown(postgres_server, postgres_url):
    name = postgres_url.partition("@/")[2].partition("?")[0]
    postgres_server._execute(f"ALTER DATABASE {name} OWNER TO guarded")
    with Repository(postgres_url.replace("postgres@", "guarded:secret@")) as repository:
        assert "secret" not in repr(repository) + repository.place
        assert "guarded" in repository.place


# No right to write


NO_RIGHTS = """
import os, sys
import numpy as np
from pastmaster import PastmasterError, Repository
from repository_reference import random_task

paths = sys.argv[1:]
with Repository(paths.pop()) as repository:  # imports what there is to import
    repository.add(random_task(np.random.default_rng(0)))
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in paths:
    try:
        with Repository(path) as repository:
            print("read", len(repository), flush=True)
            repository.add(random_task(np.random.default_rng(0)))
            print("written")
    except PastmasterError as error:
        print(type(error).__name__, str(error))
"""
RIGHTS = {"file": (0o444, 0o777), "folder": (0o666, 0o555), "both": (0o444, 0o555), "unreadable": (0o000, 0o777)}


@pytest.fixture
def open_folder():
    """A folder to which everybody can walk; pytest's own are closed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_without_rights_nothing_is_changed_and_the_sentence_says_so(open_folder, tmp_path, rng):
    paths = {case: open_folder / case / "r.db" for case in (*RIGHTS, "new")}
    for case, path in paths.items():
        path.parent.mkdir()
        if case in RIGHTS:
            with Repository(path) as repository:
                repository.add(random_task(rng))
            path.chmod(RIGHTS[case][0])
        path.parent.chmod(RIGHTS.get(case, (0, 0o555))[1])
    done = run(NO_RIGHTS, *paths.values(), tmp_path / "first.db")
    print(done.stdout)
    assert done.stderr == ""
    answers = [line for line in done.stdout.splitlines() if not line.startswith("read")]
    assert len(answers) == len(paths)
    for answer, path in zip(answers, paths.values(), strict=True):
        path.parent.chmod(0o777)
        assert answer.startswith((f"RepositoryError {path} ", f"RepositoryError Repository: {path} "))
        assert "is read-only, nothing was changed" in answer or "cannot be opened: may file and folder be" in answer
    assert not paths.pop("new").exists()
    for path in paths.values():
        path.chmod(0o666)
        with Repository(path, create=False) as repository:
            assert len(repository) == 1
            repository.add(random_task(rng))
            assert_whole(repository)


# No room


def test_a_full_disk_changes_nothing(filled, rng):
    before = snapshot(filled)
    with Repository(filled) as repository:

        def limit(connection):
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

        large = random_task(rng, 60)
        for change in (
            lambda: repository.add(large),
            lambda: repository.replace_policy(1, np.full((6, 3), 1 / 3)) or repository.add(large),
        ):
            repository.database.read(limit)  # SQLite itself then says SQLITE_FULL
            with pytest.raises(
                RepositoryError, match=r"the disk is full, nothing was changed in .*filled.db: make room"
            ):
                change()
        assert len(repository) == 3
        assert repository.check() == []
        records = repository.records()
    after = snapshot(filled)
    assert after[0] == records
    assert after[0][1:] == before[0][1:]
    with Repository(filled) as repository:  # room again
        assert repository.add(large) == 4
        assert_whole(repository)


NO_ROOM = """
import resource, signal, sys
from pastmaster import PastmasterError, Repository
from repository_reference import random_tasks
import numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
place, limit = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    repository = Repository(place)
    for task in random_tasks(np.random.default_rng(1), 200):
        print(repository.add(task), flush=True)
except PastmasterError as error:
    print(type(error).__name__, error)
    try:
        repository.export(sys.argv[3])
    except PastmasterError as error:
        print(error)
"""


def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(filled, tmp_path, rng):
    before = snapshot(filled)
    limit = 112 * 1024
    done = run(NO_ROOM, filled, limit, tmp_path / "out")
    print(done.stdout)
    assert done.stderr == ""
    *acknowledged, complaint = [line for line in done.stdout.splitlines() if line]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != limit
    assert complaint.startswith("RepositoryError ")
    assert "nothing was changed" in complaint
    with Repository(filled, create=False) as repository:
        assert [record.id for record in repository.records()] == [1, 2, 3, *map(int, acknowledged)]
        assert [record.digest for record in repository.records()][:3] == [record.digest for record in before[0]]
        assert repository.add(random_task(rng)) == 4 + len(acknowledged)
        assert_whole(repository)


def test_a_locked_file_is_waited_for_then_refused(filled, rng, monkeypatch):
    before = snapshot(filled)
    with Repository(filled) as holder, Repository(filled) as other:
        monkeypatch.setattr(location, "BUSY_SECONDS", 0.05)

        def hold(_):
            with pytest.raises(RepositoryError, match=r"was in use by another program for [\d.]+ seconds, try again"):
                other.add(random_task(rng))
            return other.cross_values()  # readers need not wait

        assert same_bits(holder.database.write(hold), holder.cross_values())
        assert other.add(random_task(rng)) == 4
    with Repository(filled) as repository:
        assert repository.records()[:3] == before[0] or len(repository) == 4


def test_a_refused_statement_is_told_in_one_sentence(place, rng):
    with Repository(place) as repository:
        repository.add(random_task(rng))
        with pytest.raises(RepositoryError, match=r"^the database at .* refuses: .*no_such") as caught:
            repository.database.write(lambda c: c.execute(sa.text("SELECT * FROM no_such")))
        assert "\n" not in str(caught.value)
        assert_whole(repository)


def test_a_place_that_is_no_repository_is_refused_by_name(tmp_path):
    (tmp_path / "junk.zip").write_bytes(b"junk" * 1000)
    for place, sentence in (
        (tmp_path, "^Repository: .* is a directory, must be a file"),
        (tmp_path / "junk.zip", "^Repository: .*junk.zip is not a repository"),
        (tmp_path / "no" / "where.db", "^Repository: .* cannot be made: there is no folder"),
    ):
        with pytest.raises(RepositoryError, match=sentence):
            Repository(place)
    with pytest.raises(RepositoryError, match=r"^Repository: there is no repository at"):
        Repository(tmp_path / "none.db", create=False)
