"""Measured figures: the stratified bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster.experiments.measured import RESAMPLES, Measured


def mean_of_strata(means: np.ndarray) -> np.ndarray:
    return means.mean(axis=-1)


def test_the_interval_holds_the_truth_as_often_as_it_says(rng: np.random.Generator) -> None:
    repeats, hits = 600, 0
    for i in range(repeats):  # ten targets, ten trials, as in the experiments
        samples = rng.normal(size=(10, 10)) + np.arange(10)[:, None]
        found = Measured.of(samples, mean_of_strata, f"repeat {i}")
        hits += found.low <= 4.5 <= found.high
    # 95% wanted; with a coverage of 0.94 fewer than 530 or more than 592 have probability below 1e-6
    assert 530 <= hits <= 592


def test_one_trial_tells_no_interval() -> None:
    assert Measured.of([[1.0], [3.0]], mean_of_strata, "one").resampled is None


def test_strata_are_not_mixed() -> None:
    samples = np.repeat([[0.0], [100.0]], 10, axis=1)  # no spread within a stratum, much between them
    found = Measured.of(samples, mean_of_strata, "apart")
    assert found.row == [50.0, 50.0, 50.0]
    mixed = Measured.mean(samples.ravel(), "together")  # the control: without strata the spread is there
    assert mixed.high - mixed.low > 20


def test_the_same_name_gives_the_same_interval_and_another_does_not(rng: np.random.Generator) -> None:
    samples = rng.normal(size=(3, 10))
    one, same, other = (Measured.of(samples, mean_of_strata, name) for name in ("a", "a", "b"))
    assert one.row == same.row
    assert one.row != other.row
    assert one.value == other.value == pytest.approx(samples.mean())


def test_a_difference_is_as_uncertain_as_its_parts_together(rng: np.random.Generator) -> None:
    one, other = (Measured.mean(rng.normal(size=200) + shift, name) for shift, name in ((5.0, "a"), (3.0, "b")))
    difference = one - other
    assert difference.value == pytest.approx(one.value - other.value)
    width, parts = difference.high - difference.low, [part.high - part.low for part in (one, other)]
    assert width == pytest.approx(np.hypot(*parts), rel=0.15)
    ratio = one / other
    assert ratio.low < ratio.value < ratio.high


def test_an_exact_figure_has_no_interval_and_takes_none_away(rng: np.random.Generator) -> None:
    exact, spread = Measured(2.0), Measured.mean(rng.normal(size=20), "a")
    assert (exact - Measured(1.0)).resampled is None
    assert exact.low == exact.high == 2.0
    shifted = spread - exact
    assert shifted.resampled is not None
    assert len(shifted.resampled) == RESAMPLES
    assert shifted.high - shifted.low == pytest.approx(spread.high - spread.low)
