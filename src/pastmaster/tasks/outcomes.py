"""The arrays of a task as people give them, checked: an error names the first entry that is wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, BoolArray, FloatArray, IntArray, as_array, as_floats
from pastmaster.checks import is_whole
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

PROBABILITY_TOLERANCE = 1e-9


class Outcomes(NamedTuple):
    """The outcomes of a task [S, A, K], in the order in which Gymnasium's table ``P`` has them."""

    probability: FloatArray
    next_state: IntArray
    reward: FloatArray
    terminated: BoolArray


def refused(message: str) -> InvalidInputError:
    """The error for an argument of ``TabularMDP``."""
    return InvalidInputError(f"TabularMDP: {message}")


def checked_outcomes(
    next_state: npt.ArrayLike,
    reward: npt.ArrayLike,
    probability: npt.ArrayLike | None,
    terminated: npt.ArrayLike | None,
) -> dict[str, Any]:
    """The four outcome arrays, checked, in canonical dtypes and shape, never sharing memory with the caller's."""
    states = as_array(next_state, "TabularMDP: next_state", "iu")
    if states.ndim not in (2, 3) or 0 in states.shape:
        raise refused(f"next_state has shape {states.shape}, must be [S, A] or [S, A, K] with no empty axis")
    _check((states >= 0) & (states < len(states)), "next_state", states, f"in 0..{len(states) - 1}")
    rewards = as_floats(_shaped("reward", reward, "iuf", states.shape), "TabularMDP: reward")
    _check(np.isfinite(rewards), "reward", rewards, "finite")
    ends = np.zeros(states.shape, np.bool_)
    if terminated is not None:
        ends = _shaped("terminated", terminated, "b", states.shape)
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


def checked_start(start: int | npt.ArrayLike, n_states: int) -> dict[str, Any]:
    """The start states and their probabilities, from a state or a distribution over states."""
    chances = as_array(start, "TabularMDP: start", None)
    if chances.ndim == 0:
        if not is_whole(start) or not 0 <= int(chances) < n_states:
            raise refused(f"start is {shown(start)}, must be a state in 0..{n_states - 1} or a distribution over them")
        return {"start_states": np.array([start], np.int32), "start_probability": np.ones(1)}
    chances = as_floats(chances, "TabularMDP: start")
    if chances.shape != (n_states,):
        raise refused(f"start has shape {chances.shape}, must be a state or a distribution of shape ({n_states},)")
    _check(chances >= 0, "start", chances, "at least 0")
    if not abs(chances.sum() - 1) <= PROBABILITY_TOLERANCE:
        raise refused(f"start sums to {chances.sum():.12g}, must be 1")
    states = np.flatnonzero(chances)
    return {
        "start_states": states.astype(np.int32),
        "start_probability": chances[states] / chances.sum(),
    }


def _checked_probability(probability: npt.ArrayLike | None, shape: tuple[int, ...]) -> FloatArray:
    """The outcome probabilities, each row a distribution; [S, A] tasks have one outcome of probability 1."""
    if probability is None:
        if len(shape) == 3 and shape[2] > 1:
            raise refused(f"next_state has {shape[2]} outcomes per action, so probability must be given")
        return np.ones(shape)
    chances = as_floats(_shaped("probability", probability, "iuf", shape), "TabularMDP: probability")
    _check(chances >= 0, "probability", chances, "at least 0")
    totals = chances.reshape(shape[0], shape[1], -1).sum(axis=2)
    off = ~(np.abs(totals - 1) <= PROBABILITY_TOLERANCE)
    if off.any():
        where = np.argwhere(off)[0].tolist()
        raise refused(f"probability{where} sums to {totals[tuple(where)]:.12g}, must be 1")
    totals[np.abs(totals - 1) <= 1e-15 * chances.size / totals.size] = 1.0  # off by rounding alone: kept as given
    normalised: FloatArray = chances / totals.reshape(shape[:2] + (1,) * (len(shape) - 2))
    return normalised


def _shaped(name: str, values: npt.ArrayLike, kinds: str, shape: tuple[int, ...]) -> Array:
    """An array of the shape of ``next_state``."""
    array = as_array(values, f"TabularMDP: {name}", kinds)
    if array.shape != shape:
        raise refused(f"{name} has shape {array.shape}, must be {shape} as next_state")
    return array


def _check(good: BoolArray, name: str, array: Array, right: str) -> None:
    """An error that names the first entry that is not good."""
    if not good.all():
        where = np.argwhere(~good)[0].tolist()
        raise refused(f"{name}{where} is {array[tuple(where)]}, must be {right}")
