"""A model as the compiled loops that play episodes read it."""

from __future__ import annotations

from typing import NamedTuple

from pastmaster.arrays import BoolArray, FloatArray, IntArray, reach_of, sealed
from pastmaster.tasks.tabular import TabularMDP


class SimulatedTask(NamedTuple):
    """A task to be simulated; ``reach`` [S, A, K] adds up probabilities, 2 from the last possible outcome on."""

    next_state: IntArray
    reward: FloatArray
    terminated: BoolArray
    reach: FloatArray
    start_states: IntArray
    start_reach: FloatArray
    gamma: float
    horizon: int


def simulated(task: TabularMDP, horizon: int) -> SimulatedTask:
    """A task as the compiled episodes read it."""
    chances, next_state, reward, terminated = task.outcomes()
    return SimulatedTask(
        next_state,
        reward,
        terminated,
        sealed(reach_of(chances)),
        task.start_states,
        sealed(reach_of(task.start_probability)),
        task.gamma,
        horizon,
    )
