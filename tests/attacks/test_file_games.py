"""A repository's file deleted, moved, replaced, copied, restored or locked by others while it is open."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import faults
import numpy as np
import pytest
from attempts import Tally
from faults import acknowledge, acknowledged, dump, repetitions, small_task
from torn import tear

from pastmaster import DamagedError, Repository, RepositoryError
from pastmaster.repository import location


def filled(path: Path, *numbers: int) -> Path:
    with Repository(path) as repository:
        for number in numbers:
            repository.add(small_task(number))
    return path


def turn_log_on(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def names_in(path: Path) -> set[str]:
    with Repository(path, create=False) as repository:
        assert repository.check() == []
        return {record.name for record in repository.records()}


def named(*numbers: int) -> set[str]:
    return {f"task {number}" for number in numbers}


def delete(path: Path, folder: Path) -> None:
    path.unlink()


def move(path: Path, folder: Path) -> None:
    path.rename(folder / "moved.db")


def move_its_folder(path: Path, folder: Path) -> None:
    path.parent.rename(folder / "other")


def replace(path: Path, folder: Path) -> None:
    os.replace(filled(folder / "another.db", 50, 51), path)


@pytest.mark.parametrize(
    ("play", "sentence"),
    [(delete, "is gone"), (move, "is gone"), (move_its_folder, "is gone"), (replace, "is another file")],
)
def test_a_file_that_is_no_longer_there_is_refused_by_name(
    tmp_path: Path, play: Callable[[Path, Path], None], sentence: str
) -> None:
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "r.db"
    with Repository(path) as repository:
        repository.add(small_task(1))
        play(path, tmp_path)
        refused = rf"r.db {sentence} since it was opened \(deleted, moved or replaced\), nothing was changed: put it"
        for change in (lambda: repository.add(small_task(2)), repository.records, lambda: repository.remove(1)):
            with pytest.raises(RepositoryError, match=refused):
                change()
    if play is move:
        assert names_in(tmp_path / "moved.db") == named(1)
    if play is replace:
        assert names_in(path) == named(50, 51)
    assert not list(tmp_path.rglob("*-journal"))
    assert not list(tmp_path.rglob("*-wal"))


def test_a_file_moved_away_and_back_is_used_on(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with Repository(path) as repository:
        repository.add(small_task(1))
        path.rename(tmp_path / "away.db")
        with pytest.raises(RepositoryError, match="is gone since it was opened"):
            repository.add(small_task(2))
        (tmp_path / "away.db").rename(path)
        repository.add(small_task(2))
    assert names_in(path) == named(1, 2)


def test_the_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Repository("r.db") as repository:
        repository.add(small_task(1))
        monkeypatch.chdir("/")
        repository.add(small_task(2))
    assert names_in(tmp_path / "r.db") == named(1, 2)


def test_one_file_holds_everything_that_was_acknowledged(tmp_path: Path) -> None:
    """A copy of the one file, made while nobody writes, is the whole repository."""
    path, copy = tmp_path / "here" / "r.db", tmp_path / "copy.db"
    path.parent.mkdir()
    with Repository(path) as repository:
        for number in range(5):
            repository.add(small_task(number))
            assert [found.name for found in path.parent.iterdir()] == ["r.db"]
            shutil.copy(path, copy)
            assert names_in(copy) == named(*range(number + 1))


def test_a_copy_put_into_the_open_file_is_refused(tmp_path: Path) -> None:
    """``cp backup.db r.db``: the same inode, another content, and what is kept in memory is not true of it."""
    path = filled(tmp_path / "r.db", 0, 1)
    shutil.copy(path, tmp_path / "older.db")
    with Repository(path) as repository:
        repository.add(small_task(2))
        backup = repository.backup(tmp_path / "backup.db")
        assert len(list(repository.tasks())) == 3
        repository.add(small_task(3))
        for copy in (tmp_path / "older.db", backup, filled(tmp_path / "other.db", 7)):
            shutil.copy(copy, path)
            for use in (lambda: repository.add(small_task(9)), lambda: list(repository.tasks())):
                with pytest.raises(RepositoryError, match=r"was replaced by a copy since it was opened, nothing was"):
                    use()
            assert names_in(path) == names_in(copy)
    with Repository(path) as repository:
        assert [record.name for record in repository.records()] == ["task 7"]


# Journals and logs that are not the file's own


def with_a_journal(path: Path, *added: int) -> Path:
    """A file as a process leaves it that dies while it commits these tasks."""
    before = path.read_bytes()
    after = filled(path, *added).read_bytes()
    tear(path, before, after, np.random.default_rng(19))
    return path


def test_a_change_that_was_cut_short_is_undone(tmp_path: Path) -> None:
    path = with_a_journal(filled(tmp_path / "r.db", 0, 1, 2), 3)
    assert names_in(path) == named(0, 1, 2)
    assert not Path(f"{path}-journal").exists()


def test_a_backup_restored_beside_the_journal_of_another_state_is_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db", 0, 1, 2)
    shutil.copy(path, tmp_path / "backup.db")
    with_a_journal(filled(path, 3, 4, 5), 6)
    shutil.copy(tmp_path / "backup.db", path)
    told = r"r.db-journal in .* does not belong to r.db as it is now, nothing was changed.* delete r.db-journal"
    with pytest.raises(DamagedError, match=told):
        Repository(path)
    assert path.read_bytes() == (tmp_path / "backup.db").read_bytes()
    Path(f"{path}-journal").unlink()
    assert names_in(path) == named(0, 1, 2)


def test_a_journal_of_one_backup_beside_another_is_left_alone(tmp_path: Path) -> None:
    """Backups begin to count anew, so each has a stamp of its own."""
    with Repository(filled(tmp_path / "r.db", 0)) as repository:
        first = repository.backup(tmp_path / "first.db")
        repository.add(small_task(1))
        second = repository.backup(tmp_path / "second.db")
    path = tmp_path / "r.db"
    shutil.copy(first, path)
    with_a_journal(path, 5)
    shutil.copy(second, path)
    with pytest.raises(DamagedError, match=r"r.db-journal in .* does not belong to r.db as it is now"):
        Repository(path)
    assert path.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("end", ["-journal", "-wal"])
def test_a_pipe_in_the_place_of_a_journal_is_refused(tmp_path: Path, end: str) -> None:
    path = filled(tmp_path / "r.db", 0)
    os.mkfifo(f"{path}{end}")
    with pytest.raises(DamagedError, match=rf"r.db{end} in .* does not belong to r.db"):
        Repository(path)


def test_a_journal_longer_than_its_file_can_have_is_refused(tmp_path: Path) -> None:
    path = with_a_journal(filled(tmp_path / "r.db", 0), 1)
    journal = Path(f"{path}-journal")
    content = journal.read_bytes()
    journal.write_bytes(content[:512])
    os.truncate(journal, 2**40)
    with pytest.raises(DamagedError, match=r"r.db-journal in .* does not belong to r.db"):
        Repository(path)


def test_a_file_that_computes_is_refused(tmp_path: Path) -> None:
    """A view in the place of a table could compute for ever."""
    for statement in (
        "CREATE VIEW seen AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i FROM r",
        "CREATE TRIGGER pulled AFTER INSERT ON tasks BEGIN DELETE FROM policies; END",
        "CREATE TABLE computed (a, b AS (a + 1))",
    ):
        path = filled(tmp_path / f"{len(statement)}.db", 0)
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.close()
        with pytest.raises(DamagedError, match=r"holds a \w+ '\w+' that computes, must hold records alone"):
            Repository(path)


def test_a_log_of_an_earlier_version_beside_a_new_file_is_not_applied(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db", 0, 1, 2)
    other = filled(tmp_path / "other.db", 5, 6, 7, 8)
    logged = sqlite3.connect(other)
    logged.execute("PRAGMA journal_mode=WAL")
    logged.execute("UPDATE tasks SET name = 'stale'")
    logged.commit()
    shutil.copy(f"{other}-wal", f"{path}-wal")
    logged.close()
    with pytest.raises(DamagedError, match=r"r.db-wal in .* does not belong to r.db as it is now"):
        Repository(path)
    Path(f"{path}-wal").unlink()
    assert names_in(path) == named(0, 1, 2)


def test_a_file_with_a_log_of_an_earlier_version_is_opened_whole_and_needs_none_after(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db", 0, 1)
    script = (
        "import os, sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('PRAGMA journal_mode=WAL')\n"
        "c.execute(\"UPDATE sequences SET last = 70 WHERE name = 'runs'\")\nc.commit()\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert Path(f"{path}-wal").stat().st_size > 0
    with Repository(path) as repository:
        query = "SELECT last FROM sequences WHERE name = 'runs'"
        assert repository.database.read(lambda c: c.exec_driver_sql(query).scalar()) == 70
        assert sorted(found.name for found in tmp_path.iterdir()) == ["r.db"]
    assert names_in(path) == named(0, 1)


# Locks


@pytest.mark.parametrize("other", ["r.db", "symbolic.db", "hard.db"])
def test_opening_a_repository_again_does_not_take_away_the_lock_of_one_that_is_writing(
    tmp_path: Path, other: str
) -> None:
    """The system drops all locks of a process on a file when any part of the process closes that file once."""
    path = filled(tmp_path / "r.db", 0)
    (tmp_path / "symbolic.db").symlink_to(path)
    os.link(path, tmp_path / "hard.db")
    inside, done = threading.Event(), threading.Event()

    def work(_: object) -> None:
        inside.set()
        done.wait(60)

    with Repository(path) as repository:
        writer = threading.Thread(target=repository.database.write, args=(work,))
        writer.start()
        inside.wait(60)
        opener = threading.Thread(target=lambda: Repository(tmp_path / other).close())
        opener.start()
        opener.join(0.5)
        probe = "import sqlite3, sys\nsqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        found = subprocess.run([sys.executable, "-c", probe, str(path)], capture_output=True, text=True)
        done.set()
        writer.join()
        opener.join()
    assert "database is locked" in found.stderr


def test_more_threads_than_connections_wait_for_their_turn(tmp_path: Path) -> None:
    """Forty threads at once."""
    complaints: list[BaseException] = []
    with Repository(tmp_path / "r.db") as repository:

        def add(number: int) -> None:
            try:
                repository.add(small_task(number))
            except BaseException as error:
                complaints.append(error)

        threads = [threading.Thread(target=add, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert complaints == []
        assert len(repository) == 40


def test_threads_that_wait_too_long_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Repository(tmp_path / "r.db") as repository:
        monkeypatch.setattr(location, "BUSY_SECONDS", 0.05)
        while not repository.database._turns.empty():
            repository.database._turns.get_nowait()
        repository.database._turns.put(None)

        def hold(_: object) -> None:
            sentence = r"r.db was in use by 15 threads of this process for 0.05 seconds, try again"
            with pytest.raises(RepositoryError, match=sentence):
                repository.records()

        repository.database.read(hold)


# A reader who may not write, beside the owner who does


READER = """
import os, sys, tempfile
from pathlib import Path
path, stop = sys.argv[1:]
from pastmaster import PastmasterError, Repository
with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/spare.db") as spare:
    spare.check()  # what is loaded when it is used is loaded now: the library may lie where others may not look
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
rounds = failures = 0
highest = 0
print("ready", flush=True)
while not Path(stop).exists():
    try:
        with Repository(path, create=False) as repository:
            for _ in range(3):
                found = len(repository.records())
                if found < highest:
                    print("went back", highest, found, flush=True); failures += 1
                highest = max(highest, found)
                if damage := repository.check():
                    print("damage", damage[0], flush=True); failures += 1
                rounds += 1
    except PastmasterError as error:
        print("error", error, flush=True); failures += 1
print("done", rounds, failures, highest)
"""


@pytest.mark.repeated
def test_a_reader_who_may_not_write_sees_what_the_owner_writes(attempts: Callable[[str, str], Tally]) -> None:
    """[20 adds of the owner]: the reader sees the last ones, and no damage that is not there."""
    tally = attempts("reader without rights beside a writer", "no false damage, no frozen view, nobody locked out")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        path = filled(folder / "r.db", 0)
        path.chmod(0o644)
        folder.chmod(0o755)
        stop = folder / "stop"
        reader = subprocess.Popen([sys.executable, "-c", READER, path, stop], stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        try:
            reader.stdout.readline()
            total = repetitions(200, 12)
            filled(path, *range(1, total))
            stop.touch()
            out = reader.communicate(timeout=faults.PATIENCE)[0].splitlines()
        finally:
            reader.kill()
        last = out[-1].split()
        assert last[0] == "done", out
        tally.survived(int(last[1]) - int(last[2]))
        for line in out[:-1]:
            tally.failed(line)
        assert 0 < int(last[3]) <= total


ASKING = """
import os, sys, tempfile
from pastmaster import PastmasterError, Repository
with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/spare.db") as spare:
    spare.check()  # what is loaded when it is used is loaded now: the library may lie where others may not look
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with Repository(sys.argv[1], create=False) as repository:
        print(len(repository))
except PastmasterError as error:
    print(error)
"""


def test_a_reader_who_may_not_write_is_refused_where_there_is_a_log() -> None:
    """A file has a log while it is served, and after a kill until its owner opens it again."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        path = filled(folder / "r.db", 0)
        turn_log_on(path)
        path.chmod(0o644)
        folder.chmod(0o777)
        command = [sys.executable, "-c", ASKING, str(path)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert answer.startswith(f"Repository: {path} has a write-ahead log")
        assert "must be writable: ask its owner for a copy made by `pastmaster repo backup`" in answer
        assert [found.name for found in folder.iterdir()] == ["r.db"], "it locks out its owner"
        assert names_in(path) == named(0)
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"


# Backups


def test_a_backup_is_made_beside_writers_and_is_whole(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db", 0, 1, 2)
    with Repository(path) as repository:
        backup = repository.backup(tmp_path / "backup.db")
        assert backup == tmp_path / "backup.db"
        before = dump(repository)
        repository.add(small_task(3))
    with Repository(backup, create=False) as copied:
        assert dump(copied) == before
        assert copied.check() == []
    assert sorted(found.name for found in tmp_path.iterdir()) == ["backup.db", "r.db"]


def back_up_all_the_time(place: str, log: Path, stop: Path) -> None:
    folder = Path(place).parent
    with Repository(place) as repository:
        for number in range(10**6):
            before = len(repository)
            target = repository.backup(folder / f"backup{number}.db")
            with Repository(target, create=False) as copied:
                acknowledge(log, len(copied.check()), before, len(copied))
            target.unlink()
            if stop.exists():
                return


@pytest.mark.repeated
def test_backups_beside_a_writer_are_whole(tmp_path: Path, attempts: Callable[[str, str], Tally]) -> None:
    tally = attempts("backup while another process writes", "the backup is whole and not older than the call")
    place, log, stop = str(tmp_path / "r.db"), tmp_path / "log", tmp_path / "stop"
    with Repository(place) as repository:
        backing = faults.start(back_up_all_the_time, place, log, stop)
        for number in range(repetitions(300, 20)):
            repository.add(small_task(number))
        stop.touch()
        faults.finish(backing)
    for damage, before, copied in acknowledged(log):
        if int(damage) or int(copied) < int(before):
            tally.failed(f"{damage} damaged, {copied} tasks of at least {before}")
        else:
            tally.survived()


def test_a_backup_never_replaces_a_file(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db", 0)
    (tmp_path / "there.db").write_text("mine")
    with Repository(path) as repository:
        for there in (tmp_path / "there.db", path, tmp_path):
            with pytest.raises(RepositoryError, match=r"^Repository.backup: .* is there already, must be a new file"):
                repository.backup(there)
        with pytest.raises(RepositoryError, match=r"Repository.backup: .*nowhere.* cannot be written"):
            repository.backup(tmp_path / "nowhere" / "b.db")
    assert (tmp_path / "there.db").read_text() == "mine"
    assert sorted(found.name for found in tmp_path.iterdir()) == ["r.db", "there.db"]


def test_damage_is_told_before_a_backup_of_it_is_kept(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db", 0, 1)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE tasks SET name = 'spoilt' WHERE id = 2")
    connection.commit()
    connection.close()
    told = r"^Repository.backup: .*b.db is not made, the repository is damaged: tasks 2: its checksum"
    with Repository(path) as repository, pytest.raises(DamagedError, match=told):
        repository.backup(tmp_path / "b.db")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["r.db"]


def test_a_server_has_backups_of_its_own(postgres_url: str, tmp_path: Path) -> None:
    with Repository(postgres_url) as repository, pytest.raises(RepositoryError, match=r"pg_dump, or Repository.export"):
        repository.backup(tmp_path / "b.db")


# Any game, in any order


class Game:
    """A repository that is open, and what people do to its file."""

    def __init__(self, folder: Path, rng: np.random.Generator) -> None:
        self.path, self.aside, self.folder, self.rng = folder / "r.db", folder / "aside.db", folder, rng
        self.held: dict[Path, set[int]] = {self.path: set()}  # what was acknowledged into the file at a place
        self.repository = Repository(self.path)

    def add(self, step: int) -> None:
        try:
            self.repository.add(small_task(step))
        except RepositoryError as error:
            if "since it was opened" not in str(error):
                raise
        else:
            assert self.path.exists(), "an add was acknowledged into nowhere"
            self.held[self.path].add(step)

    def delete(self, _: int) -> None:
        self.path.unlink(missing_ok=True)
        self.held.pop(self.path, None)

    def move(self, _: int) -> None:
        self._move(self.path, self.aside)

    def back(self, _: int) -> None:
        self._move(self.aside, self.path)

    def replace(self, step: int) -> None:
        numbers = self.rng.integers(100, 200, 2).tolist()
        new = filled(self.folder / f"new{step}.db", *numbers)
        self.held[new] = set(numbers)
        self._move(new, self.path)

    def _move(self, source: Path, target: Path) -> None:
        if source.exists():
            os.replace(source, target)
            self.held[target] = self.held.pop(source)

    def reopen(self, _: int) -> None:
        self.repository.close()
        self.repository = Repository(self.path)
        self.held.setdefault(self.path, set())

    def copy(self, _: int) -> None:
        if self.path.exists():
            shutil.copy(self.path, self.folder / "copy.db")
            assert names_in(self.folder / "copy.db") == named(*self.held[self.path])

    def play(self) -> None:
        games = [self.add, self.add, self.add, self.delete, self.move, self.back, self.replace, self.reopen, self.copy]
        for step in range(12):
            games[self.rng.integers(len(games))](step)
        self.repository.close()
        for path, numbers in self.held.items():
            assert names_in(path) == named(*numbers), path


@pytest.mark.repeated
def test_file_games_at_random(tmp_path: Path, attempts: Callable[[str, str], Tally]) -> None:
    """[300 games of twelve steps]"""
    tally = attempts("file deleted, moved, replaced, copied while open", "nothing acknowledged into nowhere")
    for seed in range(repetitions(300, 5)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with tally.attempt(f"seed {seed}"):
            Game(folder, np.random.default_rng([18, seed])).play()
        shutil.rmtree(folder)
