"""docs/reproduction.md from a reproduction: the table of sentences with its small plots, the figures, our findings.

python -m pastmaster_paper reproduce --seeds 20 --out twenty
python -m pastmaster_paper reproduce why loose-ends loose-parts --seeds 3 --out why
python -m pastmaster_paper.docs_page twenty why     # in a clone
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pastmaster_paper.docs_tables import DOCS, write_section, write_table
from pastmaster_paper.experiments import SENTENCES, Reproduction
from pastmaster_paper.experiments.charts import Columns, read_tables
from pastmaster_paper.experiments.folder import FIGURES, read_judged
from pastmaster_paper.experiments.pooled import ENOUGH, NOT_JUDGED, VERDICTS
from pastmaster_paper.experiments.sentences import Case, Judged
from pastmaster_paper.sentences_html import plot

PAGE = DOCS / "reproduction.md"
IMAGES = PAGE.parent / "images"
PICTURES = {
    "algorithms": "algorithm-comparison/{}-learning-curves",
    "gains": "clustering-gains/{}-gains",
    "reward": "reward-summary/{}-rewards",
    "clusterings": "clustering-comparison/{}-rewards",
    "clustering-exp3": "clustering-comparison/{}-learning-curves-exp3",
    "clustering-ppr": "clustering-comparison/{}-learning-curves-ppr",
    "complex": "complex-domain/{}-rewards",
    "time": "time-comparison/{}-learning-curves",
    "selectors": "selectors/{}-selectors",
    "useless": "useless-sources/{}-learning-curves",
    "corrections": "corrections/{}-rewards",
}
COMMON = {
    "coloured-grid": "coloured-grid/clusters",
    "windy": "windy-clusters/average-and-worst-case",
    "incremental": "windy-incremental/incremental",
}
TABLES = ("algorithm-comparison", "clustering-comparison", "complex-domain", "selectors", "costs", "corrections",
          "useless-sources", "why", "loose-ends", "loose-parts")  # fmt: skip
"""Experiments whose tables are on the page, each between the marks of its name."""
STYLE = (
    "<style>.grid{stroke:#888}.series{stroke:#888;stroke-width:1.5}.mark{fill:#888}.held{stroke:#1a7f37}"
    ".mark.held{fill:#1a7f37}.failed{stroke:#c62828}.mark.failed{fill:#c62828}</style>"
)


def run(*folders: str) -> None:
    """Write the page from a reproduction, and from those of the experiments that are run by name."""
    found = read_judged(Path(folders[0]))
    names = list(found.readings)
    for slug, source in PICTURES.items():
        for reading in names:
            _copy(found.out / FIGURES / f"{source.format(reading)}.png", f"reproduction-{slug}-{reading}")
    for slug, source in COMMON.items():
        _copy(found.out / FIGURES / f"{source}.png", f"reproduction-{slug}")
    head = "# | line | what the paper says | " + " | ".join(names)
    write_table(PAGE, "sentences", _intro(found), head, [_line(one.id, found) for one in SENTENCES])
    verdicts = (*VERDICTS, NOT_JUDGED)
    counts = [
        f"| {name} | {' | '.join(str(found.counts(name).get(verdict, 0)) for verdict in verdicts)} |" for name in names
    ]
    write_table(PAGE, "counts", "How many sentences have each verdict:", " | ".join(["reading", *verdicts]), counts)
    for folder in map(Path, folders):
        for name in TABLES:
            if (folder / FIGURES / name).is_dir():
                _write_tables(name, list(read_tables(folder / FIGURES / name)), len(read_judged(folder).seeds))


def _copy(source: Path, name: str) -> None:
    shutil.copyfile(source, IMAGES / f"{name}.png")


def _intro(found: Reproduction) -> str:
    n = len(found.seeds)
    enough = "" if n >= ENOUGH else f" **{n} of {ENOUGH} draws: these are figures, not yet verdicts.**"
    seeds = f"seeds {found.seeds[0]} to {found.seeds[-1]}" if n > 1 else f"seed {found.seeds[0]}"
    return f"{n} draw{'s' if n > 1 else ''} ({seeds}).{enough} pastmaster {found.version}, {found.machine}."


def _line(number: int, found: Reproduction) -> str:
    told = next(one for one in found.sentences if one.id == number)
    cells = []
    for reading in found.readings:
        one = found.under(reading)[number]
        common = not one.reading and reading != next(iter(found.readings))
        cells.append('"' if common else _verdict(one))
    return f"| {told.id} | {told.lines} | {told.words} | {' | '.join(cells)} |"


def _verdict(one: Judged) -> str:
    """The verdict, where it holds, the figure, and the small plot beside it."""
    cases, held = one.judged(), one.held()
    which = f" ({', '.join(held[:6])}{', ..' if len(held) > 6 else ''})" if one.verdict == "in part" else ""
    if one.verdict == "in part" and one.failed():
        which += f", contrary at {', '.join(one.failed())}"
    name = f"{one.id}-{one.reading or 'any'}"
    drawn = plot(cases, name, lambda text: text.replace("<", "&lt;").replace(">", "&gt;"))
    path = IMAGES / "sentences" / f"{name}.svg"
    path.parent.mkdir(exist_ok=True)
    opened = re.sub(r"<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', drawn, count=1)
    path.write_text(re.sub(r"(<svg [^>]*>)", rf"\1{STYLE}", opened, count=1), encoding="utf-8")
    return f"**{one.verdict}**{which}<br>![](images/sentences/{name}.svg)<br>{_figures(cases)}"


def _figures(cases: Sequence[Case]) -> str:
    """The first figures, in words."""
    told, alike = [], len({case.unit for case in cases}) == 1
    for case in cases[:3]:
        figure = case.figure
        interval = "" if figure.low is None else f" ({figure.low:.3g} .. {figure.high:.3g})"
        unit = "" if alike else f" {case.unit}"
        told.append(f"{case.what} {case.name}: {figure.mean:.3g}{interval}{unit}".strip())
    more = [f"and {len(cases) - 3} more"] if len(cases) > 3 else []
    return "; ".join([*told, *more]) + (f" {cases[0].unit}" if alike else "")


def _write_tables(name: str, tables: Iterable[Columns], draws: int) -> None:
    """The tables of an experiment, one below the other, between the marks of its name."""
    parts = []
    for one in tables:
        rows = [f"| {' | '.join(map(_short, row))} |" for row in one.rows]
        head = f"| {' | '.join(one.head)} |\n|{'---|' * len(one.head)}"
        parts.append("\n".join([f"{one.title}. {draws} draw{'s' if draws > 1 else ''}.", "", head, *rows]))
    write_section(PAGE, name, "\n\n".join(parts))


def _short(cell: str) -> str:
    return f"{float(cell):.4g}" if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?", cell) else cell


if __name__ == "__main__":
    run(*sys.argv[1:])
