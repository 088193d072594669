"""How the kept policies change with the number of episodes and the span, and which are always kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.search import search_clusterings
from pastmaster.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """The best clustering for each number of episodes and each span.

    Attributes
    ----------
    clusterings : tuple of tuple of Clustering
        ``clusterings[i][j]`` is for episodes[i] and spans[j].
    n_clusters, kept_share, always_kept : ndarray
        The number of cells in each setting [episodes, spans], the share of settings in which each policy is kept [M],
        and the policies kept in all.
    """

    episodes: tuple[float, ...]
    spans: tuple[float, ...]
    clusterings: tuple[tuple[Clustering, ...], ...]

    @property
    def n_clusters(self) -> LongArray:
        return np.array([[found.n_clusters for found in row] for row in self.clusterings])

    @property
    def kept_share(self) -> FloatArray:
        found = [clustering for row in self.clusterings for clustering in row]
        counts = np.zeros(found[0].distance.shape[1])
        for clustering in found:
            counts[np.unique(clustering.representatives)] += 1
        return counts / len(found)

    @property
    def always_kept(self) -> LongArray:
        return np.flatnonzero(self.kept_share == 1)

    def __repr__(self) -> str:
        cells = self.n_clusters
        return (
            f"Sensitivity({cells.size} settings, {cells.min()} to {cells.max()} policies kept, "
            f"{len(self.always_kept)} always: {', '.join(map(str, self.always_kept))})"
        )


def sensitivity(
    distance: npt.ArrayLike, *, episodes: Sequence[float], spans: Sequence[float], rng: np.random.Generator,
    **settings: Any,
) -> Sensitivity:  # fmt: skip
    """How the kept policies change with the number of episodes and the span.

    Parameters
    ----------
    episodes, spans : sequence of float
        Every pair of them is clustered for.
    distance, rng, **settings
        As for ``search_clusterings``.

    Returns
    -------
    Sensitivity

    Raises
    ------
    InvalidInputError
        If ``episodes`` or ``spans`` is empty, or an argument does not fit.

    Examples
    --------
    >>> distance, rng = [[0, 1, 9], [1, 0, 9], [9, 9, 0]], np.random.default_rng(0)
    >>> sensitivity(distance, episodes=[10, 1_000], spans=[10.0], rng=rng, restarts=2, iterations=500)
    Sensitivity(2 settings, 2 to 3 policies kept, 2 always: 0, 2)
    """
    if not len(episodes) or not len(spans):
        raise InvalidInputError("sensitivity: episodes and spans must each hold at least one number")
    streams = iter(rng.spawn(len(episodes) * len(spans)))
    rows = tuple(
        tuple(search_clusterings(distance, episodes=t, span=b, rng=next(streams), **settings) for b in spans)
        for t in episodes
    )
    return Sensitivity(tuple(episodes), tuple(spans), rows)
