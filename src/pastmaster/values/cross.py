"""Cross values: what every policy is worth in every task, by jobs that any worker can do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.arrays import FloatArray, IntArray, sealed
from pastmaster.checks import listed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.policy import checked_policy
from pastmaster.solving import solve
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.tabular import Model, TabularMDP, check_alike
from pastmaster.values import _kernels as cross_kernels
from pastmaster.values.evaluation import under_policy

SHARED_GAMMA = 0.999  # nearer to 1 an endless occupancy takes longer than valuing the tasks one by one
POLICY_CHUNK = 64  # policies whose occupancies are one job of the shared-dynamics method


def cross_values(
    tasks: Iterable[Any],
    policies: Iterable[Any] | None = None,
    *,
    n_jobs: int = 1,
    backend: str | None = None,
    save: str | Path | None = None,
    progress: bool = False,
) -> FloatArray:
    """U [N, M]: the value of each policy in each task, from the task's start, exact to its horizon.

    Without ``policies``, policy j is the canonical optimal policy of task j. The method follows the structure: one
    trajectory where the task is deterministic, one occupancy for all tasks that share their dynamics, otherwise only
    the states that the policy reaches.

    A task without a model (a ``GymTask``) is refused: ``estimate_cross_values`` is for those.

    ``backend`` is "threads" (the default), "loky", "dask" or "ray" (see ``parallel.run``); the values do not depend on
    it. ``save`` is a folder: what is finished is kept there, and the same call goes on from it.
    """
    tasks = listed(tasks, "cross_values: tasks")
    if any(isinstance(task, GymTask) for task in tasks):
        raise InvalidInputError(
            "cross_values: tasks holds a GymTask, must hold models: estimate_cross_values tries policies by episodes"
        )
    check_alike(tasks, "cross_values")
    folder = None if save is None else parallel.saving_folder("cross_values", save)
    if policies is None:
        policies = _solved_policies(tasks, n_jobs, backend, folder, progress)
    columns = [
        checked_policy(p, tasks[0].n_states, tasks[0].n_actions, f"cross_values: policies[{j}]")
        for j, p in enumerate(listed(policies, "cross_values: policies"))
    ]
    if not columns:
        raise InvalidInputError("cross_values: policies is empty, must hold at least one")
    distinct = {(p.ndim, p.tobytes()): p for p in columns}  # tasks often share a policy: it is valued once
    place = {key: j for j, key in enumerate(sorted(distinct, key=lambda key: key[0]))}
    actions = np.array([p for p in distinct.values() if p.ndim == 1], np.int32).reshape(-1, tasks[0].n_states)
    cross = _Cross(tasks, sealed(actions), [p for p in distinct.values() if p.ndim == 2])
    jobs = cross.jobs(tasks)
    values = parallel.run(
        cross.values,
        jobs,
        n_jobs=n_jobs,
        backend=backend,
        save=None if folder is None else cross.saved(folder, tasks),
        progress=progress,
        label="cross values",
    )
    by_policy = np.empty((len(tasks), len(distinct)))
    for job, part in zip(jobs, values, strict=True):
        by_policy[list(job.rows), job.first : job.last] = part
    U: FloatArray = by_policy[:, [place[p.ndim, p.tobytes()] for p in columns]]
    return U


def _solved_policies(
    tasks: list[TabularMDP], n_jobs: int, backend: str | None, folder: Path | None, progress: bool
) -> list[IntArray]:
    """The canonical optimal policies, with a warning for each that is not certified."""
    saved = None
    if folder is not None:
        key = parallel.digest("solve", [outcomes_and_start(task) for task in tasks])
        saved = parallel.Saved[TabularMDP, _Policy](folder, key, _policies_to_arrays, _policies_from_arrays)
    found = parallel.run(
        _solved_policy, tasks, n_jobs=n_jobs, backend=backend, save=saved, progress=progress, label="solving"
    )
    for task, solved in zip(tasks, found, strict=True):
        if solved.doubt:
            warnings.warn(f"cross_values: the policy of {task} is certified only to {solved.doubt}", stacklevel=3)
    return [solved.actions for solved in found]


class _Policy(NamedTuple):
    """An optimal policy [S], and how good it is at least where that is not certain."""

    actions: IntArray
    doubt: str


def _solved_policy(task: TabularMDP) -> _Policy:
    solution = solve(task)
    return _Policy(solution.policy, "" if solution.converged else str(solution))


def _policies_to_arrays(policies: list[_Policy]) -> dict[str, npt.NDArray[Any]]:
    doubts = [policy.doubt for policy in policies]
    return {"actions": np.stack([policy.actions for policy in policies]), "doubts": parallel.as_text(doubts)}


def _policies_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], tasks: Sequence[TabularMDP]) -> list[_Policy]:
    actions, doubts = arrays["actions"], parallel.from_text(arrays["doubts"])
    if actions.dtype != np.int32 or actions.shape != (len(tasks), tasks[0].n_states) or len(doubts) != len(tasks):
        raise ValueError("its policies do not fit")
    return [_Policy(sealed(row), str(doubt)) for row, doubt in zip(actions, doubts, strict=True)]


def outcomes_and_start(task: TabularMDP) -> list[Any]:
    """All of a task that values and episodes depend on."""
    outcomes = [task.next_state, task.reward, task.probability, task.terminated]
    return [*outcomes, task.gamma, task.start_states, task.start_probability, task.horizon]


def _task_blocks(tasks: list[TabularMDP]) -> dict[tuple[int, ...], list[TabularMDP]]:
    """Tasks by index, those that share stochastic dynamics, start and horizon together, every other one alone."""
    shared: dict[Any, list[int]] = {}
    for i, task in enumerate(tasks):
        key: Any = i
        if task.probability is not None and (task.horizon is not None or task.gamma <= SHARED_GAMMA):
            arrays = (task.next_state, task.probability, task.terminated, task.start_states, task.start_probability)
            key = (task.horizon, blake2b(b"".join(array.tobytes() for array in arrays)).digest())
        shared.setdefault(key, []).append(i)
    return {tuple(indices): [tasks[i] for i in indices] for indices in shared.values()}


class _Job(NamedTuple):
    """A piece of U: its rows, its columns from ``first`` to ``last``, and the task, or None where several share all."""

    rows: tuple[int, ...]
    first: int
    last: int
    task: TabularMDP | None


class _Cross:
    """Policies to be valued, those of actions first, then random ones; and the dynamics that several tasks share."""

    def __init__(self, tasks: list[TabularMDP], actions: IntArray, mixed: list[FloatArray]) -> None:
        self.actions, self.mixed = actions, mixed
        alike = _task_blocks(tasks) if len(actions) else {}
        self.shared = {rows: _Shared(block) for rows, block in alike.items() if len(block) > 1}

    def jobs(self, tasks: list[TabularMDP]) -> list[_Job]:
        """The pieces of U, cut always in the same way."""
        n_actions, n_policies = len(self.actions), len(self.actions) + len(self.mixed)
        jobs = [
            _Job(rows, first, min(first + POLICY_CHUNK, n_actions), None)
            for rows in self.shared
            for first in range(0, n_actions, POLICY_CHUNK)
        ]
        covered = {i for rows in self.shared for i in rows}
        for i, task in enumerate(tasks):
            first = n_actions if i in covered else 0
            if first < n_policies:
                jobs.append(_Job((i,), first, n_policies, task))
        return jobs

    def values(self, job: _Job) -> FloatArray:
        """One piece of U."""
        if job.task is None:
            return self.shared[job.rows].values(sealed(self.actions[job.first : job.last]))
        row = np.empty(job.last - job.first)
        own = len(self.actions) - job.first  # 0 where these are valued together with other tasks
        if own:
            row[:own] = _own_values(job.task, self.actions)
        if self.mixed:
            model = job.task.model()
            row[own:] = [_reached_values(job.task, *under_policy(model, policy))[0] for policy in self.mixed]
        return row[None]

    def saved(self, folder: Path, tasks: list[TabularMDP]) -> parallel.Saved[_Job, FloatArray]:
        """Where the pieces are kept."""

        def decode(arrays: Mapping[str, npt.NDArray[Any]], jobs: Sequence[_Job]) -> list[FloatArray]:
            pieces = [arrays[str(i)] for i in range(len(jobs))]
            for job, piece in zip(jobs, pieces, strict=True):
                if piece.dtype != np.float64 or piece.shape != (len(job.rows), job.last - job.first):
                    raise ValueError("its values do not fit")
            return pieces

        key = parallel.digest("cross_values", [outcomes_and_start(task) for task in tasks], self.actions, self.mixed)
        return parallel.Saved(folder, key, lambda pieces: {str(i): p for i, p in enumerate(pieces)}, decode)


class _Shared:
    """Tasks where only the rewards differ."""

    def __init__(self, tasks: list[TabularMDP]) -> None:
        self.task = tasks[0]
        self.rewards = np.stack([task.model().reward.ravel() for task in tasks], axis=1)

    def values(self, policies: IntArray) -> FloatArray:
        """Occupancies [M, S A], in which few are not 0, times expected rewards [S A, N], transposed.

        Not by BLAS, which rounds differently on one thread and on several.
        """
        from scipy import sparse

        task = self.task
        _, next_state, weight = task.model()
        occupancy = np.zeros((len(policies), task.n_states * task.n_actions))
        cross_kernels.occupancies(
            next_state, weight, task.gamma, _cap(task), task.start_states, task.start_probability, policies, occupancy
        )
        values: FloatArray = (sparse.csr_array(occupancy) @ self.rewards).T
        return values


def _own_values(task: TabularMDP, policies: IntArray) -> FloatArray:
    if task.probability is not None:
        return _reached_values(task, task.model(), policies)
    out = np.empty(len(policies))
    cross_kernels.trajectory_values(
        task.next_state, task.reward, task.terminated, task.gamma, _cap(task),
        task.start_states, task.start_probability, policies, out,
    )  # fmt: skip
    return out


def _reached_values(task: TabularMDP, model: Model, policies: IntArray) -> FloatArray:
    policies = np.atleast_2d(policies)
    out = np.empty(len(policies))
    cross_kernels.reached_values(
        *model, task.gamma, _cap(task), task.start_states, task.start_probability, policies, out
    )
    return out


def _cap(task: TabularMDP) -> int:
    """The horizon as the kernels take it."""
    return -1 if task.horizon is None else task.horizon
