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
from pastmaster.errors import TaskError
from pastmaster.estimation.acting import episode_seed
from pastmaster.policies import NetworkPolicy, stacked
from pastmaster.tables import one_line
from pastmaster.tasks import GymTask
from pastmaster.tasks.guard import Watch, watched
from pastmaster.tasks.jax_dynamics import Dynamics, jax_of, single_precision


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
    for kind, some_tasks in _alike(tasks, np.unique(task), _TaskKinds()).items():
        for (shape, _), some_policies in _alike(policies, np.unique(policy), _network_kind).items():
            chosen = np.flatnonzero(np.isin(task, some_tasks) & np.isin(policy, some_policies))
            if not len(chosen):
                continue
            parts = (np.searchsorted(*pair) for pair in ((some_policies, policy[chosen]), (some_tasks, task[chosen])))
            networks = [policies[j] for j in some_policies]
            played = _Alike(kind, shape, [tasks[i] for i in some_tasks], networks).played(
                (*parts, seed[chosen]), most_lanes
            )
            if played.wrong.any():
                k = int(np.argmax(played.wrong > 0))
                e = chosen[k]
                raise _not_finite(tasks[task[e]], f"{called}[{policy[e]}]", int(number[e]), played, k)
            found.returns[chosen], found.undiscounted[chosen] = played.total, played.plain
    return found


class _TaskKind(NamedTuple):
    """What tasks share whose episodes are one program."""

    dynamics: Dynamics
    gamma: float
    horizon: int
    observed: Any  # the type of observations
    params: Any  # their tree, and the shapes and types of its leaves


class _Alike(NamedTuple):
    """Tasks of one kind and networks of one shape."""

    kind: _TaskKind
    shape: Any
    tasks: list[Any]
    networks: list[Any]

    def played(self, episodes: tuple[Array, ...], most_lanes: int | None) -> Any:
        """The episodes of policies (by number), tasks (by number) and seeds, under a watch."""
        limits = [task.time_limit for task in self.tasks if task.time_limit is not None]
        others = f" and {len(self.tasks) - 1} more tasks" if len(self.tasks) > 1 else ""
        watch = Watch(one_line(self.tasks[0].name) + others, min(limits, default=None))
        device = jax_of("JaxTask").config.jax_default_device  # of this thread

        def run() -> Any:
            with jax_of("JaxTask").default_device(device), single_precision():
                return self._run(episodes, most_lanes, watch)

        return watched(run, watch)

    def _run(self, episodes: tuple[Array, ...], most_lanes: int | None, watch: Watch) -> Any:
        from pastmaster.estimation import jax_program as jp  # it imports JAX

        params, stack = _stacked_params(_rounded(self.tasks)), stacked(_rounded(self.networks))
        assert stack is not None
        normal = None if stack.normal is None else [part.astype(np.float32) for part in stack.normal]
        networks, (dynamics, gamma, horizon, observed, _) = (
            jp.Networks(stack.weights, stack.biases, stack.limits, normal), self.kind,
        )  # fmt: skip
        return jp.played(
            _program(dynamics, self.shape, observed), networks, params, jp.Episodes(*episodes), gamma=gamma,
            horizon=horizon, lane_bytes=jp.bytes_of_lane(dynamics.reset, params, networks), most_lanes=most_lanes,
            clock=jp.Clock(watch.limit, watch),
        )  # fmt: skip


@lru_cache(64)  # a program is compiled once in a process, for each size of a batch
def _program(dynamics: Dynamics, shape: Any, observed: Any) -> Any:
    from pastmaster.estimation import jax_program as jp

    layers = jp.Layers(shape.activations, shape.head, shape.one_hot, shape.start, shape.nvec, shape.box)
    return jp.program(dynamics.reset, dynamics.episode_step, layers, observed)


class _TaskKinds:
    """The kinds of tasks; each environment is looked at once, since its settings may be many."""

    def __init__(self) -> None:
        self.known: dict[int, Dynamics] = {}

    def __call__(self, task: Any) -> _TaskKind:
        dynamics, params = task.program
        if id(dynamics.env) not in self.known:
            self.known[id(dynamics.env)] = dynamics.now()
        leaves, tree = jax_of("JaxTask").tree.flatten(params)
        leaf_kinds = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        now = self.known[id(dynamics.env)]
        return _TaskKind(now, task.gamma, task.horizon, task.observation_space.dtype, (tree, leaf_kinds))


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


def _rounded(things: list[Any]) -> list[Any]:
    """Things with the last one repeated: taking some of them out is compiled for every number of them."""
    from pastmaster.estimation.jax_program import round_size

    return things + things[-1:] * (round_size(len(things)) - len(things))


def _seeds(seeds: Sequence[int], task: Array, number: Array) -> Array:
    """The seed of each episode, made once for all policies that run it."""
    size = int(number.max()) + 1 if len(number) else 1
    distinct, place = np.unique(task * size + number, return_inverse=True)
    made = [episode_seed(seeds[pair // size], pair % size) for pair in distinct.tolist()]
    return np.array(made, np.uint32)[place]


def _not_finite(task: GymTask, policy: str, number: int, played: Any, k: int) -> TaskError:
    from pastmaster.estimation import jax_program as jp

    name, episode = one_line(task.name), f"episode {number} of {policy}"
    if played.wrong[k] == jp.RETURN:
        return TaskError(
            f"{name}: the return of {episode} is beyond {jp.LARGEST:.2g}, the largest number of float32, must be "
            "smaller: its rewards are too large"
        )
    step = int(played.steps[k])
    call, place = ("step", f", at step {step}") if step else ("reset", "")
    reward = "nan" if np.isnan(played.plain[k]) else f"{played.plain[k]:g}"
    what = f"the reward {reward}" if played.wrong[k] == jp.REWARD else "an observation that is not finite"
    return TaskError(f"{name}: {call} returned {what} in {episode}{place}, must be finite")
