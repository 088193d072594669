"""The paper against us: its span and its plain chain beside the tight span, our search, our learner and selector.

The plain chain is given our calibrated ladder: with ln lambda from 1 to 100, say, it does worse still.
"""

from __future__ import annotations

from pathlib import Path

from pastmaster import figures
from pastmaster.experiments import output, panels
from pastmaster.experiments.matrix import BEST, CLUSTERED, PLAIN, SEARCH, WIDE, WIDE_PLAIN, Matrix, matrices, units
from pastmaster.experiments.settings import CORRECTED
from pastmaster.experiments.unit import Experiment, Results
from pastmaster.experiments.ways import DECAYING_EXP3, EXP3, Way

NAME = "corrections"
LABELS = {
    "paper's span, plain MHAV": Way(EXP3, WIDE_PLAIN, bounds="paper"),
    "paper's span, our search": Way(EXP3, WIDE, bounds="paper"),
    "tight span, plain MHAV": Way(EXP3, PLAIN),
    "tight span, our search": CLUSTERED,
    "and a learner that explores less and less": Way(DECAYING_EXP3, SEARCH),
    "and our selector": BEST,
}


def _found(results: Results) -> list[Matrix]:
    return [matrices(results)[name] for name in CORRECTED]


def write(results: Results, folder: Path) -> None:
    panels.write_curves(_found(results), LABELS, folder, "What each correction changes")
    head = ["setting", "variant", "sources", "cost with the tight span", "score", "low", "high"]
    lines = [
        [one.setting.title, label, one.cells(way.clustering), one.cost(way.clustering), *one.score(way).row]
        for one in _found(results)
        for label, way in LABELS.items()
    ]
    output.write_csv(folder / "corrections.csv", head, lines)


def draw(results: Results, folder: Path) -> None:
    found = _found(results)
    panels.draw_panels(found, LABELS, folder / "learning-curves", "What each correction changes")
    figure, axes = figures.new_figure(9, 5.6)
    bars = {
        f"{label} ({'/'.join(str(one.cells(way.clustering)) for one in found)} sources)": [
            one.score(way) for one in found
        ]
        for label, way in LABELS.items()
    }
    panels.draw_bars(axes, [one.setting.title for one in found], bars, panels.SCORE)
    axes.set_title("What each correction changes")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
    output.write_figure(figure, folder / "scores")


EXPERIMENT = Experiment(
    NAME, "The paper against us: what each correction changes", units(*CORRECTED), lambda _: [], write, draw
)
