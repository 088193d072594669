"""Intervals that hold at every number of episodes: by enumeration, by many draws, against a plain twin."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from pastmaster.estimation import _interval_kernels as kernels
from pastmaster.estimation.intervals import entry_limits, joint_distances, mean_limits
from pastmaster.estimation.returns import Returns


def capital_by_definition(x: list[float], mean: float, level: float, sign: int) -> list[float]:
    """K+ (sign 1) or K- (sign -1) after each return, written from the formulas of the module's head."""
    capital, path = 1.0, []
    for s in range(1, len(x) + 1):
        estimates = [(0.5 + sum(x[:r])) / (r + 1) for r in range(1, s)]
        variance = (0.25 + sum((a - b) ** 2 for a, b in zip(x[: s - 1], estimates, strict=True))) / s
        bet = math.sqrt(2 * math.log(2 / level) / (variance * s * math.log(s + 1)))
        room = mean if sign > 0 else 1 - mean
        capital *= 1 + sign * min(bet, 0.5 / room if room > 0 else math.inf) * (x[s - 1] - mean)
        path.append(capital)
    return path


def limits(x: np.ndarray, level: float = 0.05, lower: float = 0.0, upper: float = 1.0) -> np.ndarray:
    return mean_limits(x, np.array([0, len(x)]), np.array([lower]), np.array([upper]), level)[0]


def test_the_ends_are_where_the_capital_reaches_its_goal(rng):
    for n in (1, 3, 20, 40):
        x, level = rng.beta(2, 5, size=n), 0.1
        low, high = limits(x, level)
        for mean in np.linspace(0.001, 0.999, 60):
            assert (mean < low) == (max(capital_by_definition(x.tolist(), mean, level, 1)) >= 2 / level)
            assert (mean > high) == (max(capital_by_definition(x.tolist(), mean, level, -1)) >= 2 / level)


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
def test_the_capital_is_a_martingale_by_enumeration(chance):
    for sign in (1, -1):
        expected = 0.0
        for outcomes in itertools.product((0.0, 1.0), repeat=8):
            weight = math.prod(chance if x else 1 - chance for x in outcomes)
            expected += weight * capital_by_definition(list(outcomes), chance, 0.05, sign)[-1]
        assert expected == pytest.approx(1.0, abs=1e-12)


def test_the_chance_of_ever_being_wrong_is_at_most_the_level_by_enumeration():
    chance, level, wrong = 0.3, 0.4, 0.0
    for outcomes in itertools.product((0.0, 1.0), repeat=10):
        low, high = limits(np.array(outcomes), level)
        if not low <= chance <= high:
            wrong += math.prod(chance if x else 1 - chance for x in outcomes)
    assert 0.0 < wrong <= level


def ever_wrong(rng: np.random.Generator, draw, mean: float, cheat: bool = False) -> int:
    """Of 400 sequences of 128 returns, how many intervals (90%) miss the mean at some time or, cheating, Student's."""
    wrong = 0
    for _ in range(400):
        x = draw(128)
        if not cheat:
            low, high = limits(x, 0.1)  # the intersection over all times
            wrong += not low <= mean <= high
            continue
        n = np.arange(2, 129)
        means = np.cumsum(x)[1:] / n
        deviation = np.sqrt(np.maximum(np.cumsum(x**2)[1:] / n - means**2, 0) * n / (n - 1))
        wrong += bool((np.abs(means - mean) > stats.t.ppf(0.95, n - 1) * deviation / np.sqrt(n)).any())
    return wrong


def test_intervals_hold_at_all_times_at_once_and_students_do_not(rng):
    """If the chance to miss is 0.1, 400 sequences have over 75 misses with probability 2e-8."""
    for draw, mean in (
        (lambda n: (rng.random(n) < 0.2).astype(float), 0.2),
        (lambda n: rng.beta(0.5, 2.0, size=n), 0.2),
        (lambda n: rng.choice([0.0, 0.1, 1.0], p=[0.9, 0.05, 0.05], size=n), 0.055),
    ):
        assert ever_wrong(rng, draw, mean) <= 75
        assert ever_wrong(rng, draw, mean, cheat=True) > 75


def test_more_returns_only_narrow_an_interval(rng):
    x = rng.random(100)
    wide = (0.0, 1.0)
    for n in range(1, 101):
        low, high = limits(x[:n])
        if not low < x[:n].mean() < high:
            break
        assert low >= wide[0] - 1e-12
        assert high <= wide[1] + 1e-12
        wide = low, high
    assert wide[1] - wide[0] < 0.35


def test_an_interval_scales_with_its_bounds(rng):
    x = rng.random(40)
    assert limits(-3 + 8 * x, lower=-3.0, upper=5.0) == pytest.approx(-3 + 8 * limits(x), abs=1e-9)
    assert limits(1 - x) == pytest.approx(1 - limits(x)[::-1], abs=1e-9)


def test_no_returns_leave_the_bounds_and_equal_returns_prove_little():
    assert mean_limits(np.empty(0), np.array([0, 0]), np.array([2.0]), np.array([3.0]), 0.05).tolist() == [[2.0, 3.0]]
    low, high = limits(np.full(4, 0.4))
    assert low < 0.4 < high
    assert high - low > 0.5


def test_intervals_are_narrower_than_empirical_bernstein(rng):
    """Maurer and Pontil's, which holds at one number of returns only."""
    for n in (64, 512):
        x = rng.beta(10, 30, size=n)
        bernstein = np.sqrt(2 * x.var(ddof=1) * np.log(4 / 0.05) / n) + 7 * np.log(4 / 0.05) / (3 * (n - 1))
        assert np.ptp(limits(x)) < 2 * bernstein


def test_a_higher_confidence_is_wider(rng):
    x = rng.random(50)
    assert np.ptp(limits(x, 1e-6)) > np.ptp(limits(x, 0.05)) > np.ptp(limits(x, 0.5))


def print_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = np.concatenate([[0], np.cumsum(rng.integers(0, 60, size=30))])
    x = rng.normal(size=first[-1])
    lower = np.full(30, x.min())
    bits = mean_limits(x, first, lower, np.full(30, x.max()), 0.03).tobytes()
    returns = Returns(np.arange(12).reshape(3, 4) == 5, False)
    for i, j in np.ndindex(3, 4):
        returns.add(i, j, rng.normal(size=1 if returns.exact[i, j] else rng.integers(2, 30) + 30 * (i == j)))
    for paired in (False, True):
        returns.paired = paired
        bits += returns.halves.tobytes() + returns.resample(3, rng).tobytes()
        bits += b"".join(array.tobytes() for array in returns.spread())
    print(bits.hex())
    print(hasattr(kernels.limits, "py_func"))


def test_compiled_and_plain_agree_to_the_bit(seed):
    printed = []
    for flag in ("0", "1"):
        done = subprocess.run(
            [sys.executable, __file__, str(seed)],
            env=os.environ | {"NUMBA_DISABLE_JIT": flag}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        printed.append(done.stdout.split())
    assert printed[0][0] == printed[1][0]
    assert [bits[1] for bits in printed] == ["True", "False"]


def two_by_two(rng: np.random.Generator, n: int) -> Returns:
    """Two tasks; in both, policy 1 earns 0.2 less than policy 0, in the very same episodes."""
    returns = Returns(np.zeros((2, 2), np.bool_), paired=True)
    for i in range(2):
        shared = 0.2 + 0.8 * rng.random(n)
        returns.add(i, 0, shared)
        returns.add(i, 1, shared - 0.2)
    return returns


def test_exact_entries_have_no_width(rng):
    exact = np.array([[True, False]])
    returns = Returns(exact, paired=False)
    returns.add(0, 0, np.array([0.7]))
    returns.add(0, 1, rng.random(30))
    low, high = entry_limits(returns, np.array([[0.0, 1.0]]), 0.05)
    assert low[0, 0] == high[0, 0] == 0.7
    assert 0.0 < low[0, 1] < high[0, 1] < 1.0


def test_common_episodes_make_the_interval_of_a_distance_narrow(rng):
    returns, bounds = two_by_two(rng, 400), np.array([[0.0, 1.0]] * 2)
    pairs = np.array([0, 0]), np.array([0, 1])
    low, high = joint_distances(returns, bounds, 0.05, directed=True, pairs=pairs)
    assert low[0] == high[0] == 0.0
    assert low[1] <= 0.2 <= high[1]
    entry_low, entry_high = entry_limits(returns, bounds, 0.05 / 4)
    apart = (entry_high[0, 0] - entry_low[0, 1]) - max(0.0, entry_low[0, 0] - entry_high[0, 1])
    assert high[1] - low[1] < 0.5 * apart


def test_the_interval_of_a_symmetric_distance_holds_the_larger_regret(rng):
    returns, bounds = two_by_two(rng, 400), np.array([[0.0, 1.0]] * 2)
    pairs = np.array([0]), np.array([1])
    low, high = joint_distances(returns, bounds, 0.05, directed=False, pairs=pairs)
    assert low[0] <= 0.2 <= high[0]  # task 0 loses 0.2 under policy 1; task 1 gains under policy 0
    returns.paired = False
    low, high = joint_distances(returns, bounds, 0.05, directed=True, pairs=pairs)
    assert low[0] <= 0.2 <= high[0]


if __name__ == "__main__":
    print_bits(int(sys.argv[1]))
