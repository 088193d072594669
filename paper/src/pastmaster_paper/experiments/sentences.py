"""What the paper's experiments say, sentence by sentence: 28 records, and nothing that the paper does not say.

A sentence has parts, most of them one; a part has a statistic, a wanted sign, and the cases in which it is measured:
settings, as previous tasks-targets, or groups of them. E is EXP-3-Transfer, P is Probabilistic Policy Reuse, a gain is
what Search-Clusterings adds to all policies. The lines are those of the paper's LaTeX file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pastmaster_paper.experiments import coloured_grid, surveillance_runs as runs, windy_clusters, windy_incremental
from pastmaster_paper.experiments.pooled import CONTRARY, NOT_JUDGED, Pooled, verdict_of_all
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.setting import COMPLEX, SETTINGS, SIMPLE
from pastmaster_paper.experiments.surveillance_statistics import (
    Statistic,
    at,
    beyond,
    by_rank,
    final_gain,
    final_reuse_over_exp3,
    gain,
    horizon_cases,
    kept_up,
    lead,
    lead_grows,
    mean,
    over,
    over_both,
    share,
    slope,
    three_above_two,
    tuned_above,
    tuned_lead,
)
from pastmaster_paper.experiments.unit import Results
from pastmaster_paper.experiments.ways import EXP3, PPR, Way

REWARD = "reward an episode"
STEEP = "reward an episode, for each 100 previous tasks"
E, P, Q, BARE = runs.CLUSTERED, runs.ALL_PPR, runs.ALONE, runs.BARE
GREEDY, PLAIN_E = Way(EXP3, runs.GREEDY), Way(EXP3, runs.NONE)

ALL, ALL_SIMPLE = tuple(one.name for one in SETTINGS), tuple(one.name for one in SIMPLE)
SEVERAL = tuple(one.name for one in SIMPLE if one.targets > 1)
THREE = tuple(one.name for one in SIMPLE if one.targets == 3)
BOTH, FEWEST, MOST = ("2 targets", "3 targets"), ("96-2", "100-3"), ("256-2", "300-3")
COMPLEX_NAMES = tuple(one.name for one in COMPLEX)


@dataclass(frozen=True)
class Part:
    """A statistic, the cases in which it is measured, and what is wanted of each; without a rule it is only shown."""

    statistic: Statistic
    cases: Sequence[str]
    rule: str = ""
    limit: float = 0.0
    unit: str = REWARD
    what: str = ""

    @property
    def wanted(self) -> str:
        """What is wanted, in words."""
        return f"{self.rule} {self.limit:g}" if self.rule else ""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the paper: its number, its lines, what it says in our words, its parts, and the experiment."""

    id: int
    lines: str
    words: str
    experiment: str
    parts: Sequence[Part]

    @property
    def of_reading(self) -> bool:
        """Whether a reading changes it: only the surveillance domain is open to readings."""
        return self.experiment not in COMMON


COMMON = ("coloured-grid", "windy-clusters", "windy-incremental")
"""Experiments that no reading changes."""
GAINS, ALGORITHMS, REWARDS, CLUSTERINGS, COMPLEX_DOMAIN, HORIZON = (
    "clustering-gains", "algorithm-comparison", "reward-summary", "clustering-comparison", "complex-domain",
    "time-comparison",
)  # fmt: skip

SENTENCES = (
    Sentence(1, "891, 904", "Clusters by policy keep tasks of one ray together better than a mixture over parameters",
             "coloured-grid", [
                 Part(coloured_grid.together_more, coloured_grid.MIXTURES, ">", 0, "share of neighbours in angle"),
                 Part(coloured_grid.regret_less, coloured_grid.MIXTURES, unit="mean regret that ours saves"),
             ]),
    Sentence(2, "923, 929", "All tasks with one goal are in one cluster", "windy-clusters", [
        Part(windy_clusters.in_goals_cell, windy_clusters.WINDS, ">", 0.9, "share of tasks in their goal's cell"),
    ]),
    Sentence(3, "932", "Clusters stay largely the same as tasks are added one by one; there are 12 in the end",
             "windy-incremental", [
                 Part(windy_incremental.agreement, ["consecutive clusterings"], ">", 0.8, "adjusted Rand index"),
                 Part(windy_incremental.final_cells, ["cells in the end"], "about", 12, "cells"),
             ]),
    Sentence(4, "484, 1319", "The worst-case cost finds less intuitive clusters than the average-case cost",
             "windy-clusters", [
                 Part(windy_clusters.average_agrees_more, windy_clusters.WINDS, ">", 0, "adjusted Rand index, goals"),
             ]),
    Sentence(5, "989", "E always gains from clustering", GAINS, [Part(at(gain(EXP3)), SEVERAL, ">")]),
    Sentence(6, "989", "E's gain rises with the number of previous tasks", GAINS,
             [Part(slope(gain(EXP3)), BOTH, ">", 0, STEEP)]),
    Sentence(7, "989", "The curve of E's gain with 3 targets lies above that with 2", GAINS,
             [Part(three_above_two, ["100 to 256 previous tasks"], ">")]),
    Sentence(8, "993", "P does not gain from clustering, it loses", GAINS, [Part(at(gain(PPR)), ALL, "<")]),
    Sentence(9, "993", "P loses the more, the more complex the tasks", GAINS,
             [Part(slope(gain(PPR)), BOTH, "<", 0, STEEP)]),
    Sentence(10, "995", "With few previous tasks E's gain in the last episodes is negative", GAINS,
             [Part(at(final_gain(EXP3)), FEWEST, "<")]),
    Sentence(11, "995", "So is P's", GAINS, [Part(at(final_gain(PPR)), FEWEST, "<")]),
    Sentence(12, "995", "P's is the higher of the two", GAINS, [Part(at(final_reuse_over_exp3), FEWEST, ">")]),
    Sentence(13, "995", "With many previous tasks E's is positive", GAINS, [Part(at(final_gain(EXP3)), MOST, ">")]),
    Sentence(14, "995", "P's goes on falling", GAINS, [Part(slope(final_gain(PPR)), BOTH, "<", 0, STEEP)]),
    Sentence(15, "997", "E with clustering beats P without, with 3 targets", REWARDS,
             [Part(at(lead(E, P)), THREE, ">")]),
    Sentence(16, "997", "It does so most with 300 previous tasks", REWARDS,
             [Part(over(lead(E, P), "300-3"), ("100-3", "200-3"), ">", what="lead at 300-3 less that at")]),
    Sentence(17, "962", "The more complex the task, the better E does against P", REWARDS,
             [Part(by_rank(share(lead(E, P))), ["all simple"], ">", 0, "percent of the optimum, a setting more")]),
    Sentence(18, "978", "E beats Q-learning by a large margin", ALGORITHMS, [
        Part(at(lead(E, Q)), ALL_SIMPLE, ">"),
        Part(at(share(lead(E, Q))), ALL_SIMPLE, unit="percent of the optimum"),
    ]),
    Sentence(19, "1401", "With few simple tasks P is better than E", ALGORITHMS, [Part(at(lead(P, E)), ["64-1"], ">")]),
    Sentence(20, "1401", "With complex ones E beats P with clustering and without", ALGORITHMS,
             [Part(at(over_both), ("200-3", "300-3"), ">")]),
    Sentence(21, "430", "Without elimination E does not beat P", ALGORITHMS,
             [Part(mean(lead(BARE, P)), ["all simple"], "<=")]),
    Sentence(22, "426", "Elimination improves E greatly", ALGORITHMS, [
        Part(mean(lead(E, BARE)), ["all simple"], ">"),
        Part(mean(share(lead(E, BARE))), ["all simple"], unit="percent of the optimum"),
    ]),
    Sentence(23, "1017", "E with search is better than without clustering", CLUSTERINGS,
             [Part(at(lead(E, PLAIN_E)), ALL, ">")]),
    Sentence(24, "1017", "Greedy is about as good as search with 100 and 260 previous tasks", CLUSTERINGS,
             [Part(at(share(lead(E, GREEDY))), ("96-2", "256-2"), "within", 2, "percent of the optimum")]),
    Sentence(25, "1017", "Search is better than greedy with 125", CLUSTERINGS,
             [Part(at(lead(E, GREEDY)), ["125-2"], ">")]),
    Sentence(26, "1021", "In the complex domain search is better than greedy, by a factor of 2 as tasks grow",
             COMPLEX_DOMAIN, [
                 Part(at(beyond(1)), ["complex-100-2"], ">", what="search less greedy"),
                 Part(at(beyond(2)), ["complex-200-2"], ">", what="search less twice greedy"),
                 Part(lead_grows, ["200 over 100"], ">", what="search less greedy"),
             ]),
    Sentence(27, "1035", "There search keeps its level from 100 to 200 previous tasks, and greedy does not",
             COMPLEX_DOMAIN, [
                 Part(kept_up(E, 0.9), ["search"], ">", what="reward with 200 less 0.9 of that with 100"),
                 Part(kept_up(GREEDY, 0.9), ["greedy"], "<", what="reward with 200 less 0.9 of that with 100"),
             ]),
    Sentence(28, "1063", "Up to T, the curve tuned for T lies above those tuned for more", HORIZON, [
        Part(tuned_lead, horizon_cases(), ">", what="all settings"),
        Part(tuned_above, horizon_cases()[2::3], unit="share of points above, all settings"),
    ]),
)  # fmt: skip
BY_ID = {one.id: one for one in SENTENCES}


@dataclass(frozen=True)
class Case:
    """A figure of a sentence, in one case: pooled over draws, and its verdict; "" where it is only shown."""

    name: str
    what: str
    unit: str
    wanted: str
    figure: Pooled
    verdict: str


@dataclass(frozen=True)
class Judged:
    """A sentence under a reading; with "" as its reading, under any."""

    id: int
    reading: str
    verdict: str
    cases: Sequence[Case] = field(default_factory=list)

    def held(self) -> list[str]:
        """The cases that hold."""
        return [case.name for case in self.judged() if case.verdict == "holds"]

    def failed(self) -> list[str]:
        """The cases that are contrary."""
        return [case.name for case in self.judged() if case.verdict == CONTRARY]

    def judged(self) -> list[Case]:
        """The cases that decide."""
        return [case for case in self.cases if case.wanted]

    def table(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def judge(sentence: Sentence, draws: Sequence[Results], reading: Reading | None, *, quick: bool = False) -> Judged:
    """A sentence from what was found in each draw; a quick run judges nothing."""
    name, cases = reading.name if reading is not None else "", []
    for part in sentence.parts:
        for case in part.cases:
            values = [part.statistic(results, reading, case) for results in draws]
            figure = Pooled.of(values, f"{sentence.id} {name} {case} {part.unit}")
            verdict = (NOT_JUDGED if quick else figure.verdict(part.rule, part.limit)) if part.rule else ""
            cases.append(Case(case, part.what, part.unit, part.wanted, figure, verdict))
    return Judged(sentence.id, name, verdict_of_all([case.verdict for case in cases if case.wanted]), cases)
