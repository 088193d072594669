"""The page of a reproduction: what is read and refused, and what the page holds."""

from __future__ import annotations

import base64
import json
import os
import re
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from made_up_reproduction import HOSTILE, write_curves, write_reproduction

from pastmaster import DamagedError, InvalidInputError, PastmasterError
from pastmaster.report import Curves, Distances, Gallery, Page, Picture, Prose, Table, TaskMap
from pastmaster_paper.__main__ import main
from pastmaster_paper.report import PNG, reproduction_page, write_report

HEAD = "label,episode,mean,deviation"


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


@pytest.fixture
def folder(tmp_path):
    return write_reproduction(tmp_path / "out")


def written(folder: Path, tmp_path: Path) -> Elements:
    return Elements(write_report(folder, tmp_path / "report.html").read_text(encoding="utf-8"))


def galleries(page: Page) -> list[Gallery]:
    return [part for section in page.sections for part in section.parts if isinstance(part, Gallery)]


def figures(page: Page, kind: type) -> list:
    return [chart for gallery in galleries(page) for chart in gallery.charts if isinstance(chart, kind)]


def test_a_folder_becomes_a_page_of_sentences_figures_and_findings(tmp_path):
    folder = write_reproduction(tmp_path / "out", seeds=(3, 11, 20))
    (folder / "figures" / "reward-summary").mkdir()
    (folder / "figures" / "useless").mkdir()
    (folder / "figures" / "reward-summary" / "all-rewards.png").write_bytes(PNG + b"rest")
    (folder / "figures" / "reward-summary" / "learning-curves.png").write_bytes(PNG + b"drawn by the page itself")
    page = reproduction_page(folder)
    assert [section.heading for section in page.sections] == [
        "Sentences", "Coloured grid", "Our findings: Windy corridor: clusters", "Reward summary",
    ]  # fmt: skip
    caveat = "3 of the 20 draws on which sentences are judged: verdicts may change."
    assert page.notes[0] == Prose(caveat, aside=True)
    assert "47 readings were tried" in page.notes[1].text
    rows = [("gamma", "0.9", "0.9"), ("sequences", "-", "-")]
    assert page.sections[0].parts[0] == Table("How the paper is read", ("", "printed", "undiscounted"), rows)
    table = Table("Rewards of coloured-grid", ["way", "96/2"], [("reuse", "12.5 (11 .. 14)")])
    assert page.sections[1].parts[0] == table
    assert page.sections[-1].parts == [Picture("Reward summary: all rewards", PNG + b"rest")]
    assert [gallery.heading for gallery in galleries(page)[:4]] == [
        "Learning curves", "Maps of the tasks", "Distances", "Who ran the episodes",
    ]  # fmt: skip
    assert [figure.title for figure in figures(page, Curves)[:2]] == ["Goal 0", "Goal 1"]
    told = "1 hold, 1 in part, 1 contrary"
    assert page.facts[:3] == [("Result", "3 sentences"), ("Read as printed", told), ("Read as undiscounted", told)]


def test_a_picture_is_in_the_page_and_what_is_none_is_refused(folder, tmp_path, monkeypatch):
    place = folder / "figures" / "gains"
    place.mkdir()
    (place / "gains.png").write_bytes(PNG + b"rest")
    page = write_report(folder, tmp_path / "page.html").read_text()
    code = base64.b64encode(PNG + b"rest").decode()
    assert page.count(f'<img src="data:image/png;base64,{code}" alt="Gains: gains">') == 1
    (place / "gains.png").write_bytes(b"<svg onload=alert(1)>")
    with pytest.raises(DamagedError, match=r"gains\.png is no picture, must be a PNG file"):
        reproduction_page(folder)
    monkeypatch.setattr("pastmaster_paper.report.MOST_PICTURE_BYTES", 10)
    with pytest.raises(DamagedError, match=r"gains\.png has 21 bytes, must have at most 10"):
        reproduction_page(folder)


def test_curves_are_those_of_the_file(folder):
    (folder / "figures/coloured-grid/curves-goal-0.csv").write_text(
        f'# title: A, "quoted" title\n{HEAD}\n"b, or c",1,2.5,0.5\n"b, or c",3,4,0\noptimal policy,1,9,0\n'
    )
    figure = figures(reproduction_page(folder), Curves)[0]
    assert figure.title == 'A, "quoted" title'
    first, best = figure.lines
    assert (first.label, first.reference, best.label, best.reference) == ("b, or c", False, "optimal policy", True)
    np.testing.assert_array_equal([first.episode, first.mean, first.deviation], [[1, 3], [2.5, 4], [0.5, 0]])


@pytest.mark.parametrize("first", ["", "# something else\n", "# title:  \n"])
def test_a_figure_without_a_title_goes_by_its_file(folder, first):
    path = folder / "figures/coloured-grid/curves-two-targets.csv"
    path.write_text(f"{first}label,episode,mean,deviation\na,1,2,0\n")
    assert "two targets" in [figure.title for figure in figures(reproduction_page(folder), Curves)]


def test_a_map_and_its_distances_are_those_of_the_files(folder):
    path = folder / "figures/coloured-grid/map-family-0.csv"
    path.write_text("task,name,cell,representative,speed,mass\n0,a,0,0,1,2\n1,b,0,0,3,4\n2,c,1,2,5,6\n")
    (folder / "figures/coloured-grid/distance-family-0.csv").write_text("0,1,2\n1,0,3\n2,3,0\n")
    page = reproduction_page(folder)
    found, beside = figures(page, TaskMap)[0], figures(page, Distances)[0]
    assert (found.tasks.names, found.axes) == (["a", "b", "c"], ("speed", "mass"))
    np.testing.assert_array_equal(found.points, [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal([found.tasks.cells, found.tasks.representatives], [[0, 0, 1], [0, 0, 2]])
    assert beside.tasks is found.tasks
    np.testing.assert_array_equal(beside.values, [[0, 1, 2], [1, 0, 3], [2, 3, 0]])


def test_sentences_are_told_in_words_with_a_small_plot_each(folder, tmp_path):
    page = written(folder, tmp_path)
    text = " ".join(page.text.split())
    assert "holds" in text
    assert "96-2: 12.4 (10.9 .. 13.9) reward an episode" in text
    assert "96-2: -12.4 (-13.9 .. -10.9) reward an episode" in text
    assert "11 .. 13.8" in text  # the bootstrap beside it
    assert page.pieces.count("holds") == 1  # in the table of figures; in the cells the mark goes before
    assert page.pieces.count("contrary") == 2
    assert page.pieces.count("printed: ") == page.pieces.count("undiscounted: ") == 2  # on a phone
    assert page.tags().count("details") == 3
    plots = [given for tag, given in page.elements if tag == "svg" and given.get("class") == "small"]
    assert len(plots) == 5  # one where no reading matters, else one for each
    assert all(given["role"] == "img" and "around what is claimed" in given["aria-label"] for given in plots)
    assert 'class="quick"' not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_folder_without_sentences_says_so(tmp_path):
    folder = write_reproduction(tmp_path / "out", n_sentences=0)
    page = reproduction_page(folder)
    assert dict(page.facts)["Result"] == "no sentence is about these experiments"
    assert not any("verdicts may change" in note.text for note in page.notes)
    assert "There are no sentences in this folder." in written(folder, tmp_path).text


def test_a_quick_run_says_so_at_every_sentence(tmp_path):
    page = written(write_reproduction(tmp_path / "out", quick=True), tmp_path)
    assert sum(given.get("class") == "quick" for _, given in page.elements) == 5
    assert "This was a quick run" in page.text


def test_a_folder_with_sentences_alone_says_that_there_are_no_figures(tmp_path):
    page = written(write_reproduction(tmp_path / "out", experiments=(), seeds=(0,)), tmp_path)
    assert page.data() == []
    (tmp_path / "out/figures").mkdir()
    page = written(tmp_path / "out", tmp_path)
    assert "There are no figures" in page.text
    assert page.tags().count("script") == 2  # neither figures nor plotly


def damage(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / "figures/coloured-grid" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


MAP = "task,name,cell,representative,x,y\n"
FILES = [
    ("curves", f"{HEAD}\na,1,2,0\na,2,nan,0\n", ": must hold rows of 3 finite numbers"),
    ("curves", f"# title: x\n{HEAD}\na,1,1e999,0\n", ": must hold rows of 3 finite numbers"),
    ("curves", f"{HEAD}\na,1,2,x\n", ": must hold rows of 3 numbers: could not convert string to float: 'x'"),
    ("curves", f"{HEAD}\na,1,2\n", ": must hold rows of 3 finite numbers"),
    ("curves", f"{HEAD}\na,1,2,3\na,1,2\n", ": must hold rows of 3 numbers"),
    ("curves", f"{HEAD}\n", " holds no rows"),
    ("curves", "", ": begins with '', must begin with 'label,episode"),
    ("curves", "label,mean\na,1\n", ": begins with 'label,mean', must begin with 'label,episode"),
    ("curves", f'{HEAD}\n"a,1,2,0\n', ", line 2: is not CSV"),
    ("shares", "arm,episode,share\na,1,0.7\na,2,0.7\nb,1,0.1\n", ": its arms are not at the same episodes"),
    ("map", f"{MAP}0,a,7,0,1,1\n", ": must hold tasks 0 to 0 in order, with their cells"),
    ("map", f"{MAP}0,a,0,-1,1,1\n", ": must hold tasks 0 to 0 in order"),
    ("map", f"{MAP}0,a,0,0,1,1\n0,b,0,0,1,1\n", ": must hold tasks 0 to 1 in order"),
    ("map", f"{MAP}0,a\n", ": must hold rows of 5 finite numbers"),
    ("map", f"{MAP}0\n", ": must hold rows of 5 finite numbers"),
    ("map", "task,name,cell,representative,x\n0,a,0,0,1\n", ": must hold rows of 5 finite numbers"),
    ("distance", "0,1\n1,0\n", ": has 2 rows, must have one for each task of the map of this name"),
]


@pytest.mark.parametrize(("kind", "content", "sentence"), FILES)
def test_a_damaged_chart_is_refused_by_its_file(folder, tmp_path, kind, content, sentence):
    path = folder / f"figures/coloured-grid/{kind}-odd.csv"
    path.write_text(content)
    with pytest.raises(DamagedError, match=re.escape(f"{path}{sentence}")):
        write_report(folder, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_bytes_that_are_no_text_and_distances_of_another_size_are_refused(folder):
    path = folder / "figures/coloured-grid/distance-family-1.csv"
    whole = path.read_text()
    path.write_text("0\n")
    with pytest.raises(DamagedError, match=r"distance-family-1.csv: has 1 rows, must have one for each task"):
        reproduction_page(folder)
    path.write_text(whole[: len(whole) // 2])  # cut short
    with pytest.raises(DamagedError, match=r"distance-family-1.csv: has 6 rows, must have one for each task"):
        reproduction_page(folder)
    path.write_bytes(b"0,1\n1,\xff\n")
    with pytest.raises(DamagedError, match=r"distance-family-1.csv, line 2: is not text in UTF-8"):
        reproduction_page(folder)


def test_a_huge_file_is_not_read(folder):
    path = folder / "figures/coloured-grid/curves-goal-0.csv"
    os.truncate(path, 2**27)
    with pytest.raises(DamagedError, match=r"curves-goal-0.csv has 134,217,728 bytes, must have at most"):
        reproduction_page(folder)


OTHER = "is not as `reproduce` writes it"
CASE = ("judged", 0, "cases", 0)
CHANGES = [
    (("schema",), 1, ": schema is 1, must be 2: written by another pastmaster"),
    (("mode",), "some", f" {OTHER}: ValueError"),
    (("seeds",), [], f" {OTHER}: ValueError"),
    (("judged",), 7, f" {OTHER}: TypeError"),
    (("judged", 0), 5, f" {OTHER}: TypeError"),
    ((*CASE, "figure", "values"), [1.0], f" {OTHER}: ValueError\\('a figure has 1 values for 3 seeds"),
    ((*CASE, "figure", "mean"), "x", f" {OTHER}: ValueError"),
    ((*CASE, "figure", "mean"), float("nan"), f" {OTHER}: ValueError"),
    ((*CASE, "figure", "low"), None, f" {OTHER}: ValueError\\('an interval has one end"),
    ((*CASE, "wanted"), "> much", f" {OTHER}: ValueError"),
    ((*CASE, "wanted"), "like 0", f" {OTHER}: KeyError"),
    (("judged", 1, "reading"), "mine", f" {OTHER}: ValueError"),
    (("judged", 0, "verdict"), "perhaps", f" {OTHER}: ValueError"),
    (("seeds",), [0, 1, 10**400], f" {OTHER}: InvalidInputError"),
    ((*CASE, "figure", "high"), 10**400, f" {OTHER}: OverflowError"),
    (("experiments",), [], f" {OTHER}: AttributeError"),
]


@pytest.mark.parametrize(("place", "value", "sentence"), CHANGES)
def test_sentences_that_are_not_ours_are_refused_in_a_sentence(folder, place, value, sentence):
    path = folder / "sentences.json"
    content = json.loads(path.read_text())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(content))
    with pytest.raises(PastmasterError, match=f"sentences.json{sentence}"):
        reproduction_page(folder)


def test_a_missing_field_and_broken_json_are_refused(folder):
    path = folder / "sentences.json"
    content = json.loads(path.read_text())
    del content["judged"][1]["id"]
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedError, match=rf"sentences.json {OTHER}: KeyError\('id'\)"):
        reproduction_page(folder)
    path.write_text('{"schema": 1,\n oops}')
    with pytest.raises(DamagedError, match=r"sentences.json is not JSON: .* \(line 2\)"):
        reproduction_page(folder)


def test_nothing_from_the_data_becomes_markup(tmp_path):
    folder = write_reproduction(tmp_path / "out", name=HOSTILE)
    content = json.loads((folder / "sentences.json").read_text())
    content["machine"] = content["sentences"][0]["words"] = content["judged"][0]["cases"][0]["name"] = HOSTILE
    content["version"] = "\ud800 \0 <!-- <script>"
    (folder / "sentences.json").write_text(json.dumps(content))
    damage(folder, "curves-goal-0.csv", "# title: Goal 0", f"# title: {HOSTILE}")
    page = written(folder, tmp_path)
    assert "img" not in page.tags()
    assert not any(name.startswith("on") for _, given in page.elements for name in given)
    assert HOSTILE in page.text
    drawn = page.data()
    assert drawn[0]["title"] == HOSTILE  # the JSON came through whole
    assert any(name.startswith(HOSTILE) for figure in drawn for name in figure.get("names", ()))
    assert all("<" not in text for given, text in page.scripts if given.get("type") == "application/json")


def test_a_full_reproduction_stays_below_6_mb(tmp_path):
    names = tuple("abcdefghijkl")
    folder = write_reproduction(
        tmp_path / "out", experiments=names, n_figures=0, n_points=100, seeds=range(20), n_sentences=28, n_cases=6
    )
    rng = np.random.default_rng(0)
    for i in range(72):  # as many curves as two readings have in nine settings, and as many pictures
        write_curves(folder / f"figures/{names[i % 12]}/curves-{i}.csv", f"Goal {i}", 100, rng)
    for i in range(26):
        (folder / f"figures/{names[i % 12]}/{i}.png").write_bytes(PNG + bytes(15_000))
    out = write_report(folder, tmp_path / "report.html")
    assert 4e6 < out.stat().st_size < 6e6


@pytest.mark.parametrize("number", range(60))
def test_a_broken_file_is_read_or_refused_by_an_error_of_ours(folder, number):
    """Bytes are changed, cut off or said twice in one file of the folder; nothing else may be raised."""
    rng = np.random.default_rng(number)
    paths = [folder / "sentences.json", *sorted((folder / "figures" / "coloured-grid").glob("*-*.csv"))]
    path = paths[rng.integers(len(paths))]
    content = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(content)))
        kind = rng.integers(3)
        if kind == 0:
            content[place] = int(rng.integers(256))
        elif kind == 1:
            del content[place:]
        else:
            content[place:place] = content[:place]
        content = content or bytearray(b"0")
    path.write_bytes(content)
    with suppress(PastmasterError):
        assert reproduction_page(folder).sections


@pytest.mark.parametrize("seed", ["1" + "0" * 5000, "1e999", "[[[["])
def test_numbers_without_end_are_refused(folder, seed):
    path = folder / "sentences.json"
    path.write_text(re.sub(r'"seeds": \[[^]]*\]', f'"seeds": [{seed}]', path.read_text()))
    with pytest.raises(DamagedError, match=r"sentences\.json"):
        reproduction_page(folder)


def test_a_folder_that_is_no_reproduction_is_refused_before_plotly_is_asked_for(tmp_path):
    with pytest.raises(InvalidInputError, match=r"must be what `reproduce` wrote: it has no sentences\.json"):
        write_report(tmp_path, tmp_path / "page.html")


def test_the_command_says_where_the_page_is(folder, tmp_path):
    out = tmp_path / "page.html"
    result = CliRunner().invoke(main, ["report", str(folder), "--out", str(out)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(rf"report: {re.escape(str(out))} \([\d,]+ kB\)\n", result.stdout)
    assert "<code>python -m pastmaster_paper report</code>" in out.read_text()
    refused = CliRunner().invoke(main, ["report", str(tmp_path), "--out", str(out)])
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: FOLDER is {str(tmp_path)!r}, must be what `reproduce` wrote")
    assert refused.stderr.count("\n") == 1
