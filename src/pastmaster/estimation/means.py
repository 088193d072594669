"""What policies are worth in a task of which only episodes can be run: the mean of their returns.

Episode k of a task begins from the same seed whichever policy runs it (common random numbers), and the seeds come from
the caller: so an estimate depends neither on the order of the policies nor on who else is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.rollouts import Run, episode_returns
from pastmaster.policies import TablePolicy, as_policy
from pastmaster.policies.policy import checked_policy
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import cross_values


class Estimate(NamedTuple):
    """Mean returns of policies, their standard errors (0 where one episode tells all), and the episodes used."""

    mean: FloatArray
    error: FloatArray
    episodes: int


def estimate_values(task: TabularMDP | GymTask, policies: Sequence[Any], *, episodes: int, seed: int) -> Estimate:
    """The mean return of each policy over ``episodes`` episodes, and its standard error.

    In a deterministic ``TabularMDP`` every episode of a policy of actions is the same: it is run once, and counted as
    often as one who does not know that would run it.
    """
    episodes = whole("estimate_values", "episodes", episodes, at_least=1)
    if task.horizon is None:
        raise InvalidInputError(f"estimate_values: {task} has no horizon, must have one: an episode may never end")
    things = [fitting_policy(policy, task, f"estimate_values: policies[{j}]") for j, policy in enumerate(policies)]
    mean, error = np.empty(len(things)), np.zeros(len(things))
    alike = [j for j, policy in enumerate(things) if is_certain(task, policy)]
    if alike and isinstance(task, TabularMDP):
        mean[alike] = cross_values([task], [things[j].table for j in alike])[0]
    others = sorted(set(range(len(things))) - set(alike))
    found = episode_returns(task, things, [Run(j, 0, episodes) for j in others], seed) if others else []
    for j, returns in zip(others, found, strict=True):
        mean[j] = np.mean(returns)
        error[j] = np.std(returns, ddof=1) / np.sqrt(episodes) if episodes > 1 else np.inf
    return Estimate(mean, error, episodes * len(things))


def is_certain(task: TabularMDP | GymTask, policy: Any) -> bool:
    """Whether every episode of the policy is known to be the same."""
    sure = isinstance(task, TabularMDP) and task.is_deterministic and len(task.start_states) == 1
    return sure and isinstance(policy, TablePolicy) and not policy.random


def fitting_policy(policy: Any, task: TabularMDP | GymTask, place: str) -> Any:
    """What ``as_policy`` makes of it, a table being checked against the task's states and actions."""
    made = as_policy(policy, place)
    check_fits(made, task, place)
    return made


def check_fits(policy: Any, task: TabularMDP | GymTask, place: str) -> None:
    """Refuse a table that is not of the task's states and actions."""
    if not isinstance(policy, TablePolicy):
        return
    if task.n_states is None or task.n_actions is None:
        raise InvalidInputError(
            f"{place} is a table, which needs Discrete observations and actions from 0; {task.name} has others"
        )
    checked_policy(policy.table, task.n_states, task.n_actions, place)
