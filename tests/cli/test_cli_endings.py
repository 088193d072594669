"""Commands that end early, and what people read: names, numbers, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pastmaster import Repository, RepositoryError, domains
from pastmaster.cli import main

MANY = ("--domain", "coloured-grid", "--count", "6")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def db(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        repository.add(domains.coloured_grid.task([1, 0.5], size=4))
    return tmp_path / "tasks.db"


def stops(monkeypatch, name: str, error: BaseException, after: int = 0) -> None:
    """Let a method of repositories raise once it was called so often."""
    calls, method = [], getattr(Repository, name)

    def called(self, *arguments, **options):
        if len(calls) == after:
            raise error
        calls.append(arguments)
        return method(self, *arguments, **options)

    monkeypatch.setattr(Repository, name, called)


@pytest.mark.parametrize(
    ("method", "line"),
    [("records", "repo list"), ("check", "repo check"), ("remove", "repo remove 1"), ("backup", "repo backup x.db")],
)
def test_ctrl_c_ends_any_command_with_130(db, monkeypatch, method, line):
    stops(monkeypatch, method, KeyboardInterrupt())
    command, name, *more = line.split()
    done = run(command, name, db, *more)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_while_adding_says_how_many_tasks_were_added(tmp_path, monkeypatch):
    stops(monkeypatch, "add", KeyboardInterrupt(), after=3)
    done = run("repo", "add", tmp_path / "new.db", *MANY)
    assert (done.exit_code, done.stderr) == (130, "interrupted: 3 of 6 tasks were added\n")
    with Repository(tmp_path / "new.db") as repository:
        assert len(repository) == 3


@pytest.mark.parametrize("after", [0, 2])
def test_an_error_while_adding_says_how_many_tasks_were_added(tmp_path, monkeypatch, after):
    stops(monkeypatch, "add", RepositoryError("the disk is full"), after)
    done = run("repo", "add", tmp_path / "new.db", *MANY)
    assert (done.exit_code, done.stderr) == (1, f"Error: the disk is full; {after} of 6 tasks were added\n")


def test_of_one_task_nothing_is_counted(db, monkeypatch):
    stops(monkeypatch, "add", RepositoryError("the disk is full"))
    assert run("repo", "add", db, *MANY[:2], "--count", 1).stderr == "Error: the disk is full\n"


def test_adding_for_a_reader_who_left_says_how_many_tasks_were_added(tmp_path):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "pastmaster", "repo", "add", str(tmp_path / "new.db"), *MANY, "--quiet"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "1 of 6 tasks were added\n")


def test_output_that_nobody_reads_ends_a_command_quietly(db):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "pastmaster", "repo", "show", str(db), "--json"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


def test_ends_of_lines_and_tabs_in_names_are_escapes(tmp_path):
    task, path = domains.coloured_grid.task([1, 0.5], size=4), tmp_path / "task.npz"
    arrays = {name: getattr(task, name) for name in ("next_state", "reward", "terminated", "gamma", "horizon")}
    np.savez(path, **arrays, name="two\nlines\tand a tab")
    shown = r"two\nlines\tand a tab"
    assert shown in run("repo", "add", tmp_path / "new.db", path).stdout
    assert shown in run("repo", "list", tmp_path / "new.db").stdout.splitlines()[1]
    assert f"name                {shown}\n" in run("repo", "show", tmp_path / "new.db", 1).stdout


def test_numbers_of_a_task_are_rounded(db, monkeypatch):
    facts = {"value": 0.8900000000000001, "value_error": 2.06e-17, "bounds": [0.1 + 0.2, 1.0]}
    monkeypatch.setattr(sys.modules["pastmaster.cli.repo"], "_task_facts", lambda repository, number: facts)
    lines = run("repo", "show", db, 1).stdout.splitlines()
    assert [line.split(maxsplit=line.startswith("value error") + 1)[-1] for line in lines] == ["0.89", "0", "0.3 .. 1"]
    facts["value_error"] = 0.01234567
    assert "value error         0.01235" in run("repo", "show", db, 1).stdout


@pytest.mark.parametrize("name", ["actions.csv", "actions.txt"])
def test_a_policy_that_is_no_npy_file_is_called_so(db, tmp_path: Path, name):
    (tmp_path / name).write_text("0,1\n" * 100)
    done = run("repo", "add", db, "--gym", "FrozenLake-v1", "--policy", tmp_path / name)
    assert done.exit_code == 1
    assert f"{name} is not an .npy file, must be" in done.stderr
    assert done.stderr.endswith("np.save makes one\n")
