"""Scenarios of ASlib, the algorithm selection library: what each solver needed for each instance, as a table of scores.

A scenario is a folder. ``algorithm_runs.arff`` has a row to each run (instance, repetition, algorithm, performance,
status), and ``description.txt`` says what is measured, and after how many seconds a run was ended.

PAR10 is the usual score of a run: its seconds if it solved the instance in time, else ten times the limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pastmaster.checks import file_path, within
from pastmaster.clustering.csv_table import decoded, lines_of
from pastmaster.clustering.score_table import LARGEST, Scores, averaged
from pastmaster.errors import InvalidInputError
from pastmaster.files import checked_file, read_whole
from pastmaster.tables import cut, shown

CALLER = "read_aslib"
RUNS, DESCRIPTION = "algorithm_runs.arff", "description.txt"
LARGEST_RUNS, LARGEST_DESCRIPTION = 2**27, 2**24  # bytes
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")  # as YAML 1.1 writes booleans
STATUS = ("ok", "timeout", "memout", "not_applicable", "crash", "other")
QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s'\"]\S*)\s+(\S.*)", re.IGNORECASE)
CELL = re.compile(rf"\s*({QUOTED}|[^,'\"]*?)\s*(,|$)")
ESCAPED = re.compile(r"\\(.)")


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
    if not place.is_dir():
        raise InvalidInputError(f"{CALLER}: folder is {str(place)!r}, which is none, must be that of an ASlib scenario")
    measure, maximize, cutoff = _description(_content(place, DESCRIPTION, LARGEST_DESCRIPTION))
    runs = f"{CALLER}: {RUNS}"
    rows = _rows(runs, _content(place, RUNS, LARGEST_RUNS), ("instance_id", "algorithm", measure, "runstatus"))
    table = averaged(runs, _scored(rows, runs, measure, cutoff, factor), "run")
    return table._replace(lower_is_better=not maximize)


def _content(folder: Path, name: str, most: int) -> str:
    place = f"{CALLER}: {name}"
    file = checked_file(place, folder / name, f"the {name} of an ASlib scenario")
    return decoded(read_whole(file, most, place), place)


def _scored(
    rows: Iterator[tuple[int, list[str | None]]], place: str, measure: str, cutoff: float | None, penalty: float
) -> Iterator[tuple[str, str, float]]:
    """Instance, algorithm and score of each run."""
    for line, (instance, algorithm, performance, status) in rows:
        if instance is None or algorithm is None:
            name = "instance_id" if instance is None else "algorithm"
            raise InvalidInputError(f"{place}: line {line}, column {name!r} is missing, must be a name")
        if status is None or status.casefold() not in STATUS:
            raise InvalidInputError(
                f"{place}: line {line}, column 'runstatus' is {shown(status)}, must be one of {', '.join(STATUS)}"
            )
        score = math.nan
        if status.casefold() == "ok" or (cutoff is None and performance is not None):
            column = f"{place}: line {line}, column {cut(measure)!r}"
            score = _number(performance, column)
            if cutoff is not None and score < 0:
                raise InvalidInputError(f"{column} is {score}, must be >= 0")
        if cutoff is not None and not score <= cutoff:
            score = penalty * cutoff
        yield instance, algorithm, score


def _number(cell: str | None, place: str) -> float:
    try:
        value = float(cell if cell is not None and "_" not in cell else "")
    except ValueError:
        value = math.nan
    if not abs(value) < LARGEST:
        raise InvalidInputError(f"{place} is {shown(cell)}, must be a number")
    return value


def _description(text: str) -> tuple[str, bool, float | None]:
    """What is measured, whether more of it is better, and the seconds after which a run was ended; None: no time.

    Of several measures the first counts.
    """
    place = f"{CALLER}: {DESCRIPTION}"
    measure, kind = _told(text, "performance_measures"), _told(text, "performance_type").casefold()
    if kind not in ("runtime", "solution_quality"):
        raise InvalidInputError(f"{place}: performance_type is {shown(kind)}, must be runtime or solution_quality")
    told = _told(text, "maximize")
    maximize = told.casefold() in TRUE
    if not maximize and told.casefold() not in FALSE:
        raise InvalidInputError(f"{place}: maximize is {shown(told)}, must be true or false")
    if kind != "runtime":
        return measure, maximize, None
    if maximize:
        raise InvalidInputError(f"{place}: maximize is {shown(told)}, must be false for a performance_type of runtime")
    cutoff = _number(_told(text, "algorithm_cutoff_time"), f"{place}: algorithm_cutoff_time")
    if not 0 < cutoff < 1e12:
        raise InvalidInputError(f"{place}: algorithm_cutoff_time is {cutoff:g}, must be above 0 and below 1e12")
    return measure, False, cutoff


def _told(text: str, key: str) -> str:
    """The value of a key, or the first of its values: on its line, in brackets, or in a list below it."""
    found = re.search(rf"^{key}[ \t]*:[ \t]*(?:#.*)?(.*?)[ \t\r]*$((?:\r?\n[ \t]*-.*)*)", text, re.MULTILINE)
    if found is None:
        raise InvalidInputError(f"{CALLER}: {DESCRIPTION} has no line {key!r}, must have one")
    below = found[2].strip().split("\n")[0]
    value = found[1].strip("[] ").split(",")[0] or below.removeprefix("-")
    return value.partition(" #")[0].strip().strip("'\"")


def _rows(place: str, text: str, wanted: Sequence[str]) -> Iterator[tuple[int, list[str | None]]]:
    """The rows of a table in the ARFF format: the line of each, and the wanted columns; None where one is missing.

    Names of columns are told apart without regard to case. Sparse rows and rows with weights are refused.
    """
    lines = ((number, line.strip()) for number, line in enumerate(lines_of(text), 1))
    told = ((number, line) for number, line in lines if line and not line.startswith("%"))
    names = _header(place, told)
    for name in wanted:
        if names.count(name.casefold()) != 1:
            found = "no" if name.casefold() not in names else "more than one"
            raise InvalidInputError(f"{place} has {found} attribute {cut(name)!r}, must have one")
    columns = [names.index(name.casefold()) for name in wanted]
    for number, line in told:
        cells = _cells(place, number, line)
        if len(cells) != len(names):
            raise InvalidInputError(
                f"{place}: line {number} has {len(cells)} cells, must have {len(names)}, one to each attribute"
            )
        yield number, [cells[j] for j in columns]


def _header(place: str, lines: Iterator[tuple[int, str]]) -> list[str]:
    """The names of the columns, in lower case; reads up to ``@data``."""
    names = list[str]()
    for number, line in lines:
        word = line.split(maxsplit=1)[0].casefold()
        found = ATTRIBUTE.fullmatch(line)
        if word == "@data" and names:
            return names
        if word == "@attribute" and found is not None:
            names.append(_plain(found[1]).casefold())
        elif word != "@relation":
            wanted = "@relation, @attribute NAME TYPE, or @data after the attributes"
            raise InvalidInputError(f"{place}: line {number} is {shown(line)}, must be {wanted}")
    raise InvalidInputError(f"{place} has no line @data, must have one, and the rows after it")


def _cells(place: str, number: int, line: str) -> list[str | None]:
    """The cells of a line; commas in quotes do not separate them."""
    if line.startswith("{"):
        raise InvalidInputError(f"{place}: line {number} is a sparse row, must have all its cells")
    if "'" not in line and '"' not in line:
        return [None if cell == "?" else cell for cell in map(str.strip, line.split(","))]
    cells, at, more = list[str | None](), 0, True
    while more:
        found = CELL.match(line, at)
        if found is None:
            raise InvalidInputError(
                f"{place}: line {number} has quotes that do not fit, must close each before a comma"
            )
        cells.append(None if found[1] == "?" else _plain(found[1]))
        at, more = found.end(), found[2] == ","
    return cells


def _plain(cell: str) -> str:
    """A cell without its quotes."""
    return ESCAPED.sub(r"\1", cell[1:-1]) if cell[:1] in ("'", '"') else cell
