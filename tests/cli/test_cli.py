from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from click.testing import CliRunner, Result

from pastmaster import __version__
from pastmaster.cli import main

STAGES = ("build", "solve", "cross values", "cluster", *["new tasks"] * 6, "draw")
RIVALS = (
    "informed by the old tasks, ", "informed by the old tasks, all", "not informed", "EXP-3-Transfer, ",
    "Probabilistic Policy", "Q-learning alone",
)  # fmt: skip


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def picture(path: Path) -> np.ndarray:
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    return matplotlib.image.imread(path)


def table(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(RIVALS)]


def test_the_demo_draws_a_picture_and_tells_a_line_for_each_stage(tmp_path, monkeypatch):
    out = tmp_path / "new folder" / "demo.png"
    result = run("demo", "--out", out)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for line, stage in zip(lines[: len(STAGES)], STAGES, strict=True):
        assert line.startswith(stage)
        seconds, unit = line.split()[-2:]
        assert float(seconds) >= 0
        assert unit == "s"
    assert lines[-1] == f"picture: {out}"
    assert "of 60 policies stand for all" in lines[len(STAGES) + 1]
    scores = lines[len(STAGES) + 5 : -3]
    for line, rival in zip(scores, RIVALS, strict=True):
        assert line.startswith(rival)
    assert lines[len(STAGES) + 4].split()[-3:] == ["10", "30", "100"]  # episodes
    informed, everything, uninformed, *others = ([float(score) for score in line.split()[-3:]] for line in scores)
    assert np.all(np.array(everything) >= (68, 87, 95))
    assert informed[2] >= 95
    for rival in (uninformed, *others):  # what is known of the old tasks is worth most in the first episodes
        assert np.all(np.array(informed) > rival)
        assert everything[0] > rival[0] + 20
    image = picture(out)
    assert image.shape[0] > 400
    assert image.shape[1] > 800
    assert len(np.unique(image.reshape(-1, image.shape[2])[::50], axis=0)) > 50  # lines and bands, not an empty sheet

    monkeypatch.chdir(tmp_path)  # the same again, saved beside it by default
    again = run("demo").output
    assert table(again) == table(result.output)
    assert again.splitlines()[-1] == "picture: pastmaster-demo.png"
    assert np.array_equal(picture(tmp_path / "pastmaster-demo.png"), image)


def test_quiet_says_only_where_the_picture_is(tmp_path):
    result = run("demo", "--quiet", "--seed", "1", "--out", tmp_path / "no-suffix")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == 1
    assert picture(Path(result.output.removeprefix("picture: ").strip())).size > 0


@pytest.mark.parametrize("name", ["file/demo.png", "folder", "demo.xyz"])
def test_a_path_that_cannot_be_written_gives_one_sentence(tmp_path, name):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = run("demo", "--quiet", "--out", tmp_path / name)
    assert result.exit_code not in (0, None)
    assert isinstance(result.exception, SystemExit)  # a message, not a traceback
    assert len(result.output.splitlines()) == 1
    assert name in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_the_version_and_the_help_are_there():
    assert __version__ in run("--version").output
    for arguments in (["--help"], ["-h"], ["demo", "--help"]):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "Usage:" in result.output
    assert "demo" in run("--help").output


@pytest.mark.parametrize("arguments", [["demos"], ["demo", "--loud"], ["demo", "--out"]])
def test_a_wrong_command_line_is_refused_with_code_2(arguments):
    assert run(*arguments).exit_code == 2


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "pastmaster", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: pastmaster ")
