"""A made-up folder of a reproduction, as ``reproduce`` would write it. Nothing in it was measured."""

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
    n_sentences: int = 3,
    n_cases: int = 2,
    seeds: Sequence[int] = (0, 1, 2),
    quick: bool = False,
    name: str = "task",
) -> Path:
    """The whole folder; ``name`` begins the names of all tasks."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentences.json").write_text(json.dumps(sentences(n_sentences, n_cases, seeds, quick), indent=1))
    (folder / "summary.png").write_bytes(b"not read")
    for experiment in experiments:
        place = folder / "figures" / experiment
        place.mkdir(parents=True)
        (place / "other-table.csv").write_text("what,ever\n1")
        write(place / "table-rewards.csv", f"Rewards of {experiment}", [("way", "96/2"), ("reuse", "12.5 (11 .. 14)")])
        for i in range(n_figures):
            write_curves(place / f"curves-goal-{i}.csv", f"Goal {i}", n_points, rng)
            cells, names = write_map(place / f"map-family-{i}.csv", f"Family {i}", n_tasks, name, rng)
            write_matrix(place / f"distance-family-{i}.csv", f"Policy distance, family {i}", cells, rng)
            write_shares(place / f"shares-goal-{i}.csv", f"Goal {i}", n_points, names, rng)
    return folder


READINGS = ("printed", "undiscounted")
VERDICTS = ("holds", "in part", "not shown", "contrary")


def sentences(n_sentences: int, n_cases: int, seeds: Sequence[int], quick: bool) -> dict[str, object]:
    """The content of sentences.json: the first sentence is of no reading, the last is contrary."""

    def case(i: int, verdict: str) -> dict[str, object]:
        mean = -12.4 - i if verdict == "contrary" else 12.4 + i
        figure = {
            "mean": mean, "low": mean - 1.5, "high": mean + 1.5, "bootstrap_low": mean - 1.4,
            "bootstrap_high": mean + 1.4, "values": [mean] * len(seeds),
        }  # fmt: skip
        wanted = "> 0" if i % 2 == 0 else ""
        return {
            "name": f"{96 + i}-2", "what": "", "unit": "reward an episode", "wanted": wanted, "figure": figure,
            "verdict": ("not judged" if quick else verdict) if wanted else "",
        }  # fmt: skip

    judged: list[dict[str, object]] = []
    for i in range(n_sentences):
        verdict = "contrary" if i == n_sentences - 1 and n_sentences > 1 else VERDICTS[i % 3]
        for reading in READINGS if i else ("",):
            cases = [case(j, verdict) for j in range(n_cases)]
            told = "not judged" if quick else verdict
            judged.append({"id": i + 1, "reading": reading, "verdict": told, "cases": cases})
    return {
        "schema": 2,
        "mode": "quick" if quick else "full",
        "seeds": list(seeds),
        "machine": "2 cores, 4 GB, Linux",
        "version": "0.1.0",
        "readings": {name: {"name": name, "gamma": 0.9, "sequences": {}} for name in READINGS},
        "experiments": {"coloured-grid": "Coloured grid", "windy-corridor": "Windy corridor: clusters"},
        "findings": ["windy-corridor"],
        "sentences": [
            {
                "id": i + 1, "lines": str(900 + i), "experiment": "coloured-grid",
                "words": f"Sentence {i + 1}: with the policies kept by the search, reuse earns more than learning from "
                "scratch from the first episodes on, and never much less in the long run.",
            }
            for i in range(n_sentences)
        ],
        "judged": judged,
    }  # fmt: skip


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
