"""Windows of episodes: they cover every episode once, and their means are those of the slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pastmaster import InvalidInputError
from pastmaster.reuse.windows import windows


@given(st.integers(1, 500), st.one_of(st.none(), st.integers(1, 600)))
def test_windows_cover_every_episode_once(episodes, length):
    cut = windows(episodes, length)
    assert [t for a, b in cut.edges for t in range(a, b)] == list(range(episodes))
    assert len({b - a for a, b in cut.edges[:-1]}) <= 1
    assert cut.middles.tolist() == [(a + b) / 2 for a, b in cut.edges]


def test_means_and_counts_by_hand():
    cut = windows(5, 2)
    assert cut.edges == ((0, 2), (2, 4), (4, 5))
    assert cut.means(np.array([1.0, 3.0, 5.0, 9.0, 4.0])).tolist() == [2.0, 7.0, 4.0]
    assert cut.means(np.arange(10.0).reshape(2, 5)).tolist() == [[0.5, 2.5, 4.0], [5.5, 7.5, 9.0]]
    assert cut.counts(np.array([[0, 1, 1, 1, 2], [0, 0, 1, 2, 2]]), 4).tolist() == [
        [3, 1, 0, 0],
        [0, 3, 1, 0],
        [0, 0, 2, 0],
    ]


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("length", [3, 100, 250])
def test_means_are_those_of_a_reshaped_array_bit_for_bit(rng, rows, length):
    values = rng.normal(size=(rows, 20 * length))
    assert (
        windows(20 * length, length).means(values).tobytes() == values.reshape(rows, 20, length).mean(axis=2).tobytes()
    )


@pytest.mark.parametrize("length", [0, -1, 1.5, True])
def test_a_length_that_is_none_is_refused(length):
    with pytest.raises(InvalidInputError, match=r"windows: window is .*, must be a whole number, at least 1"):
        windows(10, length)
