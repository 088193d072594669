"""What a clustering costs: the regret bound of its number of cells, plus how far its cells reach.

    cost(A) = g(c, T) + mean radius,      g(c, T) = B * 2 sqrt(e - 1) * sqrt((c + 1) ln(c + 1) / T)

g(c, T) is the regret bound: in expectation and per episode, EXP-3 that drops no policy loses at most that much to the
best of c policies (or to the learner, as it is at each episode) over T episodes. B is the span of one episode's
discounted return. The representative of a cell minimises its largest distance to the members, ties to the lowest index,
and that distance is the cell's radius; the mean radius weighs cells by their size. Symmetric distances: the
representative is a member, and d[i, i], 0 most of the time, is what task i loses under its own policy. Directed
distances D [N, M] (what task i loses under policy j): it is any of the M columns.

Kinds: "average" as above; "worst" takes the largest radius instead of the mean; "max_diameter" the mean over tasks of
the largest distance to a task of the same cell (an upper bound on "average", and the one the paper proves NP-hard).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray, as_array, as_floats, sealed
from pastmaster.checks import as_number
from pastmaster.clustering import _kernels as kernels
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

SMALLEST = 1e-150
Kind = Literal["average", "worst", "max_diameter"]
KINDS: tuple[Kind, ...] = ("average", "worst", "max_diameter")  # in the order of the kernels' numbers


def regret_bound(c: npt.ArrayLike, episodes: float, span: float) -> Any:
    """The regret bound g(c, T): what it costs an episode, at most and in expectation, to find the best of c policies.

    It holds for EXP-3-Transfer without elimination, over T episodes, to each of its c + 1 arms.

    Parameters
    ----------
    c : array_like
        Numbers of source policies, each at least 0.
    episodes, span : float
        T, the episodes that a new task gets, and the largest less the smallest discounted return of an episode.

    Returns
    -------
    float or ndarray
        Shaped as ``c``.

    Raises
    ------
    InvalidInputError
        If a number is out of its range.

    Examples
    --------
    >>> regret_bound([1, 4, 16], episodes=10_000, span=1.0).round(3)
    array([0.031, 0.074, 0.182])
    """
    cells = as_floats(c, "regret_bound: c")
    if not ((cells >= 0) & (np.floor(cells) == cells) & np.isfinite(cells)).all():
        raise InvalidInputError(f"regret_bound: c is {shown(c)}, must be whole numbers, each at least 0")
    check_setting("regret_bound", episodes, span)
    episodes, span = float(episodes), float(span)  # a float32 would round the product
    with np.errstate(over="ignore", invalid="ignore"):
        bound = span * 2.0 * np.sqrt(math.e - 1.0) * np.sqrt((cells + 1.0) * np.log(cells + 1.0) / episodes)
    return bound if bound.ndim else float(bound)


def check_setting(caller: str, episodes: Any, span: Any) -> None:
    """Refuse a number of episodes or a span that is not a positive number."""
    for name, value in (("episodes", episodes), ("span", span)):
        if not as_number(value) > 0:
            raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be a positive number")


def filled(distance: FloatArray, labels: IntArray, directed: bool, kind_index: int) -> kernels.State:
    """A kernel state that holds this partition."""
    state = kernels.new_state(len(distance), distance.shape[1], directed)
    kernels.fill(state, sealed(labels), distance, directed, kind_index)
    return state


def canonical_labels(caller: str, labels: npt.ArrayLike, n_tasks: int) -> IntArray:
    """Labels renamed 0 .. c - 1 in the order in which cells first appear."""
    array = as_array(labels, f"{caller}: labels", None)
    if array.shape != (n_tasks,) or array.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{caller}: labels has shape {array.shape} and dtype {array.dtype}, must be {n_tasks} integers"
        )
    _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[inverse].astype(np.int32)


SIMILAR = "must be 0 or what the task loses under its own policy: these look like similarities"


def are_similarities(matrix: FloatArray) -> bool:
    """Whether the diagonal of a square matrix is the same number all along, larger than all others."""
    own = np.diagonal(matrix)
    most = np.max(matrix, where=~np.eye(len(matrix), dtype=np.bool_), initial=0.0)
    return bool(len(matrix) > 1 and (own == own[0]).all() and own[0] > most)


def checked_distance(caller: str, distance: npt.ArrayLike, directed: bool) -> FloatArray:
    """A distance matrix fit for clustering; an error names the first entry that is not."""
    matrix = as_floats(distance, f"{caller}: distance")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(f"{caller}: distance has shape {matrix.shape}, must be [N, N], or [N, M] if directed")
    if not directed and matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(f"{caller}: distance has shape {matrix.shape}, must be square unless directed=True")
    rules = [("must be finite (below 1e300)", ~(np.abs(matrix) < 1e300)), ("must be at least 0", matrix < 0)]
    if not directed:
        rules.append(("must be symmetric unless directed=True", matrix != matrix.T))
        rules.append((SIMILAR, np.eye(len(matrix), dtype=np.bool_) & are_similarities(matrix)))
    for rule, bad in rules:
        if bad.any():
            i, j = np.argwhere(bad)[0]
            other = f" but distance[{j}, {i}] is {matrix[j, i]}" if "symmetric" in rule else ""
            raise InvalidInputError(f"{caller}: distance[{i}, {j}] is {matrix[i, j]}{other}, {rule}")
    largest = matrix.max()
    if 0.0 < largest < SMALLEST:  # products of such numbers have too few digits left
        raise InvalidInputError(f"{caller}: distance is {largest} at most, must be 0 or above 1e-150: use other units")
    return sealed(matrix)
