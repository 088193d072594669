"""Coloured grid: clusters by policy distance are sectors of angle, clusters by parameters are not.

Tasks are points of the unit square; those on one ray through the origin have the same optimal policy. The rival, in
the place of Wilson et al., is a Dirichlet-process Gaussian mixture over the weights with two priors: scikit-learn's
default, under which points of a uniform square are one or two clusters, and a local one, components about 0.1 wide
anywhere in the square, which makes several of them. Both are judged. A cell is represented by its best member, as ours
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from pastmaster import figures
from pastmaster.arrays import Array, FloatArray
from pastmaster.clustering import Clustering, search_clusterings
from pastmaster.domains import coloured_grid
from pastmaster.experiments import scikit
from pastmaster.experiments.charts import Columns, Distances, TaskMap, Tasks
from pastmaster.experiments.claims import Checks, check
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.scale import EPISODES, Scale
from pastmaster.experiments.scikit import fit_mixture
from pastmaster.experiments.unit import Experiment, Pictures, Results, Tables, Unit, UnitArrays
from pastmaster.values import cross_values, policy_distance, return_bounds

N_TASKS, MOSTLY = 50, 0.9
BREAKS = "extra breaks of the angle"
METHODS = ("Search-Clusterings", "mixture, local prior", "mixture, default prior")


def run(rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """Draw grids and tasks, cluster them in the three ways."""
    labels = np.empty((scale.draws, len(METHODS), N_TASKS), np.int64)
    weights, losses = np.empty((scale.draws, N_TASKS, 2)), np.empty((scale.draws, len(METHODS)))
    first: UnitArrays = {}
    for draw in range(scale.draws):
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


def _measures(results: Results) -> dict[str, dict[str, Any]]:
    """By method: cells, breaks and mean regret of each draw."""
    arrays = results["coloured-grid"]
    found = {}
    for method, name in enumerate(METHODS):
        labels = arrays["labels"][:, method]
        breaks = [extra_breaks(weights, cells) for weights, cells in zip(arrays["weights"], labels, strict=True)]
        found[name] = {
            "cells": np.array([len(np.unique(cells)) for cells in labels]),
            BREAKS: np.array(breaks),
            "mean regret": arrays["regret"][:, method],
        }
    return found


def claims(results: Results) -> Checks:
    measures = _measures(results)
    ours = measures.pop(METHODS[0])
    sectors = Measured(float(np.mean(ours[BREAKS] == 0)))
    checks = [check("draws in which each of our cells is a sector of angle", sectors, ">=", MOSTLY, "share of draws")]
    for method, theirs in measures.items():
        for name, difference, unit in (
            ("breaks of the angle in its cells", theirs[BREAKS], "breaks"),
            ("cells more than ours", theirs["cells"] - ours["cells"], "cells"),
            ("mean regret more than ours", theirs["mean regret"] - ours["mean regret"], "value"),
        ):
            measured = Measured.mean(difference, f"coloured-grid {method} {name}")
            checks.append(check(f"{method}: {name}", measured, ">", unit=unit))
    return {"colour-rays": checks}


def tables(results: Results) -> Tables:
    yield "clusterings", by_draw(_measures(results))
    arrays = results["coloured-grid"]
    weights, labels = arrays["weights"][0], arrays["labels"][0, 0]
    names = [f"weights {a:.2f}, {b:.2f}" for a, b in weights]
    tasks = Tasks(np.arange(N_TASKS), names, labels, arrays["representatives"][labels])
    title, axes = "Coloured grid: tasks by their colour weights", ("weight of the first colour", "weight of the second")
    yield "search-clusterings", TaskMap(title, tasks, weights, axes)
    yield "search-clusterings", Distances(title, tasks, arrays["distance"])


def by_draw(measures: Mapping[str, Mapping[str, Array]]) -> Columns:
    """What was measured by each method in each draw."""
    rows = [
        [draw, method, *(float(values[draw]) for values in measured.values())]
        for method, measured in measures.items()
        for draw in range(len(measured["cells"]))
    ]
    return Columns(["draw", "method", *next(iter(measures.values()))], rows)


def pictures(results: Results) -> Pictures:
    arrays = results["coloured-grid"]
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
    "coloured-grid",
    "Coloured grid: clusters by policy and by parameters",
    [UNIT],
    tables,
    pictures,
    claims,
    scikit.check,
)
