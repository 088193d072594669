"""What the surveillance experiments write and draw alike: a panel, a file or a row for each setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures
from pastmaster.experiments.charts import Columns, Curves
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.surveillance_runs import Setting, SettingRuns
from pastmaster.experiments.ways import Way

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORE = "score (0: worst possible, 100: optimal)"
SHADE = "shaded: one standard deviation of a run"
NUMBERS = [
    "setting", "algorithm", "clustering", "sources", "T", "cumulative reward", "reward low", "reward high",
    "score", "score low", "score high", "final score", "final low", "final high", "bounds widened",
]  # fmt: skip


def curves(
    runs: Iterable[SettingRuns], ways: Mapping[str, Way], title: str, slug: str = ""
) -> Iterator[tuple[str, Curves]]:
    """Learning curves of each setting."""
    for one in runs:
        yield slug + one.name, one.curves(f"{title}: {one.title}", ways)


def numbers(runs: Iterable[SettingRuns], ways: Iterable[Way]) -> tuple[str, Columns]:
    """A row for each setting and way."""
    chosen = list(ways)
    rows = [one.number_row(one.title, way, one.cells(way.clustering)) for one in runs for way in chosen]
    return "numbers", Columns(NUMBERS, rows)


def draw_panels(runs: Sequence[SettingRuns], ways: Mapping[str, Way], title: str) -> Figure:
    """Learning curves of all settings, three panels to a row."""
    rows = -(-len(runs) // 3)
    figure, panels = figures.new_figure(15, 4.2 * rows, nrows=rows, ncols=min(3, len(runs)), squeeze=False)
    for axes, one in zip(panels.ravel(), runs, strict=False):
        draw_curves(axes, one.curves("", ways))
        axes.set_title(one.title, fontsize="medium")
    for axes in panels.ravel()[len(runs) :]:
        axes.remove()
    for axes in panels[-1]:
        axes.set_xlabel("episode")
    for axes in panels[:, 0]:
        axes.set_ylabel("mean return per episode")
    figure.suptitle(f"{title} ({SHADE})")
    handles, texts = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=min(len(texts), 4))
    return figure


def draw_curves(axes: Any, chart: Curves) -> None:
    """Learning curves with one standard deviation shaded; references are dotted."""
    for i, line in enumerate(chart.lines):
        if line.reference:
            axes.plot(line.episode, line.mean, color="black", linestyle=":", linewidth=1.2, label=line.label)
            continue
        style = figures.line_style(i)
        axes.plot(line.episode, line.mean, label=line.label, linewidth=1.4, **style)
        low, high = line.mean - line.deviation, line.mean + line.deviation
        axes.fill_between(line.episode, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.grid(alpha=0.3)


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


def score_bars(axes: Any, runs: Sequence[SettingRuns], ways: Mapping[str, Way], title: str) -> None:
    """The scores of these ways in each setting."""
    bars = {label: [one.score(way) for one in runs] for label, way in ways.items()}
    draw_bars(axes, [short(one.setting) for one in runs], bars, SCORE)
    axes.set_title(title)


def short(setting: Setting) -> str:
    """A setting's name below a bar."""
    word = "complex\n" if setting.complex else ""
    return f"{word}{setting.previous}\n{setting.targets} target{'s' if setting.targets > 1 else ''}"
