"""The paper's distance of two models, which bounds how much the values of a policy differ between two tasks."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from pastmaster import InvalidInputError, TabularMDP


def model_difference(one: TabularMDP, other: TabularMDP) -> float:
    """K(k) = (max |R_k - R| + gamma R_max max ||P_k - P||_1) / (1 - gamma)^2, the paper's distance of two models.

    No policy's value differs by more between the two tasks, in any state. R are expected rewards.
    Differs from the paper: R_max is the largest |R|, without which negative rewards break the lemma, and ending the
    episode counts as one more state.

    Parameters
    ----------
    one, other : TabularMDP
        Two tasks with the same states, actions, gamma and horizon.

    Returns
    -------
    float

    Raises
    ------
    InvalidInputError
        If the tasks differ in these.

    Examples
    --------
    >>> from pastmaster_paper.model_difference import model_difference
    >>> model_difference(TabularMDP([[0]], [[1.0]], gamma=0.5), TabularMDP([[0]], [[3.0]], gamma=0.5))
    8.0
    """
    for name in ("n_states", "n_actions", "gamma", "horizon"):  # values depend on each of them
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            raise InvalidInputError(f"model_difference: {name} is {mine} and {theirs}, must be the same in both tasks")
    if one.gamma == 1.0:
        raise InvalidInputError("model_difference: gamma is 1, must be below 1 for the paper's distance of two models")
    first, second = one.model(), other.model()
    largest_reward = max(np.abs(first.reward).max(), np.abs(second.reward).max())
    transitions = []
    for task in (one, other):
        rows = np.repeat(np.arange(task.n_states * task.n_actions), task.next_state[0, 0].size)
        columns = np.where(task.terminated, task.n_states, task.next_state).ravel()
        chances = np.ones(columns.size) if task.probability is None else task.probability.ravel()
        shape = (task.n_states * task.n_actions, task.n_states + 1)
        transitions.append(sparse.csr_array((chances, (rows, columns)), shape=shape))
    moved = abs(transitions[0] - transitions[1]).sum(axis=1).max()
    apart = np.abs(first.reward - second.reward).max()
    return float((apart + one.gamma * largest_reward * moved) / (1.0 - one.gamma) ** 2)
