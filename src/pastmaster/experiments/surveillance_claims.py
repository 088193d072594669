"""The claims about surveillance, each a list of checks on what was run in the settings."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from pastmaster.experiments import surveillance_runs as runs, useless_sources
from pastmaster.experiments.claims import MARGIN, Check, Checks, check
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.surveillance_runs import SettingRuns, by_setting
from pastmaster.experiments.unit import Results
from pastmaster.experiments.ways import EXP3, PPR, Way

FAR = 10.0
"""Points of score from which on one is called far above another."""
RARELY = 0.05
"""The share of points that may lie below where a curve is said to lie above another."""
ROUNDING = 1e-9
BY_HORIZON = (*runs.TUNED, runs.CLUSTERED)
GROWTH = (
    ("125-2", "96-2"), ("256-2", "125-2"), ("200-3", "100-3"), ("300-3", "200-3"), ("100-3", "96-2"), ("300-3", "256-2")
)  # fmt: skip
"""Settings with more previous tasks, or more targets, and the settings they are compared with."""
FINAL: dict[str, tuple[str, float]] = {
    "96-2": ("<=", MARGIN), "100-3": ("<=", MARGIN), "256-2": (">", 0.0), "300-3": (">", 0.0)
}  # fmt: skip
"""The final gain is small at the first points of the curves of 2 and 3 targets, and positive at the last."""


def algorithm_claims(results: Results) -> Checks:
    found = by_setting(results)

    def leads(way: Way, over: Way, rule: str, among: Iterable[SettingRuns]) -> list[Check]:
        name = f"{way.label} over {over.label}, "
        return [check(name + one.title, one.score(way) - one.score(over), rule) for one in among]

    name, every = f"final: {runs.CLUSTERED.label} over {runs.ALONE.label}, ", found.values()
    leads_at_end = [(one.title, one.final(runs.CLUSTERED) - one.final(runs.ALONE)) for one in every]
    return {
        "ppr-simple": leads(runs.ALL_PPR, runs.CLUSTERED, ">", [found[runs.SIMPLE[0].name]]),
        "elimination-needed": leads(runs.BARE, runs.ALL_PPR, "not shown >", every),
        "beats-q": [
            *(check(name + title, lead, ">=", FAR) for title, lead in leads_at_end),
            *leads(runs.CLUSTERED, runs.ALONE, ">", every),
            *useless_sources.compared_with_alone(results),
        ],
    }


def gain(one: SettingRuns, algorithm: str) -> Measured:
    """The score with Search-Clusterings less that without, over all episodes."""
    return one.score(Way(algorithm, runs.SEARCH)) - one.score(Way(algorithm, runs.NONE))


def final_gain(one: SettingRuns, algorithm: str) -> Measured:
    """The same in the last episodes."""
    return one.final(Way(algorithm, runs.SEARCH)) - one.final(Way(algorithm, runs.NONE))


def reward_gain(one: SettingRuns, algorithm: str) -> Measured:
    """The same in cumulative reward."""
    return one.reward(Way(algorithm, runs.SEARCH)) - one.reward(Way(algorithm, runs.NONE))


def gain_claims(results: Results) -> Checks:
    found = by_setting(results)
    gains = {name: gain(one, EXP3) for name, one in found.items()}
    rewards = {name: reward_gain(one, EXP3) for name, one in found.items()}
    reuse = {one.title: gain(one, PPR) for one in found.values()}
    mean = Measured.combined(list(reuse.values()), lambda *parts: np.mean(parts, axis=0))
    pairs = [(f"gain, {found[more].title} over {found[less].title}", more, less) for more, less in GROWTH]
    return {
        "gain-positive": [check(f"gain, {one.title}", gains[name], ">") for name, one in found.items()],
        "gain-grows": [
            *(check(title, gains[more] - gains[less], ">") for title, more, less in pairs),
            *(check(title, rewards[more] - rewards[less], unit="reward") for title, more, less in pairs),
        ],
        "final-gain": [
            check(f"final gain, {one.title}", final_gain(one, EXP3), *FINAL.get(name, ()))
            for name, one in found.items()
        ],
        "ppr-no-gain": [
            check("gain of Policy Reuse, mean of all settings", mean, "<=", MARGIN),
            *(check(f"gain of Policy Reuse, {title}", one, "not shown >", MARGIN) for title, one in reuse.items()),
        ],
    }


def reward_claims(results: Results) -> Checks:
    found = {name: one for name, one in by_setting(results).items() if one.setting.targets > 1}  # one: ppr-simple
    leads = {name: one.score(runs.CLUSTERED) - one.score(runs.ALL_PPR) for name, one in found.items()}
    most = found["300-3"]
    wins = [check(f"lead over Policy Reuse, {one.title}", leads[name], ">") for name, one in found.items()]
    margins = [
        check(f"lead with {most.title} over that with {one.title}", leads[most.name] - leads[name], ">")
        for name, one in found.items()
        if one is not most
    ]
    return {"beats-ppr": [*wins, *margins]}


def search_claims(results: Results) -> Checks:
    found = by_setting(results)
    costs = {one.title: Measured(one.cost(runs.SEARCH) - one.cost(runs.GREEDY)) for one in found.values()}
    leads = {name: one.score(runs.CLUSTERED) - one.score(Way(EXP3, runs.GREEDY)) for name, one in found.items()}
    rules: list[tuple[str, str, float]] = [("100-3", "about 0, within", MARGIN), ("256-2", "about 0, within", MARGIN)]
    rules += [(name, ">", 0.0) for name in ("125-2", "complex-100-2", "complex-200-2")]
    checks = [
        *(check(f"cost of search less that of greedy, {t}", x, "<=", ROUNDING, "cost") for t, x in costs.items()),
        *(
            check(f"transfer with search over that with greedy, {found[name].title}", leads[name], rule, limit)
            for name, rule, limit in rules
        ),
        check(
            "that lead with 200 complex previous tasks over that with 100",
            leads["complex-200-2"] - leads["complex-100-2"],
            ">",
        ),
    ]
    return {"search-vs-greedy": checks}


def horizon_claims(results: Results) -> Checks:
    found = by_setting(results, [setting.name for setting in runs.SIMPLE]).values()
    checks = []
    for short, long in combinations(BY_HORIZON, 2):
        name = f"points at which T = {short.episodes:,} lies below T = {long.episodes:,} beyond chance, all settings"
        below = Measured(float(np.mean([one.below(short, long) for one in found])))
        checks.append(check(name, below, "<=", RARELY, "share of points"))
    for one in found:
        for short, long in combinations(BY_HORIZON, 2):
            name = f"T = {short.episodes:,} over T = {long.episodes:,} in the first {short.episodes:,}, {one.title}"
            checks.append(check(name, one.score(short) - one.score(long, short.episodes), ">"))
    return {"horizon": checks}
