"""What the clustering tests compare with: plain loops over members, written without looking at how the library does it.

A partition is a tuple of labels, label[i] the cell of task i. Symmetric distances: the representative of a cell is the
member whose largest distance to the members is smallest. Directed: any column. Ties to the lowest index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

KINDS = ("average", "worst", "max_diameter")


def regret_bound(c: int, episodes: float, span: float) -> float:
    return span * 2 * math.sqrt(math.e - 1) * math.sqrt((c + 1) * math.log(c + 1) / episodes)


def cells(labels) -> list[list[int]]:
    """The members of each cell, cells in the order of their first tasks."""
    found: dict[int, list[int]] = {}
    for i, label in enumerate(labels):
        found.setdefault(int(label), []).append(i)
    return list(found.values())


def representative(distance, members, directed) -> tuple[int, float]:
    """A cell's representative and its radius."""
    best, radius = -1, math.inf
    for j in range(len(distance[0])) if directed else members:
        largest = max(float(distance[i][j]) for i in members)
        if largest < radius:
            best, radius = j, largest
    return best, radius


def reach(distance, labels, kind="average", directed=False) -> float:
    """The part of the cost that is not g: mean radius, largest radius, or mean largest distance within cells."""
    n_tasks, total, largest = len(distance), 0.0, 0.0
    for members in cells(labels):
        radius = representative(distance, members, directed)[1]
        largest = max(largest, radius)
        if kind == "max_diameter":
            total += sum(max(float(distance[i][j]) for j in members) for i in members)
        else:
            total += len(members) * radius
    return largest if kind == "worst" else total / n_tasks


def cost(distance, labels, episodes, span, kind="average", directed=False) -> float:
    return regret_bound(len(set(labels)), episodes, span) + reach(distance, labels, kind, directed)


def size_probability(k: int, n: int, theta: float) -> float:
    """PE(k; n, theta): proportional to exp(-k theta) over k = 1 .. n."""
    return math.exp(-(k - 1) * theta) / sum(math.exp(-j * theta) for j in range(n))


def partitions(n_tasks: int) -> Iterator[tuple[int, ...]]:
    """Every partition once, as labels numbered in the order of their first tasks."""
    if n_tasks == 0:
        yield ()
        return
    for before in partitions(n_tasks - 1):
        for label in range(max(before, default=-1) + 2):
            yield (*before, label)


def canonical(labels) -> tuple[int, ...]:
    """Labels renamed in the order of their first tasks."""
    names: dict[int, int] = {}
    return tuple(names.setdefault(int(label), len(names)) for label in labels)


def random_symmetric(rng, n_tasks, *, levels=None) -> np.ndarray:
    """Symmetric, zero diagonal, no triangle inequality; with ``levels`` whole numbers below it: many ties and zeros."""
    drawn = rng.random((n_tasks, n_tasks)) ** 2 if levels is None else rng.integers(levels, size=(n_tasks, n_tasks))
    upper = np.triu(drawn.astype(float), 1)
    return upper + upper.T


def random_metric(rng, n_tasks) -> np.ndarray:
    """Distances of random points in the plane, made exactly symmetric."""
    points = rng.random((n_tasks, 2))
    upper = np.triu(np.linalg.norm(points[:, None] - points[None], axis=2), 1)
    return upper + upper.T


def random_directed(rng, n_tasks, n_columns, *, levels=None, own=True) -> np.ndarray:
    """Losses [N, M]; ``own``: square ones have a zero diagonal, each task's policy being its own."""
    drawn = rng.random((n_tasks, n_columns)) ** 2 if levels is None else rng.integers(levels, size=(n_tasks, n_columns))
    losses = drawn.astype(float)
    if own and n_tasks == n_columns:
        np.fill_diagonal(losses, 0.0)
    return losses
