"""What the surveillance experiments write and draw alike: pooled figures, a panel, a file or a row for each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster import figures
from pastmaster.report import Curves, Line
from pastmaster_paper.experiments.charts import OPTIMAL, Columns
from pastmaster_paper.experiments.pooled import Pooled
from pastmaster_paper.experiments.scale import EPISODES
from pastmaster_paper.experiments.setting import SETTINGS, Setting
from pastmaster_paper.experiments.surveillance_runs import SettingRuns, all_draws
from pastmaster_paper.experiments.unit import Draws
from pastmaster_paper.experiments.ways import Way, window_middles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REWARD = "reward an episode"
SHADE = "shaded: one standard deviation of a run"
Ways = Mapping[str, Way]


def pooled(draws: Draws, setting: Setting, measure: Callable[[SettingRuns], float]) -> Pooled:
    """A measure of a setting over draws."""
    values = [measure(found[setting.name]) for found in all_draws(draws, [setting])]
    return Pooled.of(values, f"{setting.name}")


def reward(draws: Draws, setting: Setting, way: Way) -> Pooled:
    """What a way earns an episode."""
    return pooled(draws, setting, lambda one: one.reward(way))


def cost(how: str) -> Callable[[SettingRuns], float]:
    """The cost of a clustering."""
    return lambda one: one.cost(how)


def cells(how: str) -> Callable[[SettingRuns], float]:
    """The number of cells of a clustering."""
    return lambda one: one.cells(how)


def told(figure: Pooled, digits: int = 4) -> str:
    """A figure with its interval, for a table."""
    text = f"{figure.mean:.{digits}g}"
    return text if figure.low is None else f"{text} ({figure.low:.{digits}g} .. {figure.high:.{digits}g})"


def rewards(draws: Draws, ways: Ways, title: str, among: Iterable[Setting] = SETTINGS) -> Columns:
    """A row for each way, a column for each setting: reward an episode, with its interval over draws."""
    chosen = list(among)
    optimum = [told(pooled(draws, one, lambda found: found.optimum)) for one in chosen]
    rows = [[label, *(told(reward(draws, one, way)) for one in chosen)] for label, way in ways.items()]
    head = ["", *(one.short for one in chosen)]
    return Columns(head, [*rows, [OPTIMAL, *optimum]], f"{title}: {REWARD}, mean and 95% interval over draws")


def curves(draws: Draws, setting: Setting, ways: Ways, title: str) -> Curves:
    """Learning curves by label, means over draws, with what an optimal policy earns."""
    found = [one[setting.name] for one in all_draws(draws, [setting])]
    lines = []
    for label, way in ways.items():
        middles = window_middles(way.episodes)
        mean = np.mean([one.curve(way) for one in found], axis=0)
        lines.append(Line(label, middles, mean, np.mean([one.deviation(way) for one in found], axis=0)))
    level = np.full(2, np.mean([one.optimum for one in found]))
    optimal = Line(OPTIMAL, np.array([0.0, EPISODES]), level, np.zeros(2), reference=True)
    return Curves(f"{title}: {setting.title}", [*lines, optimal])


def all_curves(draws: Draws, ways: Ways, title: str) -> Iterator[tuple[str, Curves]]:
    """Learning curves of each setting."""
    for setting in SETTINGS:
        yield setting.name, curves(draws, setting, ways, title)


def draw_panels(draws: Draws, ways: Ways, title: str, among: Sequence[Setting] = SETTINGS) -> Figure:
    """Learning curves of all settings, three panels to a row."""
    rows = -(-len(among) // 3)
    figure, panels = figures.new_figure(13, 3.4 * rows, nrows=rows, ncols=min(3, len(among)), squeeze=False)
    for axes, setting in zip(panels.ravel(), among, strict=False):
        draw_curves(axes, curves(draws, setting, ways, ""))
        axes.set_title(setting.title, fontsize="medium")
    for axes in panels.ravel()[len(among) :]:
        axes.remove()
    for axes in panels[-1]:
        axes.set_xlabel("episode")
    for axes in panels[:, 0]:
        axes.set_ylabel("mean return")
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


def ends(values: Sequence[Pooled]) -> Any:
    """How far intervals reach below and above the means, or None where there are none."""
    if any(one.low is None for one in values):
        return None
    return np.array([[one.mean - one.low, one.high - one.mean] for one in values]).T  # type: ignore[operator]


def draw_bars(axes: Any, groups: Sequence[str], bars: Mapping[str, Sequence[Pooled]], unit: str = REWARD) -> None:
    """Grouped bars with their intervals over draws."""
    width = 0.8 / len(bars)
    for place, (label, values) in enumerate(bars.items()):
        x = np.arange(len(groups)) + (place - (len(bars) - 1) / 2) * width
        style = {"color": figures.line_style(place)["color"], "capsize": 2, "error_kw": {"elinewidth": 1}}
        axes.bar(x, [one.mean for one in values], 0.92 * width, label=label, yerr=ends(values), **style)
    axes.set_xticks(range(len(groups)), groups, fontsize="small")
    axes.set_ylabel(unit)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
