"""The paper's surveillance experiments: its figures and tables, for one reading at a time."""

from __future__ import annotations

from pastmaster import figures
from pastmaster_paper.experiments import panels, surveillance_runs as runs
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.setting import BY_NAME, COMPLEX, SIMPLE
from pastmaster_paper.experiments.surveillance_statistics import final_gain, gain
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Tables
from pastmaster_paper.experiments.ways import EXP3, OURS, PPR, Way

ALGORITHMS = {
    "EXP-3-Transfer, with clustering": runs.CLUSTERED,
    "EXP-3-Transfer, without": Way(EXP3, runs.NONE),
    "Policy Reuse, with clustering": Way(PPR, runs.SEARCH),
    "Policy Reuse, without": runs.ALL_PPR,
    "Q-learning": runs.ALONE,
    "EXP-3-Transfer, clustering, no elimination": runs.BARE,
    OURS: runs.BEST,
}
THREE = [one for one in SIMPLE if one.targets == 3]


def algorithm_tables(draws: Draws) -> Tables:
    yield "rewards", panels.rewards(draws, ALGORITHMS, "Algorithms")
    yield from panels.all_curves(draws, ALGORITHMS, "Algorithms")


def algorithm_pictures(draws: Draws) -> Pictures:
    yield "learning-curves", panels.draw_panels(draws, ALGORITHMS, "Algorithms compared")


# What clustering gains

GAINS = {"gain": (gain, "Gain of all episodes"), "final gain": (final_gain, "Gain of the last 100 episodes")}


def gain_tables(draws: Draws) -> Tables:
    rows = [
        [f"{name}, {algorithm}", *(panels.told(panels.pooled(draws, one, measure(algorithm))) for one in SIMPLE)]
        for name, (measure, _) in GAINS.items()
        for algorithm in (EXP3, PPR)
    ]
    title = f"What clustering gains: {panels.REWARD}, mean and 95% interval over draws"
    yield "gains", Columns(["", *(one.short for one in SIMPLE)], rows, title)


def gain_pictures(draws: Draws) -> Pictures:
    figure, axes_of = figures.new_figure(11, 4.2, ncols=len(GAINS))
    for axes, (measure, title) in zip(axes_of, GAINS.values(), strict=True):
        for place, (algorithm, targets) in enumerate((a, t) for a in (EXP3, PPR) for t in (2, 3)):
            settings = [setting for setting in SIMPLE if setting.targets == targets]
            found = [panels.pooled(draws, setting, measure(algorithm)) for setting in settings]
            axes.errorbar(
                [setting.previous for setting in settings], [one.mean for one in found], panels.ends(found),
                label=f"{algorithm}, {targets} targets", marker="o^sD"[place], capsize=3, **figures.line_style(place),
            )  # fmt: skip
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel="previous tasks", ylabel=f"gain, {panels.REWARD}", title=title)
        axes.grid(alpha=0.3)
    figure.legend(*axes_of[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    yield "gains", figure


# Reward against Policy Reuse

TWO = {"EXP-3-Transfer, with clustering": runs.CLUSTERED, "Policy Reuse, without": runs.ALL_PPR}


def reward_tables(draws: Draws) -> Tables:
    yield "rewards", panels.rewards(draws, TWO, "Against Policy Reuse")


def reward_pictures(draws: Draws) -> Pictures:
    figure, axes = figures.new_figure(6, 4.2)
    bars = {label: [panels.reward(draws, one, way) for one in THREE] for label, way in TWO.items()}
    panels.draw_bars(axes, [str(one.previous) for one in THREE], bars)
    axes.set(title="3 targets", xlabel="previous tasks")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    yield "rewards", figure


# The paper's Table 1: EXP-3-Transfer and Policy Reuse with each clustering

SLUGS = {EXP3: "exp3", PPR: "ppr"}
SHOWN = [BY_NAME[name] for name in ("96-2", "125-2", "256-2")]
"""The settings of the paper's figure of clusterings."""


def _by_clustering(algorithm: str) -> dict[str, Way]:
    return {f"{algorithm}, {how}": Way(algorithm, how) for how in (runs.NONE, runs.GREEDY, runs.SEARCH, runs.PICKED)}


def clustering_tables(draws: Draws) -> Tables:
    every = {way.label: way for way in (*runs.TABLE, runs.ALONE)}
    yield "rewards", panels.rewards(draws, every, "The paper's Table 1, run whole")
    for algorithm, slug in SLUGS.items():
        for name, chart in panels.all_curves(draws, _by_clustering(algorithm), f"Clusterings, {algorithm}"):
            yield f"{slug}-{name}", chart


def clustering_pictures(draws: Draws) -> Pictures:
    for algorithm, slug in SLUGS.items():
        title = f"Clusterings compared: {algorithm}"
        yield f"learning-curves-{slug}", panels.draw_panels(draws, _by_clustering(algorithm), title)
    figure, axes = figures.new_figure(7, 4.2)
    ways = {how: Way(EXP3, how) for how in (runs.NONE, runs.GREEDY, runs.SEARCH)}
    bars = {label: [panels.reward(draws, one, way) for one in SHOWN] for label, way in ways.items()}
    panels.draw_bars(axes, [str(one.previous) for one in SHOWN], bars)
    axes.set(title="EXP-3-Transfer by clustering, 2 targets", xlabel="previous tasks")
    axes.legend(fontsize="small")
    yield "rewards", figure


# The paper's Table 3: search against greedy in the complex domain, where one v-location of a group stands for all

PAPER = {"complex-100-2": (871.02, 836.67), "complex-200-2": (836.67, 380.9)}
"""The paper's numbers, search and greedy, for an episode. They exceed what two captures can pay: compare the ratios."""
COMPLEX_WAYS = {how: Way(EXP3, how) for how in (runs.SEARCH, runs.GREEDY, runs.PICKED, runs.NONE)}


def complex_tables(draws: Draws) -> Tables:
    rows = []
    for one in COMPLEX:
        search, greedy = (panels.reward(draws, one, COMPLEX_WAYS[how]) for how in (runs.SEARCH, runs.GREEDY))
        lead = panels.pooled(draws, one, lambda r: r.reward(runs.CLUSTERED) - r.reward(Way(EXP3, runs.GREEDY)))
        cells = [panels.pooled(draws, one, panels.cells(how)).mean for how in (runs.SEARCH, runs.GREEDY)]
        theirs = PAPER[one.name]
        told = [panels.told(figure) for figure in (search, greedy, lead)]
        ratio = f"{search.mean / greedy.mean:.3g}" if greedy.mean > 0 else "none: greedy earns nothing"
        rows.append([one.previous, *told, ratio, *(f"{cell:.3g}" for cell in cells), *theirs, theirs[0] / theirs[1]])
    head = ["previous tasks", "search", "greedy", "search less greedy", "ratio of means", "cells, search",
            "cells, greedy", "paper: search", "paper: greedy", "paper: ratio"]  # fmt: skip
    yield "table-3", Columns(head, rows, f"The paper's Table 3: {panels.REWARD}")


def complex_pictures(draws: Draws) -> Pictures:
    figure, axes = figures.new_figure(7, 4.2)
    bars = {label: [panels.reward(draws, one, way) for one in COMPLEX] for label, way in COMPLEX_WAYS.items()}
    panels.draw_bars(axes, [one.title for one in COMPLEX], bars)
    axes.set_title("Complex surveillance: EXP-3-Transfer by clustering")
    axes.legend(fontsize="small")
    yield "rewards", figure


# Tuned for T episodes

HORIZON_WAYS = {f"tuned for T = {way.episodes:,}": way for way in runs.BY_HORIZON}


def horizon_tables(draws: Draws) -> Tables:
    yield from panels.all_curves(draws, HORIZON_WAYS, "Tuned for T")


def horizon_pictures(draws: Draws) -> Pictures:
    yield "learning-curves", panels.draw_panels(draws, HORIZON_WAYS, "EXP-3-Transfer tuned for T episodes")


EXPERIMENTS = [
    Experiment("algorithm-comparison", "Surveillance: algorithms compared", algorithm_tables, algorithm_pictures,
               runs.units),
    Experiment("clustering-gains", "Surveillance: what clustering gains", gain_tables, gain_pictures, runs.units),
    Experiment("reward-summary", "Surveillance: reward against Policy Reuse", reward_tables, reward_pictures,
               runs.units),
    Experiment("clustering-comparison", "Surveillance: clusterings compared", clustering_tables, clustering_pictures,
               runs.units),
    Experiment("complex-domain", "Complex surveillance: search against greedy", complex_tables, complex_pictures,
               lambda reading: [runs.unit(setting, reading) for setting in COMPLEX]),
    Experiment("time-comparison", "Surveillance: tuned for T episodes", horizon_tables, horizon_pictures, runs.units),
]  # fmt: skip
"""In the paper's order."""
