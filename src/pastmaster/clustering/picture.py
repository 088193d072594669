"""The picture of a clustering: losses under every policy with the kept ones marked, each task's loss, a third panel.

The third is the trace of the search, or, of an answer of ``keep``, the least mean loss over the number of policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures
from pastmaster.arrays import FloatArray, LongArray
from pastmaster.clustering.curve import KeepCurve, curve_around
from pastmaster.clustering.partition import KEPT, Clustering

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NAMES = 60  # rows or columns that are all named
SOME_NAMES = 40  # rows that are named where there are more
MOST_ROWS = 2000  # of the heat map; of more tasks some are shown
MOST_BARS = 1000  # tasks that have a bar each
MOST_KEPT_NAMES = 20  # kept policies that are all named
LONGEST_NAME = 24
MARK = "#d55e00"  # of what is kept
HATCHES = ("", "//", "..", "xx")  # for more kept policies than colours


def draw(clustering: Clustering) -> Figure:
    """Two panels, or three where the clustering was searched for; rows of the first two are the same tasks."""
    is_kept = clustering.kind in KEPT
    n_panels = 2 + (is_kept or clustering.traces is not None)
    n_tasks = len(clustering.labels)
    height = min(10.0, max(5.0, 1.5 + 0.2 * n_tasks))
    figure, panels = figures.new_figure(6.0 * n_panels, height, ncols=n_panels)
    figure.suptitle(repr(clustering))
    order = np.argsort(clustering.labels, kind="stable")
    _distances(panels[0], clustering, order)
    _losses(panels[1], clustering, order)
    if is_kept:
        draw_curve(panels[2], curve_around(clustering), clustering)
    elif n_panels == 3:
        _trace(panels[2], clustering)
    return figure


def draw_curve(axes: Any, curve: KeepCurve, kept: Clustering | None = None) -> None:
    """The least mean loss over k, its lower bounds and its elbow; an answer that is given is marked."""
    k, losses, bounds = curve.k, curve.mean_loss, curve.lower_bound
    axes.plot(k, losses, "o-", color=figures.COLOURS[0], label="least mean loss")
    if not np.isnan(bounds).all():
        axes.fill_between(k, bounds, losses, color=figures.COLOURS[0], alpha=0.25, linewidth=0)
        axes.plot(k, bounds, "_", color="black", markersize=14, label="proven: no choice is below")
    if len(k) > 2:
        axes.axvline(curve.elbow, color=figures.COLOURS[2], linestyle=":", linewidth=2, label=f"elbow: {curve.elbow}")
    if kept is not None:
        style: dict[str, Any] = {"color": figures.COLOURS[1], "markersize": 16, "zorder": 5}
        axes.plot([kept.n_clusters], [kept.mean_loss], "*", label=f"this answer: {kept.n_clusters}", **style)
    known = f"policies kept\n({curve.begins})" if curve.begins else "policies kept"
    axes.set(title="What is lost with more or fewer policies", xlabel=known, ylabel="mean loss")
    axes.set_ylim(0.0, 1.05 * float(losses.max()) if losses.max() > 0 else 1.0)
    axes.set_xticks(k if len(k) <= MOST_KEPT_NAMES else k[:: len(k) // MOST_KEPT_NAMES + 1])
    axes.legend(loc="upper right")


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
    """The names of all tasks, or of all policies."""
    n_tasks, n_policies = clustering.distance.shape
    name_of = clustering.task if tasks else clustering.policy
    return figures.labels([str(name_of(i)) for i in range(n_tasks if tasks else n_policies)], LONGEST_NAME)


def _distances(axes: Any, clustering: Clustering, order: LongArray) -> None:
    """A heat map; kept columns are marked above it and named below, with all others where there is room."""
    directed, n_columns = clustering.directed, clustering.distance.shape[1]
    columns = np.arange(n_columns) if directed else order
    some = np.unique(np.linspace(0, len(order) - 1, MOST_ROWS).astype(np.int64))
    values = clustering.distance[order[some]][:, columns]
    untried = np.isinf(values)
    title = "Loss of each task under each policy" if directed else "Distances between tasks"
    notes = ["▼ kept" if n_columns <= MOST_NAMES else "▼ kept, named below"]
    if untried.any():
        axes.set_facecolor("lightgrey")
        notes.append("grey: not tried")
    figures.matrix(
        axes,
        np.where(untried, np.nan, values),
        title=title,
        rows="task, grouped by kept policy",
        columns="policy" if directed else "task",
        scale="loss under the policy" if directed else "policy distance",
    )
    axes.images[-1].set_extent((-0.5, n_columns - 0.5, len(order) - 0.5, -0.5))
    axes.set_aspect("auto")
    axes.set_title(f"{title}\n({'; '.join(notes)})", pad=12.0)  # above the marks
    _separate(axes, clustering, "white")
    kept = np.flatnonzero(np.isin(columns, clustering.representatives))
    axes.plot(kept, np.full(len(kept), -0.5), "v", color=MARK, markersize=9, clip_on=False, zorder=5)
    _name_columns(axes, clustering, np.asarray(columns, np.int64), kept)
    _name_rows(axes, clustering, order)


def _name_columns(axes: Any, clustering: Clustering, columns: LongArray, kept: LongArray) -> None:
    """Every column by name, the kept ones in bold; of too many columns the kept ones alone."""
    shown = np.arange(len(columns)) if len(columns) <= MOST_NAMES else kept
    if len(shown) > MOST_NAMES:
        return
    named = _names(clustering, tasks=False)
    names = [named[j] for j in columns[shown].tolist()]
    axes.set_xticks(shown, names, rotation=90, fontsize=7)
    for place, label in zip(shown.tolist(), axes.get_xticklabels(), strict=True):
        if place in kept:
            label.set(color=MARK, fontweight="bold")


def _name_rows(axes: Any, clustering: Clustering, order: LongArray) -> None:
    """Every row by the name or number of its task, not by its place; of too many rows some."""
    n_named = len(order) if len(order) <= MOST_NAMES else SOME_NAMES
    rows = np.linspace(0, len(order) - 1, n_named).round().astype(np.int64)
    names = _names(clustering, tasks=True)
    axes.set_yticks(rows, [names[i] for i in order[rows].tolist()], fontsize=7)


def _separate(axes: Any, clustering: Clustering, colour: str) -> None:
    """Lines where groups meet, in rows ordered by group."""
    for edge in np.cumsum(np.bincount(clustering.labels))[:-1] - 0.5:
        axes.axhline(edge, color=colour, linewidth=0.8, zorder=0.5)


def _losses(axes: Any, clustering: Clustering, order: LongArray) -> None:
    """A bar to each task, in the rows of the heat map, coloured by the kept policy that is best for it."""
    best, losses = (array[order] for array in clustering.served())
    rows, policies, names = np.arange(len(order)), clustering.representatives[best], _names(clustering, tasks=False)
    for number, column in enumerate(dict.fromkeys(clustering.representatives.tolist())):
        those = policies == column
        again, place = divmod(number, len(figures.COLOURS))
        style: dict[str, Any] = {"color": figures.COLOURS[place], "hatch": HATCHES[again % len(HATCHES)]}
        if number < MOST_KEPT_NAMES:
            style["label"] = f"{names[column]} ({int(those.sum())})"
        if len(order) <= MOST_BARS:
            axes.barh(rows[those], losses[those], height=0.8, **style)
            axes.plot(losses[those], rows[those], "o", color=style["color"], markersize=4, clip_on=False)
        else:
            axes.fill_betweenx(rows, np.where(those, losses, 0.0), step="mid", **style)
    _separate(axes, clustering, "lightgrey")
    mean = clustering.mean_loss
    axes.axvline(mean, color="black", linestyle=":", linewidth=1.2, label=f"mean {mean:.3g}")
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(left=0.0, right=None if losses.max() > 0 else 1.0)
    title, measure = "Distance of each task to the nearest kept one", "policy distance (the loss is at most that)"
    if clustering.directed:
        title, measure = "What each task loses under the best kept policy", "loss"
    axes.set(title=f"{title}\n(0: nothing)", xlabel=measure)
    _name_rows(axes, clustering, order)
    # below the bars, not over them
    axes.legend(fontsize=8, title="kept policy (its tasks)", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)


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
