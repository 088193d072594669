"""Tasks to distances, against QuantEcon's DiscreteDP."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from quantecon.markov import DiscreteDP
from scipy import sparse

from benchmarks.measure import Row, machine, seconds, show, write
from pastmaster import TabularMDP, cross_values, solve
from pastmaster.domains import surveillance, windy_corridor

TOL = 1e-9


def run() -> None:
    rows = [*solving(), *crossing(), *growth(), *starting()]
    write("core", machine("quantecon"), rows)


def discrete_dp(mdp: TabularMDP, dense: bool) -> DiscreteDP:
    """The same task for QuantEcon: one more, absorbing state stands for the end of the episode."""
    shape = (mdp.n_states * mdp.n_actions, -1)
    states = np.where(mdp.terminated, mdp.n_states, mdp.next_state).reshape(shape)
    chances = np.ones(states.shape) if mdp.probability is None else mdp.probability.reshape(shape)
    n_pairs, n_outcomes = states.shape
    rows = np.append(np.repeat(np.arange(n_pairs), n_outcomes), n_pairs)
    columns, data = np.append(states.ravel(), mdp.n_states), np.append(chances.ravel(), 1.0)
    transition = sparse.csr_matrix((data, (rows, columns)), shape=(n_pairs + 1, mdp.n_states + 1))
    reward = np.append(mdp.model().reward.ravel(), 0.0)
    s_indices = np.append(np.repeat(np.arange(mdp.n_states), mdp.n_actions), mdp.n_states)
    a_indices = np.append(np.tile(np.arange(mdp.n_actions), mdp.n_states), 0)
    return DiscreteDP(reward, transition.toarray() if dense else transition, mdp.gamma, s_indices, a_indices)


def solving() -> Iterator[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lake = TabularMDP.from_gymnasium(gym.make("FrozenLake-v1", map_name="8x8"), 0.99)
        taxi = TabularMDP.from_gymnasium("Taxi-v4", 0.99)
    names = ("surveillance, 2 targets, 4,608 states", "Taxi, 500 states", "FrozenLake 8x8, 64 states")
    for name, mdp in zip(names, (surveillance.task([5, 40]), taxi, lake), strict=True):
        solution = solve(mdp)
        ours = seconds(lambda mdp=mdp: solve(mdp), 30)  # type: ignore[misc]
        peers = dict(quantecon_times(mdp, solution.value))
        best = min(peers, key=lambda key: peers[key])
        ratio = peers[best] / ours
        yield Row(f"solve {name}", show(ours), f"{show(peers[best])} ({best})", f"{ratio:.1f}x", ">= 5x", ratio >= 5)


def quantecon_times(mdp: TabularMDP, value: Any) -> Iterator[tuple[str, float]]:
    """Each method of DiscreteDP that reaches our accuracy; policy iteration may cycle on ties, so it is cut off."""
    for dense in (False, True):
        if dense and mdp.n_states > 1000:
            continue
        problem = discrete_dp(mdp, dense)
        for method, limit in (
            ("value_iteration", 10**5),
            ("policy_iteration", 200),
            ("modified_policy_iteration", 10**4),
        ):

            def call(method: str = method, limit: int = limit, problem: DiscreteDP = problem) -> Any:
                return problem.solve(method=method, epsilon=TOL * np.abs(value).max(), max_iter=limit)

            result = call()
            if np.abs(result.v[:-1] - value).max() <= TOL * np.abs(value).max() and result.num_iter < limit:
                yield f"{method}, {'dense' if dense else 'sparse'}", seconds(call, 7)


def crossing() -> Iterator[Row]:
    tasks = surveillance.family(100, 2, rng=np.random.default_rng(0), n_sequences=7)
    yield crossing_row("cross values, 100 surveillance tasks", tasks, dense=False, sample=2, goal=1000)
    tasks = windy_corridor.family(horizon=None)
    yield crossing_row("cross values, 100 windy corridors, no horizon", tasks, dense=True, sample=400, goal=50)
    tasks = windy_corridor.family()
    yield crossing_row("the same, exact to the horizon of 200", tasks, dense=True, sample=400, goal=50)


def crossing_row(name: str, tasks: list[TabularMDP], *, dense: bool, sample: int, goal: int) -> Row:
    """All N^2 entries by us; by QuantEcon a loop over ``sample`` of them, time scaled up."""
    policies = [solve(task).policy for task in tasks]
    ours = seconds(lambda: cross_values(tasks, policies), 10) / len(tasks) ** 2
    pairs = np.random.default_rng(1).integers(len(tasks), size=(sample, 2))
    problems = {i: discrete_dp(tasks[i], dense) for i in np.unique(pairs[:, 0]).tolist()}
    sigmas = [np.append(policy, 0) for policy in policies]
    peer = seconds(lambda: [problems[i].evaluate_policy(sigmas[j]) for i, j in pairs.tolist()], 5) / sample
    ratio = peer / ours
    return Row(f"{name}, each", show(ours), show(peer), f"{ratio:,.0f}x", f">= {goal:,}x", ratio >= goal)


def growth() -> Iterator[Row]:
    for n_tasks in (125, 250, 500, 1000):
        code = (
            "import resource, time, numpy as np, pastmaster\n"
            "from pastmaster.domains import surveillance as s\n"
            "pastmaster.cross_values(s.family(2, 2, rng=np.random.default_rng(1), n_sequences=1), n_jobs=2)\n"
            f"tasks = s.family({n_tasks}, 2, rng=np.random.default_rng(0), n_sequences={n_tasks // 8})\n"
            "begun = time.perf_counter()\n"
            "pastmaster.cross_values(tasks, n_jobs=2)\n"
            "took = time.perf_counter() - begun\n"
            "print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
        )
        took, memory = map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())
        last = n_tasks == 1000
        yield Row(
            f"{n_tasks:,} surveillance tasks solved and cross-evaluated", f"{show(took)}, {memory:.2f} GB", "", "",
            "< 15 s, < 3 GB" if last else "", (took < 15 and memory < 3) if last else None,
        )  # fmt: skip


def starting() -> Iterator[Row]:
    """A process that builds, solves, crosses and bounds the windy corridor: with an empty cache, then a full one."""
    code = (
        "from pastmaster.domains import windy_corridor as w; import pastmaster as o\n"
        "tasks = w.family(); o.policy_distance(o.cross_values(tasks)); o.return_bounds(tasks)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for name, limit in (("first run, compiling what distances need", 20), ("later run, from the cache", 2)):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
            took = time.perf_counter() - begun
            yield Row(f"{name}, whole process", show(took), "", "", f"< {limit} s", took < limit)
