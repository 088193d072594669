"""The arena: every selector on new tasks of every family, after few episodes and after many.

    python -m pastmaster_paper.arena     # in a clone: rewrites docs/performance.md, takes hours

A score is 100 (mean value - lower) / (optimum - lower), summed over the new tasks of a draw;
against opponents the worst source takes the place of the lower bound. What is averaged is the value
of the source that ran, and of a learner its return: the luck of single episodes of sources does not
count. Intervals are over draws of old and new tasks. With experience the sources are all old
policies, without it those that a clustering keeps. Selectors of others have no learner: they are
asked, and told returns drawn from ``POOL`` simulated episodes of each source.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from pastmaster import (
    Experience,
    TabularMDP,
    cross_values,
    policy_distance,
    return_bounds,
    return_spread,
    search_clusterings,
    solve,
    transfer,
)
from pastmaster.domains import surveillance, windy_corridor
from pastmaster_paper import leduc
from pastmaster_paper.arrays import FloatArray, IntArray, LongArray
from pastmaster_paper.docs_tables import DOCS, cells, measured_on, write_table
from pastmaster_paper.rivals import UCB1, BayesianPolicyReuse, LatentUCB, PolicyAdvice

EPISODES, DRAWS, TARGETS, POOL, SEED = (10, 30, 100, 300, 1_000, 10_000), 5, 10, 500, 2041
SETTINGS = {  # old tasks, targets, group sequences, complex; the last with the sequences of the undiscounted reading
    "surveillance 96/2": (96, 2, 6, False, 6), "surveillance 256/2": (256, 2, 16, False, 16),
    "surveillance 200/3": (200, 3, 10, False, 10), "surveillance 300/3": (300, 3, 20, False, 20),
    "complex 100": (100, 2, 6, True, 4), "complex 200": (200, 2, 12, True, 8),
}  # fmt: skip
UNDISCOUNTED = {"gamma": 0.999, "escape_ends": False}
OURS: dict[str, dict[str, Any]] = {
    "**informed**": {}, "**regret balancing**": {"selector": "regret-balancing"},
    "Tsallis-INF": {"selector": "tsallis-inf"}, "EXP-3-Transfer": {"selector": "exp3-transfer"},
    "PPR": {"selector": "ppr"},
}  # fmt: skip
RIVALS: dict[str, Callable[..., Any]] = {
    "BPR, expected improvement": partial(BayesianPolicyReuse, explore="expected-improvement"),
    "BPR, probability of improvement": partial(BayesianPolicyReuse, explore="probability-of-improvement"),
    "BPR, Thompson = mTS": partial(BayesianPolicyReuse, explore="thompson"),
    "mUCB": LatentUCB, "RLPA": PolicyAdvice, "UCB1": UCB1,
}  # fmt: skip
KNOWING = (BayesianPolicyReuse, LatentUCB)


@dataclass
class Draw:
    """Old tasks with their policies, new tasks, and what all policies are worth in both."""

    old: list[TabularMDP]
    new: list[TabularMDP]
    above_worst: bool = False
    policies: list[Any] = field(init=False)
    pools: dict[tuple[int, int], FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.policies = [solve(task).policy for task in self.old]
        self.U = np.asarray(cross_values(self.old, self.policies, n_jobs=2))
        self.worth = np.asarray(cross_values(self.new, self.policies, n_jobs=2))
        self.bounds = return_bounds([*self.old, *self.new])
        self.optimum = np.array([cross_values([task])[0, 0] for task in self.new])
        self.lower = self.worth.min(axis=1) if self.above_worst else np.full(len(self.new), self.bounds.lower)
        self.experience = Experience(self.U, spread=return_spread(self.old, self.policies))
        distance = policy_distance(self.U, paired=True)
        found = search_clusterings(distance, episodes=10_000, span=self.bounds.span, rng=0, certify=False)
        self.kept = np.asarray(found.representatives)

    def returns(self, target: int, source: int) -> FloatArray:
        """Simulated returns of a source in a new task."""
        if (target, source) not in self.pools:
            rng = np.random.default_rng([SEED, target, source])
            found = simulated_returns(self.new[target], self.policies[source], rng)
            self.pools[target, source] = np.clip(found, *self.bounds)
        return self.pools[target, source]

    def score(self, earned: FloatArray) -> float:
        """The score of what was earned in each new task, for each episode [new tasks]."""
        return float(100 * (earned - self.lower).sum() / (self.optimum - self.lower).sum())


def simulated_returns(task: TabularMDP, policy: IntArray, rng: np.random.Generator) -> FloatArray:
    """The returns of ``POOL`` episodes, all a step at a time.

    An outcome is the first whose cumulative probability is above a random number.
    """
    horizon = task.horizon or 200
    chances = rng.random((POOL, horizon + 1))
    probability, next_state, reward, terminated = task.outcomes()
    reach = cumulative(probability)
    state = task.start_states[drawn(cumulative(task.start_probability), chances[:, 0])]
    total, weight, going = np.zeros(POOL), 1.0, np.arange(POOL)
    for n in range(horizon):
        s, a = state[going], policy[state[going]]
        k = drawn(reach[s, a], chances[going, n + 1])
        total[going] += weight * reward[s, a, k]
        weight *= task.gamma
        state[going] = next_state[s, a, k]
        going = going[~terminated[s, a, k]]
        if not len(going):
            break
    return total


def cumulative(probability: FloatArray) -> FloatArray:
    """Cumulative probabilities along the last axis, 2 from the last possible outcome on: rounding leaves no gap."""
    n = probability.shape[-1]
    last = n - 1 - np.argmax(probability[..., ::-1] > 0, axis=-1)
    return np.where(np.arange(n) >= last[..., None], 2.0, np.cumsum(probability, axis=-1))


def drawn(reach: FloatArray, chances: FloatArray) -> LongArray:
    """The outcomes that random numbers choose [n], of cumulative probabilities [n, K] or [K]."""
    return np.asarray((chances[:, None] >= reach).sum(axis=-1))


def ours(draw: Draw, options: dict[str, Any], episodes: int, trial: int) -> float:
    """The score of a selector of the library, with its learner."""
    columns = np.arange(len(draw.policies)) if not options else draw.kept
    known: dict[str, Any] = {} if options else {"experience": draw.experience}
    earned = np.empty(len(draw.new))
    for k, target in enumerate(draw.new):
        run = transfer(
            target, [draw.policies[j] for j in columns], episodes=episodes, bounds=draw.bounds,
            rng=np.random.default_rng([SEED, trial, k]), on_violation="widen", **known, **options,
        )  # fmt: skip
        values = np.append(draw.worth[k, columns], 0.0)[run.arms[0]]
        mixing = options.get("selector") == "ppr"
        learner = np.full(run.arms[0].shape, mixing) | (run.arms[0] == len(columns))
        earned[k] = np.where(learner, run.returns[0], values).mean()
    return draw.score(earned)


def of_others(draw: Draw, make: Callable[..., Any]) -> list[float]:
    """One run of most episodes, looked at on the way: these selectors do not plan for a number of episodes."""
    kind = make.func if isinstance(make, partial) else make
    columns = np.arange(len(draw.policies)) if kind in KNOWING else draw.kept
    known = {"experience": draw.experience} if kind in KNOWING else {}
    earned = np.empty((len(draw.new), len(EPISODES)))
    for k in range(len(draw.new)):
        rng = np.random.default_rng([SEED, 9, k])
        selector, values = make(len(columns), bounds=draw.bounds, rng=rng, **known), np.empty(EPISODES[-1])
        for t in range(EPISODES[-1]):
            arm = selector.ask()
            pool = draw.returns(k, int(columns[arm]))
            values[t] = draw.worth[k, columns[arm]]
            selector.tell(arm, float(pool[rng.integers(POOL)]))
        earned[k] = [values[:t].mean() for t in EPISODES]
    return [draw.score(column) for column in earned.T]


def draws(name: str, reading: str, number: int) -> Draw:
    """A draw of a family."""
    rng = np.random.default_rng([SEED, number])
    if name == "windy corridor":
        return Draw(windy_corridor.family(), windy_corridor.new_tasks(TARGETS, rng=rng))
    if name == "Leduc":
        return Draw(leduc.family(60, rng=rng), leduc.new_tasks(TARGETS, rng=rng), above_worst=True)
    n, targets, sequences, is_complex, others = SETTINGS[name]
    settings, many = (UNDISCOUNTED, others) if reading else ({}, sequences)
    old = surveillance.family(n, targets, n_sequences=many, rng=rng, complex=is_complex, **settings)
    return Draw(old, surveillance.new_tasks(old, TARGETS, rng=rng))


def run() -> None:
    """Measure, and rewrite the table."""
    families = [(name, "") for name in ("windy corridor", "Leduc", *SETTINGS)]
    families += [(name, ", undiscounted") for name in SETTINGS]
    header = " | ".join(["family", "selector", *(f"T = {T:,}" for T in EPISODES)])
    drawn_of = f"{DRAWS} draws of old and of {TARGETS} new tasks"
    intro = f"{measured_on()} {drawn_of}; score, with half its 95% interval over draws."
    lines = []
    for name, reading in families:
        drawn = [draws(name, reading, number) for number in range(DRAWS)]
        for way, options in OURS.items():
            table = [[ours(draw, options, T, i) for T in EPISODES] for i, draw in enumerate(drawn)]
            lines.append(line(name + reading, way, table))
        for way, make in RIVALS.items():
            lines.append(line(name + reading, way, [of_others(draw, make) for draw in drawn]))
        write_table(DOCS / "performance.md", "arena", intro, header, lines)  # after each family: all of them take hours


def line(name: str, way: str, table: list[list[float]]) -> str:
    """A line of the table, printed as it is made."""
    print(text := "| " + " | ".join([name, way, *cells(np.array(table))]) + " |", flush=True)
    return text


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    run()
