"""What a clustering costs: the regret bound of its number of cells, plus how far its cells reach.

    cost(A) = g(c, T) + mean radius,      g(c, T) = B * 2 sqrt(e - 1) * sqrt((c + 1) ln(c + 1) / T)

B is the span of one episode's discounted return. The representative of a cell minimises its largest distance to the
members, ties to the lowest index, and that distance is the cell's radius; the mean radius weighs cells by their size.
Symmetric distances: the representative is a member. Directed distances D [N, M] (what task i loses under policy j):
it is any of the M columns.

Kinds: "average" as above; "worst" takes the largest radius instead of the mean; "max_diameter" the mean over tasks of
the largest distance to a task of the same cell (an upper bound on "average", and the one the paper proves NP-hard).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, as_array, sealed
from pastmaster.clustering import _kernels as kernels
from pastmaster.errors import InvalidInputError

Kind = Literal["average", "worst", "max_diameter"]
KINDS: tuple[Kind, ...] = ("average", "worst", "max_diameter")


def regret_bound(c: npt.ArrayLike, episodes: float, span: float) -> Any:
    """g(c, T): what EXP-3-Transfer with c sources loses per episode, at most, to its best arm. Shaped as ``c``."""
    cells = np.asarray(c, np.float64)
    if not (cells >= 0).all():
        raise InvalidInputError(f"regret_bound: c is {c!r}, must be at least 0")
    check_setting("regret_bound", episodes, span)
    bound = span * 2.0 * np.sqrt(np.e - 1.0) * np.sqrt((cells + 1.0) * np.log(cells + 1.0) / episodes)
    return bound if bound.ndim else float(bound)


def clustering_cost(
    distance: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    episodes: float,
    span: float,
    kind: Kind = "average",
    directed: bool = False,
) -> float:
    """The cost of the partition that ``labels`` [N] makes of the tasks."""
    matrix = checked_distance("clustering_cost", distance, directed)
    kind_index = checked_kind("clustering_cost", kind, directed)
    cells = canonical_labels("clustering_cost", labels, len(matrix))
    check_setting("clustering_cost", episodes, span)
    size_cost = regret_bound(np.arange(len(matrix) + 1), episodes, span)
    return partition_cost(matrix, cells, directed, kind_index, size_cost)


class Cells(NamedTuple):
    """For each cell, its representative [c] and its radius [c]."""

    representatives: npt.NDArray[np.int64]
    radii: FloatArray


def measure_cells(distance: FloatArray, labels: npt.NDArray[np.int32], directed: bool) -> Cells:
    """Representatives and radii of the cells 0 .. c - 1, by the paper's rule with its tie-break."""
    representatives, radii = [], []
    for cell in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == cell)
        candidates = np.arange(distance.shape[1]) if directed else members
        reach = distance[members].max(axis=0) if directed else distance[np.ix_(members, members)].max(axis=0)
        best = int(np.argmin(reach))
        representatives.append(int(candidates[best]))
        radii.append(float(reach[best]))
    return Cells(np.array(representatives), np.array(radii))


def filled(distance: FloatArray, labels: npt.NDArray[np.int32], directed: bool, kind_index: int) -> kernels.State:
    """A kernel state holding this partition."""
    state = kernels.new_state(len(distance), distance.shape[1], directed)
    kernels.fill(state, sealed(labels), distance, directed, kind_index)
    return state


def partition_cost(
    distance: FloatArray, labels: npt.NDArray[np.int32], directed: bool, kind_index: int, size_cost: FloatArray
) -> float:
    """The cost of a partition 0 .. c - 1 under any cost of the number of cells, size_cost [N + 1]."""
    return float(kernels.cost_of(filled(distance, labels, directed, kind_index), size_cost, kind_index))


def checked_distance(caller: str, distance: npt.ArrayLike, directed: bool) -> FloatArray:
    """A distance matrix fit for clustering, or a refusal that names the entry."""
    matrix = as_array(distance, f"{caller}: distance", "iuf").astype(np.float64, copy=False)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(f"{caller}: distance has shape {matrix.shape}, must be [N, N], or [N, M] if directed")
    for name, bad in (("finite (below 1e300)", ~(np.abs(matrix) < 1e300)), ("at least 0", matrix < 0)):
        if bad.any():
            i, j = np.argwhere(bad)[0]
            raise InvalidInputError(f"{caller}: distance[{i}, {j}] is {matrix[i, j]}, must be {name}")
    if not directed:
        if matrix.shape[0] != matrix.shape[1]:
            raise InvalidInputError(f"{caller}: distance has shape {matrix.shape}, must be square unless directed=True")
        if np.diagonal(matrix).any():
            i = int(np.flatnonzero(np.diagonal(matrix))[0])
            raise InvalidInputError(
                f"{caller}: distance[{i}, {i}] is {matrix[i, i]}, must be 0: a task loses nothing to itself"
            )
        if (matrix != matrix.T).any():
            i, j = np.argwhere(matrix != matrix.T)[0]
            raise InvalidInputError(
                f"{caller}: distance[{i}, {j}] is {matrix[i, j]} but distance[{j}, {i}] is {matrix[j, i]}, "
                "must be symmetric unless directed=True"
            )
    return sealed(matrix)


def checked_kind(caller: str, kind: str, directed: bool) -> int:
    """The kernels' number for a kind of cost."""
    if kind not in KINDS:
        raise InvalidInputError(f"{caller}: kind is {kind!r}, must be one of {', '.join(KINDS)}")
    if directed and kind == "max_diameter":
        raise InvalidInputError(
            f"{caller}: kind 'max_diameter' compares tasks of one cell, which needs symmetric distances"
        )
    return KINDS.index(kind)


def check_setting(caller: str, episodes: float, span: float) -> None:
    """Refuse a number of episodes or a span that is not a positive number."""
    for name, value in (("episodes", episodes), ("span", span)):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not (number and np.isfinite(value) and value > 0):
            raise InvalidInputError(f"{caller}: {name} is {value!r}, must be a positive number")


def canonical_labels(caller: str, labels: npt.ArrayLike, n_tasks: int) -> npt.NDArray[np.int32]:
    """Labels renamed 0 .. c - 1 in the order in which cells first appear."""
    array = np.asarray(labels)
    if array.shape != (n_tasks,) or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{caller}: labels has shape {array.shape} and dtype {array.dtype}, must be {n_tasks} integers"
        )
    _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[inverse].astype(np.int32)
