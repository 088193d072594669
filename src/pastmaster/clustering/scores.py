"""A table of scores as people have it: an array, nested lists, a DataFrame, or a .csv file, wide or long.

Wide: a row for each task, a column for each policy. Long: columns ``task``, ``policy`` and ``score``, a row for each
trial; trials of the same task and policy are averaged. Names of rows and columns come along.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from pastmaster.arrays import Array, as_array, as_floats, sealed
from pastmaster.checks import as_name, as_real, flag, listed
from pastmaster.clustering.csv_table import from_csv
from pastmaster.clustering.score_table import (
    LARGEST,
    LONG,
    NUMBER,
    Scored,
    Scores,
    averaged,
    is_long,
    is_missing,
    names_tasks,
    policy_of,
    task_of,
)
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file, read_whole
from pastmaster.tables import shown


def read_scores(caller: str, scores: Any, tasks: Any = None, policies: Any = None) -> Scores:
    """Scores of any form, checked; ``tasks`` and ``policies`` are names that take the place of the table's own."""
    pandas = sys.modules.get("pandas")
    if isinstance(scores, Scored):
        found = scores.scores()
    elif isinstance(scores, Scores):
        found = _checked(caller, scores)
    elif isinstance(scores, str | os.PathLike):
        found = _read_csv(f"{caller}: scores", scores)
    elif pandas is not None and isinstance(scores, pandas.DataFrame):
        found = _read_frame(f"{caller}: scores", scores)
    else:
        found = _of_cells(f"{caller}: ", _array(f"{caller}: scores", scores), (), ())
    found = found._replace(
        tasks=_names(caller, "tasks", tasks, found.tasks, len(found.values)),
        policies=_names(caller, "policies", policies, found.policies, found.values.shape[1]),
    )
    _check(caller, found)
    return found


def _checked(caller: str, scores: Scores) -> Scores:
    """A table that somebody may have made: every part is looked at."""
    values = _of_cells(f"{caller}: ", _array(f"{caller}: scores", scores.values), (), ()).values
    errors, place = scores.standard_errors, f"{caller}: scores.standard_errors"
    if errors is not None:
        errors = as_floats(errors, place)
        if errors.shape != values.shape:
            raise InvalidInputError(f"{place} has shape {errors.shape}, must be {values.shape}")
        if ((errors < 0) | (errors >= LARGEST)).any():
            raise InvalidInputError(f"{place} has one below 0 or not finite, must have none")
    tasks, policies = (
        () if isinstance(given, tuple) and not given else _names(caller, f"scores.{kind}", given, (), size)
        for kind, given, size in zip(("tasks", "policies"), (scores.tasks, scores.policies), values.shape, strict=True)
    )
    costs = flag(caller, "scores.lower_is_better", scores.lower_is_better)
    return Scores(values, tasks, policies, errors, costs)


def _names(caller: str, kind: str, given: Any, own: tuple[str, ...], size: int) -> tuple[str, ...]:
    if given is None:
        return own
    place = f"{caller}: {kind}"
    names = tuple(as_name(name, place) for name in listed(given, place, f"a list of {size} names"))
    if len(names) != size:
        raise InvalidInputError(f"{place} has {len(names)} names, must have {size}")
    return names


def _check(caller: str, scores: Scores) -> None:
    """Refuse a table without entries, a score that is too large, and a task without any score."""
    values = scores.values
    too_large = np.abs(values) >= LARGEST
    if too_large.any():
        i, j = np.argwhere(too_large)[0]
        raise InvalidInputError(f"{caller}: {_entry(scores, i, j)} is {values[i, j]}, must be finite (below 1e300)")
    untried = np.isnan(values).all(axis=1)
    if untried.any():
        i = int(np.flatnonzero(untried)[0])
        raise InvalidInputError(
            f"{caller}: scores has none for {task_of(scores, i)}, must have one at least: leave it out"
        )


def _entry(scores: Scores, i: int, j: int) -> str:
    """An entry, as an error names it."""
    named = scores.tasks or scores.policies
    return f"scores[{task_of(scores, i)}, {policy_of(scores, j)}]" if named else f"scores[{i}, {j}]"


def _array(place: str, scores: Any) -> Array:
    if isinstance(scores, np.ma.MaskedArray):
        masked, scores = np.ma.getmaskarray(scores), np.ma.getdata(scores).astype(object)
        scores[masked] = None
    array = as_array(scores, place, None)
    mixed = array.dtype.kind in "US" and isinstance(scores, list | tuple)  # NumPy made texts of the numbers
    return np.array(scores, object) if mixed else array


def _of_cells(caller: str, table: Array, tasks: tuple[str, ...], policies: tuple[str, ...]) -> Scores:
    """Cells of any type as numbers; None is nan."""
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInputError(f"{caller}scores has shape {table.shape}, must be [N tasks, M policies], none empty")
    if table.dtype.kind in "iuf":
        with np.errstate(over="ignore"):
            return Scores(sealed(table.astype(np.float64)), tasks, policies)
    cells = table.tolist()
    values = np.array([[as_real(cell) for cell in row] for row in cells])
    for i, j in np.argwhere(np.isnan(values)).tolist():
        if not is_missing(cells[i][j]):
            place = _entry(Scores(values, tasks, policies), i, j)
            raise InvalidInputError(f"{caller}{place} is {shown(cells[i][j])}, {NUMBER}")
    return Scores(sealed(values), tasks, policies)


def _read_frame(place: str, table: Any) -> Scores:
    """A DataFrame: long if it has the columns for it, else a row to each task, whose names are the index."""
    heads = [as_name(head, f"{place}'s columns") for head in table.columns]
    if is_long(heads):
        columns = [table.iloc[:, [head.strip().casefold() for head in heads].index(word)] for word in LONG]
        return averaged(place, zip(*(column.tolist() for column in columns), strict=True), "row")
    plain = type(table.index).__name__ == "RangeIndex"
    names = () if plain else tuple(as_name(name, f"{place}'s index") for name in table.index)
    several = plain and table.shape[1] > 1
    if several and (names_tasks(heads[0]) or all(isinstance(cell, str) for cell in table.iloc[:, 0])):
        names, heads = tuple(as_name(name, place) for name in table.iloc[:, 0]), heads[1:]
        table = table.iloc[:, 1:]
    cells = _array(place, table.to_numpy(dtype=object, na_value=None))
    return _of_cells(place.removesuffix("scores"), cells, names, tuple(heads))


def _read_csv(place: str, path: Any) -> Scores:
    file = checked_file(place, path, "a .csv file")
    return from_csv(place, read_whole(file, place=f"{place} {str(file)!r}"), str(path))
