"""The reproduction: the quick run whole, what it leaves, resuming, the same bits on any workers, the command."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pastmaster import InvalidInputError, QLearning, return_bounds, solve, transfer
from pastmaster.cli import main
from pastmaster.domains import surveillance
from pastmaster.experiments import EXPERIMENTS, Reproduction, reproduce
from pastmaster.experiments.charts import COLUMNS, read_charts, write_table
from pastmaster.experiments.claims import SENTENCES
from pastmaster.experiments.coloured_grid import extra_breaks
from pastmaster.experiments.folder import read_claims
from pastmaster.experiments.reproduce import UnitRun
from pastmaster.experiments.scale import EPISODES, FULL, HORIZONS, QUICK
from pastmaster.experiments.surveillance_runs import SETTINGS, TABLE, SettingRuns, ways
from pastmaster.experiments.ways import EXP3, PPR, Way, meet
from pastmaster.experiments.windy_clusters import family, own_cells
from pastmaster.experiments.windy_incremental import agreements, matched
from pastmaster.report import write_report

pytestmark = pytest.mark.long(60)

SMALL = ("coloured-grid", "useless-sources")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Every experiment, quickly."""
    return reproduce(out=tmp_path_factory.mktemp("quick"), quick=True, n_jobs=2)


def rows(path: Path) -> list[list[str]]:
    """The cells of a table, without its title."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# title: ")]
    return list(csv.reader(lines))


def files(folder: Path) -> dict[str, bytes]:
    """All that was written, by name, but what was kept to go on from."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and "units" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def start_from(run: Reproduction, out: Path, *names: str) -> Path:
    """Put the units that a run has of some experiments in the folder of another, which need not run them again."""
    (out / "units").mkdir(parents=True)
    for path in (path for name in names for path in (run.out / "units").glob(f"seed-0-{name}-*.npz")):
        shutil.copy(path, out / "units")
    return out


STUCK = """
import sys, time
from pastmaster.cli import main
from pastmaster.experiments.reproduce import UnitRun

run = UnitRun.run

def run_or_hang(self):
    if self.unit.name == "coloured-grid":
        time.sleep(3600)
    return run(self)

if __name__ == "__main__":
    UnitRun.run = run_or_hang
    main(sys.argv[1:])
"""


def stuck(tmp_path: Path, jobs: int, **streams: Any) -> tuple[subprocess.Popen[str], Path]:
    """The command, stuck in the second of two units, and the file of the first."""
    (tmp_path / "stuck.py").write_text(STUCK)
    out = tmp_path / "out"
    words = [sys.executable, str(tmp_path / "stuck.py"), "reproduce", *SMALL, "--quick", "--out", str(out)]
    child = subprocess.Popen([*words, "--jobs", str(jobs)], text=True, **streams)
    while not (done := list((out / "units").glob("*.npz"))):
        assert child.poll() is None
        time.sleep(0.02)
    return child, done[0]


def test_every_claim_is_there_with_figures_and_a_verdict(quick: Reproduction) -> None:
    for folder in (quick.out, quick.out / "seed-0"):
        told = json.loads((folder / "claims.json").read_text())
        assert told["schema"] == 1
        assert told["mode"] == "quick"
        assert told["seeds"] == [0]
        assert told["machine"]
        assert {claim["id"] for claim in told["claims"]} == set(SENTENCES)
        for claim in told["claims"]:
            assert set(claim) == {
                "id", "sentence", "experiment", "held", "reproduced", "reason", "checks", "checks_held", "values"
            }  # fmt: skip
            assert claim["sentence"] == SENTENCES[claim["id"]]
            assert claim["experiment"] in EXPERIMENTS
            assert len(claim["held"]) == 1
            assert claim["reproduced"] is None  # a quick run judges nothing
            assert claim["reason"] == ""
            assert [check["value"] for check in claim["checks"]] == [value for (value,) in claim["values"]]
            assert any(check["held"] is not None for check in claim["checks"])
            for check in claim["checks"]:
                assert isinstance(check["value"], float)
                assert (check["low"] is None) == (check["high"] is None)
                if check["low"] is not None:
                    assert check["low"] <= check["value"] + 1e-9
                    assert check["value"] <= check["high"] + 1e-9
                assert bool(check["wanted"]) == (check["held"] is not None)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_experiment_leaves_tables_and_figures(quick: Reproduction, name: str) -> None:
    folder = quick.out / "seed-0" / name
    pictures, drawings, tables = (sorted(folder.glob(f"*.{kind}")) for kind in ("png", "svg", "csv"))
    assert [path.stem for path in pictures] == [path.stem for path in drawings]
    assert pictures
    assert tables
    for path in pictures:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = (int.from_bytes(content[i : i + 4]) for i in (16, 20))
        assert min(width, height) > 400
    for path in drawings:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for path in tables:
        table = rows(path)
        assert len(table) > 1, path
        assert len({len(row) for row in table}) == 1, path


def test_curves_have_a_point_to_each_window_and_the_optimum(quick: Reproduction) -> None:
    paths = sorted(quick.out.glob("seed-0/*/curves-*.csv"))
    assert len(paths) == 4 * len(SETTINGS) + 2 + 1  # algorithms, clusterings twice, T; corrections; useless sources
    for path in paths:
        assert path.read_text().startswith("# title: ")
        head, *lines = rows(path)
        assert head == ["label", "episode", "mean", "deviation"]
        labels = {line[0] for line in lines}
        assert "optimal policy" in labels
        for label in labels - {"optimal policy"}:
            values = np.array([line[1:] for line in lines if line[0] == label], float)
            assert values.shape == (100, 3)
            assert np.isfinite(values).all()
            assert (values[:, 2] >= 0).all()
            assert (np.diff(values[:, 0]) > 0).all()


def test_maps_and_distances_belong_together(quick: Reproduction) -> None:
    paths = sorted(quick.out.glob("seed-0/*/map-*.csv"))
    assert len(paths) == len(SETTINGS) + 2 + 1  # surveillance, windy corridor twice, coloured grid
    for path in paths:
        head, *lines = rows(path)
        assert head[:4] == ["task", "name", "cell", "representative"]
        distance = np.array(rows(path.with_name(path.name.replace("map-", "distance-"))), float)
        assert distance.shape == (len(lines), len(lines))
        assert (distance == distance.T).all()
        cells = [int(line[2]) for line in lines]
        for line in lines:
            assert cells[int(line[3])] == int(line[2])  # a representative is in the cell it stands for


def test_shares_add_up(quick: Reproduction) -> None:
    paths = sorted(quick.out.glob("seed-0/*/shares-*.csv"))
    assert len(paths) == len(SETTINGS)
    for path in paths:
        _, *lines = rows(path)
        total: dict[str, float] = {}
        for _, episode, share in lines:
            total[episode] = total.get(episode, 0.0) + float(share)
        assert len(total) == 100
        assert all(abs(value - 1) < 1e-6 for value in total.values())


def test_table_one_is_there_whole(quick: Reproduction) -> None:
    head, *lines = rows(quick.out / "seed-0" / "clustering-comparison" / "numbers.csv")
    found = {tuple(line[:3]) for line in lines}
    for setting in SETTINGS:
        for way in TABLE:
            assert (setting.title, way.algorithm, way.clustering) in found
    assert {way.algorithm for way in TABLE} == {EXP3, PPR}
    assert len(set(head)) == len(head)
    assert len(lines) == len(SETTINGS) * (len(TABLE) + 1)


def test_what_is_written_is_read_back_as_it_was(quick: Reproduction, tmp_path: Path) -> None:
    assert read_claims(quick.out) == quick
    assert read_claims(quick.out / "seed-0").claims == quick.claims
    before, after = [], []
    for name in EXPERIMENTS:
        before += [
            path.read_bytes()
            for path in (quick.out / "seed-0" / name).glob("*.csv")
            if path.stem.split("-")[0] in COLUMNS
        ]
        for i, chart in enumerate(read_charts(quick.out / "seed-0" / name)):
            write_table(tmp_path / name, str(i), chart)
        after += [path.read_bytes() for path in (tmp_path / name).glob("*.csv")]
    assert sorted(after) == sorted(before)


def test_the_report_reads_what_was_written(quick: Reproduction, tmp_path: Path) -> None:
    page = write_report(quick.out, tmp_path / "page.html").read_text()
    for name in SENTENCES:
        assert name in page
    assert "300 previous tasks, 3 targets" in page


def test_the_same_bits_on_any_workers_and_in_any_company(quick: Reproduction, tmp_path: Path) -> None:
    one = reproduce(SMALL, out=tmp_path / "one", quick=True, n_jobs=1)
    two = reproduce(SMALL, out=tmp_path / "two", quick=True, n_jobs=2, backend="loky")
    assert files(one.out) == files(two.out)
    for name in SMALL:  # run alone or with all others
        assert files(one.out / "seed-0" / name) == files(quick.out / "seed-0" / name)
    assert not (one.out / "seed-0" / "reward-summary").exists()


def test_killed_it_goes_on_from_what_is_done(tmp_path: Path, quick: Reproduction) -> None:
    child, done = stuck(tmp_path, 1, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    out, written = tmp_path / "out", done.stat().st_mtime_ns
    assert list((out / "units").glob("*.npz")) == [done]
    assert not (out / "claims.json").exists()
    again = reproduce(SMALL, out=out, quick=True)
    assert done.stat().st_mtime_ns == written  # not run again
    for name in SMALL:
        assert files(again.out / "seed-0" / name) == files(quick.out / "seed-0" / name)


def test_interrupted_it_does_not_wait_and_says_how_to_go_on(tmp_path: Path, ctrl_c: Any) -> None:
    child, _ = stuck(tmp_path, 2, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate()
    assert child.returncode == 130
    lines = [line for line in told.splitlines() if "resource_tracker" not in line]  # of joblib, after the program's end
    assert lines[-1].startswith("interrupted: ")


def test_a_unit_of_other_settings_is_not_taken_for_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = UnitRun(EXPERIMENTS["useless-sources"].units[0], 0, QUICK)
    stem = run.stem
    assert run.stem == stem
    for changed in (replace(run, seed=1), replace(run, scale=FULL), replace(run, unit=replace(run.unit, settings="x"))):
        assert changed.stem != stem


def test_a_damaged_unit_is_run_again(tmp_path: Path, quick: Reproduction) -> None:
    out = start_from(quick, tmp_path / "a", "coloured-grid")
    first = reproduce(["coloured-grid"], out=out, quick=True)
    before = files(first.out)
    (unit,) = (first.out / "units").glob("*.npz")
    content = bytearray(unit.read_bytes())
    content[len(content) // 2] ^= 1
    unit.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="damaged"):
        reproduce(["coloured-grid"], out=out, quick=True)
    assert files(first.out) == before


def test_more_seeds_are_counted_and_go_on_from_fewer(tmp_path: Path, quick: Reproduction) -> None:
    start_from(quick, tmp_path, "coloured-grid")
    units = {path: path.stat().st_mtime_ns for path in (tmp_path / "units").glob("*.npz")}
    found = reproduce(["coloured-grid"], out=tmp_path, quick=True, seeds=range(3))
    assert all(path.stat().st_mtime_ns == written for path, written in units.items())
    (claim,) = found.claims
    assert len(claim.held) == 3
    assert found.seeds == (0, 1, 2)
    assert (tmp_path / "seed-2" / "coloured-grid" / "clusterings.csv").exists()
    assert "3 seeds" in repr(found)
    tables = [(tmp_path / f"seed-{seed}" / "coloured-grid" / "clusterings.csv").read_text() for seed in range(3)]
    assert len(set(tables)) == 3


def test_what_an_earlier_run_left_makes_way_and_nothing_else(tmp_path: Path, quick: Reproduction) -> None:
    start_from(quick, tmp_path, *SMALL)
    reproduce(SMALL, out=tmp_path, quick=True, seeds=(0, 1))
    mine = tmp_path / "seed-1" / SMALL[0] / "notes.txt"
    mine.write_text("mine")
    reproduce(SMALL[1:], out=tmp_path, quick=True)
    assert mine.read_text() == "mine"
    assert [path.name for path in (tmp_path / "seed-1").rglob("*") if path.is_file()] == ["notes.txt"]
    assert not (tmp_path / "seed-0" / SMALL[0]).exists()
    assert len(list((tmp_path / "units").glob("*.npz"))) == 4  # what was run is kept


def test_a_wrong_name_or_seed_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'windy' is no experiment, must be one of coloured-grid"):
        reproduce(["windy"], out=tmp_path / "a")
    for seeds in ([], [1, 1], [-1]):
        with pytest.raises(InvalidInputError, match="seed"):
            reproduce(out=tmp_path / "a", seeds=seeds)
    assert not (tmp_path / "a").exists()


def test_the_command_lists_runs_and_prints(tmp_path: Path, quick: Reproduction) -> None:
    runner = CliRunner()
    listed = runner.invoke(main, ["reproduce", "--list"])
    assert all(name in listed.output for name in EXPERIMENTS)
    words = ["reproduce", "coloured-grid", "--quick", "--jobs", "1", "--out", str(tmp_path / "out")]
    start_from(quick, tmp_path / "out", "coloured-grid")
    told = runner.invoke(main, words)
    assert told.exit_code == 0
    assert "colour-rays: quick, not judged" in told.output
    assert "were removed" not in told.output
    assert "pastmaster report" in told.output
    again = runner.invoke(main, [*words, "--json"])
    assert "were removed; what it had run is kept" in again.stderr
    as_json = json.loads(again.stdout)
    assert as_json["mode"] == "quick"
    assert as_json["claims"][0]["id"] == "colour-rays"
    wrong = runner.invoke(main, ["reproduce", "nothing", "--out", str(tmp_path / "out")])
    assert wrong.exit_code == 1
    assert wrong.output.startswith("Error: reproduce: 'nothing' is no experiment")


def test_scores_are_summed_over_targets_before_they_are_divided() -> None:
    setting = SETTINGS[0]
    n = len(ways(setting))
    totals = np.zeros((n, 2, 3, 3))
    totals[0, 0], totals[0, 1] = 30.0 * EPISODES, 0.0  # two targets, optima 50 and 0.1, the worst -10
    arrays = {"totals": totals, "optimum": np.array([50.0, 0.1]), "lower": np.array(-10.0)}
    runs = SettingRuns(setting, arrays)
    assert runs.score(ways(setting)[0]).value == pytest.approx(100 * (40 + 10) / (60 + 10.1))
    assert runs.reward(ways(setting)[0]).value == pytest.approx(15.0 * EPISODES)
    with pytest.raises(ValueError, match="not in list"):
        runs.score(Way(EXP3, "nobody"))


def test_the_settings_are_those_of_the_paper() -> None:
    told = [(s.previous, s.targets, s.sequences, s.complex) for s in SETTINGS]
    assert told == [
        (64, 1, 16, False), (96, 2, 6, False), (125, 2, 12, False), (256, 2, 16, False), (100, 3, 5, False),
        (200, 3, 10, False), (300, 3, 20, False), (100, 2, 6, True), (200, 2, 12, True),
    ]  # fmt: skip
    assert (FULL.targets, FULL.trials, FULL.restarts, FULL.iterations) == (10, 10, 20, 100_000)
    assert HORIZONS == (1_000, 5_000, 10_000)
    assert EPISODES == 10_000
    assert len(ways(SETTINGS[1])) == len(set(ways(SETTINGS[1])))


def test_an_outcome_is_what_transfer_says(rng: np.random.Generator) -> None:
    targets = [surveillance.task([5, 40]), surveillance.task([2, 20])]
    sources = [[solve(surveillance.task([6, 41])).policy], [solve(targets[1]).policy]]
    bounds, scale = return_bounds(targets), replace(QUICK, trials=3)
    way = Way(EXP3, "some", 1_000)
    found = meet(targets, lambda i: sources[i], way, bounds, scale, np.random.default_rng(3))
    chosen = {"selector": "exp3-transfer", "learner": QLearning()}
    runs = [
        transfer(target, own, episodes=1_000, bounds=bounds, rng=stream, trials=3, on_violation="widen", **chosen)
        for target, own, stream in zip(targets, sources, np.random.default_rng(3).spawn(2), strict=True)
    ]
    returns = np.stack([run.returns for run in runs])
    np.testing.assert_allclose(found["totals"][:, :, 0], returns.sum(axis=2))
    assert np.isnan(found["totals"][:, :, 1:]).all()  # beyond T
    np.testing.assert_allclose(found["final"], returns[:, :, -10:].mean(axis=2))
    np.testing.assert_allclose(found["curves"][:, 7], returns[:, :, 70:80].mean(axis=(0, 2)))
    windows = returns.reshape(2, 3, 100, 10).mean(axis=3)
    np.testing.assert_allclose(found["deviation"], np.sqrt(windows.var(axis=1).mean(axis=0)))
    np.testing.assert_allclose(found["shares"], runs[0].shares(10))


def test_below_counts_what_chance_cannot_explain(rng: np.random.Generator) -> None:
    setting = SETTINGS[0]
    short, long = Way(EXP3, "search, T = 1000", 1_000), Way(EXP3, "search")
    curves = rng.normal(scale=0.1, size=(len(ways(setting)), 10, 100))
    runs = SettingRuns(setting, {"curves": curves, "optimum": np.ones(1), "lower": np.zeros(())})
    assert runs.below(short, long) <= 0.3  # ten points, no difference
    curves[ways(setting).index(short), :, 50:] -= 5.0  # the second half of the short one: five of ten points
    assert 0.5 <= runs.below(short, long) <= 0.7
    assert runs.below(short, short) == pytest.approx(0.0, abs=0.1)


def test_breaks_of_the_angle() -> None:
    angles = np.linspace(0.1, 1.4, 6)
    weights = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert extra_breaks(weights, np.array([0, 0, 0, 1, 1, 1])) == 0
    assert extra_breaks(weights, np.array([0, 1, 0, 1, 1, 1])) == 2
    assert extra_breaks(weights, np.array([2, 2, 1, 1, 0, 0])) == 0


def test_own_cells() -> None:
    points = family()[1]
    goals = points[:, 0].astype(np.int64)
    assert own_cells(goals, points) == (10, 1.0)
    assert own_cells(np.zeros(100, np.int64), points) == (0, 0.0)  # a cell of all is nobody's own
    windy = np.where(points[:, 1] >= 0.8, 99, goals)
    assert own_cells(windy, points) == (10, 1.0)  # the windiest may be anywhere
    merged = np.where(goals == 9, 8, goals)
    assert own_cells(merged, points) == (8, 0.8)


def test_cells_keep_their_numbers_over_time() -> None:
    labels = np.array([[0, 0, 1, -1, -1], [1, 1, 0, 0, -1], [2, 2, 1, 1, 0]])
    assert matched(labels).tolist() == [[0, 0, 1, -1, -1], [0, 0, 1, 1, -1], [0, 0, 1, 1, 2]]
    assert agreements(labels).tolist() == [1.0, 1.0]
    assert agreements(np.array([[0, 0, 1, 1], [0, 1, 0, 1]]))[0] < 0
