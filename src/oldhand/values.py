"""What policies are worth in tasks: values, cross values, the policy distance, and bounds on returns.

For a policy pi in a task, V^pi(s) = E[ sum_{n >= 0} gamma^n r_n | s_0 = s ], over at most ``horizon`` steps where the
task has one. A cross value U[i, j] is the value of policy j in task i from its start. The policy distance is

    d_V(i, j) = max( V_i* - V_i^{pi_j},  V_j* - V_j^{pi_i} ),

and the directed distance its first half: what task i loses under policy j.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from oldhand import _cross_kernels as cross_kernels
from oldhand import _kernels as kernels
from oldhand import parallel
from oldhand.errors import InvalidInputError
from oldhand.mdp import PROBABILITY_TOLERANCE, FloatArray, IntArray, Model, TabularMDP, as_array, check_alike, sealed
from oldhand.solve import MAX_ITERATIONS, Solution, solve

SHARED_GAMMA = 0.999  # nearer to 1 an endless occupancy takes longer than valuing the tasks one by one
POLICY_CHUNK = 64  # occupancies held at once by the shared-dynamics method


class Bounds(NamedTuple):
    """The least and the greatest discounted return an episode can have."""

    lower: float
    upper: float

    @property
    def span(self) -> float:
        """B, the width of the bounds."""
        return self.upper - self.lower


def evaluate(mdp: TabularMDP, policy: npt.ArrayLike) -> FloatArray:
    """V^pi [S]: the value of a policy in every state, over ``mdp.horizon`` steps or for ever.

    ``policy`` is [S], an action for each state, or [S, A], their probabilities.
    """
    if not isinstance(mdp, TabularMDP):
        raise InvalidInputError(f"evaluate: mdp is a {type(mdp).__name__}, must be a TabularMDP")
    model, actions = _under(mdp.model(), checked_policy(policy, mdp.n_states, mdp.n_actions, "evaluate: policy"))
    value = np.zeros(mdp.n_states)
    chain = kernels.chain_of(*model, actions)
    if mdp.horizon is None:
        kernels.chain_value(*chain, mdp.gamma, value)
    else:
        kernels.finite_value(*chain, mdp.horizon, value)
    return value


def cross_values(
    tasks: Iterable[TabularMDP],
    policies: Iterable[npt.ArrayLike] | None = None,
    *,
    n_jobs: int = 1,
    progress: bool = False,
) -> FloatArray:
    """U [N, M]: the value of each policy in each task, from the task's start, exact to its horizon.

    Without ``policies``, policy j is the canonical optimal policy of task j. The method follows the structure: one
    trajectory where the task is deterministic, one occupancy for all tasks that share their dynamics, otherwise only
    the states that the policy reaches.
    """
    tasks = _listed(tasks, "cross_values: tasks")
    check_alike(tasks, "cross_values")
    if policies is None:
        policies = parallel.run(_solved_policy, tasks, n_jobs=n_jobs, progress=progress, label="solving")
    columns = [
        checked_policy(p, tasks[0].n_states, tasks[0].n_actions, f"cross_values: policies[{j}]")
        for j, p in enumerate(_listed(policies, "cross_values: policies"))
    ]
    if not columns:
        raise InvalidInputError("cross_values: policies is empty, must hold at least one")
    distinct = {(p.ndim, p.tobytes()): p for p in columns}  # tasks often share a policy: it is valued once
    place = {key: j for j, key in enumerate(sorted(distinct, key=lambda key: key[0]))}
    actions = np.array([p for p in distinct.values() if p.ndim == 1], np.int32).reshape(-1, tasks[0].n_states)
    mixed = [p for p in distinct.values() if p.ndim == 2]
    blocks = _task_blocks(tasks)
    rows = parallel.run(
        lambda block: _block_values(block, sealed(actions), mixed),
        list(blocks.values()),
        n_jobs=n_jobs,
        progress=progress,
        label="cross values",
    )
    U = np.empty((len(tasks), len(columns)))
    order = [place[p.ndim, p.tobytes()] for p in columns]
    for indices, block_rows in zip(blocks, rows, strict=True):
        U[list(indices)] = block_rows[:, order]
    return U


def policy_distance(U: npt.ArrayLike, *, directed: bool = False, paired: bool | None = None) -> FloatArray:
    """d_V [N, N] from cross values, or the regret matrix [N, M] if ``directed``; never negative.

    ``paired`` says that policy j is task j's own, so that the regret is U[i, i] - U[i, j]; otherwise it is
    max_k U[i, k] - U[i, j]. By default a square U is paired.
    Differs from the paper: a regret below 0 (a learned policy, a step cap) counts as 0.
    """
    matrix = as_array(U, "policy_distance: U", "iuf").astype(np.float64, copy=False)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(f"policy_distance: U has shape {matrix.shape}, must be [N, M] with no empty axis")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(f"policy_distance: U[{i}, {j}] is {matrix[i, j]}, must be finite")
    square = matrix.shape[0] == matrix.shape[1]
    if paired is None:
        paired = square
    if not square and (paired or not directed):
        raise InvalidInputError(
            f"policy_distance: U has shape {matrix.shape}, must be square unless directed=True and paired is not set"
        )
    own = np.diagonal(matrix) if paired else matrix.max(axis=1)
    regret: FloatArray = np.maximum(0.0, own[:, None] - matrix)
    if directed:
        return regret
    symmetric: FloatArray = np.maximum(regret, regret.T)
    return symmetric


def return_bounds(tasks: TabularMDP | Iterable[TabularMDP], *, kind: Literal["exact", "paper"] = "exact") -> Bounds:
    """Bounds on the discounted return of one episode of any policy in any of the tasks.

    "exact": over every action and possible outcome, termination and the horizon included, rounded outwards by what
    rounding can add to a simulated return. "paper": R_min / (1 - gamma) and R_max / (1 - gamma), which bound episodes
    that never end, or that end where rewards have both signs.
    Differs from the paper: its bounds are far wider than any return of a task whose episodes end.
    """
    tasks = [tasks] if isinstance(tasks, TabularMDP) else _listed(tasks, "return_bounds: tasks")
    check_alike(tasks, "return_bounds")
    if kind == "paper":
        rate = 1.0 / (1.0 - tasks[0].gamma)
        lowest, highest = min(_paid(t).min() for t in tasks), max(_paid(t).max() for t in tasks)
        return Bounds(float(lowest * rate), float(highest * rate))
    if kind != "exact":
        raise InvalidInputError(f"return_bounds: kind is {kind!r}, must be 'exact' or 'paper'")
    bounds = [_exact_bounds(task) for task in tasks]
    return Bounds(min(b.lower for b in bounds), max(b.upper for b in bounds))


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


def _listed(things: Iterable[Any], place: str) -> list[Any]:
    if not isinstance(things, Iterable):
        raise InvalidInputError(f"{place} is {things!r}, must be a list")
    return list(things)


def _solved_policy(task: TabularMDP) -> IntArray:
    solution = solve(task)
    if not solution.converged:
        warnings.warn(f"cross_values: the policy of {task} is certified only to {solution}", stacklevel=2)
    return solution.policy


def checked_policy(policy: npt.ArrayLike, n_states: int, n_actions: int, place: str) -> npt.NDArray[Any]:
    """A policy as int32 [S] or float64 [S, A], or a refusal that names the state."""
    if isinstance(policy, Solution):
        raise InvalidInputError(f"{place} is a Solution, must be its policy: pass solution.policy")
    array = as_array(policy, place, None)
    if array.shape == (n_states,) and array.dtype.kind in "iu":
        if array.min() < 0 or array.max() >= n_actions:
            s = int(np.argmax((array < 0) | (array >= n_actions)))
            raise InvalidInputError(f"{place}[{s}] is action {array[s]}, must be in 0..{n_actions - 1}")
        return sealed(array.astype(np.int32, copy=False))
    if array.shape == (n_states, n_actions) and array.dtype.kind in "iuf":
        probabilities = sealed(array.astype(np.float64, copy=False))
        wrong = ~((probabilities >= 0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1) <= PROBABILITY_TOLERANCE))
        if wrong.any():
            s = int(np.argmax(wrong))
            raise InvalidInputError(f"{place}[{s}] is {probabilities[s].tolist()}, must be probabilities that sum to 1")
        return sealed(probabilities / probabilities.sum(axis=1, keepdims=True))
    raise InvalidInputError(
        f"{place} has shape {array.shape} and dtype {array.dtype}, "
        f"must be [{n_states}] integer actions or [{n_states}, {n_actions}] probabilities"
    )


def _under(model: Model, policy: npt.NDArray[Any]) -> tuple[Model, IntArray]:
    """A model and a policy of actions in it: a random policy becomes a model with one action and A * K outcomes."""
    if policy.ndim == 1:
        return model, policy
    n_states = len(policy)
    mixed = Model.of(
        (policy * model.reward).sum(axis=1, keepdims=True),
        model.next_state.reshape(n_states, 1, -1),
        (policy[:, :, None] * model.weight).reshape(n_states, 1, -1),
    )
    return mixed, sealed(np.zeros(n_states, np.int32))


def _task_blocks(tasks: list[TabularMDP]) -> dict[tuple[int, ...], list[TabularMDP]]:
    """Tasks by index, those that share stochastic dynamics, start and horizon together, every other one alone."""
    shared: dict[Any, list[int]] = {}
    for i, task in enumerate(tasks):
        key: Any = i
        if task.probability is not None and (task.horizon is not None or task.gamma <= SHARED_GAMMA):
            arrays = (task.next_state, task.probability, task.terminated, task.start_states, task.start_probability)
            key = (task.horizon, blake2b(b"".join(array.tobytes() for array in arrays)).digest())
        shared.setdefault(key, []).append(i)
    return {tuple(indices): [tasks[i] for i in indices] for indices in shared.values()}


def _block_values(tasks: list[TabularMDP], actions: IntArray, mixed: list[FloatArray]) -> FloatArray:
    """The rows of U for one block of ``_task_blocks``: columns under policies of actions, then under random ones."""
    values = np.empty((len(tasks), len(actions) + len(mixed)))
    if len(actions):
        alone = len(tasks) == 1
        values[:, : len(actions)] = _own_values(tasks[0], actions) if alone else _shared_values(tasks, actions)
    for row, task in zip(values, tasks, strict=True):
        model = task.model()
        for j, policy in enumerate(mixed, len(actions)):
            row[j] = _reached_values(task, *_under(model, policy))[0]
    return values


def _own_values(task: TabularMDP, policies: IntArray) -> FloatArray:
    if task.probability is not None:
        return _reached_values(task, task.model(), policies)
    out = np.empty(len(policies))
    cross_kernels.trajectory_values(
        task.next_state, task.reward, task.terminated, task.gamma, _cap(task),
        task.start_states, task.start_probability, policies, out,
    )  # fmt: skip
    return out


def _reached_values(task: TabularMDP, model: Model, policies: IntArray) -> FloatArray:
    policies = np.atleast_2d(policies)
    out = np.empty(len(policies))
    cross_kernels.reached_values(
        *model, task.gamma, _cap(task), task.start_states, task.start_probability, policies, out
    )
    return out


def _shared_values(tasks: list[TabularMDP], policies: IntArray) -> FloatArray:
    """Values where only the rewards differ: expected rewards [N, S A] times occupancies [S A, M]."""
    task = tasks[0]
    _, next_state, weight = task.model()
    rewards = np.stack([t.model().reward.ravel() for t in tasks])
    values = []
    for first in range(0, len(policies), POLICY_CHUNK):
        chunk = policies[first : first + POLICY_CHUNK]
        occupancy = np.zeros((len(chunk), task.n_states * task.n_actions))
        cross_kernels.occupancies(
            next_state, weight, task.gamma, _cap(task), task.start_states, task.start_probability, chunk, occupancy
        )
        values.append(rewards @ occupancy.T)
    return np.concatenate(values, axis=1)


def _cap(task: TabularMDP) -> int:
    """The horizon as the kernels take it."""
    return -1 if task.horizon is None else task.horizon


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
