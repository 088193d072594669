"""How tasks are called and shown."""

from __future__ import annotations

import sys
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from pastmaster import GymTask, InvalidInputError, TabularMDP
from pastmaster.tables import html_table, one_line

LAKE = "FrozenLake-v1"
DESC = ["SFFF", "HHHF", "HHHF", "HHHG"]


def test_variants_of_an_environment_have_names_of_their_own():
    plain, still, mapped = (
        TabularMDP.from_gymnasium(gym.make(LAKE, **kwargs), gamma=0.9).name
        for kwargs in ({}, {"is_slippery": False}, {"desc": DESC})
    )
    assert (plain, still) == (LAKE, f"{LAKE}(is_slippery=False)")
    assert mapped == f"{LAKE}(desc={DESC})"
    assert TabularMDP.from_gymnasium(gym.make(LAKE, render_mode="ansi"), gamma=0.9).name == LAKE
    assert TabularMDP.from_gymnasium(gym.make(LAKE, desc=DESC), gamma=0.9, name="mine").name == "mine"


def test_a_function_without_a_name_is_called_as_its_environment():
    assert GymTask(lambda: gym.make(LAKE, desc=DESC)).name == f"{LAKE}(desc={DESC})"
    assert GymTask(partial(gym.make, LAKE, is_slippery=False)).name == f"{LAKE}(is_slippery=False)"

    def make_lake():
        return gym.make(LAKE)

    assert GymTask(make_lake).name == "make_lake"


@pytest.mark.parametrize(
    "task",
    [
        TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.9),
        TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.9, name="a name " * 40),
        TabularMDP.from_gymnasium(gym.make(LAKE, desc=DESC), gamma=0.9),
        GymTask(LAKE, {"desc": DESC, "is_slippery": False}),
        GymTask("CartPole-v1", name="a name\nof two lines " * 20),
    ],
    ids=range(5),
)
def test_a_task_is_shown_in_one_short_line(task):
    assert len(repr(task)) <= 100
    assert "\n" not in repr(task)
    assert repr(task).endswith(f"horizon={task.horizon})")


def test_a_model_is_a_frame_of_its_possible_outcomes():
    pytest.importorskip("pandas")
    lake = TabularMDP.from_gymnasium(LAKE, gamma=0.9)
    frame = lake.to_frame()
    assert list(frame.columns) == ["state", "action", "probability", "next_state", "reward", "terminated"]
    assert np.allclose(frame.groupby(["state", "action"]).probability.sum(), 1)
    assert len(frame) == np.count_nonzero(lake.outcomes().probability)
    assert len(TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.9).to_frame()) == 2


def test_without_pandas_a_frame_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInputError, match=r"^to_frame: this needs pandas: pip install pandas"):
        TabularMDP([[0, 0]], [[0.0, 1.0]], gamma=0.9).to_frame()


def test_tables_are_html_that_a_name_cannot_break():
    shown = html_table([{"arm": "<b>", "mean": 1 / 3, "none": None}], "a & b")
    assert shown.startswith("<p>a &amp; b</p><table>")
    assert "<td>&lt;b&gt;</td><td>0.3333</td><td></td>" in shown
    assert html_table([]) == "<table><thead><tr></tr></thead><tbody></tbody></table>"


@pytest.mark.parametrize("width", [10, 11, 100])
def test_one_line_keeps_both_ends(width):
    line = one_line("begin " + 200 * "." + " end", width)
    assert len(line) == width
    assert line[:3] == "beg"
    assert line[-3:] == "end"
    assert one_line("a\n b") == "a b"


def test_a_task_of_plain_sums_has_no_table():
    assert GymTask(LAKE, gamma=1.0).table is None
    assert GymTask(LAKE, gamma=0.9).table is not None
