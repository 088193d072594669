"""A process killed at every moment of every operation: before and after each statement, around each commit.

The repository then is as it was before the operation, or as it is after it, and nothing between.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from attempts import Tally
from faults import acknowledge, acknowledged, canonical, dump, repetitions, small_task

from pastmaster import Repository, solve

Operation = Callable[[Repository, Path], Any]


def complete(repository: Repository) -> None:
    """Value every candidate in every landmark."""
    repository.experience([repository.policy_records()[0].id])


OPERATIONS: dict[str, Operation] = {
    "add": lambda repository, _: repository.add(small_task(30)),
    "add again, better": lambda repository, _: repository.add(small_task(5), solve(small_task(5)).policy),
    "replace_policy": lambda repository, _: repository.replace_policy(1, np.full((6, 3), 1 / 3)),
    "remove": lambda repository, _: repository.remove(2, 3),
    "cluster": lambda repository, _: repository.cluster(n_clusters=2, rng=1, restarts=1),
    "streaming: add": lambda repository, _: repository.add(small_task(31)),
    "streaming: add_many": lambda repository, _: repository.add_many(map(small_task, range(20, 32)), batch=12),
    "streaming: experience": lambda repository, _: complete(repository),
    "streaming: keep": lambda repository, _: repository.keep(k=1, rng=0),
    "backup": lambda repository, folder: repository.backup(folder / "backup.db"),
    "export": lambda repository, folder: repository.export(folder / "exported"),
}


def operate(place: str, name: str, moment: int | None, log: Path) -> None:
    """Do something, and die in it; or count the moments at which one could."""
    with Repository(place) as repository:
        counter = faults.count_moments() if moment is None else None
        if moment is not None:
            faults.die_at(moment)
        OPERATIONS[name](repository, Path(place).parent)
        if counter is not None:
            acknowledge(log, next(counter))


def stored_in(path: Path) -> Any:
    with Repository(path, create=False) as repository:
        assert repository.check() == []
        return canonical(dump(repository))


@pytest.mark.repeated
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_killed_at_any_moment_is_done_or_not(
    name: str, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    tally = attempts("kill -9 at every statement of every operation", "done wholly or not at all")
    base = tmp_path / "base.db"
    with Repository(base, max_loss=1.0 if name.startswith("streaming") else None) as repository:
        repository.add(small_task(5), np.zeros(6, int))
        for number in range(4):
            repository.add(small_task(number))
        repository.cluster(n_clusters=2, rng=0, restarts=1)
        if name.startswith("streaming"):
            repository.add_many(map(small_task, range(10, 18)))
        if name == "streaming: keep":  # which then has no values to complete, in a transaction of its own
            complete(repository)

    def attempt(moment: int | None) -> Path:
        folder = tmp_path / str(moment)
        folder.mkdir()
        place = folder / "r.db"
        shutil.copy(base, place)
        process = faults.start(operate, str(place), name, moment, folder / "log")
        process.join(faults.PATIENCE)
        assert process.exitcode == (0 if moment is None else -9), process.exitcode
        return place

    whole = attempt(None)
    moments = int(acknowledged(whole.parent / "log")[0][0])
    allowed = [stored_in(base), stored_in(whole)]
    step = 1 if faults.SOAK else max(1, moments // repetitions(1, 3))
    for moment in range(0, moments, step):
        with tally.attempt(f"{name}, moment {moment} of {moments}"):
            place = attempt(moment)
            assert stored_in(place) in allowed
            for made in (place.parent / "backup.db", place.parent / "exported"):
                if made.is_file():
                    assert stored_in(made) == allowed[0]
                elif made.exists():
                    with Repository(made.with_suffix(".db")) as repository:
                        repository.import_(made)
            shutil.rmtree(place.parent)
