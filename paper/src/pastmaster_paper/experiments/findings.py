"""Our findings: what is not the paper's, for one reading at a time. Search costs no more than greedy; what each
correction changes; all selectors, from ten episodes to ten thousand.
"""

from __future__ import annotations

import numpy as np

from pastmaster import figures
from pastmaster_paper.experiments import panels, surveillance_runs as runs
from pastmaster_paper.experiments.charts import OPTIMAL, Columns
from pastmaster_paper.experiments.pooled import Pooled
from pastmaster_paper.experiments.setting import BY_NAME, SETTINGS
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Tables
from pastmaster_paper.experiments.ways import DECAYING_EXP3, EXP3, Way

SELECTED = [BY_NAME[name] for name in runs.SELECTED]
CORRECTED = [BY_NAME[name] for name in runs.CORRECTED]


def cost_tables(draws: Draws) -> Tables:
    rows = []
    for one in SETTINGS:
        costs = [panels.pooled(draws, one, panels.cost(how)) for how in (runs.SEARCH, runs.GREEDY)]
        saved = panels.pooled(draws, one, lambda r: r.cost(runs.GREEDY) - r.cost(runs.SEARCH))
        cells = [panels.pooled(draws, one, panels.cells(how)).mean for how in (runs.SEARCH, runs.GREEDY)]
        told = [*(f"{cell:.3g}" for cell in cells), *(f"{cost.mean:.4g}" for cost in costs)]
        rows.append([one.short, *told, panels.told(saved), f"{min(saved.values):.3g}"])
    head = ["setting", "cells, search", "cells, greedy", "cost, search", "cost, greedy", "search saves", "least of all"]
    yield "costs", Columns(head, rows, "Search costs no more than greedy: g(c, T) + mean radius")


def cost_pictures(draws: Draws) -> Pictures:
    figure, axes = figures.new_figure(8, 4)
    bars = {
        how: [panels.pooled(draws, one, panels.cost(how)) for one in SETTINGS]
        for how in (runs.SEARCH, runs.GREEDY, runs.PICKED)
    }
    panels.draw_bars(axes, [one.short.replace(" ", "\n") for one in SETTINGS], bars, "cost")
    axes.legend(fontsize="small")
    yield "costs", figure


# The paper's span and its plain chain, beside the exact span, our search, our learner and our selector

CHANGES = "What each correction changes"
NARROW = {
    "exact span, plain MHAV": Way(EXP3, runs.PLAIN),
    "exact span, our search": runs.CLUSTERED,
    "and a learner that explores less and less": Way(DECAYING_EXP3, runs.SEARCH),
    "and our selector": runs.BEST,
}
WIDE = dict(zip(("paper's span, our search", "paper's span, plain MHAV"), runs.WIDE_WAYS, strict=True))


def _corrections(draws: Draws) -> dict[str, Way]:
    assert draws.reading is not None
    return (WIDE if runs.has_wide(CORRECTED[0], draws.reading) else {}) | NARROW


def correction_tables(draws: Draws) -> Tables:
    yield "corrections", panels.rewards(draws, _corrections(draws), CHANGES, CORRECTED)


def correction_pictures(draws: Draws) -> Pictures:
    figure, axes = figures.new_figure(8, 4.2)
    bars = {label: [panels.reward(draws, one, way) for one in CORRECTED] for label, way in _corrections(draws).items()}
    panels.draw_bars(axes, [one.title for one in CORRECTED], bars)
    axes.set_title(CHANGES)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    yield "rewards", figure


def selector_figures(draws: Draws, setting_name: str) -> dict[str, list[Pooled]]:
    """By selector, what it earns an episode with each number of episodes, in percent of the optimum.

    That is the ratio of the means over draws, R. A draw's value is R plus what it earns beyond R times its own optimum,
    as a share of the mean optimum: optima of single draws may be near 0, and are not divided by.
    """
    assert draws.reading is not None
    found = [one[setting_name].arrays for one in runs.all_draws(draws, [BY_NAME[setting_name]])]
    earned = np.stack([one["selectors"].mean(axis=2) for one in found])
    optimum = np.array([one["optimum"].mean() for one in found])
    ratio = earned.mean(axis=0) / optimum.mean()
    shares = 100 * (ratio + (earned - ratio * optimum[:, None, None]) / optimum.mean())
    return {
        name: [Pooled.of(shares[:, i, j].tolist(), f"{setting_name} {name} {j}") for j in range(len(runs.LENGTHS))]
        for i, name in enumerate(runs.SELECTORS)
    }


def selector_tables(draws: Draws) -> Tables:
    for one in SELECTED:
        rows = [[name, *(panels.told(f, 3) for f in row)] for name, row in selector_figures(draws, one.name).items()]
        head = ["selector", *(f"T = {length:,}" for length in runs.LENGTHS)]
        title = f"All selectors, {one.title}: percent of what an {OPTIMAL} earns, 95% interval over draws"
        yield one.name, Columns(head, rows, title)


def selector_pictures(draws: Draws) -> Pictures:
    figure, panels_of = figures.new_figure(12, 4.2, ncols=len(SELECTED))
    for axes, one in zip(panels_of, SELECTED, strict=True):
        for place, (name, row) in enumerate(selector_figures(draws, one.name).items()):
            means = [figure.mean for figure in row]
            axes.errorbar(runs.LENGTHS, means, panels.ends(row), label=name, marker="o", **figures.line_style(place))
        axes.axhline(100, color="black", linestyle=":", linewidth=1)
        axes.set(xscale="log", xlabel="episodes T", title=one.title, ylim=(-20, 105))
        axes.grid(alpha=0.3)
    panels_of[0].set_ylabel("percent of the optimum")
    figure.legend(*panels_of[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    yield "selectors", figure


EXPERIMENTS = [
    Experiment("selectors", "All selectors, from 10 to 10,000 episodes", selector_tables, selector_pictures,
               lambda reading: [runs.unit(one, reading) for one in SELECTED], ours=True),
    Experiment("costs", "Search costs no more than greedy", cost_tables, cost_pictures, runs.units, ours=True),
    Experiment("corrections", CHANGES, correction_tables, correction_pictures,
               lambda reading: [runs.unit(one, reading) for one in CORRECTED], ours=True),
]  # fmt: skip
