"""Files whose rows were forged, with right checksums: what makes no sense is named, and never used.

Every method returns, or raises an error of the library in a printable sentence; after ``remove_damaged`` the check is
clean. The seeds are kept here; what once broke is always tried.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import repetitions, small_task

from pastmaster import ContinualTransfer, DamagedError, PastmasterError, Repository
from pastmaster.repository import records
from pastmaster.repository.schema import RECORDS, row_checksum
from pastmaster.texts import printable

pytestmark = [pytest.mark.repeated, pytest.mark.filterwarnings("ignore")]

SEED, FILES = 1700, repetitions(1000, 12)
QUICK: dict[str, Any] = {"restarts": 1, "iterations": 50}
DEEP = "[" * 900 + "]" * 900
VALUES: list[Any] = [
    None, 0, -1, 1, 2, 10**6, 2**62, -(2**63), 1.5, float("inf"), 1e308, "", "x", "\x1b]0;pwn\x07", "a" * 5000, b"\xff",
    "[]", "{}", "null", DEEP, '{"kind": ' + DEEP + "}", "NaN", '"\\ud800"', "\u202e",
]  # fmt: skip
PARTS: list[Any] = [
    None, True, 0, -1, 3, 10**12, 10**30, 0.5, 1e308, float("nan"), float("inf"), "", "x", "tabular", "network", [],
    [1], {}, {"a": 1}, [[[]]], "\x1b[31m", "\ud800", "CartPole-v1", "[[",
]  # fmt: skip
COUNTERS = [0, -1, "x", 2**63 - 1, 1.5, 10**6, b"x"]
CORPUS: list[tuple[str, str, Any]] = [  # what once raised errors of others, or was never removed
    ("clusterings", "settings", '{"asked": null, "found": null}'),
    ("clusterings", "settings", '{"asked": {}, "found": 3}'),
    ("clusterings", "id", -1),
    ("tasks", "own_policy", "x"),
    ("tasks", "id", 2**62),
    ("tasks", "digest", "x"),
    ("tasks", "upper", None),
    ("tasks", "name", b"\xff"),
    ("runs", "settings", '{"source_ids": [null]}'),
    ("runs", "position", "x"),
    ("streams", "settings", '{"clustering": 1}'),
    ("streams", "settings", '{"clustering": {"ladder": "[["}, "entropy": 1}'),
    ("policies", "settings", '{"name": "\\ud800", "n_states": 6, "n_actions": 3}'),
]


def agent(repository: Repository) -> ContinualTransfer:
    return ContinualTransfer(repository, episodes=20, recluster_every=2, clustering=QUICK, rng=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a record of every kind."""
    path = tmp_path_factory.mktemp("forged") / "whole.db"
    with Repository(path) as repository:
        agent(repository).run([small_task(k) for k in range(3)])
        repository.cluster(n_clusters=1, rng=0, **QUICK)
    return path


def forge(path: Path, table: str, number: int | None, column: str, value: Any) -> None:
    """Put a value into a record, the last one of its table by default, with a checksum that is right."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.row_factory = sqlite3.Row
        wanted = "(SELECT max(id) FROM " + table + ")" if number is None else str(number)
        row = dict(connection.execute(f"SELECT * FROM {table} WHERE id = {wanted}").fetchone())
        old, row[column] = row["id"], value
        with suppress(TypeError):  # bytes have none: the old one stays
            row["checksum"] = row_checksum(table, row)
        changes = ", ".join(f"{name} = :{name}" for name in row)
        with suppress(sqlite3.Error, OverflowError):  # the table refuses it
            connection.execute(f"UPDATE {table} SET {changes} WHERE id = {old}", row)
    connection.close()


def changed(settings: str, rng: random.Random) -> str:
    """Settings with one value, or one within a value, that is another."""
    found = json.loads(settings)
    holder = inside = found
    key: Any = None
    while isinstance(inside, dict | list) and inside:
        holder, key = inside, rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        inside = holder[key]
        if rng.random() < 0.5:
            break
    if key is None:  # forged already, and empty
        return json.dumps(rng.choice(PARTS))
    if rng.random() < 0.15:
        del holder[key]
    else:
        holder[key] = rng.choice(PARTS)
    return json.dumps(found)


def forge_at_random(path: Path, rng: random.Random) -> list[str]:
    """Forge one to three records or counters; returns what was done."""
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        table = rng.choice(list(RECORDS))
        with sqlite3.connect(path) as connection:
            rows = connection.execute(f"SELECT id, settings FROM {table}").fetchall()
            if rng.random() < 0.06:
                value = rng.choice(COUNTERS)
                connection.execute("UPDATE sequences SET last = ? WHERE name = ?", (value, table))
                done.append(f"the counter of {table} is {value!r}")
        connection.close()
        if not rows or not all(isinstance(number, int) for number, _ in rows):
            continue
        number, settings = rng.choice(rows)
        columns = [column.name for column in RECORDS[table].columns if column.name != "checksum"]
        column = rng.choice([*columns, *["settings"] * 4])
        value = rng.choice(VALUES)
        with suppress(ValueError, TypeError, RecursionError):  # forged already
            if column == "settings" and rng.random() < 0.9:
                value = changed(settings, rng)
        forge(path, table, number, column, value)
        done.append(f"{column} of {table} {number} is {str(value)[:100]!r}")
    return done


def calls(repository: Repository, folder: Path) -> dict[str, Callable[[], Any]]:
    """What a person may do with a file, what changes it last."""
    reading = ("records", "policy_records", "clusterings", "clustering", "cells", "sources", "named_sources")
    reading += ("cell_policies", "runs", "return_bounds", "cross_values", "to_frame", "_repr_html_", "check")
    return {
        "len": lambda: len(repository),
        **{name: lambda name=name: repr(getattr(repository, name)()) for name in reading},
        "tasks": lambda: list(repository.tasks()),
        "policies": lambda: list(repository.policies()),
        "export": lambda: repository.export(folder / "exported"),
        "agent": lambda: agent(repository).run([small_task(k) for k in range(4)]),
        "cluster": lambda: repository.cluster(n_clusters=1, rng=0, **QUICK),
        "add": lambda: repository.add(small_task(9)),
        "replace_policy": lambda: repository.replace_policy(1, np.zeros(6, int)),
        "remove": lambda: repository.remove(2),
        "remove_damaged": repository.remove_damaged,
    }


def use(path: Path, folder: Path) -> list[str]:
    """Everything that goes wrong with a file but with an error of ours, one to a line."""
    wrong = []
    with Repository(path, create=False) as repository:
        for name, call in calls(repository, folder).items():
            try:
                call()
            except PastmasterError as error:
                if printable(str(error)) != str(error):
                    wrong.append(f"{name}: {error!r} is not printable")
            except Exception as error:
                wrong.append(f"{name}: {error!r}")
        wrong += [f"after remove_damaged: {damage}" for damage in repository.check()]
    return wrong


def test_what_once_broke_is_named_and_removed(whole, tmp_path, attempts):
    tally = attempts("rows with other values and right checksums, what once broke", "an error of ours, and it heals")
    for index, (table, column, value) in enumerate(CORPUS):
        path = Path(shutil.copy(whole, tmp_path / f"{index}.db"))
        forge(path, table, None, column, value)
        with tally.attempt(f"{column} of {table} is {value!r}"):
            wrong = use(path, tmp_path / str(index))
            assert not wrong, wrong


def test_forged_files_at_random(whole, tmp_path, attempts):
    tally = attempts("rows with other values and right checksums", "an error of ours, and it heals")
    for seed in range(SEED, SEED + FILES):
        path = Path(shutil.copy(whole, tmp_path / "forged.db"))
        done = forge_at_random(path, random.Random(seed))
        with tally.attempt(f"seed {seed}: {done}"):
            wrong = use(path, tmp_path / str(seed))
            assert not wrong, wrong
        shutil.rmtree(tmp_path / str(seed), ignore_errors=True)


def test_a_file_that_nobody_forged_is_the_control(whole, tmp_path):
    path = Path(shutil.copy(whole, tmp_path / "same.db"))
    forge(path, "clusterings", None, "position", None)  # as it is
    with Repository(path, create=False) as repository:
        assert repository.check() == []
        assert len(repository.runs()) == 3
        assert set(repository.cells()) == {1, 2, 3}


@pytest.mark.parametrize("name", ["task_from_arrays", "checked_policy"])
def test_a_lack_of_memory_is_no_damage(whole, tmp_path, monkeypatch, name):
    def scarce(*_: Any, **__: Any) -> None:
        raise MemoryError

    path = Path(shutil.copy(whole, tmp_path / "whole.db"))
    monkeypatch.setattr(records, name, scarce)
    with Repository(path, create=False) as repository:
        for call in (repository.check, repository.remove_damaged):
            with pytest.raises(MemoryError):
                call()
        with pytest.raises(MemoryError):
            repository.task(1) if name == "task_from_arrays" else repository.policy(1)
    monkeypatch.undo()
    with Repository(path, create=False) as repository:
        assert repository.check() == []
        assert len(repository) == 3


def test_a_forged_clustering_is_named(whole, tmp_path):
    path = Path(shutil.copy(whole, tmp_path / "forged.db"))
    forge(path, "clusterings", None, "settings", '{"asked": {}, "found": {"n_tasks": 3}}')
    with Repository(path, create=False) as repository:
        for call in (repository.clustering, repository.cells, repository.sources, repository.cell_policies):
            with pytest.raises(DamagedError, match=r"^clusterings \d+: 'cost' is missing$"):
                call()
