"""The clustering that an estimate is for: what is asked, what a clustering then costs, and a quick search for one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, sealed
from pastmaster.clustering._kernels import AVERAGE
from pastmaster.clustering.cost import canonical_labels, measure_cells
from pastmaster.clustering.greedy import descended
from pastmaster.clustering.partition import size_cost_table
from pastmaster.clustering.restarts import Search
from pastmaster.clustering.search import default_ladder
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.returns import Returns, corrected_distance
from pastmaster.values import policy_distance

Labels = npt.NDArray[np.int32]
CALLER = "estimate_cross_values"
ASKED = ("episodes", "span", "directed", "n_clusters", "max_radius")
HOW = ("restarts", "iterations")


@dataclass(frozen=True)
class Question:
    """Options of ``search_clusterings`` that say what is asked for; ``paired`` as for ``policy_distance``."""

    paired: bool
    directed: bool = False
    episodes: float | None = None
    span: float | None = None
    n_clusters: int | None = None
    max_radius: float | None = None

    def distance(self, U: FloatArray) -> FloatArray:
        """The distances that cross values make."""
        return sealed(policy_distance(U, directed=self.directed, paired=self.paired))

    def estimated(self, returns: Returns) -> FloatArray:
        """The distances that returns make, without the upward bias of maxima."""
        return sealed(corrected_distance(returns.halves(self.paired), self.directed, self.paired))

    def size_cost(self, distance: FloatArray) -> FloatArray:
        """What so many cells cost [N + 1]; any other number than one that is asked for, more than any distance."""
        table = size_cost_table(CALLER, len(distance), self.episodes, self.span)
        if self.n_clusters is None:
            return table
        steps = np.abs(np.arange(len(distance) + 1) - self.n_clusters)
        return np.asarray(table[self.n_clusters] + (2.0 * distance.max() + 1.0) * steps)

    def cost(self, distance: FloatArray, labels: Labels) -> float:
        """The cost of a clustering; with ``max_radius`` its number of cells, and N more for each task beyond it."""
        cells = measure_cells(distance, labels, self.directed)
        if self.max_radius is not None:
            beyond = (cells.radii > self.max_radius)[labels].sum()
            return float(len(cells.radii) + len(labels) * beyond)
        return float(self.size_cost(distance)[len(cells.radii)] + cells.radii[labels].mean())

    def quick_labels(
        self, distance: FloatArray, starts: list[Labels], rng: np.random.Generator, walks: int, steps: int
    ) -> Labels:
        """A good clustering, found in milliseconds: the best of short walks and of descents from ``starts``."""
        if self.max_radius is not None:
            return self._covering(distance, self.max_radius)
        size_cost = self.size_cost(distance)
        search = Search(
            distance, self.directed, AVERAGE, size_cost, default_ladder(distance), False, steps, 1.0,
            np.array([0.1, 0.8, 0.5]), math.inf, self.n_clusters,
        )  # fmt: skip
        found = [search.restart((index, stream)) for index, stream in enumerate(rng.spawn(walks))]
        tried = [(walk.labels, walk.cost) for walk in found]
        tried += [descended(distance, start, self.directed, size_cost, AVERAGE) for start in starts]
        return min(tried, key=lambda pair: pair[1])[0]

    def _covering(self, distance: FloatArray, radius: float) -> Labels:
        """Cells made one by one around the policy that covers most of the tasks left; one out of all reach is alone."""
        labels, cell = np.full(len(distance), -1, np.int32), 0
        covers = distance <= radius
        while (labels < 0).any():
            left = labels < 0
            reach = covers[left].sum(axis=0)
            centre = int(reach.argmax() if self.directed else np.where(left, reach, -1).argmax())
            joined = left & covers[:, centre]
            labels[joined if joined.any() else np.flatnonzero(left)[:1]] = cell
            cell += 1
        return canonical_labels(CALLER, labels, len(distance))


def checked_question(options: Any, paired: bool, n_tasks: int, n_policies: int) -> tuple[Question, dict[str, Any]]:
    """What is asked for, and how the final search is to be done, from options of ``search_clusterings``."""
    if not isinstance(options, Mapping):
        raise InvalidInputError(
            f"{CALLER}: clustering is {options!r}, must be options of search_clusterings, as a dict"
        )
    unknown = sorted(set(options) - {*ASKED, *HOW})
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InvalidInputError(f"{CALLER}: clustering has {names}, must be of {', '.join((*ASKED, *HOW))}")
    asked = {name: options[name] for name in ASKED if name in options}
    question = Question(paired, **asked)
    if not question.directed and not paired:
        raise InvalidInputError(
            f"{CALLER}: clustering is of symmetric distances, must have 'directed': True: "
            f"the {n_policies} policies are not the {n_tasks} tasks' own"
        )
    one = [question.n_clusters, question.max_radius]
    if (question.episodes is None and one == [None, None]) or None not in one:
        raise InvalidInputError(
            f"{CALLER}: clustering is {dict(options)!r}, must have episodes, or one of n_clusters and max_radius"
        )
    if question.n_clusters is not None and not 1 <= question.n_clusters <= min(n_tasks, n_policies):
        most = min(n_tasks, n_policies)
        raise InvalidInputError(f"{CALLER}: clustering has n_clusters {question.n_clusters}, must be in 1..{most}")
    return question, {name: options[name] for name in HOW if name in options}
