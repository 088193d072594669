"""The surveillance experiments' common ground: in each setting, every algorithm with every clustering, once.

A repository is drawn and clustered in all the ways the experiments compare; ten new tasks of the same group sequences
are met, ten times each. Selectors are told the bounds of the previous tasks, never the new one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray
from pastmaster.clustering import Clustering, greedy_clustering, search_clusterings
from pastmaster.domains import surveillance
from pastmaster.experiments.scale import EPISODES, HORIZONS, Scale
from pastmaster.experiments.settings import CORRECTED, SETTINGS, Setting
from pastmaster.experiments.unit import Arrays, Results, Unit
from pastmaster.experiments.ways import (
    DECAYING_EXP3,
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
from pastmaster.parallel import as_text, from_text
from pastmaster.solving import solve
from pastmaster.values import cross_values, policy_distance, return_bounds

SEARCH, NONE, GREEDY, PICKED, WORST = "search", "none", "greedy", "hand-picked", "worst case"
PLAIN, WIDE, WIDE_PLAIN = "plain MHAV", "paper's span", "paper's span, plain MHAV"
TABLE = tuple(Way(algorithm, how) for algorithm in (EXP3, PPR) for how in (SEARCH, NONE, PICKED, GREEDY))
"""The matrix of the paper's Table 1; Q-learning stands beside it."""
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


def run(setting: Setting, rng: np.random.Generator, scale: Scale) -> Arrays:
    """Draw, solve, cluster and meet."""
    draw_rng, cluster_rng, meet_rng = rng.spawn(3)
    tasks, sequences = surveillance.repository(
        setting.previous, setting.targets, rng=draw_rng, n_sequences=setting.sequences, complex=setting.complex
    )
    targets = surveillance.new_tasks(tasks, sequences, scale.targets, rng=draw_rng, complex=setting.complex)
    policies = [solve(task).policy for task in tasks]
    distance = policy_distance(cross_values(tasks, policies))
    bounds = {"exact": return_bounds(tasks), "paper": return_bounds(tasks, kind="paper")}
    spans = {kind: found.span for kind, found in bounds.items()}
    drawn, makers = Drawn(distance, spans, sequences, scale), _makers(setting)
    streams = cluster_rng.spawn(len(makers))
    clusterings = {name: make(drawn, stream) for (name, make), stream in zip(makers.items(), streams, strict=True)}
    kept = {name: [policies[i] for i in found.representatives] for name, found in clusterings.items()}
    kept |= {NONE: policies, "": []}
    outcomes = meet_all(targets, ways(setting), lambda way, _: kept[way.clustering], bounds, scale, meet_rng)
    return packed(outcomes) | {
        "optimum": optimal_values(targets),
        "lower": np.array(bounds["exact"].lower),
        "shares": outcomes[0].shares,
        "distance": distance,
        "labels": np.stack([found.labels for found in clusterings.values()]),
        "costs": np.array([_average_cost(found, distance, spans["exact"]) for found in clusterings.values()]),
        "names": as_text([task.name for task in tasks]),
        "targets": as_text([target.name for target in targets]),
    }


@dataclass(frozen=True)
class Drawn:
    """Previous tasks as a clustering sees them."""

    distance: FloatArray
    spans: Mapping[str, float]
    sequences: npt.NDArray[np.int64]
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
        labels = np.unique(self.sequences, axis=0, return_inverse=True)[1].ravel()
        return Clustering.from_labels(self.distance, labels, episodes=EPISODES, span=self.spans["exact"])


Maker = Callable[[Drawn, np.random.Generator], Clustering]


def _makers(setting: Setting) -> dict[str, Maker]:
    """How each clustering of a setting is made; search is the first."""
    found: dict[str, Maker] = {
        SEARCH: Drawn.searched,
        GREEDY: Drawn.greedy,
        PICKED: Drawn.picked,
        WORST: partial(Drawn.searched, kind="worst"),
    }
    found |= {way.clustering: partial(Drawn.searched, episodes=way.episodes) for way in TUNED}
    if setting.name in CORRECTED:
        found |= {
            PLAIN: partial(Drawn.searched, variant="paper"),
            WIDE: partial(Drawn.searched, bounds="paper"),
            WIDE_PLAIN: partial(Drawn.searched, bounds="paper", variant="paper"),
        }
    return found


def _average_cost(clustering: Clustering, distance: FloatArray, span: float) -> float:
    """The cost by the average case and the tight span, so that all can be compared."""
    return Clustering.from_labels(distance, clustering.labels, episodes=EPISODES, span=span).cost


class Matrix(Met):
    """What was run in a setting."""

    def __init__(self, setting: Setting, arrays: Arrays) -> None:
        super().__init__(setting.name, ways(setting), arrays)
        self.setting = setting

    def cost(self, clustering: str) -> float:
        """The average-case cost with the tight span."""
        return float(self.arrays["costs"][list(_makers(self.setting)).index(clustering)])

    def clustering(self, name: str) -> Clustering:
        """A clustering, its cost without g."""
        return Clustering.from_labels(self.arrays["distance"], self._labels(name))

    def cells(self, name: str) -> int:
        """How many sources a clustering leaves."""
        return self.setting.previous if name == NONE else int(self._labels(name).max()) + 1 if name else 0

    def _labels(self, name: str) -> npt.NDArray[np.int32]:
        labels: npt.NDArray[np.int32] = self.arrays["labels"][list(_makers(self.setting)).index(name)]
        return labels

    @property
    def names(self) -> list[str]:
        return list(from_text(self.arrays["names"]))

    @property
    def target_names(self) -> list[str]:
        return list(from_text(self.arrays["targets"]))


def units(*names: str) -> list[Unit]:
    """The units of these settings."""
    return [unit for setting, unit in zip(SETTINGS, UNITS, strict=True) if setting.name in names]


def _settings(setting: Setting) -> str:
    """All that a setting's arrays depend on, besides the scale."""
    return repr((setting, ways(setting), list(_makers(setting))))


UNITS = [
    Unit(f"surveillance-{setting.name}", partial(run, setting), _settings(setting), setting.previous / 10)
    for setting in SETTINGS
]


def matrices(results: Results) -> dict[str, Matrix]:
    """By setting name, those there are."""
    return {
        setting.name: Matrix(setting, results[unit.name])
        for setting, unit in zip(SETTINGS, UNITS, strict=True)
        if unit.name in results
    }
