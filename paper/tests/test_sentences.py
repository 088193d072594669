"""Sentences on made-up data: where they hold they hold, each can be contrary, in part, and not shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import experiments_world as world
import numpy as np
import pytest

from pastmaster_paper.experiments import EXPERIMENTS, SENTENCES
from pastmaster_paper.experiments.pooled import CONTRARY, HOLDS, IN_PART, NOT_JUDGED, NOT_SHOWN
from pastmaster_paper.experiments.readings import PRINTED, UNDISCOUNTED
from pastmaster_paper.experiments.sentences import BY_ID, judge
from pastmaster_paper.experiments.surveillance_runs import ALONE, BARE, GREEDY, NONE, SEARCH, SETTINGS, TUNED
from pastmaster_paper.experiments.ways import EXP3, PPR, Way

Draws = list[dict[str, Any]]
E, E_ALL, P, P_KEPT, E_GREEDY = (
    Way(EXP3, SEARCH), Way(EXP3, NONE), Way(PPR, NONE), Way(PPR, SEARCH), Way(EXP3, GREEDY)
)  # fmt: skip


def verdict(id: int, draws: Draws, reading: Any = PRINTED) -> str:
    return judge(BY_ID[id], draws, reading if BY_ID[id].of_reading else None).verdict


def drawn(rng: np.random.Generator, n: int = 5, **changes: Any) -> Draws:
    return [world.draw(rng, **changes) for _ in range(n)]


@pytest.mark.parametrize("reading", [PRINTED, UNDISCOUNTED])
def test_every_sentence_holds_in_the_world_made_for_it(reading: Any, rng: np.random.Generator) -> None:
    draws = drawn(rng, reading=reading)
    assert {one.id: verdict(one.id, draws, reading) for one in SENTENCES} == {one.id: HOLDS for one in SENTENCES}


def to(value: float, way: Way, *settings: str) -> world.Change:
    """Another reward of one way, in some settings or in all."""
    return lambda setting, other: value if other == way and (not settings or setting in settings) else None


def spoilt(array: str, change: Callable[[np.ndarray], Any], unit: str) -> Callable[[np.random.Generator], Draws]:
    """Draws in which an array of a unit is changed in place."""

    def make(rng: np.random.Generator) -> Draws:
        draws = drawn(rng)
        for one in draws:
            change(one[unit][array])
        return draws

    return make


def changed(**changes: world.Change) -> Callable[[np.random.Generator], Draws]:
    return lambda rng: drawn(rng, **changes)


EVERY = slice(None)
SPOILT: dict[int, tuple[str, Callable[[np.random.Generator], Draws]]] = {
    1: (CONTRARY, spoilt("labels", lambda x: x.__setitem__((EVERY, 0), np.arange(50)), "coloured-grid")),
    2: (CONTRARY, spoilt("labels", lambda x: np.minimum(x, 7, out=x), "windy-clusters")),
    3: (IN_PART, spoilt("labels", lambda x: np.minimum(x, 10, out=x), "windy-incremental")),  # 11 cells, not 12
    4: (NOT_SHOWN, spoilt("labels", lambda x: x.__setitem__(1, x[0]), "windy-clusters")),
    5: (CONTRARY, changed(rewards=to(99, E_ALL))),
    6: (CONTRARY, changed(rewards=lambda s, w: 50.0 + world.GAINS.get(s, 0) if w == E_ALL else None)),
    7: (CONTRARY, changed(rewards=to(89, E_ALL, "100-3", "200-3", "300-3"))),
    8: (CONTRARY, changed(rewards=to(99, P_KEPT))),
    9: (CONTRARY, changed(rewards=lambda s, w: 50.0 + world.RANK[s] * 10 if w == P_KEPT else None)),
    10: (CONTRARY, changed(finals=to(80, E_ALL))),
    11: (CONTRARY, changed(finals=to(99, P_KEPT))),
    12: (CONTRARY, changed(finals=to(70, P_KEPT))),
    13: (CONTRARY, changed(finals=to(99, E_ALL))),
    14: (CONTRARY, changed(finals=lambda s, w: 50.0 + world.RANK[s] * 5 if w == P_KEPT else None)),
    15: (CONTRARY, changed(rewards=to(99, P))),
    16: (CONTRARY, changed(rewards=to(89, P, "300-3"))),
    17: (CONTRARY, changed(rewards=lambda s, w: 50.0 + world.RANK[s] * 5 if w == P else None)),
    18: (CONTRARY, changed(rewards=to(99, ALONE))),
    19: (CONTRARY, changed(rewards=to(70, P, "64-1"))),
    20: (CONTRARY, changed(rewards=to(99, P_KEPT, "200-3", "300-3"))),
    21: (CONTRARY, changed(rewards=to(88, BARE))),
    22: (CONTRARY, changed(rewards=to(95, BARE))),
    23: (CONTRARY, changed(rewards=to(99, E_ALL))),
    24: (CONTRARY, changed(rewards=to(80, E_GREEDY, "96-2", "256-2"))),
    25: (CONTRARY, changed(rewards=to(95, E_GREEDY, "125-2"))),
    26: (CONTRARY, changed(rewards=lambda s, w: {"complex-100-2": 91.0, "complex-200-2": 99.0}.get(s)
                           if w == E_GREEDY else None)),
    27: (CONTRARY, changed(rewards=lambda s, w: {"complex-200-2": {E: 70.0, E_GREEDY: 85.0}.get(w)}.get(s))),
    28: (CONTRARY, changed(curves=lambda _, w: 0.0 if w in TUNED else None)),
}  # fmt: skip


@pytest.mark.parametrize("id", SPOILT)
def test_a_sentence_that_should_not_hold_does_not(id: int, rng: np.random.Generator) -> None:
    wanted, make = SPOILT[id]
    assert verdict(id, make(rng)) == wanted


def test_every_sentence_is_spoilt() -> None:
    assert set(SPOILT) == {one.id for one in SENTENCES} == set(range(1, 29))


def test_in_part_says_where(rng: np.random.Generator) -> None:
    found = judge(BY_ID[5], drawn(rng, rewards=to(99, E_ALL, "125-2")), PRINTED)
    assert found.verdict == IN_PART
    assert found.held() == ["96-2", "256-2", "100-3", "200-3", "300-3"]
    (failed,) = (case for case in found.cases if case.verdict != HOLDS)
    assert (failed.name, failed.verdict) == ("125-2", CONTRARY)


def test_what_chance_can_explain_is_not_shown(rng: np.random.Generator) -> None:
    draws = [world.draw(rng, rewards=to(90 + float(rng.normal(scale=5)), E_ALL)) for _ in range(5)]
    assert verdict(23, draws) in (NOT_SHOWN, IN_PART)
    assert verdict(25, [world.draw(rng, rewards=to(90, E_GREEDY)) for _ in range(2)]) == NOT_SHOWN


def test_a_quick_run_and_a_single_draw_judge_nothing(rng: np.random.Generator) -> None:
    draws = drawn(rng)
    assert {judge(one, draws, PRINTED, quick=True).verdict for one in SENTENCES} == {NOT_JUDGED}
    assert {verdict(one.id, draws[:1]) for one in SENTENCES} == {NOT_JUDGED}


def test_the_figure_is_in_reward_an_episode(rng: np.random.Generator) -> None:
    found = judge(BY_ID[18], drawn(rng), PRINTED)
    first, *_, last = found.cases
    assert first.figure.mean == pytest.approx(60, abs=0.2)  # 90 against 30, where the optimum is 100
    assert (first.unit, last.unit) == ("reward an episode", "percent of the optimum")
    assert not last.wanted  # its size, shown beside it
    assert not last.verdict


# The record: number, lines, settings and sign, as the list of the paper's sentences has them

SIMPLE = ["64-1", "96-2", "125-2", "256-2", "100-3", "200-3", "300-3"]
ALL = [*SIMPLE, "complex-100-2", "complex-200-2"]
TWO_AND_THREE = ["2 targets", "3 targets"]
RECORD: dict[int, tuple[str, list[str], str]] = {
    5: ("989", SIMPLE[1:], "> 0"), 6: ("989", TWO_AND_THREE, "> 0"),
    7: ("989", ["100 to 256 previous tasks"], "> 0"), 8: ("993", ALL, "< 0"), 9: ("993", TWO_AND_THREE, "< 0"),
    10: ("995", ["96-2", "100-3"], "< 0"), 11: ("995", ["96-2", "100-3"], "< 0"),
    12: ("995", ["96-2", "100-3"], "> 0"), 13: ("995", ["256-2", "300-3"], "> 0"), 14: ("995", TWO_AND_THREE, "< 0"),
    15: ("997", SIMPLE[4:], "> 0"), 16: ("997", ["100-3", "200-3"], "> 0"), 17: ("962", ["all simple"], "> 0"),
    18: ("978", SIMPLE, "> 0"), 19: ("1401", ["64-1"], "> 0"), 20: ("1401", ["200-3", "300-3"], "> 0"),
    21: ("430", ["all simple"], "<= 0"), 22: ("426", ["all simple"], "> 0"), 23: ("1017", ALL, "> 0"),
    24: ("1017", ["96-2", "256-2"], "within 2"), 25: ("1017", ["125-2"], "> 0"),
}  # fmt: skip
LINES = {1: "891, 904", 2: "923, 929", 3: "932", 4: "484, 1319", 26: "1021", 27: "1035", 28: "1063"}


@pytest.mark.parametrize("id", RECORD)
def test_settings_and_signs_are_those_of_the_record(id: int) -> None:
    lines, cases, wanted = RECORD[id]
    judged = [part for part in BY_ID[id].parts if part.rule]
    assert BY_ID[id].lines == lines
    assert [case for part in judged for case in part.cases] == cases
    assert {part.wanted for part in judged} == {wanted}


def test_the_other_sentences_are_those_of_the_record() -> None:
    assert {id: BY_ID[id].lines for id in LINES} == LINES
    assert [one.id for one in SENTENCES] == list(range(1, 29))
    assert {one.experiment for one in SENTENCES} <= set(EXPERIMENTS)
    assert not any(EXPERIMENTS[one.experiment].ours or EXPERIMENTS[one.experiment].wants_name for one in SENTENCES)
    assert [part.wanted for part in BY_ID[26].parts] == ["> 0"] * 3
    assert [part.wanted for part in BY_ID[27].parts] == ["> 0", "< 0"]
    assert len([c for part in BY_ID[28].parts if part.rule for c in part.cases]) == 9
    assert [setting.name for setting in SETTINGS] == ALL
