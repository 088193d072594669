"""What the surveillance experiments write and draw alike: a panel, a file or a line for each setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pastmaster import figures
from pastmaster.experiments import output
from pastmaster.experiments.matrix import Matrix
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.settings import Setting
from pastmaster.experiments.ways import Met, Way

Labels = Mapping[str, Way]
SCORE = "score (0 the worst, 100 optimal)"
SHADE = "shaded: one standard deviation of a run"
NUMBERS = [
    "setting", "algorithm", "clustering", "sources", "T", "cumulative reward", "reward low", "reward high",
    "score", "score low", "score high", "final score", "final low", "final high", "bounds widened",
]  # fmt: skip


def curves_of(met: Met, labels: Labels) -> dict[str, output.Curve]:
    """Learning curves by label, the optimum with them."""
    return {label: met.curve(way) for label, way in labels.items()} | {output.OPTIMAL: met.optimal_curve()}


def write_curves(found: Iterable[Matrix], labels: Labels, folder: Path, what: str, slug: str = "") -> None:
    """A file of learning curves for each setting."""
    for matrix in found:
        title = f"{what}: {matrix.setting.title}"
        output.write_curves(folder, slug + matrix.setting.name, title, curves_of(matrix, labels))


def write_numbers(found: Iterable[Matrix], chosen: Sequence[Way], folder: Path) -> None:
    """A line for each setting and way."""
    lines = [one.number_row(one.setting.title, way, one.cells(way.clustering)) for one in found for way in chosen]
    output.write_csv(folder / "numbers.csv", NUMBERS, lines)


def draw_panels(found: Sequence[Matrix], labels: Labels, path: Path, title: str) -> None:
    """Learning curves of all settings, three panels to a row."""
    rows = -(-len(found) // 3)
    figure, panels = figures.new_figure(15, 4.2 * rows, nrows=rows, ncols=min(3, len(found)), squeeze=False)
    for axes, matrix in zip(panels.ravel(), found, strict=False):
        output.draw_curves(axes, curves_of(matrix, labels))
        axes.set_title(matrix.setting.title, fontsize="medium")
    for axes in panels.ravel()[len(found) :]:
        axes.remove()
    for axes in panels[-1]:
        axes.set_xlabel("episode")
    for axes in panels[:, 0]:
        axes.set_ylabel("mean return per episode")
    figure.suptitle(f"{title} ({SHADE})")
    handles, texts = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=min(len(texts), 4))
    output.write_figure(figure, path)


def draw_bars(axes: Any, groups: Sequence[str], bars: Mapping[str, Sequence[Measured]], unit: str) -> None:
    """Grouped bars with their intervals."""
    width = 0.8 / len(bars)
    for place, (label, values) in enumerate(bars.items()):
        x = np.arange(len(groups)) + (place - (len(bars) - 1) / 2) * width
        heights = np.array([one.value for one in values])
        ends = np.array([[one.value - one.low, one.high - one.value] for one in values]).T
        style = {"color": figures.line_style(place)["color"], "capsize": 2, "error_kw": {"elinewidth": 1}}
        exact = all(one.resampled is None for one in values)
        axes.bar(x, heights, 0.92 * width, label=label, yerr=None if exact else np.maximum(ends, 0), **style)
    axes.set_xticks(range(len(groups)), groups, fontsize="small")
    axes.set_ylabel(unit)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def short(setting: Setting) -> str:
    """A setting's name below a bar."""
    word = "complex\n" if setting.complex else ""
    return f"{word}{setting.previous}\n{setting.targets} target{'s' if setting.targets > 1 else ''}"
