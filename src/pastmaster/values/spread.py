"""The standard deviation of one return, exact: how much noise there is in a single episode.

With G = r + gamma G' for the return from a state, E[G^2] = E[r^2] + 2 gamma E[r V'] + gamma^2 E[G'^2]. This is computed
backwards over the steps of an episode, beside V, in the states that the policy meets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.convert import as_table
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import _spread_kernels as kernels
from pastmaster.values._kernels import states_met
from pastmaster.values.given import listed_policies, listed_tasks

NEGLIGIBLE = 1e-12  # a discount below which later rewards are left out


def return_spread(tasks: Iterable[TabularMDP], policies: Iterable[Any]) -> FloatArray:
    """The standard deviation of the discounted return of one episode, for each task and policy [N, M].

    Parameters
    ----------
    tasks, policies : list of TabularMDP, list of policies
        As for ``cross_values``.

    Returns
    -------
    ndarray of float, [N, M]
        0 where neither the task nor the policy leaves anything to chance.

    Examples
    --------
    >>> from pastmaster import TabularMDP, return_spread
    >>> ends = [[[True, True]]]
    >>> coin = TabularMDP([[[0, 0]]], [[[0.0, 1.0]]], probability=[[[0.5, 0.5]]], terminated=ends, gamma=0.9)
    >>> return_spread([coin], [[0]])
    array([[0.5]])
    """
    caller = "return_spread"
    given, found = listed_policies(f"{caller}: policies", policies), []
    for i, task in enumerate(listed_tasks(f"{caller}: tasks", tasks)):
        if not isinstance(task, TabularMDP):
            raise InvalidInputError(f"{caller}: tasks[{i}] is a {type(task).__name__}, must be a TabularMDP")
        found.append(
            [
                _spread(task, as_table(p, task.n_states, task.n_actions, f"{caller}: policies[{j}]"))
                for j, p in enumerate(given)
            ]
        )
    return np.array(found).reshape(len(found), len(given))


def _spread(task: TabularMDP, policy: Any) -> float:
    if task.is_deterministic and policy.ndim == 1 and len(task.start_states) == 1:
        return 0.0
    outcomes = task.outcomes()
    if policy.ndim == 1:
        taken = np.arange(task.n_states), policy
        chances, following, reward, ends = (sealed(array[taken]) for array in outcomes)
    else:
        chances, following, reward, ends = (array.reshape(task.n_states, -1) for array in outcomes)
        n_outcomes = outcomes.next_state.shape[2]
        chances = sealed(np.repeat(policy, n_outcomes, axis=1) * chances)
    goes_on = sealed(np.where(ends, 0.0, chances))
    states = np.flatnonzero(states_met(following[:, None], goes_on[:, None], task.start_states))
    horizon = task.horizon
    if horizon is None:
        horizon = int(np.ceil(np.log(NEGLIGIBLE) / np.log(task.gamma))) if 0.0 < task.gamma < 1.0 else 1
    start = task.start_distribution()
    return float(kernels.spread(chances, following, reward, ends, task.gamma, horizon, states, start))
