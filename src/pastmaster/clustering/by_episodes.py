"""How the kept policies change with the number of episodes and the span, and which are always kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.checks import called_as, known_options, listed
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.search import search_clusterings
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.tables import frame, html_table, one_line

if TYPE_CHECKING:
    import pandas as pd

OWN = {"distance", "episodes", "span", "rng"}  # of the search's arguments: said otherwise here


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
    seed : int or None
        ``rng=seed`` gives the same; None where a generator was given.
    """

    episodes: tuple[float, ...]
    spans: tuple[float, ...]
    clusterings: tuple[tuple[Clustering, ...], ...]
    seed: int | None = None

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
        return one_line(
            f"Sensitivity({cells.size} settings, {cells.min()} to {cells.max()} policies kept, "
            f"{len(self.always_kept)} always: {', '.join(map(str, self.always_kept))})"
        )

    def to_frame(self) -> pd.DataFrame:
        """A row to each setting, as a pandas DataFrame."""
        return frame(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows(), repr(self))

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"episodes": t, "span": b, "policies kept": len(np.unique(found.representatives)), "cost": found.cost}
            | {"mean radius": found.mean_radius}
            for t, row in zip(self.episodes, self.clusterings, strict=True)
            for b, found in zip(self.spans, row, strict=True)
        ]


def sensitivity(
    distance: npt.ArrayLike, *, episodes: Sequence[float], spans: Sequence[float], rng: Rng = None,
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
    >>> distance = [[0, 1, 9], [1, 0, 9], [9, 9, 0]]
    >>> sensitivity(distance, episodes=[10, 1_000], spans=[10.0], rng=0, restarts=2, iterations=500)
    Sensitivity(2 settings, 2 to 3 policies kept, 2 always: 0, 2)
    """
    numbers = [listed(episodes, "sensitivity: episodes"), listed(spans, "sensitivity: spans")]
    for name, values in zip(("episodes", "spans"), numbers, strict=True):
        if not values:
            raise InvalidInputError(f"sensitivity: {name} is empty, must hold at least one number")
    known_options("sensitivity", settings, set(signature(search_clusterings).parameters) - OWN)
    generator, seed = seeded("sensitivity", rng)
    streams = iter(generator.spawn(len(numbers[0]) * len(numbers[1])))
    with called_as("sensitivity"):
        rows = tuple(
            tuple(search_clusterings(distance, episodes=t, span=b, rng=next(streams), **settings) for b in numbers[1])
            for t in numbers[0]
        )
    return Sensitivity(tuple(numbers[0]), tuple(numbers[1]), rows, seed)
