"""A long life: memory, descriptors and threads stay what they were."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import faults
import numpy as np
import psutil
import pytest
from attempts import Tally
from faults import acknowledge, acknowledged, repetitions, small_task

from pastmaster import Repository
from pastmaster.reuse import Exp3Transfer, Informed, RegretBalancing, TsallisINF

pytestmark = pytest.mark.repeated
SELECTORS = {"exp3-transfer": Exp3Transfer, "tsallis-inf": TsallisINF, "regret-balancing": RegretBalancing}
SELECTORS |= {"informed": partial(Informed, experience=np.random.default_rng(5).random((30, 5)))}
ROOM = 24 * 2**20  # bytes by which memory may grow: the allocator's own, not ours


def usage() -> tuple[int, int, int]:
    """Bytes of memory, descriptors and threads of this process."""
    gc.collect()
    process = psutil.Process()
    return process.memory_info().rss, process.num_fds(), threading.active_count()


def grown(before: tuple[int, int, int]) -> str:
    """What grew since, in words; nothing if nothing did."""
    memory, descriptors, threads = (now - then for now, then in zip(usage(), before, strict=True))
    signs = {"bytes of memory": memory > ROOM, "descriptors": descriptors > 0, "threads": threads > 0}
    amounts = {"bytes of memory": memory, "descriptors": descriptors, "threads": threads}
    return ", ".join(f"{amounts[what]:,} {what}" for what, grew in signs.items() if grew)


def ask_and_tell(name: str, times: int, log: Path) -> None:
    """Ask and tell, some answers late, some cancelled; state goes through JSON now and then."""
    rng = np.random.default_rng(22)
    selector = SELECTORS[name](5, times, bounds=(0.0, 1.0), rng=3)
    before = None
    for step in range(times):
        if step == times // 10:
            before = usage()
        episode = selector.ask()
        if step % 97 == 0:
            selector.cancel(episode)
        else:
            selector.tell(episode, float(rng.random()))
        if step % 50_000 == 49_999:
            selector = type(selector).from_dict(selector.to_dict())
    assert before is not None
    acknowledge(log, grown(before) or "nothing")


@pytest.mark.parametrize("name", SELECTORS)
def test_a_million_episodes_take_no_more_memory(
    name: str, tmp_path: Path, attempts: Callable[[str, str], Tally]
) -> None:
    times, log = repetitions(1_000_000, 20_000), tmp_path / "log"
    tally = attempts("ask and tell, four selectors", "flat memory, descriptors, threads")
    faults.finish(faults.start(ask_and_tell, name, times, log))
    said = " ".join(acknowledged(log)[0])
    tally.survived(times) if said == "nothing" else tally.failed(f"{name} grew by {said}")


def add_many(place: str, times: int, log: Path) -> None:
    """Add, read, remove the oldest: the repository stays as large as it was, and so does the process."""
    before = None
    with Repository(place) as repository:
        for number in range(times):
            if number == max(times // 4, 40):
                before = usage()
            repository.add(small_task(number))
            if number >= 30:
                repository.remove(min(record.id for record in repository.records()))
            if number % 20 == 0:
                Repository(place, create=False).close()
                repository.cross_values()
    assert before is not None
    acknowledge(log, grown(before) or "nothing")
    acknowledge(log, *(name for name in os.listdir(Path(place).parent) if name.startswith(Path(place).name)))


def test_two_thousand_adds_take_no_more_memory(tmp_path: Path, attempts: Callable[[str, str], Tally]) -> None:
    times, log = repetitions(2000, 60), tmp_path / "log"
    tally = attempts("adds and removals in one process", "flat memory, descriptors, threads")
    faults.finish(faults.start(add_many, str(tmp_path / "r.db"), times, log))
    said, files = acknowledged(log)
    tally.survived(times) if said == ["nothing"] else tally.failed(f"it grew by {' '.join(said)}")
    assert files == ["r.db"]
