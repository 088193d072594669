"""The episodes of a round, in pieces that any worker can run and whose returns can be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pastmaster import parallel
from pastmaster.arrays import Array, FloatArray, LongArray
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.jax_rollouts import Runs, is_program, play_runs
from pastmaster.estimation.returns import Returns
from pastmaster.estimation.rollouts import EpisodeRange, episode_returns
from pastmaster.policies import Policy
from pastmaster.policies.convert import data_of
from pastmaster.tables import shown
from pastmaster.tasks import Task
from pastmaster.tasks.identity import task_data

LARGEST_PIECE = 1024  # episodes that one worker runs at a time, at most: some 0.1 s to some seconds
LARGEST_PROGRAM = 2**20  # the same where they are one program


CALLER = "estimate_cross_values"


class EpisodeRunner:
    """Tasks, policies and seeds, and how their episodes are run."""

    def __init__(
        self,
        tasks: list[Task],
        policies: list[Policy],
        seeds: list[int],
        folder: Path | None,
        n_jobs: int,
        executor: Executor | None,
        progress: bool,
    ) -> None:
        self.program = executor is None and all(is_program(task, policies) for task in tasks)
        if self.program:
            self.player: _Player = _Program(tasks, policies, seeds)
            n_jobs = 1  # it uses all cores, or another device
        else:
            self.player = _Player(tasks, policies, seeds)
        self.team = parallel.Team()  # for all rounds
        self.workers: dict[str, Any] = {
            "n_jobs": n_jobs,
            "executor": executor,
            "processes": True,  # environments hold the interpreter
            "progress": progress,
            "team": self.team,
            "caller": CALLER,
        }
        self.folder = folder
        self.identity = None if folder is None else _identity(tasks, policies)

    def run(self, returns: Returns, plan: LongArray) -> None:
        """Run plan[i, j] more episodes of each entry, and add their returns."""
        planned = np.flatnonzero(plan.any(axis=1))
        rows = [planned] if self.program else np.split(planned, len(planned))
        largest = LARGEST_PROGRAM if self.program else LARGEST_PIECE
        pieces = [piece for some in rows for piece in _pieces(some, returns.counts, plan, largest)]
        saved = None if self.folder is None else self._saved(self.folder, pieces)
        label = f"{int(plan.sum()):,} episodes"
        try:
            results = parallel.run(self.player, pieces, save=saved, label=label, **self.workers)
        except InvalidInputError as error:  # of a policy that does not fit, and begins with the task
            sentence = str(error).removeprefix(f"{CALLER}: ")
            raise InvalidInputError(f"{CALLER}: {sentence}") from error.__cause__
        for piece, played in zip(pieces, results, strict=True):
            ends = np.cumsum(piece.number).tolist()
            for i, j, begin, end in zip(piece.task.tolist(), piece.policy.tolist(), [0, *ends], ends, strict=False):
                returns.add(i, j, played[begin:end])

    def close(self) -> None:
        """Let the workers go."""
        self.team.close()

    def _saved(self, folder: Path, pieces: list[Runs]) -> parallel.Saved[Runs, FloatArray]:
        tasks = [piece.task.tolist() if self.program else int(piece.task[0]) for piece in pieces]
        ranges = [np.stack(piece[1:], axis=1).tolist() for piece in pieces]
        numbers = [list(pair) for pair in zip(tasks, ranges, strict=True)]
        key = parallel.digest("estimate_cross_values", self.identity, self.player.seeds, numbers)
        return parallel.Saved(folder, key, _to_arrays, _from_arrays)


@dataclass(frozen=True)
class _Player:
    """Plays the episodes of a piece, which are of one task; this, not more, is what workers are sent."""

    tasks: list[Task]
    policies: list[Policy]
    seeds: list[int]

    def __call__(self, piece: Runs) -> FloatArray:
        i = int(piece.task[0])
        ranges = [EpisodeRange(*some) for some in np.stack(piece[1:], axis=1).tolist()]
        return np.concatenate(episode_returns(self.tasks[i], self.policies, ranges, self.seeds[i]))


class _Program(_Player):
    """Plays the episodes of a piece as one program, of whatever tasks they are."""

    def __call__(self, piece: Runs) -> FloatArray:
        return play_runs(self.tasks, self.policies, self.seeds, piece).returns


def _pieces(rows: Array, counts: LongArray, plan: LongArray, largest: int) -> Iterator[Runs]:
    """The planned episodes of some rows in pieces of at most ``largest``, cut always in the same way."""
    place, policy = np.nonzero(plan[rows])
    task = rows[place]
    first, count = counts[task, policy], plan[task, policy]
    ends = np.cumsum(count)
    for begin in range(0, int(ends[-1]), largest):
        lost = np.clip(begin - (ends - count), 0, count)  # episodes of earlier pieces
        some = np.minimum(ends, begin + largest) - np.maximum(ends - count, begin)
        held = np.flatnonzero(some > 0)
        yield Runs(task[held], policy[held], (first + lost)[held], some[held])


def _to_arrays(results: list[FloatArray]) -> dict[str, Array]:
    return {str(i): returns for i, returns in enumerate(results)}


def _from_arrays(arrays: Mapping[str, Array], pieces: Sequence[Runs]) -> list[FloatArray]:
    results = [arrays[str(i)] for i in range(len(pieces))]
    for piece, returns in zip(pieces, results, strict=True):
        if returns.dtype != np.float64 or returns.shape != (piece.number.sum(),) or not np.isfinite(returns).all():
            raise ValueError("its returns do not fit")
    return results


def _identity(tasks: list[Task], policies: list[Policy]) -> list[Any]:
    """All that episodes depend on, as data; what is not data is refused."""
    found: list[Any] = []
    for i, task in enumerate(tasks):
        try:
            found.append(task_data(task))
        except InvalidInputError as error:
            raise _refused(f"tasks[{i}], which cannot be told from others on disk", str(error)) from None
    columns = [data_of(policy) for policy in policies]
    if None in columns:
        j = columns.index(None)
        why = "it cannot be told from others on disk: must be a table or a network"
        raise _refused(f"policies[{j}] = {shown(policies[j])}", why)
    return [found, columns]


def _refused(what: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"estimate_cross_values: save is given with {what}: {why}")
