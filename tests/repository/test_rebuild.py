"""Files whose own structure is broken: what can be read is written anew, and the damaged file is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import faults
import numpy as np
import pytest
from attempts import Tally
from faults import canonical, repetitions, small_task

from pastmaster import InvalidInputError, Repository, RepositoryError

SIZES = [16, 512, 4096, 20_000]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "r.db"
    with Repository(path) as repository:
        for number in range(20):
            repository.add(small_task(number))
        repository.cluster(n_clusters=2, rng=0, restarts=1)
    return path


@pytest.mark.repeated
def test_whatever_bytes_are_lost_a_repository_is_healed_or_refused(
    whole: Path, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    """[200 times]: afterwards the check is clean, and what is left is what it was."""
    tally = attempts("bytes of the file lost, then remove_damaged", "clean afterwards, the rest as it was; or refused")
    tasks = {f"task {number}": canonical(small_task(number)) for number in range(20)}
    content, anew = whole.read_bytes(), 0
    for seed in range(repetitions(200, 12)):
        rng = np.random.default_rng([24, seed])
        size, path = SIZES[seed % len(SIZES)], tmp_path / f"{seed}.db"
        first = int(rng.integers(4096, len(content) - size))
        path.write_bytes(content[:first] + rng.bytes(size) + content[first + size :])
        with tally.attempt(f"seed {seed}"):
            try:
                repository = Repository(path)
            except RepositoryError:
                continue  # not even its schema can be read
            with repository:
                found = repository.remove_damaged()
                assert repository.check() == []
                assert not found or len(repository) < 20 or len(repository.clusterings()) <= 1
                for record, task in zip(repository.records(), repository.tasks(), strict=True):
                    assert canonical(task) == tasks[record.name]
                assert repository.add(small_task(99)) > 20
            if kept := list(tmp_path.glob(f"{seed}.db.damaged-*")):
                anew += 1
                assert kept[0].stat().st_size == len(content)
    assert anew, "some of them must have been written anew"
    faults.report(f"{anew} files written anew")


def test_a_repository_is_opened_in_each_process_not_sent_there(whole: Path) -> None:
    import copy
    import pickle

    with Repository(whole) as repository:
        for send in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(InvalidInputError, match=r"cannot be pickled or copied: open .* in each process"):
                send(repository)
