"""One policy in one task: checked, valued in every state; and from cross values to distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, as_array, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.policy import checked_policy
from pastmaster.solving import _kernels as kernels
from pastmaster.tasks.tabular import Model, TabularMDP


def evaluate(mdp: TabularMDP, policy: npt.ArrayLike) -> FloatArray:
    """V^pi [S]: the value of a policy in every state, over ``mdp.horizon`` steps or for ever.

    ``policy`` is [S], an action for each state, or [S, A], their probabilities.
    """
    if not isinstance(mdp, TabularMDP):
        raise InvalidInputError(f"evaluate: mdp is a {type(mdp).__name__}, must be a TabularMDP")
    model, actions = under_policy(mdp.model(), checked_policy(policy, mdp.n_states, mdp.n_actions, "evaluate: policy"))
    value = np.zeros(mdp.n_states)
    chain = kernels.chain_of(*model, actions)
    if mdp.horizon is None:
        kernels.chain_value(*chain, mdp.gamma, value)
    else:
        kernels.finite_value(*chain, mdp.horizon, value)
    return value


def policy_distance(U: npt.ArrayLike, *, directed: bool = False, paired: bool | None = None) -> FloatArray:
    """d_V [N, N] from cross values, or the regret matrix [N, M] if ``directed``; never negative.

    ``paired`` says that policy j is task j's own, so that the regret is U[i, i] - U[i, j]; otherwise it is
    max_k U[i, k] - U[i, j]. By default a square U is paired.
    Differs from the paper: a regret below 0 (a learned policy, a step cap) counts as 0.
    """
    matrix = as_array(U, "policy_distance: U", "iuf").astype(np.float64, copy=False)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(f"policy_distance: U has shape {matrix.shape}, must be [N, M] with no empty axis")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(f"policy_distance: U[{i}, {j}] is {matrix[i, j]}, must be finite")
    square = matrix.shape[0] == matrix.shape[1]
    if paired is None:
        paired = square
    if not square and (paired or not directed):
        raise InvalidInputError(
            f"policy_distance: U has shape {matrix.shape}, must be square unless directed=True and paired is not set"
        )
    own = np.diagonal(matrix) if paired else matrix.max(axis=1)
    regret: FloatArray = np.maximum(0.0, own[:, None] - matrix)
    if directed:
        return regret
    symmetric: FloatArray = np.maximum(regret, regret.T)
    return symmetric


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
