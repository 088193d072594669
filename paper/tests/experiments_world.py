"""A made-up world in which every sentence of the paper holds, to be spoilt one sentence at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pastmaster_paper.experiments.readings import PRINTED, Reading
from pastmaster_paper.experiments.scale import WINDOWS
from pastmaster_paper.experiments.setting import SETTINGS, Setting
from pastmaster_paper.experiments.surveillance_runs import (
    ALONE,
    BARE,
    GREEDY,
    LENGTHS,
    NONE,
    SEARCH,
    SELECTORS,
    clusterings,
    unit_name,
    ways,
)
from pastmaster_paper.experiments.ways import EXP3, PPR, Way
from pastmaster_paper.experiments.windy_clusters import METHODS, family

TARGETS, OPTIMUM = 3, 100.0
RANK = {setting.name: place for place, setting in enumerate(SETTINGS)}
GAINS = {"64-1": 5, "96-2": 10, "125-2": 12, "256-2": 25, "100-3": 15, "200-3": 30, "300-3": 45}
REUSE = {"64-1": 95, "96-2": 80, "125-2": 78, "256-2": 76, "100-3": 74, "200-3": 72, "300-3": 60}
REUSE_LOSS = {"96-2": 1, "125-2": 2, "256-2": 5, "100-3": 1, "200-3": 3, "300-3": 5}
FEW = ("96-2", "100-3")
Change = Callable[[str, Way], float | None]


def reward(setting: str, way: Way) -> float:
    """What a way earns an episode, where all sentences hold."""
    if way.algorithm == EXP3 and way.clustering.startswith(SEARCH):
        return 90.0
    if way == Way(EXP3, NONE):
        return 90.0 - GAINS.get(setting, 10)
    if way == Way(EXP3, GREEDY):
        return {"125-2": 80.0, "complex-100-2": 85.0, "complex-200-2": 35.0}.get(setting, 90.0)
    if way.algorithm == PPR:
        lost = REUSE_LOSS.get(setting, 2) if way.clustering == SEARCH else 0
        return REUSE.get(setting, 70) - lost
    return {BARE: 40.0, ALONE: 30.0}.get(way, 90.0)


def final(setting: str, way: Way) -> float:
    """What a way earns in the last episodes."""
    if way == Way(EXP3, NONE):
        return 98.0 if setting in FEW else 80.0
    if way == Way(PPR, SEARCH):
        return 94.0 - RANK[setting] / 5  # less and less than the 94.5 of all policies
    return 94.5 if way == Way(PPR, NONE) else 95.0


def curve(_: str, way: Way) -> float:
    """The level of a learning curve: the shorter T, the higher."""
    return 50.0 + 1e5 / way.episodes


def surveillance(
    setting: Setting, reading: Reading, rng: np.random.Generator, rewards: Change, finals: Change, curves: Change
) -> dict[str, np.ndarray]:
    """Arrays of a unit with these rewards, up to a little noise of the draw."""
    every = ways(setting, reading)

    def of(plain: Callable[[str, Way], float], changed: Change) -> np.ndarray:
        found = []
        for way in every:
            other = changed(setting.name, way)
            found.append(plain(setting.name, way) if other is None else other)
        return np.array(found)

    def noisy(levels: np.ndarray, size: int) -> np.ndarray:
        return levels[:, None] + rng.normal(scale=0.05, size=(len(levels), size))

    n = len(clusterings(setting, reading))
    return {
        "reward": noisy(of(reward, rewards), TARGETS),
        "final": noisy(of(final, finals), TARGETS),
        "curve": noisy(of(curve, curves), WINDOWS),
        "deviation": np.ones((len(every), WINDOWS)),
        "optimum": np.full(TARGETS, OPTIMUM),
        "span": np.array(100.0),
        "selectors": np.full((len(SELECTORS), len(LENGTHS), TARGETS), 50.0),
        "cells": np.full(n, 5),
        "costs": np.ones(n),
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


def incremental() -> dict[str, np.ndarray]:
    """A cell to each goal, and two more for some windy tasks: twelve."""
    points = family()[1]
    cells = points[:, 0].astype(np.int64)
    cells = np.where((points[:, 1] > 0.85) & (cells < 2), 10 + cells, cells)
    growing = np.where(np.arange(100)[None] < np.array([[20], [60], [100]]), cells[None], -1)
    return {"labels": growing, "sizes": np.array([20, 60, 100]), "order": np.arange(100)}


def nothing(_: str, __: Way) -> None:
    """No change."""


def draw(
    rng: np.random.Generator,
    reading: Reading = PRINTED,
    *,
    rewards: Change = nothing,
    finals: Change = nothing,
    curves: Change = nothing,
) -> dict[str, Any]:
    """All units of one draw."""
    found: dict[str, Any] = {
        unit_name(one, reading): surveillance(one, reading, rng, rewards, finals, curves) for one in SETTINGS
    }
    return found | {
        "coloured-grid": coloured_grid(rng), "windy-clusters": windy(), "windy-incremental": incremental()
    }  # fmt: skip
