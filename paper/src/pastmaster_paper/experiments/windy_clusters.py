"""Windy corridor: the clusters of all 100 tasks, by the average-case and the worst-case cost, and by the paper's own
span and chain.

The family is one, the same for every seed: what varies is the search. A goal's own cell is the one that holds most of
its tasks with wind below 0.8. The windiest, 0.8 and 0.9, are apart: there the wind decides where the agent enters, and
policies for different goals are worth the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pastmaster import Clustering, cross_values, figures, policy_distance, return_bounds, search_clusterings
from pastmaster.domains import windy_corridor
from pastmaster.report import Distances, TaskMap, Tasks
from pastmaster_paper.arrays import Array, FloatArray
from pastmaster_paper.experiments import scikit
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import EPISODES, Scale
from pastmaster_paper.experiments.scikit import adjusted_rand
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Results, Tables, Unit, UnitArrays

WINDIEST = 0.8
METHODS: dict[str, dict[str, Any]] = {
    "average case": {},
    "worst case": {"kind": "worst"},
    "plain MHAV": {"variant": "paper"},
    "paper's span": {"span": "paper"},
    "paper's span, plain MHAV": {"span": "paper", "variant": "paper"},
}

ALL_WINDS, CALM = "all winds", "wind below 0.8"
WINDS = (ALL_WINDS, CALM)


@cache
def family() -> tuple[list[str], FloatArray, FloatArray, dict[str, float]]:
    """Names, (goal, wind) [100, 2], policy distances and spans of the 100 tasks."""
    tasks = windy_corridor.family()
    points = np.array([[task.params["goal"], task.params["wind"]] for task in tasks], np.float64)
    spans = {"exact": return_bounds(tasks).span, "paper": return_bounds(tasks, kind="paper").span}
    return [task.name for task in tasks], points, policy_distance(cross_values(tasks)), spans


def run(rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """Search again and again, by each method."""
    _, points, distance, spans = family()
    labels = np.empty((len(METHODS), scale.searches, len(points)), np.int64)
    costs = np.empty((len(METHODS), scale.searches))
    for place, options in enumerate(METHODS.values()):
        how = {"kind": "average"} | options
        span = spans[how.pop("span", "exact")]
        for draw, stream in enumerate(rng.spawn(scale.searches)):
            found = search_clusterings(distance, episodes=EPISODES, span=span, rng=stream, **how, **scale.search)
            labels[place, draw], costs[place, draw] = found.labels, found.cost
    return {"labels": labels, "costs": costs}


def own_cells(labels: Array, points: FloatArray, among: Array) -> tuple[int, float]:
    """How many goals have a cell of their own, and the share of some tasks that are in their goal's."""
    goals, calm = points[:, 0], points[:, 1] < WINDIEST
    main = {goal: int(np.bincount(labels[(goals == goal) & calm]).argmax()) for goal in np.unique(goals)}
    cells, counts = np.unique(list(main.values()), return_counts=True)
    owned = set(cells[counts == 1].tolist())
    inside = [main[goal] == cell and cell in owned for goal, cell in zip(goals[among], labels[among], strict=True)]
    return len(owned), float(np.mean(inside))


def _among(case: str) -> Array:
    """The tasks of a case."""
    winds = family()[1][:, 1]
    return np.full(len(winds), True) if case == ALL_WINDS else winds < WINDIEST


def _labels(results: Results, method: str) -> Array:
    """The clusterings that the searches of a method found [searches, N]."""
    found: Array = results["windy-clusters"]["labels"][list(METHODS).index(method)]
    return found


def in_goals_cell(results: Results, _: Reading | None, case: str) -> float:
    """The share of tasks that are in their goal's own cell."""
    points, among = family()[1], _among(case)
    return float(np.mean([own_cells(cells, points, among)[1] for cells in _labels(results, "average case")]))


def goals_agreement(results: Results, method: str, case: str) -> float:
    """The adjusted Rand index of a method's cells with the goals."""
    goals, among = family()[1][:, 0], _among(case)
    return float(np.mean([adjusted_rand(goals[among], cells[among]) for cells in _labels(results, method)]))


def average_agrees_more(results: Results, _: Reading | None, case: str) -> float:
    """The agreement with the goals by the average-case cost, less that by the worst-case cost."""
    return goals_agreement(results, "average case", case) - goals_agreement(results, "worst case", case)


def tables(draws: Draws) -> Tables:
    points, rows = family()[1], []
    for place, method in enumerate(METHODS):
        found = [_labels(results, method)[0] for results in draws.results]
        costs = [results["windy-clusters"]["costs"][place].mean() for results in draws.results]
        own = [own_cells(cells, points, _among(CALM))[0] for cells in found]
        agreements = [np.mean([goals_agreement(r, method, case) for r in draws.results]) for case in WINDS]
        cells = [len(np.unique(one)) for one in found]
        rows.append([method, *(float(np.mean(values)) for values in (cells, costs, own)), *map(float, agreements)])
    head = [
        "method",
        "cells",
        "cost",
        "goals with a cell of their own",
        *(f"adjusted Rand index with goals, {w}" for w in WINDS),
    ]
    yield "methods", Columns(head, rows, "Windy corridor: means over all draws")
    names, points, distance, _ = family()
    for place, method in enumerate(("average case", "worst case")):
        clustering = _clustering(draws.results[0], place)
        tasks = Tasks(np.arange(len(names)), names, clustering.labels, clustering.representatives[clustering.labels])
        slug, title = method.replace(" ", "-"), f"Windy corridor: tasks by goal and wind, {method} cost"
        yield slug, TaskMap(title, tasks, points, ("goal", "wind"))
        yield slug, Distances(title, tasks, distance)


def _clustering(results: Results, place: int) -> Clustering:
    """The first clustering of a method."""
    _, _, distance, spans = family()
    labels, method = results["windy-clusters"]["labels"][place, 0], list(METHODS.values())[place]
    span = spans[method.get("span", "exact")]
    return Clustering.from_labels(distance, labels, episodes=EPISODES, span=span, kind=method.get("kind", "average"))


def pictures(draws: Draws) -> Pictures:
    results, points = draws.results[0], family()[1]
    for slug, places in (("clusters", [0]), ("average-and-worst-case", [0, 1]), ("corrections", [0, 2, 3, 4])):
        columns = min(2, len(places))
        rows = len(places) // columns
        layout = {"nrows": rows, "ncols": columns, "sharey": True, "squeeze": False}
        figure, panels = figures.new_figure(5.8 * columns, 5 * rows, **layout)
        for axes, place in zip(panels.ravel(), places, strict=True):
            found = _clustering(results, place)
            draw_cells(axes, points, found.labels, found.representatives)
            axes.set_title(f"{list(METHODS)[place]}: {found.n_clusters} cells, cost {found.cost:.3g}")
        for axes in panels[:, 0]:
            axes.set_ylabel("probability of wind")
        yield slug, figure


def draw_cells(axes: Any, points: FloatArray, labels: Any, representatives: Any) -> None:
    """Tasks in the plane of goal and wind: a colour and a number to each cell, representatives starred."""
    from matplotlib import colormaps

    axes.scatter(*points.T, c=colormaps["tab20"](np.asarray(labels) % 20), s=190, marker="s", linewidths=0)
    for (x, y), cell in zip(points, labels, strict=True):
        axes.annotate(str(cell), (x, y), ha="center", va="center", fontsize=7)
    if len(representatives):
        beside = points[representatives] + (0.36, 0.0)  # so that the number can be read
        axes.scatter(*beside.T, marker="*", s=60, color="black", linewidths=0)
    axes.set(xlabel="goal  (star: representative, number: cell)", xticks=range(10), ylim=(-0.07, 0.97))


EXPERIMENT = Experiment(
    "windy-clusters", "Windy corridor: the clusters, by the average and the worst case", tables, pictures,
    common=[Unit("windy-clusters", run, repr(METHODS), 8)], check=scikit.check,
)  # fmt: skip
