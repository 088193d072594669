"""What useless sources cost: sixteen policies for places where nothing happens, against Q-learning alone.

EXP-3-Transfer's bound is on the regret to the learner *in the state it is in*, after missing the episodes it did not
get. It is no bound against Q-learning run alone. This experiment measures the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from pastmaster import TabularMDP, cross_values, figures, return_bounds, solve
from pastmaster.domains import surveillance
from pastmaster.report import Curves, Line
from pastmaster_paper.arrays import IntArray
from pastmaster_paper.experiments import panels, ways
from pastmaster_paper.experiments.charts import OPTIMAL, Columns
from pastmaster_paper.experiments.pooled import Pooled
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import EPISODES, Scale
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Tables, Unit, UnitArrays
from pastmaster_paper.experiments.ways import Meeting, Way, summed_up, window_middles

NAME = "useless-sources"
SOURCES, LEAST_VALUE = 16, 40.0
ALONE, DECAYING_ALONE = Way(ways.Q_LEARNING, ""), Way(ways.DECAYING_Q, "")
REUSING = [Way(algorithm, "sources") for algorithm in (ways.EXP3, ways.UNTRIMMED, ways.PPR, ways.OURS)]
WAYS = [ALONE, DECAYING_ALONE, *REUSING]


def instances(count: int, rng: np.random.Generator, **settings: Any) -> list[tuple[TabularMDP, list[TabularMDP]]]:
    """Two-target tasks that are worth learning with gamma = 0.9, each with 16 tasks in other groups."""
    groups, found = surveillance.groups(), list[tuple[TabularMDP, list[TabularMDP]]]()
    while len(found) < count:
        order = rng.permutation(16)
        target = groups[order[:2], rng.integers(4, size=2)].tolist()
        if solve(surveillance.task(target)).start_value > LEAST_VALUE:
            others = [groups[rng.choice(order[2:], 2, replace=False), rng.integers(4, size=2)] for _ in range(SOURCES)]
            made = [surveillance.task(other.tolist(), **settings) for other in others]
            found.append((surveillance.task(target, **settings), made))
    return found


def run(reading: Reading, rng: np.random.Generator, scale: Scale) -> UnitArrays:
    drawn = instances(scale.targets, rng, gamma=reading.gamma, escape_ends=reading.escape_ends)
    policies = [[solve(task).policy for task in tasks] for _, tasks in drawn]
    bounds = return_bounds([task for _, tasks in drawn for task in tasks], kind=reading.bounds)
    targets = [target for target, _ in drawn]
    meeting, nothing = Meeting(targets, reading, scale), list[list[IntArray]]([[]] * len(targets))
    outcomes = []
    for way, stream in zip(WAYS, rng.spawn(len(WAYS)), strict=True):
        outcomes.append(summed_up(meeting.returns(way, policies if way.clustering else nothing, bounds, stream)))
    optimum = np.array([float(cross_values([target])[0, 0]) for target in targets])
    return {name: np.stack([one[name] for one in outcomes]) for name in outcomes[0]} | {"optimum": optimum}


def unit_name(reading: Reading) -> str:
    return f"{reading.name}-{NAME}"


def _arrays(draws: Draws) -> Iterator[UnitArrays]:
    assert draws.reading is not None
    for results in draws.results:
        yield results[unit_name(draws.reading)]


def tables(draws: Draws) -> Tables:
    rows = []
    for i, way in enumerate(WAYS):
        own = 1 if way.algorithm in (ways.OURS, ways.DECAYING_Q) else 0
        found = [one["reward"].mean(axis=1) for one in _arrays(draws)]
        earned = Pooled.of([float(reward[i]) for reward in found], way.label)
        less = Pooled.of([float(reward[i] - reward[own]) for reward in found], f"{way.label} less")
        rows.append([way.algorithm, SOURCES if way.clustering else 0, panels.told(earned), panels.told(less)])
    head = ["algorithm", "useless sources", panels.REWARD, "less what its learner earns alone"]
    yield "useless", Columns(head, rows, "Sixteen useless sources, and the learner alone")
    yield NAME, _curves(draws)


def _curves(draws: Draws) -> Curves:
    found, middles = list(_arrays(draws)), window_middles(EPISODES)
    lines = [
        Line(way.label, middles, np.mean([one["curve"][i] for one in found], axis=0),
             np.mean([one["deviation"][i] for one in found], axis=0))
        for i, way in enumerate(WAYS)
    ]  # fmt: skip
    level = np.full(2, np.mean([one["optimum"].mean() for one in found]))
    lines.append(Line(OPTIMAL, np.array([0.0, EPISODES]), level, np.zeros(2), reference=True))
    return Curves("Sixteen useless sources", lines)


def pictures(draws: Draws) -> Pictures:
    figure, axes = figures.new_figure(8, 4.6)
    panels.draw_curves(axes, _curves(draws))
    axes.set(xlabel="episode", ylabel="mean return")
    axes.set_title(f"Sixteen sources that are of no use, and Q-learning alone\n({panels.SHADE})")
    axes.legend(loc="lower right", fontsize="small")
    yield "learning-curves", figure


def units(reading: Reading) -> list[Unit]:
    return [Unit(unit_name(reading), partial(run, reading), repr((reading, WAYS, SOURCES, LEAST_VALUE)), 5, NAME)]


EXPERIMENT = Experiment(NAME, "What useless sources cost", tables, pictures, units, ours=True)
