"""The episodes of a round, in pieces that any worker can run and whose returns can be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pastmaster import parallel
from pastmaster.arrays import Array, FloatArray, LongArray
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.returns import Returns
from pastmaster.estimation.rollouts import EpisodeRange, episode_returns
from pastmaster.policies import Policy
from pastmaster.policies.convert import data_of
from pastmaster.tables import shown
from pastmaster.tasks import Task
from pastmaster.tasks.identity import task_data

LARGEST_PIECE = 1024  # episodes that one worker runs at a time, at most: some 0.1 s to some seconds


class Piece(NamedTuple):
    """Episodes of one task, for one worker."""

    task: int
    ranges: tuple[EpisodeRange, ...]


CALLER = "estimate_cross_values"


class EpisodeRunner:
    """Tasks, policies and seeds, and how their episodes are run."""

    def __init__(
        self, tasks: list[Task], policies: list[Policy], seeds: list[int], folder: Path | None, n_jobs: int,
        backend: str | None, progress: bool,
    ) -> None:  # fmt: skip
        self.player = _Player(tasks, policies, seeds)
        if parallel.worker_count(n_jobs, CALLER) > 1 and parallel.checked_backend(backend, CALLER) is None:
            backend = "loky"  # environments hold the interpreter
        self.workers: dict[str, Any] = {"n_jobs": n_jobs, "backend": backend, "progress": progress, "caller": CALLER}
        self.workers["team"] = parallel.Team()  # for all rounds
        self.folder, self.identity = folder, None if folder is None else _identity(tasks, policies)

    def run(self, returns: Returns, plan: LongArray) -> None:
        """Run plan[i, j] more episodes of each entry, and add their returns."""
        tasks = np.flatnonzero(plan.any(axis=1)).tolist()
        pieces = [piece for i in tasks for piece in _pieces(i, returns.counts[i], plan[i])]
        saved = None if self.folder is None else self._saved(self.folder, pieces)
        label = f"{int(plan.sum()):,} episodes"
        try:
            results = parallel.run(self.player, pieces, save=saved, label=label, **self.workers)
        except InvalidInputError as error:  # of a policy that does not fit, and begins with the task
            sentence = str(error).removeprefix(f"{CALLER}: ")
            raise InvalidInputError(f"{CALLER}: {sentence}") from error.__cause__
        for piece, played in zip(pieces, results, strict=True):
            for some, part in zip(piece.ranges, played, strict=True):
                returns.add(piece.task, some.policy, part)

    def close(self) -> None:
        """Let the workers go."""
        self.workers["team"].close()

    def _saved(self, folder: Path, pieces: list[Piece]) -> parallel.Saved[Piece, list[FloatArray]]:
        numbers = [[piece.task, [[some.policy, some.first, some.count] for some in piece.ranges]] for piece in pieces]
        key = parallel.digest("estimate_cross_values", self.identity, self.player.seeds, numbers)
        return parallel.Saved(folder, key, _to_arrays, _from_arrays)


@dataclass(frozen=True)
class _Player:
    """Plays the episodes of a piece; this, not more, is what workers are sent."""

    tasks: list[Task]
    policies: list[Policy]
    seeds: list[int]

    def __call__(self, piece: Piece) -> list[FloatArray]:
        return episode_returns(self.tasks[piece.task], self.policies, piece.ranges, self.seeds[piece.task])


def _pieces(task: int, counts: LongArray, plan: LongArray) -> list[Piece]:
    """The episodes of a row in pieces of at most ``LARGEST_PIECE``, cut always in the same way."""
    pieces: list[list[EpisodeRange]] = [[]]
    room = LARGEST_PIECE
    for j in np.flatnonzero(plan).tolist():
        first, left = int(counts[j]), int(plan[j])
        while left:
            if not room:
                pieces.append([])
                room = LARGEST_PIECE
            now = min(left, room)
            pieces[-1].append(EpisodeRange(j, first, now))
            first, left, room = first + now, left - now, room - now
    return [Piece(task, tuple(piece)) for piece in pieces]


def _to_arrays(results: list[list[FloatArray]]) -> dict[str, Array]:
    return {str(i): np.concatenate(parts) for i, parts in enumerate(results)}


def _from_arrays(arrays: Mapping[str, Array], pieces: Sequence[Piece]) -> list[list[FloatArray]]:
    results = []
    for i, piece in enumerate(pieces):
        together, counts = arrays[str(i)], [some.count for some in piece.ranges]
        if together.dtype != np.float64 or together.shape != (sum(counts),) or not np.isfinite(together).all():
            raise ValueError("its returns do not fit")
        results.append(np.split(together, np.cumsum(counts)[:-1]))
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
