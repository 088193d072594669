"""The picture of a clustering: distances ordered by cell, a map of the tasks, the search's trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pastmaster.clustering.partition import Clustering


def draw(clustering: Clustering) -> Figure:
    """Two panels, or three where the clustering was searched for."""
    n_panels = 2 if clustering.traces is None else 3
    figure, panels = figures.new_figure(5.4 * n_panels, 5.0, ncols=n_panels)
    figure.suptitle(repr(clustering))
    _distances(panels[0], clustering)
    _map(panels[1], clustering)
    if n_panels == 3:
        _trace(panels[2], clustering)
    return figure


def classical_scaling(distance: FloatArray) -> FloatArray:
    """Points [N, 2] in the plane whose distances resemble the given ones (Torgerson's method)."""
    n = len(distance)
    centred = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centred @ distance**2 @ centred)
    top = np.argsort(values)[::-1][:2]
    points = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    return points if points.shape[1] == 2 else np.hstack([points, np.zeros((n, 2 - points.shape[1]))])


def task_points(clustering: Clustering) -> FloatArray:
    """The tasks in the plane [N, 2], by their distances; directed: tasks are alike if they lose alike."""
    distance = clustering.distance
    if not clustering.directed:
        return classical_scaling(distance)
    if distance.size < 10**6:
        return classical_scaling(np.array([np.abs(distance - row).max(axis=1) for row in distance]))
    norms = (distance**2).sum(axis=1)
    return classical_scaling(np.sqrt(np.maximum(0.0, norms[:, None] + norms - 2.0 * distance @ distance.T)))


def _distances(axes: Any, clustering: Clustering) -> None:
    order = np.argsort(clustering.labels, kind="stable")
    matrix, square = clustering.distance[order], not clustering.directed
    values, columns, scale = matrix, "policy", "loss under the policy"
    if square:
        values, columns, scale = matrix[:, order], "task", "policy distance"
    title = "Distances, tasks ordered by cell"
    figures.matrix(axes, values, title=title, rows="task", columns=columns, scale=scale)
    for edge in np.cumsum(np.bincount(clustering.labels))[:-1] - 0.5:
        axes.axhline(edge, color="white", linewidth=0.8)
        if square:
            axes.axvline(edge, color="white", linewidth=0.8)


def _map(axes: Any, clustering: Clustering) -> None:
    from matplotlib import colormaps

    points = task_points(clustering)
    colours = colormaps["tab20"](clustering.labels % 20)
    jitter = np.random.default_rng(0).normal(scale=0.01 * np.ptp(points, axis=0) + 1e-12, size=points.shape)
    axes.scatter(*(points + jitter).T, c=colours, s=24, alpha=0.8, linewidths=0)
    if not clustering.directed:
        kept = clustering.representatives
        axes.scatter(*points[kept].T, c=colours[kept], marker="*", s=230, edgecolors="black", label="representative")
        axes.legend(loc="best")
    axes.set(title="Map of the tasks, coloured by cell")
    axes.set(xlabel="first scaled coordinate", ylabel="second scaled coordinate")


def _trace(axes: Any, clustering: Clustering) -> None:
    traces, bound = clustering.traces, clustering.lower_bound
    assert traces is not None
    share = np.linspace(0, 100, traces.shape[1])
    axes.plot(share, traces.T, color="tab:blue", alpha=0.35, linewidth=1)
    axes.axhline(clustering.cost, color="black", linewidth=1.2, label=f"result {clustering.cost:.4g}")
    if bound is not None:
        axes.axhline(bound, color="tab:red", linestyle="--", label=f"bound {bound:.4g}")
    changes = traces.max() > 1.001 * traces.min()  # a logarithmic axis needs a range
    scale = "log" if traces.min() > 0 and changes else "linear"
    axes.set(title="Best cost of each restart", xlabel="% of its steps", ylabel="cost", yscale=scale)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend(loc="upper right")
