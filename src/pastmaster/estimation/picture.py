"""The picture of estimated cross values: what policies are worth, how well that is known, and at what expense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pastmaster.estimation.result import CrossValueEstimate


MOST_NAMES = 40  # tasks that are all named
LONGEST_NAME = 24


def draw(estimate: CrossValueEstimate) -> Figure:
    """Three heat maps side by side."""
    figure, panels = figures.new_figure(16.2, 6.0, ncols=3)
    width, known = estimate.high - estimate.low, f"How well that is known ({100 * estimate.confidence:g}% intervals)"
    panel_texts = (
        (estimate.mean, "What each policy is worth in each task", "mean return of an episode", "viridis"),
        (width, known, "width of the interval", "magma_r"),
        (np.log10(estimate.episodes), "Where episodes were run", "episodes of the entry", "cividis"),
    )
    for axes, (values, title, scale, colours) in zip(panels, panel_texts, strict=True):
        figures.matrix(axes, values, title=title, rows="task", columns="policy", scale=scale, colours=colours)
        if any(estimate.tasks) and len(estimate.tasks) <= MOST_NAMES:
            axes.set_yticks(range(len(estimate.tasks)), [name[:LONGEST_NAME] for name in estimate.tasks], fontsize=8)
    _plain_numbers(panels[2])
    words = str(estimate).removeprefix("CrossValueEstimate(").removesuffix(")")
    figure.suptitle(words.replace("; ", "\n"), fontsize=10)
    return figure


def _plain_numbers(axes: Any) -> None:
    """Logarithms on a scale beside a heat map, written as the numbers they are of."""
    bar = axes.images[0].colorbar
    low, high = axes.images[0].get_clim()
    marks = [mark for mark in np.outer(10.0 ** np.arange(12), (1, 3)).ravel() if low <= np.log10(mark) <= high]
    marks = marks if len(marks) > 1 else [10.0**low]
    bar.set_ticks(np.log10(marks), labels=[f"{mark:,.0f}" for mark in marks])
    bar.minorticks_off()
