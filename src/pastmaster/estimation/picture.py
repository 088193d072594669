"""The picture of estimated cross values: what policies are worth, how well that is known, and at what expense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pastmaster.estimation.result import CrossValueEstimate


MOST_NAMES = 40  # tasks or policies that are all named
LONGEST_NAME = 36


def draw(estimate: CrossValueEstimate) -> Figure:
    """Three heat maps side by side, the kept policies marked above each."""
    n_tasks = len(estimate.mean)
    figure, panels = figures.new_figure(18.0, min(7.5, max(5.2, 4.0 + 0.3 * n_tasks)), ncols=3)
    known = f"How well that is known\n({100 * estimate.confidence:g}% intervals)"
    panel_texts = (
        (estimate.mean, "What each policy is worth\nin each task", "mean return of an episode", "viridis"),
        (estimate.high - estimate.low, known, "width of the interval", "magma_r"),
        (np.log10(estimate.episodes), "Where episodes were run", "episodes of the entry", "cividis"),
    )
    kept = [] if estimate.clustering is None else np.unique(estimate.clustering.representatives).tolist()
    for axes, (values, title, scale, colours) in zip(panels, panel_texts, strict=True):
        columns = "policy (▼ kept)" if kept else "policy"
        figures.matrix(axes, values, title=title, rows="task", columns=columns, scale=scale, colours=colours)
        axes.set_aspect("auto")  # the scale is as high as the axes
        axes.set_title(title, pad=12.0)  # above the marks
        if kept:  # a line without points has no place, and would upset the layout
            axes.plot(kept, np.full(len(kept), -0.5), "v", color="#d55e00", markersize=9, clip_on=False, zorder=5)
        _name(axes, estimate)
    panels[1].images[0].set_clim(0.0, float((estimate.high - estimate.low).max()) or 1.0)
    _plain_numbers(panels[2])
    words = str(estimate).removeprefix("CrossValueEstimate(").removesuffix(")")
    figure.suptitle(words.replace("; ", "\n"), fontsize=10)
    return figure


def _name(axes: Any, estimate: CrossValueEstimate) -> None:
    """Rows and columns by name, numbers where there is none; whole numbers if there are too many."""
    n_tasks, n_policies = estimate.mean.shape
    if n_tasks <= MOST_NAMES:
        axes.set_yticks(range(n_tasks), _short(estimate.tasks, n_tasks), fontsize=8)
    if n_policies <= MOST_NAMES:
        names = _short(estimate.policies, n_policies)
        axes.set_xticks(range(n_policies), names, fontsize=8, rotation=90 if max(map(len, names)) > 3 else 0)


def _short(names: Sequence[str], n: int) -> list[str]:
    return [name or str(i) for i, name in enumerate(figures.labels(names or [""] * n, LONGEST_NAME))]


def _plain_numbers(axes: Any) -> None:
    """Logarithms on a scale beside a heat map, written as the numbers they are of."""
    bar = axes.images[0].colorbar
    low, high = axes.images[0].get_clim()
    marks = [mark for mark in np.outer(10.0 ** np.arange(12), (1, 3)).ravel() if low <= np.log10(mark) <= high]
    if len(marks) < 2:
        marks = sorted({10.0**low, 10.0**high})
    bar.set_ticks(np.log10(marks), labels=[f"{mark:,.0f}" for mark in marks])
    bar.minorticks_off()
