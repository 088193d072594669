"""Backups and exports: who may read them, and what is left of those that were killed before they were finished."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faults
import pytest
from seams import Database, archive, backup
from together import at_once

from pastmaster import Repository
from pastmaster.files import UNFINISHED, unfinished


@pytest.fixture(params=[0o022, 0o077, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def filled(path: Path) -> Repository:
    repository = Repository(path)
    repository.add_many(map(faults.small_task, range(3)))
    return repository


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(
    ("given", "of_folders"), [(0o600, 0o700), (0o640, 0o750), (0o644, 0o755), (0o660, 0o770), (0o400, 0o700)]
)
def test_what_is_made_of_a_repository_has_its_mode(tmp_path, given, of_folders):
    with filled(tmp_path / "repository.db") as repository:
        (tmp_path / "repository.db").chmod(given)
        made = repository.backup(tmp_path / "monday.db")
        folder = repository.export(tmp_path / "exported")
    assert mode(made) == given
    found = {path: mode(path) for path in [folder, *folder.rglob("*")]}
    assert {mode for path, mode in found.items() if path.is_dir()} == {of_folders}
    assert {mode for path, mode in found.items() if not path.is_dir()} == {given}
    with Repository(made, create=False) as restored:
        assert len(restored) == 3


@pytest.mark.parametrize("given", [0o600, 0o644])
def test_files_that_sqlite_puts_beside_have_the_mode_of_the_repository(tmp_path, given):
    path = tmp_path / "repository.db"
    with filled(path) as repository:
        path.chmod(given)

        def look(connection):
            connection.exec_driver_sql("UPDATE sequences SET last = last + 1")
            return [mode(found) for found in tmp_path.iterdir() if found != path]

        assert repository.database.write(look) == [given]


def test_what_is_made_of_a_database_on_a_server_has_the_mode_of_any_new_file(tmp_path, postgres_url, umask):
    with Repository(postgres_url) as repository:
        repository.add(faults.small_task(0))
        folder = repository.export(tmp_path / "exported")
    assert mode(folder) == mode(folder / "arrays") == 0o777 & ~umask
    assert mode(folder / "manifest.json") == 0o666 & ~umask


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_verifying(folder: Path) -> None:
    """Back up, and be killed when the copy is there and not yet verified."""
    backup._verify = die  # type: ignore[assignment]
    with Repository(folder / "repository.db") as repository:
        repository.backup(folder / "monday.db")


def die_writing(folder: Path) -> None:
    """Export, and be killed in the middle of the arrays."""
    counted = iter(range(4))
    right = archive.write_new

    def write(*arguments: Any) -> None:
        right(*arguments)
        if next(counted) == 3:
            die()

    archive.write_new = write  # type: ignore[assignment]
    with Repository(folder / "repository.db") as repository:
        repository.export(folder / "exported")


def die_copied(folder: Path) -> None:
    """Check, and be killed when the copy that is read is there."""
    right = Database.__init__

    def opened(self: Database, place: Any, **settings: Any) -> None:
        right(self, place, **settings)
        if UNFINISHED in str(place):
            die()

    Database.__init__ = opened  # type: ignore[method-assign]
    with Repository(folder / "repository.db") as repository:
        repository.check()


def there(work: Callable[[Path], None], folder: Path) -> None:
    """Do this where temporary files are in the same folder."""
    tempfile.tempdir = str(folder)
    work(folder)


@pytest.mark.parametrize("work", [die_verifying, die_writing, die_copied])
@pytest.mark.parametrize(
    "after",
    [
        lambda repository, folder: repository.backup(folder / "tuesday.db"),
        lambda repository, folder: repository.export(folder / "again"),
        lambda repository, folder: repository.check(),
    ],
    ids=["backup", "export", "check"],
)
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch, work, after):
    with filled(tmp_path / "repository.db"):
        pass
    process = faults.start(there, work, tmp_path)
    process.join(faults.PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    left = hidden(tmp_path)
    assert left
    assert all(mode(path) == 0o700 for path in left)
    assert not (tmp_path / "monday.db").exists()
    assert not (tmp_path / "exported").exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Repository(tmp_path / "repository.db") as repository:
        after(repository, tmp_path)
    assert hidden(tmp_path) == []


def test_what_another_is_at_work_on_stays(tmp_path):
    with filled(tmp_path / "repository.db") as repository, unfinished(tmp_path) as folder:
        (folder / "half").write_bytes(b"x")
        repository.backup(tmp_path / "monday.db")
        repository.export(tmp_path / "exported")
        assert hidden(tmp_path) == [folder]
        assert (folder / "half").read_bytes() == b"x"
    assert hidden(tmp_path) == []


def test_what_is_called_alike_and_is_no_folder_of_ours_stays(tmp_path):
    others = tmp_path / "others"
    others.mkdir()
    (others / "precious").touch()
    (tmp_path / f"{UNFINISHED}link").symlink_to(others)
    (tmp_path / f"{UNFINISHED}file").touch()
    with unfinished(tmp_path):
        pass
    assert len(hidden(tmp_path)) == 2
    assert (others / "precious").exists()


def test_many_at_once_do_not_remove_each_others(tmp_path):
    def work() -> None:
        for _ in range(30):
            with unfinished(tmp_path) as folder:
                (folder / "half").write_bytes(b"x")
                assert (folder / "half").exists()

    assert at_once(*[work] * 4) == []
    assert hidden(tmp_path) == []
