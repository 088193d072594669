"""A table of scores as people have it: an array, nested lists, a DataFrame, or a .csv file, wide or long.

Wide: a row for each task, a column for each policy. Long: columns ``task``, ``policy`` and ``score``, a row for each
trial; trials of the same task and policy are averaged. Names of rows and columns come along.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array, FloatArray, as_array, as_floats, sealed
from pastmaster.checks import as_name, as_real, flag, listed
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file, read_whole
from pastmaster.tables import cut, shown

LARGEST = 1e300  # of a score: differences of two are numbers
MISSING = frozenset(("", "nan", "na", "n/a", "null", "none", "-", "?"))
LONG = ("task", "policy", "score")
SEPARATORS = ",;\t"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(e[+-]?\d+)?", re.IGNORECASE)
MOST_ENTRIES = 2**28  # of a table: 2 GiB
NUMBER = "must be a number, or nan where a policy was not tried"


class Scores(NamedTuple):
    """A table of scores that was read, with its names: ``keep`` takes it as it takes an array.

    Attributes
    ----------
    values : ndarray
        The scores [N tasks, M policies], nan where a policy was not tried.
    tasks, policies : tuple of str
        The names of rows and columns, () if they have none.
    standard_errors : ndarray or None
        Those of the means of repeated trials [N, M], nan where there was one; None if nowhere more.
    lower_is_better : bool
        Whether the scores are costs, such as run times.
    """

    values: FloatArray
    tasks: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    standard_errors: FloatArray | None = None
    lower_is_better: bool = False


def task_of(scores: Scores, i: int) -> str:
    """A row, as an error names it."""
    return f"task {cut(scores.tasks[i])!r}" if scores.tasks else f"task {i}"


def policy_of(scores: Scores, j: int) -> str:
    """A column, as an error names it."""
    return f"policy {cut(scores.policies[j])!r}" if scores.policies else f"policy {j}"


def _entry(scores: Scores, i: int, j: int) -> str:
    """An entry, as an error names it."""
    named = scores.tasks or scores.policies
    return f"scores[{task_of(scores, i)}, {policy_of(scores, j)}]" if named else f"scores[{i}, {j}]"


def read_scores(caller: str, scores: Any, tasks: Any = None, policies: Any = None) -> Scores:
    """Scores of any form, checked; ``tasks`` and ``policies`` are names that take the place of the table's own."""
    pandas = sys.modules.get("pandas")
    if isinstance(scores, Scores):
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
        if not _is_missing(cells[i][j]):
            place = _entry(Scores(values, tasks, policies), i, j)
            raise InvalidInputError(f"{caller}{place} is {shown(cells[i][j])}, {NUMBER}")
    return Scores(sealed(values), tasks, policies)


def _is_missing(cell: Any) -> bool:
    """Whether a cell says that there is no score: None, nan, or pandas's NA and NaT."""
    return (
        cell is None or (isinstance(cell, float | np.floating) and cell != cell) or type(cell).__name__ in ("NAType",)
    )


def _read_frame(place: str, table: Any) -> Scores:
    """A DataFrame: long if it has the columns for it, else a row to each task, whose names are the index."""
    heads = [as_name(head, f"{place}'s columns") for head in table.columns]
    if is_long(heads):
        columns = [table.iloc[:, [head.strip().casefold() for head in heads].index(word)] for word in LONG]
        return averaged(place, zip(*(column.tolist() for column in columns), strict=True), "row")
    plain = type(table.index).__name__ == "RangeIndex"
    names = () if plain else tuple(as_name(name, f"{place}'s index") for name in table.index)
    if plain and table.shape[1] > 1 and all(isinstance(cell, str) for cell in table.iloc[:, 0]):
        names, heads = tuple(as_name(name, place) for name in table.iloc[:, 0]), heads[1:]
        table = table.iloc[:, 1:]
    cells = _array(place, table.to_numpy(dtype=object, na_value=None))
    return _of_cells(place.removesuffix("scores"), cells, names, tuple(heads))


def is_long(heads: Sequence[str]) -> bool:
    """Whether a table with these columns has a row to each trial."""
    return set(LONG) <= {head.strip().casefold() for head in heads}


def _read_csv(place: str, path: Any) -> Scores:
    file = checked_file(place, path, "a .csv file")
    return from_csv(place, read_whole(file, place=f"{place} {str(file)!r}"), str(path))


def from_csv(place: str, content: bytes, source: str) -> Scores:
    """The table in the content of a .csv file; errors name lines, counted as a text editor does, and columns."""
    text = decoded(content, place)
    header = text.lstrip("\r\n").partition("\n")[0]
    separator = max(SEPARATORS, key=re.sub(r'"[^"]*"', "", header).count)
    reader, lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append((reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise InvalidInputError(f"{place}: line {reader.line_num} is not CSV: {error}") from None
    if not lines:
        raise InvalidInputError(f"{place} is {source!r}, which has no lines, must have a header and a row to a task")
    width = len(lines[0][1])
    for line, cells in lines:
        if len(cells) != width:
            raise InvalidInputError(f"{place}: line {line} has {len(cells)} cells, must have {width} as the first line")
    comma = separator != ","
    if is_long(lines[0][1]):
        at = [[head.casefold() for head in lines[0][1]].index(word) for word in LONG]
        trials = (
            (cells[at[0]], cells[at[1]], _number(place, line, "score", cells[at[2]], comma))
            for line, cells in lines[1:]
        )
        return averaged(place, trials, "line")
    return _wide(place, lines, comma)


def decoded(content: bytes, place: str) -> str:
    """Text in UTF-8, or in UTF-16 with its mark."""
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"{place}: line {line} is not text in UTF-8, must be: save it as UTF-8") from None


def _wide(place: str, lines: list[tuple[int, list[str]]], comma: bool) -> Scores:
    """A header with the policies, and a row to each task, which may begin with its name; or numbers alone."""
    first, rows = lines[0][1], lines[1:]
    if all(_as_float(cell, comma) is not None for cell in first):
        first, rows = [], lines
    if not rows:
        raise InvalidInputError(f"{place} has a header only, must have a row to each task")
    named = bool(first) and (
        first[0].casefold() in ("", "task", "tasks", "instance", "name", "id")
        or any(_as_float(cells[0], comma) is None for _, cells in rows)
    )
    heads, names = first[named:], tuple(cells[0] for _, cells in rows) if named else ()
    if len(rows[0][1]) == named:
        raise InvalidInputError(f"{place} has no column of scores, must have one to each policy")
    shown_heads = heads or [str(j) for j in range(len(rows[0][1]))]
    values = [
        [_number(place, line, head, cell, comma) for head, cell in zip(shown_heads, cells[named:], strict=True)]
        for line, cells in rows
    ]
    return Scores(sealed(np.array(values, np.float64)), names, tuple(heads))


def _as_float(cell: str, comma: bool) -> float | None:
    """A cell as a number, nan if nothing was tried; None if it is neither. Infinity is left to be refused by name."""
    if cell.casefold() in MISSING:
        return math.nan
    if comma and DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _number(place: str, line: int, head: str, cell: str, comma: bool) -> float:
    value = _as_float(cell, comma)
    if value is None:
        raise InvalidInputError(
            f"{place}: line {line}, column {cut(head)!r} is {shown(cell)}, must be a number, or empty where a policy "
            "was not tried"
        )
    return value


def averaged(place: str, trials: Iterable[tuple[Any, Any, Any]], unit: str) -> Scores:
    """Means of the trials of each task and policy, in the order in which they first appear, and standard errors."""
    tasks, policies, cells = dict[str, int](), dict[str, int](), list[tuple[int, int, float]]()
    for number, (task, policy, score) in enumerate(trials):
        value = math.nan if _is_missing(score) else as_real(score)
        if math.isnan(value) and not _is_missing(score):
            raise InvalidInputError(f"{place}: score of {unit} {number} is {shown(score)}, {NUMBER}")
        i = tasks.setdefault(as_name(task, f"{place}: task"), len(tasks))
        j = policies.setdefault(as_name(policy, f"{place}: policy"), len(policies))
        cells.append((i, j, value))
    if not cells:
        raise InvalidInputError(f"{place} has a header only, must have a row to each trial")
    if len(tasks) * len(policies) > MOST_ENTRIES:
        raise InvalidInputError(
            f"{place} has {len(tasks):,} tasks and {len(policies):,} policies, must have at most {MOST_ENTRIES:,} pairs"
        )
    row, column, value_of = (np.array(x) for x in zip(*cells, strict=True))
    shape, there = (len(tasks), len(policies)), ~np.isnan(value_of)
    place_of = (row * shape[1] + column)[there]
    score = value_of[there]
    count = np.bincount(place_of, minlength=math.prod(shape))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.bincount(place_of, score, minlength=len(count)) / count
        spread = np.bincount(place_of, (score - mean[place_of]) ** 2, minlength=len(count)) / (count - 1)
        errors = np.where(count > 1, np.sqrt(spread / count), np.nan)
    means = sealed(mean.reshape(shape))
    repeated = sealed(errors.reshape(shape)) if (count > 1).any() else None
    return Scores(means, tuple(tasks), tuple(policies), repeated)
