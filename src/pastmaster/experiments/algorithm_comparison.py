"""Surveillance: EXP-3-Transfer, Probabilistic Policy Reuse and Q-learning in every setting."""

from __future__ import annotations

from pathlib import Path

from pastmaster.experiments import output, panels, useless_sources
from pastmaster.experiments.claims import POINTS, Claim, above, at_least, not_above
from pastmaster.experiments.matrix import ALL_PPR, ALONE, BARE, BEST, CLUSTERED, NONE, SEARCH, UNITS, Matrix, matrices
from pastmaster.experiments.settings import SIMPLE
from pastmaster.experiments.unit import Experiment, Results
from pastmaster.experiments.ways import EXP3, OURS, PPR, Way

NAME = "algorithm-comparison"
FAR = 10.0
"""Points of score from which on we call one far above another."""
LABELS = {
    "EXP-3-Transfer, with clustering": CLUSTERED,
    "EXP-3-Transfer, without": Way(EXP3, NONE),
    "Policy Reuse, with clustering": Way(PPR, SEARCH),
    "Policy Reuse, without": ALL_PPR,
    "Q-learning": ALONE,
    "EXP-3-Transfer, clustering, no elimination": BARE,
    OURS: BEST,
}


def claims(results: Results) -> list[Claim]:
    found = matrices(results)
    simple = found[SIMPLE[0].name]

    def lead(matrix: Matrix, way: Way, over: Way) -> str:
        return f"{way.label} over {over.label}, {matrix.setting.title}"

    better = above(lead(simple, ALL_PPR, CLUSTERED), simple.score(ALL_PPR) - simple.score(CLUSTERED))
    bare = [not_above(lead(one, BARE, ALL_PPR), one.score(BARE) - one.score(ALL_PPR)) for one in found.values()]
    ends = [
        at_least(f"final: {lead(one, CLUSTERED, ALONE)}", one.final(CLUSTERED) - one.final(ALONE), FAR, POINTS)
        for one in found.values()
    ]
    whole = [above(lead(one, CLUSTERED, ALONE), one.score(CLUSTERED) - one.score(ALONE)) for one in found.values()]
    return [
        Claim("ppr-simple", NAME, [better]),
        Claim("elimination-needed", NAME, bare),
        Claim("beats-q", NAME, [*ends, *whole, *useless_sources.beside_alone(results)]),
    ]


def write(results: Results, folder: Path) -> None:
    found = list(matrices(results).values())
    panels.write_curves(found, LABELS, folder, "Algorithms")
    panels.write_numbers(found, list(LABELS.values()), folder)
    for matrix in found:
        _write_shares(matrix, folder)
        _write_map(matrix, folder)


def _write_shares(matrix: Matrix, folder: Path) -> None:
    """Who ran the episodes of the first target: the eight most used sources, the others together, the learner."""
    shares, names = matrix.arrays["shares"], matrix.names
    kept = matrix.clustering(SEARCH).representatives
    order = shares[:, :-1].mean(axis=0).argsort()[::-1]
    columns = {f"source: {names[kept[i]]}": shares[:, i] for i in order[:8]}
    if len(order) > 8:
        columns["the others"] = shares[:, order[8:]].sum(axis=1)
    columns["learner"] = shares[:, -1]
    episode = matrix.curve(CLUSTERED)[0]
    lines = [[arm, float(t), float(x)] for arm, column in columns.items() for t, x in zip(episode, column, strict=True)]
    title = f"Who runs the episodes of {matrix.target_names[0]} (EXP-3-Transfer, {matrix.setting.title})"
    output.write_csv(folder / f"shares-{matrix.setting.name}.csv", ["arm", "episode", "share"], lines, title)


def _write_map(matrix: Matrix, folder: Path) -> None:
    from pastmaster.clustering.picture import task_points

    found = matrix.clustering(SEARCH)
    title = f"Surveillance, {matrix.setting.title}: tasks placed by policy distance"
    axes = ("first scaled coordinate", "second scaled coordinate")
    output.write_map(
        folder,
        matrix.setting.name,
        title,
        matrix.names,
        found.labels,
        found.representatives,
        task_points(found),
        axes,
        found.distance,
    )


def draw(results: Results, folder: Path) -> None:
    panels.draw_panels(list(matrices(results).values()), LABELS, folder / "learning-curves", "Algorithms compared")


EXPERIMENT = Experiment(NAME, "Surveillance: algorithms compared", [*UNITS, useless_sources.UNIT], claims, write, draw)
