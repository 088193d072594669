"""How the kept policies change with the number of episodes and the span, and which are always kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.search import search_clusterings
from pastmaster.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """The best clustering for each number of episodes and span: ``clusterings[i][j]`` for episodes[i] and spans[j].

    ``kept_share`` [M] is the share of settings in which a policy is kept; ``always_kept`` those kept in all.
    """

    episodes: tuple[float, ...]
    spans: tuple[float, ...]
    clusterings: tuple[tuple[Clustering, ...], ...]

    @property
    def n_clusters(self) -> npt.NDArray[np.int64]:
        """The number of cells in each setting [episodes, spans]."""
        return np.array([[found.n_clusters for found in row] for row in self.clusterings])

    @property
    def kept_share(self) -> npt.NDArray[np.float64]:
        found = [clustering for row in self.clusterings for clustering in row]
        counts = np.zeros(found[0].distance.shape[1])
        for clustering in found:
            counts[np.unique(clustering.representatives)] += 1
        return counts / len(found)

    @property
    def always_kept(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.kept_share == 1)

    def __repr__(self) -> str:
        cells = self.n_clusters
        return (
            f"Sensitivity({cells.size} settings, {cells.min()} to {cells.max()} policies kept, "
            f"{len(self.always_kept)} always: {', '.join(map(str, self.always_kept))})"
        )


def sensitivity(
    distance: npt.ArrayLike,
    *,
    episodes: Sequence[float],
    spans: Sequence[float],
    rng: np.random.Generator,
    **settings: Any,
) -> Sensitivity:
    """Cluster for every pair of ``episodes`` and ``spans``; ``settings`` go to ``search_clusterings``."""
    if not len(episodes) or not len(spans):
        raise InvalidInputError("sensitivity: episodes and spans must each hold at least one number")
    streams = iter(rng.spawn(len(episodes) * len(spans)))
    rows = tuple(
        tuple(search_clusterings(distance, episodes=t, span=b, rng=next(streams), **settings) for b in spans)
        for t in episodes
    )
    return Sensitivity(tuple(episodes), tuple(spans), rows)
