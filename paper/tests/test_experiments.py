"""The reproduction: the quick run whole, what it leaves, resuming, the same bits on any workers, the command."""

from __future__ import annotations

import csv
import html
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

import experiments_world as world
import numpy as np
import pytest
from click.testing import CliRunner

from pastmaster import InvalidInputError, QLearning, TabularMDP, cross_values, return_bounds, solve, transfer
from pastmaster.domains import surveillance
from pastmaster_paper.__main__ import main
from pastmaster_paper.experiments import (
    EXPERIMENTS,
    FIRST_SEED,
    READINGS,
    SENTENCES,
    Reproduction,
    _kernels as kernels,
    reproduce,
)
from pastmaster_paper.experiments.charts import COLUMNS, read_charts, read_tables, write_table
from pastmaster_paper.experiments.coloured_grid import extra_breaks, together
from pastmaster_paper.experiments.folder import read_judged
from pastmaster_paper.experiments.loose_ends import reuse_returns
from pastmaster_paper.experiments.readings import PRINTED, UNDISCOUNTED, Reading
from pastmaster_paper.experiments.reproduce import UnitRun
from pastmaster_paper.experiments.scale import EPISODES, FULL, HORIZONS, QUICK
from pastmaster_paper.experiments.setting import SETTINGS
from pastmaster_paper.experiments.surveillance_runs import TABLE, Previous, SettingRuns, drawn_tasks, repeating, ways
from pastmaster_paper.experiments.turns import LOOSE, WHY
from pastmaster_paper.experiments.unit import Draws
from pastmaster_paper.experiments.ways import EXP3, PPR, Meeting, Way, options, summed_up
from pastmaster_paper.experiments.windy_clusters import family, own_cells
from pastmaster_paper.experiments.windy_incremental import agreements, matched
from pastmaster_paper.report import write_report

pytestmark = [pytest.mark.long(60), pytest.mark.repeated]

SMALL = ("windy-clusters", "useless-sources")  # which are run in both readings
READ = tuple(READINGS) if os.environ.get("PASTMASTER_SOAK") == "1" else ("printed",)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Every experiment of those that run unasked, quickly, in one reading; ``make soak`` runs it in all."""
    return reproduce(out=tmp_path_factory.mktemp("quick"), quick=True, n_jobs=1, readings=READ)


def rows(path: Path) -> list[list[str]]:
    """The cells of a table, without its title."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# title: ")]
    return list(csv.reader(lines))


def files(folder: Path) -> dict[str, bytes]:
    """All that was written, by name, but what was kept to go on from."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and "units" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def is_part_of(one: Path, other: Path) -> bool:
    """Whether all that was written to a folder was written to another, the same bits."""
    found = files(one)
    return bool(found) and found.items() <= files(other).items()


def start_from(run: Reproduction, out: Path, *names: str) -> Path:
    """Put the units that a run has of some experiments in the folder of another, which need not run them again."""
    (out / "units").mkdir(parents=True)
    for path in (path for name in names for path in (run.out / "units").glob(f"seed-{FIRST_SEED}-*{name}-*.npz")):
        shutil.copy(path, out / "units")
    return out


STUCK = """
import sys, time
from pastmaster_paper.__main__ import main
from pastmaster_paper.experiments.reproduce import UnitRun

run = UnitRun.run

def run_or_hang(self):
    if self.unit.name.endswith("useless-sources"):
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


def test_every_sentence_is_there_with_figures_and_no_verdict(quick: Reproduction) -> None:
    told = json.loads((quick.out / "sentences.json").read_text())
    assert told["schema"] == 2
    assert told["mode"] == "quick"
    assert told["seeds"] == [FIRST_SEED]
    assert told["machine"]
    assert tuple(told["readings"]) == READ
    assert [one["id"] for one in told["sentences"]] == [one.id for one in SENTENCES]
    assert told["findings"] == ["selectors", "costs", "corrections", "useless-sources"]
    found = {(one["id"], one["reading"]) for one in told["judged"]}
    wanted = {(one.id, name) for one in SENTENCES for name in (READ if one.of_reading else ("",))}
    assert found == wanted
    for one in told["judged"]:
        assert one["verdict"] == "not judged"  # a quick run judges nothing
        assert any(case["wanted"] for case in one["cases"])
        for case in one["cases"]:
            assert case["figure"]["values"] == [case["figure"]["mean"]]
            assert np.isfinite(case["figure"]["mean"])
            assert bool(case["wanted"]) == (case["verdict"] == "not judged")
    lines = rows(quick.out / "sentences.csv")
    assert len(lines) - 1 == sum(len(one["cases"]) for one in told["judged"])
    assert {line[1] for line in lines[1:]} == {"any", *READ}


RUN = [name for name, one in EXPERIMENTS.items() if not one.wants_name]


@pytest.mark.parametrize("name", RUN)
def test_each_experiment_leaves_tables_and_figures(quick: Reproduction, name: str) -> None:
    folder = quick.out / "figures" / name
    pictures, drawings, tables = (sorted(folder.glob(f"*.{kind}")) for kind in ("png", "svg", "csv"))
    assert [path.stem for path in pictures] == [path.stem for path in drawings]
    assert pictures
    assert tables
    for path in pictures:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = (int.from_bytes(content[i : i + 4]) for i in (16, 20))
        assert min(width, height) >= 400
    for path in drawings:
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for path in tables:
        table = rows(path)
        assert len(table) > 1, path
        assert len({len(row) for row in table}) == 1, path


def test_curves_have_a_point_to_each_window_and_the_optimum(quick: Reproduction) -> None:
    paths = sorted(quick.out.glob("figures/*/curves-*.csv"))
    assert len(paths) == len(READ) * (4 * len(SETTINGS) + 1)  # algorithms, clusterings twice, T; useless sources
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
    paths = sorted(quick.out.glob("figures/*/map-*.csv"))
    assert len(paths) == 2 + 1  # windy corridor twice, coloured grid
    for path in paths:
        head, *lines = rows(path)
        assert head[:4] == ["task", "name", "cell", "representative"]
        distance = np.array(rows(path.with_name(path.name.replace("map-", "distance-"))), float)
        assert distance.shape == (len(lines), len(lines))
        assert (distance == distance.T).all()
        cells = [int(line[2]) for line in lines]
        for line in lines:
            assert cells[int(line[3])] == int(line[2])  # a representative is in the cell it stands for


@pytest.mark.parametrize("reading", READ)
def test_table_one_is_there_whole(quick: Reproduction, reading: str) -> None:
    found = {one.title: one for one in read_tables(quick.out / "figures" / "clustering-comparison")}
    (table,) = (one for title, one in found.items() if f"({reading})" in title)
    labels = [row[0] for row in table.rows]
    assert labels == [*(way.label for way in TABLE), "Q-learning", "optimal policy"]
    assert {way.algorithm for way in TABLE} == {EXP3, PPR}
    assert list(table.head[1:]) == [one.short for one in SETTINGS]


@pytest.mark.parametrize("reading", READ)
def test_all_selectors_are_compared_from_ten_episodes_on(quick: Reproduction, reading: str) -> None:
    tables = [one for one in read_tables(quick.out / "figures" / "selectors") if f"({reading})" in one.title]
    assert len(tables) == 3
    for one in tables:
        assert list(one.head) == ["selector", "T = 10", "T = 100", "T = 1,000", "T = 10,000"]
        assert [row[0] for row in one.rows] == [
            "informed (ours)", "regret balancing (ours)", "Tsallis-INF", EXP3, PPR, "Q-learning"
        ]  # fmt: skip
        assert all(float(row[4].split()[0]) <= 100.5 for row in one.rows)


def test_what_is_written_is_read_back_as_it_was(quick: Reproduction, tmp_path: Path) -> None:
    found = read_judged(quick.out)
    assert found == replace(quick, readings=found.readings)  # tuples are lists in JSON
    assert {name: dict(table) for name, table in found.readings.items()} == {
        name: json.loads(json.dumps(dict(table))) for name, table in quick.readings.items()
    }
    before, after = [], []
    for name in RUN:
        before += [
            path.read_bytes()
            for path in (quick.out / "figures" / name).glob("*.csv")
            if path.stem.split("-")[0] in COLUMNS
        ]
        for i, chart in enumerate(read_charts(quick.out / "figures" / name)):
            write_table(tmp_path / name, str(i), chart)
        after += [path.read_bytes() for path in (tmp_path / name).glob("*.csv")]
    assert sorted(after) == sorted(before)


def test_the_report_reads_what_was_written(quick: Reproduction, tmp_path: Path) -> None:
    path = write_report(quick.out, tmp_path / "page.html")
    page = path.read_text()
    for one in SENTENCES:
        assert html.escape(one.words) in page
    assert "300 previous tasks, 3 targets" in page
    assert "Our findings: All selectors" in page
    assert path.stat().st_size < 6e6


def test_killed_it_goes_on_from_what_is_done_on_any_workers_to_the_same_bits(
    tmp_path: Path, quick: Reproduction
) -> None:
    child, done = stuck(tmp_path, 1, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    out, written = tmp_path / "out", done.stat().st_mtime_ns
    assert list((out / "units").glob("*.npz")) == [done]
    assert not (out / "sentences.json").exists()
    again = reproduce(SMALL, out=out, quick=True, n_jobs=2)
    assert done.stat().st_mtime_ns == written  # not run again
    for name in SMALL:
        assert is_part_of(quick.out / "figures" / name, again.out / "figures" / name)  # of one worker, with all others
    assert not (again.out / "figures" / "reward-summary").exists()


def test_interrupted_it_does_not_wait_and_says_how_to_go_on(tmp_path: Path, ctrl_c: Any) -> None:
    child, _ = stuck(tmp_path, 2, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate()
    assert child.returncode == 130
    lines = [line for line in told.splitlines() if "resource_tracker" not in line]  # of joblib, after the program's end
    assert lines[-1].startswith("interrupted: ")


def test_a_unit_of_other_settings_is_not_taken_for_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = UnitRun(EXPERIMENTS["useless-sources"].units(PRINTED)[0], 0, QUICK)
    stem = run.stem
    assert run.stem == stem
    for changed in (replace(run, seed=1), replace(run, scale=FULL), replace(run, unit=replace(run.unit, settings="x"))):
        assert changed.stem != stem


def test_a_damaged_unit_is_run_again(tmp_path: Path, quick: Reproduction) -> None:
    out = start_from(quick, tmp_path / "a", "windy-clusters")
    first = reproduce(["windy-clusters"], out=out, quick=True)
    before = files(first.out)
    (unit,) = (first.out / "units").glob("*.npz")
    content = bytearray(unit.read_bytes())
    content[len(content) // 2] ^= 1
    unit.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="damaged"):
        reproduce(["windy-clusters"], out=out, quick=True)
    assert files(first.out) == before


def test_readings_have_units_of_their_own_and_share_their_draws() -> None:
    one, other = (EXPERIMENTS["reward-summary"].units(reading) for reading in READINGS.values())
    assert not {unit.name for unit in one} & {unit.name for unit in other}
    assert not {UnitRun(unit, 0, QUICK).stem for unit in one} & {UnitRun(unit, 0, QUICK).stem for unit in other}
    for a, b in zip(one, other, strict=True):  # the same stream: the same tasks where they can be
        assert a.rng(3).bit_generator.state == b.rng(3).bit_generator.state


def test_more_draws_are_pooled_and_go_on_from_fewer(tmp_path: Path, quick: Reproduction) -> None:
    start_from(quick, tmp_path, "coloured-grid")
    units = {path: path.stat().st_mtime_ns for path in (tmp_path / "units").glob("*.npz")}
    seeds = range(FIRST_SEED, FIRST_SEED + 3)
    found = reproduce(["coloured-grid"], out=tmp_path, quick=True, seeds=seeds)
    assert all(path.stat().st_mtime_ns == written for path, written in units.items())
    (judged,) = found.judged
    assert judged.reading == ""
    figure = judged.cases[0].figure
    assert len(set(figure.values)) == 3
    assert figure.low is not None
    assert figure.low < figure.mean < figure.high
    assert found.seeds == tuple(seeds)
    assert "3 draws" in repr(found)
    lines = rows(tmp_path / "sentences.csv")
    assert [float(line[-1]) for line in lines[1:4]] == pytest.approx(figure.values)


def test_what_an_earlier_run_left_makes_way_and_nothing_else(tmp_path: Path, quick: Reproduction) -> None:
    start_from(quick, tmp_path, *SMALL)
    reproduce(SMALL, out=tmp_path, quick=True)
    mine = tmp_path / "figures" / SMALL[0] / "notes.txt"
    mine.write_text("mine")
    reproduce(SMALL[1:], out=tmp_path, quick=True)
    assert mine.read_text() == "mine"
    assert [path.name for path in (tmp_path / "figures" / SMALL[0]).rglob("*") if path.is_file()] == ["notes.txt"]
    assert len(list((tmp_path / "units").glob("*.npz"))) == 3  # what was run is kept


def test_a_reading_of_ones_own_shows_all_sentences_under_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("gamma = 0.95\nstep_size = 0.3\n")
    found = reproduce(["complex-domain"], out=tmp_path / "out", quick=True, readings=["printed", path])
    assert list(found.readings) == ["printed", "mine"]
    assert found.readings["mine"]["gamma"] == 0.95
    assert [(one.id, one.reading) for one in found.judged] == [(i, n) for i in (26, 27) for n in ("printed", "mine")]
    assert (tmp_path / "out/figures/complex-domain/mine-rewards.png").exists()
    ours, mine = ([case.figure.mean for case in one.cases] for one in found.judged[:2])
    assert ours != mine
    page = write_report(found.out, tmp_path / "page.html").read_text()
    assert '<th scope="col" role="columnheader">mine</th>' in page


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
    assert "1. Clusters by policy keep tasks of one ray together" in told.output
    assert "not judged; mixture, local prior" in told.output
    assert "were removed" not in told.output
    assert "pastmaster_paper report" in told.output
    again = runner.invoke(main, [*words, "--json"])
    assert "were removed; what it had run is kept" in again.stderr
    as_json = json.loads(again.stdout)
    assert as_json["mode"] == "quick"
    assert as_json["judged"][0]["id"] == 1
    assert as_json["readings"] == ["printed", "undiscounted"]
    bad = runner.invoke(main, [*words, "--reading", "nobody"])
    assert bad.output.startswith("Error: reproduce: reading is 'nobody', must be printed, undiscounted, or")
    wrong = runner.invoke(main, ["reproduce", "nothing", "--out", str(tmp_path / "out")])
    assert wrong.exit_code == 1
    assert wrong.output.startswith("Error: reproduce: 'nothing' is no experiment")


def test_the_settings_are_those_of_the_paper() -> None:
    told = [(s.previous, s.targets, s.sequences, s.complex) for s in SETTINGS]
    assert told == [
        (64, 1, 16, False), (96, 2, 6, False), (125, 2, 12, False), (256, 2, 16, False), (100, 3, 5, False),
        (200, 3, 10, False), (300, 3, 20, False), (100, 2, 6, True), (200, 2, 12, True),
    ]  # fmt: skip
    assert (FULL.targets, FULL.trials, FULL.restarts, FULL.iterations) == (10, 10, 20, 100_000)
    assert HORIZONS == (1_000, 5_000, 10_000)
    assert EPISODES == 10_000
    for reading in READINGS.values():
        assert len(ways(SETTINGS[1], reading)) == len(set(ways(SETTINGS[1], reading)))


def test_an_outcome_is_what_transfer_says() -> None:
    targets = [surveillance.task([5, 40]), surveillance.task([2, 20])]
    sources = [[solve(surveillance.task([6, 41])).policy], [solve(targets[1]).policy]]
    bounds, meeting = return_bounds(targets), Meeting(targets, PRINTED, replace(QUICK, trials=3))
    way = Way(EXP3, "some", 1_000)
    returns = meeting.returns(way, sources, bounds, np.random.default_rng(3))
    chosen = {"selector": "exp3-transfer", "learner": QLearning()}
    runs = [
        transfer(target, own, episodes=1_000, bounds=bounds, rng=stream, trials=3, on_violation="widen", **chosen)
        for target, own, stream in zip(targets, sources, np.random.default_rng(3).spawn(2), strict=True)
    ]
    np.testing.assert_array_equal(returns, np.stack([run.returns for run in runs]))
    found = summed_up(returns)
    np.testing.assert_allclose(found["reward"], returns.mean(axis=(1, 2)))
    np.testing.assert_allclose(found["final"], returns[:, :, -10:].mean(axis=(1, 2)))
    np.testing.assert_allclose(found["curve"][7], returns[:, :, 70:80].mean())
    windows = returns.reshape(2, 3, 100, 10).mean(axis=3)
    np.testing.assert_allclose(found["deviation"], np.sqrt(windows.var(axis=1).mean(axis=0)))
    n = len(ways(SETTINGS[0], PRINTED))
    arrays = {name: np.stack([values] * n) for name, values in found.items()}
    runs_of = SettingRuns(SETTINGS[0], PRINTED, arrays | {"optimum": np.array([50.0, 70.0])})
    assert runs_of.reward(TABLE[0]) == pytest.approx(returns.mean())
    assert runs_of.upto(TABLE[0], 2_000) == pytest.approx(found["curve"][:20].mean())
    assert runs_of.optimum == 60.0
    with pytest.raises(ValueError, match="not in list"):
        runs_of.reward(Way(EXP3, "nobody"))


def test_an_algorithm_is_given_what_the_reading_says() -> None:
    reading = Reading("x", step_size=0.3, check_every=7)
    for name in (EXP3, PPR, "Q-learning", "regret balancing (ours)", "informed (ours)"):
        assert options(name, reading)["learner"].step_size == 0.3
    assert options(EXP3, reading)["selector"].keywords == {"check_every": 7}
    assert options(EXP3, PRINTED)["learner"] == QLearning()


def test_tasks_are_those_of_the_reading() -> None:
    for reading in (PRINTED, UNDISCOUNTED):
        tasks, targets = drawn_tasks(SETTINGS[-2], reading, np.random.default_rng(0), 3)
        assert len(tasks) == 100
        assert len(targets) == 3
        assert {(one.gamma, one.params["escape_ends"]) for one in [*tasks, *targets]} == {
            (reading.gamma, reading.escape_ends)
        }
        found = np.unique(surveillance.group_sequences(tasks), axis=0)
        assert len(found) == reading.n_sequences(SETTINGS[-2])


def test_a_task_that_begins_anew_pays_again() -> None:
    once = surveillance.task([5], gamma=1.0, escape_ends=False)
    again = repeating(once)
    assert not again.terminated.any()
    policy = solve(once).policy
    single, many = cross_values([once], [policy])[0, 0], cross_values([again], [policy])[0, 0]
    walk = 200 - single  # steps before the first capture; then one capture a step
    assert many == pytest.approx(-walk + 200 * (200 - walk))


def test_greedy_with_few_thresholds_uses_one_order() -> None:
    tasks = drawn_tasks(SETTINGS[1], PRINTED, np.random.default_rng(0), 1)[0]
    few, many = (Previous(tasks, PRINTED.but("x", thresholds=n), QUICK) for n in (1, None))
    assert few.greedy(np.random.default_rng(1)).cost >= many.greedy(np.random.default_rng(1)).cost - 1e-9
    same = [few.greedy(np.random.default_rng(1)).labels.tolist() for _ in range(2)]
    assert same[0] == same[1]


def test_policy_reuse_is_the_librarys_and_can_explore_in_its_own_episodes() -> None:
    task = surveillance.task([5], gamma=1.0, escape_ends=False)
    sources = [solve(surveillance.task([6], gamma=1.0, escape_ends=False)).policy]
    theirs = transfer(task, sources, episodes=600, bounds=(-2000, 200), rng=0, trials=30, selector="ppr",
                      learner=QLearning(step_size=0.5)).returns.mean(axis=1)  # fmt: skip
    streams = np.random.default_rng(1).spawn(30)
    ours, greedy, exploring = (
        np.array([reuse_returns(task, given, 0.5, own, 600, stream).mean() for stream in streams])
        for given, own in ((sources, 0.0), ([], 0.0), ([], 1.0))  # without sources the learner is alone
    )
    spread = np.hypot(theirs.std(), ours.std()) / np.sqrt(30)
    assert abs(theirs.mean() - ours.mean()) < 5 * spread
    assert exploring.mean() < greedy.mean() - 50  # its own episodes are random walks


def test_the_compiled_loop_of_policy_reuse_equals_the_plain_one() -> None:
    task = TabularMDP(
        [[1, 0], [2, 0], [2, 1]], [[-1.0, -1.0], [-1.0, -1.0], [5.0, -1.0]], gamma=0.9, horizon=20,
        terminated=[[False, False], [False, False], [True, False]],
    )  # fmt: skip
    sources = np.array([[0, 0, 1], [1, 0, 0]], np.int32)
    sources.setflags(write=False)
    arrays = (task.next_state, task.reward, task.terminated, task.gamma, task.horizon, 0, sources, 0.3, 0.1, 0.2)
    found = []
    for loop in (kernels.reuse_returns, getattr(kernels.reuse_returns, "py_func", kernels.reuse_returns)):
        out = np.empty(200)
        loop(*arrays, out, np.random.default_rng(5))
        found.append(out)
    np.testing.assert_array_equal(*found)


def test_turned_readings_differ_from_theirs_in_one_thing() -> None:
    for one in (*WHY, *LOOSE):
        base = PRINTED if one.words.startswith("printed") else UNDISCOUNTED
        different = {k for k, v in one.table().items() if v != base.table()[k]} - {"name", "words"}
        assert len(different) == (0 if one.words in READINGS else 1), one.name
    assert {one.table()["gamma"] for one in WHY} == {0.9, 1.0}


def test_a_table_of_turned_readings_has_a_row_for_each_sentence(rng: np.random.Generator) -> None:
    results = [
        {name: unit for one in WHY for name, unit in world.draw(np.random.default_rng(i), one).items()}
        for i in range(5)
    ]
    found = dict(EXPERIMENTS["why"].tables(Draws(results)))
    table = found["sentences"]
    lines = list(table.rows)
    assert [line[0].split(".")[0] for line in lines] == [str(i) for i in range(5, 29)]
    assert len(table.head) == len(WHY) + 1
    assert all(cell.startswith("holds: ") for line in lines for cell in line[1:])
    assert next(iter(found["counts"].rows)) == ["printed", 24, 0, 0, 0]
    assert len(list(EXPERIMENTS["why"].pictures(Draws(results)))) == 1


def test_breaks_of_the_angle() -> None:
    angles = np.linspace(0.1, 1.4, 6)
    weights = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert extra_breaks(weights, np.array([0, 0, 0, 1, 1, 1])) == 0
    assert extra_breaks(weights, np.array([0, 1, 0, 1, 1, 1])) == 2
    assert extra_breaks(weights, np.array([2, 2, 1, 1, 0, 0])) == 0
    assert together(weights, np.array([0, 0, 0, 1, 1, 1])) == 0.8
    assert together(weights, np.array([0, 1, 0, 1, 1, 1])) == 0.4


def test_own_cells() -> None:
    points = family()[1]
    goals = points[:, 0].astype(np.int64)
    calm, every = points[:, 1] < 0.8, np.full(100, True)
    assert own_cells(goals, points, every) == (10, 1.0)
    assert own_cells(np.zeros(100, np.int64), points, calm) == (0, 0.0)  # a cell of all is nobody's own
    windy = np.where(points[:, 1] >= 0.8, 99, goals)
    assert own_cells(windy, points, calm) == (10, 1.0)  # the windiest may be anywhere
    assert own_cells(windy, points, every) == (10, 0.8)
    merged = np.where(goals == 9, 8, goals)
    assert own_cells(merged, points, calm) == (8, 0.8)


def test_cells_keep_their_numbers_over_time() -> None:
    labels = np.array([[0, 0, 1, -1, -1], [1, 1, 0, 0, -1], [2, 2, 1, 1, 0]])
    assert matched(labels).tolist() == [[0, 0, 1, -1, -1], [0, 0, 1, 1, -1], [0, 0, 1, 1, 2]]
    assert agreements(labels).tolist() == [1.0, 1.0]
    assert agreements(np.array([[0, 0, 1, 1], [0, 1, 0, 1]]))[0] < 0
