"""Two loose ends of the paper that no reading can express: whether Policy Reuse explores in its own episodes, and
which ladder the printed chain was given.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pastmaster import Chain, TabularMDP, figures, search_clusterings
from pastmaster_paper.arrays import FloatArray, IntArray, sealed
from pastmaster_paper.experiments import _kernels as kernels, panels, surveillance_runs as runs
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.pooled import Pooled
from pastmaster_paper.experiments.readings import PRINTED, READINGS, Reading
from pastmaster_paper.experiments.scale import EPISODES, Scale
from pastmaster_paper.experiments.setting import BY_NAME, Setting
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Tables, Unit, UnitArrays
from pastmaster_paper.experiments.ways import Meeting

EPSILON = 0.1
TRIED = [BY_NAME[name] for name in ("64-1", "96-2", "300-3")]
KINDS = ("EXP-3-Transfer, search", "Policy Reuse, own episodes greedy", "Policy Reuse, own episodes epsilon-greedy")
LADDERS: dict[str, Any] = {
    "lambda from 1.1 to 100": np.log(np.linspace(1.1, 100.0, 60)),
    "ln lambda from 1 to 100": np.linspace(1.0, 100.0, 60),
    "ln lambda from 1 to 1000": np.geomspace(1.0, 1000.0, 60),
    "ours, calibrated": None,
}
CHAIN_SETTINGS = [BY_NAME[name] for name in ("96-2", "200-3")]


def reuse_returns(
    task: TabularMDP, sources: list[IntArray], step_size: float, own_epsilon: float, episodes: int,
    rng: np.random.Generator,
) -> FloatArray:  # fmt: skip
    """Returns of Policy Reuse in a deterministic task [episodes]."""
    out = np.empty(episodes)
    arrays = (task.next_state, task.reward, task.terminated, task.gamma, task.horizon, int(task.start_states[0]))
    tables = np.array(sources, np.int32).reshape(-1, task.n_states)
    kernels.reuse_returns(*arrays, sealed(tables), step_size, EPSILON, own_epsilon, out, rng)
    return out


def run_reuse(setting: Setting, reading: Reading, rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """EXP-3-Transfer with clustering, and Policy Reuse with all policies in both ways: reward an episode [3]."""
    draw_rng, search_rng, meet_rng, reuse_rng = rng.spawn(4)
    tasks, targets = runs.drawn_tasks(setting, reading, draw_rng, scale.targets)
    previous, trials = runs.Previous(tasks, reading, scale), min(2, scale.trials)
    kept = [previous.policies[i] for i in previous.searched(search_rng).representatives]
    meeting = Meeting(targets, reading, Scale(scale.name, scale.targets, trials))
    found = [float(meeting.returns(runs.CLUSTERED, [kept] * len(targets), previous.bounds(), meet_rng).mean())]
    for own in (0.0, EPSILON):
        streams = reuse_rng.spawn(len(targets) * trials)
        returns = [
            reuse_returns(targets[i % len(targets)], previous.policies, reading.step_size, own, EPISODES, stream)
            for i, stream in enumerate(streams)
        ]
        found.append(float(np.mean(returns)))
    return {"reward": np.array(found)}


def run_chains(setting: Setting, rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """The plain chain with each ladder, and our search: cost and cells [ladders + 1, 2]."""
    draw_rng, *streams = rng.spawn(len(LADDERS) + 2)
    previous = runs.Previous(runs.drawn_tasks(setting, PRINTED, draw_rng, 1)[0], PRINTED, scale)
    asked: dict[str, Any] = {"episodes": EPISODES, "span": previous.bounds().span, **scale.search}
    found = [
        search_clusterings(previous.distance, rng=stream, variant="paper", chain=Chain(ladder), **asked)
        for ladder, stream in zip(LADDERS.values(), streams, strict=False)
    ]
    found.append(search_clusterings(previous.distance, rng=streams[-1], **asked))
    return {"costs": np.array([[one.cost, one.n_clusters] for one in found])}


def _reuse_name(setting: Setting, reading: Reading) -> str:
    return f"loose-reuse-{reading.name}-{setting.name}"


def _chain_name(setting: Setting) -> str:
    return f"loose-chain-{setting.name}"


UNITS = [
    Unit(_reuse_name(one, reading), partial(run_reuse, one, reading), repr((one, reading, KINDS)), 3)
    for reading in READINGS.values()
    for one in TRIED
] + [Unit(_chain_name(one), partial(run_chains, one), repr((one, list(LADDERS))), 6) for one in CHAIN_SETTINGS]


def tables(draws: Draws) -> Tables:
    rows = []
    for reading in READINGS.values():
        for i, kind in enumerate(KINDS):
            cells = [_pooled(draws, _reuse_name(one, reading), "reward", i) for one in TRIED]
            rows.append([reading.name, kind, *(panels.told(cell) for cell in cells)])
    head = ["reading", "algorithm", *(one.short for one in TRIED)]
    yield "reuse", Columns(head, rows, f"Policy Reuse that explores in its own episodes: {panels.REWARD}")
    rows = []
    for i, ladder in enumerate([*LADDERS, "ours, weights and greedy starts"]):
        found = [_pooled(draws, _chain_name(one), "costs", (i, j)) for one in CHAIN_SETTINGS for j in (0, 1)]
        rows.append([ladder, *(panels.told(one) for one in found)])
    head = ["ladder of the chain", *(f"{what}, {one.short}" for one in CHAIN_SETTINGS for what in ("cost", "cells"))]
    yield "chain", Columns(head, rows, "The printed chain by its ladder, and our search (printed reading)")


def _pooled(draws: Draws, unit: str, array: str, place: Any) -> Pooled:
    return Pooled.of([float(results[unit][array][place]) for results in draws.results], f"{unit} {place}")


def pictures(draws: Draws) -> Pictures:
    figure, both = figures.new_figure(11, 4, ncols=len(READINGS))
    for axes, reading in zip(both, READINGS.values(), strict=True):
        bars = {k: [_pooled(draws, _reuse_name(s, reading), "reward", i) for s in TRIED] for i, k in enumerate(KINDS)}
        panels.draw_bars(axes, [one.short for one in TRIED], bars)
        axes.set_title(reading.name)
    figure.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    yield "reuse", figure


EXPERIMENT = Experiment(
    "loose-parts", "Loose ends: exploring Policy Reuse, the printed chain", tables, pictures, common=UNITS,
    wants_name=True, ours=True,
)  # fmt: skip
