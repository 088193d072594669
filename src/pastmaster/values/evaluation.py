"""The value of one policy in one task."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.convert import as_table
from pastmaster.solving import _kernels as solving_kernels
from pastmaster.tasks.tabular import Model, TabularMDP


def evaluate(task: TabularMDP, policy: Any) -> FloatArray:
    """V^pi [S]: the exact value of a policy in every state, over ``task.horizon`` steps or for ever.

    With gamma = 1 it is the expected sum of rewards over the horizon, by backward induction.

    Parameters
    ----------
    task : TabularMDP
    policy : array_like, Policy or function
        An action for each state [S], the probabilities of the actions [S, A], or any policy: it is asked in each state.

    Returns
    -------
    ndarray of float, [S]

    Raises
    ------
    InvalidInputError
        If ``task`` is no ``TabularMDP`` or the policy does not fit it; the message names the state.

    Examples
    --------
    >>> evaluate(TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5), [1, 0])
    array([3., 4.])
    """
    if not isinstance(task, TabularMDP):
        raise InvalidInputError(f"evaluate: task is a {type(task).__name__}, must be a TabularMDP")
    table = as_table(policy, task.n_states, task.n_actions, "evaluate: policy")
    model, actions = under_policy(task.model(), table)
    chain = solving_kernels.chain_of(*model, actions)
    if task.horizon is not None:
        return np.asarray(solving_kernels.capped_value(*chain, task.horizon))
    value = np.zeros(task.n_states)
    solving_kernels.chain_value(*chain, task.gamma, value)
    return value


def under_policy(model: Model, policy: npt.NDArray[Any]) -> tuple[Model, IntArray]:
    """A model and a policy of actions in it: a random policy becomes a model with one action and A * K outcomes."""
    if policy.ndim == 1:
        return model, policy
    n_states = len(policy)
    mixed = Model.of(
        (policy * model.reward).sum(axis=1, keepdims=True),
        model.next_state.reshape(n_states, 1, -1),
        (policy[:, :, None] * model.weight).reshape(n_states, 1, -1),
    )
    return mixed, sealed(np.zeros(n_states, np.int32))
