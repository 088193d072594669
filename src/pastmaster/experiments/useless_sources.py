"""What useless sources cost: sixteen policies for places where nothing happens, against Q-learning alone.

EXP-3-Transfer's bound is on the regret to the learner *in the state it is in*, starved by the episodes it did not get;
it is no bound against Q-learning run alone. Here is the difference.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pastmaster import figures
from pastmaster.domains import surveillance
from pastmaster.experiments import output
from pastmaster.experiments.claims import Check, beside
from pastmaster.experiments.panels import NUMBERS, curves_of
from pastmaster.experiments.scale import Scale
from pastmaster.experiments.unit import Arrays, Experiment, Results, Unit
from pastmaster.experiments.ways import (
    DECAYING_Q,
    EXP3,
    OURS,
    PPR,
    Q_LEARNING,
    UNTRIMMED,
    Met,
    Way,
    meet_all,
    optimal_values,
    packed,
)
from pastmaster.solving import solve
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import return_bounds

NAME = "useless-sources"
SOURCES, LEAST_VALUE = 16, 40.0
ALONE = Way(Q_LEARNING, "")
ALONE_TOO = Way(DECAYING_Q, "")
WAYS = [ALONE, ALONE_TOO, *(Way(algorithm, "sources") for algorithm in (EXP3, UNTRIMMED, PPR, OURS))]
LABELS = {way.label: way for way in WAYS}


def instances(count: int, rng: np.random.Generator) -> list[tuple[TabularMDP, list[TabularMDP]]]:
    """Two-target tasks that are worth learning, each with 16 tasks in other groups."""
    groups, found = surveillance.groups(), list[tuple[TabularMDP, list[TabularMDP]]]()
    while len(found) < count:
        order = rng.permutation(16)
        target = surveillance.task(groups[order[:2], rng.integers(4, size=2)].tolist())
        if solve(target).start_value > LEAST_VALUE:
            others = [groups[rng.choice(order[2:], 2, replace=False), rng.integers(4, size=2)] for _ in range(SOURCES)]
            found.append((target, [surveillance.task(other.tolist()) for other in others]))
    return found


def run(rng: np.random.Generator, scale: Scale) -> Arrays:
    drawn = instances(scale.targets, rng)
    targets = [target for target, _ in drawn]
    policies = [[solve(task).policy for task in tasks] for _, tasks in drawn]
    bounds = return_bounds([task for _, tasks in drawn for task in tasks])
    outcomes = meet_all(
        targets, WAYS, lambda way, i: policies[i] if way.clustering else [], {"exact": bounds}, scale, rng
    )
    return packed(outcomes) | {"optimum": optimal_values(targets), "lower": np.array(bounds.lower)}


UNIT = Unit(NAME, run, repr((WAYS, SOURCES, LEAST_VALUE)), 5)


def beside_alone(results: Results) -> list[Check]:
    """What each algorithm with useless sources earns of what its own learner earns alone."""
    met = Met(NAME, WAYS, results[NAME])
    alone = {way: ALONE_TOO if way.algorithm == OURS else ALONE for way in WAYS[2:]}
    return [
        beside(
            f"{way.algorithm}, 16 useless sources, of {own.algorithm} alone",
            met.reward(way) / met.reward(own),
            "ratio",
        )
        for way, own in alone.items()
    ]


def write(results: Results, folder: Path) -> None:
    met = Met(NAME, WAYS, results[NAME])
    output.write_curves(folder, NAME, "Sixteen useless sources", curves_of(met, LABELS))
    lines = [met.number_row(NAME, way, SOURCES if way.clustering else 0) for way in WAYS]
    output.write_csv(folder / "numbers.csv", NUMBERS, lines)


def draw(results: Results, folder: Path) -> None:
    figure, axes = figures.new_figure(8.5, 5)
    output.draw_curves(axes, curves_of(Met(NAME, WAYS, results[NAME]), LABELS))
    axes.set(xlabel="episode", ylabel="mean return per episode")
    axes.set_title(
        "Sixteen sources that are of no use, and Q-learning alone\n(shaded: one standard deviation of a run)"
    )
    axes.legend(loc="lower right", fontsize="small")
    output.write_figure(figure, folder / "learning-curves")


EXPERIMENT = Experiment(NAME, "Surveillance: what useless sources cost", [UNIT], lambda _: [], write, draw)
