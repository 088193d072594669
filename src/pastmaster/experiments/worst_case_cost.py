"""Surveillance: clusters by the worst-case cost and by the average-case cost, and what transfer makes of them.

The claim about the worst case is judged on the windy corridor, where the goals say what is intuitive.
"""

from __future__ import annotations

from pathlib import Path

from pastmaster import figures
from pastmaster.experiments import output, panels
from pastmaster.experiments.matrix import CLUSTERED, SEARCH, UNITS, WORST, WORST_CASE, matrices
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.unit import Experiment, Results

NAME = "worst-case-cost"


def write(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    panels.write_numbers(found, [CLUSTERED, WORST_CASE], folder)
    lines = [
        [
            one.setting.title,
            name,
            one.cells(how),
            one.cost(how),
            one.clustering(how).mean_radius,
            float(one.clustering(how).radii.max()),
        ]
        for one in found
        for name, how in (("average case", SEARCH), ("worst case", WORST))
    ]
    head = ["setting", "cost searched for", "cells", "average-case cost", "mean radius", "largest radius"]
    output.write_csv(folder / "clusterings.csv", head, lines)


def draw(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    figure, (left, right) = figures.new_figure(14, 4.8, ncols=2)
    names = [panels.short(one.setting) for one in found]
    ways = {"average case": CLUSTERED, "worst case": WORST_CASE}
    panels.draw_bars(left, names, {name: [one.score(way) for one in found] for name, way in ways.items()}, panels.SCORE)
    left.set_title("EXP-3-Transfer, by the cost that was searched for")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    counts = {name: [Measured(one.cells(way.clustering)) for one in found] for name, way in ways.items()}
    panels.draw_bars(right, names, counts, "policies kept")
    right.set_title("How many policies each keeps")
    right.yaxis.get_major_locator().set_params(integer=True)
    output.write_figure(figure, folder / "scores")


EXPERIMENT = Experiment(NAME, "Surveillance: worst-case against average-case cost", UNITS, lambda _: [], write, draw)
