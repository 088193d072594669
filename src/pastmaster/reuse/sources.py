"""Policies as the episode engine runs them: tables are arrays, functions stay functions, all others act on batches.

Sources keep their names: the keys of a mapping, else the policies' own, else their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array, sealed
from pastmaster.checks import as_index, as_name, is_number, listed
from pastmaster.errors import InvalidInputError
from pastmaster.policies import FunctionPolicy, Policy, TablePolicy, as_policy
from pastmaster.policies.batch import action_of
from pastmaster.policies.convert import is_array
from pastmaster.policies.policy import checked_policy, is_policy
from pastmaster.reuse._episode_kernels import Sources
from pastmaster.reuse._selector_kernels import draw
from pastmaster.solving import Solution
from pastmaster.tables import shown
from pastmaster.tasks.spaces import described_space, discrete_size
from pastmaster.tasks.tabular import TabularMDP

Space = gym.Space[Any]
LEARNER = "learner"  # what the arm that learns is called


def named_sources(sources: Any) -> tuple[list[str], list[Any]]:
    """Names, all different, and policies, in the order given; an error where this is no list or mapping of them."""
    caller = "transfer: sources is"
    if isinstance(sources, Mapping):
        names, given = (
            listed(part, "transfer: sources", "a dict of policies") for part in (iter(sources), sources.values())
        )
        return _distinct([as_name(name, "transfer: sources") for name in names]), given
    if isinstance(sources, str | Path) or not isinstance(sources, Iterable):
        raise InvalidInputError(f"{caller} {shown(sources)}, must be a list of policies: pass [policy]")
    if getattr(sources, "__array__", None) is not None and not isinstance(sources, np.ndarray):
        raise InvalidInputError(f"{caller} a {type(sources).__name__}, must be a list of policies: pass [table]")
    policies = listed(sources, "transfer: sources", "a list of policies")
    if policies and all(is_number(policy) for policy in policies):
        if isinstance(sources, np.ndarray):
            raise InvalidInputError(f"{caller} an array [S], one policy, must be a list: pass [policy]")
        raise InvalidInputError(
            f"transfer: sources[0] is {shown(policies[0])}, a number, must be a policy: if sources is one, pass "
            "[policy]"
        )
    return _distinct([_own_name(policy) for policy in policies]), policies


def _distinct(names: list[str]) -> list[str]:
    """Names as they are, numbers where they are empty; equal ones, and one that is the learner's, get their number."""
    told = [name or number for name, number in zip(names, numbered(len(names)), strict=True)]
    while len({*told, LEARNER}) <= len(told):  # each round changes a name that was not changed before
        many = Counter([*told, LEARNER])
        told = [name if many[name] == 1 else f"{name} ({i})" for i, name in enumerate(told)]
    return told


def numbered(n: int) -> list[str]:
    """The names of sources that have none."""
    return [f"source {i}" for i in range(n)]


def _own_name(policy: Any) -> str:
    """What a policy says that it is called, or a function; empty if it does not."""
    name = getattr(policy, "name", None) or getattr(policy, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else ""


def fitted(given: Any, observations: Space, actions: Space, place: str) -> Any:
    """What ``as_source`` takes, if it can act in these spaces; functions are taken as they are."""
    n_states, n_actions = discrete_size(observations), discrete_size(actions)
    table = given.policy if isinstance(given, Solution) else given
    if is_array(table) or isinstance(table, TablePolicy):
        if n_states is None or n_actions is None:
            raise InvalidInputError(
                f"{place} is a table, which needs Discrete observations and actions from 0, must be a policy for "
                f"{described_space(observations)} and {described_space(actions)}"
            )
        return checked_policy(table, n_states, n_actions, place)
    policy = as_source(given, place)
    if is_policy(policy):
        _check_acts(policy, observations, actions, place)
    return policy


def _check_acts(policy: Policy, observations: Space, actions: Space, place: str) -> None:
    """Refuse a policy that gives no action of the space to an observation drawn here."""
    space = deepcopy(observations)
    space.seed(0)
    try:
        action = action_of(policy, space.sample(), np.random.default_rng(0))
    except Exception as error:  # of whatever kind: it is the policy's
        raise InvalidInputError(
            f"{place} is {shown(policy)}, which cannot act on {described_space(observations)}, must be a policy for "
            f"this task: {shown(error)}"
        ) from error
    if not of_space(action, actions):
        raise InvalidInputError(
            f"{place} is {shown(policy)}, which gives the action {shown(action)}, must be a policy for "
            f"{described_space(actions)}"
        )


def of_space(action: Any, actions: Space) -> bool:
    """Whether an action is of a space; of a Box not its limits, which are the environment's to clip."""
    return np.shape(action) == actions.shape if isinstance(actions, gym.spaces.Box) else bool(actions.contains(action))


def as_source(given: Any, place: str) -> Any:
    """A policy of any kind that ``as_policy`` takes: an array [S] or [S, A], a function, or an object with ``act``."""
    policy = as_policy(given.policy if isinstance(given, Solution) else given, place)
    if isinstance(policy, TablePolicy):
        return policy.table
    return given if isinstance(policy, FunctionPolicy) else policy


def acting(source: Any, rng: np.random.Generator, place: str) -> Callable[[Any], Any]:
    """The action of a source as a function of the observation; ``rng`` is drawn from only if the source is random.

    Whatever a person's own code raises is told with the ``place`` of the source.
    """
    if isinstance(source, np.ndarray):
        return partial(_looked_up, source) if source.ndim == 1 else partial(_drawn, source, rng)
    own = is_policy(source)  # it may be callable besides
    return partial(_asked, partial(action_of, source, rng=rng) if own else source, place)


def _asked(act: Callable[[Any], Any], place: str, observation: Any) -> Any:
    try:
        return act(observation)
    except Exception as error:  # of whatever kind: it is the policy's
        raise InvalidInputError(
            f"{place} raised {shown(error)} on the observation {shown(observation)}, must give its action"
        ) from error


def _looked_up(actions: Array, state: Any) -> int:
    return int(actions[checked_state(state, len(actions))])


def _drawn(chances: Array, rng: np.random.Generator, state: Any) -> int:
    return int(draw(chances[checked_state(state, len(chances))], rng.random()))


def checked_state(state: Any, n_states: int) -> int:
    """A state that a table can be asked for."""
    index = as_index(state, n_states)
    if index < 0:
        raise InvalidInputError(f"act: the observation is {shown(state)}, must be a state in 0..{n_states - 1}")
    return index


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
