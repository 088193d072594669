"""Windy corridor, task by task: the 100 tasks in random order, clustered anew after each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from pastmaster import figures, search_clusterings
from pastmaster_paper.arrays import Array, FloatArray
from pastmaster_paper.experiments import scikit
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import EPISODES, Scale
from pastmaster_paper.experiments.scikit import adjusted_rand
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Results, Tables, Unit, UnitArrays
from pastmaster_paper.experiments.windy_clusters import draw_cells, family

SLICES = (20, 50, 100)


def run(rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """Cluster the first 2, 3, .. 100 tasks of a random order; -1 marks a task not yet there."""
    _, _, distance, spans = family()
    order = rng.permutation(len(distance))
    sizes = np.arange(max(2, scale.incremental_step), len(distance) + 1, scale.incremental_step)
    labels = np.full((len(sizes), len(distance)), -1, np.int64)
    for place, size in enumerate(sizes):
        there = order[:size]
        found = search_clusterings(
            distance[np.ix_(there, there)], episodes=EPISODES, span=spans["exact"], rng=rng, **scale.search
        )
        labels[place, there] = found.labels
    return {"order": order, "sizes": sizes, "labels": labels}


def agreements(labels: Array) -> FloatArray:
    """The adjusted Rand index of each clustering with the next, over the tasks of both."""
    found = []
    for before, after in pairwise(labels):
        both = before >= 0
        found.append(adjusted_rand(before[both], after[both]))
    return np.array(found)


def agreement(results: Results, _: Reading | None, __: str) -> float:
    """The mean adjusted Rand index of a clustering and the next."""
    return float(agreements(results["windy-incremental"]["labels"]).mean())


def final_cells(results: Results, _: Reading | None, __: str) -> float:
    """The number of cells when all tasks are there."""
    return float(results["windy-incremental"]["labels"][-1].max() + 1)


def tables(draws: Draws) -> Tables:
    arrays = draws.results[0]["windy-incremental"]
    index = [float("nan"), *agreements(arrays["labels"]).tolist()]
    lines = [
        [int(size), int(arrays["order"][size - 1]), int(labels.max() + 1), agreement]
        for size, labels, agreement in zip(arrays["sizes"], arrays["labels"], index, strict=True)
    ]
    yield "clusterings", Columns(["tasks", "last task", "cells", "agreement with the one before"], lines)


def matched(labels: Array) -> Array:
    """Cells renumbered so that a cell keeps the number of the earlier cell it shares most tasks with."""
    found, unused = labels[:1].copy(), int(labels[0].max()) + 1
    for after in labels[1:]:
        before = found[-1]
        old, new = np.unique(before[before >= 0]), np.unique(after[after >= 0])
        shared = np.array([[np.count_nonzero((before == o) & (after == n)) for n in new] for o in old])
        rows, columns = linear_sum_assignment(-shared)
        names = {int(new[c]): int(old[r]) for r, c in zip(rows, columns, strict=True) if shared[r, c]}
        for cell in new:
            if int(cell) not in names:
                names[int(cell)], unused = unused, unused + 1
        found = np.vstack([found, [[names.get(int(cell), -1) for cell in after]]])
    return found


def pictures(draws: Draws) -> Pictures:
    from matplotlib import colormaps

    arrays, points = draws.results[0]["windy-incremental"], family()[1]
    cells, sizes = matched(arrays["labels"]), arrays["sizes"]
    figure, panels = figures.new_figure(13, 8, nrows=3, ncols=2, width_ratios=[1.9, 1])
    for axes in panels[:, 0]:
        axes.remove()
    left: Any = figure.add_subplot(panels[0, 0].get_gridspec()[:, 0])
    picture = np.ones((*cells.shape, 4))
    picture[cells >= 0] = colormaps["tab20"](cells[cells >= 0] % 20)
    step = sizes[0] if len(sizes) == 1 else sizes[1] - sizes[0]
    left.imshow(picture, aspect="auto", origin="lower", interpolation="nearest",
                extent=(-0.5, 99.5, sizes[0] - step / 2, sizes[-1] + step / 2))  # fmt: skip
    left.set(xlabel="task, ten to a goal by rising wind", ylabel="tasks presented so far", xticks=range(0, 100, 10))
    left.set_title("Which cell each task is in (one colour, one cell), as tasks are presented")
    for axes, size in zip(panels[:, 1], SLICES, strict=True):
        time = int(np.abs(sizes - size).argmin())
        there = np.flatnonzero(cells[time] >= 0)
        draw_cells(axes, points[there], cells[time, there], [])
        axes.set(title=f"{len(there)} tasks, {len(np.unique(cells[time, there]))} cells", xlabel="goal", ylabel="wind",
                 xlim=(-0.7, 9.7))  # fmt: skip
    yield "incremental", figure


EXPERIMENT = Experiment(
    "windy-incremental", "Windy corridor: tasks added one by one", tables, pictures,
    common=[Unit("windy-incremental", run, "one order", 12)], check=scikit.check,
)  # fmt: skip
