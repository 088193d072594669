"""What policies are worth in a task of which only episodes can be run: the mean of their returns.

Episode k of a task begins from the same seed whichever policy runs it (common random numbers), and the seeds come from
the caller: so an estimate depends neither on the order of the policies nor on who else is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.checks import LARGEST_SEED, whole
from pastmaster.errors import InvalidInputError, TaskError
from pastmaster.estimation.jax_rollouts import Runs, play_runs
from pastmaster.estimation.rollouts import EpisodeRange, episode_returns
from pastmaster.policies import Policy, TablePolicy, as_policy
from pastmaster.policies.convert import check_fits
from pastmaster.policies.policy import checked_policy
from pastmaster.tables import one_line
from pastmaster.tasks import GymTask, TabularMDP, Task
from pastmaster.tasks.spaces import described_space
from pastmaster.values import cross_values
from pastmaster.values.given import listed_policies, not_a_task


class Estimate(NamedTuple):
    """Mean returns of policies in a task.

    Attributes
    ----------
    mean, error, episodes
        Each policy's mean return and its standard error [M], 0 where all episodes are the same; the episodes used,
        of all policies together.
    """

    mean: FloatArray
    error: FloatArray
    episodes: int

    def __repr__(self) -> str:
        return one_line(f"Estimate(mean={self.mean!r}, error={self.error!r}, episodes={self.episodes})")


def estimate_values(task: Task, policies: Sequence[Any], *, episodes: int, seed: int) -> Estimate:
    """The mean discounted return of each policy in a task.

    In a deterministic ``TabularMDP`` every episode of a table of actions is the same: it is run once, and counted as
    often as it would be run without knowing that.

    Parameters
    ----------
    task, policies
        A ``TabularMDP`` or ``GymTask`` with a horizon, and anything ``as_policy`` takes.
    episodes, seed : int
        Episodes of each policy, and the seed of all of them.

    Returns
    -------
    Estimate

    Raises
    ------
    InvalidInputError
        If the task has no horizon, or a policy does not fit it.

    Examples
    --------
    >>> task = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
    >>> estimate_values(task, [[0, 0], [1, 1]], episodes=10, seed=0)
    Estimate(mean=array([1. , 1.75]), error=array([0., 0.]), episodes=20)
    """
    if not isinstance(task, Task):
        raise not_a_task("estimate_values: task", task)
    episodes = whole("estimate_values", "episodes", episodes, at_least=1)
    seed = whole("estimate_values", "seed", seed, at_least=0, at_most=LARGEST_SEED)
    if task.horizon is None:
        raise InvalidInputError(f"estimate_values: {task} has no horizon, must have one: an episode may never end")
    given = listed_policies("estimate_values: policies", policies)
    columns = [fitting_policy(policy, task, f"estimate_values: policies[{j}]") for j, policy in enumerate(given)]
    mean, error = np.empty(len(columns)), np.zeros(len(columns))
    certain = [j for j, policy in enumerate(columns) if is_certain(task, policy)]
    mean[certain] = certain_values(task, [columns[j] for j in certain])
    others = sorted(set(range(len(columns))) - set(certain))
    found = episode_returns(task, columns, [EpisodeRange(j, 0, episodes) for j in others], seed) if others else []
    for j, returns in zip(others, found, strict=True):
        mean[j], error[j] = _mean(task, returns)
    return Estimate(mean, error, episodes * len(columns))


def estimate_in_programs(tasks: Sequence[Task], policy: Any, episodes: Sequence[int], seeds: Sequence[int]) -> Estimate:
    """The mean discounted return of one network in each of many JAX tasks [N], all episodes as one program.

    Each task has its own number of episodes and its own seed. The numbers are those of ``estimate_values``.
    """
    for task in tasks:
        fitting_policy(policy, task, "estimate_values: policies[0]")
    zeros = np.zeros(len(tasks), np.int64)
    runs = Runs(np.arange(len(tasks)), zeros, zeros, np.array(episodes))
    returns = np.split(play_runs(tasks, [policy], seeds, runs).returns, np.cumsum(episodes)[:-1])
    found = np.array([_mean(task, some) for task, some in zip(tasks, returns, strict=True)]).reshape(-1, 2)
    return Estimate(found[:, 0], found[:, 1], sum(episodes))


def _mean(task: Task, returns: FloatArray) -> tuple[float, float]:
    """The mean of returns and its standard error, infinite of a single one."""
    n = len(returns)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.mean(returns))
        error = float(np.std(returns, ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    if not np.isfinite(mean) or (n > 1 and not np.isfinite(error)):
        raise TaskError(
            f"{one_line(task.name or str(task))}: returns are as large as {np.abs(returns).max():g}, must be "
            "smaller for their mean and its error to be numbers"
        )
    return mean, error


def is_certain(task: Task, policy: Any) -> bool:
    """Whether every episode of the policy is known to be the same."""
    return has_one_episode(task) and is_certain_table(policy)


def has_one_episode(task: Task) -> bool:
    """Whether every episode of a table of actions in a task is known to be the same."""
    return isinstance(task, TabularMDP) and task.is_deterministic and len(task.start_states) == 1


def is_certain_table(policy: Any) -> bool:
    """Whether a policy is a table of actions."""
    return isinstance(policy, TablePolicy) and not policy.random


def certain_values(task: Task, policies: Sequence[Policy]) -> FloatArray:
    """What policies are worth whose episodes are all the same."""
    tables = [policy.table for policy in policies if isinstance(policy, TablePolicy)]
    return cross_values([task], tables)[0] if tables else np.empty(0)


def kind_of(task: Task) -> str:
    """What tables and networks must fit, as a text."""
    if isinstance(task, GymTask):
        return f"{described_space(task.observation_space)}, {described_space(task.action_space)}"
    return f"{task.n_states} states, {task.n_actions} actions"


def fitting_policy(policy: Any, task: Task, place: str) -> Policy:
    """The policy that ``as_policy`` makes, checked to fit the task if it is a table or a network."""
    made = as_policy(policy, place)
    if isinstance(made, TablePolicy):
        if task.n_states is None or task.n_actions is None:
            raise InvalidInputError(
                f"{place} is a table, which needs Discrete observations and actions from 0; {task.name} has others"
            )
        checked_policy(made.table, task.n_states, task.n_actions, place)
    if isinstance(task, GymTask):
        check_fits(made, task.observation_space, task.action_space, place, task.name)
    else:
        spaces = gym.spaces.Discrete(task.n_states), gym.spaces.Discrete(task.n_actions)
        check_fits(made, *spaces, place, task.name or "the task")
    return made
