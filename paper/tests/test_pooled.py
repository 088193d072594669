"""Figures pooled over draws: the intervals, and what they say."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster_paper.experiments.pooled import (
    CONTRARY,
    HOLDS,
    IN_PART,
    NOT_JUDGED,
    NOT_SHOWN,
    RULES,
    Pooled,
    verdict_of_all,
)


def test_the_interval_is_students(rng: np.random.Generator) -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    found = Pooled.of(values, "x")
    reach = 2.7764451 * np.std(values, ddof=1) / np.sqrt(5)  # t at 0.975 with 4 degrees of freedom
    assert found.mean == 3.0
    assert (found.low, found.high) == pytest.approx((3 - reach, 3 + reach))
    assert found.values == tuple(values)


@pytest.mark.parametrize("n", [5, 20])
def test_the_interval_holds_the_truth_as_often_as_it_says(n: int, rng: np.random.Generator) -> None:
    repeats = 2000
    found = [Pooled.of(rng.normal(size=n), str(i)) for i in range(repeats)]
    hits = sum(one.low <= 0 <= one.high for one in found)
    assert 1835 <= hits <= 1955  # 95% wanted: outside of this has probability below 1e-6
    if n == 20:
        resampled = sum(one.bootstrap_low <= 0 <= one.bootstrap_high for one in found)
        assert 1780 <= resampled <= 1955  # the bootstrap is a little short


def test_the_same_name_gives_the_same_bootstrap_and_another_does_not(rng: np.random.Generator) -> None:
    values = rng.normal(size=10)
    one, same, other = (Pooled.of(values, name) for name in ("a", "a", "b"))
    assert one == same
    assert one.bootstrap_low != other.bootstrap_low
    assert (one.low, one.high) == (other.low, other.high)


def test_one_draw_tells_no_interval_and_judges_nothing() -> None:
    found = Pooled.of([3.0], "x")
    assert (found.mean, found.low, found.bootstrap_high) == (3.0, None, None)
    assert found.verdict(">", 0) == NOT_JUDGED


@pytest.mark.parametrize(
    ("rule", "limit", "holds", "contrary", "open"),
    [
        (">", 0.0, (0.1, 1), (-1, -0.1), (-0.1, 1)),
        ("<", 0.0, (-1, -0.1), (0.1, 1), (-0.1, 1)),
        ("<=", 0.0, (-1, 0), (0.1, 1), (-0.1, 1)),
        ("within", 2.0, (-1.9, 1.9), (2.1, 3), (1, 3)),
        ("within", 2.0, (0, 1), (-4, -2.1), (-3, 3)),
        ("about", 12.0, (11.8, 12.2), (11, 11.2), (11.2, 12.3)),
    ],
)
def test_a_verdict_follows_the_whole_interval(
    rule: str, limit: float, holds: tuple, contrary: tuple, open: tuple
) -> None:
    def said(low: float, high: float) -> str:
        return Pooled((low + high) / 2, low, high, None, None, ()).verdict(rule, limit)

    assert [said(*holds), said(*contrary), said(*open)] == [HOLDS, CONTRARY, NOT_SHOWN]


@pytest.mark.parametrize("rule", RULES)
def test_what_is_no_number_is_on_neither_side(rule: str) -> None:
    assert Pooled(np.nan, np.nan, np.nan, None, None, ()).verdict(rule, 0.0) == NOT_SHOWN


@pytest.mark.parametrize(
    ("cases", "wanted"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, NOT_SHOWN], IN_PART),
        ([HOLDS, CONTRARY], IN_PART),
        ([NOT_SHOWN, CONTRARY], CONTRARY),
        ([NOT_SHOWN, NOT_SHOWN], NOT_SHOWN),
        ([HOLDS, NOT_JUDGED], NOT_JUDGED),
        ([], NOT_JUDGED),
    ],
)
def test_a_sentence_follows_its_cases(cases: list[str], wanted: str) -> None:
    assert verdict_of_all(cases) == wanted
