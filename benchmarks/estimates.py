"""Estimated cross values: whether intervals hold, how wide they are, and what sequential allocation saves."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy import stats

from benchmarks.measure import Row, machine, show, write
from pastmaster import (
    Clustering,
    GymTask,
    TabularMDP,
    cross_values,
    policy_distance,
    return_bounds,
    search_clusterings,
    solve,
)
from pastmaster.arrays import FloatArray
from pastmaster.domains import cart_pole, windy_corridor
from pastmaster.estimation.cross_values import estimate_cross_values
from pastmaster.estimation.intervals import mean_limits
from pastmaster.estimation.result import CrossValueEstimate

HORIZON = 60  # gamma is 0.9: what comes later is worth 2 parts in 1,000
EPISODES = 1_000  # T of the clustering: ten cells, and moving any one task costs at least 0.08% more
SEEDS, BUDGET, CART_BUDGET = 3, 1_000_000, 60_000
CART_STEPS = 60_000  # of training, as in the example
ROOT = Path(__file__).parent.parent


def run() -> None:
    tasks, policies, files = cart_poles()
    rows = [*coverage(), *widths(), *windy_allocation(), *cart_pole_allocation(tasks, policies)]
    write("estimates", machine("stable-baselines3", "torch"), [*rows, *speed(tasks, policies, files)])


def coverage() -> list[Row]:
    """Exact U in the intervals of tabular tasks given as black boxes, at a stop that looks at the data."""
    held: dict[str, list[bool]] = {"random MDPs": [], "windy corridor": []}
    for seed in range(16):
        rng = np.random.default_rng(seed)
        tasks = [random_task(rng) for _ in range(6)]
        held["random MDPs"] += _held(tasks, [rng.integers(3, size=8) for _ in range(6)], rng)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        tasks = [windy_corridor.task(*_goal(rng), horizon=30) for _ in range(10)]
        held["windy corridor"] += _held(tasks, [solve(task).policy for task in tasks], rng)
    return [
        Row(
            f"coverage of 95% intervals, {name}, {len(those):,} entries", f"{100 * np.mean(those):.1f}%", "", "",
            ">= 93%", bool(np.mean(those) >= 0.93),
        )
        for name, those in held.items()
    ]  # fmt: skip


def _goal(rng: np.random.Generator) -> tuple[int, float]:
    return int(rng.integers(10)), float(rng.integers(1, 10)) / 10


def _held(tasks: list[TabularMDP], policies: list[Any], rng: np.random.Generator) -> list[bool]:
    span = return_bounds(tasks).span
    found = estimate_cross_values(
        tasks, policies, rng=rng, budget=60 * len(tasks) ** 2, precision=0.1 * span, paired=True,
        clustering={"episodes": 100, "restarts": 2, "iterations": 5_000},
    )  # fmt: skip
    U = cross_values(tasks, policies)
    inside: list[bool] = ((found.low <= U) & (found.high >= U)).ravel().tolist()
    return inside


def random_task(rng: np.random.Generator) -> TabularMDP:
    """Eight states, three actions, three outcomes each, episodes of at most 15 steps."""
    return TabularMDP(
        rng.integers(8, size=(8, 3, 3)), rng.normal(size=(8, 3, 3)), probability=rng.dirichlet(np.ones(3), size=(8, 3)),
        terminated=rng.random((8, 3, 3)) < 0.1, gamma=0.9, horizon=15,
    )  # fmt: skip


def widths() -> list[Row]:
    """Mean widths of 95% intervals in percent of the bounds, beside two that hold at one number of episodes only."""
    rng, rows = np.random.default_rng(0), []
    kinds: dict[str, Callable[[int], FloatArray]] = {
        "0 or 1, even chances": lambda n: np.where(rng.random(n) < 0.5, 1.0, 0.0),
        "beta(10, 30)": lambda n: rng.beta(10, 30, size=n),
        "always 0.4": lambda n: np.full(n, 0.4),
    }
    for name, draw in kinds.items():
        for n in (8, 64, 512):
            ours, bernstein, student = np.mean([_widths(draw(n)) for _ in range(200)], axis=0)
            peer = f"{bernstein:.1f}% empirical Bernstein, {student:.1f}% Student's t"
            rows.append(Row(f"width after {n} episodes, returns {name}", f"{ours:.1f}%", peer, "", "", None))
    return rows


def _widths(x: FloatArray) -> tuple[float, float, float]:
    """Ours, Maurer and Pontil's empirical Bernstein, Student's t; none wider than the bounds."""
    n, level = len(x), 0.05
    ours = mean_limits(x, np.array([0, n]), np.zeros(1), np.ones(1), level)[0]
    deviation, log = float(x.std(ddof=1)), float(np.log(4 / level))
    bernstein = 2 * (deviation * np.sqrt(2 * log / n) + 7 * log / (3 * (n - 1)))
    student = 2 * stats.t.ppf(1 - level / 2, n - 1) * deviation / np.sqrt(n)
    return 100 * float(np.ptp(ours)), 100 * min(1.0, float(bernstein)), 100 * min(1.0, float(student))


def windy_allocation() -> list[Row]:
    """The windy corridor family, 100 tasks and their own policies: episodes until the clustering is settled.

    Ten of the tasks have no wind and are deterministic: both ways value those exactly, an episode to an entry.
    """
    tasks = windy_corridor.family(horizon=HORIZON)
    policies = [solve(task).policy for task in tasks]
    question: dict[str, Any] = {"episodes": EPISODES, "span": return_bounds(tasks).span}
    U = cross_values(tasks, policies)
    exact = search_clusterings(policy_distance(U, paired=True), **question, rng=np.random.default_rng(0))
    rows = []
    for tolerance in (0.0, 0.005):
        rows.append(compare("windy corridor", tasks, policies, question, U, exact, tolerance))
    return rows


def cart_poles() -> tuple[list[GymTask], list[Any], list[Path]]:
    """The 40 CartPoles of examples/cart_poles.py, their policies, trained if need be, and the files of these."""
    sys.path.append(str(ROOT / "examples"))
    from cart_poles import trained  # type: ignore[import-not-found]

    tasks = cart_pole.family(40, rng=np.random.default_rng(0))
    folder = ROOT / "cart-poles" / f"policies-{CART_STEPS}-steps"
    files = [folder / f"{task.name.removeprefix('cart-pole, ')}.zip" for task in tasks]
    return tasks, trained(tasks, folder, CART_STEPS), files


def cart_pole_allocation(tasks: list[GymTask], policies: list[Any]) -> list[Row]:
    """The CartPole family by the paper's distance; the reference is the clustering of 300 episodes of every entry."""
    U = estimate_cross_values(
        tasks, policies, rng=np.random.default_rng(1_000), budget=300 * len(tasks) ** 2, allocation="uniform", n_jobs=2
    ).mean
    question: dict[str, Any] = {"episodes": 3_000, "span": 98.3}
    exact = search_clusterings(policy_distance(U, paired=True), **question, rng=np.random.default_rng(0))
    rows = []
    for tolerance in (0.0, 0.005):
        rows.append(compare("40 CartPoles", tasks, policies, question, U, exact, tolerance, CART_BUDGET))
    return rows


def speed(tasks: list[GymTask], policies: list[Any], files: list[Path]) -> list[Row]:
    """U of 40 CartPoles and 40 policies by 8 episodes an entry, and Stable-Baselines3 on some of its entries.

    Equal precision: the same number of episodes of the same entries. Their time is that of a sample of entries.
    """
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)
    n, rng = 8, np.random.default_rng(0)
    estimate_cross_values(tasks[:1], policies, rng=rng, budget=n * 40, allocation="uniform", paired=False)  # compiles
    begun = time.perf_counter()
    estimate_cross_values(tasks, policies, rng=rng, budget=n * len(tasks) ** 2, allocation="uniform")
    ours = time.perf_counter() - begun
    sample = [(int(i), int(j)) for i, j in rng.integers(40, size=(40, 2))]
    theirs = 0.0
    for i, j in sample:
        env, model = gym.make("pastmaster/CartPole-v0", **tasks[i].kwargs), PPO.load(files[j], device="cpu")
        begun = time.perf_counter()
        evaluate_policy(model, Monitor(env), n_eval_episodes=n)
        theirs += time.perf_counter() - begun
    theirs *= len(tasks) ** 2 / len(sample)
    what = f"U of 40 x 40 CartPoles, {n} episodes an entry, one core"
    peer = f"{show(theirs)} `evaluate_policy` in a loop, from {len(sample)} entries"
    return [Row(what, show(ours), peer, f"{theirs / ours:.0f}x", ">= 20x", theirs >= 20 * ours)]


def compare(
    name: str,
    tasks: Sequence[Any],
    policies: Sequence[Any],
    question: dict[str, Any],
    U: FloatArray,
    reference: Clustering,
    tolerance: float,
    budget: int = BUDGET,
) -> Row:
    """Any family: the median over seeds of the episodes from which on the clustering is as good as the reference.

    As good: by the reference values U its cost is at most the reference's, times 1 + tolerance. Uniform allocation is
    given four times the budget; where it never settles, its whole budget is what is printed.
    """
    settled: dict[str, list[float]] = {"sequential": [], "uniform": []}
    for seed in range(SEEDS):
        for kind, factor in (("sequential", 1), ("uniform", 4)):
            found = _estimates(name, seed, kind, tasks, policies, question, factor * budget)
            settled[kind].append(settling(found, U, reference, question, tolerance))
    ours, peer = (float(np.median(settled[kind])) for kind in ("sequential", "uniform"))
    shown = [f"{x:,.0f} episodes" if np.isfinite(x) else "never" for x in (ours, peer)]
    if np.isfinite(ours) and not np.isfinite(peer):
        peer, shown[1] = 4.0 * budget, f"more than {4 * budget:,} episodes"
    what = "the exact clustering" if tolerance == 0.0 else f"a clustering within {100 * tolerance:g}% of the optimum"
    met = bool(np.isfinite(ours) and 3 * ours <= peer)
    ratio = f"{peer / ours:.1f}x" if np.isfinite(ours) else ""
    return Row(f"{name}, {what} for good", shown[0], f"{shown[1]}, uniform", ratio, ">= 3x", met)


_found: dict[tuple[str, int, str], CrossValueEstimate] = {}


def _estimates(
    name: str,
    seed: int,
    kind: Any,
    tasks: Sequence[Any],
    policies: Sequence[Any],
    question: dict[str, Any],
    budget: int,
) -> CrossValueEstimate:
    """An estimate, made once for all tolerances."""
    if (name, seed, kind) not in _found:
        rng = np.random.default_rng(seed)
        _found[name, seed, kind] = estimate_cross_values(
            tasks, policies, rng=rng, budget=budget, clustering=question, allocation=kind, paired=True
        )
    return _found[name, seed, kind]


def settling(
    found: CrossValueEstimate, U: FloatArray, reference: Clustering, question: dict[str, Any], tolerance: float
) -> float:
    """The number of episodes from which on every round's clustering is as good as the reference; infinite if none."""
    distance = policy_distance(U, directed=reference.directed, paired=found.paired)
    setting = {key: question[key] for key in ("episodes", "span") if key in question}
    since = np.inf
    for episodes_then, labels in reversed(found.rounds):
        assert labels is not None
        cost = Clustering.from_labels(distance, labels, directed=reference.directed, **setting).cost
        if cost > reference.cost * (1 + tolerance + 1e-9):
            break
        since = float(episodes_then)
    return since
