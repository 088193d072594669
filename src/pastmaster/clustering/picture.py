"""The picture of a clustering: losses under every policy with the kept ones marked, each task's loss, the trace."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray, LongArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pastmaster.clustering.partition import Clustering

MOST_NAMES = 40  # rows or columns that are all named
MOST_KEPT_NAMES = 20  # kept policies that are all named
LONGEST_NAME = 24
HATCHES = ("", "//", "..", "xx")  # for more kept policies than colours


def draw(clustering: Clustering) -> Figure:
    """Two panels, or three where the clustering was searched for; rows of the first two are the same tasks."""
    n_panels = 2 if clustering.traces is None else 3
    n_tasks = len(clustering.labels)
    height = min(10.0, max(5.0, 1.5 + 0.2 * n_tasks)) if n_tasks <= MOST_NAMES else 6.5
    figure, panels = figures.new_figure(6.0 * n_panels, height, ncols=n_panels)
    figure.suptitle(repr(clustering))
    order = np.argsort(clustering.labels, kind="stable")
    _distances(panels[0], clustering, order)
    _losses(panels[1], clustering, order)
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
        return classical_scaling(distance - np.diag(np.diagonal(distance)))
    if distance.size < 10**6:
        return classical_scaling(np.array([np.abs(distance - row).max(axis=1) for row in distance]))
    norms = (distance**2).sum(axis=1)
    return classical_scaling(np.sqrt(np.maximum(0.0, norms[:, None] + norms - 2.0 * distance @ distance.T)))


def _names(clustering: Clustering, tasks: bool) -> list[str]:
    """The names of all tasks, or of all policies; of long ones without what all begin with, up to a comma."""
    n_tasks, n_policies = clustering.distance.shape
    name_of = clustering.task if tasks else clustering.policy
    names = [str(name_of(i)) for i in range(n_tasks if tasks else n_policies)]
    if max(map(len, names)) > LONGEST_NAME:
        common = "".join(
            a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
        )
        begin = common.rfind(", ") + 2 if ", " in common else 0
        names = [name[begin:] for name in names]
    return [figures.label(name, LONGEST_NAME) for name in names]


def _distances(axes: Any, clustering: Clustering, order: LongArray) -> None:
    """A heat map; kept columns are marked above it and named below."""
    columns = np.arange(clustering.distance.shape[1]) if clustering.directed else order
    what, scale = ("policy", "loss under the policy") if clustering.directed else ("task", "policy distance")
    title = "Loss of each task under each policy" if clustering.directed else "Distances between tasks"
    title = f"{title}\n(▼ kept, named below)"
    values = clustering.distance[order][:, columns]
    figures.matrix(axes, values, title=title, rows="task, ordered by cell", columns=what, scale=scale)
    axes.set_aspect("auto")
    axes.set_title(title, pad=12.0)  # above the marks
    for edge in _edges(clustering):
        axes.axhline(edge, color="white", linewidth=0.8)
    kept = np.unique(clustering.representatives)
    places = np.argsort(columns)[kept]
    axes.plot(places, np.full(len(places), -0.5), "v", color="#d55e00", markersize=9, clip_on=False, zorder=5)
    if len(kept) <= MOST_KEPT_NAMES:
        named = _names(clustering, tasks=False)
        names = [named[j] for j in kept.tolist()]
        axes.set_xticks(places, names, rotation=90 if max(map(len, names)) > 3 else 0, fontsize=8)
    _name_rows(axes, clustering, order)


def _edges(clustering: Clustering) -> FloatArray:
    """Where cells meet, in rows ordered by cell."""
    return np.asarray(np.cumsum(np.bincount(clustering.labels))[:-1] - 0.5, np.float64)


def _name_rows(axes: Any, clustering: Clustering, order: LongArray) -> None:
    """Every row by its own name, not by its place; with too many tasks, only where cells begin."""
    rows = np.arange(len(order))
    if len(order) > MOST_NAMES:
        rows = np.concatenate([[0], np.ceil(_edges(clustering))]).astype(np.int64)
        apart = [0]
        for row in rows[1:].tolist():
            if row - apart[-1] >= len(order) / MOST_NAMES:
                apart.append(row)
        rows = np.array(apart)
    names = _names(clustering, tasks=True)
    axes.set_yticks(rows, [names[i] for i in order[rows].tolist()], fontsize=8)


def _losses(axes: Any, clustering: Clustering, order: LongArray) -> None:
    """A bar to each task, in the rows of the heat map, coloured by the kept policy that is best for it."""
    best, losses = (array[order] for array in clustering.served())
    kept = list(dict.fromkeys(clustering.representatives.tolist()))
    rows, policies, names = np.arange(len(order)), clustering.representatives[best], _names(clustering, tasks=False)
    for number, column in enumerate(kept):
        those = policies == column
        again, place = divmod(number, len(figures.COLOURS))
        colour, hatch = figures.COLOURS[place], HATCHES[again % len(HATCHES)]
        label = f"{names[column]} ({int(those.sum())})" if number < MOST_KEPT_NAMES else None
        axes.barh(rows[those], losses[those], height=0.8, label=label, color=colour, hatch=hatch)
        axes.plot(losses[those], rows[those], "o", color=colour, markersize=4, clip_on=False)
    for edge in _edges(clustering):
        axes.axhline(edge, color="lightgrey", linewidth=0.6, zorder=0)
    mean = float(losses.mean())
    axes.axvline(mean, color="black", linestyle=":", linewidth=1.2, label=f"mean {mean:.3g}")
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(left=0.0, right=None if losses.max() > 0 else 1.0)
    title, measure = "Distance of each task to the nearest kept one", "policy distance (the loss is at most that)"
    if clustering.directed:
        title, measure = "What each task loses under the best kept policy", "loss"
    axes.set(title=f"{title}\n(0: nothing)", xlabel=measure)
    _name_rows(axes, clustering, order)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 3}  # not over the bars
    axes.legend(fontsize=8, title="kept policy (its tasks)", **below)


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
