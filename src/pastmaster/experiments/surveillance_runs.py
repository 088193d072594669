"""What all surveillance experiments share: in each setting, every algorithm with every clustering, run once.

A family of tasks is drawn and clustered in all the ways that the experiments compare. Ten new tasks of the same group
sequences are met, ten times each. Selectors are given the bounds of the previous tasks, never the new one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pastmaster.arrays import Array, FloatArray
from pastmaster.clustering import Clustering, greedy_clustering, search_clusterings
from pastmaster.domains import surveillance
from pastmaster.experiments.scale import EPISODES, HORIZONS, Scale
from pastmaster.experiments.unit import Results, Unit, UnitArrays
from pastmaster.experiments.ways import DECAYING_EXP3, EXP3, OURS, PPR, Q_LEARNING, UNTRIMMED, Runs, Way, meet_all
from pastmaster.parallel import as_text, from_text
from pastmaster.solving import solve
from pastmaster.values import cross_values, policy_distance, return_bounds


@dataclass(frozen=True)
class Setting:
    """So many previous tasks of so many targets, drawn from so many group sequences."""

    previous: int
    targets: int
    sequences: int
    complex: bool = False

    @property
    def name(self) -> str:
        """A name for files: complex-100-2."""
        return f"{'complex-' if self.complex else ''}{self.previous}-{self.targets}"

    @property
    def title(self) -> str:
        """A name for people."""
        targets = f"{self.targets} target{'s' if self.targets > 1 else ''}"
        return f"{'complex, ' if self.complex else ''}{self.previous} previous tasks, {targets}"


SIMPLE = tuple(
    Setting(*numbers)
    for numbers in ((64, 1, 16), (96, 2, 6), (125, 2, 12), (256, 2, 16), (100, 3, 5), (200, 3, 10), (300, 3, 20))
)
COMPLEX = (Setting(100, 2, 6, True), Setting(200, 2, 12, True))
SETTINGS = (*SIMPLE, *COMPLEX)
CORRECTED = ("96-2", "200-3")
"""Settings in which the paper's own span and chain are run beside ours."""

SEARCH, NONE, GREEDY, PICKED, WORST = "search", "none", "greedy", "hand-picked", "worst case"
PLAIN, WIDE, WIDE_PLAIN = "plain MHAV", "paper's span", "paper's span, plain MHAV"
TABLE = tuple(Way(algorithm, how) for algorithm in (EXP3, PPR) for how in (SEARCH, NONE, PICKED, GREEDY))
"""The combinations of the paper's Table 1; Q-learning stands beside them."""
ALONE, BEST, BARE, WORST_CASE = Way(Q_LEARNING, ""), Way(OURS, SEARCH), Way(UNTRIMMED, SEARCH), Way(EXP3, WORST)
TUNED = tuple(Way(EXP3, f"search, T = {horizon}", horizon) for horizon in HORIZONS[:-1])
CLUSTERED, ALL_PPR = Way(EXP3, SEARCH), Way(PPR, NONE)
CORRECTIONS = (
    Way(DECAYING_EXP3, SEARCH),
    Way(EXP3, PLAIN),
    Way(EXP3, WIDE, bounds="paper"),
    Way(EXP3, WIDE_PLAIN, bounds="paper"),
)


def ways(setting: Setting) -> list[Way]:
    """All that is run in a setting."""
    return [*TABLE, ALONE, BEST, BARE, WORST_CASE, *TUNED, *(CORRECTIONS if setting.name in CORRECTED else ())]


def run(setting: Setting, rng: np.random.Generator, scale: Scale) -> UnitArrays:
    """Draw, solve, cluster and transfer."""
    draw_rng, cluster_rng, meet_rng = rng.spawn(3)
    tasks = surveillance.family(
        setting.previous, setting.targets, rng=draw_rng, n_sequences=setting.sequences, complex=setting.complex
    )
    targets = surveillance.new_tasks(tasks, scale.targets, rng=draw_rng)
    sequences = surveillance.group_sequences(tasks)
    policies = [solve(task).policy for task in tasks]
    bounds = {"exact": return_bounds(tasks), "paper": return_bounds(tasks, kind="paper")}
    spans = {which: found.span for which, found in bounds.items()}
    drawn = Drawn(policy_distance(cross_values(tasks, policies), paired=True), spans, sequences, scale)
    makers = clusterings(setting)
    streams = cluster_rng.spawn(len(makers))
    found = {name: make(drawn, stream) for (name, make), stream in zip(makers.items(), streams, strict=True)}
    kept = {name: [policies[i] for i in clustering.representatives] for name, clustering in found.items()}
    kept |= {NONE: policies, "": []}
    arrays = meet_all(targets, ways(setting), lambda way, _: kept[way.clustering], bounds, scale, meet_rng)
    return arrays | {
        "distance": drawn.distance,
        "labels": np.stack([clustering.labels for clustering in found.values()]),
        "costs": np.array([drawn.from_labels(clustering.labels).cost for clustering in found.values()]),
        "names": as_text([task.name for task in tasks]),
        "targets": as_text([target.name for target in targets]),
    }


@dataclass(frozen=True)
class Drawn:
    """Previous tasks as a clustering sees them."""

    distance: FloatArray
    spans: Mapping[str, float]
    sequences: Array
    scale: Scale

    def searched(
        self, rng: np.random.Generator, *, episodes: int = EPISODES, bounds: str = "exact", **options: Any
    ) -> Clustering:
        """By Search-Clusterings."""
        return search_clusterings(
            self.distance, episodes=episodes, span=self.spans[bounds], rng=rng, **self.scale.search, **options
        )

    def greedy(self, rng: np.random.Generator) -> Clustering:
        """The best threshold."""
        return greedy_clustering(self.distance, episodes=EPISODES, span=self.spans["exact"], rng=rng)

    def picked(self, _: np.random.Generator) -> Clustering:
        """One cell to each group sequence, as a person who knows the domain would choose."""
        return self.from_labels(np.unique(self.sequences, axis=0, return_inverse=True)[1].ravel())

    def from_labels(self, labels: Array) -> Clustering:
        """These cells, with the average-case cost and the tight span, so that all can be compared."""
        return Clustering.from_labels(self.distance, labels, episodes=EPISODES, span=self.spans["exact"])


def clusterings(setting: Setting) -> dict[str, Callable[[Drawn, np.random.Generator], Clustering]]:
    """How each clustering of a setting is made; search is the first."""
    makers: dict[str, Callable[..., Clustering]] = {
        SEARCH: Drawn.searched,
        GREEDY: Drawn.greedy,
        PICKED: Drawn.picked,
        WORST: partial(Drawn.searched, kind="worst"),
    }
    makers |= {way.clustering: partial(Drawn.searched, episodes=way.episodes) for way in TUNED}
    if setting.name in CORRECTED:
        makers |= {
            PLAIN: partial(Drawn.searched, variant="paper"),
            WIDE: partial(Drawn.searched, bounds="paper"),
            WIDE_PLAIN: partial(Drawn.searched, bounds="paper", variant="paper"),
        }
    return makers


class SettingRuns(Runs):
    """What was run in a setting."""

    def __init__(self, setting: Setting, arrays: UnitArrays) -> None:
        super().__init__(setting.name, ways(setting), arrays)
        self.setting, self.title = setting, setting.title

    def cost(self, clustering: str) -> float:
        """The average-case cost with the tight span."""
        return float(self._clustered("costs", clustering))

    def clustering(self, name: str) -> Clustering:
        """A clustering, its cost without g."""
        return Clustering.from_labels(self.arrays["distance"], self._clustered("labels", name))

    def cells(self, name: str) -> int:
        """How many sources a clustering leaves."""
        return self.setting.previous if name == NONE else int(self._clustered("labels", name).max()) + 1 if name else 0

    def names(self, which: str = "names") -> list[str]:
        """The names of the previous tasks, or of the "targets"."""
        return list(from_text(self.arrays[which]))

    def _clustered(self, array: str, name: str) -> Array:
        found: Array = self.arrays[array][list(clusterings(self.setting)).index(name)]
        return found


UNITS = {
    setting.name: Unit(
        f"surveillance-{setting.name}", partial(run, setting),
        repr((setting, ways(setting), list(clusterings(setting)))), setting.previous / 10,
    )
    for setting in SETTINGS
}  # fmt: skip
"""By setting."""


def by_setting(results: Results, names: Iterable[str] = UNITS) -> dict[str, SettingRuns]:
    """The runs of these settings."""
    return {
        setting.name: SettingRuns(setting, results[UNITS[setting.name].name])
        for setting in SETTINGS
        if setting.name in names
    }
