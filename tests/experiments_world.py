"""A made-up world in which every claim of the paper holds, to be spoilt one claim at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pastmaster.experiments.scale import HORIZONS, WINDOWS
from pastmaster.experiments.surveillance_runs import (
    ALONE,
    BARE,
    GREEDY,
    NONE,
    SEARCH,
    SETTINGS,
    Setting,
    clusterings,
    ways,
)
from pastmaster.experiments.useless_sources import WAYS
from pastmaster.experiments.ways import EXP3, PPR, Way
from pastmaster.experiments.windy_clusters import METHODS, family
from pastmaster.parallel import as_text

GAINS = {"64-1": 5, "96-2": 10, "125-2": 15, "256-2": 25, "100-3": 12, "200-3": 20, "300-3": 30}
REUSE = {"64-1": 95, "96-2": 80, "125-2": 80, "256-2": 80, "100-3": 80, "200-3": 75, "300-3": 60}
GREEDY_SCORES = {"125-2": 85, "complex-100-2": 85, "complex-200-2": 75}
FEW = ("64-1", "96-2", "100-3")
TUNED_SCORES = {1_000: (80, 0, 0), 5_000: (70, 85, 0), 10_000: (60, 80, 90)}
Score = Callable[[str, Way, int], float]


def score(setting: str, way: Way, episodes: int) -> float:
    """The score of a way over its first so many episodes, where all claims hold."""
    if way.algorithm == EXP3 and way.clustering.startswith(SEARCH):
        return TUNED_SCORES[way.episodes][HORIZONS.index(episodes)]
    if way == Way(EXP3, NONE):
        return 90 - GAINS.get(setting, 10)
    if way == Way(EXP3, GREEDY):
        return GREEDY_SCORES.get(setting, 90)
    if way.algorithm == PPR:  # of one target the better one
        return REUSE.get(setting, 70) - (way.clustering == SEARCH)
    return {BARE: 55, ALONE: 40}.get(way, 90)


def final(setting: str, way: Way) -> float:
    """The score of the last episodes."""
    if way == Way(EXP3, NONE):
        return 94 if setting in FEW else 80
    return 45 if way == ALONE else 95


def surveillance(setting: Setting, rng: np.random.Generator, scores: Score, finals: Any) -> dict[str, np.ndarray]:
    """Arrays of a unit with these scores, up to a little noise."""
    all_ways, targets, trials, lower = ways(setting), 3, 5, -20.0
    optimum = np.array([10.0, 40.0, 0.5])

    def returns(percent: float) -> np.ndarray:
        earned = lower + percent / 100 * (optimum - lower)
        return earned[:, None] + rng.normal(scale=0.05, size=(targets, trials))

    totals = np.stack(
        [
            np.stack([horizon * returns(scores(setting.name, way, horizon)) for horizon in HORIZONS], axis=2)
            for way in all_ways
        ]
    )
    n = len(all_ways)
    return {
        "totals": totals,
        "final": np.stack([returns(finals(setting.name, way)) for way in all_ways]),
        "curves": np.stack([np.full((trials, WINDOWS), 1e6 / way.episodes) for way in all_ways]),
        "deviation": np.ones((n, WINDOWS)),
        "widened": np.zeros(n, np.int64),
        "optimum": optimum,
        "lower": np.array(lower),
        "shares": np.full((WINDOWS, 2), 0.5),
        "distance": np.ones((setting.previous,) * 2) - np.eye(setting.previous),
        "labels": np.zeros((len(clusterings(setting)), setting.previous), np.int32),
        "costs": np.ones(len(clusterings(setting))),
        "names": as_text([f"task {i}" for i in range(setting.previous)]),
        "targets": as_text(["new"] * targets),
    }


def coloured_grid(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two sectors against eight squares of higher regret."""
    weights = rng.uniform(size=(4, 50, 2))
    sectors = (weights[..., 1] > weights[..., 0]).astype(np.int64)
    squares = (np.floor(weights[..., 0] * 4) + 4 * np.floor(weights[..., 1] * 2)).astype(np.int64)
    labels = np.stack([sectors, squares, squares], axis=1)
    regret = np.tile([0.1, 0.8, 0.9], (4, 1)) + rng.uniform(0, 0.01, size=(4, 3))
    return {"weights": weights, "labels": labels, "regret": regret}


def windy() -> dict[str, np.ndarray]:
    """A cell to each goal by the average case; by the worst case goals are cut in two."""
    points = family()[1]
    goals = points[:, 0].astype(np.int64)
    halves = 2 * goals + (points[:, 1] > 0.45)
    labels = np.stack([[goals, goals], *([[halves, halves]] * (len(METHODS) - 1))])
    return {"labels": labels, "costs": np.ones((len(METHODS), 2))}


def results(rng: np.random.Generator, scores: Score = score, finals: Any = final) -> dict[str, Any]:
    """All units."""
    found = {f"surveillance-{one.name}": surveillance(one, rng, scores, finals) for one in SETTINGS}
    useless = surveillance(SETTINGS[0], rng, scores, finals)
    useless = {name: values[: len(WAYS)] for name, values in useless.items() if name not in ("optimum", "lower")}
    useless |= {"optimum": np.array([10.0, 40.0, 0.5]), "lower": np.array(-20.0)}
    goals = family()[1][:, 0].astype(np.int64)
    growing = np.where(np.arange(100)[None] < np.array([[20], [60], [100]]), goals[None], -1)
    found |= {
        "useless-sources": useless,
        "coloured-grid": coloured_grid(rng),
        "windy-clusters": windy(),
        "windy-incremental": {"labels": growing, "sizes": np.array([20, 60, 100]), "order": np.arange(100)},
    }
    return found
