"""Names, paths and ids from outside never reach a terminal as they are: what it would obey is shown as an escape."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from faults import small_task
from seams import html_table, label, one_line, printable

import pastmaster
from pastmaster import (
    GymTask,
    InvalidInputError,
    Repository,
    TabularMDP,
    cross_values,
    estimate_cross_values,
    plot_streams,
    policy_distance,
    search_clusterings,
    solve,
    transfer,
)
from pastmaster.cli import main
from pastmaster.continual import ContinualTransfer

HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;a title\x07",
    "\x1b]8;;http://example.org\x1b\\a link\x1b]8;;\x1b\\",
    "\x9b31mC1",
    "back\x08\x08\x7fspace",
    "a\rb\nc\td\x0b\x0c",
    "\u202egnp.exe\u202c",
    "\u2066isolated\u2069\u200e\u200f\u061c",
    "zero\u200b\u200c\u200d\ufeff\u2060\u00adwidth",
    "line\u2028paragraph\u2029next\x85",
    "\u3164\u115fletters without a shape\u034f",
    "\ue000private \U000e0041tag \U0010ffff none",
    "[red]x[/red] [link=http://example.org]y[/link] [/]",
    "$x^$ and $\\frac{ \\n",
    "_hidden",
    "<script>alert(1)</script><!-- &amp;",
    "n" * 900,
)
HARMLESS = ("plain", "Grüße, ñandú", "日本語", "emoji 🎉", "a b", "C:\\new\\x1b")


def is_quiet(text: str) -> bool:
    """Whether a terminal shows every character as itself; written without looking at how the library does it."""
    wrong = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return not any(unicodedata.category(c) in wrong or c in "\u3164\u115f\u034f" for c in text.replace("\n", ""))


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_terminal_would_obey_becomes_an_escape(name: str) -> None:
    for text in (
        printable(name),
        one_line(name),
        str(InvalidInputError(name)),
        label(name),
        html_table([{name: name}]),
    ):
        assert is_quiet(text)
    assert "\n" not in printable(name)
    assert len(one_line(name)) <= 100
    assert str(InvalidInputError("first\nsecond")) == "first\nsecond"


@pytest.mark.parametrize("name", HARMLESS)
def test_other_names_stay_as_they_are(name: str) -> None:
    assert printable(name) == one_line(name) == label(name) == str(InvalidInputError(name)) == name


def test_halves_of_characters_and_other_spaces() -> None:
    assert printable("a\ud800b\u00a0c\u3000d") == "a\\ud800b c d"
    assert printable("a\tb\nc", keep="\n") == "a\\tb\nc"


def test_a_message_is_cut_in_its_middle() -> None:
    message = str(InvalidInputError(f"f: x is {'n' * 10**6}, must be short"))
    assert len(message) < 2100
    assert message.startswith("f: x is nnn")
    assert message.endswith("must be short")


def named(number: int, name: str) -> TabularMDP:
    task = small_task(number)
    arrays = {key: getattr(task, key) for key in ("next_state", "reward", "probability", "terminated", "start")}
    return TabularMDP(**arrays, gamma=task.gamma, horizon=task.horizon, name=name, params={name[:9]: name})


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with hostile names of tasks, of policies and of files, which is clustered, and a run on each."""
    path = tmp_path_factory.mktemp("hostile") / "\x1b[31m\u202ered.db"
    with Repository(path) as repository:
        for number, name in enumerate(HOSTILE):
            task = named(number, name)
            run = transfer(task, {name: solve(task)}, episodes=3, rng=0)
            repository.add(task, solve(task), name=name, source=f"folder/{name[:200]}.npy", run=run)
        repository.cluster(n_clusters=3, rng=0)
    return path


def command(*words: Any) -> str:
    """What a command prints, on both streams; all of it is quiet."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert is_quiet(done.output), repr(done.output)
    return done.output


def test_commands_print_names_as_escapes(db: Path, tmp_path: Path) -> None:
    listed = command("repo", "list", db)
    assert r"\x1b[31mred\x1b[0m" in listed
    assert "[red]x[/red]" in listed, "no markup is read in a name"
    assert max(map(len, listed.splitlines())) < 500
    assert len(listed.splitlines()) == len(HOSTILE) + 1
    for number in range(1, len(HOSTILE) + 1):
        assert len(command("repo", "show", db, number).splitlines()) < 20
    command("repo", "show", db, "--picture", tmp_path / "shown.png")
    command("repo", "keep", db, "-k", 4, "--picture", tmp_path / "kept.svg")
    command("repo", "check", db)
    folder = tmp_path / "\x1b[1mexported"
    command("repo", "export", db, folder)
    command("repo", "import", folder, tmp_path / "\u202ecopy.db")
    command("report", db, "--out", tmp_path / "\x1b[2mpage.html")
    task, policy = tmp_path / "\x1b[3mtask.npz", tmp_path / "\x1b[4mpolicy.npy"
    new = small_task(99)
    np.savez(
        task, next_state=new.next_state, reward=new.reward, probability=new.probability, terminated=new.terminated,
        gamma=new.gamma, horizon=new.horizon, start=new.start,
    )  # fmt: skip
    np.save(policy, solve(new).policy)
    assert r"\x1b[3mtask" in command("repo", "add", db, task, "--policy", policy)
    command("repo", "add", db, task, "--policy", policy)
    command("transfer", db, task, "--episodes", 20, "--picture", tmp_path / "run.png")
    command("continual", db, task, "--episodes", 5, "--restarts", 1, "--name", "\x1b[5mstream")
    command("repo", "remove", db, len(HOSTILE) + 1)


@pytest.mark.parametrize(
    "line",
    [
        "repo list {}", "repo list --{}", "repo {}", "{}", "--{}", "repo add x.db {}.npz", "repo add x.db --gym {}",
        "repo add x.db --gym os:{}", "repo add x.db --import {}", "repo add x.db --domain {}", "repo show x.db {}",
        "repo add x.db --gym FrozenLake-v1 --kwargs {}", "repo add x.db --kwargs-file {}", "report {}",
        "repo import {} x.db", "transfer {} --domain surveillance", "repo keep x.db --picture {}.txt",
        'repo add x.db --gym FrozenLake-v1 --kwargs {{"{}":1}}',
    ],
)  # fmt: skip
def test_errors_show_what_was_got_as_escapes(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in HOSTILE[:-1:4]:  # a colour, a step back, letters without width, markup
        command(*(word.format(name) for word in line.split(" ")))


def test_names_in_a_damaged_file_are_shown_as_escapes(tmp_path: Path) -> None:
    with Repository(tmp_path / "x.db") as repository:
        repository.add(small_task(0))
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE arrays SET owner = ?, name = ? WHERE name = 'reward'", ("\x1b[31m", "\x1b]0;")
        )
        connection.exec_driver_sql("UPDATE tasks SET settings = ?", ("\x1b[31m{",))
    engine.dispose()
    assert "damaged" in command("repo", "check", tmp_path / "x.db")
    with Repository(tmp_path / "x.db") as repository:
        assert all(is_quiet(str(item)) for item in repository.check())


def on_a_terminal(*words: Any) -> str:
    """All that a command writes to a terminal, bars included."""
    ours, theirs = pty.openpty()
    script = [sys.executable, "-m", "pastmaster", *map(str, words)]
    process = subprocess.Popen(script, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    found = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                found += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    process.wait(60)
    return found.decode()


def test_a_terminal_gets_no_commands_from_names(db: Path) -> None:
    shown = on_a_terminal("repo", "list", db)
    assert is_quiet(shown.replace("\r\n", "\n"))
    words = ("transfer", db, "--domain", "surveillance", "--count", 1)
    for shown in (on_a_terminal(*words), on_a_terminal("repo", "keep", db, "-k", 2)):
        own = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)  # a bar moves the cursor and has colours
        assert "\x1b" not in own
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x07\x9b]", shown)
        assert "\x1b[31mred" not in shown


def test_reprs_are_quiet(db: Path) -> None:
    with Repository(db) as repository:
        task, records = repository.task(1), repository.records()
        values = cross_values(list(repository.tasks())[:3], list(repository.policies())[:3])
        run = transfer(task, {name: solve(task) for name in HOSTILE[:3]}, episodes=5, rng=0)
        distance = policy_distance(values, directed=True)
        kept = search_clusterings(distance, n_clusters=1, directed=True, rng=0).named(HOSTILE[3:6], HOSTILE[:3])
        shown = [repository, task, records, records[0], repository.runs(), repository.runs()[0], run, kept]
        shown += [repository.policy_records(), repository.clusterings(), repository.clustering()]
        for thing in shown:
            assert is_quiet(repr(thing)), repr(repr(thing))
            assert is_quiet(str(thing))
            if hasattr(thing, "_repr_html_"):
                assert is_quiet(thing._repr_html_())
    black_box = GymTask("FrozenLake-v1", name=HOSTILE[0])
    assert is_quiet(f"{black_box!r} {black_box}")


def test_an_environments_error_is_quiet() -> None:
    def broken() -> gym.Env[Any, Any]:
        raise RuntimeError("\x1b]0;owned\x07")

    with pytest.raises(InvalidInputError) as caught:
        GymTask(broken, name="\x1b[31m")
    assert is_quiet(str(caught.value))


def texts(figure: Any) -> list[str]:
    """Draw a figure; all texts in it."""
    import matplotlib.text

    figure.savefig(io.BytesIO(), format="svg")
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # where every entry has as many episodes
def test_pictures_show_names_letter_by_letter(db: Path) -> None:
    formula = "$x^$ and $\\frac{ \\n"
    with Repository(db) as repository:
        drawn = [*texts(repository.clustering().plot())]
        task = repository.task(1)
        sources = {name: solve(task) for name in (*HOSTILE[10:], formula)}
        runs = [transfer(task, sources, episodes=n, rng=0) for n in (20, 300)]
        drawn += [text for run in runs for text in texts(run.plot())]
        tasks = [named(number, name) for number, name in enumerate(HOSTILE[11:15])]
        estimate = estimate_cross_values(tasks, [solve(task) for task in tasks], budget=200, rng=0)
        drawn += texts(estimate.plot())
    with Repository(db.with_name("agent.db")) as repository:
        run = ContinualTransfer(repository, episodes=5, recluster_every=2, rng=0, sources="none").run(tasks)
        drawn += texts(plot_streams(dict.fromkeys(HOSTILE, run)))
    assert all(map(is_quiet, drawn))
    assert any(r"\$x^\$" in text for text in drawn)
    assert any(text.strip() == "_hidden" for text in drawn)


def test_a_page_shows_names_letter_by_letter(db: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    command("report", db, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, flags=re.DOTALL)
    assert data

    def strings(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for item in inner for text in strings(item)]

    assert all(is_quiet(text.replace("\t", "")) for block in data for text in strings(json.loads(block)))
    outside = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert is_quiet(outside.replace("\t", ""))
    assert r"\x1b[31mred\x1b[0m" in outside
    assert "<script>alert(1)" not in outside


def test_commands_print_through_one_function() -> None:
    """``click.echo`` and ``print`` are called in one module of the command."""
    folder = Path(pastmaster.__file__).parent / "cli"
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print"):
                found.add(path.name)
    assert found == {"printing.py"}
