"""Surveillance: what clustering gains, over all episodes and in the last ones, as previous tasks grow in number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pastmaster import figures
from pastmaster.experiments import output
from pastmaster.experiments.claims import MARGIN, Check, Claim, above, at_most, beside, not_above
from pastmaster.experiments.matrix import NONE, SEARCH, UNITS, Matrix, matrices
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.settings import SIMPLE
from pastmaster.experiments.unit import Experiment, Results
from pastmaster.experiments.ways import EXP3, PPR, Way

NAME = "clustering-gains"


def gain(matrix: Matrix, algorithm: str) -> Measured:
    """Score with Search-Clusterings less that without, over all episodes."""
    return matrix.score(Way(algorithm, SEARCH)) - matrix.score(Way(algorithm, NONE))


def final_gain(matrix: Matrix, algorithm: str) -> Measured:
    """The same in the last episodes."""
    return matrix.final(Way(algorithm, SEARCH)) - matrix.final(Way(algorithm, NONE))


def reward_gain(matrix: Matrix, algorithm: str) -> Measured:
    """The same in cumulative reward."""
    return matrix.reward(Way(algorithm, SEARCH)) - matrix.reward(Way(algorithm, NONE))


def claims(results: Results) -> list[Claim]:
    found = matrices(results)
    gains = {name: gain(matrix, EXP3) for name, matrix in found.items()}
    steps = [("125-2", "96-2"), ("256-2", "125-2"), ("200-3", "100-3"), ("300-3", "200-3")]
    across = [("100-3", "96-2"), ("300-3", "256-2")]
    grows = [above(f"gain, {_pair(found, pair)}", gains[pair[0]] - gains[pair[1]]) for pair in steps + across]
    in_reward = [
        beside(
            f"gain, {_pair(found, (more, less))}",
            reward_gain(found[more], EXP3) - reward_gain(found[less], EXP3),
            "reward",
        )
        for more, less in steps + across
    ]
    return [
        Claim("gain-positive", NAME, [above(f"gain, {found[name].setting.title}", gains[name]) for name in found]),
        Claim("gain-grows", NAME, [*grows, *in_reward]),
        Claim("final-gain", NAME, _final_checks(found)),
        Claim("ppr-no-gain", NAME, _reuse_checks(found)),
    ]


def _pair(found: Mapping[str, Matrix], pair: tuple[str, str]) -> str:
    return f"{found[pair[0]].setting.title} over {found[pair[1]].setting.title}"


def _final_checks(found: Mapping[str, Matrix]) -> list[Check]:
    """Little at the first points of the curves of 2 and 3 targets, something at the last; the others beside."""
    checks = []
    for name, matrix in found.items():
        title, measured = f"final gain, {matrix.setting.title}", final_gain(matrix, EXP3)
        if name in ("96-2", "100-3"):
            checks.append(at_most(title, measured, MARGIN))
        else:
            checks.append(above(title, measured) if name in ("256-2", "300-3") else beside(title, measured))
    return checks


def _reuse_checks(found: Mapping[str, Matrix]) -> list[Check]:
    """Little on average, and nowhere shown to be more."""
    gains = {matrix.setting.title: gain(matrix, PPR) for matrix in found.values()}
    mean = Measured.combined(list(gains.values()), lambda *parts: np.mean(parts, axis=0))
    return [
        at_most("gain of Policy Reuse, mean of all settings", mean, MARGIN),
        *(not_above(f"gain of Policy Reuse, {title}", measured, MARGIN) for title, measured in gains.items()),
    ]


def write(results: Results, folder: Path) -> None:
    head = ["setting", "previous tasks", "targets", "algorithm"]
    measures = {"gain of reward": reward_gain, "gain of score": gain, "final gain of score": final_gain}
    lines = [
        [
            matrix.setting.title, matrix.setting.previous, matrix.setting.targets, algorithm,
            *(number for measure in measures.values() for number in measure(matrix, algorithm).row),
        ]
        for matrix in matrices(results).values()
        for algorithm in (EXP3, PPR)
    ]  # fmt: skip
    columns = [f"{name}{part}" for name in measures for part in ("", ", low", ", high")]
    output.write_csv(folder / "gains.csv", [*head, *columns], lines)


PANELS = (
    (reward_gain, "Cumulative clustering gain", "cumulative reward"),
    (gain, "The same as a score", "points of score"),
    (final_gain, "Final clustering gain (last 100 episodes)", "points of score"),
)


def draw(results: Results, folder: Path) -> None:
    found = matrices(results)
    figure, panels = figures.new_figure(16, 4.8, ncols=len(PANELS))
    for axes, (measure, title, unit) in zip(panels, PANELS, strict=True):
        for place, (algorithm, targets) in enumerate((a, t) for a in (EXP3, PPR) for t in (2, 3)):
            settings = [setting for setting in SIMPLE if setting.targets == targets]
            gains = [measure(found[setting.name], algorithm) for setting in settings]
            axes.errorbar(
                [setting.previous for setting in settings], [one.value for one in gains],
                [[one.value - one.low for one in gains], [one.high - one.value for one in gains]],
                label=f"{algorithm}, {targets} targets", marker="o^sD"[place], capsize=3, **figures.line_style(place),
            )  # fmt: skip
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xlabel="previous tasks", ylabel=f"gain, {unit}", title=title)
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    output.write_figure(figure, folder / "gains")


EXPERIMENT = Experiment(NAME, "Surveillance: what clustering gains", UNITS, claims, write, draw)
