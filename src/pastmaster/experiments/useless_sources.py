"""What useless sources cost: sixteen policies for places where nothing happens, against Q-learning alone.

EXP-3-Transfer's bound is on the regret to the learner *in the state it is in*, after missing the episodes it did not
get. It is no bound against Q-learning run alone. This experiment measures the difference.
"""

from __future__ import annotations

import numpy as np

from pastmaster import figures
from pastmaster.domains import surveillance
from pastmaster.experiments import panels, ways
from pastmaster.experiments.charts import Columns
from pastmaster.experiments.claims import Check, check
from pastmaster.experiments.scale import Scale
from pastmaster.experiments.unit import Experiment, Pictures, Results, Tables, Unit, UnitArrays
from pastmaster.experiments.ways import Runs, Way
from pastmaster.solving import solve
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import return_bounds

NAME = "useless-sources"
SOURCES, LEAST_VALUE = 16, 40.0
ALONE, DECAYING_ALONE = Way(ways.Q_LEARNING, ""), Way(ways.DECAYING_Q, "")
REUSING = [Way(algorithm, "sources") for algorithm in (ways.EXP3, ways.UNTRIMMED, ways.PPR, ways.OURS)]
WAYS = [ALONE, DECAYING_ALONE, *REUSING]
BY_LABEL = {way.label: way for way in WAYS}


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


def run(rng: np.random.Generator, scale: Scale) -> UnitArrays:
    drawn = instances(scale.targets, rng)
    policies = [[solve(task).policy for task in tasks] for _, tasks in drawn]
    bounds = {"exact": return_bounds([task for _, tasks in drawn for task in tasks])}
    targets = [target for target, _ in drawn]
    return ways.meet_all(targets, WAYS, lambda way, i: policies[i] if way.clustering else [], bounds, scale, rng)


def _runs(results: Results) -> Runs:
    return Runs(NAME, WAYS, results[NAME])


def compared_with_alone(results: Results) -> list[Check]:
    """What each algorithm with useless sources earns, relative to its own learner alone."""
    found, pairs = _runs(results), [(way, DECAYING_ALONE if way.algorithm == ways.OURS else ALONE) for way in REUSING]
    name = "{}, 16 useless sources, relative to {} alone"
    return [
        check(name.format(way.algorithm, own.algorithm), found.reward(way) / found.reward(own), unit="ratio")
        for way, own in pairs
    ]


def tables(results: Results) -> Tables:
    found = _runs(results)
    yield NAME, found.curves("Sixteen useless sources", BY_LABEL)
    rows = [found.number_row(NAME, way, SOURCES if way.clustering else 0) for way in WAYS]
    yield "numbers", Columns(panels.NUMBERS, rows)


def pictures(results: Results) -> Pictures:
    figure, axes = figures.new_figure(8.5, 5)
    panels.draw_curves(axes, _runs(results).curves("", BY_LABEL))
    axes.set(xlabel="episode", ylabel="mean return per episode")
    axes.set_title(f"Sixteen sources that are of no use, and Q-learning alone\n({panels.SHADE})")
    axes.legend(loc="lower right", fontsize="small")
    yield "learning-curves", figure


UNIT = Unit(NAME, run, repr((WAYS, SOURCES, LEAST_VALUE)), 5)
EXPERIMENT = Experiment(NAME, "Surveillance: what useless sources cost", [UNIT], tables, pictures)
