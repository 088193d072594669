"""Wrong experience: what the informed selector loses where old tasks mislead it, beside regret balancing without them.

20 sources, one worth 0.9, the others anything from 0.1 to 0.6, and 100 old tasks, of which the designs (``DESIGNS``)
say something wrong. A return is the source's value, or 1 with that chance and else 0. The learner earns nothing. What
is averaged is the value of the best source less that of the arm that ran, over all episodes, in percent of the bounds'
span.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.measure import machine, write_table
from pastmaster import Informed, RegretBalancing
from pastmaster.arrays import FloatArray
from pastmaster.reuse import _selector_kernels as kernels

SOURCES, TASKS, EPISODES, DRAWS, SEED = 20, 100, (1_000, 10_000), 400, 90_210
Design = Callable[[np.random.Generator], tuple[FloatArray, FloatArray]]


def rows(rng: np.random.Generator, number: int) -> FloatArray:
    """What sources are worth in so many tasks: one of them 0.9, the others anything from 0.1 to 0.6."""
    values = rng.uniform(0.1, 0.6, (number, SOURCES))
    values[np.arange(number), rng.integers(SOURCES, size=number)] = 0.9
    return values


def reversed_values(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    truth = rows(rng, 1)[0]
    return truth, 1 - truth + rng.normal(0, 0.01, (TASKS, SOURCES))


def best_said_0(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    values = rows(rng, TASKS)
    truth = values[0].copy()
    values[0, truth.argmax()] = 0.0
    return truth, values


def copies(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    truth = rows(rng, 1)[0]
    row = truth.copy()
    row[truth.argmax()] = 0.0
    return truth, np.tile(row, (TASKS, 1))


def constant(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    return rows(rng, 1)[0], rng.uniform(0.498, 0.502, (TASKS, SOURCES))


def permuted(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    values = rows(rng, TASKS)
    return values[0], values[:, rng.permutation(SOURCES)]


def one_good(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    truth = np.array([0.9] + [0.2] * 9)
    return truth, np.array([0.1] + [0.8] * 9) + rng.normal(0, 0.01, (50, 10))


DESIGNS: dict[str, Design] = {
    "every value v said to be 1 - v": reversed_values,
    "the right row, but the best source said to be 0": best_said_0,
    "a hundred copies of that row": copies,
    "all values said to be 0.5 +- 0.002": constant,
    "columns permuted": permuted,
    "one source of 0.9, nine of 0.2; said to be 0.1 and 0.8": one_good,
}


@njit
def play(arms: Any, memory: Any, settings: Any, truth: Any, noisy: bool, rng: Any, episodes: int) -> float:
    """What the arms that ran are worth, in sum."""
    nobody, total = np.empty(0), 0.0
    for _ in range(episodes):
        arm = kernels.choose(arms, memory, settings, rng.random())
        level = truth[arm]
        x = level
        if noisy:
            x = 1.0 if rng.random() < level else 0.0
        total += level
        kernels.record(arms, memory, settings, arm, x, nobody)
    return total


def lost(design: Design, episodes: int, noisy: bool, informed: bool, seed: list[int]) -> float:
    """In percent of the span, for each episode."""
    rng = np.random.default_rng(seed)
    truth, values = design(rng)
    known: dict[str, Any] = {"experience": values} if informed else {}
    make: Any = Informed if informed else RegretBalancing
    selector = make(len(truth), episodes, bounds=(0.0, 1.0), rng=0, **known)
    state = selector._arms, selector._memory, selector._settings
    earned = play(*state, np.append(truth, 0.0), noisy, rng, episodes)
    return float(100 * (truth.max() - earned / episodes))


def run() -> None:
    lines = []
    for name, design in DESIGNS.items():
        for noisy in (False, True):
            cells = [name, "0 or 1" if noisy else "do not vary"]
            for episodes in EPISODES:
                seeds = [[SEED, episodes, draw] for draw in range(DRAWS)]
                ours, theirs = (
                    np.array([lost(design, episodes, noisy, informed, seed) for seed in seeds])
                    for informed in (True, False)
                )
                for each in (ours, theirs, ours - theirs):
                    error = each.std(ddof=1) / math.sqrt(DRAWS)
                    cells.append(f"{each.mean():.2f} ± {error:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    intro = f"{machine()} {DRAWS} draws; the standard errors are those over draws."
    names = [
        f"{what}, T = {episodes:,}"
        for episodes in EPISODES
        for what in ("informed loses", "regret balancing", "difference")
    ]
    write_table("hostile", intro, " | ".join(["the experience", "returns", *names]), lines)
