"""Tables and charts as CSV files.

A chart is the file ``<kind>-<name>.csv``, its title in a comment on the first line. Numbers have ten digits, so that
files can be compared as text. Files are read with bounded sizes; one that is damaged or not ours gives one
``DamagedError`` with its name.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pastmaster import DamagedError
from pastmaster.report import Chart, Curves, Distances, Line, Shares, TaskMap, Tasks
from pastmaster_paper import files
from pastmaster_paper.arrays import FloatArray

OPTIMAL = "optimal policy"
"""The label of what an optimal policy earns."""
TITLE, TABLE = "# title:", "table"
MOST_BYTES = 2**26
COLUMNS = {
    "curves": ["label", "episode", "mean", "deviation"],
    "map": ["task", "name", "cell", "representative"],  # and two coordinates
    "distance": [],  # a square of numbers
    "shares": ["arm", "episode", "share"],
}


class Columns(NamedTuple):
    """A table: its head, and its rows. One with a title is shown to readers: its file is ``table-<name>.csv``."""

    head: Sequence[str]
    rows: Iterable[Sequence[Any]]
    title: str = ""


def write_table(folder: Path, name: str, content: Columns | Chart, remark: str = "") -> None:
    """Write a table, or a chart under its kind, as CSV; a ``remark`` is added to its title."""
    stream = io.StringIO()
    table = content if isinstance(content, Columns) else _columns(content)
    kind = content.kind if not isinstance(content, Columns) else TABLE if content.title else ""
    stem = f"{kind}-{name}" if kind else name
    if content.title:
        stream.write(f"{TITLE} {content.title}{remark}\n")
    writer = csv.writer(stream, lineterminator="\n")
    if table.head:
        writer.writerow(table.head)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    files.write_bytes(folder / f"{stem}.csv", stream.getvalue().encode())


def _cell(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float | np.floating) else value


def _columns(chart: Chart) -> Columns:
    head, rows = COLUMNS[chart.kind], list[Any]()
    if isinstance(chart, Curves):
        for line in chart.lines:
            rows += zip([line.label] * len(line.mean), line.episode, line.mean, line.deviation, strict=True)
    elif isinstance(chart, Shares):
        for label, share in chart.arms.items():
            rows += zip([label] * len(share), chart.episode, share, strict=True)
    elif isinstance(chart, TaskMap):
        tasks, head = chart.tasks, [*head, *chart.axes]
        assert tasks.representatives is not None  # experiments cluster by the paper's distance
        rows += zip(tasks.numbers, tasks.names, tasks.cells, tasks.representatives, *chart.points.T, strict=True)
    else:
        rows += ([f"{value:.5g}" for value in row] for row in chart.values.tolist())
    return Columns(head, rows)


def read_charts(folder: Path) -> Iterator[Chart]:
    """The charts of an experiment, kind by kind, names in the order of the numbers in them."""
    maps: dict[str, TaskMap] = {}
    for kind in COLUMNS:
        for path in sorted(folder.glob(f"{kind}-*.csv"), key=_by_number):
            chart = _chart(path, kind, maps)
            if isinstance(chart, TaskMap):
                maps[path.stem.removeprefix("map-")] = chart
            yield chart


def read_tables(folder: Path) -> Iterator[Columns]:
    """The tables of an experiment that are shown to readers."""
    for path in sorted(folder.glob(f"{TABLE}-*.csv"), key=_by_number):
        title, _, (head, *rows) = _read(path, ())
        if not rows or any(len(row) != len(head) for row in rows):
            raise DamagedError(f"{path}: must hold a head, and rows of as many cells")
        yield Columns(head, rows, title)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """64 before 100."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.stem)]


def _chart(path: Path, kind: str, maps: Mapping[str, TaskMap]) -> Chart:
    title, head, rows = _read(path, COLUMNS[kind])
    if kind in ("curves", "shares"):
        labels, numbers = np.array([row[0] for row in rows]), _numbers(path, [row[1:] for row in rows], len(head) - 1)
        series = {str(label): numbers[labels == label].T for label in dict.fromkeys(labels)}
        if kind == "curves":
            return Curves(title, [Line(label, x, y, z, label == OPTIMAL) for label, (x, y, z) in series.items()])
        episode = next(iter(series.values()))[0]
        if not all(np.array_equal(one[0], episode) for one in series.values()):
            raise DamagedError(f"{path}: its arms are not at the same episodes")
        return Shares(title, episode, {label: share for label, (_, share) in series.items()})
    if kind == "distance":
        beside = maps.get(path.stem.removeprefix("distance-"))
        if beside is None or len(rows) != len(beside.points):
            raise DamagedError(f"{path}: has {len(rows)} rows, must have one for each task of the map of this name")
        return Distances(title, beside.tasks, _numbers(path, rows, len(rows)))
    numbers = _numbers(path, [[row[0], *row[2:]] for row in rows], 5)
    if len(head) != len(COLUMNS["map"]) + 2:
        raise DamagedError(f"{path}: has {len(head)} columns, must have {len(COLUMNS['map']) + 2}")
    indices, every = numbers[:, :3].astype(np.int64), np.arange(len(rows))
    if not ((indices[:, 0] == every).all() and np.isin(indices, every).all()):
        raise DamagedError(f"{path}: must hold tasks 0 to {len(rows) - 1} in order, with their cells")
    tasks = Tasks(every, [row[1] for row in rows], indices[:, 1], indices[:, 2])
    return TaskMap(title, tasks, numbers[:, 3:], (head[4], head[5]))


def _read(path: Path, columns: Sequence[str]) -> tuple[str, Sequence[str], list[list[str]]]:
    """The title of a chart's file, its head and its rows; without a title it goes by its name."""
    first, _, rest = (text := read_text(path)).partition("\n")
    commented = first.startswith("#")
    named = first.removeprefix(TITLE).strip() if first.startswith(TITLE) else ""
    reader = csv.reader(io.StringIO(rest if commented else text, newline=""), strict=True)
    try:
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise DamagedError(f"{path}, line {reader.line_num + commented}: is not CSV: {error}") from None
    head = rows.pop(0) if rows and columns else []
    if list(head[: len(columns)]) != list(columns):
        raise DamagedError(f"{path}: begins with {','.join(head)[:80]!r}, must begin with {','.join(columns)!r}")
    if not rows:
        raise DamagedError(f"{path} holds no rows")
    return named or path.stem.partition("-")[2].replace("-", " "), head, rows


def _numbers(path: Path, rows: Sequence[Sequence[str]], n_columns: int) -> FloatArray:
    """Rows of finite numbers."""
    try:
        found = np.array(rows, np.float64)
    except ValueError as error:
        raise DamagedError(f"{path}: must hold rows of {n_columns} numbers: {error}") from None
    if found.shape[1] != n_columns or not np.isfinite(found).all():
        raise DamagedError(f"{path}: must hold rows of {n_columns} finite numbers")
    return found


def read_text(path: Path) -> str:
    """A file's text."""
    content = files.read_bytes(path, MOST_BYTES)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DamagedError(f"{path}, line {line}: is not text in UTF-8") from None
