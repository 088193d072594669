"""policy_distance of ``values``."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster import InvalidInputError, cross_values, domains, policy_distance


def test_the_distance_is_the_larger_of_the_two_regrets():
    U = [[5.0, 3.0, 4.5], [1.0, 2.0, 1.5], [0.0, -4.0, 1.0]]
    regret = [[0.0, 2.0, 0.5], [1.0, 0.0, 0.5], [1.0, 5.0, 0.0]]
    assert policy_distance(U, directed=True).tolist() == regret
    assert policy_distance(U).tolist() == [[0.0, 2.0, 1.0], [2.0, 0.0, 5.0], [1.0, 5.0, 0.0]]


def test_the_distance_is_symmetric_zero_on_the_diagonal_and_never_negative(rng):
    """Also where a task's own policy is not the best one for it: learned, or cut short by the horizon."""
    U = rng.normal(size=(9, 9))
    assert (np.diagonal(U)[:, None] < U).any()
    d = policy_distance(U)
    assert np.array_equal(d, d.T)
    assert (np.diagonal(d) == 0).all()
    assert (d >= 0).all()
    regret = policy_distance(U, directed=True)
    assert np.array_equal(regret, np.maximum(0, np.diagonal(U)[:, None] - U))
    assert np.array_equal(d, np.maximum(regret, regret.T))


def test_a_rectangle_measures_against_the_best_policy_there_is():
    U = [[5.0, 3.0, 6.0], [1.0, 2.0, 1.5]]
    expected = [[1.0, 3.0, 0.0], [1.0, 0.0, 0.5]]
    assert policy_distance(U, directed=True).tolist() == expected
    assert policy_distance(U, directed=True, paired=False).tolist() == expected
    tall = np.transpose(U)
    assert policy_distance(tall, directed=True).tolist() == [[0.0, 4.0], [0.0, 1.0], [0.0, 4.5]]


def test_a_square_that_is_not_paired_measures_against_the_best_policy_too():
    U = [[1.0, 3.0], [0.0, 4.0]]
    assert policy_distance(U, directed=True, paired=True).tolist() == [[0.0, 0.0], [4.0, 0.0]]
    assert policy_distance(U, directed=True, paired=False).tolist() == [[2.0, 0.0], [4.0, 0.0]]


def test_the_distance_of_real_tasks_never_goes_below_zero():
    U = cross_values(domains.windy_corridor.family()[::9])
    for directed in (False, True):
        d = policy_distance(U, directed=directed)
        assert d.min() == 0.0
        assert d.max() > 0.1


def test_cross_values_are_left_as_they_were():
    U = np.array([[1.0, 3.0], [0.0, 4.0]])
    policy_distance(U)
    assert U.tolist() == [[1.0, 3.0], [0.0, 4.0]]
    assert U.flags.writeable


@pytest.mark.parametrize(
    ("U", "options", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], {}, r"U\[0, 1\] is nan, must be finite"),
        ([[1.0, 0.0], [-np.inf, 1.0]], {"directed": True}, r"U\[1, 0\] is -inf, must be finite"),
        ([1.0, 2.0], {}, r"U has shape \(2,\), must be \[N, M\]"),
        (np.zeros((0, 0)), {}, r"U has shape \(0, 0\)"),
        (np.zeros((2, 0)), {"directed": True}, r"U has shape \(2, 0\)"),
        (np.zeros((2, 2, 2)), {}, r"U has shape \(2, 2, 2\)"),
        (np.zeros((2, 3)), {}, r"U has shape \(2, 3\), must be square unless directed"),
        (np.zeros((2, 3)), {"directed": True, "paired": True}, r"U has shape \(2, 3\), must be square"),
        ([[1.0, 2.0], [3.0]], {}, r"U"),
        ([["a"]], {}, r"U"),
    ],
)
def test_wrong_cross_values_are_refused(U, options, message):
    with pytest.raises(InvalidInputError, match="policy_distance: .*" + message):
        policy_distance(U, **options)
