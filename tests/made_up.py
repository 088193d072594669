"""Made-up folders: a reproduction, as ``pastmaster reproduce`` would write it, and a scenario of ASlib.

Nothing in them was measured.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

LABELS = ("reuse, kept policies", "reuse, all policies", "learning from scratch", "policy of the nearest task")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def write_reproduction(
    folder: Path,
    *,
    experiments: Sequence[str] = ("coloured-grid", "windy-corridor"),
    n_figures: int = 2,
    n_tasks: int = 12,
    n_points: int = 30,
    n_claims: int = 3,
    n_checks: int = 2,
    seeds: Sequence[int] = (0, 1, 2),
    quick: bool = False,
    name: str = "task",
) -> Path:
    """The whole folder; ``name`` begins the names of all tasks."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claims.json").write_text(json.dumps(claims(n_claims, n_checks, seeds, quick), indent=1))
    (folder / "summary.png").write_bytes(b"not read")
    for seed in seeds:
        for experiment in experiments:
            place = folder / f"seed-{seed}" / experiment
            place.mkdir(parents=True)
            (place / "other-table.csv").write_text("what,ever\n1")
            for i in range(n_figures):
                write_curves(place / f"curves-goal-{i}.csv", f"Goal {i} of seed {seed}", n_points, rng)
                cells, names = write_map(place / f"map-family-{i}.csv", f"Family {i}", n_tasks, name, rng)
                write_matrix(place / f"distance-family-{i}.csv", f"Policy distance, family {i}", cells, rng)
                write_shares(place / f"shares-goal-{i}.csv", f"Goal {i} of seed {seed}", n_points, names, rng)
    return folder


def claims(n_claims: int, n_checks: int, seeds: Sequence[int], quick: bool) -> dict[str, object]:
    """The content of claims.json; the last claim failed if there are several."""

    def claim(i: int) -> dict[str, object]:
        fails = i == n_claims - 1 and n_claims > 1
        check = {
            "name": f"gain, {96 + i} previous tasks, 2 targets", "value": 12.345 + i, "low": 11.0, "high": 13.9,
            "unit": "points of score", "wanted": "> 0", "held": not fails,
        }  # fmt: skip
        bare = check | {"name": "cells found", "low": None, "high": None, "unit": "cells", "wanted": "", "held": None}
        return {
            "id": f"claim-{i}",
            "sentence": f"Sentence {i}: with the policies kept by the search, reuse earns more than learning from "
            "scratch from the first episodes on, and never much less in the long run.",
            "experiment": "coloured-grid",
            "held": [not fails] + [not fails or j % 2 == 0 for j in range(len(seeds) - 1)],
            "reproduced": not fails,
            "reason": "the paper does not say how the learner was set, and ours learns faster" if fails else "",
            "checks": ([check, bare] * n_checks)[:n_checks],
            "checks_held": ([0 if fails else len(seeds), None] * n_checks)[:n_checks],
            "values": [[12.5] * len(seeds)] * n_checks,
        }

    return {
        "schema": 1,
        "mode": "quick" if quick else "full",
        "seeds": list(seeds),
        "machine": "2 cores, 4 GB, Linux",
        "version": "0.1.0",
        "experiments": {"coloured-grid": "Coloured grid", "windy-corridor": "Windy corridor: clusters"},
        "claims": [claim(i) for i in range(n_claims)],
    }


def write(path: Path, title: str, rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        file.write(f"# title: {title}\n")
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_curves(path: Path, title: str, n_points: int, rng: np.random.Generator) -> None:
    episode = np.linspace(50, 10_000, n_points)
    rows: list[Sequence[object]] = [("label", "episode", "mean", "deviation")]
    for i, label in enumerate(LABELS):
        mean = 80 * (1 - 0.7 * np.exp(-episode / (600 + 900 * i))) + rng.normal(scale=0.6, size=n_points)
        rows += [(label, *map(float, row)) for row in zip(episode, mean, 2 + 3 * rng.random(n_points), strict=True)]
    rows += [("optimal policy", float(at), 84.5, 0) for at in episode]
    write(path, title, rows)


def write_map(
    path: Path, title: str, n_tasks: int, name: str, rng: np.random.Generator
) -> tuple[np.ndarray, list[str]]:
    cells = rng.integers(max(2, n_tasks // 6), size=n_tasks)
    cells = np.unique(cells, return_inverse=True)[1]
    centres = rng.random((n_tasks, 2))
    points = centres[cells] + rng.normal(scale=0.04, size=(n_tasks, 2))
    names = [f"{name} {i}, weights {x:.2f} {y:.2f}" for i, (x, y) in enumerate(points)]
    first = {int(cell): int(np.flatnonzero(cells == cell)[0]) for cell in cells}
    rows: list[Sequence[object]] = [("task", "name", "cell", "representative", "weight of red", "weight of blue")]
    rows += [(i, names[i], int(c), first[int(c)], *points[i].round(6).tolist()) for i, c in enumerate(cells)]
    write(path, title, rows)
    return cells, names


def write_matrix(path: Path, title: str, cells: np.ndarray, rng: np.random.Generator) -> None:
    far = np.where(cells[:, None] == cells[None, :], 0.2, 1.0) * rng.random((len(cells), len(cells)))
    values = (far + far.T) * (1 - np.eye(len(cells)))
    write(path, title, values.round(6).tolist())


def write_shares(path: Path, title: str, n_points: int, names: Sequence[str], rng: np.random.Generator) -> None:
    arms = ["learner", *(f"source: {name}" for name in names[:5]), "the others"]
    episode = np.linspace(50, 10_000, n_points)
    weight = rng.random((len(arms), n_points)) + 6 * (np.arange(len(arms)) == 2)[:, None] * episode / 10_000
    share = weight / weight.sum(axis=0)
    rows: list[Sequence[object]] = [("arm", "episode", "share")]
    rows += [
        (arm, float(at), float(s))
        for arm, line in zip(arms, share, strict=True)
        for at, s in zip(episode, line, strict=True)
    ]
    write(path, title, rows)


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
