"""A lifelong agent killed at any moment, and again, and again: it ends with the bits of one that nobody disturbed.

The counts in brackets are those of ``make soak``; ``make test`` does a tenth.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faults
import numpy as np
import pytest
import sqlalchemy as sa
from attempts import Tally
from faults import canonical, repetitions, report, small_task
from postgres import Server
from seams import runs

from pastmaster import ContinualTransfer, Repository
from pastmaster.continual import JsonLines

pytestmark = pytest.mark.repeated

KILLS = repetitions(200)
BEFORE, STREAM = range(100, 104), range(12)
VARIANTS: dict[str, dict[str, Any]] = {
    "clusters": {},
    "all": {"sources": "all"},
    "learned": {"model": False, "bounds": (-20.0, 20.0), "evaluation_episodes": 4},
    "after others": {},  # in a repository that holds tasks already
}


class Outcome(NamedTuple):
    """All that a stream leaves behind."""

    run: str
    stored: dict[str, list[str]]
    events: list[dict[str, Any]]
    moments: int
    seconds: float


def run_stream(place: str, folder: Path, variant: str, moment: int | None) -> None:
    """Go through the stream, from where it was; die at a moment, if told."""
    faults.acknowledge(folder / "begins", "yes")
    moments = faults.count_moments()
    if moment is not None:
        faults.die_at(moment)
    began = time.monotonic()
    with Repository(place) as repository, JsonLines(folder / "events") as events:
        agent = ContinualTransfer(
            repository, episodes=50, recluster_every=3, rng=np.random.default_rng(3), hooks=[events],
            clustering={"restarts": 2, "iterations": 2000}, **VARIANTS[variant],
        )  # fmt: skip
        run = agent.run(map(small_task, STREAM))
        outcome = {"run": repr(canonical(run)), "stored": faults.dump(repository)}
    cost = {"moments": next(moments), "seconds": time.monotonic() - began}
    faults.acknowledge(folder / "outcome", json.dumps(outcome | cost))


def outcome_of(folder: Path) -> Outcome:
    """What a finished stream left; events are the same whether they were told once or again."""
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    for event in events:
        del event["replayed"]
    return Outcome(events=events, **json.loads((folder / "outcome").read_text()))


def begin(place: str, variant: str) -> None:
    with Repository(place) as repository:
        for number in BEFORE if variant == "after others" else ():
            repository.add(small_task(number))


def assert_whole(place: str, variant: str) -> None:
    """Nothing is torn, and a task is there if and only if its run is."""
    with Repository(place) as repository:
        assert repository.check() == []
        count = sa.select(sa.func.count()).select_from(runs)
        met = repository.database.read(lambda connection: connection.execute(count).scalar())
        assert len(repository) - len(BEFORE if variant == "after others" else ()) == met


def disturb(place: str, folder: Path, variant: str, whole: Outcome, rng: np.random.Generator) -> bool:
    """Run the stream and kill it, at a moment between statements or in time; returns whether it was killed."""
    (folder / "begins").unlink(missing_ok=True)
    if rng.random() < 0.5:
        process = faults.start(run_stream, place, folder, variant, int(rng.integers(whole.moments // 3)))
        process.join(faults.PATIENCE)
    else:
        process = faults.start(run_stream, place, folder, variant, None)
        faults.wait_for_lines(folder / "begins", 1, process)
        process.join(rng.uniform(0.0, whole.seconds / 3))
        process.kill()
        process.join(faults.PATIENCE)
    assert process.exitcode in (0, -9)
    return process.exitcode == -9


@pytest.mark.parametrize(
    ("database", "variant"),
    [("sqlite", "clusters"), ("sqlite", "all"), ("sqlite", "learned"), ("postgres", "after others")],
)
def test_an_agent_killed_at_any_moment_ends_with_the_same_bits(
    request: pytest.FixtureRequest, database: str, variant: str, rng: np.random.Generator, tmp_path: Path,
    attempts: Callable[[str, str], Tally],
) -> None:  # fmt: skip
    """[200 kills in all]."""
    tally = attempts("kill -9 during a lifelong stream", "resumed, it ends with the same bits")
    server: Server | None = request.getfixturevalue("postgres_server") if database == "postgres" else None
    whole, kills, streams = None, 0, 0
    while whole is None or kills < KILLS // 4:
        folder = tmp_path / str(streams)
        folder.mkdir()
        with faults.fresh_place(server, folder) as place:
            begin(place, variant)
            for _ in range(min(10, KILLS // 4 - kills) if whole is not None else 0):
                if not disturb(place, folder, variant, whole, rng):
                    break
                kills += 1
                tally.survived()
                assert_whole(place, variant)
            if not (folder / "outcome").exists():
                faults.finish(faults.start(run_stream, place, folder, variant, None))
            assert_whole(place, variant)
        outcome = outcome_of(folder)
        whole = whole or outcome
        assert outcome.run == whole.run
        assert outcome.stored == whole.stored
        assert outcome.events == whole.events
        streams += 1
    report(f"kill -9 during continual, {database}, {variant}: {kills} kills in {streams - 1} streams, the same bits")
