"""Episodes of networks in tasks that are JAX programs: all tasks, networks and episodes of one kind as one program.

Of one kind are tasks of one environment, discount and horizon, and networks of one shape. The seed of an episode is
the one that every other way of running it uses, so every policy meets the same chances, whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array, FloatArray, LongArray
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.acting import episode_seed
from pastmaster.policies import NetworkPolicy, stacked
from pastmaster.tables import one_line
from pastmaster.tasks import GymTask
from pastmaster.tasks.jax_dynamics import Dynamics, jax_of


class Runs(NamedTuple):
    """Episodes first, first + 1, ..., first + number - 1 of policies in tasks: all given by their numbers [R]."""

    task: LongArray
    policy: LongArray
    first: LongArray
    number: LongArray


class PlayedRuns(NamedTuple):
    """The discounted returns of all episodes, run by run, and the sums of their rewards."""

    returns: FloatArray
    undiscounted: FloatArray


def is_program(task: Any, policies: Sequence[Any]) -> bool:
    """Whether episodes of these policies in a task can be run as a program."""
    is_jax = isinstance(task, GymTask) and task.program is not None
    return is_jax and all(isinstance(policy, NetworkPolicy) for policy in policies)


def play_runs(
    tasks: Sequence[Any], policies: Sequence[Any], seeds: Sequence[int], runs: Runs, *, most_lanes: int | None = None,
    called: str = "policies",
) -> PlayedRuns:  # fmt: skip
    """Run episodes of networks in JAX tasks, each with its seed.

    ``most_lanes`` limits how many run at once; ``called`` is what errors call the policies.
    """
    task, policy = (np.repeat(part, runs.number) for part in (runs.task, runs.policy))
    number = np.arange(len(task)) - np.repeat(np.cumsum(runs.number) - runs.number - runs.first, runs.number)
    seed = _seeds(seeds, task, number)
    found = PlayedRuns(np.empty(len(task)), np.empty(len(task)))
    for (dynamics, gamma, horizon, _), some_tasks in _alike(tasks, np.unique(task), _task_kind).items():
        for (shape, _), some_policies in _alike(policies, np.unique(policy), _network_kind).items():
            chosen = np.flatnonzero(np.isin(task, some_tasks) & np.isin(policy, some_policies))
            if not len(chosen):
                continue
            parts = (np.searchsorted(*pair) for pair in ((some_policies, policy[chosen]), (some_tasks, task[chosen])))
            params = _stacked_params([tasks[i] for i in some_tasks])
            networks = [policies[j] for j in some_policies]
            played = _played(dynamics, shape, networks, params, (*parts, seed[chosen]), gamma, horizon, most_lanes)
            if played.wrong.any():
                k = int(np.argmax(played.wrong > 0))
                e = chosen[k]
                raise _not_finite(tasks[task[e]], f"{called}[{policy[e]}]", int(number[e]), played, k)
            found.returns[chosen], found.undiscounted[chosen] = played.total, played.plain
    return found


def _played(
    dynamics: Dynamics, shape: Any, networks: list[Any], params: Any, episodes: tuple[Array, ...], gamma: float,
    horizon: int, most_lanes: int | None,
) -> Any:  # fmt: skip
    """The episodes of networks of one shape in tasks of one kind."""
    from pastmaster.estimation import jax_program as jp  # it imports JAX

    stack = stacked(networks)
    assert stack is not None
    normal = None if stack.normal is None else [part.astype(np.float32) for part in stack.normal]
    given = jp.Networks(stack.weights, stack.biases, stack.limits, normal)
    lane_bytes = jp.bytes_of_lane(dynamics.reset, params, given)
    return jp.played(
        _program(dynamics, shape), given, params, jp.Episodes(*episodes), gamma=gamma, horizon=horizon,
        lane_bytes=lane_bytes, most_lanes=most_lanes,
    )  # fmt: skip


@lru_cache(64)  # a program is compiled once in a process, for each size of a batch
def _program(dynamics: Dynamics, shape: Any) -> Any:
    from pastmaster.estimation import jax_program as jp

    layers = jp.Layers(shape.activations, shape.head, shape.one_hot, shape.start, shape.nvec, shape.box)
    return jp.program(dynamics.reset, dynamics.episode_step, layers)


def _task_kind(task: Any) -> tuple[Any, ...]:
    dynamics, params = task.program
    leaves, tree = jax_of("JaxTask").tree.flatten(params)
    return dynamics, task.gamma, task.horizon, (tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves))


def _network_kind(policy: NetworkPolicy) -> tuple[Any, ...]:
    return policy.stack.shape, policy.stack.normal is None


def _alike(things: Sequence[Any], some: Array, kind: Any) -> dict[Any, Array]:
    """Some of the things by their numbers, those of one kind together, in order."""
    groups: dict[Any, list[int]] = {}
    for i in some.tolist():
        groups.setdefault(kind(things[i]), []).append(i)
    return {key: np.array(numbers) for key, numbers in groups.items()}


def _stacked_params(tasks: list[Any]) -> Any:
    """The parameters of tasks of one kind, as one tree of arrays [N, ...]."""
    return jax_of("JaxTask").tree.map(lambda *leaves: np.stack(leaves), *(task.program[1] for task in tasks))


def _seeds(seeds: Sequence[int], task: Array, number: Array) -> Array:
    """The seed of each episode, made once for all policies that run it."""
    size = int(number.max()) + 1 if len(number) else 1
    distinct, place = np.unique(task * size + number, return_inverse=True)
    made = [episode_seed(seeds[pair // size], pair % size) for pair in distinct.tolist()]
    return np.array(made, np.uint32)[place]


def _not_finite(task: GymTask, policy: str, number: int, played: Any, k: int) -> InvalidInputError:
    from pastmaster.estimation import jax_program as jp

    reward = "nan" if np.isnan(played.plain[k]) else f"{played.plain[k]:g}"
    what = f"the reward {reward}" if played.wrong[k] == jp.REWARD else "an observation that is not finite"
    return InvalidInputError(
        f"{one_line(task.name)}: step returned {what} in episode {number} of {policy}, at step "
        f"{int(played.steps[k])}, must be finite"
    )
