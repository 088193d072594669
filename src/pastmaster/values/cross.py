"""Cross values: what every policy is worth in every task, by jobs that any worker can do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pastmaster import parallel
from pastmaster.arrays import Array, FloatArray, IntArray, sealed
from pastmaster.checks import flag
from pastmaster.errors import InvalidInputError
from pastmaster.policies.convert import as_table
from pastmaster.solving import solve
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.identity import task_data
from pastmaster.tasks.tabular import TabularMDP, check_alike
from pastmaster.values import _kernels as kernels
from pastmaster.values.distance import CrossValues
from pastmaster.values.evaluation import under_policy
from pastmaster.values.given import listed_policies, listed_tasks

SHARED_GAMMA = 0.999  # nearer to 1 an endless occupancy takes longer than valuing the tasks one by one
POLICY_CHUNK = 64  # policies whose occupancies are one job of the shared-dynamics method
STACK_CHUNK = 1024  # policies that are one job where tasks are stacked
MOST_STACKED = 16  # tasks: more take more memory and are not faster
LANES = 4  # numbers that are computed at once
_Solved = tuple[IntArray, str]
"""An optimal policy [S], and its solution in words where it is not certified."""


def cross_values(
    tasks: TabularMDP | Iterable[Any], policies: Iterable[Any] | None = None, *,
    n_jobs: int = 1, executor: Executor | None = None, save: str | Path | None = None, progress: bool = False,
) -> CrossValues:  # fmt: skip
    """U [N, M]: the exact value of each policy in each task, from the task's start and to its horizon.

    The method follows the structure: one trajectory where the task is deterministic, one occupancy for all tasks that
    share their dynamics, otherwise only the states that the policy reaches.

    Parameters
    ----------
    tasks : TabularMDP or iterable of these
        One task or many, with the same states, actions and gamma.
    policies : iterable of TablePolicy, Solution or array_like, optional
        Actions [S] or probabilities [S, A]. By default policy j is the canonical optimal policy of task j.
    n_jobs, executor, progress
        The number of threads (-1: one on each core), or a ``concurrent.futures.Executor`` whose workers are used
        instead; and whether to show a progress bar. The values do not depend on them.
    save : path, optional
        A folder for finished work: the same call goes on from it.

    Returns
    -------
    CrossValues, [N, M]
        An array: U[i, j] is the value of policy j in task i. Without ``policies`` it knows that policy j is task j's
        own (``paired``), which ``policy_distance`` asks for.

    Raises
    ------
    InvalidInputError
        If a task has no model (``estimate_cross_values`` is for a ``GymTask``), or tasks and policies do not fit.

    Examples
    --------
    >>> tasks = [TabularMDP([[0, 0]], [rewards], gamma=0.5) for rewards in ([1.0, 2.0], [3.0, 0.0])]
    >>> cross_values(tasks)
    array([[4., 2.],
           [0., 6.]])
    """
    models = listed_tasks("cross_values: tasks", tasks)
    if any(isinstance(task, GymTask) for task in models):
        raise InvalidInputError(
            "cross_values: tasks holds a GymTask, must hold models: estimate_cross_values tries policies by episodes"
        )
    check_alike(models, "cross_values")
    folder = None if save is None else parallel.saving_folder("cross_values", save)
    flag("cross_values", "progress", progress)
    workers = {"n_jobs": n_jobs, "executor": executor, "progress": progress, "caller": "cross_values"}
    columns = _solved_policies(models, folder, workers) if policies is None else policies
    U = _Cross(models, listed_policies("cross_values: policies", columns)).matrix(models, folder, workers)
    return CrossValues(U, paired=policies is None)


def _solved_policies(tasks: list[TabularMDP], folder: Path | None, workers: Mapping[str, Any]) -> list[IntArray]:
    """The canonical optimal policies, with a warning for each that is not certified."""
    saved = None
    if folder is not None:
        key = parallel.digest("solve", [task_data(task) for task in tasks])
        saved = parallel.Saved[TabularMDP, _Solved](folder, key, _policies_to_arrays, _policies_from_arrays)
    found = parallel.run(_solved_policy, tasks, save=saved, label="solving", **workers)
    for task, (_, doubt) in zip(tasks, found, strict=True):
        if doubt:
            warnings.warn(f"cross_values: the policy of {task} is certified only to {doubt}", stacklevel=3)
    return [actions for actions, _ in found]


def _solved_policy(task: TabularMDP) -> _Solved:
    solution = solve(task)
    return solution.policy, "" if solution.converged else str(solution)


def _policies_to_arrays(policies: list[_Solved]) -> dict[str, Array]:
    actions, doubts = zip(*policies, strict=True)
    return {"actions": np.stack(actions), "doubts": parallel.as_text(list(doubts))}


def _policies_from_arrays(arrays: Mapping[str, Array], tasks: Sequence[TabularMDP]) -> list[_Solved]:
    doubts = parallel.from_text(arrays["doubts"])
    return [(sealed(actions), doubt) for actions, doubt in zip(arrays["actions"], doubts, strict=True)]


class _Block(NamedTuple):
    """A piece of U: its rows, its columns from ``first`` to ``last``, and the task; None where several go together."""

    rows: tuple[int, ...]
    first: int
    last: int
    task: TabularMDP | None


class _Cross:
    """Policies to be valued, those of actions before random ones; and the dynamics that several tasks share."""

    def __init__(self, tasks: list[TabularMDP], policies: list[Any]) -> None:
        if not policies:
            raise InvalidInputError("cross_values: policies is empty, must hold at least one")
        n_states, n_actions = tasks[0].n_states, tasks[0].n_actions
        tables = [
            as_table(policy, n_states, n_actions, f"cross_values: policies[{j}]") for j, policy in enumerate(policies)
        ]
        keys = [(table.ndim, table.tobytes()) for table in tables]
        distinct = dict(sorted(zip(keys, tables, strict=True), key=lambda pair: pair[0][0]))
        actions = [table for table in distinct.values() if table.ndim == 1]
        self.actions = sealed(np.array(actions, np.int32).reshape(-1, n_states))
        self.mixed = list(distinct.values())[len(actions) :]
        place = {key: column for column, key in enumerate(distinct)}
        self.columns = [place[key] for key in keys]  # tasks often share a policy: it is valued once
        alike = _sharing(tasks) if actions else []
        self.together: dict[tuple[int, ...], _Shared | _Stacked] = {
            rows: _Shared([tasks[i] for i in rows]) for rows in alike if len(rows) > 1
        }
        alone = [rows[0] for rows in alike if len(rows) == 1]
        self.together |= {rows: _Stacked([tasks[i] for i in rows]) for rows in _stacks(tasks, alone)}

    def matrix(self, tasks: list[TabularMDP], folder: Path | None, workers: Mapping[str, Any]) -> FloatArray:
        """The value of each policy in each task."""
        saved = None
        if folder is not None:
            stacked = any(isinstance(some, _Stacked) for some in self.together.values())
            name = "cross_values" + ", stacked" * stacked  # whose pieces are others
            key = parallel.digest(name, [task_data(task) for task in tasks], self.actions, self.mixed)
            saved = parallel.Saved[_Block, FloatArray](folder, key, _values_to_arrays, _values_from_arrays)
        blocks = self.blocks(tasks)
        values = parallel.run(self.values, blocks, save=saved, label="cross values", **workers)
        distinct = np.empty((len(tasks), len(self.actions) + len(self.mixed)))
        for block, part in zip(blocks, values, strict=True):
            distinct[list(block.rows), block.first : block.last] = part
        U: FloatArray = distinct[:, self.columns]
        return U

    def blocks(self, tasks: list[TabularMDP]) -> list[_Block]:
        """The pieces of U, cut always in the same way."""
        n_actions, n_policies = len(self.actions), len(self.actions) + len(self.mixed)
        blocks = [
            _Block(rows, first, min(first + some.chunk, n_actions), None)
            for rows, some in self.together.items()
            for first in range(0, n_actions, some.chunk)
        ]
        covered = {i for rows in self.together for i in rows}
        for i, task in enumerate(tasks):
            first = n_actions if i in covered else 0
            if first < n_policies:
                blocks.append(_Block((i,), first, n_policies, task))
        return blocks

    def values(self, block: _Block) -> FloatArray:
        """One piece of U."""
        if block.task is None:
            return self.together[block.rows].values(sealed(self.actions[block.first : block.last]))
        task, row = block.task, np.empty(block.last - block.first)
        own = len(self.actions) - block.first  # 0 where these are valued together with other tasks
        if own and task.probability is None:
            arrays = (task.next_state, task.reward, task.terminated)
            kernels.trajectory_values(*arrays, *_episode(task), self.actions, row[:own])
        elif own:
            kernels.reached_values(*task.model(), *_episode(task), self.actions, row[:own])
        if self.mixed:
            model = task.model()
            for j, policy in enumerate(self.mixed, own):
                single, actions = under_policy(model, policy)
                kernels.reached_values(*single, *_episode(task), actions[None], row[j : j + 1])
        return row[None]


def _values_to_arrays(pieces: list[FloatArray]) -> dict[str, Array]:
    return {str(i): piece for i, piece in enumerate(pieces)}


def _values_from_arrays(arrays: Mapping[str, Array], blocks: Sequence[_Block]) -> list[FloatArray]:
    return [arrays[str(i)] for i in range(len(blocks))]


class _Shared:
    """Tasks where only the rewards differ."""

    chunk = POLICY_CHUNK

    def __init__(self, tasks: list[TabularMDP]) -> None:
        self.task = tasks[0]
        self.rewards = np.stack([task.model().reward.ravel() for task in tasks], axis=1)

    def values(self, policies: IntArray) -> FloatArray:
        """Occupancies [M, S A], in which few are not 0, times expected rewards [S A, N], transposed.

        Not by BLAS, which rounds differently on one thread and on several.
        """
        from scipy import sparse

        _, next_state, weight = self.task.model()
        occupancy = np.zeros((len(policies), self.task.n_states * self.task.n_actions))
        kernels.occupancies(next_state, weight, *_episode(self.task), policies, occupancy)
        values: FloatArray = (sparse.csr_array(occupancy) @ self.rewards).T
        return values


class _Stacked:
    """Tasks with a horizon where only rewards and chances differ, valued side by side."""

    chunk = STACK_CHUNK

    def __init__(self, tasks: list[TabularMDP]) -> None:
        self.tasks = tasks

    def values(self, policies: IntArray) -> FloatArray:
        """The value of each policy [M, S] in each task [T, M], as each task alone would have it, bit for bit."""
        models = [task.model() for task in self.tasks]
        lanes = -(-len(models) // LANES) * LANES
        reward, weight = (np.zeros((*part.shape, lanes)) for part in (models[0].reward, models[0].weight))
        for t, model in enumerate(models):
            reward[..., t], weight[..., t] = model.reward, model.weight
        paid, possible = np.abs(reward).max(axis=-1), weight.max(axis=-1)
        out = np.empty((len(models), len(policies)))
        _, horizon, starts, _ = _episode(self.tasks[0])
        kernels.stacked_values(reward, models[0].next_state, weight, paid, possible, horizon, starts[0], policies, out)
        return out


def _stacks(tasks: list[TabularMDP], some: list[int]) -> list[tuple[int, ...]]:
    """Those of some tasks that can be valued side by side, by index: random ones with a horizon and one start."""
    alike: dict[Any, list[int]] = {}
    for i in some:
        task = tasks[i]
        if task.probability is not None and task.horizon is not None and len(task.start_states) == 1:
            key = task.horizon, int(task.start_states[0]), blake2b(task.next_state.tobytes()).digest()
            alike.setdefault((*key, task.next_state.shape), []).append(i)
    cut = [rows[first : first + MOST_STACKED] for rows in alike.values() for first in range(0, len(rows), MOST_STACKED)]
    return [tuple(rows) for rows in cut if len(rows) > 1]


def _sharing(tasks: list[TabularMDP]) -> list[tuple[int, ...]]:
    """Tasks by index, those that share stochastic dynamics, start and horizon together, every other one alone."""
    shared: dict[Any, list[int]] = {}
    for i, task in enumerate(tasks):
        key: Any = i
        if task.probability is not None and (task.horizon is not None or task.gamma <= SHARED_GAMMA):
            arrays = (task.next_state, task.probability, task.terminated, task.start_states, task.start_probability)
            key = (task.horizon, blake2b(b"".join(array.tobytes() for array in arrays)).digest())
        shared.setdefault(key, []).append(i)
    return [tuple(indices) for indices in shared.values()]


def _episode(task: TabularMDP) -> tuple[float, int, IntArray, FloatArray]:
    """Discount, step cap (-1: none) and start, as the kernels take them."""
    return task.gamma, -1 if task.horizon is None else task.horizon, task.start_states, task.start_probability
