"""Complex surveillance: the paper's Table 3, search against greedy where one v-location of a group stands for all."""

from __future__ import annotations

from pathlib import Path

from pastmaster import figures
from pastmaster.experiments import output, panels
from pastmaster.experiments.matrix import CLUSTERED, GREEDY, NONE, PICKED, SEARCH, matrices, units
from pastmaster.experiments.settings import COMPLEX
from pastmaster.experiments.unit import Experiment, Results
from pastmaster.experiments.ways import EXP3, Way

NAME = "complex-domain"
HOW = (SEARCH, GREEDY, PICKED, NONE)


PAPER = {"complex-100-2": (8.7102e6, 8.3667e6), "complex-200-2": (8.3667e6, 3.809e6)}
"""The paper's Table 3, search and greedy. Its totals exceed what two captures can pay: compare the ratios."""


def write(results: Results, folder: Path) -> None:
    found = [matrices(results)[one.name] for one in COMPLEX]
    panels.write_numbers(found, [Way(EXP3, how) for how in HOW], folder)
    lines = []
    for one in found:
        search, greedy = (one.reward(Way(EXP3, how)).value for how in (SEARCH, GREEDY))
        lead, theirs = one.score(CLUSTERED) - one.score(Way(EXP3, GREEDY)), PAPER[one.setting.name]
        lines.append([one.setting.previous, search, greedy, search / greedy, *lead.row, *theirs, theirs[0] / theirs[1]])
    head = [
        "previous tasks", "search", "greedy", "ratio", "search over greedy, points of score", "low", "high",
        "paper: search", "paper: greedy", "paper: ratio",
    ]  # fmt: skip
    output.write_csv(folder / "table.csv", head, lines)


def draw(results: Results, folder: Path) -> None:
    found = [matrices(results)[one.name] for one in COMPLEX]
    figure, axes = figures.new_figure(8, 4.8)
    bars = {
        f"{how} ({'/'.join(str(one.cells(how)) for one in found)} sources)": [
            one.reward(Way(EXP3, how)) for one in found
        ]
        for how in HOW
    }
    panels.draw_bars(axes, [one.setting.title for one in found], bars, "cumulative reward of 10,000 episodes")
    axes.set_title("Complex surveillance: EXP-3-Transfer by clustering")
    axes.legend(fontsize="small")
    output.write_figure(figure, folder / "cumulative-reward")


EXPERIMENT = Experiment(
    NAME,
    "Complex surveillance: search against greedy",
    units(*(one.name for one in COMPLEX)),
    lambda _: [],
    write,
    draw,
)
