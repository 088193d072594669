"""Surveillance: cumulative reward of EXP-3-Transfer with clustering and of Probabilistic Policy Reuse without."""

from __future__ import annotations

from pathlib import Path

from pastmaster import figures
from pastmaster.experiments import output, panels
from pastmaster.experiments.claims import Claim, above
from pastmaster.experiments.matrix import ALL_PPR, CLUSTERED, UNITS, matrices
from pastmaster.experiments.unit import Experiment, Results

NAME = "reward-summary"
MOST = "300-3"


def claims(results: Results) -> list[Claim]:
    found = [one for one in matrices(results).values() if one.setting.targets > 1]  # of one target ppr-simple speaks
    leads = {one.setting.name: one.score(CLUSTERED) - one.score(ALL_PPR) for one in found}
    wins = [above(f"lead over Policy Reuse, {one.setting.title}", leads[one.setting.name]) for one in found]
    most = [
        above(
            f"lead with 300 previous tasks, 3 targets over that with {one.setting.title}",
            leads[MOST] - leads[one.setting.name],
        )
        for one in found
        if one.setting.name != MOST
    ]
    return [Claim("beats-ppr", NAME, [*wins, *most])]


def write(results: Results, folder: Path) -> None:
    panels.write_numbers(matrices(results).values(), [CLUSTERED, ALL_PPR], folder)


def draw(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    figure, (left, right) = figures.new_figure(13, 4.8, ncols=2, width_ratios=[1, 2])
    labels = {"EXP-3-Transfer, with clustering": CLUSTERED, "Probabilistic Policy Reuse, without": ALL_PPR}
    three = [one for one in found if one.setting.targets == 3]
    bars = {label: [one.reward(way) for one in three] for label, way in labels.items()}
    panels.draw_bars(left, [f"{one.setting.previous}" for one in three], bars, "cumulative reward of 10,000 episodes")
    left.set(title="3 targets", xlabel="previous tasks")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    scores = {label: [one.score(way) for one in found] for label, way in labels.items()}
    panels.draw_bars(right, [panels.short(one.setting) for one in found], scores, panels.SCORE)
    right.set(title="All settings, as a share of what could be had")
    output.write_figure(figure, folder / "cumulative-reward")


EXPERIMENT = Experiment(NAME, "Surveillance: cumulative reward against Policy Reuse", UNITS, claims, write, draw)
