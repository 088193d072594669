"""The episodes of a round, as jobs that any worker can do and whose returns can be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.arrays import FloatArray
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.returns import Counts, Returns
from pastmaster.estimation.rollouts import Run, episode_returns
from pastmaster.policies import Policy
from pastmaster.policies.convert import data_of
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.identity import task_data
from pastmaster.tasks.tabular import TabularMDP

PIECE = 1024  # episodes that one job runs at most: some 0.1 s to some seconds


class Job(NamedTuple):
    """Episodes of one task."""

    task: int
    runs: tuple[Run, ...]


class Episodes:
    """Tasks, policies and seeds, and how their episodes are run."""

    def __init__(
        self,
        tasks: list[TabularMDP | GymTask],
        policies: list[Policy],
        seeds: list[int],
        folder: Path | None,
        n_jobs: int,
        backend: str | None,
        progress: bool,
    ) -> None:
        self.played = _Played(tasks, policies, seeds)
        if backend is None and parallel.worker_count(n_jobs) > 1:
            backend = "loky"  # environments hold the interpreter
        self.folder, self.n_jobs, self.backend, self.progress = folder, n_jobs, backend, progress
        self.team = parallel.Team()  # for all rounds
        self.identity = None if folder is None else _identity(tasks, policies)

    def run(self, returns: Returns, plan: Counts) -> None:
        """Run plan[i, j] more episodes of each entry, and add their returns."""
        jobs = [Job(i, piece) for i, row in enumerate(plan) if row.any() for piece in _pieces(returns.counts[i], row)]
        results = parallel.run(
            self.played,
            jobs,
            n_jobs=self.n_jobs,
            backend=self.backend,
            save=None if self.folder is None else self._saved(self.folder, jobs),
            progress=self.progress,
            label=f"{int(plan.sum()):,} episodes",
            team=self.team,
        )
        for job, played in zip(jobs, results, strict=True):
            for run, part in zip(job.runs, played, strict=True):
                returns.add(job.task, run.policy, part)

    def close(self) -> None:
        """Let the workers go."""
        self.team.close()

    def _saved(self, folder: Path, jobs: list[Job]) -> parallel.Saved[Job, list[FloatArray]]:
        numbers = [[job.task, [[run.policy, run.first, run.count] for run in job.runs]] for job in jobs]
        key = parallel.digest("estimate_cross_values", self.identity, self.played.seeds, numbers)
        return parallel.Saved(folder, key, _to_arrays, _from_arrays)


class _Played:
    """Plays a job's episodes; this, not more, is what workers are sent."""

    def __init__(self, tasks: list[TabularMDP | GymTask], policies: list[Policy], seeds: list[int]) -> None:
        self.tasks, self.policies, self.seeds = tasks, policies, seeds

    def __call__(self, job: Job) -> list[FloatArray]:
        return episode_returns(self.tasks[job.task], self.policies, job.runs, self.seeds[job.task])


def _pieces(counts: npt.NDArray[np.int64], plan: npt.NDArray[np.int64]) -> list[tuple[Run, ...]]:
    """The runs of a row in jobs of at most ``PIECE`` episodes, cut always in the same way."""
    pieces: list[list[Run]] = [[]]
    room = PIECE
    for j in np.flatnonzero(plan).tolist():
        first, left = int(counts[j]), int(plan[j])
        while left:
            if not room:
                pieces.append([])
                room = PIECE
            now = min(left, room)
            pieces[-1].append(Run(j, first, now))
            first, left, room = first + now, left - now, room - now
    return [tuple(piece) for piece in pieces]


def _to_arrays(results: list[list[FloatArray]]) -> dict[str, npt.NDArray[Any]]:
    return {str(i): np.concatenate(parts) for i, parts in enumerate(results)}


def _from_arrays(arrays: Mapping[str, npt.NDArray[Any]], jobs: Sequence[Job]) -> list[list[FloatArray]]:
    results = []
    for i, job in enumerate(jobs):
        together, counts = arrays[str(i)], [run.count for run in job.runs]
        if together.dtype != np.float64 or together.shape != (sum(counts),) or not np.isfinite(together).all():
            raise ValueError("its returns do not fit")
        results.append(np.split(together, np.cumsum(counts)[:-1]))
    return results


def _identity(tasks: list[TabularMDP | GymTask], policies: list[Policy]) -> list[Any]:
    """All that episodes depend on, as data, or a refusal."""
    return [[_task(i, task) for i, task in enumerate(tasks)], [_policy(j, p) for j, p in enumerate(policies)]]


def _task(i: int, task: TabularMDP | GymTask) -> list[Any]:
    try:
        return task_data(task)
    except InvalidInputError as error:
        raise _refused(f"tasks[{i}], which cannot be told from others on disk", str(error)) from None


def _policy(j: int, policy: Policy) -> list[Any]:
    data = data_of(policy)
    if data is None:
        why = "it cannot be told from others on disk: must be a table or a network"
        raise _refused(f"policies[{j}] = {policy!r}", why)
    return data


def _refused(what: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"estimate_cross_values: save is given with {what}: {why}")
