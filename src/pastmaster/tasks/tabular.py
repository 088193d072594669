"""A task: a finite Markov decision process, held as read-only arrays.

A task M = (S, A, P, R, gamma) is stored the way Gymnasium's toy environments store theirs. Each (state, action) has
K possible outcomes; outcome k happens with ``probability[s, a, k]``, pays ``reward[s, a, k]``, leads to
``next_state[s, a, k]`` and, where ``terminated[s, a, k]`` is set, ends the episode there: what follows is worth 0,
whatever ``next_state`` says. A deterministic task (one outcome) stores [S, A] arrays and no probabilities.

``horizon`` caps an episode's number of steps. Evaluation, return bounds and simulation honour it; ``solve`` is about
the discounted task without it, whose best policy does not depend on the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, BoolArray, FloatArray, IntArray, as_array, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.tasks.gymnasium_table import arrays_of_table, step_limit

PROBABILITY_TOLERANCE = 1e-9
ARRAYS = ("next_state", "reward", "probability", "terminated", "start_states", "start_probability")


class Model(NamedTuple):
    """A task as the kernels read it: expected reward [S, A], next state [S, A, K], weight [S, A, K].

    ``weight`` is gamma * probability, and 0 where the outcome ends the episode, so that one backup is
    ``reward[s, a] + sum_k weight[s, a, k] * value[next_state[s, a, k]]``.
    """

    reward: FloatArray
    next_state: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, reward: FloatArray, next_state: IntArray, weight: FloatArray) -> Model:
        """A model whose arrays are contiguous and read-only, always: kernels then compile for one kind only."""
        return cls(sealed(reward), sealed(next_state), sealed(weight))


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TabularMDP:
    """A finite task. ``next_state`` and ``reward`` are [S, A, K], or [S, A] when every action has one outcome.

    ``start`` is a state or a distribution over states, ``horizon`` the episode's step cap or None, ``name`` and
    ``params`` are for people. Arrays are checked once, copied and made read-only. Probabilities that are all 0 or 1
    make the task deterministic: it is then stored as [S, A].
    """

    next_state: IntArray
    reward: FloatArray
    probability: FloatArray | None
    terminated: BoolArray
    gamma: float
    start_states: IntArray
    start_probability: FloatArray
    horizon: int | None
    name: str
    params: Mapping[str, Any]

    def __init__(
        self,
        next_state: npt.ArrayLike,
        reward: npt.ArrayLike,
        *,
        gamma: float,
        probability: npt.ArrayLike | None = None,
        terminated: npt.ArrayLike | None = None,
        start: int | npt.ArrayLike = 0,
        horizon: int | None = None,
        name: str = "",
        params: Mapping[str, Any] | None = None,
    ) -> None:
        outcomes = _checked_outcomes(next_state, reward, probability, terminated)
        gamma = _checked_gamma(gamma)
        if np.abs(outcomes["reward"]).max() > 1e300 * (1 - gamma):
            raise _refuse(f"reward holds {np.abs(outcomes['reward']).max():g}, must be below 1e300 (1 - gamma) in size")
        if params is not None and not isinstance(params, Mapping):
            raise _refuse(f"params is {params!r}, must be a mapping or None")
        _fill(
            self,
            outcomes
            | _checked_start(start, len(outcomes["next_state"]))
            | {"gamma": gamma, "horizon": _checked_horizon(horizon)}
            | {"name": str(name), "params": dict(params or {})},
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_of, (vars(self),)

    @property
    def n_states(self) -> int:
        return int(self.next_state.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.next_state.shape[1])

    @property
    def is_deterministic(self) -> bool:
        return self.probability is None

    @property
    def start(self) -> int | FloatArray:
        """The start state, or the distribution over states [S]."""
        if len(self.start_states) == 1:
            return int(self.start_states[0])
        distribution = np.zeros(self.n_states)
        distribution[self.start_states] = self.start_probability
        return distribution

    def largest_reward(self) -> float:
        """The largest |reward| of an outcome that can happen."""
        possible = self.reward if self.probability is None else self.reward[self.probability > 0]
        return float(np.abs(possible).max())

    def model(self) -> Model:
        """The arrays of one discounted backup, made anew at each call (see ``Model``)."""
        if self.probability is None:
            weight = np.where(self.terminated, 0.0, self.gamma)[:, :, None]
            return Model.of(self.reward, self.next_state[:, :, None], weight)
        weight = np.where(self.terminated, 0.0, self.gamma * self.probability)
        return Model.of(np.einsum("sak,sak->sa", self.probability, self.reward), self.next_state, weight)

    @classmethod
    def from_gymnasium(
        cls,
        env: gym.Env[Any, Any] | str,
        gamma: float,
        *,
        horizon: int | Literal["env"] | None = "env",
        name: str | None = None,
    ) -> TabularMDP:
        """The exact task behind an environment that carries its table ``P`` (FrozenLake, Taxi, CliffWalking, ...).

        ``env`` is an environment or its Gymnasium id. The start comes from ``initial_state_distrib``, or state 0;
        the horizon from the environment's step limit unless given.
        """
        if isinstance(env, str):
            env = gym.make(env)
        if not isinstance(env, gym.Env):
            raise InvalidInputError(f"from_gymnasium: env is {env!r}, must be an environment or its Gymnasium id")
        table = getattr(env.unwrapped, "P", None)
        if not isinstance(table, Mapping | list) or not len(table):
            raise InvalidInputError(f"from_gymnasium: {env} has no transition table P; give TabularMDP its arrays")
        cap = step_limit(env) if horizon == "env" else horizon
        start = getattr(env.unwrapped, "initial_state_distrib", 0)
        if name is None:
            name = env.spec.id if env.spec else type(env.unwrapped).__name__
        params = dict(env.spec.kwargs) if env.spec else {}
        return cls(**arrays_of_table(table), gamma=gamma, start=start, horizon=cap, name=name, params=params)

    def to_gymnasium(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """This task as an environment (``pastmaster/Tabular-v0``), which truncates an episode at the horizon itself."""
        if render_mode not in (None, "ansi", "rgb_array"):
            raise InvalidInputError(
                f"to_gymnasium: render_mode is {render_mode!r}, must be None, 'ansi' or 'rgb_array'"
            )
        return gym.make("pastmaster/Tabular-v0", mdp=self, render_mode=render_mode, disable_env_checker=True).unwrapped

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        kind = "deterministic" if self.is_deterministic else f"{self.next_state.shape[2]} outcomes"
        return (
            f"TabularMDP({name}{self.n_states} states, {self.n_actions} actions, {kind}, "
            f"gamma={self.gamma:g}, horizon={self.horizon})"
        )


def _fill(task: TabularMDP, fields: Mapping[str, Any]) -> None:
    """Give a new task its fields, arrays read-only."""
    for name, value in fields.items():
        object.__setattr__(task, name, sealed(value) if isinstance(value, np.ndarray) else value)


def _made_of(fields: Mapping[str, Any]) -> TabularMDP:
    """A task of fields that were checked when it was first made: how pickles and records give back the same bits."""
    task = object.__new__(TabularMDP)
    _fill(task, fields)
    return task


def model_arrays(task: TabularMDP) -> dict[str, Array]:
    """The arrays of a task by name; a deterministic one has no ``probability``."""
    return {name: getattr(task, name) for name in ARRAYS if getattr(task, name) is not None}


def task_from_arrays(
    arrays: Mapping[str, Array], *, gamma: float, horizon: int | None, name: str, params: Mapping[str, Any]
) -> TabularMDP:
    """The task that ``model_arrays`` gave these arrays of: checked like any other, and the same bit for bit.

    Making a task divides its probabilities by their sum, which is 1 but for rounding. The given ones take their place.
    """
    start = np.zeros(len(arrays["next_state"]))
    start[arrays["start_states"]] = arrays["start_probability"]
    task = TabularMDP(
        arrays["next_state"], arrays["reward"], gamma=gamma, probability=arrays.get("probability"),
        terminated=arrays["terminated"], start=start, horizon=horizon, name=name, params=params,
    )  # fmt: skip
    exact = {key: arrays[key] for key in model_arrays(task) if key.endswith("probability")}
    for key, given in exact.items():
        made = getattr(task, key)
        if (given.dtype, given.shape) != (made.dtype, made.shape) or np.abs(given - made).max() > PROBABILITY_TOLERANCE:
            raise _refuse(f"{key} is not that of a task")
    return _made_of(vars(task) | exact)


def check_alike(tasks: list[TabularMDP], caller: str) -> None:
    """Refuse tasks that do not share states, actions and gamma: their values could not be compared."""
    if not tasks:
        raise InvalidInputError(f"{caller}: tasks is empty, must hold at least one TabularMDP")
    for index, task in enumerate(tasks):
        if not isinstance(task, TabularMDP):
            raise InvalidInputError(f"{caller}: tasks[{index}] is a {type(task).__name__}, must be a TabularMDP")
        for attribute in ("n_states", "n_actions", "gamma"):
            got, expected = getattr(task, attribute), getattr(tasks[0], attribute)
            if got != expected:
                raise InvalidInputError(
                    f"{caller}: tasks[{index}].{attribute} is {got}, must be {expected} as in tasks[0]: "
                    "the tasks of one call share states, actions and gamma"
                )


def _refuse(message: str) -> InvalidInputError:
    return InvalidInputError(f"TabularMDP: {message}")


def _first(mask: BoolArray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _place(index: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, index)) + "]"


def _checked_outcomes(
    next_state: npt.ArrayLike,
    reward: npt.ArrayLike,
    probability: npt.ArrayLike | None,
    terminated: npt.ArrayLike | None,
) -> dict[str, Any]:
    """The four outcome arrays, checked, in canonical dtypes and shape, never sharing memory with the caller's."""
    states = as_array(next_state, "TabularMDP: next_state", "iu")
    if states.ndim not in (2, 3) or 0 in states.shape:
        raise _refuse(f"next_state has shape {states.shape}, must be [S, A] or [S, A, K] with no empty axis")
    outside = (states < 0) | (states >= len(states))
    if outside.any():
        where = _first(outside)
        raise _refuse(f"next_state{_place(where)} is {states[where]}, must be in 0..{len(states) - 1}")
    rewards = as_array(reward, "TabularMDP: reward", "iuf").astype(np.float64)
    ends = (
        np.zeros(states.shape, np.bool_) if terminated is None else as_array(terminated, "TabularMDP: terminated", "b")
    )
    for name, array in (("reward", rewards), ("terminated", ends)):
        if array.shape != states.shape:
            raise _refuse(f"{name} has shape {array.shape}, must be {states.shape} as next_state")
    if not np.isfinite(rewards).all():
        where = _first(~np.isfinite(rewards))
        raise _refuse(f"reward{_place(where)} is {rewards[where]}, must be finite")
    chances = _checked_probability(probability, states.shape)
    if states.ndim == 3 and ((chances == 0) | (chances == 1)).all():
        only = chances.argmax(axis=2, keepdims=True)
        states, rewards, ends = (np.take_along_axis(x, only, axis=2)[:, :, 0] for x in (states, rewards, ends))
    return {
        "next_state": np.array(states, np.int32, order="C"),
        "reward": np.array(rewards, np.float64, order="C"),
        "terminated": np.array(ends, np.bool_, order="C"),
        "probability": None if states.ndim == 2 else np.array(chances, np.float64, order="C"),
    }


def _checked_probability(probability: npt.ArrayLike | None, shape: tuple[int, ...]) -> FloatArray:
    """The outcome probabilities, each row a distribution; [S, A] tasks have one outcome of probability 1."""
    if probability is None:
        if len(shape) == 3 and shape[2] > 1:
            raise _refuse(f"next_state has {shape[2]} outcomes per action, so probability must be given")
        return np.ones(shape)
    chances = as_array(probability, "TabularMDP: probability", "iuf").astype(np.float64)
    if chances.shape != shape:
        raise _refuse(f"probability has shape {chances.shape}, must be {shape} as next_state")
    bad = ~(chances >= 0)
    if bad.any():
        where = _first(bad)
        raise _refuse(f"probability{_place(where)} is {chances[where]}, must be at least 0")
    totals = chances.reshape(shape[0], shape[1], -1).sum(axis=2)
    off = ~(np.abs(totals - 1) <= PROBABILITY_TOLERANCE)
    if off.any():
        where = _first(off)
        raise _refuse(f"probability{_place(where)} sums to {totals[where]:.12g}, must be 1")
    totals[np.abs(totals - 1) <= 1e-15 * chances.size / totals.size] = 1.0  # off by rounding alone: kept as given
    normalised: FloatArray = chances / totals.reshape(shape[:2] + (1,) * (len(shape) - 2))
    return normalised


def _checked_start(start: int | npt.ArrayLike, n_states: int) -> dict[str, Any]:
    """The start states and their probabilities, from a state or a distribution over states."""
    chances = as_array(start, "TabularMDP: start", None)
    if chances.ndim == 0:
        if isinstance(start, bool | np.bool_) or not isinstance(start, int | np.integer) or not 0 <= start < n_states:
            raise _refuse(f"start is {start!r}, must be a state in 0..{n_states - 1} or a distribution over them")
        return {"start_states": np.array([start], np.int32), "start_probability": np.ones(1)}
    chances = as_array(chances, "TabularMDP: start", "iuf").astype(np.float64)
    if chances.shape != (n_states,):
        raise _refuse(f"start has shape {chances.shape}, must be a state or a distribution of shape ({n_states},)")
    if not (chances >= 0).all():
        where = _first(~(chances >= 0))
        raise _refuse(f"start{_place(where)} is {chances[where]}, must be at least 0")
    if not abs(chances.sum() - 1) <= PROBABILITY_TOLERANCE:
        raise _refuse(f"start sums to {chances.sum():.12g}, must be 1")
    states = np.flatnonzero(chances)
    return {"start_states": states.astype(np.int32), "start_probability": chances[states] / chances.sum()}


def _checked_gamma(gamma: float) -> float:
    if isinstance(gamma, bool) or not isinstance(gamma, int | float | np.integer | np.floating) or not 0 <= gamma < 1:
        raise _refuse(f"gamma is {gamma!r}, must be in [0, 1)")
    return float(gamma)


def _checked_horizon(horizon: int | None) -> int | None:
    if horizon is None:
        return None
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or not 1 <= horizon < 2**31:
        raise _refuse(f"horizon is {horizon!r}, must be a positive number of steps or None, below 2^31")
    return int(horizon)
