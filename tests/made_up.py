"""Made-up things to show and to read: a page of charts, and a scenario of ASlib. Nothing in them was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pastmaster.report import (
    Chart,
    Curves,
    Distances,
    Gallery,
    Line,
    Page,
    Prose,
    Section,
    Shares,
    Table,
    TaskMap,
    Tasks,
)

LABELS = ("reuse, kept policies", "reuse, all policies", "learning from scratch", "policy of the nearest task")
HOSTILE = "</script><img src=x onerror=alert(1)>"
HEADINGS = ("Learning curves", "Maps of the tasks", "Distances", "Who ran the episodes")


def page_of_charts(
    n_tasks: int = 12, n_points: int = 30, name: str = "task", label: str = "reuse", goal: str = "Goal"
) -> Page:
    """Two charts of every kind, in one section; ``name`` begins the names of all tasks."""
    rng = np.random.default_rng(0)
    charts: list[tuple[Chart, ...]] = [charts_of(f"{goal} {i}", n_tasks, n_points, name, label, rng) for i in range(2)]
    galleries = [Gallery(heading, "As it is.", both) for heading, *both in zip(HEADINGS, *charts, strict=True)]
    table = Table(f"Rewards of {name}", ("way", "96/2"), [("reuse", "12.5 (11 .. 14)")])
    first = Section("What was found", [Prose("Nothing was measured.", aside=True)])
    return Page("Made up", "What a page can hold.", [("Tasks", name)], [first, Section("Charts", [table, *galleries])])


def charts_of(
    title: str, n_tasks: int, n_points: int, name: str, label: str, rng: np.random.Generator
) -> tuple[Chart, ...]:
    """Curves, a map, distances and shares."""
    episode = np.linspace(50, 10_000, n_points)
    lines = []
    for i, each in enumerate(LABELS):
        mean = 80 * (1 - 0.7 * np.exp(-episode / (600 + 900 * i))) + rng.normal(scale=0.6, size=n_points)
        lines.append(Line(each.replace("reuse", label), episode, mean, 2 + 3 * rng.random(n_points)))
    lines.append(Line("optimal policy", episode, np.full(n_points, 84.5), np.zeros(n_points), reference=True))
    cells = np.unique(rng.integers(max(2, n_tasks // 6), size=n_tasks), return_inverse=True)[1]
    points = rng.random((n_tasks, 2))[cells] + rng.normal(scale=0.04, size=(n_tasks, 2))
    names = [f"{name} {i}, weights {x:.2f} {y:.2f}" for i, (x, y) in enumerate(points)]
    first = np.array([int(np.flatnonzero(cells == cell)[0]) for cell in cells])
    tasks = Tasks(np.arange(n_tasks), names, cells, first)
    far = np.where(cells[:, None] == cells[None, :], 0.2, 1.0) * rng.random((n_tasks, n_tasks))
    arms = ["learner", *(f"source: {one}" for one in names[:5]), "the others"]
    weight = rng.random((len(arms), n_points)) + 6 * (np.arange(len(arms)) == 2)[:, None] * episode / 10_000
    share = dict(zip(arms, weight / weight.sum(axis=0), strict=True))
    return (
        Curves(title, lines),
        TaskMap(title, tasks, points, ("weight of red", "weight of blue")),
        Distances(title, tasks, (far + far.T) * (1 - np.eye(n_tasks))),
        Shares(title, episode, share),
    )


SCENARIO = """performance_measures:
    - runtime
maximize:
    - false
performance_type:
    - runtime
algorithm_cutoff_time: 100
"""
RUNS = """@RELATION runs
@ATTRIBUTE instance_id STRING
@ATTRIBUTE repetition NUMERIC
@ATTRIBUTE algorithm STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok, timeout, memout, not_applicable, crash, other}
@DATA
"""


def write_scenario(folder: Path, n_instances: int = 6, n_solvers: int = 3) -> Path:
    """A scenario in which every third run takes too long."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = [
        f"'instance {i}',1,solver-{j},{i + 2.5 * j},{'ok' if (i + j) % 3 else 'timeout'}"
        for i in range(n_instances)
        for j in range(n_solvers)
    ]
    (folder / "description.txt").write_text(SCENARIO)
    (folder / "algorithm_runs.arff").write_text(RUNS + "\n".join(runs) + "\n")
    return folder
