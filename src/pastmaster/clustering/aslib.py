"""Scenarios of ASlib, the algorithm selection library: what each solver needed for each instance, as a table of scores.

A scenario is a folder. ``algorithm_runs.arff`` has a row to each run (instance, repetition, algorithm, performance,
status), and ``description.txt`` says what is measured, and after how many seconds a run was ended.

PAR10 is the usual score of a run: its seconds if it solved the instance in time, else ten times the limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pastmaster.checks import file_path, within
from pastmaster.clustering.arff import Row, read_arff
from pastmaster.clustering.csv_table import decoded
from pastmaster.clustering.score_table import LARGEST, Scores, averaged
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file, read_whole
from pastmaster.tables import cut, shown

CALLER = "read_aslib"
RUNS, DESCRIPTION = "algorithm_runs.arff", "description.txt"
LARGEST_RUNS, LARGEST_DESCRIPTION = 2**27, 2**24  # bytes
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")  # as YAML 1.1 writes booleans
STATUS = ("ok", "timeout", "memout", "not_applicable", "crash", "other")


class Description(NamedTuple):
    """What is measured, whether more of it is better, and the seconds after which a run was ended; None: no time."""

    measure: str
    maximize: bool
    cutoff: float | None


def read_aslib(folder: Any, *, penalty: float = 10.0) -> Scores:
    """The table of an ASlib scenario: a row to each instance, a column to each solver.

    Run times become PAR10 scores: a run that did not solve its instance within the scenario's time limit counts as ten
    times the limit. Other measures are taken as they are, also of runs that failed. Repetitions are averaged.

    Parameters
    ----------
    folder : path
        Your copy of the scenario, with ``algorithm_runs.arff`` and ``description.txt``.
    penalty : float
        How many times the limit an unsolved run counts; at least 1.

    Returns
    -------
    Scores
        For ``keep``. It knows whether lower is better.

    Raises
    ------
    InvalidInputError
        If a file is missing or malformed; file, line and column are named.

    Examples
    --------
    >>> from pathlib import Path
    >>> Path("scenario").mkdir()
    >>> written = Path("scenario/description.txt").write_text(
    ...     "performance_measures: runtime\\nmaximize: false\\nperformance_type: runtime\\nalgorithm_cutoff_time: 60\\n"
    ... )
    >>> columns = ("instance_id STRING", "repetition NUMERIC", "algorithm STRING", "runtime NUMERIC")
    >>> head = [f"@ATTRIBUTE {name}" for name in (*columns, "runstatus {ok, timeout}")]
    >>> runs = ["x,1,fast,2.5,ok", "x,1,strong,20,ok", "y,1,fast,60,timeout", "y,1,strong,30,ok"]
    >>> text = "\\n".join(["@RELATION runs", *head, "@DATA", *runs])
    >>> written = Path("scenario/algorithm_runs.arff").write_text(text)
    >>> times = read_aslib("scenario")
    >>> times.values.tolist()
    [[2.5, 20.0], [600.0, 30.0]]
    >>> import pastmaster
    >>> pastmaster.keep(times, k=1).policies
    ['strong']
    """
    place = file_path(CALLER, "folder", folder, "the folder of an ASlib scenario")
    factor = within(CALLER, "penalty", penalty, 1.0, 1e6)
    about = _description(_content(place, DESCRIPTION, LARGEST_DESCRIPTION))
    runs = f"{CALLER}: {RUNS}"
    text = _content(place, RUNS, LARGEST_RUNS)
    rows = read_arff(runs, text, ("instance_id", "algorithm", about.measure, "runstatus"))
    table = averaged(runs, _scored(rows, runs, about, factor), "run")
    return table._replace(lower_is_better=not about.maximize)


def _content(folder: Path, name: str, most: int) -> str:
    place = f"{CALLER}: {name}"
    if not folder.is_dir():
        raise InvalidInputError(
            f"{CALLER}: folder is {str(folder)!r}, which is none, must be that of an ASlib scenario"
        )
    file = checked_file(place, folder / name, f"the {name} of an ASlib scenario")
    return decoded(read_whole(file, most, place), place)


def _scored(rows: Iterator[Row], place: str, about: Description, penalty: float) -> Iterator[tuple[str, str, float]]:
    """Instance, algorithm and score of each run."""
    for line, (instance, algorithm, performance, status) in rows:
        if instance is None or algorithm is None:
            name = "instance_id" if instance is None else "algorithm"
            raise InvalidInputError(f"{place}: line {line}, column {name!r} is missing, must be a name")
        if status is None or status.casefold() not in STATUS:
            raise InvalidInputError(
                f"{place}: line {line}, column 'runstatus' is {shown(status)}, must be one of {', '.join(STATUS)}"
            )
        score, solved = math.nan, status.casefold() == "ok"
        if solved or (about.cutoff is None and performance is not None):
            score = _number(performance, f"{place}: line {line}, column {cut(about.measure)!r}")
            if about.cutoff is not None and score < 0:
                raise InvalidInputError(f"{place}: line {line}, column {cut(about.measure)!r} is {score}, must be >= 0")
        if about.cutoff is not None and not score <= about.cutoff:
            score = penalty * about.cutoff
        yield instance, algorithm, score


def _number(cell: str | None, place: str) -> float:
    try:
        value = float(cell if cell is not None and "_" not in cell else "")
    except ValueError:
        value = math.nan
    if not abs(value) < LARGEST:
        raise InvalidInputError(f"{place} is {shown(cell)}, must be a number")
    return value


def _description(text: str) -> Description:
    """What description.txt says; of several measures the first counts."""
    place = f"{CALLER}: {DESCRIPTION}"
    measure, kind = _told(text, "performance_measures"), _told(text, "performance_type").casefold()
    if kind not in ("runtime", "solution_quality"):
        raise InvalidInputError(f"{place}: performance_type is {shown(kind)}, must be runtime or solution_quality")
    told = _told(text, "maximize")
    maximize = told.casefold() in TRUE
    if not maximize and told.casefold() not in FALSE:
        raise InvalidInputError(f"{place}: maximize is {shown(told)}, must be true or false")
    if kind != "runtime":
        return Description(measure, maximize, None)
    if maximize:
        raise InvalidInputError(f"{place}: maximize is {shown(told)}, must be false for a performance_type of runtime")
    cutoff = _number(_told(text, "algorithm_cutoff_time"), f"{place}: algorithm_cutoff_time")
    if not 0 < cutoff < 1e12:
        raise InvalidInputError(f"{place}: algorithm_cutoff_time is {cutoff:g}, must be above 0 and below 1e12")
    return Description(measure, False, cutoff)


def _told(text: str, key: str) -> str:
    """The value of a key, or the first of its values: on its line, in brackets, or in a list below it."""
    found = re.search(rf"^{key}[ \t]*:[ \t]*(?:#.*)?(.*?)[ \t\r]*$((?:\r?\n[ \t]*-.*)*)", text, re.MULTILINE)
    if found is None:
        raise InvalidInputError(f"{CALLER}: {DESCRIPTION} has no line {key!r}, must have one")
    below = found[2].strip().split("\n")[0]
    value = found[1].strip("[] ").split(",")[0] or below.removeprefix("-")
    return value.partition(" #")[0].strip().strip("'\"")
