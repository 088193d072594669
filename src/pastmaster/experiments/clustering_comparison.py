"""Surveillance, the paper's Table 1 whole: {EXP-3-Transfer, Policy Reuse} x {search, none, hand-picked, greedy}."""

from __future__ import annotations

from pathlib import Path

from pastmaster import figures
from pastmaster.experiments import output, panels
from pastmaster.experiments.claims import Claim, about_equal, above, at_most
from pastmaster.experiments.matrix import ALONE, CLUSTERED, GREEDY, NONE, PICKED, SEARCH, TABLE, UNITS, Matrix, matrices
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.unit import Experiment, Results
from pastmaster.experiments.ways import EXP3, PPR, Way

NAME = "clustering-comparison"
HOW = (NONE, GREEDY, SEARCH, PICKED)
ROUNDING = 1e-9
SLUGS = {EXP3: "exp3-", PPR: "ppr-"}


def _labels(algorithm: str) -> dict[str, Way]:
    return {f"{algorithm}, {how}": Way(algorithm, how) for how in HOW}


def lead(matrix: Matrix) -> Measured:
    """EXP-3-Transfer's score with search less that with greedy."""
    return matrix.score(CLUSTERED) - matrix.score(Way(EXP3, GREEDY))


def claims(results: Results) -> list[Claim]:
    found = matrices(results)
    costs = [
        at_most(
            f"cost of search less that of greedy, {one.setting.title}",
            Measured(one.cost(SEARCH) - one.cost(GREEDY)),
            ROUNDING,
            "cost",
        )
        for one in found.values()
    ]
    leads = {name: lead(one) for name, one in found.items()}

    def named(name: str) -> str:
        return f"transfer with search over that with greedy, {found[name].setting.title}"

    checks = [
        *costs,
        *(about_equal(named(name), leads[name]) for name in ("100-3", "256-2")),
        *(above(named(name), leads[name]) for name in ("125-2", "complex-100-2", "complex-200-2")),
        above(
            "that lead with 200 complex previous tasks over that with 100",
            leads["complex-200-2"] - leads["complex-100-2"],
        ),
    ]
    return [Claim("search-vs-greedy", NAME, checks)]


def write(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    panels.write_numbers(found, [*TABLE, ALONE], folder)
    for algorithm, slug in SLUGS.items():
        panels.write_curves(found, _labels(algorithm), folder, f"Clusterings, {algorithm}", slug)
    lines = [
        [one.setting.title, how, one.cells(how), one.cost(how)] for one in found for how in (SEARCH, GREEDY, PICKED)
    ]
    output.write_csv(folder / "costs.csv", ["setting", "clustering", "cells", "cost"], lines)


def draw(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    for algorithm, slug in SLUGS.items():
        title = f"Clusterings compared: {algorithm}"
        panels.draw_panels(found, _labels(algorithm), folder / f"learning-curves-{slug.rstrip('-')}", title)
    figure, both = figures.new_figure(13, 8.5, nrows=2)
    for axes, algorithm in zip(both, (EXP3, PPR), strict=True):
        bars = {how: [one.score(Way(algorithm, how)) for one in found] for how in HOW}
        panels.draw_bars(axes, [panels.short(one.setting) for one in found], bars, panels.SCORE)
        axes.set_title(f"{algorithm}, by the sources it is given")
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    output.write_figure(figure, folder / "scores")


EXPERIMENT = Experiment(NAME, "Surveillance: clusterings compared", UNITS, claims, write, draw)
