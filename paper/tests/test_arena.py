"""The arena: simulated returns are those of the task, and every rival and every selector of ours gets a score."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from scipy.stats import norm

from pastmaster import cross_values, return_spread, solve
from pastmaster.domains import windy_corridor
from pastmaster_paper import arena, leduc
from pastmaster_paper.docs_tables import cells, write_section

LEVEL = 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_simulated_returns_have_the_mean_and_the_spread_of_the_task(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: those of another policy have not."""
    monkeypatch.setattr(arena, "POOL", 20_000)
    (task,) = leduc.new_tasks(1, rng=seed)
    policies = [solve(task).policy, np.full(288, leduc.FOLD, np.int32)]
    mean, spread = (array[0] for array in (cross_values([task], policies), return_spread([task], policies)))
    assert mean[0] - mean[1] > 0.2
    for policy, expected, deviation in zip(policies, mean, spread, strict=True):
        found = arena.simulated_returns(task, policy, np.random.default_rng(seed))
        limit = norm.isf(LEVEL / 2) * deviation / np.sqrt(len(found))
        assert abs(found.mean() - expected) < limit
        assert abs(found.mean() - mean.sum() + expected) > limit
        assert found.std() == pytest.approx(deviation, rel=0.05)


def test_an_outcome_is_the_first_whose_cumulative_probability_is_above_the_number() -> None:
    reach = arena.cumulative(np.array([0.25, 0.75 - 1e-17, 0.0]))
    assert reach.tolist() == [0.25, 2.0, 2.0]  # what is impossible is never drawn
    assert arena.drawn(reach, np.array([0.0, 0.25, 0.9999999999999999])).tolist() == [0, 1, 1]


def test_every_selector_gets_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "EPISODES", (10, 40))
    draw = arena.Draw(windy_corridor.family()[:12], windy_corridor.new_tasks(2, rng=0))
    for make in arena.RIVALS.values():
        scores = arena.of_others(draw, make)
        assert len(scores) == 2
        assert all(0.0 <= score <= 100.0 for score in scores)
    for options in arena.OURS.values():
        assert 0.0 <= arena.ours(draw, options, 40, 0) <= 100.0


def test_help_runs_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["arena", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_path(arena.__file__, run_name="__main__")
    assert "takes hours" in capsys.readouterr().out


def test_a_table_takes_the_place_of_the_last(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- arena -->\nold\n<!-- end arena -->\nafter\n")
    write_section(page, "arena", r"new \1")
    assert page.read_text() == "before\n<!-- arena -->\nnew \\1\n<!-- end arena -->\nafter\n"
    with pytest.raises(AssertionError, match="has no place for 'other'"):
        write_section(page, "other", "new")
    assert cells(np.array([[1.0, 5.0], [3.0, 5.0]])) == ["2.0 ± 12.7", "5.0 ± 0.0"]
