"""Claims of the paper, each a list of checks.

A check compares one measurement with what the claim wants. It holds when the whole 95% interval lies on that side, so a
difference that chance could explain does not count. Where a claim *denies* something, its check holds unless that is
shown. A claim holds when all of its checks do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pastmaster.experiments.measured import Measured

SCORE = "percent of optimal, counted from the worst possible return"
"""What a score is: 0 is the worst possible return, 100 the optimal one."""
POINTS = "points of score"
MARGIN = 2.0
"""Points of score within which two ways of transfer are called about equal, and a gain small."""
REPRODUCED = 0.9
"""The share of seeds on which a claim must hold to count as reproduced."""

SENTENCES = {
    "colour-rays": "Coloured grid: our clusters are contiguous in angle; a Dirichlet-process Gaussian mixture over the "
    "weights splits rays and needs more clusters for a higher mean regret.",
    "windy-goals": "Windy corridor: tasks with the same goal share a cell, except for the windiest.",
    "windy-incremental": "Adding the 100 windy tasks one by one in random order keeps assignments largely stable "
    "(adjusted Rand index between consecutive clusterings).",
    "worst-case-poor": "The worst-case cost finds less intuitive clusters than the average-case cost (windy corridor, "
    "compared with the goals).",
    "gain-positive": "EXP-3-Transfer's cumulative reward with Search-Clusterings exceeds that without, for every "
    "number of previous tasks.",
    "gain-grows": "That gain grows with the number of previous tasks and with the number of targets.",
    "final-gain": "The gain in the final episode is small or negative for few previous tasks and turns positive for "
    "many.",
    "ppr-no-gain": "Probabilistic Policy Reuse gains little or loses from clustering.",
    "ppr-simple": "Probabilistic Policy Reuse is better for few previous tasks and simple targets.",
    "beats-ppr": "EXP-3-Transfer with clustering beats Probabilistic Policy Reuse without, most at 300 previous tasks "
    "and 3 targets.",
    "elimination-needed": "Without elimination EXP-3-Transfer does not beat Probabilistic Policy Reuse.",
    "beats-q": "EXP-3-Transfer with clustering ends far above Q-learning. Shown with it: what useless sources cost "
    "compared with Q-learning alone.",
    "search-vs-greedy": "Search-Clusterings costs no more than greedy in every instance; its transfer is about equal "
    "at 100 and 256 previous tasks and better at 125; in the complex domain it is better, most at 200.",
    "horizon": "For t <= T, the learning curve tuned for T lies above those tuned for larger T.",
}

REASONS = {
    "colour-rays": "Points drawn from a uniform square have no clusters. Under scikit-learn's default priors the "
    "mixture finds one to three, about as many as we do. With priors for small components it needs about five more. "
    "In both cases its cells cut across rays and cost more regret.",
    "worst-case-poor": "With the tight span and a search that finds the optimum, the worst case also finds cells of "
    "one goal. It cuts them finer, but leaves the windiest tasks with their goals, where the average case mixes them. "
    "Where wind is below 0.8 the average case agrees better with the goals, as claimed.",
    "gain-grows": "It grows from the fewest to the most previous tasks, but not at every step on nine of ten seeds: "
    "the difficulty of the drawn targets varies more than settings of nearly the same size differ. From two to three "
    "targets at about 100 previous tasks it tends to shrink, because five sequences make fewer cells than six.",
    "final-gain": "Among 96 or 100 sources EXP-3-Transfer has not settled after 10,000 episodes. It still explores "
    "them, so keeping five or six still gains points at the end. For a loss the kept policies would have to be worse, "
    "and in this domain the policies of a cell are equally good.",
    "ppr-no-gain": "No setting shows a gain, and the mean gain is below 2 points on every seed. But Policy Reuse "
    "varies so much from trial to trial that on some seeds the interval of the mean does not exclude 2 points.",
    "ppr-simple": "With the tight span EXP-3-Transfer finds the right source in about 3,000 episodes and then stays "
    "with it. Policy Reuse learns fast, but keeps exploring as its learner does. With the paper's span, which slows "
    "the bandit down, EXP-3-Transfer stays far below Policy Reuse where we ran it: see the corrections.",
    "beats-ppr": "It beats Policy Reuse in all simple settings of two and three targets, but not most at 300 previous "
    "tasks: what hurts Policy Reuse is distant targets, not many sources, and their distance is a matter of chance. In "
    "the complex domain, where kept policies may be of no use to a new task, either may win.",
    "elimination-needed": "With the tight span EXP-3-Transfer beats Policy Reuse in most simple settings even without "
    "elimination, which adds about 5 points. With the paper's span, which slows the bandit down, it does not beat it "
    "even with elimination: see the corrections.",
    "beats-q": "It does in every setting of the simple domain. In the complex one a leaf does not stand in for another "
    "leaf: the kept policies may be of no use to a new task, and the learner lacks the episodes they take.",
    "search-vs-greedy": "In the simple domain the policies of a group are equally good, so greedy finds the same "
    "cells, at 125 as elsewhere. In the complex domain search costs less, but a cost is an average over the previous "
    "tasks: ten new ones may differ in either direction.",
    "horizon": "Tuned for T it earns more up to T, in total. But a shorter T means more exploration, at a rate of "
    "about 1 / sqrt(T): it learns faster and ends lower, so its curve crosses the others before T.",
}
"""What we think the reason is where a claim fails."""


@dataclass(frozen=True)
class Check:
    """One measurement with its 95% interval, and what is wanted of it.

    ``value`` is None if it is not finite; ``low`` and ``high`` are None if it is exact; ``held`` is None if nothing is
    wanted.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    wanted: str
    held: bool | None


RULES: dict[str, Callable[[float, float, float], bool]] = {
    ">": lambda low, high, limit: low > limit,
    ">=": lambda low, high, limit: low >= limit,
    "<=": lambda low, high, limit: high <= limit,
    "not shown >": lambda low, high, limit: low <= limit,
    "about 0, within": lambda low, high, limit: -limit <= low and high <= limit,
}
"""When a check holds, by the ends of the interval; what is no number holds nowhere."""


def check(name: str, measured: Measured, rule: str = "", limit: float = 0.0, unit: str = POINTS) -> Check:
    """A measurement against a rule; without a rule it is shown next to the claim and decides nothing."""
    ends = [None, None] if measured.resampled is None else [measured.low, measured.high]
    value, low, high = (x if x is not None and math.isfinite(x) else None for x in (measured.value, *ends))
    held = bool(RULES[rule](measured.low, measured.high, limit)) if rule else None
    return Check(name, value, low, high, unit, f"{rule} {limit:g}" if rule else "", held)


Checks = dict[str, list[Check]]
"""By claim."""


@dataclass(frozen=True)
class Claim:
    """A claim over all seeds, as ``claims.json`` holds it: the checks are those of the first seed."""

    id: str
    sentence: str
    experiment: str
    held: list[bool]
    """On each seed, whether every judged check held."""
    reproduced: bool | None
    """None: not judged."""
    reason: str
    checks: list[Check]
    checks_held: list[int | None]
    """On how many seeds each check held; None: not judged."""
    values: list[list[float | None]]
    """The value of each check on each seed."""


def judge(id: str, experiment: str, by_seed: Sequence[Sequence[Check]], *, quick: bool = False) -> Claim:
    """A claim from its checks on each seed; a quick run says nothing about whether it is reproduced."""
    held = [_all_held(checks) for checks in by_seed]
    reproduced = sum(held) >= REPRODUCED * len(held)
    same = list(zip(*by_seed, strict=True))
    return Claim(
        id, SENTENCES[id], experiment, held, None if quick else reproduced,
        "" if quick or reproduced else REASONS.get(id, ""), list(by_seed[0]),
        [None if one[0].held is None else sum(bool(check.held) for check in one) for one in same],
        [[check.value for check in one] for one in same],
    )  # fmt: skip


def _all_held(checks: Sequence[Check]) -> bool:
    """Whether every judged check held; with none judged the claim does not hold."""
    judged = [check.held for check in checks if check.held is not None]
    return bool(judged) and all(judged)
