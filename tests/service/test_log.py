"""A file has a write-ahead log while it is served, and is one file again afterwards."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from seams import Ask, Describe, Tell
from service_world import engine, small_task

from pastmaster import Repository
from pastmaster.errors import DamagedError
from pastmaster.repository import sqlite


def told(place) -> int:
    with engine(place) as served:
        return served.call(Describe("site"))["told"]


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def ask_and_tell(served, count: int) -> None:
    for _ in range(count):
        (asked,) = served.call(Ask("site", 1))["episodes"]
        served.call(Tell("site", asked["number"], 0.5))


def test_the_log_is_there_while_the_file_is_served(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    small_task(path)
    with engine(path) as served:
        ask_and_tell(served, 5)
        assert "site.db-wal" in beside(path)
        with Repository(path) as other:  # which turns off logs that nobody uses
            assert other.database.is_sqlite
        ask_and_tell(served, 5)
        assert "site.db-wal" in beside(path)
    assert beside(path) == ["site.db"]
    assert told(path) == 10


def test_what_a_kill_leaves_is_one_file_when_it_was_opened(tmp_path: Path) -> None:
    path, left = tmp_path / "a" / "site.db", tmp_path / "b" / "site.db"
    path.parent.mkdir()
    left.parent.mkdir()
    small_task(path)
    with engine(path) as served:
        ask_and_tell(served, 20)
        for name in ("site.db", "site.db-wal"):  # as they are at this moment
            shutil.copy(path.with_name(name), left.with_name(name))
    with Repository(left):
        assert beside(left) == ["site.db"]
    assert told(left) == 20


def test_who_reads_while_another_thread_commits_sees_no_copy(tmp_path: Path, monkeypatch) -> None:
    """A log lets a reader go on with the state before a commit: that is no file that went back."""
    path, state = tmp_path / "site.db", sqlite._state
    small_task(path)
    with engine(path) as served:
        ask_and_tell(served, 1)
        reader, during = threading.current_thread(), []

        def then_a_commit(handle):
            found = state(handle)
            if threading.current_thread() is reader and not during:
                during.append(served.call(Ask("site", 1)))
            return found

        monkeypatch.setattr(sqlite, "_state", then_a_commit)
        count = "SELECT count(*) FROM service_episodes"
        assert served.database.read(lambda c: c.exec_driver_sql(count).scalar()) == 1
        assert during
        assert served.database.read(lambda c: c.exec_driver_sql(count).scalar()) == 2


def test_a_backup_beside_an_old_log_is_refused(tmp_path: Path) -> None:
    path, backup, log = tmp_path / "site.db", tmp_path / "backup.db", tmp_path / "log"
    small_task(path)
    with Repository(path) as repository:
        repository.backup(backup)
    with engine(path) as served:
        ask_and_tell(served, 3)
        shutil.copy(f"{path}-wal", log)
    shutil.copy(backup, path)
    shutil.copy(log, f"{path}-wal")
    with pytest.raises(DamagedError, match=r"site.db-wal .* does not belong to site.db"):
        Repository(path)
