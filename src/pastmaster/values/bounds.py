"""Bounds on the return of an episode, and the paper's distance of two models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, sealed
from pastmaster.checks import listed
from pastmaster.errors import InvalidInputError
from pastmaster.solving import _kernels as kernels
from pastmaster.solving.policy_iteration import MAX_ITERATIONS
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.tabular import Model, TabularMDP, check_alike
from pastmaster.values import _kernels as cross_kernels

ROUNDING = 1e-9  # relative: more than rounding can carry a sum of rewards beyond its bound


class Bounds(NamedTuple):
    """The least and the greatest discounted return an episode can have."""

    lower: float
    upper: float

    @property
    def span(self) -> float:
        """B, the width of the bounds."""
        return self.upper - self.lower

    def with_span(self) -> Bounds:
        """The same, of a span of 1 where it is 0: a selector must have one, and any will do where nothing differs."""
        return self if self.lower < self.upper else Bounds(self.lower, self.lower + 1.0)


def return_bounds(tasks: TabularMDP | Iterable[TabularMDP], *, kind: Literal["exact", "paper"] = "exact") -> Bounds:
    """Bounds on the discounted return of one episode of any policy in any of the tasks.

    "exact": over every action and possible outcome, termination and the horizon included, rounded outwards by what
    rounding can add to a simulated return. "paper": R_min / (1 - gamma) and R_max / (1 - gamma), which bound episodes
    that never end, or that end where rewards have both signs.
    Differs from the paper: its bounds are far wider than any return of a task whose episodes end.
    """
    tasks = [tasks] if isinstance(tasks, TabularMDP) else listed(tasks, "return_bounds: tasks")
    check_alike(tasks, "return_bounds")
    if kind == "paper":
        rate = 1.0 / (1.0 - tasks[0].gamma)
        lowest, highest = min(_paid(t).min() for t in tasks), max(_paid(t).max() for t in tasks)
        return Bounds(float(lowest * rate), float(highest * rate))
    if kind != "exact":
        raise InvalidInputError(f"return_bounds: kind is {kind!r}, must be 'exact' or 'paper'")
    bounds = [_exact_bounds(task) for task in tasks]
    return Bounds(min(b.lower for b in bounds), max(b.upper for b in bounds))


def task_bounds(task: TabularMDP | GymTask) -> Bounds | None:
    """Bounds on the discounted return of an episode of one task; None where nothing tells the rewards of a step.

    Of a model they are exact. Of a ``GymTask`` with rewards in a known range an episode has 1 to ``horizon`` steps: the
    bounds are the least and the greatest of r (1 + gamma + ... + gamma^(n - 1)) for n = 1 and n = horizon, rounded
    outward. Where an environment has a table ``P`` and no range is declared they are exact again.
    """
    if isinstance(task, TabularMDP):
        return _exact_bounds(task)
    if task.reward_range is None and task.table is not None:
        return _exact_bounds(task.table)
    if task.known_rewards is None:
        return None
    steps = float(np.sum(task.gamma ** np.arange(task.horizon or 1)))
    (least, most), outward = task.known_rewards, 1.0 + ROUNDING
    return Bounds(
        least if least >= 0 else least * steps * outward,
        most if most <= 0 else most * steps * outward,
    )


def model_difference(one: TabularMDP, other: TabularMDP) -> float:
    """K(k) = (max |R_k - R| + gamma R_max max ||P_k - P||_1) / (1 - gamma)^2, the paper's distance of two models.

    No policy's value differs by more between the two tasks, in any state. R are expected rewards.
    Differs from the paper: R_max is the largest |R|, without which negative rewards break the lemma, and ending the
    episode counts as one more state.
    """
    from scipy import sparse

    check_alike([one, other], "model_difference")
    if one.horizon != other.horizon:
        raise InvalidInputError(
            f"model_difference: the horizons are {one.horizon} and {other.horizon}, must be equal: values depend on it"
        )
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


def _paid(task: TabularMDP) -> FloatArray:
    """The rewards of outcomes that can happen."""
    return task.reward if task.probability is None else task.reward[task.probability > 0]


def _choices(task: TabularMDP) -> tuple[FloatArray, IntArray, npt.NDArray[np.bool_]]:
    """Reward, next state and end [S, A * K] of all that can happen in an episode.

    An impossible outcome repeats a possible one; a state that no episode reaches pays 0 and ends it.
    """
    met = cross_kernels.states_met(*task.model()[1:], task.start_states)[:, None]
    if task.probability is None:
        return np.where(met, task.reward, 0.0), task.next_state, task.terminated | ~met
    possible = task.probability > 0
    standing_in = np.where(possible, np.arange(possible.shape[2]), possible.argmax(axis=2, keepdims=True))

    def flat(outcomes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.take_along_axis(outcomes, standing_in, axis=2).reshape(task.n_states, -1)

    return np.where(met, flat(task.reward), 0.0), flat(task.next_state), flat(task.terminated) | ~met


def _exact_bounds(task: TabularMDP) -> Bounds:
    """Extreme returns: U_h(s) = max or min over a and possible k of [r + gamma (1 - terminated) U_{h-1}(s')]."""
    reward, next_state, terminated = _choices(task)
    extremes = []
    for sign in (-1.0, 1.0):
        if task.horizon is None:
            weight = np.where(terminated, 0.0, task.gamma)[:, :, None]
            model = Model.of(sign * reward, next_state[:, :, None], weight)
            largest = float(np.abs(reward).max())
            value, _, _, error = kernels.solve_model(*model, largest, task.gamma, 1e-9, MAX_ITERATIONS)
        else:
            choices = (sealed(next_state), sealed(sign * reward), sealed(terminated))
            value = kernels.extreme_returns(*choices, task.gamma, task.horizon)
            error = 0.0
        extremes.append(sign * float(value[task.start_states].max() + error + _return_rounding(task, reward)))
    lower, upper = extremes
    # a sum of rewards of one sign keeps that sign, however it is rounded
    return Bounds(max(lower, 0.0) if reward.min() >= 0 else lower, min(upper, 0.0) if reward.max() <= 0 else upper)


def _return_rounding(task: TabularMDP, reward: FloatArray) -> float:
    """How far rounding can carry a return summed step by step from its exact value.

    The n-th term is off by (n + 2) EPS of itself, since gamma^n is a product; each of the steps that still move the
    sum rounds it once more. After ln(EPS) / ln(gamma) steps terms vanish below the rounding of the sum.
    """
    rate = 1.0 / (1.0 - task.gamma)
    steps = 40.0 * rate if task.horizon is None else min(40.0 * rate, task.horizon)
    return float(np.abs(reward).max() * rate * (steps + rate + 4.0) * kernels.EPS)
