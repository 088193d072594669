"""The figures of a reproduction from their CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.report.page import Arm, Curves, Line, Matrix, Shares, TaskMap
from pastmaster.report.sheet import Sheet, read_sheet

REFERENCE = "optimal policy"
MOST_SERIES = 100
MOST_TASKS = 2000
LAST_EPISODE = 1e12
TOGETHER = 1.01  # what shares may add up to, with their rounding


def read_curves(path: Path) -> Curves:
    """``label,episode,mean,deviation``, the episodes of a label rising."""
    sheet = read_sheet(path)
    lines = []
    for label, rows in _series(sheet, ("label", "episode", "mean", "deviation")).items():
        episode = _episodes(sheet, rows)
        mean = np.array([sheet.number(line, "mean", row[2]) for line, row in rows])
        deviation = np.array([sheet.number(line, "deviation", row[3], 0) for line, row in rows])
        lines.append(Line(label, episode, mean, deviation, reference=label == REFERENCE))
    return Curves(sheet.title, tuple(lines))


def read_shares(path: Path) -> Shares:
    """``arm,episode,share``, every arm at the same episodes, no more than 1 together."""
    sheet = read_sheet(path)
    arms: list[Arm] = []
    shared: FloatArray | None = None
    for arm, rows in _series(sheet, ("arm", "episode", "share")).items():
        episode = _episodes(sheet, rows)
        shared = episode if shared is None else shared
        if not np.array_equal(episode, shared):
            raise sheet.wrong(rows[0][0], f"the episodes of {arm[:40]!r} differ from those of the first arm")
        arms.append(Arm(arm, np.array([sheet.number(line, "share", row[2], 0, TOGETHER) for line, row in rows])))
    assert shared is not None  # a sheet has rows
    together = np.sum([arm.share for arm in arms], axis=0)
    if together.max() > TOGETHER:
        at = shared[together.argmax()]
        raise sheet.wrong(sheet.rows[-1][0], f"the shares at episode {at:g} add up to {together.max():.4g}, must be 1")
    return Shares(sheet.title, shared, tuple(arms))


def read_map(path: Path) -> TaskMap:
    """``task,name,cell,representative`` and two coordinates; the tasks are 0 .. N - 1, in any order."""
    sheet = read_sheet(path)
    rows = list(sheet.under(("task", "name", "cell", "representative")))
    axes = sheet.rows[0][1][4:]
    if len(axes) != 2:
        raise sheet.wrong(sheet.rows[0][0], f"{len(axes)} coordinates are named, must be 2")
    n_tasks = len(rows)
    if n_tasks > MOST_TASKS:
        raise sheet.wrong(rows[-1][0], f"there are {n_tasks} tasks, must be at most {MOST_TASKS}")
    names: dict[int, str] = {}
    stands: dict[int, int] = {}  # for each cell
    indices, points = np.zeros((n_tasks, 2), np.int64), np.zeros((n_tasks, 2))
    for line, (number, name, cell, representative, x, y) in rows:
        task = sheet.index(line, "task", number, n_tasks)
        if task in names:
            raise sheet.wrong(line, f"task {task} is there twice")
        mine = sheet.index(line, "cell", cell, n_tasks)
        chosen = sheet.index(line, "representative", representative, n_tasks)
        if stands.setdefault(mine, chosen) != chosen:
            raise sheet.wrong(line, f"representative of cell {mine} is {chosen}, must be {stands[mine]} as above")
        names[task], indices[task] = name, (mine, chosen)
        points[task] = sheet.number(line, axes[0], x), sheet.number(line, axes[1], y)
    in_order = tuple(names[task] for task in range(n_tasks))
    cells, representatives = indices[:, 0], indices[:, 1]
    return TaskMap(sheet.title, np.arange(n_tasks), in_order, cells, representatives, points, (axes[0], axes[1]))


def read_matrix(path: Path, beside: TaskMap | None) -> Matrix:
    """Distances [N, N] without a head, with the cells and names of the map beside."""
    sheet = read_sheet(path)
    n_tasks, last = len(sheet.rows), sheet.rows[-1][0]
    if n_tasks > MOST_TASKS:
        raise sheet.wrong(last, f"there are {n_tasks} rows, must be at most {MOST_TASKS}")
    if beside is not None and len(beside.names) != n_tasks:
        raise sheet.wrong(last, f"there are {n_tasks} rows, must be {len(beside.names)} as in the map of this name")
    values = np.zeros((n_tasks, n_tasks))
    for i, (line, row) in enumerate(sheet.rows):
        if len(row) != n_tasks:
            raise sheet.wrong(line, f"there are {len(row)} values, must be {n_tasks}: the matrix is square")
        values[i] = [sheet.number(line, "a distance", text, 0) for text in row]
    names = ("",) * n_tasks if beside is None else beside.names
    return Matrix(sheet.title, np.arange(n_tasks), names, None if beside is None else beside.cells, values)


Rows = list[tuple[int, list[str]]]


def _series(sheet: Sheet, head: tuple[str, ...]) -> dict[str, Rows]:
    """The rows of each label, which is in the first column."""
    found: dict[str, Rows] = {}
    for line, row in sheet.under(head):
        found.setdefault(row[0], []).append((line, row))
        if len(row) != len(head):
            raise sheet.wrong(line, f"there are {len(row)} values, must be {len(head)}")
        if len(found) > MOST_SERIES:
            raise sheet.wrong(line, f"this is the {len(found)}th {head[0]}, must be at most {MOST_SERIES}")
    return found


def _episodes(sheet: Sheet, rows: Rows) -> FloatArray:
    """The second column of a label's rows, which must rise."""
    episode = np.array([sheet.number(line, "episode", row[1], 0, LAST_EPISODE) for line, row in rows])
    if (np.diff(episode) <= 0).any():
        line, row = rows[int((np.diff(episode) <= 0).argmax()) + 1]
        raise sheet.wrong(line, f"episode is {row[1][:40]}, must be above the one before it")
    return episode
