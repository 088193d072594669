"""``--jobs`` and ``--workers``: the same answers, from processes of this machine or from a dask scheduler's workers."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pastmaster import Repository, domains
from pastmaster.cli import main

TASKS = domains.coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]], size=4)
GRID = ("--gym", "pastmaster/ColouredGrid-v0", "--kwargs", '{"weights": [0.2, 0.9], "size": 4}')
COMMANDS = {
    "keep": ("repo", "keep", "{db}", "-k", "2", "--symmetric", "--restarts", "2", "--json"),
    "transfer": ("transfer", "{db}", *GRID, "--trials", "2", "--episodes", "20", "--json"),
    "continual": ("continual", "{db}", *GRID, "--episodes", "20", "--restarts", "2", "--json"),
}


def run(db: Path, command: str, *more: str) -> Result:
    words = [str(db) if word == "{db}" else word for word in COMMANDS[command]]
    return CliRunner().invoke(main, [*words, *more])


@pytest.fixture
def db(tmp_path: Path) -> Path:
    place = tmp_path / "tasks.db"
    with Repository(place) as repository:
        for task in TASKS:
            repository.add(task)
        repository.keep(k=2)
    return place


@pytest.fixture(scope="module")
def scheduler():
    """The address of a dask scheduler with a worker."""
    distributed = pytest.importorskip("distributed", reason="dask is an extra")
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=1, **settings) as cluster:
        yield cluster.scheduler_address


@pytest.mark.parametrize("command", COMMANDS)
def test_the_workers_of_a_scheduler_give_the_same_answer(command, db, scheduler, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_bytes(db.read_bytes())
    alone = run(db, command)
    assert alone.exit_code == 0, alone.output
    together = run(copy, command, "--workers", scheduler)
    assert together.exit_code == 0, together.output
    assert together.stdout == alone.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_jobs_and_workers_are_one_too_many(command, db):
    result = run(db, command, "--workers", "tcp://127.0.0.1:1", "--jobs", "2")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: --jobs and --workers are given, must be one of the two"


def test_a_scheduler_that_does_not_answer_is_one_sentence(db):
    dask = pytest.importorskip("dask", reason="dask is an extra")
    pytest.importorskip("distributed", reason="dask is an extra")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        result = run(db, "keep", "--workers", closed)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: --workers is '{closed}', where no dask scheduler answers (")
    assert result.stderr.count("\n") == 1
    result = run(db, "keep", "--workers", "nowhere")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: --workers is 'nowhere', where no dask scheduler answers (")


def test_a_missing_package_is_named(db, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run(db, "keep", "--workers", "tcp://127.0.0.1:8786")
    assert result.exit_code == 2
    assert "Error: --workers needs the package distributed: pip install 'pastmaster[dask]'" in result.stderr
