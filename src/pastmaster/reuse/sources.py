"""Policies as the episode engine runs them: tables are arrays, functions stay functions, all others act on batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pastmaster.arrays import Array, sealed
from pastmaster.policies import FunctionPolicy, Policy, TablePolicy, as_policy
from pastmaster.policies.batch import action_of
from pastmaster.reuse._episode_kernels import Sources
from pastmaster.reuse._selector_kernels import draw
from pastmaster.tasks.tabular import TabularMDP


def as_source(given: Any, place: str) -> Any:
    """A policy of any kind that ``as_policy`` takes: an array [S] or [S, A], a function, or an object with ``act``."""
    policy = as_policy(given, place)
    if isinstance(policy, TablePolicy):
        return policy.table
    return given if isinstance(policy, FunctionPolicy) else policy


def acting(source: Any, rng: np.random.Generator) -> Callable[[Any], Any]:
    """The action of a source as a function of the observation; ``rng`` is drawn from only if the source is random."""
    if isinstance(source, np.ndarray):
        return partial(_looked_up, source) if source.ndim == 1 else partial(_drawn, source, rng)
    if isinstance(source, Policy):  # it may be callable besides
        return partial(action_of, source, rng=rng)
    function: Callable[[Any], Any] = source
    return function


def _looked_up(actions: Array, state: Any) -> int:
    return int(actions[state])


def _drawn(chances: Array, rng: np.random.Generator, state: Any) -> int:
    return int(draw(chances[state], rng.random()))


def source_arrays(sources: list[Array], task: TabularMDP) -> Sources:
    """Source policies as the compiled episodes read them."""
    actions = np.zeros((len(sources), task.n_states), np.int32)
    mixed = np.full(len(sources), -1, np.int32)
    chances: list[Array] = []
    for i, policy in enumerate(sources):
        if policy.ndim == 1:
            actions[i] = policy
        else:
            mixed[i] = len(chances)
            chances.append(policy)
    stacked = np.array(chances).reshape(len(chances), task.n_states, task.n_actions)
    return Sources(sealed(actions), sealed(mixed), sealed(stacked))
