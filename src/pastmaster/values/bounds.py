"""Bounds on the discounted return of an episode: how they follow from tasks, and the check of those a person gives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import BoolArray, FloatArray, IntArray, sealed
from pastmaster.checks import chosen, is_finite, listed
from pastmaster.errors import InvalidInputError
from pastmaster.solving import _iteration_kernels as iteration, _kernels as solving_kernels
from pastmaster.solving.policy_iteration import MAX_ITERATIONS
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, TabularMDP, Task
from pastmaster.tasks.tabular import Model, check_alike
from pastmaster.values import _kernels as kernels
from pastmaster.values.given import listed_tasks, not_a_task

MOST_TERMS = 10**7  # of a sum that is taken term by term
ROUNDING = 1e-9  # relative: more than rounding can move a sum of rewards beyond its bound


class Bounds(NamedTuple):
    """The least and the greatest discounted return that an episode can have.

    Attributes
    ----------
    lower, upper, span : float
        The two ends, and B, their distance.

    Examples
    --------
    >>> Bounds(-1.0, 3.0).span
    4.0
    """

    lower: float
    upper: float

    @property
    def span(self) -> float:
        return self.upper - self.lower

    def with_span(self) -> Bounds:
        """The same bounds, or 1 apart where they are equal: a selector divides by the span."""
        return self if self.lower < self.upper else Bounds(self.lower, self.lower + 1.0)

    @classmethod
    def joined(cls, bounds: Iterable[Bounds]) -> Bounds:
        """The narrowest bounds that include all of these, of which there is at least one."""
        lower, upper = zip(*bounds, strict=True)
        return cls(min(lower), max(upper))


def return_bounds(tasks: Task | Iterable[Task], *, kind: Literal["exact", "paper"] = "exact") -> Bounds:
    """Bounds on the discounted return of one episode, of any policy in any of the tasks.

    Selectors and the cost of a clustering need them. Take them over all tasks of a family, not from a new task alone.
    Differs from the paper: with a discount its bounds ("paper") are far wider than any return of a task whose episodes
    end.

    Parameters
    ----------
    tasks : TabularMDP, GymTask or iterable of these
        One task or many, with the same gamma.
    kind : {"exact", "paper"}
        "exact": over every action and possible outcome, with termination and horizon (see ``task_bounds``). "paper":
        R_min / (1 - gamma) and R_max / (1 - gamma), right for episodes that never end.

    Returns
    -------
    Bounds
        They hold to the last bit: the effect of rounding on a simulated return is included.

    Raises
    ------
    InvalidInputError
        If a ``GymTask`` has no known range of rewards: give it ``reward_range``.

    Examples
    --------
    >>> lower, upper = return_bounds(TabularMDP([[0, 0]], [[1.0, 3.0]], terminated=[[False, True]], gamma=0.5))
    >>> round(lower, 6), round(upper, 6)
    (2.0, 3.0)
    """
    family = _checked_family(tasks)
    find = task_bounds if chosen("return_bounds", "kind", kind, ("exact", "paper")) == "exact" else _paper_bounds
    found = [find(task) for task in family]
    for index, (task, bounds) in enumerate(zip(family, found, strict=True)):
        if bounds is None:
            raise InvalidInputError(
                f"return_bounds: tasks[{index}] is {task.name}, whose rewards have no known range, "
                "must be made with GymTask(..., reward_range=(least, greatest))"
            )
    return Bounds.joined(bounds for bounds in found if bounds is not None)


def task_bounds(task: Task) -> Bounds | None:
    """Bounds on the discounted return of an episode of one task; None where the range of its rewards is not known.

    Of a model they are exact; so they are of an environment with a table ``P``, unless ``reward_range`` is given. Of a
    ``GymTask`` with rewards in a known range an episode has 1 to ``horizon`` steps: the bounds are the least and the
    greatest of r (1 + gamma + ... + gamma^(n - 1)) for n = 1 and n = horizon, rounded outwards.

    Examples
    --------
    >>> lower, upper = task_bounds(GymTask("CartPole-v1", gamma=0.5, horizon=2, reward_range=(1.0, 1.0)))
    >>> lower, round(upper, 6)
    (1.0, 1.5)
    """
    if not isinstance(task, Task):
        raise not_a_task("task_bounds: task", task)
    basis = _basis(task)
    if basis is None or isinstance(basis, TabularMDP):
        return None if basis is None else _exact_bounds(basis)
    steps = _discounted_steps(task.gamma, task.horizon or 1)
    (least, most), outward = basis, 1.0 + ROUNDING
    return Bounds(least if least >= 0 else least * steps * outward, most if most <= 0 else most * steps * outward)


def _discounted_steps(gamma: float, horizon: int) -> float:
    """1 + gamma + ... + gamma^(horizon - 1)."""
    if horizon <= MOST_TERMS:
        return float(np.sum(gamma ** np.arange(horizon)))
    return float(horizon) if gamma == 1.0 else -math.expm1(horizon * math.log(gamma)) / (1.0 - gamma) if gamma else 1.0


def checked_bounds(caller: str, bounds: Any) -> Bounds:
    """Bounds as a person gives them: two finite numbers, the lower one first."""
    ends = listed(bounds, f"{caller}: bounds", "(lower, upper)", most=2)
    if len(ends) != 2:
        raise InvalidInputError(f"{caller}: bounds is {shown(bounds)}, must be (lower, upper)")
    lower, upper = (float(end) if is_finite(end) else math.nan for end in ends)
    if not (math.isfinite(upper - lower) and lower < upper):
        raise InvalidInputError(f"{caller}: bounds is {shown(bounds)}, must be finite, lower below upper")
    return Bounds(lower, upper)


def _checked_family(tasks: Any) -> list[Any]:
    """One task or many as a list. They share gamma and, if all are models, states and actions."""
    family = listed_tasks("return_bounds: tasks", tasks)
    for index, task in enumerate(family):
        if not isinstance(task, Task):
            raise not_a_task(f"return_bounds: tasks[{index}]", task)
    if not any(isinstance(task, GymTask) for task in family):
        check_alike(family, "return_bounds")
    for index, task in enumerate(family):
        place = f"return_bounds: tasks[{index}]"
        if task.gamma != family[0].gamma:
            raise InvalidInputError(f"{place}.gamma is {task.gamma}, must be {family[0].gamma} as in tasks[0]")
    return family


def _basis(task: Task) -> TabularMDP | tuple[float, float] | None:
    """What bounds follow from: a model, else the range of the rewards; a declared range goes before a table."""
    if isinstance(task, TabularMDP):
        return task
    table = task.table if task.reward_range is None else None
    return task.known_rewards if table is None else table


def _paper_bounds(task: Task) -> Bounds | None:
    """R_min / (1 - gamma) and R_max / (1 - gamma), over outcomes that can happen."""
    if task.gamma == 1.0:
        raise InvalidInputError("return_bounds: gamma is 1, must be below 1 for the paper's bounds")
    basis, rate = _basis(task), 1.0 / (1.0 - task.gamma)
    if isinstance(basis, TabularMDP):
        paid = basis.reward if basis.probability is None else basis.reward[basis.probability > 0]
        basis = float(paid.min()), float(paid.max())
    return None if basis is None else Bounds(basis[0] * rate, basis[1] * rate)


def _choices(task: TabularMDP) -> tuple[FloatArray, IntArray, BoolArray]:
    """Reward, next state and end [S, A * K] of all that can happen in an episode.

    An impossible outcome repeats a possible one; a state that no episode reaches pays 0 and ends it.
    """
    met = kernels.states_met(*task.model()[1:], task.start_states)[:, None]
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
    largest, extremes = float(np.abs(reward).max()), []
    for sign in (-1.0, 1.0):
        if task.horizon is None:
            weight = np.where(terminated, 0.0, task.gamma)[:, :, None]
            model = Model.of(sign * reward, next_state[:, :, None], weight)
            value, _, _, error = iteration.solve_model(*model, largest, task.gamma, 1e-9, MAX_ITERATIONS)
        else:
            choices = (sealed(sign * reward), sealed(next_state), sealed(terminated))
            value, error = kernels.extreme_returns(*choices, task.gamma, task.horizon), 0.0
        extremes.append(sign * float(value[task.start_states].max() + error + _return_rounding(task, largest)))
    lower, upper = extremes
    # a sum of rewards of one sign keeps that sign, however it is rounded
    return Bounds(max(lower, 0.0) if reward.min() >= 0 else lower, min(upper, 0.0) if reward.max() <= 0 else upper)


def _return_rounding(task: TabularMDP, largest: float) -> float:
    """How far rounding can move a return, summed step by step from rewards up to ``largest``, from its exact value.

    The n-th term is off by (n + 2) EPS of itself, since gamma^n is a product; each of the steps that still move the
    sum rounds it once more. After ln(EPS) / ln(gamma) steps terms vanish below the rounding of the sum.
    """
    rate = float(task.horizon or 1) if task.gamma == 1.0 else 1.0 / (1.0 - task.gamma)
    steps = 40.0 * rate if task.horizon is None else min(40.0 * rate, task.horizon)
    return largest * rate * (steps + rate + 4.0) * solving_kernels.EPS
