"""Surveillance: clustering and EXP-3-Transfer tuned for T = 1,000, 5,000 and 10,000 episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pastmaster.experiments import panels
from pastmaster.experiments.claims import Claim, above, at_most
from pastmaster.experiments.matrix import CLUSTERED, TUNED, UNITS, matrices
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.unit import Experiment, Results

NAME = "time-comparison"
BY_HORIZON = (*TUNED, CLUSTERED)
RARELY = 0.05
"""The share of points that may lie below where we say that a curve lies above another."""
LABELS = {f"tuned for T = {way.episodes:,}": way for way in BY_HORIZON}


def claims(results: Results) -> list[Claim]:
    found = [one for one in matrices(results).values() if not one.setting.complex]
    pairs = [(short, long) for i, short in enumerate(BY_HORIZON) for long in BY_HORIZON[i + 1 :]]
    sums = [
        above(
            f"T = {short.episodes:,} over T = {long.episodes:,} in the first {short.episodes:,}, {one.setting.title}",
            one.score(short) - one.score(long, short.episodes),
        )
        for one in found
        for short, long in pairs
    ]
    points = [
        at_most(
            f"points at which T = {short.episodes:,} lies below T = {long.episodes:,} beyond chance, all settings",
            Measured(float(np.mean([one.below(short, long) for one in found]))),
            RARELY,
            "share of points",
        )
        for short, long in pairs
    ]
    return [Claim("horizon", NAME, [*points, *sums])]


def write(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    panels.write_numbers(found, list(BY_HORIZON), folder)
    panels.write_curves(found, LABELS, folder, "Tuned for T")


def draw(results: Results, folder: Path) -> None:
    panels.draw_panels(
        list(matrices(results).values()), LABELS, folder / "learning-curves", "EXP-3-Transfer tuned for T episodes"
    )


EXPERIMENT = Experiment(NAME, "Surveillance: tuned for T episodes", UNITS, claims, write, draw)
