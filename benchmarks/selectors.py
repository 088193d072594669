"""How well each selector does: scores with clustering, and what useless sources cost against Q-learning alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import machine, write_table
from pastmaster import (
    RECOMMENDED,
    Bounds,
    Exp3Transfer,
    QLearning,
    TabularMDP,
    TsallisINF,
    cross_values,
    decay,
    policy_distance,
    return_bounds,
    search_clusterings,
    solve,
    transfer,
)
from pastmaster.arrays import IntArray
from pastmaster.domains import surveillance, windy_corridor
from pastmaster.reuse.run import interval
from pastmaster_paper.experiments import useless_sources

EPISODES, TARGETS, TRIALS, REPOSITORIES = 10_000, 10, 10, 5
SURVEILLANCE = ((96, 2, 6), (256, 2, 16), (200, 3, 10))  # previous tasks, targets, group sequences
EVERY = QLearning(learn_from="every")
DECAYING = QLearning(epsilon=decay(0.1, 500))
PAPER: dict[str, Any] = {"selector": "exp3-transfer", "learner": QLearning()}  # what is not said below

BEST = "**recommended**: regret balancing, decaying epsilon"
Options = dict[str, Any]
ALGORITHMS: dict[str, Options] = {
    "PPR": {"selector": "ppr"},
    "EXP-3-Transfer, as in the paper": {},
    "EXP-3-Transfer, no elimination": {"selector": partial(Exp3Transfer, elimination="none")},
    "EXP-3-Transfer, anytime": {"selector": partial(Exp3Transfer, elimination="anytime")},
    "EXP-3-Transfer, anytime, shared": {"selector": partial(Exp3Transfer, elimination="anytime"), "share": True},
    "EXP-3-Transfer, anytime, learning from every episode": {
        "selector": partial(Exp3Transfer, elimination="anytime"), "learner": EVERY,
    },
    "Tsallis-INF": {"selector": "tsallis-inf"},
    "Tsallis-INF, anytime": {"selector": partial(TsallisINF, elimination="anytime")},
    "Tsallis-INF, anytime, shared": {"selector": partial(TsallisINF, elimination="anytime"), "share": True},
    "Tsallis-INF, anytime, shared, learning from every episode": {
        "selector": partial(TsallisINF, elimination="anytime"), "share": True, "learner": EVERY,
    },
    "regret balancing": {"selector": "regret-balancing"},
    "regret balancing, learning from every episode": {"selector": "regret-balancing", "learner": EVERY},
    "EXP-3-Transfer, as in the paper, decaying epsilon": {"learner": DECAYING},
    BEST: RECOMMENDED,
}  # fmt: skip
UNCLUSTERED = (
    "PPR", "EXP-3-Transfer, as in the paper", "Tsallis-INF, anytime", "Tsallis-INF, anytime, shared", BEST,
)  # fmt: skip


@dataclass(frozen=True)
class Repository:
    """Solved tasks, the policies kept of theirs, and new tasks of the same family."""

    policies: list[IntArray]
    kept: list[IntArray]
    bounds: Bounds
    targets: list[TabularMDP]

    @classmethod
    def of(cls, tasks: list[TabularMDP], targets: list[TabularMDP], rng: np.random.Generator) -> Repository:
        policies = [solve(task).policy for task in tasks]
        bounds = return_bounds(tasks)
        distance = policy_distance(cross_values(tasks, policies, n_jobs=2), paired=True)
        clustering = search_clusterings(distance, episodes=EPISODES, span=bounds.span, rng=rng)
        return cls(policies, [policies[i] for i in clustering.representatives], bounds, targets)


def surveilled(n_tasks: int, n_targets: int, n_sequences: int) -> list[Repository]:
    found = []
    for index in range(REPOSITORIES):
        rng = np.random.default_rng([2026, n_tasks, index])
        tasks = surveillance.family(n_tasks, n_targets, rng=rng, n_sequences=n_sequences)
        drawn = np.unique(surveillance.group_sequences(tasks), axis=0)[
            rng.integers(n_sequences, size=TARGETS // REPOSITORIES)
        ]
        locations = surveillance.groups()[drawn, rng.integers(4, size=drawn.shape)]
        found.append(Repository.of(tasks, [surveillance.task(place) for place in locations.tolist()], rng))
    return found


def windy(n_tasks: int) -> list[Repository]:
    found, family = [], windy_corridor.family()
    for index in range(REPOSITORIES):
        rng = np.random.default_rng([2026, n_tasks, index])
        tasks = [family[i] for i in rng.choice(len(family), n_tasks, replace=False)]
        goals = rng.choice([task.params["goal"] for task in tasks], TARGETS // REPOSITORIES)
        targets = [windy_corridor.task(int(goal), float(rng.uniform(0, 0.9))) for goal in goals]
        found.append(Repository.of(tasks, targets, rng))
    return found


def score(repositories: list[Repository], options: Options, which: str) -> tuple[float, float, int]:
    """100 (mean return - lower) / (optimum - lower), summed over targets; half its 95% interval; widenings."""
    got, wanted, widened = np.zeros(TRIALS), 0.0, 0
    for i, repository in enumerate(repositories):
        lower = repository.bounds.lower
        for j, target in enumerate(repository.targets):
            sources = {"none": [], "kept": repository.kept, "all": repository.policies}[which]
            run = transfer(
                target, sources, episodes=EPISODES, bounds=repository.bounds, rng=np.random.default_rng([11, i, j]),
                trials=TRIALS, n_jobs=2, on_violation="widen", **(PAPER | options),
            )  # fmt: skip
            got += run.total / EPISODES - lower
            wanted += float(cross_values([target])[0, 0]) - lower
            widened += int(run.widened.sum())
    mean, low, _ = interval(100 * got[:, None] / wanted)
    return float(mean[0]), float(mean[0] - low[0]), widened


def against_alone(instances: list[tuple[TabularMDP, list[TabularMDP]]], options: Options) -> float:
    """The cumulative reward with useless sources as a percentage of that of the same learner run alone."""
    totals, bounds = np.zeros(2), return_bounds([task for _, tasks in instances for task in tasks])
    for i, (target, tasks) in enumerate(instances):
        sources = [solve(task).policy for task in tasks]
        alone = {"learner": (PAPER | options)["learner"]}
        for place, (given, with_) in enumerate(((sources, options), ([], alone))):
            run = transfer(
                target, given, episodes=EPISODES, bounds=bounds, rng=np.random.default_rng([13, i]), trials=TRIALS,
                n_jobs=2, on_violation="widen", **(PAPER | with_),
            )  # fmt: skip
            totals[place] += run.total.mean()
    return float(100 * totals[0] / totals[1])


def run() -> None:
    settings = {f"surveillance {n}, {k} targets": surveilled(n, k, q) for n, k, q in SURVEILLANCE}
    settings |= {f"windy {n}": windy(n) for n in (30, 60, 100)}
    instances, lines, widened = useless_sources.instances(TARGETS, np.random.default_rng(2026)), list[str](), 0
    for name, options, which in (
        ("Q-learning alone", {}, "none"),
        ("Q-learning alone, decaying epsilon", {"learner": DECAYING}, "none"),
        *((name, options, "kept") for name, options in ALGORITHMS.items()),
        *((f"without clustering: {name}", ALGORITHMS[name], "all") for name in UNCLUSTERED),
    ):
        scores = [score(repositories, options, which) for repositories in settings.values()]
        widened += sum(count for _, _, count in scores)
        cells = [f"{mean:.1f} ± {half:.1f}" for mean, half, _ in scores]
        cells.append(f"{against_alone(instances, options):.1f}" if which == "kept" else "")
        lines.append("| " + " | ".join([name, *cells]) + " |")
        print(lines[-1], flush=True)
    kept = (
        f"{'/'.join(str(len(one.kept)) for one in repositories)} ({name})" for name, repositories in settings.items()
    )
    intro = f"{machine()} Policies kept: {', '.join(kept)}. Bounds were widened {widened} times in all runs."
    header = " | ".join(["score, %", *settings, "16 useless sources: % of alone"])
    write_table("selectors", intro, header, lines)
