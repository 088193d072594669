"""The worked examples run in their quick versions, from a folder of their own, and say and draw what they should."""

from __future__ import annotations

import inspect
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from made_up import write_scenario

import pastmaster

EXAMPLES = Path(__file__).parent.parent / "examples"
PNG = b"\x89PNG\r\n\x1a\n"

pytestmark = pytest.mark.long(5)


@pytest.fixture
def quick(tmp_path, monkeypatch, capsys) -> Callable[..., str]:
    """Runs an example as a script, in a folder of its own, and returns what it prints."""

    def run(name: str, *more: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(tmp_path / "out"), *more])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_frozen_lakes_tell_what_is_kept_and_what_a_new_winter_gains(tmp_path, quick):
    if "success_rate" not in inspect.signature(FrozenLakeEnv).parameters:
        pytest.skip("this Gymnasium has no ice that is less slippery")
    printed = quick("frozen_lakes.py")
    kept, of = map(int, re.search(r"^(\d+) of (\d+) routes stand for all", printed, re.MULTILINE).groups())
    assert 1 <= kept < of == 6
    covered = re.findall(r"^  the route of lake \d, winter \d: (.+)$", printed, re.MULTILINE)
    assert sorted("; ".join(covered).split("; ")) == [f"lake {i}, winter {j}" for i in range(2) for j in range(3)]
    rows = re.findall(
        r"^(?:lake \d, new winter|a lake never met) +([\d.]+) +([\d.]+) +([\d.]+) ", printed, re.MULTILINE
    )
    assert len(rows) == 3
    for best, reuse, alone in (map(float, row) for row in rows):
        assert 0 < best <= 1
        assert max(reuse, alone) <= best + 0.1
    assert (tmp_path / "out" / "6-maps.db").exists()
    assert (tmp_path / "out" / "frozen-lakes.png").read_bytes().startswith(PNG)


@pytest.mark.soak  # it trains nine policies
def test_the_cart_poles_tell_what_is_kept_and_what_new_ones_gain(tmp_path):
    pytest.importorskip("stable_baselines3")
    script = [sys.executable, EXAMPLES / "cart_poles.py", "--quick", "--out", tmp_path / "out"]  # which starts others
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    stands_for = re.findall(r"^cart-pole, gravity \S+, length \S+, force \S+ +(\d+) ", printed, re.MULTILINE)
    assert sum(map(int, stands_for)) == 8
    assert re.search(r"^cart-pole, .*: its own policy earns [\d.]+ an episode", printed, re.MULTILINE)
    for way in ("DQN and the kept policies", "DQN and useless policies", "DQN alone"):
        assert re.search(
            rf"^all variants, {way}: 90% (after|not in) \d+ episodes \(median\); [\d.]+% earned", printed, re.MULTILINE
        )
    assert re.search(r"^episodes with the kept ones, .*by variant: [\d.]+( or less)?$", printed, re.MULTILINE)
    assert re.search(r"^the useless ones cost -?[\d.]+ of these percent over 40 episodes", printed, re.MULTILINE)
    assert len(list((tmp_path / "out").rglob("*.zip"))) == 9
    assert (tmp_path / "out" / "cart-poles.png").read_bytes().startswith(PNG)


def test_the_website_sells_more_with_the_service(tmp_path, quick):
    pytest.importorskip("uvicorn")
    printed = quick("website.py")
    ways = r"^(pastmaster serve|EXP-3|A/B test, then the winner|even split) +([\d.]+) purchases per 100 "
    sold = {way: float(count) for way, count in re.findall(ways, printed, re.MULTILINE)}
    assert len(sold) == 4
    assert sold["pastmaster serve"] > sold["even split"]
    told, asked, lost = map(int, re.search(r"last day: (\d+) of (\d+) returns told, (\d+) lost", printed).groups())
    assert (told + lost, asked) == (150, 150)
    assert (tmp_path / "out" / "website.png").read_bytes().startswith(PNG)


def test_the_fleet_runs_what_the_service_says(tmp_path, quick):
    pytest.importorskip("uvicorn")
    printed = quick("fleet.py")
    assert printed.startswith("3 of 3 controllers kept; the new variant: cart-pole, ")
    ways = r"^(the service decides|by lot|only learning) +([\d.]+) an episode"
    assert len(re.findall(ways, printed, re.MULTILINE)) == 3
    assert re.search(r"^60 episodes told, [123] controllers downloaded; best: ", printed, re.MULTILINE)
    assert (tmp_path / "out" / "fleet.png").read_bytes().startswith(PNG)


def test_the_solvers_tell_what_a_portfolio_of_each_size_costs(tmp_path, quick):
    printed = quick("which_solvers.py")
    assert printed.startswith("40 instances, 6 solvers; virtual best: ")
    best = float(re.search(r"virtual best: ([\d,.]+) s", printed)[1].replace(",", ""))
    row = r"^ +(\d+) +([\d.,]+) +([\d.,]+) +(\d+) +([\d.]+)%  (solver-.*)$"
    rows = [[cell.replace(",", "") for cell in found] for found in re.findall(row, printed, re.MULTILINE)]
    assert [int(k) for k, *_ in rows] == list(range(1, len(rows) + 1))
    means, bounds, solved, closed = (np.array([float(row[i]) for row in rows]) for i in (1, 2, 3, 4))
    assert (np.diff(means) <= 0).all()
    assert (bounds <= means).all()
    assert (np.diff(solved) >= 0).all()
    assert (closed[0], closed[-1]) == (0.0, 100.0)
    assert means[0] > best == means[-1]  # the last has every solver that is best somewhere
    portfolio = re.search(r"^(\d+) solvers would do: (.+)$", printed, re.MULTILINE)
    assert len(portfolio[2].split(", ")) == int(portfolio[1])
    assert (tmp_path / "out" / "which-solvers.png").read_bytes().startswith(PNG)
    assert pastmaster.read_aslib(tmp_path / "out" / "made-up").values.shape == (40, 6)


def test_the_solvers_may_be_those_of_a_scenario(tmp_path, quick):
    printed = quick("which_solvers.py", str(write_scenario(tmp_path / "mine", 9, 4)))
    assert printed.startswith("9 instances, 4 solvers; ")
    assert not (tmp_path / "out" / "made-up").exists()
    with pytest.raises(
        SystemExit, match=r"^read_aslib: folder is 'none', which is none, must be that of an ASlib scen"
    ):
        quick("which_solvers.py", "none")
