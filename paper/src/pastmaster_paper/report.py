"""A reproduction folder as a page: the sentences, the figures of the paper for each reading, then our findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from pastmaster import DamagedError, InvalidInputError
from pastmaster.report import (
    Chart,
    Curves,
    Gallery,
    Indices,
    Line,
    Page,
    Part,
    Picture,
    Prose,
    Section,
    Table,
    thinned,
    write_page,
)
from pastmaster_paper.experiments.charts import COLUMNS, TABLE, read_charts, read_tables
from pastmaster_paper.experiments.folder import FIGURES, JUDGED, Reproduction, read_judged
from pastmaster_paper.experiments.pooled import ENOUGH
from pastmaster_paper.experiments.readings import READINGS, TRIED
from pastmaster_paper.files import read_bytes
from pastmaster_paper.sentences_html import sentences_html

MOST_CHARTS, MOST_PICTURE_BYTES = 1000, 8_000_000
MOST_POINTS = 60  # of a learning curve
PNG = b"\x89PNG\r\n\x1a\n"
CURVES = "learning-curves"  # pictures of what the page draws itself
ABOUT = "What the paper says, sentence by sentence, what became of it under each reading, and the figures behind it."
QUICK = "This was a quick run, smaller than the experiments it stands for: it shows that everything runs, and no more."
ABOUT_VERDICTS = (
    "Draws of tasks are the replicates. A case holds where the 95% interval over draws (Student's t; the bootstrap is "
    "beside it) lies on the claimed side, is contrary where it lies on the other, and is not shown in between. A "
    "sentence holds where all its cases do, and in part where some do. In a small plot the vertical line is what is "
    "claimed, and each case has its own scale."
)
OURS = "Our findings: "
GALLERIES = {
    "curves": ("Learning curves", "Mean return against episodes; the band is one standard deviation to either side."),
    "map": (
        "Maps of the tasks",
        "Every task is a point, joined by a thin line to the representative of its cell, a star with the cell's "
        "number. Tasks at the same place are spread a little.",
    ),
    "distance": (
        "Distances",
        "What two tasks lose if they swap policies: dark is little, light is much. Tasks are ordered by cell, and "
        "lines separate the cells.",
    ),
    "shares": (
        "Who ran the episodes",
        "Which share of the episodes each policy ran: the learner's own, and those reused.",
    ),
}


LONGEST = 120  # letters of a setting


@dataclass(frozen=True)
class Sentences:
    """The sentences of a reproduction, as a part of a page."""

    found: Reproduction

    def html(self, text: Callable[[str], str]) -> Iterable[str]:
        """The table of sentences."""
        return sentences_html(self.found, text)


def write_report(folder: str | Path, out: str | Path = "pastmaster-report.html") -> Path:
    """Write the page of a folder that ``reproduce`` wrote, as one HTML file that needs no network.

    Examples
    --------
    >>> from pastmaster_paper.report import write_report
    >>> write_report("nowhere", "page.html")
    Traceback (most recent call last):
    ...
    pastmaster.errors.InvalidInputError: report: folder is 'nowhere', must be what `reproduce` wrote: it has no \
sentences.json
    """
    if not (Path(folder) / JUDGED).is_file():
        raise InvalidInputError(
            f"report: folder is {str(folder)!r}, must be what `reproduce` wrote: it has no {JUDGED}"
        )
    return write_page(reproduction_page(Path(folder)), out)


def reproduction_page(folder: Path) -> Page:
    """The page of a folder that ``reproduce`` wrote."""
    found = read_judged(folder)
    figures = folder / FIGURES
    places = {path.name: path for path in sorted(figures.iterdir()) if path.is_dir()} if figures.is_dir() else {}
    n_charts = sum(len(list(place.glob(f"{kind}-*.csv"))) for place in places.values() for kind in (*COLUMNS, TABLE))
    if n_charts > MOST_CHARTS:
        raise DamagedError(f"{figures} holds {n_charts} charts, must hold at most {MOST_CHARTS}")
    titles = {name: found.experiments.get(name, _words(name).capitalize()) for name in [*found.experiments, *places]}
    sections = [
        Section(f"{OURS if name in found.findings else ''}{title}", _parts(places[name], title))
        for name, title in titles.items()
        if name in places
    ]
    shown = [section for section in sections if section.parts]
    if not shown:
        shown = [Section("Figures", [Prose("There are no figures: the folder holds sentences only.", aside=True)])]
    first = Section("Sentences", [*([_readings(found)] if found.readings else []), Sentences(found)])
    now = datetime.now(UTC)
    return Page(
        "Reproduction report",
        ABOUT,
        _facts(found),
        [first, *shown],
        _notes(found),
        made=f"{now.day} {now:%B %Y, %H:%M} UTC, pastmaster {version('pastmaster')}",
        maker="python -m pastmaster_paper report",
        style=resources.files("pastmaster_paper").joinpath("sentences.css").read_text("utf-8"),
    )


def _notes(found: Reproduction) -> list[Prose]:
    notes = [Prose(QUICK, aside=True)] if found.mode == "quick" else []
    if found.caveat:
        notes.append(Prose(f"{found.caveat}.", aside=True))
    tried = f" {TRIED}" if set(found.readings) & set(READINGS) else ""
    return [*notes, Prose(f"{ABOUT_VERDICTS}{tried}")]


def _readings(found: Reproduction) -> Table:
    """The readings side by side."""
    names = list(
        dict.fromkeys(key for table in found.readings.values() for key in table if key not in ("name", "words"))
    )
    rows = [
        (_words(name).replace("_", " "), *(_told(table.get(name)) for table in found.readings.values()))
        for name in names
    ]
    return Table("How the paper is read", ("", *found.readings), rows)


def _told(value: Any) -> str:
    """A setting in words."""
    if isinstance(value, dict):
        value = ", ".join(f"{key}: {each}" for key, each in value.items())
    plain = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    words = "-" if plain is None or plain == "" else " ".join(str(plain).split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}..."


def _facts(found: Reproduction) -> list[tuple[str, str]]:
    seeds = found.seeds
    in_a_row = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    told = f"{seeds[0]} to {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds))
    results = [("Result", "not judged" if found.mode == "quick" else found.subject)]
    if found.mode != "quick" and found.sentences:
        results += [(f"Read as {reading}", found.counted(reading)) for reading in found.readings]
    return [
        *results,
        ("Run", found.mode),
        ("Draws", f"{len(seeds)} of {ENOUGH}, seeds {told}"),
        ("Machine", found.machine),
        ("pastmaster", found.version),
    ]


def _parts(folder: Path, heading: str) -> list[Part]:
    """The tables and pictures of an experiment, and a gallery for each kind of chart."""
    parts: list[Part] = [Table(one.title, one.head, [tuple(row) for row in one.rows]) for one in read_tables(folder)]
    pictures = [path for path in sorted(folder.glob("*.png")) if CURVES not in path.stem]
    parts += [_picture(path, heading) for path in pictures]
    for kind, charts in groupby(read_charts(folder), lambda chart: chart.kind):
        parts.append(Gallery(*GALLERIES[kind], tuple(map(_thinned, charts))))
    return parts


def _thinned(chart: Chart) -> Chart:
    """A chart of learning curves with fewer points: a page holds many charts, drawn small."""
    if not isinstance(chart, Curves):
        return chart
    return Curves(chart.title, [_some(line, thinned(len(line.mean), MOST_POINTS)) for line in chart.lines])


def _some(line: Line, kept: Indices) -> Line:
    return replace(line, episode=line.episode[kept], mean=line.mean[kept], deviation=line.deviation[kept])


def _picture(path: Path, heading: str) -> Picture:
    content = read_bytes(path, MOST_PICTURE_BYTES)
    if not content.startswith(PNG):
        raise DamagedError(f"{path} is no picture, must be a PNG file")
    return Picture(f"{heading}: {_words(path.stem)}", content)


def _words(name: str) -> str:
    return name.replace("-", " ")
