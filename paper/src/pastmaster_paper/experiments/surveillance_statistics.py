"""Statistics of the surveillance sentences: one number for each draw, in reward an episode unless said otherwise.

A statistic is given the runs of one draw, by setting, and the name of a case: a setting, or several ("2 targets").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pastmaster_paper.experiments import surveillance_runs as runs
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import WINDOWS
from pastmaster_paper.experiments.setting import SETTINGS, SIMPLE
from pastmaster_paper.experiments.surveillance_runs import SettingRuns, by_setting
from pastmaster_paper.experiments.unit import Results
from pastmaster_paper.experiments.ways import EXP3, PPR, Way

Runs = Mapping[str, SettingRuns]
Measure = Callable[[SettingRuns], float]
Statistic = Callable[[Results, Reading | None, str], float]
"""Of a draw, a reading and a case."""

GROUPS = {
    "2 targets": [one.name for one in SIMPLE if one.targets == 2],
    "3 targets": [one.name for one in SIMPLE if one.targets == 3],
    "all simple": [one.name for one in SIMPLE],
    "all": [one.name for one in SETTINGS],
}
COMMON = (100, 125, 200, 256)
"""Numbers of previous tasks at which the curves of 2 and 3 targets are compared."""


def on_runs(statistic: Callable[[Runs, str], float]) -> Statistic:
    """A statistic of the runs by setting."""

    def of_results(results: Results, reading: Reading | None, case: str) -> float:
        assert reading is not None
        return statistic(by_setting(results, reading), case)

    return of_results


def at(measure: Measure) -> Statistic:
    """A measure of the case, a setting."""
    return on_runs(lambda found, case: measure(found[case]))


def mean(measure: Measure) -> Statistic:
    """A measure, as a mean over the settings of the case."""
    return on_runs(lambda found, case: float(np.mean([measure(found[name]) for name in GROUPS[case]])))


def slope(measure: Measure) -> Statistic:
    """By how much a measure rises with each 100 previous tasks, among the settings of the case."""

    def of_runs(found: Runs, case: str) -> float:
        chosen = [found[name] for name in GROUPS[case]]
        return _slope([one.setting.previous / 100 for one in chosen], [measure(one) for one in chosen])

    return on_runs(of_runs)


def by_rank(measure: Measure) -> Statistic:
    """By how much a measure rises from one setting to the next, in the order of their complexity."""

    def of_runs(found: Runs, case: str) -> float:
        values = [measure(found[name]) for name in GROUPS[case]]
        return _slope(list(range(len(values))), values)

    return on_runs(of_runs)


def _slope(x: list[float] | list[int], y: list[float]) -> float:
    return float(np.polyfit(x, y, 1)[0])


def over(measure: Measure, base: str) -> Statistic:
    """A measure of the setting ``base``, less that of the case."""
    return on_runs(lambda found, case: measure(found[base]) - measure(found[case]))


def gain(algorithm: str) -> Measure:
    """What Search-Clusterings adds."""
    return lambda one: one.reward(Way(algorithm, runs.SEARCH)) - one.reward(Way(algorithm, runs.NONE))


def final_gain(algorithm: str) -> Measure:
    """What it adds in the last episodes."""
    return lambda one: one.final(Way(algorithm, runs.SEARCH)) - one.final(Way(algorithm, runs.NONE))


def lead(way: Way, other: Way) -> Measure:
    """What one way earns more than another."""
    return lambda one: one.reward(way) - one.reward(other)


def share(measure: Measure) -> Measure:
    """A measure in percent of what an optimal policy earns."""
    return lambda one: 100.0 * measure(one) / one.optimum


def over_both(one: SettingRuns) -> float:
    """What EXP-3-Transfer with clustering earns more than the better of the two versions of Policy Reuse."""
    return one.reward(runs.CLUSTERED) - max(one.reward(runs.ALL_PPR), one.reward(Way(PPR, runs.SEARCH)))


@on_runs
def three_above_two(found: Runs, _: str) -> float:
    """The curve of the gain with 3 targets less that with 2, interpolated at equal numbers of previous tasks."""
    curves = []
    for case in ("3 targets", "2 targets"):
        chosen = [found[name] for name in GROUPS[case]]
        curves.append(np.interp(COMMON, [one.setting.previous for one in chosen], [gain(EXP3)(o) for o in chosen]))
    return float((curves[0] - curves[1]).mean())


def final_reuse_over_exp3(one: SettingRuns) -> float:
    """The final gain of Policy Reuse less that of EXP-3-Transfer."""
    return final_gain(PPR)(one) - final_gain(EXP3)(one)


def beyond(factor: float) -> Measure:
    """What search earns beyond so many times what greedy does: above 0 where the ratio is more."""
    return lambda one: one.reward(runs.CLUSTERED) - factor * one.reward(Way(EXP3, runs.GREEDY))


def kept_up(way: Way, factor: float) -> Statistic:
    """The reward with 200 complex previous tasks beyond ``factor`` times that with 100."""
    return on_runs(lambda found, _: found["complex-200-2"].reward(way) - factor * found["complex-100-2"].reward(way))


@on_runs
def lead_grows(found: Runs, _: str) -> float:
    """What search earns more than greedy with 200 complex previous tasks, less the same with 100."""
    return beyond(1.0)(found["complex-200-2"]) - beyond(1.0)(found["complex-100-2"])


def horizon_cases() -> list[str]:
    """T, a longer T', and t up to T: what is earned up to t is compared."""
    pairs = [(short, long) for short in runs.BY_HORIZON for long in runs.BY_HORIZON if short.episodes < long.episodes]
    return [
        f"T = {short.episodes:,} over {long.episodes:,}, up to t = {short.episodes // part:,}"
        for short, long in pairs
        for part in (5, 2, 1)
    ]


def _of_case(case: str) -> tuple[Way, Way, int]:
    numbers = case.replace(",", "").split()
    ways = {way.episodes: way for way in runs.BY_HORIZON}
    return ways[int(numbers[2])], ways[int(numbers[4])], int(numbers[-1])


@on_runs
def tuned_lead(found: Runs, case: str) -> float:
    """What the curve tuned for T earns more, up to t, than that tuned for T': a mean over all settings."""
    short, long, t = _of_case(case)
    return float(np.mean([one.upto(short, t) - one.upto(long, t) for one in found.values()]))


@on_runs
def tuned_above(found: Runs, case: str) -> float:
    """The share of points up to T at which the curve tuned for T lies above that tuned for T', over all settings."""
    short, long, _ = _of_case(case)
    ratio = long.episodes // short.episodes
    n = WINDOWS // ratio
    above = []
    for one in found.values():
        own = one.curve(short)[: n * ratio].reshape(n, ratio).mean(axis=1)
        above.append(float(np.mean(own > one.curve(long)[:n])))
    return float(np.mean(above))
