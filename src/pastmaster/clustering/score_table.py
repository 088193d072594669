"""A table of scores with its names, and the means of repeated trials."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray, sealed
from pastmaster.checks import as_name, as_real
from pastmaster.errors import InvalidInputError
from pastmaster.tables import cut, shown

LARGEST = 1e300  # of a score: differences of two are numbers
MOST_ENTRIES = 2**28  # of a table: 2 GiB
LONG = ("task", "policy", "score")
TASKS = frozenset(
    (
        "", "task", "tasks", "instance", "name", "names", "id", "ids", "index", "key", "row", "customer", "user",
        "client", "map", "opponent", "level", "scenario", "problem", "env", "environment", "dataset", "case", "item",
        "unnamed: 0",
    )
)  # fmt: skip
"""Headings of a column that holds the names of the tasks, be they numbers or not."""
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


class Scored:
    """A result that is a table of scores: ``keep`` takes it as it takes the table. Its room comes after this one."""

    def scores(self) -> Scores:
        """The table."""
        raise NotImplementedError


def task_of(scores: Scores, i: int) -> str:
    """A row, as an error names it."""
    return f"task {cut(scores.tasks[i])!r}" if scores.tasks else f"task {i}"


def policy_of(scores: Scores, j: int) -> str:
    """A column, as an error names it."""
    return f"policy {cut(scores.policies[j])!r}" if scores.policies else f"policy {j}"


def names_tasks(head: str) -> bool:
    """Whether a column of this heading holds the names of the tasks."""
    plain = head.strip().casefold()
    return plain in TASKS or plain.endswith(("_id", " id", "_name", " name"))


def is_long(heads: Sequence[str]) -> bool:
    """Whether a table with these columns has a row to each trial."""
    return set(LONG) <= {head.strip().casefold() for head in heads}


def is_missing(cell: Any) -> bool:
    """Whether a cell says that there is no score: None, nan, or pandas's NA and NaT."""
    return (
        cell is None or (isinstance(cell, float | np.floating) and cell != cell) or type(cell).__name__ in ("NAType",)
    )


def averaged(place: str, trials: Iterable[tuple[Any, Any, Any]], unit: str) -> Scores:
    """Means of the trials of each task and policy, in the order in which they first appear, and standard errors."""
    tasks, policies = dict[str, int](), dict[str, int]()
    rows, columns, scores = array("q"), array("q"), array("d")
    for number, (task, policy, score) in enumerate(trials):
        value = math.nan if is_missing(score) else as_real(score)
        if math.isnan(value) and not is_missing(score):
            raise InvalidInputError(f"{place}: score of {unit} {number} is {shown(score)}, {NUMBER}")
        rows.append(tasks.setdefault(as_name(task, f"{place}: task"), len(tasks)))
        columns.append(policies.setdefault(as_name(policy, f"{place}: policy"), len(policies)))
        scores.append(value)
    if not scores:
        raise InvalidInputError(f"{place} has a header only, must have a row to each trial")
    if len(tasks) * len(policies) > MOST_ENTRIES:
        raise InvalidInputError(
            f"{place} has {len(tasks):,} tasks and {len(policies):,} policies, must have at most {MOST_ENTRIES:,} pairs"
        )
    row, column, value_of = np.array(rows), np.array(columns), np.array(scores)
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
