"""Coloured grid: clusters by policy distance are sectors of angle, clusters by parameters are not.

Tasks are points of the unit square; those on one ray through the origin have the same optimal policy. The rival, in
the place of Wilson et al., is a Dirichlet-process Gaussian mixture over the weights with two priors: scikit-learn's
default, under which points of a uniform square are one or two clusters, and a local one, components about 0.1 wide
anywhere in the square, which makes several of them. Both are judged. A cell is represented by its best member, as ours
are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pastmaster import Clustering, cross_values, figures, policy_distance, return_bounds, search_clusterings
from pastmaster.domains import coloured_grid
from pastmaster.report import Distances, TaskMap, Tasks
from pastmaster_paper.arrays import Array, FloatArray
from pastmaster_paper.experiments import scikit
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import EPISODES, Scale
from pastmaster_paper.experiments.scikit import fit_mixture
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Results, Tables, Unit, UnitArrays

N_TASKS = 50
BREAKS = "extra breaks of the angle"
METHODS = ("Search-Clusterings", "mixture, local prior", "mixture, default prior")
MIXTURES = METHODS[1:]


def run(rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """Draw grids and tasks, cluster them in the three ways."""
    labels = np.empty((scale.grids, len(METHODS), N_TASKS), np.int64)
    weights, losses = np.empty((scale.grids, N_TASKS, 2)), np.empty((scale.grids, len(METHODS)))
    first: UnitArrays = {}
    for draw in range(scale.grids):
        weights[draw] = rng.uniform(size=(N_TASKS, 2))
        tasks = coloured_grid.family(weights[draw], seed=int(rng.integers(2**31)))
        U, bounds = cross_values(tasks), return_bounds(tasks)
        distance = policy_distance(U)
        setting: dict[str, Any] = {"episodes": EPISODES, "span": bounds.span}
        ours = search_clusterings(distance, rng=rng, **setting, **scale.search)
        local, default = (fit_mixture(weights[draw], rng, local=local) for local in (True, False))
        for method, found in enumerate((ours.labels, *(m.predict(weights[draw]) for m in (local, default)))):
            clustering = Clustering.from_labels(distance, found, **setting)
            labels[draw, method] = clustering.labels
            under = U[np.arange(N_TASKS), clustering.representatives[clustering.labels]]
            losses[draw, method] = np.maximum(0.0, U.diagonal() - under).mean()
        if draw == 0:
            used = np.unique(local.predict(weights[draw]))
            shapes = {"mixture_means": local.means_[used], "mixture_covariances": local.covariances_[used]}
            first = {"distance": distance, "representatives": ours.representatives, **shapes}
    return {"weights": weights, "labels": labels, "regret": losses, **first}


def extra_breaks(weights: FloatArray, labels: Array) -> int:
    """How often the cell changes along the angle, beyond the c - 1 changes of cells that are sectors."""
    along = labels[np.argsort(np.arctan2(weights[:, 1], weights[:, 0]), kind="stable")]
    return int(np.count_nonzero(np.diff(along))) - (len(np.unique(labels)) - 1)


def together(weights: FloatArray, labels: Array) -> float:
    """The share of neighbours in angle that are in one cell."""
    along = labels[np.argsort(np.arctan2(weights[:, 1], weights[:, 0]), kind="stable")]
    return float(np.mean(along[1:] == along[:-1]))


def _measures(results: Results) -> dict[str, dict[str, FloatArray]]:
    """By method, what was found in each grid."""
    arrays = results["coloured-grid"]
    found = {}
    for method, name in enumerate(METHODS):
        pairs = list(zip(arrays["weights"], arrays["labels"][:, method], strict=True))
        found[name] = {
            "cells": np.array([len(np.unique(cells)) for _, cells in pairs], np.float64),
            BREAKS: np.array([extra_breaks(*pair) for pair in pairs], np.float64),
            "neighbours in angle kept together": np.array([together(*pair) for pair in pairs]),
            "mean regret": arrays["regret"][:, method],
        }
    return found


def together_more(results: Results, _: Reading | None, mixture: str) -> float:
    """The share of neighbours in angle that we keep together, less that of a mixture: a mean over grids."""
    found, what = _measures(results), "neighbours in angle kept together"
    return float((found[METHODS[0]][what] - found[mixture][what]).mean())


def regret_less(results: Results, _: Reading | None, mixture: str) -> float:
    """The mean regret of a mixture's clusters, less that of ours."""
    found = _measures(results)
    return float((found[mixture]["mean regret"] - found[METHODS[0]]["mean regret"]).mean())


def tables(draws: Draws) -> Tables:
    by_draw = [_measures(results) for results in draws.results]
    heads = list(by_draw[0][METHODS[0]])
    rows = [
        [method, *(float(np.mean([found[method][head].mean() for found in by_draw])) for head in heads)]
        for method in METHODS
    ]
    yield "methods", Columns(["method", *heads], rows, "Coloured grid: means over all draws")
    arrays = draws.results[0]["coloured-grid"]
    weights, labels = arrays["weights"][0], arrays["labels"][0, 0]
    names = [f"weights {a:.2f}, {b:.2f}" for a, b in weights]
    tasks = Tasks(np.arange(N_TASKS), names, labels, arrays["representatives"][labels])
    title, axes = "Coloured grid: tasks by their colour weights", ("weight of the first colour", "weight of the second")
    yield "search-clusterings", TaskMap(title, tasks, weights, axes)
    yield "search-clusterings", Distances(title, tasks, arrays["distance"])


def pictures(draws: Draws) -> Pictures:
    arrays = draws.results[0]["coloured-grid"]
    weights, representatives = arrays["weights"][0], arrays["representatives"]
    marks = ("stars: representatives", "stars and ellipses: means and three deviations", "")
    figure, panels = figures.new_figure(16, 6.4, ncols=3, sharey=True)
    for axes, method in zip(panels, (2, 1, 0), strict=True):
        labels, regret = arrays["labels"][0, method], arrays["regret"][0, method]
        _tasks(axes, weights, labels)
        axes.set(xlabel="weight of the first colour", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        counts = f"{len(np.unique(labels))} clusters, mean regret {regret:.2g}"
        axes.set_title(f"{METHODS[method]}: {counts}\n{marks[method]}")
    _components(panels[1], arrays)
    _sectors(panels[2], weights, arrays["labels"][0, 0])
    panels[2].plot(*weights[representatives].T, "k*", markersize=14, fillstyle="none")
    panels[0].set_ylabel("weight of the second colour")
    yield "clusters", figure


MARKERS = "osD^vP<>Xhp"


def _tasks(axes: Any, weights: FloatArray, labels: Array) -> None:
    """Tasks as points, a colour and a marker to each cell."""
    for place, cell in enumerate(np.unique(labels)):
        inside = labels == cell
        marker, colour = MARKERS[place % len(MARKERS)], figures.line_style(place)["color"]
        axes.scatter(*weights[inside].T, s=42, marker=marker, color=colour, alpha=0.85, linewidths=0)


def _components(axes: Any, arrays: UnitArrays) -> None:
    """The mixture's components that hold tasks: mean and three standard deviations."""
    from matplotlib.patches import Ellipse

    for mean, covariance in zip(arrays["mixture_means"], arrays["mixture_covariances"], strict=True):
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        width, height = 6 * np.sqrt(values[::-1])
        axes.add_patch(Ellipse(tuple(mean), width, height, angle=angle, fill=False, edgecolor="0.4"))
        axes.plot(*mean, "k*", markersize=10)


def _sectors(axes: Any, weights: FloatArray, labels: Array) -> None:
    """Rays between neighbours in angle of different cells."""
    angles = np.arctan2(weights[:, 1], weights[:, 0])
    order = np.argsort(angles)
    for one, other in pairwise(order):
        if labels[one] != labels[other]:
            between = 0.5 * (angles[one] + angles[other])
            axes.plot([0, 1.5 * np.cos(between)], [0, 1.5 * np.sin(between)], color="0.4", linestyle="--", linewidth=1)


UNIT = Unit("coloured-grid", run, repr((N_TASKS, METHODS, scikit.SETTINGS)), 4)
EXPERIMENT = Experiment(
    "coloured-grid", "Coloured grid: clusters by policy and by parameters", tables, pictures, common=[UNIT],
    check=scikit.check,
)  # fmt: skip
