"""A task: a finite Markov decision process, held as read-only arrays.

A task M = (S, A, P, R, gamma) is stored the way Gymnasium's toy environments store theirs. Each (state, action) has
K possible outcomes; outcome k happens with ``probability[s, a, k]``, pays ``reward[s, a, k]``, leads to
``next_state[s, a, k]`` and, where ``terminated[s, a, k]`` is set, ends the episode there: what follows is worth 0,
whatever ``next_state`` says. A deterministic task (one outcome) stores [S, A] arrays and no probabilities.

``horizon`` caps an episode's number of steps. Evaluation, return bounds and simulation honour it; ``solve`` is about
the discounted task without it, whose best policy does not depend on the step. Without a discount (gamma = 1) the
horizon is what makes values finite, so it must be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, BoolArray, FloatArray, IntArray, sealed
from pastmaster.checks import as_number, called_as, is_whole, is_word, mapping, text
from pastmaster.errors import InvalidInputError
from pastmaster.tables import WIDEST, frame, one_line, shown
from pastmaster.tasks.gymnasium_table import arrays_of_table, spec_name, step_limit
from pastmaster.tasks.outcomes import (
    PROBABILITY_TOLERANCE,
    Outcomes,
    checked_outcomes,
    checked_start,
    refused,
)
from pastmaster.tasks.specs import made_by_id

if TYPE_CHECKING:
    import pandas as pd

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
    """A task whose model is known: finite states and actions, held as arrays.

    The arrays are checked once, copied and made read-only. Probabilities that are all 0 or 1 make the task
    deterministic: it is then stored as [S, A].

    Parameters
    ----------
    next_state : array of int, [S, A, K], or [S, A] where every action has one outcome
        The state that each outcome leads to.
    reward : array of float, of the same shape
        What each outcome pays.
    gamma : float
        The discount, in [0, 1); or 1, which needs a ``horizon``.
    probability : array of float, of the same shape, optional
        The probability of each outcome; needed where an action has several.
    terminated : array of bool, of the same shape, optional
        Whether an outcome ends the episode; what follows is then worth 0. By default none does.
    start : int or array of float [S]
        The start state, or a distribution over states.
    horizon : int, optional
        The most steps of an episode. ``solve`` is about the task without this cap; all else honours it.
    name : str
        What to call the task.
    params : mapping, optional
        What the task was made of, for people to read.

    Raises
    ------
    InvalidInputError
        The first entry that is wrong, by its indices.

    Examples
    --------
    >>> from pastmaster import TabularMDP, solve
    >>> task = TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [0.0, 0.0]], gamma=0.9, horizon=5, name="step")
    >>> task
    TabularMDP('step', 2 states, 2 actions, deterministic, gamma=0.9, horizon=5)
    >>> solve(task).policy.tolist()
    [1, 0]
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
        outcomes = checked_outcomes(next_state, reward, probability, terminated)
        if not (0 <= as_number(gamma) < 1 or (as_number(gamma) == 1 and horizon is not None)):
            raise refused(f"gamma is {shown(gamma)}, must be in [0, 1), or 1 with a horizon")
        gamma = float(gamma)
        if horizon is not None and not (is_whole(horizon) and 1 <= int(horizon) < 2**31):
            raise refused(f"horizon is {shown(horizon)}, must be a positive number of steps or None, below 2^31")
        largest = np.abs(outcomes["reward"]).max()
        per_step = 1 - gamma if gamma < 1 else 1 / int(horizon or 1)
        if largest > 1e300 * per_step:
            limit = "(1 - gamma)" if gamma < 1 else "/ horizon"
            raise refused(f"reward holds {largest:g}, must be below 1e300 {limit} in size")
        name = text("TabularMDP", "name", name)
        _fill(
            self,
            outcomes
            | checked_start(start, len(outcomes["next_state"]))
            | {"gamma": gamma, "horizon": None if horizon is None else int(horizon)}
            | {"name": name, "params": _checked_params(params)},
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
        return int(self.start_states[0]) if len(self.start_states) == 1 else self.start_distribution()

    def start_distribution(self) -> FloatArray:
        """The probability of each state to be the start [S]."""
        distribution = np.zeros(self.n_states)
        distribution[self.start_states] = self.start_probability
        return distribution

    def outcomes(self) -> Outcomes:
        """Probability, next state, reward and end of each outcome, each [S, A, K] also where K is 1."""
        chances = np.ones(self.next_state.shape) if self.probability is None else self.probability
        shape = (self.n_states, self.n_actions, -1)
        arrays = (chances, self.next_state, self.reward, self.terminated)
        return Outcomes(*(sealed(array.reshape(shape)) for array in arrays))

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
    @called_as("TabularMDP.from_gymnasium")
    def from_gymnasium(
        cls,
        env: gym.Env[Any, Any] | str,
        gamma: float,
        *,
        horizon: int | Literal["env"] | None = "env",
        name: str | None = None,
    ) -> TabularMDP:
        """The exact task behind an environment that carries its table ``P`` (FrozenLake, Taxi, CliffWalking, ...).

        Parameters
        ----------
        env : gymnasium.Env or str
            The environment, or its id, without a module. The start is its ``initial_state_distrib``, or state 0.
        gamma : float
            The discount, in [0, 1); or 1 with a horizon.
        horizon : int, None or "env"
            The most steps of an episode; "env" is the environment's own step limit.
        name : str, optional
            What to call the task; the id of the environment and the arguments it was made with unless given.

        Examples
        --------
        >>> from pastmaster import TabularMDP
        >>> TabularMDP.from_gymnasium("FrozenLake-v1", gamma=0.99)
        TabularMDP('FrozenLake-v1', 16 states, 4 actions, 3 outcomes, gamma=0.99, horizon=100)
        """
        if isinstance(env, str):
            env = made_by_id("from_gymnasium: env", env)
        if not isinstance(env, gym.Env):
            raise InvalidInputError(f"from_gymnasium: env is {shown(env)}, must be an environment or its Gymnasium id")
        table = getattr(env.unwrapped, "P", None)
        if not isinstance(table, Mapping | list) or not len(table):
            raise InvalidInputError(
                f"from_gymnasium: env is {env}, which has no transition table P, must have one: "
                "give TabularMDP its arrays, or pass it to GymTask"
            )
        cap: Any = step_limit(env) if is_word(horizon, ["env"]) else horizon
        start = getattr(env.unwrapped, "initial_state_distrib", 0)
        if name is None:
            name = spec_name(env.spec) if env.spec else type(env.unwrapped).__name__
        params = dict(env.spec.kwargs) if env.spec else {}
        return cls(
            **arrays_of_table(table),
            gamma=gamma,
            start=start,
            horizon=cap,
            name=name,
            params=params,
        )

    def to_gymnasium(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """This task as an environment (``pastmaster/Tabular-v0``), which truncates episodes at the horizon itself.

        ``render_mode`` is None, "ansi" or "rgb_array".

        Examples
        --------
        >>> from pastmaster import TabularMDP
        >>> env = TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.5, horizon=3).to_gymnasium()
        >>> env.reset(seed=0)[0], env.step(1)[:4]
        (0, (0, 1.0, False, False))
        """
        if render_mode is not None and not is_word(render_mode, ("ansi", "rgb_array")):
            raise InvalidInputError(
                f"to_gymnasium: render_mode is {shown(render_mode)}, must be None, 'ansi' or 'rgb_array'"
            )
        return gym.make("pastmaster/Tabular-v0", mdp=self, render_mode=render_mode, disable_env_checker=True).unwrapped

    def to_frame(self) -> pd.DataFrame:
        """The possible outcomes as a pandas DataFrame, a row to each, by state and action."""
        outcomes = self.outcomes()
        state, action, k = np.nonzero(outcomes.probability)
        columns = {name: array[state, action, k] for name, array in outcomes._asdict().items()}
        return frame({"state": state, "action": action} | columns)

    def __repr__(self) -> str:
        kind = "deterministic" if self.is_deterministic else f"{self.next_state.shape[2]} outcomes"
        sizes = (
            f"{self.n_states} states, {self.n_actions} actions, {kind}, gamma={self.gamma:g}, horizon={self.horizon}"
        )
        name = f"{one_line(repr(self.name), WIDEST - len(sizes) - 14)}, " if self.name else ""
        return f"TabularMDP({name}{sizes})"


def _checked_params(params: Any) -> dict[str, Any]:
    """A copy of what a task was made of."""
    return {} if params is None else mapping(params, "TabularMDP: params", "a mapping or None")


def _fill(task: TabularMDP, fields: Mapping[str, Any]) -> None:
    """Give a new task its fields, arrays read-only."""
    for name, value in fields.items():
        object.__setattr__(task, name, sealed(value) if isinstance(value, np.ndarray) else value)


def _made_of(fields: Mapping[str, Any]) -> TabularMDP:
    """A task of fields that were checked when it was first made: how pickles and records give back the same bits."""
    task = object.__new__(TabularMDP)
    _fill(task, fields)
    return task


def capped(task: TabularMDP, horizon: int) -> TabularMDP:
    """The same task with episodes of at most ``horizon`` steps."""
    return _made_of(vars(task) | {"horizon": horizon})


def called(task: TabularMDP, name: str) -> TabularMDP:
    """The same task by another name."""
    return _made_of(vars(task) | {"name": text("TabularMDP", "name", name)})


def model_arrays(task: TabularMDP) -> dict[str, Array]:
    """The arrays of a task by name; a deterministic one has no ``probability``."""
    return {name: getattr(task, name) for name in ARRAYS if getattr(task, name) is not None}


def task_from_arrays(
    arrays: Mapping[str, Array],
    *,
    gamma: float,
    horizon: int | None,
    name: str,
    params: Mapping[str, Any],
) -> TabularMDP:
    """The task that ``model_arrays`` gave these arrays of: checked like any other, and the same bit for bit.

    Making a task divides its probabilities by their sum, which is 1 but for rounding. The given ones take their place.
    """
    start = np.zeros(len(arrays["next_state"]))
    start[arrays["start_states"]] = arrays["start_probability"]
    task = TabularMDP(
        arrays["next_state"],
        arrays["reward"],
        gamma=gamma,
        probability=arrays.get("probability"),
        terminated=arrays["terminated"],
        start=start,
        horizon=horizon,
        name=name,
        params=params,
    )
    exact = {key: arrays[key] for key in model_arrays(task) if key.endswith("probability")}
    for key, given in exact.items():
        made = getattr(task, key)
        if (given.dtype, given.shape) != (made.dtype, made.shape) or np.abs(given - made).max() > PROBABILITY_TOLERANCE:
            raise refused(f"{key} is not that of a task")
    return _made_of(vars(task) | exact)


def check_alike(tasks: list[TabularMDP], caller: str) -> None:
    """Refuse tasks that do not share states, actions and gamma: their values could not be compared."""
    if not tasks:
        raise InvalidInputError(f"{caller}: tasks is empty, must hold at least one TabularMDP")
    for index, task in enumerate(tasks):
        if not isinstance(task, TabularMDP):
            raise InvalidInputError(f"{caller}: tasks[{index}] is a {type(task).__name__}, must be a TabularMDP")
        for attribute in ("n_states", "n_actions", "gamma"):
            got = getattr(task, attribute)
            expected = getattr(tasks[0], attribute)
            if got != expected:
                raise InvalidInputError(
                    f"{caller}: tasks[{index}].{attribute} is {got}, must be {expected} as in tasks[0]: "
                    "the tasks of one call share states, actions and gamma"
                )
