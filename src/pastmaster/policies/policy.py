"""What a policy is: actions for a batch of observations. Tables and plain functions become policies here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, as_array, as_floats, reach_of, sealed
from pastmaster.checks import flag, listed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.batch import actions_as_one
from pastmaster.policies.stack import checked_states
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, TabularMDP
from pastmaster.tasks.outcomes import PROBABILITY_TOLERANCE


@runtime_checkable
class Policy(Protocol):
    """Anything with a method ``act``: observations [n, ...] in, actions [n] or [n, d] out.

    A policy that draws at random has the attribute ``random = True`` and is called as ``act(observations, uniforms)``,
    with one uniform number in [0, 1) to each observation: so its draws belong to the episode, not to the policy.
    One that remembers what it saw in an episode has the attribute ``recurrent = True`` and a method ``begin_episode``,
    which returns an object with ``act`` that is then given the observations of one episode, one by one.
    ``pastmaster.testing.check_policy`` checks a policy of your own.

    Examples
    --------
    >>> import numpy as np
    >>> from pastmaster.policies import Policy
    >>> class LeansRight:
    ...     def act(self, observations):
    ...         return (np.asarray(observations)[:, 2] > 0).astype(int)
    >>> isinstance(LeansRight(), Policy)
    True
    """

    def act(self, observations: Any, /) -> Any:
        """The actions to take."""


def is_policy(policy: Any) -> bool:
    """Whether this has a method ``act``."""
    return callable(getattr(policy, "act", None))


def spaces_of(task: Any, place: str) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Copies of the spaces of observations and actions of a task, an environment, or a pair of spaces."""
    if isinstance(task, TabularMDP):
        return gym.spaces.Discrete(task.n_states), gym.spaces.Discrete(task.n_actions)
    pair = (task.observation_space, task.action_space) if isinstance(task, GymTask | gym.Env) else task
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(space, gym.Space) for space in pair)):
        raise InvalidInputError(f"{place} is {shown(task)}, must be a task, an environment or a pair of spaces")
    return copy.deepcopy(pair)


class TablePolicy:
    """A policy that looks its action up in a table.

    Parameters
    ----------
    table : array of int [S] or of float [S, A]
        The action in each state, or the probability of each action in each state.
    place : str
        What errors begin with.

    Attributes
    ----------
    table : array
        int32 [S] or float64 [S, A], read-only.
    random : bool
        Whether it draws its actions.

    Examples
    --------
    >>> from pastmaster.policies import TablePolicy
    >>> TablePolicy([1, 0, 2]).act([0, 2]).tolist()
    [1, 2]
    >>> TablePolicy([[0.5, 0.5]]).act([0, 0], [0.2, 0.7]).tolist()
    [0, 1]
    """

    def __init__(self, table: npt.ArrayLike, *, place: str = "TablePolicy: table") -> None:
        array = as_array(table, place, None)
        if array.ndim not in (1, 2) or 0 in array.shape:
            raise InvalidInputError(f"{place} has shape {array.shape}, must be [S] actions or [S, A] probabilities")
        highest = int(array.max()) if array.ndim == 1 and array.dtype.kind in "iu" else 0
        n_actions = array.shape[1] if array.ndim == 2 else min(max(highest, 0) + 1, 2**31 - 1)
        self.table = checked_policy(array, len(array), n_actions, place)
        self.random = self.table.ndim == 2
        self.reach: Array | None = sealed(reach_of(self.table)) if self.random else None

    @property
    def n_states(self) -> int:
        return len(self.table)

    def act(self, observations: Any, uniforms: Any = None) -> Array:
        """Actions [n] in states [n]; if random, drawn by one uniform number each."""
        states = as_array(observations, "TablePolicy.act: observations", None)
        if states.ndim != 1:
            raise InvalidInputError(
                f"TablePolicy.act: observations have shape {states.shape} and dtype {states.dtype}, "
                "must be [n] integers"
            )
        states = checked_states(states, len(self.table), "TablePolicy.act: observations")
        actions: Array
        if self.reach is None:
            actions = self.table[states].astype(np.int64)
            return actions
        drawn = np.empty(()) if uniforms is None else as_array(uniforms, "TablePolicy.act: uniforms", None)
        if drawn.shape != states.shape or drawn.dtype.kind != "f":
            raise InvalidInputError(
                f"TablePolicy.act: uniforms have shape {drawn.shape}, must be {states.shape}: one number to each draw"
            )
        actions = (drawn[:, None] >= self.reach[states]).sum(axis=1)
        return actions

    def __repr__(self) -> str:
        kind = f"probabilities of {self.table.shape[1]} actions" if self.random else "actions"
        return f"TablePolicy({kind} in {self.n_states} states)"


class FunctionPolicy:
    """A plain function as a policy.

    Parameters
    ----------
    function : callable
        Takes one observation and returns its action.
    batched : bool
        Whether it takes a batch of observations and returns as many actions instead, which is faster.

    Examples
    --------
    >>> from pastmaster.policies import FunctionPolicy
    >>> FunctionPolicy(lambda x: int(x[0] > 0)).act([[1.0], [-1.0]]).tolist()
    [1, 0]
    """

    random = False

    def __init__(self, function: Callable[[Any], Any], batched: bool = False) -> None:
        if not callable(function):
            raise InvalidInputError(f"FunctionPolicy: function is {shown(function)}, must be callable")
        self.function = function
        self.batched = flag("FunctionPolicy", "batched", batched)

    def act(self, observations: Any) -> Any:
        """The function's actions [n, ...]; a list where they are dicts or tuples of unlike parts."""
        if not self.batched:
            if not isinstance(observations, list | np.ndarray):
                observations = listed(observations, "FunctionPolicy.act: observations")
            return actions_as_one([self.function(observation) for observation in observations])
        given = self.function(observations)
        actions = actions_as_one(given) if isinstance(given, list) else np.asarray(given)
        shape = (len(actions),) if isinstance(actions, list) else actions.shape
        if shape[:1] != (len(observations),):
            raise InvalidInputError(
                f"{self}: got actions of shape {shape} for {len(observations)} observations, "
                f"must be [{len(observations)}, ...]"
            )
        return actions

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"FunctionPolicy({name}{', batched' if self.batched else ''})"


def checked_policy(policy: TablePolicy | npt.ArrayLike, n_states: int, n_actions: int, place: str) -> npt.NDArray[Any]:
    """A policy as int32 [S] or float64 [S, A]; errors name the state."""
    array = as_array(policy.table if isinstance(policy, TablePolicy) else policy, place, None)
    if array.shape == (n_states,) and array.dtype.kind in "iu":
        if array.min() < 0 or array.max() >= n_actions:
            s = int(np.argmax((array < 0) | (array >= n_actions)))
            raise InvalidInputError(f"{place}[{s}] is action {array[s]}, must be in 0..{n_actions - 1}")
        return sealed(array.astype(np.int32, copy=False))
    if array.shape == (n_states, n_actions) and array.dtype.kind in "iuf":
        probabilities = sealed(as_floats(array, place))
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(probabilities.sum(axis=1) - 1)
        wrong = ~((probabilities >= 0).all(axis=1) & (off <= PROBABILITY_TOLERANCE))
        if wrong.any():
            s = int(np.argmax(wrong))
            raise InvalidInputError(
                f"{place}[{s}] is {shown(probabilities[s].tolist())}, must be probabilities that sum to 1"
            )
        return sealed(probabilities / probabilities.sum(axis=1, keepdims=True))
    if not array.ndim:
        raise InvalidInputError(
            f"{place} is {shown(array.tolist())}, a number, must be [{n_states}] integer actions or "
            f"[{n_states}, {n_actions}] probabilities: if the list is one policy, pass [policy]"
        )
    raise InvalidInputError(
        f"{place} has shape {array.shape} and dtype {array.dtype}, "
        f"must be [{n_states}] integer actions or [{n_states}, {n_actions}] probabilities"
    )
