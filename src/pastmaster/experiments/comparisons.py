"""The surveillance experiments that compare ways in the settings: their tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pastmaster import figures
from pastmaster.clustering.picture import task_points
from pastmaster.experiments import panels, surveillance_claims as claims, surveillance_runs as runs, useless_sources
from pastmaster.experiments.charts import Columns, Distances, Shares, TaskMap, Tasks
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.surveillance_claims import BY_HORIZON, final_gain, gain, reward_gain
from pastmaster.experiments.surveillance_runs import SettingRuns, by_setting
from pastmaster.experiments.unit import Experiment, Pictures, Results, Tables
from pastmaster.experiments.ways import DECAYING_EXP3, EXP3, OURS, PPR, Way

ALGORITHMS = {
    "EXP-3-Transfer, with clustering": runs.CLUSTERED,
    "EXP-3-Transfer, without": Way(EXP3, runs.NONE),
    "Policy Reuse, with clustering": Way(PPR, runs.SEARCH),
    "Policy Reuse, without": runs.ALL_PPR,
    "Q-learning": runs.ALONE,
    "EXP-3-Transfer, clustering, no elimination": runs.BARE,
    OURS: runs.BEST,
}
MOST_ARMS = 8  # sources shown by themselves


def _all(results: Results) -> list[SettingRuns]:
    return list(by_setting(results).values())


# Algorithms compared


def algorithm_tables(results: Results) -> Tables:
    found = _all(results)
    yield from panels.curves(found, ALGORITHMS, "Algorithms")
    yield panels.numbers(found, ALGORITHMS.values())
    for one in found:
        clustering = one.clustering(runs.SEARCH)
        yield one.name, _shares(one, clustering.representatives.tolist())
        title, tasks = f"Surveillance, {one.title}: tasks placed by policy distance", Tasks.of(clustering, one.names())
        axes = ("first scaled coordinate", "second scaled coordinate")
        yield one.name, TaskMap(title, tasks, task_points(clustering), axes)
        yield one.name, Distances(title, tasks, clustering.distance)


def _shares(one: SettingRuns, kept: Sequence[int]) -> Shares:
    """Who ran the episodes of the first target: the most used sources, the others together, the learner."""
    shares, names = one.arrays["shares"], one.names()
    order = shares[:, :-1].mean(axis=0).argsort()[::-1]
    arms = {f"source: {names[kept[i]]}": shares[:, i] for i in order[:MOST_ARMS]}
    if len(order) > MOST_ARMS:
        arms["the others"] = shares[:, order[MOST_ARMS:]].sum(axis=1)
    arms["learner"] = shares[:, -1]
    title = f"Who runs the episodes of {one.names('targets')[0]} (EXP-3-Transfer, {one.title})"
    return Shares(title, one.line(runs.CLUSTERED, "").episode, arms)


def algorithm_pictures(results: Results) -> Pictures:
    yield "learning-curves", panels.draw_panels(_all(results), ALGORITHMS, "Algorithms compared")


# What clustering gains

GAINS = {
    "gain of reward": (reward_gain, "Cumulative clustering gain", "cumulative reward"),
    "gain of score": (gain, "The same as a score", "points of score"),
    "final gain of score": (final_gain, "Final clustering gain (last 100 episodes)", "points of score"),
}


def gain_tables(results: Results) -> Tables:
    rows = [
        [
            one.title, one.setting.previous, one.setting.targets, algorithm,
            *(number for measure, _, _ in GAINS.values() for number in measure(one, algorithm).row),
        ]
        for one in _all(results)
        for algorithm in (EXP3, PPR)
    ]  # fmt: skip
    columns = [f"{name}{part}" for name in GAINS for part in ("", ", low", ", high")]
    yield "gains", Columns(["setting", "previous tasks", "targets", "algorithm", *columns], rows)


def gain_pictures(results: Results) -> Pictures:
    found = by_setting(results)
    figure, axes_of = figures.new_figure(16, 4.8, ncols=len(GAINS))
    for axes, (measure, title, unit) in zip(axes_of, GAINS.values(), strict=True):
        for place, (algorithm, targets) in enumerate((a, t) for a in (EXP3, PPR) for t in (2, 3)):
            settings = [setting for setting in runs.SIMPLE if setting.targets == targets]
            gains = [measure(found[setting.name], algorithm) for setting in settings]
            axes.errorbar(
                [setting.previous for setting in settings], [one.value for one in gains],
                [[one.value - one.low for one in gains], [one.high - one.value for one in gains]],
                label=f"{algorithm}, {targets} targets", marker="o^sD"[place], capsize=3, **figures.line_style(place),
            )  # fmt: skip
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel="previous tasks", ylabel=f"gain, {unit}", title=title)
        axes.grid(alpha=0.3)
    figure.legend(*axes_of[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    yield "gains", figure


# Cumulative reward against Policy Reuse

TWO = {"EXP-3-Transfer, with clustering": runs.CLUSTERED, "Probabilistic Policy Reuse, without": runs.ALL_PPR}


def reward_tables(results: Results) -> Tables:
    yield panels.numbers(_all(results), TWO.values())


def reward_pictures(results: Results) -> Pictures:
    found = _all(results)
    three = [one for one in found if one.setting.targets == 3]
    figure, (left, right) = figures.new_figure(13, 4.8, ncols=2, width_ratios=[1, 2])
    bars = {label: [one.reward(way) for one in three] for label, way in TWO.items()}
    panels.draw_bars(left, [f"{one.setting.previous}" for one in three], bars, "cumulative reward of 10,000 episodes")
    left.set(title="3 targets", xlabel="previous tasks")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    panels.score_bars(right, found, TWO, "All settings, in percent of optimal")
    yield "cumulative-reward", figure


# The paper's Table 1: EXP-3-Transfer and Policy Reuse with each clustering

SLUGS = {EXP3: "exp3", PPR: "ppr"}


def _by_clustering(algorithm: str, prefix: str = "") -> dict[str, Way]:
    return {prefix + how: Way(algorithm, how) for how in (runs.NONE, runs.GREEDY, runs.SEARCH, runs.PICKED)}


def clustering_tables(results: Results) -> Tables:
    found = _all(results)
    yield panels.numbers(found, [*runs.TABLE, runs.ALONE])
    for algorithm, slug in SLUGS.items():
        ways = _by_clustering(algorithm, f"{algorithm}, ")
        yield from panels.curves(found, ways, f"Clusterings, {algorithm}", f"{slug}-")
    rows = [
        [one.title, how, one.cells(how), one.cost(how)]
        for one in found
        for how in (runs.SEARCH, runs.GREEDY, runs.PICKED)
    ]
    yield "costs", Columns(["setting", "clustering", "cells", "cost"], rows)


def clustering_pictures(results: Results) -> Pictures:
    found = _all(results)
    for algorithm, slug in SLUGS.items():
        ways = _by_clustering(algorithm, f"{algorithm}, ")
        yield f"learning-curves-{slug}", panels.draw_panels(found, ways, f"Clusterings compared: {algorithm}")
    figure, both = figures.new_figure(13, 8.5, nrows=2)
    for axes, algorithm in zip(both, SLUGS, strict=True):
        panels.score_bars(axes, found, _by_clustering(algorithm), f"{algorithm}, by the sources it is given")
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    yield "scores", figure


# The worst-case cost; the claim about it is judged on the windy corridor, whose goals say what is intuitive

CASES = {"average case": runs.CLUSTERED, "worst case": runs.WORST_CASE}


def worst_case_tables(results: Results) -> Tables:
    found = _all(results)
    yield panels.numbers(found, CASES.values())
    rows = []
    for one in found:
        for name, how in (("average case", runs.SEARCH), ("worst case", runs.WORST)):
            clustering = one.clustering(how)
            radii = [clustering.mean_radius, float(clustering.radii.max())]
            rows.append([one.title, name, one.cells(how), one.cost(how), *radii])
    head = ["setting", "cost searched for", "cells", "average-case cost", "mean radius", "largest radius"]
    yield "clusterings", Columns(head, rows)


def worst_case_pictures(results: Results) -> Pictures:
    found = _all(results)
    figure, (left, right) = figures.new_figure(14, 4.8, ncols=2)
    panels.score_bars(left, found, CASES, "EXP-3-Transfer, by the cost that was searched for")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    counts = {name: [Measured(one.cells(way.clustering)) for one in found] for name, way in CASES.items()}
    panels.draw_bars(right, [panels.short(one.setting) for one in found], counts, "policies kept")
    right.set_title("How many policies each keeps")
    right.yaxis.get_major_locator().set_params(integer=True)
    yield "scores", figure


# The paper's Table 3: search against greedy in the complex domain, where one v-location of a group stands for all

COMPLEX_NAMES = [setting.name for setting in runs.COMPLEX]
COMPLEX_WAYS = {how: Way(EXP3, how) for how in (runs.SEARCH, runs.GREEDY, runs.PICKED, runs.NONE)}
PAPER = {"complex-100-2": (8.7102e6, 8.3667e6), "complex-200-2": (8.3667e6, 3.809e6)}
"""The paper's numbers, search and greedy. Its totals exceed what two captures can pay: compare the ratios."""


def complex_tables(results: Results) -> Tables:
    found = by_setting(results, COMPLEX_NAMES)
    yield panels.numbers(found.values(), COMPLEX_WAYS.values())
    rows = []
    for name, one in found.items():
        search, greedy = (one.reward(COMPLEX_WAYS[how]).value for how in (runs.SEARCH, runs.GREEDY))
        lead, theirs = one.score(runs.CLUSTERED) - one.score(COMPLEX_WAYS[runs.GREEDY]), PAPER[name]
        rows.append([one.setting.previous, search, greedy, search / greedy, *lead.row, *theirs, theirs[0] / theirs[1]])
    head = [
        "previous tasks", "search", "greedy", "ratio", "search over greedy, points of score", "low", "high",
        "paper: search", "paper: greedy", "paper: ratio",
    ]  # fmt: skip
    yield "table", Columns(head, rows)


def _with_sources(among: Sequence[SettingRuns], ways: Mapping[str, Way]) -> dict[str, Way]:
    """Labels that tell how many sources there are."""
    return {
        f"{label} ({'/'.join(str(r.cells(way.clustering)) for r in among)} sources)": way for label, way in ways.items()
    }


def complex_pictures(results: Results) -> Pictures:
    found = list(by_setting(results, COMPLEX_NAMES).values())
    figure, axes = figures.new_figure(8, 4.8)
    bars = {label: [one.reward(way) for one in found] for label, way in _with_sources(found, COMPLEX_WAYS).items()}
    panels.draw_bars(axes, [one.title for one in found], bars, "cumulative reward of 10,000 episodes")
    axes.set_title("Complex surveillance: EXP-3-Transfer by clustering")
    axes.legend(fontsize="small")
    yield "cumulative-reward", figure


# Tuned for T episodes

HORIZON_WAYS = {f"tuned for T = {way.episodes:,}": way for way in BY_HORIZON}


def horizon_tables(results: Results) -> Tables:
    found = _all(results)
    yield panels.numbers(found, BY_HORIZON)
    yield from panels.curves(found, HORIZON_WAYS, "Tuned for T")


def horizon_pictures(results: Results) -> Pictures:
    yield "learning-curves", panels.draw_panels(_all(results), HORIZON_WAYS, "EXP-3-Transfer tuned for T episodes")


# The paper's span and its plain chain, beside the tight span, our search, our learner and our selector. The plain chain
# is given our calibrated ladder: with ln lambda from 1 to 100, say, it does worse still.

CORRECTION_WAYS = {
    "paper's span, plain MHAV": Way(EXP3, runs.WIDE_PLAIN, bounds="paper"),
    "paper's span, our search": Way(EXP3, runs.WIDE, bounds="paper"),
    "tight span, plain MHAV": Way(EXP3, runs.PLAIN),
    "tight span, our search": runs.CLUSTERED,
    "and a learner that explores less and less": Way(DECAYING_EXP3, runs.SEARCH),
    "and our selector": runs.BEST,
}
CHANGES = "What each correction changes"


def correction_tables(results: Results) -> Tables:
    found = by_setting(results, runs.CORRECTED).values()
    yield from panels.curves(found, CORRECTION_WAYS, CHANGES)
    rows = [
        [one.title, label, one.cells(way.clustering), one.cost(way.clustering), *one.score(way).row]
        for one in found
        for label, way in CORRECTION_WAYS.items()
    ]
    head = ["setting", "variant", "sources", "cost with the tight span", "score", "low", "high"]
    yield "corrections", Columns(head, rows)


def correction_pictures(results: Results) -> Pictures:
    found = list(by_setting(results, runs.CORRECTED).values())
    yield "learning-curves", panels.draw_panels(found, CORRECTION_WAYS, CHANGES)
    figure, axes = figures.new_figure(9, 5.6)
    bars = {label: [one.score(way) for one in found] for label, way in _with_sources(found, CORRECTION_WAYS).items()}
    panels.draw_bars(axes, [one.title for one in found], bars, panels.SCORE)
    axes.set_title(CHANGES)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    yield "scores", figure


ALL = list(runs.UNITS.values())
EXPERIMENTS = [
    Experiment("algorithm-comparison", "Surveillance: algorithms compared", [*ALL, useless_sources.UNIT],
               algorithm_tables, algorithm_pictures, claims.algorithm_claims),
    Experiment("clustering-gains", "Surveillance: what clustering gains", ALL,
               gain_tables, gain_pictures, claims.gain_claims),
    Experiment("reward-summary", "Surveillance: cumulative reward against Policy Reuse", ALL,
               reward_tables, reward_pictures, claims.reward_claims),
    Experiment("clustering-comparison", "Surveillance: clusterings compared", ALL,
               clustering_tables, clustering_pictures, claims.search_claims),
    Experiment("worst-case-cost", "Surveillance: worst-case against average-case cost", ALL,
               worst_case_tables, worst_case_pictures),
    useless_sources.EXPERIMENT,
    Experiment("complex-domain", "Complex surveillance: search against greedy", [runs.UNITS[n] for n in COMPLEX_NAMES],
               complex_tables, complex_pictures),
    Experiment("time-comparison", "Surveillance: tuned for T episodes", ALL,
               horizon_tables, horizon_pictures, claims.horizon_claims),
    Experiment("corrections", "The paper against us: what each correction changes",
               [runs.UNITS[n] for n in runs.CORRECTED], correction_tables, correction_pictures),
]  # fmt: skip
"""In the paper's order."""
