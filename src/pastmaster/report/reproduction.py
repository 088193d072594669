"""A reproduction folder as a page: the claims, and the figures of its first seed, experiment by experiment.

The folder holds ``claims.json`` and, for each seed and experiment, ``seed-<n>/<experiment>/<kind>-<slug>.csv`` with the
kinds ``curves``, ``map``, ``distance`` and ``shares``, and pictures, ``*.png``. Whatever else is there is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pastmaster.errors import DamagedError
from pastmaster.report.claims import Tried, read_claims
from pastmaster.report.figure_files import read_curves, read_map, read_matrix, read_shares
from pastmaster.report.page import Figure, Gallery, Matrix, Page, Part, Picture, Prose, Section
from pastmaster.report.payload import counted

CLAIMS = "claims.json"
MOST_FIGURES, MOST_PICTURE_BYTES = 1000, 8_000_000
ENOUGH_SEEDS = 10  # to speak of claims as reproduced
PNG = b"\x89PNG\r\n\x1a\n"
ABOUT = "How far each claim could be reproduced, and the measurements behind it."
QUICK = "This was a quick run, smaller than the experiments it stands for: it shows that all works, and proves nothing."
CURVES_NOTE = "Mean return against episodes; the band around a curve is one deviation to either side."
MAP_NOTE = (
    "Every task is a point, joined by a thin line to the representative of its cell, a star with the cell's number. "
    "Tasks at the same place are spread a little."
)
MATRIX_NOTE = (
    "What two tasks lose if they swap policies: dark is little, light is much. Tasks are ordered by cell, and lines "
    "part the cells."
)
SHARES_NOTE = "Which share of the episodes each policy ran: the learner's own, and those reused."


def reproduction_page(folder: Path) -> Page:
    """The page of a folder, or a refusal that names the file and the line."""
    tried = read_claims(folder / CLAIMS)
    claims = Section("Claims", (tried.claims,))
    first = folder / f"seed-{tried.claims.seeds[0]}"
    places = {path.name: path for path in _folders(first)} if first.is_dir() else {}
    titles = {name: tried.titles.get(name, name.replace("-", " ").capitalize()) for name in [*tried.titles, *places]}
    found = [_experiment(places[name], title) for name, title in titles.items() if name in places]
    experiments = [section for section in found if section.parts]
    if not experiments:
        empty = Prose("There are no figures: the folder holds claims only.", aside=True)
        return _page(tried, (claims, Section("Figures", (empty,))))
    n_figures = sum(len(part.figures) for s in experiments for part in s.parts if isinstance(part, Gallery))
    if n_figures > MOST_FIGURES:
        raise DamagedError(f"{first} holds {n_figures} figures, must hold at most {MOST_FIGURES}")
    note = Prose(f"The figures show seed {tried.claims.seeds[0]}, the first of the run.")
    return _page(tried, (claims, *experiments), note)


def _page(tried: Tried, sections: tuple[Section, ...], *notes: Prose) -> Page:
    claims = tried.claims
    n_good = sum(bool(claim.reproduced) for claim in claims.claims)
    word = "reproduced" if len(claims.seeds) >= ENOUGH_SEEDS and not claims.quick else "held"
    result = f"{n_good} of {counted(len(claims.claims), 'claim')} {word}" if not claims.quick else "not judged"
    facts = (
        ("Result", result),
        ("Run", "quick" if claims.quick else "full"),
        ("Seeds", _listed(claims.seeds)),
        ("Machine", tried.machine),
        ("pastmaster", tried.version),
    )
    quick = (Prose(QUICK, aside=True),) if claims.quick else ()
    return Page("Reproduction report", ABOUT, facts, sections, (*quick, *notes))


def _listed(seeds: tuple[int, ...]) -> str:
    """Seeds in words; a run of numbers by its ends."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _experiment(folder: Path, heading: str) -> Section:
    """The figures of an experiment, a gallery to each kind there is."""
    maps = {path.stem.removeprefix("map-"): read_map(path) for path in sorted(folder.glob("map-*.csv"))}

    def matrix(path: Path) -> Matrix:
        return read_matrix(path, maps.get(path.stem.removeprefix("distance-")))

    kinds: tuple[tuple[str, str, str, Callable[[Path], Figure]], ...] = (
        ("curves", "Learning curves", CURVES_NOTE, read_curves),
        ("map", "Maps of the tasks", MAP_NOTE, lambda path: maps[path.stem.removeprefix("map-")]),
        ("distance", "Distances", MATRIX_NOTE, matrix),
        ("shares", "Who ran the episodes", SHARES_NOTE, read_shares),
    )
    parts: list[Part] = []
    for kind, name, note, read in kinds:
        figures = tuple(read(path) for path in sorted(folder.glob(f"{kind}-*.csv"), key=_by_number))
        if figures:
            parts.append(Gallery(name, note, figures))
    pictures = (_picture(path, heading) for path in sorted(folder.glob("*.png")))
    return Section(heading, (*pictures, *parts))


def _by_number(path: Path) -> list[tuple[int, str]]:
    """Names in the order of the numbers in them: 64 before 100."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.stem)]


def _picture(path: Path, heading: str) -> Picture:
    size = path.stat().st_size
    if size > MOST_PICTURE_BYTES:
        raise DamagedError(f"{path} has {size} bytes, must have at most {MOST_PICTURE_BYTES}")
    content = path.read_bytes()
    if not content.startswith(PNG):
        raise DamagedError(f"{path} is no picture, must be a PNG file")
    return Picture(f"{heading}: {path.stem.replace('-', ' ')}", content)
