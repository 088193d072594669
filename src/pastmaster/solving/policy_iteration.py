"""The best stationary policy of a task, and a proof of how good it is.

V*(s) = max_a [ R(s, a) + gamma * sum_s' P(s' | s, a) V*(s') ], without the step cap. Three steps:

1. *Sweeps*: optimal backups in place, forwards and backwards in turn, from a value below V*. Tasks with a goal then
   behave as shortest paths: every sweep propagates a reward as far as the order of states allows.
2. *Policy iteration* from there. Each policy is evaluated to rounding: by a walk where the task is deterministic, by
   elimination where it is small, by sweeps otherwise. A state switches only for a gain above rounding, so the
   iteration ends. After a switch, sweeps run again first, so that changes propagate far in each round.
3. *The canonical policy*: in every state the lowest action within ``tie`` of the best, evaluated again. For gamma near
   1 this step, and a last round of policy iteration, are done in twice the precision (``_iteration_kernels``).

Without a discount (gamma = 1) a task has a horizon, and its best policy depends on the step. The stationary policy that
stands for it is the best one at gamma = NEAR_ONE; among actions that are equally good there, the one that is worth more
without a discount comes first, then the lowest. Its value is exact: the expected sum of rewards over the horizon, by
backward induction.

The certificate: for any V, |V - V*| <= |T V - V| / (1 - gamma), and |V - V^policy| likewise with the policy's own
backup. Two terms are added: the loss of the canonical policy in step 3, which is measured, and a bound on rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np

from pastmaster.arrays import BoolArray, FloatArray, IntArray, sealed
from pastmaster.checks import as_number
from pastmaster.errors import InvalidInputError
from pastmaster.policies.policy import TablePolicy
from pastmaster.shield import unwrapped
from pastmaster.solving import _iteration_kernels as kernels, _kernels
from pastmaster.tables import frame, html_table, one_line, shown
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.tabular import Model, TabularMDP

if TYPE_CHECKING:
    import pandas as pd

MAX_ITERATIONS = 10**6
NEAR_ONE = 1.0 - 1e-3
"""The discount whose best policy stands for that of a task without a discount."""
SHOWN = 20  # states in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Solution(TablePolicy):
    """The canonical optimal policy of a task and its value, without the step cap: ``evaluate`` respects ``horizon``.

    It is a policy: pass it wherever one is wanted. Without a discount (gamma = 1), value and certificate are about this
    policy over the horizon: one that depends on the step may earn more.

    Attributes
    ----------
    policy, value : ndarray, [S]
        The action of each state; its value, within ``error_bound`` of the policy's own and of the best possible one.
    start_value : float
        The expected value of the start.
    converged, iterations : bool, int
        Whether ``error_bound`` is at most ``tol`` times the largest |value| or |reward|; sweeps over the states and
        rounds of policy iteration.
    error_bound : float
        The certificate.

    Examples
    --------
    >>> solve(TabularMDP([[0]], [[1.0]], gamma=0.5)).start_value
    2.0
    """

    value: FloatArray
    policy: IntArray
    start_value: float
    converged: bool
    iterations: int
    error_bound: float

    def __post_init__(self) -> None:
        for name, value in (("table", self.policy), ("random", False), ("reach", None)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return one_line(
            f"Solution({len(self.policy)} states, uncapped start value {self.start_value:.6g} "
            f"within {self.error_bound:.1e}, {state} after {self.iterations} iterations)"
        )

    def to_frame(self) -> pd.DataFrame:
        """A row to each state, as a pandas DataFrame: its action and value."""
        return frame({"state": np.arange(len(self.policy)), "action": self.policy, "value": self.value})

    def _repr_html_(self) -> str:
        shown = zip(range(SHOWN), self.policy.tolist(), self.value.tolist(), strict=False)
        left = len(self.policy) - SHOWN
        more = f"; its first {SHOWN} states" if left > 0 else ""
        return html_table(({"state": s, "action": a, "value": v} for s, a, v in shown), f"{self!r}{more}")


def solve(task: TabularMDP, *, tol: float = 1e-9) -> Solution:
    """The best policy of a task, to relative accuracy ``tol``; among equally good actions it takes the lowest.

    Two actions are equally good when their values differ by less than ``tol * (1 - gamma) / 2`` of the size of what
    they are summed from: so scaling the rewards changes nothing. Where rounding would blur that (gamma near 1), values
    are computed in twice the precision.

    With gamma = 1 the policy is that of gamma = 0.999; actions equally good there are told apart by their value without
    a discount. ``value`` is then that of the policy over the horizon, exact but for rounding.

    Parameters
    ----------
    task : TabularMDP
        Its horizon is not used, unless gamma is 1.
    tol : float
        Above 0 and below 1.

    Returns
    -------
    Solution

    Raises
    ------
    InvalidInputError
        If ``task`` is no ``TabularMDP``, or ``tol`` is out of range.

    Examples
    --------
    >>> solution = solve(TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5))
    >>> solution.policy.tolist(), solution.value.tolist()
    ([1, 0], [3.0, 4.0])
    """
    if not isinstance(task, TabularMDP):
        remedy = ""
        if isinstance(task, GymTask):
            remedy = ", and this environment has no table" if task.table is None else ": pass task.table"
        elif isinstance(task, gym.Env | str):
            remedy = ": pass TabularMDP.from_gymnasium(env, gamma)"
        raise InvalidInputError(f"solve: task is a {type(task).__name__}, must be a TabularMDP{remedy}")
    if not 0 < as_number(tol) < 1:
        raise InvalidInputError(f"solve: tol is {shown(tol)}, must be a positive number below 1")
    find = _without_discount if task.gamma == 1.0 else _discounted
    try:
        value, policy, iterations, error, converged = find(task, task.model(), float(tol))
    except SystemError as wrapped:
        raise unwrapped(wrapped) from None
    start_value = float(task.start_probability @ value[task.start_states])
    return Solution(sealed(value), sealed(policy), start_value, converged, iterations, error)


_Found = tuple[FloatArray, IntArray, int, float, bool]
"""Value, policy, iterations, error bound, and whether it is small enough."""


def _discounted(task: TabularMDP, model: Model, tol: float, gamma: float | None = None) -> _Found:
    largest = task.largest_reward()
    discount = task.gamma if gamma is None else gamma
    value, policy, iterations, error = kernels.solve_model(*model, largest, discount, tol, MAX_ITERATIONS)
    converged = bool(error <= tol * max(float(np.abs(value).max()), largest))
    return value, policy, iterations, error, converged


def _without_discount(task: TabularMDP, model: Model, tol: float) -> _Found:
    """The policy of NEAR_ONE, its ties decided by value over the horizon."""
    near = Model.of(model.reward, model.next_state, NEAR_ONE * model.weight)
    rough, policy, iterations, _, converged = _discounted(task, near, tol, NEAR_ONE)
    steps = task.horizon or 1
    chain = _kernels.chain_of(*model, policy)
    value = _kernels.capped_value(*chain, steps)
    tie = max(0.5 * tol * (1.0 - NEAR_ONE), 16.0 * _kernels.EPS / (1.0 - NEAR_ONE))
    tied = _near_best(near, rough, tie, np.full(model.reward.shape, True))
    chosen = _near_best(model, _kernels.capped_value(*chain, steps - 1), tie, tied).argmax(axis=1).astype(np.int32)
    by_value = _kernels.capped_value(*_kernels.chain_of(*model, chosen), steps)
    error = steps * (model.next_state.shape[2] + 2) * _kernels.EPS * steps * task.largest_reward()
    if (by_value >= value - error).all():
        value, policy = by_value, chosen
    return value, policy, iterations, error, converged


def _near_best(model: Model, value: FloatArray, tie: float, among: BoolArray) -> BoolArray:
    """Which actions [S, A] of those in ``among`` are within ``tie`` of the best of them under a value."""
    following = model.weight * value[model.next_state]
    q = np.where(among, model.reward + following.sum(axis=2), -np.inf)
    size = np.abs(model.reward) + np.abs(following).sum(axis=2)
    found: BoolArray = q >= q.max(axis=1, keepdims=True) - tie * size.max(axis=1, keepdims=True)
    return found
