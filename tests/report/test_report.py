"""``pastmaster report``: what is read and refused, and what the page holds; ``test_report_browser`` looks at it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from made_up import HOSTILE, LABELS, page_of_charts
from seams import Trend, drawn_trend, payload, run_curves, run_shares

import pastmaster
from pastmaster import ContinualTransfer, Repository, TabularMDP, domains
from pastmaster.cli import main
from pastmaster.errors import InvalidInputError
from pastmaster.report import (
    Curves,
    Distances,
    Gallery,
    Page,
    Picture,
    Prose,
    Section,
    Shares,
    Table,
    TaskMap,
    Tasks,
    read_page,
    thinned,
    write_page,
    write_report,
)
from pastmaster.repository import StoredRun

PLOTLY = "* plotly.js v"
HEAD = "label,episode,mean,deviation"
TASKS = domains.coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]], size=4)


class Elements(HTMLParser):
    """Every element of a page with its attributes, the text outside scripts and styles, and the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._inside = "", [], ""
        self.pieces: list[str] = []  # of text, between tags
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif not self._inside:
            self.text += data
            self.pieces.append(data)

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    def data(self) -> list[dict]:
        """All figures."""
        lists = [json.loads(text) for given, text in self.scripts if given.get("id", "").startswith("figures-")]
        return [figure for figures in lists for figure in figures]


@pytest.fixture(scope="module")
def met(tmp_path_factory):
    """A repository in which a lifelong agent has met four tasks; to be copied."""
    path = tmp_path_factory.mktemp("met") / "tasks.db"
    with Repository(path) as repository:
        agent = ContinualTransfer(
            repository, episodes=250, recluster_every=2, rng=np.random.default_rng(0), clustering={"restarts": 2}
        )
        agent.run(TASKS)
    return path


@pytest.fixture
def stocked(met, tmp_path):
    return Path(shutil.copy(met, tmp_path / "tasks.db"))


def written(place: Path | str | Page, tmp_path: Path) -> Elements:
    write = write_page if isinstance(place, Page) else write_report
    return Elements(write(place, tmp_path / "report.html").read_text(encoding="utf-8"))


def galleries(page: Page) -> list[Gallery]:
    return [part for section in page.sections for part in section.parts if isinstance(part, Gallery)]


def figures(page: Page, kind: type) -> list:
    return [chart for gallery in galleries(page) for chart in gallery.charts if isinstance(chart, kind)]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def decoded(packed: str, dtype: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), dtype)


# Charts


def test_distances_travel_ordered_by_cell_and_come_back_to_a_step(rng):
    values = rng.random((5, 5)) * 7
    cells = np.array([1, 0, 2, 0, 1])
    packed = payload(Distances("distances", Tasks(np.arange(5), "abcde", cells, cells), values))
    order = [1, 3, 0, 4, 2]
    assert (packed["names"], packed["cells"], packed["numbers"]) == (list("bdaec"), [0, 0, 1, 1, 2], order)
    back = decoded(packed["values"], "<u2").reshape(5, 5) * packed["largest"] / packed["steps"]
    np.testing.assert_allclose(back, values[np.ix_(order, order)], atol=packed["largest"] / packed["steps"])
    none = np.zeros(5, np.int64)
    nothing = payload(Distances("none", Tasks(np.arange(5), "abcde", none, none), np.zeros((5, 5))))
    assert not decoded(nothing["values"], "<u2").any()


def test_long_lines_are_thinned_to_what_a_screen_shows():
    assert thinned(7).tolist() == list(range(7))
    kept = thinned(10_000)
    assert (len(kept), kept[0], kept[-1]) == (400, 0, 9999)
    assert np.ptp(np.diff(kept)) <= 1


# The page


def test_nothing_from_the_data_becomes_markup(tmp_path):
    page = written(page_of_charts(name=HOSTILE, label=HOSTILE, goal=HOSTILE), tmp_path)
    assert "img" not in page.tags()
    assert not any(name.startswith("on") for _, given in page.elements for name in given)
    assert HOSTILE in page.text
    drawn = page.data()
    assert drawn[0]["title"] == f"{HOSTILE} 0"  # the JSON came through whole
    assert any(name.startswith(HOSTILE) for figure in drawn for name in figure.get("names", ()))
    assert all("<" not in text for given, text in page.scripts if given.get("type") == "application/json")


@dataclass(frozen=True)
class Shouted:
    """A part that writes its own HTML."""

    words: str

    def html(self, text):
        yield f'<p class="shouted">{text(self.words)}!</p>'


def test_a_part_of_somebody_else_writes_its_own_html_with_its_own_style(tmp_path):
    sections = [Section("Said", [Shouted("a < b"), Picture("a dot", b"PNG")])]
    page = Page("Mine", "All of it.", [], sections, maker="my-program", style=".shouted { font-weight: 700; }")
    text = write_page(page, tmp_path / "mine.html").read_text(encoding="utf-8")
    assert '<p class="shouted">a &lt; b!</p>' in text
    assert ".shouted { font-weight: 700; }</style>" in text
    assert text.count(f'<img src="data:image/png;base64,{base64.b64encode(b"PNG").decode()}" alt="a dot">') == 1
    assert "<code>my-program</code>" in text
    assert Elements(text).tags().count("script") == 2  # neither figures nor plotly


def test_the_control_of_that_test_can_fail():
    assert "img" in Elements(f"<p>{HOSTILE}</p>").tags()
    assert "img" in Elements(f'<script type="application/json">"{HOSTILE}"</script>').tags()


def test_plotly_is_there_once_and_only_known_scripts_may_run(tmp_path):
    page = written(page_of_charts(), tmp_path)
    raw = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert raw.count(PLOTLY) == 1
    programs = [text for given, text in page.scripts if given.get("type") is None]
    assert len(programs) == 2
    policy = next(given["content"] for tag, given in page.elements if given.get("http-equiv"))
    for text in programs:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy
    assert not any(given.get("src") or (tag == "link") for tag, given in page.elements)
    assert all(given["href"].startswith("#") for tag, given in page.elements if tag == "a")


def test_the_page_can_be_read_without_eyes_and_without_scripts(tmp_path):
    page = written(page_of_charts(), tmp_path)
    tags = page.tags()
    assert tags.count("h1") == 1
    assert [tag for tag in tags if re.fullmatch("h[1-6]", tag)][:3] == ["h1", "h2", "h2"]
    plots = [given for _, given in page.elements if given.get("class") == "plot"]
    ids = {given["id"] for _, given in page.elements if given.get("id")}
    assert len(plots) == 4
    assert all(given["role"] == "img" and given["aria-labelledby"] in ids for given in plots)
    chosen = [given["for"] for tag, given in page.elements if tag == "label"]
    assert chosen == [given["id"] for tag, given in page.elements if tag == "select"]
    assert len(ids) == sum("id" in given for _, given in page.elements)  # none is there twice
    assert "noscript" in tags
    assert f"{LABELS[0]} (" in page.text  # what a curve comes to is told in words


# A repository


def test_a_repository_becomes_a_page(stocked, tmp_path):
    with Repository(stocked) as repository:
        clustering, runs = repository.clustering(), repository.runs()
        ids = [record.id for record in repository.records()]
    page = read_page(stocked)
    facts = dict(page.facts)
    assert facts["Policies kept"] == f"{clustering.n_clusters} for 4 tasks"
    assert facts["Mean loss"] == facts["Largest loss"] == "0"
    assert facts["Repository"] == str(stocked)
    assert any(isinstance(part, Prose) and str(clustering) in part.text for part in page.sections[0].parts)
    table = next(part for part in page.sections[0].parts if isinstance(part, Table))
    assert len(table.rows) == clustering.n_clusters
    assert sum(int(row[2]) for row in table.rows) == 4
    assert [row[1] for row in table.rows] == [clustering.policy(j) for j in clustering.representatives]
    assert page.lead.startswith(f"Keep {clustering.n_clusters} of 4 policies: {table.rows[0][1]}")
    assert page.lead.endswith("No task loses anything.")
    (drawn,), (distances,) = figures(page, TaskMap), figures(page, Distances)
    assert drawn.tasks is distances.tasks
    assert drawn.tasks.numbers.tolist() == ids
    np.testing.assert_array_equal(drawn.tasks.representatives, clustering.representatives[clustering.labels])
    np.testing.assert_array_equal(distances.values, clustering.distance)
    assert [figure.title for figure in figures(page, Curves)] == [
        f"{run.name}, task {run.position + 1} of the stream continual (run {run.id})" for run in runs[::-1]
    ]
    assert len(figures(page, Shares)) == 4
    assert written(stocked, tmp_path).tags().count("figure") == 5


def test_a_page_has_its_date_and_version_and_the_answer_first(stocked, tmp_path):
    page = read_page(stocked)
    assert page.made.endswith(f" UTC, pastmaster {pastmaster.__version__}")
    assert str(datetime.now(UTC).year) in page.made
    text = written(stocked, tmp_path).text
    assert text.index(page.made) < text.index("Keep ") < text.index("Policies kept")


def test_kept_policies_are_named_with_their_files_even_if_their_task_is_gone(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        worse = np.zeros(16, int)
        best = pastmaster.solve(TASKS[0]).policy
        repository.add(TASKS[0], worse, source="worse.npy")
        gone = repository.add(TASKS[1], best, source="drawer/best.npy")
        repository.add(TASKS[2], worse, source="third.npy")
        repository.remove(gone)
        repository.cluster(n_clusters=1, rng=0, restarts=1, iterations=100)
    page = read_page(tmp_path / "tasks.db")
    table = next(part for part in page.sections[0].parts if isinstance(part, Table))
    assert table.rows[0][1:4] == ("best.npy", "drawer/best.npy", "2")
    (drawn,), (distances,) = figures(page, TaskMap), figures(page, Distances)
    assert (drawn.tasks.representatives, drawn.kept) == (None, ["best.npy"])
    assert (distances.values.shape, distances.policies[distances.kept[0]]) == ((2, 3), "best.npy")
    assert "drawer/best.npy" in written(tmp_path / "tasks.db", tmp_path).text


def drawer(tmp_path: Path, weights=([1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]), **asked) -> Path:
    """A repository of named tasks whose policies came from files, of which some are kept."""
    with Repository(tmp_path / "drawer.db") as repository:
        for i, pair in enumerate(weights):
            task = domains.coloured_grid.task(pair, size=4)
            given = TabularMDP(
                task.next_state, task.reward, gamma=task.gamma, terminated=task.terminated, horizon=task.horizon,
                name=f"hall {i}",
            )  # fmt: skip
            repository.add(given, pastmaster.solve(given).policy, source=f"drawer/p{i}.npy")
        repository.keep(**asked)
    return tmp_path / "drawer.db"


def test_the_first_screen_tells_what_is_kept_what_it_loses_and_how_returns_went(tmp_path):
    path = drawer(tmp_path, k=1)
    with Repository(path) as repository:
        kept = repository.clustering()
        best = np.mean([record.value for record in repository.records()])
    page = read_page(path)
    facts = dict(page.facts)
    worst = kept.table()[int(kept.losses.argmax())]
    assert facts["Mean loss"] == f"{kept.mean_loss:.4g} ({100 * kept.mean_loss / best:.2g}% of {best:.4g})"
    assert facts["Largest loss"] == f"{worst.loss:.4g}, {worst.task}"
    (bars,) = page.overview
    losing = sorted((row for row in kept.table() if row.loss > 0), key=lambda row: -row.loss)
    assert [bar.name for bar in bars.bars] == [row.task for row in losing]
    assert [bar.note for bar in bars.bars] == [f"served by {row.policy}" for row in losing]
    assert bars.bars[0].share == 1.0
    assert bars.more == f"{4 - len(losing)} task{'s lose' if len(losing) < 3 else ' loses'} nothing."
    with Repository(path) as repository:
        names = {"a": 0.2, "b": 0.4, "c": 0.9}
        stream = [named([1, weight], name) for name, weight in names.items()]
        run = ContinualTransfer(repository, episodes=20, recluster_every=9, rng=0, name="spring").run(stream)
        repository.keep(k=2)
    page = read_page(path)
    _, trend = page.overview
    assert list(trend.names) == run.names
    np.testing.assert_allclose(trend.values, run.mean_returns)
    assert trend.note.startswith("The stream spring: 3 tasks, mean return ")
    assert dict(page.facts)["Mean return"].startswith(f"{run.returns.mean():.4g} of ")
    text = written(path, tmp_path)
    assert (
        text.text.index("What each task loses")
        < text.text.index("How returns went")
        < text.text.index("The policies kept")
    )
    assert text.tags().count("circle") == 3


def test_losses_are_told_task_by_task_and_those_of_the_papers_distances_are_true_losses(tmp_path):
    path = drawer(tmp_path, k=1)
    table = next(part for part in read_page(path).sections[0].parts if isinstance(part, Table) and "loses" in part.head)
    with Repository(path) as repository:
        by_loss = sorted(repository.clustering().table(), key=lambda row: -row.loss)
        assert [(row[0], row[1], row[3]) for row in table.rows] == [
            (row.task, row.policy, f"{row.loss:.4g}") for row in by_loss
        ]
        paper = repository.cluster(n_clusters=1, directed=False, rng=0, restarts=1, iterations=100)
        U = np.asarray(repository.cross_values())
    lost = U.max(axis=1) - U[:, paper.representatives[0]]
    table = next(part for part in read_page(path).sections[0].parts if isinstance(part, Table) and "loses" in part.head)
    assert [row[3] for row in table.rows] == [f"{loss:.4g}" for loss in sorted(lost, reverse=True)]
    assert paper.losses.max() >= lost.max()


@pytest.mark.parametrize(("low", "high"), [(0, 48.2), (-3.7, 0), (0, 0), (-1e9, 1e3), (0.0, 1e-12), (-5, 5)])
def test_ticks_are_round_and_hold_all_values(low, high):
    trend = Trend("", "", "", ("a", "b"), "", (low, high), "", (low, high))
    ticks, heights = zip(*drawn_trend(trend)["ticks"], strict=True)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= low + 1e-9 * abs(low)
    assert ticks[-1] >= high - 1e-9 * abs(high)
    steps = np.diff(ticks)
    np.testing.assert_allclose(steps, steps[0])
    assert list(heights) == sorted(heights, reverse=True)


def test_how_sure_the_choice_is_is_told_where_values_are_estimates(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        for j, task in enumerate(TASKS):
            repository.add(task, np.full((16, 4), 0.25) if j else np.eye(4)[np.zeros(16, int)], evaluation_episodes=5)
        repository.keep(k=1)
        said = str(repository.clustering().stability(rng=0))
        write_report(tmp_path / "tasks.db", tmp_path / "a.html")
    assert f"How sure that is: {said}." in Elements((tmp_path / "a.html").read_text()).text
    with Repository(tmp_path / "exact.db") as repository:
        for task in TASKS:
            repository.add(task)
        repository.keep(k=1)
        write_report(tmp_path / "exact.db", tmp_path / "b.html")
    assert "How sure that is" not in (tmp_path / "b.html").read_text()


def test_hostile_names_on_the_first_screen_are_text(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        run = ContinualTransfer(repository, episodes=5, recluster_every=9, rng=0, name=HOSTILE)
        run.run([named(weights, i) for i, weights in enumerate(([1, 1], [1, 0.1], [0.1, 1]))])
        repository.keep(k=1)
    page = written(tmp_path / "tasks.db", tmp_path)
    assert "img" not in page.tags()
    assert page.text.count(HOSTILE) >= 3


def test_columns_of_losses_are_policies_in_their_order_and_the_kept_ones_are_marked(tmp_path):
    best = [pastmaster.solve(task).policy for task in TASKS[:3]]
    with Repository(tmp_path / "tasks.db") as repository:
        for i, task in enumerate(TASKS[:3]):  # every task comes with the policy of the next one
            repository.add(task, best[(i + 1) % 3], source=f"best{(i + 1) % 3}.npy")
        clustering = repository.cluster(n_clusters=2, rng=0, restarts=2, iterations=500)
    page = read_page(tmp_path / "tasks.db")
    (drawn,), (losses,) = figures(page, TaskMap), figures(page, Distances)
    names = ["best1.npy", "best2.npy", "best0.npy"]
    assert losses.policies == names
    assert losses.kept == sorted(clustering.representatives.tolist())
    assert drawn.kept == [names[j] for j in clustering.representatives]
    packed, order = payload(losses), np.argsort(clustering.labels, kind="stable")
    assert (packed["policies"], packed["kept"]) == (names, losses.kept)
    assert packed["names"] == [TASKS[i].name for i in order]
    back = decoded(packed["values"], "<u2").reshape(3, 3) * packed["largest"] / packed["steps"]
    np.testing.assert_allclose(back, clustering.distance[order], atol=packed["largest"] / packed["steps"])
    assert payload(drawn)["representatives"] is None
    assert "3 policies. Kept: " in packed["summary"]


def test_of_many_policies_all_kept_ones_are_shown(rng, monkeypatch):
    monkeypatch.setattr("pastmaster.report.payload.MOST_ROWS", 3)
    values, names = rng.random((2, 9)), [f"policy {j}" for j in range(9)]
    packed = payload(Distances("losses", Tasks(np.arange(2), "ab", np.zeros(2, int), None), values, names, [1, 7]))
    assert packed["policies"] == [names[j] for j in (0, 1, 4, 7, 8)]
    assert packed["kept"] == [1, 3]
    assert len(decoded(packed["values"], "<u2")) == 10


def test_a_page_says_in_words_that_nothing_is_lost_and_counts_one_policy(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        repository.add(TASKS[0], name="only")
        repository.cluster(n_clusters=1, rng=0, restarts=1, iterations=100)
        assert read_page(tmp_path / "tasks.db").lead == "Keep 1 of 1 policy: only. No task loses anything."
        repository.add(TASKS[1])
        repository.add(TASKS[2])
        lost = repository.cluster(n_clusters=1, rng=0, restarts=1, iterations=100).losses
    words = f"A task loses at most {lost.max():.4g}, {lost.mean():.4g} on average."
    assert lost.max() > 0
    assert read_page(tmp_path / "tasks.db").lead.endswith(words)


def test_an_empty_repository_says_what_to_do(tmp_path):
    with Repository(tmp_path / "new.db") as repository:
        page = written(tmp_path / "new.db", tmp_path)
        assert "No tasks yet: pastmaster repo add" in page.text
        assert "No runs yet: pastmaster continual" in page.text
        repository.add(TASKS[0])
    page = written(tmp_path / "new.db", tmp_path)
    assert "No clustering yet: pastmaster repo keep" in page.text
    assert page.data() == []


def test_tasks_that_came_or_went_since_the_clustering_are_spoken_of(stocked, tmp_path):
    with Repository(stocked) as repository:
        repository.add(domains.coloured_grid.task([0.2, 0.9], size=4))
        assert "1 task came after the latest clustering and is not shown." in written(stocked, tmp_path).text
        page = read_page(stocked)
        assert "; 1 task came later and may lose more." in page.lead
        assert page.overview[0].more.endswith("Tasks that came later are not counted: 1.")
        repository.remove(repository.records()[0].id)
    assert "The latest clustering cannot be shown: clustering" in written(stocked, tmp_path).text


def test_a_name_in_a_repository_is_text(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        for i, weights in enumerate(([1, 1], [1, 0.1])):
            repository.add(named(weights, i))
        repository.cluster(rng=np.random.default_rng(0), n_clusters=1, restarts=1, iterations=100)
    page = written(tmp_path / "tasks.db", tmp_path)
    assert "img" not in page.tags()
    assert HOSTILE in page.text


def named(weights, i):
    task = domains.coloured_grid.task(weights, size=4)
    return TabularMDP(
        task.next_state, task.reward, gamma=task.gamma, terminated=task.terminated, horizon=task.horizon,
        name=f"{HOSTILE}{i}",
    )  # fmt: skip


def stored(returns, arms, **changes) -> StoredRun:
    given = {
        "id": 7, "stream_id": 1, "position": 4, "name": "grid", "task_id": 5, "task_digest": "", "value": 2.0,
        "value_now": 2.0, "n_sources": 12, "evaluation_episodes": 0,
        "source_names": [f"source {i}" for i in range(12)],
    } | changes  # fmt: skip
    return StoredRun(**given, returns=np.asarray(returns, float), arms=np.asarray(arms))


def test_a_run_is_windowed_to_100_points(rng):
    arms = rng.integers(13, size=1234)
    run = stored(np.arange(1234), arms)
    curves, shares = run_curves(run), run_shares(run)
    line, level = curves.lines
    assert len(line.episode) == len(shares.episode) == 95  # 13 episodes each, the last fewer
    assert line.mean[0] == np.arange(13).mean()
    assert line.deviation[0] == np.arange(13).std()
    assert level.reference
    assert set(level.mean) == {2.0}
    assert curves.title == "grid, task 5 of stream 1 (run 7)"
    assert next(iter(shares.arms)) == "learner"
    assert shares.arms["learner"][0] == (arms[:13] == 12).mean()
    assert list(shares.arms)[-1] == "the others (5)"
    np.testing.assert_allclose(sum(shares.arms.values()), 1)


def test_of_many_runs_the_newest_are_shown(stocked, monkeypatch):
    monkeypatch.setattr("pastmaster.report.repository.MOST_RUNS", 3)
    page = read_page(stocked)
    assert len(figures(page, Curves)) == 3
    assert "the newest 3 of 4 runs" in page.sections[-1].parts[0].text


# Writing, and the command


def test_a_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    out = tmp_path / "new" / "report.html"
    first = write_page(page_of_charts(), out).read_bytes()
    assert write_page(page_of_charts(), out).read_bytes() == first

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(InvalidInputError, match=r"report.html cannot be written: No space left on device"):
        write_page(page_of_charts(), out)
    assert out.read_bytes() == first
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_the_command_says_where_the_page_is(stocked, tmp_path):
    out = tmp_path / "page.html"
    result = run(stocked, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(rf"report: {re.escape(str(out))} \([\d,]+ kB\)\n", result.stdout)
    result = run(stocked, "--out", out, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("place", "out", "sentence"),
    [
        ("empty", "page.html", "empty is a directory, must be a file"),
        ("nowhere.db", "page.html", "nowhere.db: check the path, or make one"),
        ("notes.txt", "page.html", "is not a repository"),
        ("tasks.db", "empty", "empty is a folder, must be a file"),
        ("tasks.db", "tasks.db", "tasks.db is no page, must end in .html"),
        ("tasks.db", "notes.txt/page.html", "cannot be written"),
        ("mysql://host/name", "page.html", "must begin with postgresql://"),
    ],
)
def test_an_error_is_one_line(tmp_path, place, out, sentence):
    Repository(tmp_path / "tasks.db").close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("these are notes\n" * 100)
    result = run(place if "://" in place else tmp_path / place, "--out", tmp_path / out)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_without_plotly_it_says_what_to_install(stocked, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    result = run(stocked, "--out", tmp_path / "page.html")
    assert result.exit_code == 1
    assert result.stderr == "Error: a report needs plotly, which is not installed: pip install plotly\n"


def test_plotly_is_not_imported_before_it_is_needed():
    script = "import sys, pastmaster.cli, pastmaster.report\nassert 'plotly' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
