"""A reproduction folder as a page: the claims, and the charts and pictures of its first seed, by experiment."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from pastmaster.errors import DamagedError
from pastmaster.experiments.charts import COLUMNS, read_bytes, read_charts
from pastmaster.experiments.claims import POINTS, SCORE
from pastmaster.experiments.folder import Reproduction, read_claims
from pastmaster.report.page import Gallery, Page, Part, Picture, Prose, Section

MOST_CHARTS, MOST_PICTURE_BYTES = 1000, 8_000_000
PNG = b"\x89PNG\r\n\x1a\n"
ABOUT = "Which claims of the paper could be reproduced, and the measurements behind them."
QUICK = "This was a quick run, smaller than the experiments it stands for: it shows that everything runs, and no more."
ABOUT_SCORES = f"A score is the {SCORE}: 0 is the worst possible return, 100 the optimal one."
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


def reproduction_page(folder: Path) -> Page:
    """The page of a folder that ``reproduce`` wrote."""
    found = read_claims(folder)
    first = found.seed_folder(found.seeds[0])
    places = {path.name: path for path in sorted(first.iterdir()) if path.is_dir()} if first.is_dir() else {}
    n_charts = sum(len(list(place.glob(f"{kind}-*.csv"))) for place in places.values() for kind in COLUMNS)
    if n_charts > MOST_CHARTS:
        raise DamagedError(f"{first} holds {n_charts} charts, must hold at most {MOST_CHARTS}")
    titles = {name: found.experiments.get(name, _words(name).capitalize()) for name in [*found.experiments, *places]}
    sections = [Section(title, _parts(places[name], title)) for name, title in titles.items() if name in places]
    shown = [section for section in sections if section.parts]
    notes = [Prose(QUICK, aside=True)] if found.mode == "quick" else []
    if shown:
        notes.append(Prose(f"The figures show seed {found.seeds[0]}, the first of the run."))
    else:
        shown = [Section("Figures", [Prose("There are no figures: the folder holds claims only.", aside=True)])]
    if any(check.unit == POINTS for claim in found.claims for check in claim.checks):
        notes.append(Prose(ABOUT_SCORES))
    return Page("Reproduction report", ABOUT, _facts(found), [Section("Claims", [found]), *shown], notes)


def _facts(found: Reproduction) -> list[tuple[str, str]]:
    seeds = found.seeds
    in_a_row = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return [
        ("Result", "not judged" if found.mode == "quick" else found.verdict),
        ("Run", found.mode),
        ("Seeds", f"{seeds[0]} to {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds))),
        ("Machine", found.machine),
        ("pastmaster", found.version),
    ]


def _parts(folder: Path, heading: str) -> list[Part]:
    """The pictures of an experiment, and a gallery for each kind of chart."""
    parts: list[Part] = [_picture(path, heading) for path in sorted(folder.glob("*.png"))]
    for kind, charts in groupby(read_charts(folder), lambda chart: chart.kind):
        parts.append(Gallery(*GALLERIES[kind], tuple(charts)))
    return parts


def _picture(path: Path, heading: str) -> Picture:
    content = read_bytes(path, MOST_PICTURE_BYTES)
    if not content.startswith(PNG):
        raise DamagedError(f"{path} is no picture, must be a PNG file")
    return Picture(f"{heading}: {_words(path.stem)}", content)


def _words(name: str) -> str:
    return name.replace("-", " ")
