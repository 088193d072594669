"""The harness itself: an attempt that fails is counted, told, and fails its test."""

from __future__ import annotations

import pytest
from attempts import Tally, table


def test_a_failed_attempt_fails_the_test_with_its_reason() -> None:
    tally = Tally("stumble", "no fall")
    with tally.attempt("step 1"):
        pass
    with tally.attempt("step 2"):
        raise ValueError("a stone")
    assert (tally.tried, len(tally.failures)) == (2, 1)
    with pytest.raises(AssertionError, match="1 of 2 failed:\nstep 2: ValueError: a stone"):
        tally.assert_held()


def test_tallies_of_one_name_are_added_up() -> None:
    lines = table([("a", "holds", 10, 1), ("b", "holds", 5, 0), ("a", "holds", 1000, 0)])
    assert lines[2:] == ["| a | holds | 1,010 | 1,009 | 1 |", "| b | holds | 5 | 5 | 0 |"]
