"""Claims on made-up data: where they hold they hold, and each fails where it should."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import experiments_world as world
import numpy as np
import pytest

from pastmaster.experiments import EXPERIMENTS
from pastmaster.experiments.claims import MARGIN, RULES, SENTENCES, Claim, check, judge
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.scale import EPISODES
from pastmaster.experiments.surveillance_runs import ALONE, BARE, GREEDY, NONE, SEARCH, SETTINGS, TUNED, ways
from pastmaster.experiments.ways import EXP3, PPR, Way

Results = dict[str, Any]


def judged(results: Results) -> dict[str, Claim]:
    claims = [
        judge(name, experiment.name, [checks])
        for experiment in EXPERIMENTS.values()
        for name, checks in experiment.claims(results).items()
    ]
    assert len({claim.id for claim in claims}) == len(claims)
    return {claim.id: claim for claim in claims}


def test_every_claim_is_judged_and_holds_in_the_world_made_for_it(rng: np.random.Generator) -> None:
    found = judged(world.results(rng))
    assert set(found) == set(SENTENCES)
    assert [claim.id for claim in found.values() if claim.held != [True]] == []


def scored(changed: Callable[[str, Way, int], float | None]) -> Callable[[np.random.Generator], Results]:
    """The world with some scores changed."""

    def scores(setting: str, way: Way, episodes: int) -> float:
        other = changed(setting, way, episodes)
        return world.score(setting, way, episodes) if other is None else other

    return lambda rng: world.results(rng, scores)


def finally_(changed: Callable[[str, Way], float | None]) -> Callable[[np.random.Generator], Results]:
    """The world with some final scores changed."""

    def finals(setting: str, way: Way) -> float:
        other = changed(setting, way)
        return world.final(setting, way) if other is None else other

    return lambda rng: world.results(rng, finals=finals)


def altered(unit: str, name: str, change: Callable[[np.ndarray], Any]) -> Callable[[np.random.Generator], Results]:
    """The world with some arrays of a unit changed in place."""

    def make(rng: np.random.Generator) -> Results:
        results = world.results(rng)
        change(results[unit][name])
        return results

    return make


def mix_up(labels: np.ndarray) -> None:
    labels[:2, 0, :10] = 1 - labels[:2, 0, :10]  # ten tasks of two of our draws in the wrong sector


HURRIED = [i for i, way in enumerate(ways(SETTINGS[1])) if way in TUNED]


def one(setting: str, way: Way, value: float) -> Callable[[str, Way, int], float | None]:
    """Another score of one way in one setting."""
    return lambda s, w, _: value if (s, w) == (setting, way) else None


def last(setting: str, way: Way, value: float) -> Callable[[str, Way], float | None]:
    """Another final score of one way in one setting."""
    return lambda s, w: value if (s, w) == (setting, way) else None


ALL, REUSE, KEPT = Way(EXP3, NONE), Way(PPR, NONE), Way(EXP3, GREEDY)
EVERY = slice(None)
SPOILT = {
    "colour-rays: cells of ours are no sectors": altered("coloured-grid", "labels", mix_up),
    "colour-rays: a mixture loses less": altered("coloured-grid", "regret", lambda x: x.__setitem__((EVERY, 1), 0.0)),
    "colour-rays: the other mixture loses less": altered(
        "coloured-grid", "regret", lambda x: x.__setitem__((EVERY, 2), 0.0)
    ),
    "colour-rays: a mixture has as few cells": altered(
        "coloured-grid", "labels", lambda x: x.__setitem__((EVERY, 1), x[:, 1] % 2)
    ),
    "windy-goals: two goals in one cell": altered("windy-clusters", "labels", lambda x: np.minimum(x, 8, out=x)),
    "windy-incremental: cells change": altered(
        "windy-incremental", "labels", lambda x: x.__setitem__((1, slice(0, 60)), np.arange(60) % 7)
    ),
    "worst-case-poor: the worst case does as well": altered(
        "windy-clusters", "labels", lambda x: x.__setitem__(1, x[0])
    ),
    "gain-positive: a loss in one setting": scored(one("125-2", ALL, 91)),
    "gain-positive: a loss in the complex domain": scored(one("complex-100-2", ALL, 91)),
    "gain-grows: not at every step": scored(one("125-2", ALL, 81)),
    "gain-grows: not to the last": scored(one("300-3", ALL, 71)),
    "gain-grows: not with targets": scored(one("100-3", ALL, 82)),
    "final-gain: large for few": finally_(last("96-2", ALL, 90)),
    "final-gain: none for many": finally_(last("300-3", ALL, 96)),
    "ppr-no-gain: it gains everywhere": scored(lambda _, w, __: 85 if w == Way(PPR, SEARCH) else None),
    "ppr-no-gain: it gains somewhere": scored(one("200-3", Way(PPR, SEARCH), 85)),
    "ppr-simple: it is worse": scored(one("64-1", REUSE, 89)),
    "beats-ppr: it does not once": scored(one("125-2", REUSE, 91)),
    "beats-ppr: not most at 300": scored(one("96-2", REUSE, 50)),
    "elimination-needed: it is not": scored(one("96-2", BARE, 88)),
    "beats-q: it does not once": scored(one("complex-100-2", ALONE, 91)),
    "beats-q: it ends not far above": finally_(last("300-3", ALONE, 90)),
    "search-vs-greedy: it costs more": altered("surveillance-64-1", "costs", lambda x: x.__setitem__(0, 1.1)),
    "search-vs-greedy: not equal at 100": scored(one("100-3", KEPT, 80)),
    "search-vs-greedy: not better at 125": scored(one("125-2", KEPT, 90)),
    "search-vs-greedy: not most at 200": scored(one("complex-200-2", KEPT, 86)),
    "horizon: the curves cross": altered(
        "surveillance-96-2", "curves", lambda x: x.__setitem__((HURRIED, EVERY, slice(50, None)), 0.0)
    ),
    "horizon: the long one starts faster": scored(
        lambda s, w, t: 81 if (s, w, t) == ("64-1", Way(EXP3, SEARCH, EPISODES), 1_000) else None
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_claim_that_should_fail_does_fail(case: str, rng: np.random.Generator) -> None:
    claim = judged(SPOILT[case](rng))[case.split(":")[0]]
    assert claim.held == [False]
    assert any(check.held is False for check in claim.checks)


def test_every_claim_is_spoilt_at_least_once() -> None:
    assert {case.split(":")[0] for case in SPOILT} == set(SENTENCES)


def spread(low: float, high: float) -> Measured:
    return Measured(0.5 * (low + high), np.linspace(low, high, 2000))


@pytest.mark.parametrize(
    ("rule", "limit", "holds", "fails"),
    [
        (">", 0.0, (0.1, 1), (-0.1, 1)),
        (">=", 1.0, (1, 1), (0.9, 2)),
        ("<=", 0.0, (-1, -0.1), (-1, 0.2)),
        ("about 0, within", MARGIN, (-1.9, 1.9), (-1.9, 2.2)),
        ("not shown >", 0.0, (-1, 2), (0.1, 2)),
    ],
)
def test_a_check_holds_only_if_the_whole_interval_does(
    rule: str, limit: float, holds: tuple[float, float], fails: tuple[float, float]
) -> None:
    assert check("x", spread(*holds), rule, limit).held
    assert not check("x", spread(*fails), rule, limit).held
    assert check("x", spread(*holds), rule, limit).wanted == f"{rule} {limit:g}"
    assert check("x", spread(*holds)).held is None


@pytest.mark.parametrize("rule", RULES)
def test_a_figure_that_is_no_number_speaks_for_nothing(rule: str) -> None:
    found = check("x", Measured(float("nan"), np.full(2000, np.nan)), rule)
    assert found.held is False
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["value"] is None


def test_a_claim_without_a_judged_check_does_not_hold() -> None:
    assert judge("horizon", "x", [[check("x", Measured(1.0))]]).held == [False]


@pytest.mark.parametrize(("held", "of", "reproduced"), [(10, 10, True), (9, 10, True), (8, 10, False), (0, 1, False)])
def test_a_claim_is_reproduced_at_nine_of_ten_seeds(held: int, of: int, reproduced: bool) -> None:
    claim = judge("horizon", "x", [[check("x", Measured(1.0 if i < held else -1.0), ">")] for i in range(of)])
    assert claim.reproduced is reproduced
    assert bool(claim.reason) is not reproduced
    assert sum(claim.held) == held
    assert claim.checks_held == [held]
    assert len(claim.values[0]) == of
    assert judge("horizon", "x", [claim.checks], quick=True).reproduced is None
