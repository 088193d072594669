"""The value of one policy in one task, and the distance of policies from their cross values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, as_array, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.convert import as_table
from pastmaster.solving import _kernels as solving_kernels
from pastmaster.tasks.tabular import Model, TabularMDP
from pastmaster.values import _kernels as kernels


def evaluate(task: TabularMDP, policy: Any) -> FloatArray:
    """V^pi [S]: the exact value of a policy in every state, over ``task.horizon`` steps or for ever.

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
        return np.asarray(kernels.capped_value(*chain, task.horizon))
    value = np.zeros(task.n_states)
    solving_kernels.chain_value(*chain, task.gamma, value)
    return value


def policy_distance(U: npt.ArrayLike, *, directed: bool = False, paired: bool | None = None) -> FloatArray:
    """d_V [N, N] from cross values, or the regret matrix [N, M] if ``directed``; never negative.

    It says what a task loses under the policy of another, which is what a clustering keeps small.
    Differs from the paper: a regret below 0 (a learned policy, a step cap) counts as 0.

    Parameters
    ----------
    U : array_like, [N, M]
        The value of policy j in task i, as ``cross_values`` returns it.
    directed : bool
        True: the regret of task i under policy j. False: the larger regret of the two directions.
    paired : bool, optional
        True: policy j is task j's own, so the regret is U[i, i] - U[i, j]. False: it is max_k U[i, k] - U[i, j]. By
        default a square U is paired.

    Returns
    -------
    ndarray of float, [N, N] or [N, M]

    Raises
    ------
    InvalidInputError
        If U is not a matrix of finite numbers, or not square where it must be.

    Examples
    --------
    >>> policy_distance([[5.0, 3.0], [1.0, 2.0]], directed=True)
    array([[0., 2.],
           [1., 0.]])
    """
    matrix = as_array(U, "policy_distance: U", "iuf").astype(np.float64, copy=False)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(f"policy_distance: U has shape {matrix.shape}, must be [N, M] with no empty axis")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(f"policy_distance: U[{i}, {j}] is {matrix[i, j]}, must be finite")
    square = matrix.shape[0] == matrix.shape[1]
    paired = square if paired is None else paired
    if not square and (paired or not directed):
        raise InvalidInputError(
            f"policy_distance: U has shape {matrix.shape}, must be square unless directed=True and paired is not set"
        )
    own = np.diagonal(matrix) if paired else matrix.max(axis=1)
    regret: FloatArray = np.maximum(0.0, own[:, None] - matrix)
    return regret if directed else np.maximum(regret, regret.T)


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
