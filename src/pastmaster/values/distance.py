"""Cross values that know whether policy j is task j's own, and the distance of policies that follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import BoolArray, FloatArray, LongArray, as_floats
from pastmaster.checks import flag
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown

TIE = 2.0**-40  # relative to the best value of a row: values nearer to it than that are as good


class CrossValues(np.ndarray[Any, np.dtype[np.float64]]):
    """U [N, M] as an array that knows whether policy j is task j's own.

    Only the very array that a function returns knows it. Slices, permutations, copies and results of arithmetic do not:
    their columns may be in another order than their rows.

    Attributes
    ----------
    paired : bool
        Whether policy j is task j's own.

    Examples
    --------
    >>> from pastmaster import TabularMDP, cross_values
    >>> U = cross_values([TabularMDP([[0, 0]], [rewards], gamma=0.5) for rewards in ([1.0, 2.0], [3.0, 0.0])])
    >>> U.paired, U[::-1].paired
    (True, False)
    """

    paired: bool

    def __new__(cls, U: npt.ArrayLike, *, paired: bool) -> CrossValues:
        made = np.array(as_floats(U, "CrossValues: U")).view(cls)
        made.paired = flag("CrossValues", "paired", paired)
        return made

    def __array_finalize__(self, obj: Any) -> None:
        self.paired = False

    def __setitem__(self, key: Any, value: Any) -> None:
        self.paired = False  # rows or columns may have been exchanged
        super().__setitem__(key, value)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def policy_distance(U: npt.ArrayLike, *, directed: bool = False, paired: bool | None = None) -> FloatArray:
    """d_V [N, N] from cross values, or the regret matrix [N, M] if ``directed``; never negative.

    It says what a task loses under the policy of another, which is what a clustering keeps small. The regret of task i
    under policy j is max_k U[i, k] - U[i, j]: the reference is always the best policy known for the task. Values within
    a part in 10^12 of the best one lose nothing, so that rounding makes no losses.

    Differs from the paper: where a task's own policy is not the best one known for it (a learned policy, a step cap),
    the best one is the reference. The task then loses under its own policy too, and d_V[i, i] is above 0.

    Parameters
    ----------
    U : array_like, [N, M]
        The value of policy j in task i, as ``cross_values`` returns it.
    directed : bool
        True: the regret of task i under policy j, whoever's policy that is. False: the larger regret of the two
        directions, which needs policy j to be task j's own.
    paired : bool, optional
        For ``directed=False``: True says that policy j is task j's own. An array that ``cross_values(tasks)`` or a
        repository returned knows it by itself; a square shape proves nothing.

    Returns
    -------
    ndarray of float, [N, N] or [N, M]

    Raises
    ------
    InvalidInputError
        If U is not a matrix of finite numbers, or not known to be paired where it must be.

    Examples
    --------
    >>> policy_distance([[5.0, 3.0], [1.0, 2.0]], directed=True)
    array([[0., 2.],
           [1., 0.]])
    """
    caller = "policy_distance"
    matrix = as_floats(U, f"{caller}: U")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInputError(f"{caller}: U has shape {matrix.shape}, must be [N, M] with no empty axis")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidInputError(f"{caller}: U[{i}, {j}] is {matrix[i, j]}, must be finite")
    if not isinstance(paired, bool | np.bool_ | None):
        raise InvalidInputError(f"{caller}: paired is {shown(paired)}, must be True, False or None")
    directed = flag(caller, "directed", directed)
    if matrix.shape[0] != matrix.shape[1] and (paired or not directed):
        raise InvalidInputError(
            f"{caller}: U has shape {matrix.shape}, must be square unless directed=True and paired is not set"
        )
    if directed:
        return regrets(matrix, best_columns(matrix, paired=False))
    _check_paired(caller, U, paired)
    regret = regrets(matrix, best_columns(matrix, paired=True))
    return np.maximum(regret, regret.T)


def _check_paired(caller: str, U: Any, paired: bool | None) -> None:
    """Refuse a symmetric distance of policies that are not known to be the tasks' own."""
    if not (paired or (paired is None and isinstance(U, CrossValues) and U.paired)):
        got = "not said, which a square U does not show" if paired is None else "False"
        raise InvalidInputError(
            f"{caller}: paired is {got}, must be True if policy j is task j's own; for policies in any other order "
            "write directed=True"
        )


def best_columns(U: FloatArray, *, paired: bool) -> LongArray:
    """The column of each row's best value [N]; where policies are the tasks' own, the own one if it is as good."""
    rows, best = np.arange(len(U)), np.asarray(U.argmax(axis=1))
    return np.where(_ties(U, U[rows, best])[rows, rows], rows, best) if paired else best


def regrets(U: FloatArray, best: LongArray) -> FloatArray:
    """What each entry loses to the best one of its row, whose columns are ``best`` [N]; ties lose 0."""
    rows = np.arange(len(U))
    regret: FloatArray = np.where(_ties(U, U.max(axis=1)), 0.0, U[rows, best][:, None] - U)
    return regret


def _ties(U: FloatArray, highest: FloatArray) -> BoolArray:
    """Whether an entry is as good as the highest of its row, but for rounding."""
    least = highest - TIE * np.abs(highest)
    return np.asarray(least[:, None] <= U)
