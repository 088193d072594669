"""What all surveillance experiments share: in each setting, every algorithm with every clustering, run once a reading.

A family of tasks is drawn and clustered in all the ways that the experiments compare. Ten new tasks of the same group
sequences are met, ten times each. Selectors are given the bounds of the previous tasks, never the new one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pastmaster import (
    Bounds,
    Clustering,
    TabularMDP,
    cross_values,
    greedy_clustering,
    policy_distance,
    return_bounds,
    search_clusterings,
    solve,
)
from pastmaster.domains import surveillance
from pastmaster_paper.arrays import Array, FloatArray, IntArray
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import EPISODES, HORIZONS, WINDOWS, Scale
from pastmaster_paper.experiments.setting import SETTINGS, Setting
from pastmaster_paper.experiments.unit import Draws, Results, Unit, UnitArrays
from pastmaster_paper.experiments.ways import (
    DECAYING_EXP3,
    EXP3,
    INFORMED,
    OURS,
    PPR,
    Q_LEARNING,
    TSALLIS,
    UNTRIMMED,
    Meeting,
    Way,
    summed_up,
)

CORRECTED = ("96-2", "200-3")
"""Settings in which the paper's own span and chain are run beside ours."""
SELECTED = ("96-2", "300-3", "complex-200-2")
"""Settings in which all selectors are run, with each of these numbers of episodes."""
LENGTHS = (10, 100, 1_000, 10_000)
SELECTORS = (INFORMED, OURS, TSALLIS, EXP3, PPR, Q_LEARNING)

SEARCH, NONE, GREEDY, PICKED = "search", "none", "greedy", "hand-picked"
PLAIN, WIDE, WIDE_PLAIN = "plain MHAV", "paper's span", "paper's span, plain MHAV"
TABLE = tuple(Way(algorithm, how) for algorithm in (EXP3, PPR) for how in (SEARCH, NONE, PICKED, GREEDY))
"""The combinations of the paper's Table 1; Q-learning stands beside them."""
ALONE, BEST, BARE = Way(Q_LEARNING, ""), Way(OURS, SEARCH), Way(UNTRIMMED, SEARCH)
TUNED = tuple(Way(EXP3, f"search, T = {horizon}", horizon) for horizon in HORIZONS[:-1])
CLUSTERED, ALL_PPR = Way(EXP3, SEARCH), Way(PPR, NONE)
BY_HORIZON = (*TUNED, CLUSTERED)
AT_LENGTH = {EXP3: CLUSTERED, PPR: Way(PPR, SEARCH), Q_LEARNING: ALONE, OURS: BEST}
"""Selectors that are run with the full number of episodes in any case."""
CORRECTIONS = (Way(DECAYING_EXP3, SEARCH), Way(EXP3, PLAIN))
WIDE_WAYS = (Way(EXP3, WIDE, bounds="paper"), Way(EXP3, WIDE_PLAIN, bounds="paper"))


def has_wide(setting: Setting, reading: Reading) -> bool:
    """Whether the paper's span is run beside the exact one: it has none where gamma is 1."""
    return setting.name in CORRECTED and reading.gamma < 1


def ways(setting: Setting, reading: Reading) -> list[Way]:
    """All that is run in a setting."""
    corrected = CORRECTIONS if setting.name in CORRECTED else ()
    return [*TABLE, ALONE, BEST, BARE, *TUNED, *corrected, *(WIDE_WAYS if has_wide(setting, reading) else ())]


def run(setting: Setting, reading: Reading, rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """Draw, solve, cluster and transfer."""
    draw_rng, cluster_rng, meet_rng, select_rng = rng.spawn(4)
    tasks, targets = drawn_tasks(setting, reading, draw_rng, scale.targets)
    previous = Previous(tasks, reading, scale)
    makers = clusterings(setting, reading)
    streams = cluster_rng.spawn(len(makers))
    found = {name: make(previous, stream) for (name, make), stream in zip(makers.items(), streams, strict=True)}
    kept = {name: [previous.policies[i] for i in one.representatives] for name, one in found.items()}
    kept |= {NONE: previous.policies, "": []}
    meeting, chosen = Meeting(targets, reading, scale), ways(setting, reading)
    outcomes: dict[Any, UnitArrays] = {}
    for way, stream in zip(chosen, meet_rng.spawn(len(chosen)), strict=True):
        key = (way.algorithm, way.episodes, way.bounds, *map(id, kept[way.clustering]))
        if key not in outcomes:  # clusterings that keep the same policies fare alike
            sources = [kept[way.clustering]] * len(targets)
            outcomes[key] = summed_up(meeting.returns(way, sources, previous.bounds(way.bounds), stream))
        outcomes[way] = outcomes[key]
    stacked = {name: np.stack([outcomes[way][name] for way in chosen]) for name in outcomes[chosen[0]]}
    if setting.name in SELECTED:
        known = {name: outcomes[way]["reward"] for name, way in AT_LENGTH.items()}
        stacked["selectors"] = _selectors(meeting, previous, found[SEARCH], known, select_rng)
    return stacked | {
        "optimum": np.array([float(cross_values([target])[0, 0]) for target in targets]),
        "span": np.array(previous.bounds().span),
        "cells": np.array([one.n_clusters for one in found.values()]),
        "costs": np.array([previous.from_labels(one.labels).cost for one in found.values()]),
    }


def drawn_tasks(
    setting: Setting, reading: Reading, rng: np.random.Generator, n_targets: int
) -> tuple[list[TabularMDP], list[TabularMDP]]:
    """Previous tasks of a setting and new ones, as a reading has them."""
    tasks = surveillance.family(
        setting.previous, setting.targets, rng=rng, n_sequences=reading.n_sequences(setting), complex=setting.complex,
        gamma=reading.gamma, escape_ends=reading.escape_ends,
    )  # fmt: skip
    targets = surveillance.new_tasks(tasks, n_targets, rng=rng)
    return ([repeating(t) for t in tasks], [repeating(t) for t in targets]) if reading.repeats else (tasks, targets)


def repeating(task: TabularMDP) -> TabularMDP:
    """A task that begins anew, where the agent stands, after the last capture: only the step limit ends it."""
    last = task.terminated & (task.reward > 0)
    place = np.arange(task.n_states)[:, None] % surveillance.N_CELLS
    return TabularMDP(
        np.where(last, place, task.next_state), task.reward, gamma=task.gamma, terminated=task.terminated & ~last,
        start=task.start, horizon=task.horizon, name=f"{task.name}, again and again", params=task.params,
    )  # fmt: skip


def _selectors(
    meeting: Meeting, previous: Previous, kept: Clustering, known: Mapping[str, FloatArray], rng: np.random.Generator
) -> FloatArray:
    """The mean reward of an episode by selector and number of episodes [selectors, lengths, targets].

    ``known`` are those of the full number of episodes that were run already.
    """
    sources = [previous.policies[i] for i in kept.representatives]
    experience = previous.U[:, kept.representatives]
    found = np.empty((len(SELECTORS), len(LENGTHS), len(meeting.targets)))
    for i, (name, stream) in enumerate(zip(SELECTORS, rng.spawn(len(SELECTORS)), strict=True)):
        for j, length in enumerate(LENGTHS):
            if length == EPISODES and name in known:
                found[i, j] = known[name]
                continue
            way = Way(name, SEARCH, length)
            given: list[list[IntArray]] = [[] if name == Q_LEARNING else sources] * len(meeting.targets)
            returns = meeting.returns(way, given, previous.bounds(), stream, experience)
            found[i, j] = returns.mean(axis=(1, 2))
    return found


class Previous:
    """Previous tasks as a clustering sees them: policies, cross values, distances, bounds."""

    def __init__(self, tasks: Sequence[TabularMDP], reading: Reading, scale: Scale) -> None:
        self.tasks, self.reading, self.scale = tasks, reading, scale
        self.policies = [solve(task).policy for task in tasks]
        self.U = cross_values(tasks, self.policies)
        self.distance = policy_distance(self.U, paired=True)
        self.sequences = surveillance.group_sequences(tasks)
        self._bounds: dict[str, Bounds] = {}

    def bounds(self, kind: str = "") -> Bounds:
        """Bounds on returns, of the reading's kind unless another is named."""
        which: Any = kind or self.reading.bounds
        if which not in self._bounds:
            self._bounds[which] = return_bounds(self.tasks, kind=which)
        return self._bounds[which]

    def searched(
        self, rng: np.random.Generator, *, episodes: int = EPISODES, bounds: str = "", **options: Any
    ) -> Clustering:
        """By Search-Clusterings."""
        span = self.bounds(bounds).span
        return search_clusterings(self.distance, episodes=episodes, span=span, rng=rng, **self.scale.search, **options)

    def greedy(self, rng: np.random.Generator) -> Clustering:
        """The best threshold; with few of them, in one order of the tasks."""
        asked: dict[str, Any] = {"episodes": EPISODES, "span": self.bounds().span}
        if self.reading.thresholds is None:
            return greedy_clustering(self.distance, rng=rng, **asked)
        levels = np.quantile(self.distance, np.linspace(0, 1, self.reading.thresholds + 2)[1:-1])
        seed = int(rng.integers(2**31))
        found = [greedy_clustering(self.distance, rng=seed, thresholds=[level], **asked) for level in levels]
        return min(found, key=lambda one: one.cost)

    def picked(self, _: np.random.Generator) -> Clustering:
        """One cell to each group sequence, as a person who knows the domain would choose."""
        return self.from_labels(np.unique(self.sequences, axis=0, return_inverse=True)[1].ravel())

    def from_labels(self, labels: Array) -> Clustering:
        """These cells, with the average-case cost and the reading's span, so that all can be compared."""
        return Clustering.from_labels(self.distance, labels, episodes=EPISODES, span=self.bounds().span)


def clusterings(setting: Setting, reading: Reading) -> dict[str, Callable[[Previous, np.random.Generator], Clustering]]:
    """How each clustering of a setting is made; search is the first."""
    makers: dict[str, Callable[..., Clustering]] = {
        SEARCH: Previous.searched, GREEDY: Previous.greedy, PICKED: Previous.picked
    }  # fmt: skip
    makers |= {way.clustering: partial(Previous.searched, episodes=way.episodes) for way in TUNED}
    if setting.name in CORRECTED:
        makers[PLAIN] = partial(Previous.searched, variant="paper")
    if has_wide(setting, reading):
        makers[WIDE] = partial(Previous.searched, bounds="paper")
        makers[WIDE_PLAIN] = partial(Previous.searched, bounds="paper", variant="paper")
    return makers


@dataclass(frozen=True)
class SettingRuns:
    """What was run in a setting with one seed: means over targets, in reward an episode."""

    setting: Setting
    reading: Reading
    arrays: UnitArrays

    def reward(self, way: Way) -> float:
        """The mean reward of all episodes."""
        return float(self._of("reward", way).mean())

    def final(self, way: Way) -> float:
        """The mean reward of the last window of episodes."""
        return float(self._of("final", way).mean())

    def curve(self, way: Way) -> FloatArray:
        """The mean reward of each window [WINDOWS]."""
        return self._of("curve", way)

    def deviation(self, way: Way) -> FloatArray:
        """The standard deviation of a run in each window [WINDOWS]."""
        return self._of("deviation", way)

    def upto(self, way: Way, episodes: int) -> float:
        """The mean reward of the first so many episodes: whole windows."""
        n = episodes * WINDOWS // way.episodes
        return float(self.curve(way)[:n].mean())

    @property
    def optimum(self) -> float:
        """What an optimal policy earns in an episode."""
        return float(self.arrays["optimum"].mean())

    def cost(self, clustering: str) -> float:
        """The average-case cost."""
        return float(self._clustered("costs", clustering))

    def cells(self, name: str) -> int:
        """How many sources a clustering leaves."""
        return self.setting.previous if name == NONE else int(self._clustered("cells", name)) if name else 0

    def _of(self, name: str, way: Way) -> FloatArray:
        found: FloatArray = self.arrays[name][ways(self.setting, self.reading).index(way)]
        return found

    def _clustered(self, array: str, name: str) -> Any:
        return self.arrays[array][list(clusterings(self.setting, self.reading)).index(name)]


def unit(setting: Setting, reading: Reading) -> Unit:
    """The work of a setting under a reading."""
    told = (setting, reading, ways(setting, reading), list(clusterings(setting, reading)), SELECTORS, LENGTHS)
    return Unit(
        unit_name(setting, reading), partial(run, setting, reading), repr(told), setting.previous / 10,
        f"surveillance-{setting.name}",
    )  # fmt: skip


def unit_name(setting: Setting, reading: Reading) -> str:
    return f"{reading.name}-{setting.name}"


def units(reading: Reading) -> list[Unit]:
    """All settings under a reading."""
    return [unit(setting, reading) for setting in SETTINGS]


def by_setting(results: Results, reading: Reading, among: Iterable[Setting] = SETTINGS) -> dict[str, SettingRuns]:
    """The runs of one seed under a reading, by setting: of those that were run."""
    there = [one for one in among if unit_name(one, reading) in results]
    return {one.name: SettingRuns(one, reading, results[unit_name(one, reading)]) for one in there}


def all_draws(draws: Draws, among: Iterable[Setting] = SETTINGS) -> list[Mapping[str, SettingRuns]]:
    """The runs of each seed, by setting."""
    assert draws.reading is not None
    chosen = list(among)
    return [by_setting(results, draws.reading, chosen) for results in draws.results]
