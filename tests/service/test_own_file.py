"""The service's own file: its write-ahead log, whose it is, its backup and its check."""

from __future__ import annotations

import shutil
import stat
import threading
from pathlib import Path

import pytest
from faults import small_task as a_task_of
from seams import Ask, Describe, Tell
from service_world import engine, small_task

from pastmaster import Repository
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.repository import sqlite
from pastmaster.service import list_tokens, make_task


def told(place) -> int:
    with engine(place) as served:
        return served.call(Describe("site"))["told"]


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def ask_and_tell(served, count: int) -> None:
    for _ in range(count):
        (asked,) = served.call(Ask("site", 1))["episodes"]
        served.call(Tell("site", asked["number"], 0.5))


def test_only_the_services_file_has_a_log(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    small_task(path)
    assert beside(path) == ["site.db", "site.service.db"]
    with engine(path) as served:
        ask_and_tell(served, 5)
        log = ["site.db", "site.service.db", "site.service.db-shm", "site.service.db-wal"]
        assert beside(path) == log
        with Repository(path) as other:
            number = other.add(a_task_of(0))
            ask_and_tell(served, 5)
            assert beside(path) == log
            assert other.policy(number) is not None
    assert beside(path) == ["site.db", "site.service.db"]
    assert told(path) == 10


def test_what_a_kill_leaves_is_found_when_it_is_served_again(tmp_path: Path) -> None:
    path, left = tmp_path / "a" / "site.db", tmp_path / "b" / "site.db"
    path.parent.mkdir()
    left.parent.mkdir()
    small_task(path)
    with engine(path) as served:
        ask_and_tell(served, 20)
        for name in ("site.db", "site.service.db", "site.service.db-wal"):  # as they are at this moment
            shutil.copy(path.with_name(name), left.with_name(name))
    assert told(left) == 20
    assert beside(left) == ["site.db", "site.service.db"]


@pytest.mark.parametrize("given", [0o600, 0o640])
def test_the_files_of_the_service_have_the_mode_of_the_repository(tmp_path: Path, given: int) -> None:
    path = tmp_path / "site.db"
    Repository(path).close()
    path.chmod(given)
    small_task(path)
    with engine(path) as served:
        ask_and_tell(served, 1)
        assert {stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()} == {given}
        assert len(beside(path)) == 4


def test_a_link_to_a_repository_has_the_same_service(tmp_path: Path) -> None:
    path = tmp_path / "here" / "site.db"
    path.parent.mkdir()
    small_task(path)
    (tmp_path / "link.db").symlink_to(path)
    with engine(tmp_path / "link.db") as served:
        ask_and_tell(served, 2)
    assert beside(path) == ["site.db", "site.service.db"]
    assert told(path) == 2


def test_a_service_whose_repository_is_another_says_so(place: str) -> None:
    small_task(place)
    with Repository(place) as repository:
        repository.database.write(lambda c: c.exec_driver_sql("UPDATE identity SET id = 'another'"))
        sentence = (
            r"serve: .*service.* belongs to another repository than .*, must be its own: put that repository back"
        )
        for call in (list_tokens, lambda r: make_task(r, "more", sources=["a"], bounds=(0, 1))):
            with pytest.raises(RepositoryError, match=sentence):
                call(repository)


def test_a_service_whose_repository_is_gone_says_so(tmp_path: Path) -> None:
    path = tmp_path / "site.db"
    small_task(path)
    path.unlink()
    with pytest.raises(RepositoryError, match=r"there is no repository at .*site.db: check the path"):
        Repository(path, create=False)
    with Repository(path) as fresh, pytest.raises(RepositoryError, match="belongs to another repository than"):
        list_tokens(fresh)


def test_a_service_has_its_schema_on_a_server(postgres_url: str) -> None:
    small_task(postgres_url)
    with Repository(postgres_url) as repository:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        names = repository.database.read(lambda c: c.exec_driver_sql(query).scalars().all())
        assert "tasks" in names
        assert not [name for name in names if "service" in name]
        assert repository.check() == []


def test_a_file_of_a_service_is_no_repository(tmp_path: Path) -> None:
    small_task(tmp_path / "site.db")
    with pytest.raises(RepositoryError, match="is not a repository: it holds the tables of something else"):
        Repository(tmp_path / "site.service.db")


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


# Backup and check


def test_a_backup_has_both_and_every_policy_that_the_service_names(tmp_path: Path, monkeypatch) -> None:
    """The policy of a task is to be removed while the service's file is copied: the two copies are of one moment."""
    path, monday = tmp_path / "site.db", tmp_path / "monday.db"
    with Repository(path) as repository, Repository(path) as other:
        number = repository.add(a_task_of(0))
        policy = repository.record(number).policy_of_record
        make_task(repository, "of-policies", sources=[policy], selector="tsallis-inf", bounds=(0, 1))
        copy, removal = sqlite.File.copy, threading.Thread(target=other.remove, args=(number,))

        def beside_a_removal(file: sqlite.File, target: Path) -> None:
            copy(file, target)
            if ".service" in file.place:
                removal.start()
                removal.join(0.3)

        monkeypatch.setattr(sqlite.File, "copy", beside_a_removal)
        assert repository.backup(monday) == monday
        removal.join(60.0)
        assert len(repository) == 0
    with engine(monday) as served, Repository(monday, create=False) as restored:
        arms = served.call(Describe("of-policies"))["arms"]
        assert [arm["policy"] for arm in arms] == [restored.policy_records([policy])[0].digest, None]
    assert beside(monday) == ["monday.db", "monday.service.db", "site.db", "site.service.db"]


def test_a_backup_is_not_made_where_that_of_a_service_is(tmp_path: Path) -> None:
    small_task(tmp_path / "site.db")
    with Repository(tmp_path / "site.db") as repository:
        (tmp_path / "monday.service.db").touch()
        with pytest.raises(RepositoryError, match=r"monday.service.db is there already, must be a new file"):
            repository.backup(tmp_path / "monday.db")
    assert not (tmp_path / "monday.db").exists()


def test_damage_to_the_services_file_is_found_and_not_backed_up(tmp_path: Path) -> None:
    path, own = tmp_path / "site.db", tmp_path / "site.service.db"
    small_task(path)
    with engine(path) as served:
        for _ in range(5):
            served.call(Ask("site", 1000))
    content = bytearray(own.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    own.write_bytes(content)
    with Repository(path) as repository:
        found = repository.check()
        assert found
        assert {damage.place for damage in found} == {str(own)}
        with pytest.raises(DamagedError, match=r"is not made, the repository is damaged: .*monday.service.db"):
            repository.backup(tmp_path / "monday.db")
    assert beside(path) == ["site.db", "site.service.db"]


def test_a_backup_beside_an_old_log_is_refused(tmp_path: Path) -> None:
    path, log = tmp_path / "site.db", tmp_path / "log"
    small_task(path)
    with Repository(path) as repository:
        repository.backup(tmp_path / "backup.db")
    with engine(path) as served:
        ask_and_tell(served, 3)
        shutil.copy(tmp_path / "site.service.db-wal", log)
    shutil.copy(tmp_path / "backup.service.db", tmp_path / "site.service.db")
    shutil.copy(log, tmp_path / "site.service.db-wal")
    with Repository(path) as repository:
        with pytest.raises(DamagedError, match=r"site.service.db-wal .* does not belong to site.service.db"):
            list_tokens(repository)
        with pytest.raises(DamagedError, match=r"site.service.db-wal .* does not belong to site.service.db"):
            repository.check()
