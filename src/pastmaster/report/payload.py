"""Figures as data for the page's script: arrays thinned and packed, and a sentence for those who do not see them.

Arrays travel as base64 of little-endian float32; distances as uint16 of their largest, which is sent beside them.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.report.page import Curves, Figure, IntArray, Line, Matrix, Shares, TaskMap

MOST_POINTS = 400  # of a line: more cannot be told apart on a screen
MOST_ROWS = 600  # of a matrix
STEPS = 65_535  # of a packed distance
NAMED = 6  # lines or arms named in a summary


def summary(figure: Figure) -> str:
    """A figure in a sentence or two."""
    if isinstance(figure, Curves):
        return _curves_summary(figure)
    if isinstance(figure, Shares):
        return _shares_summary(figure)
    n_tasks = len(figure.names)
    n_cells = 0 if figure.cells is None else len(np.unique(figure.cells))
    if isinstance(figure, TaskMap):
        return f"{counted(n_tasks, 'task')} in {counted(n_cells, 'cell')}."
    order = (
        f"ordered by their {counted(n_cells, 'cell')}" if n_cells else "in their own order (their cells are unknown)"
    )
    some = f", every {n_tasks / MOST_ROWS:.1f}th of them shown" if n_tasks > MOST_ROWS else ""
    return f"{counted(n_tasks, 'task')} {order}{some}. The largest distance is {figure.values.max():.4g}."


def payload(figure: Figure) -> dict[str, Any]:
    """What the script draws a figure from, as plain JSON."""
    packed: dict[str, Any]
    if isinstance(figure, Curves):
        packed = {"lines": [_line(line) for line in figure.lines]}
    elif isinstance(figure, TaskMap):
        packed = {
            "numbers": figure.numbers.tolist(),
            "names": list(figure.names),
            "cells": figure.cells.tolist(),
            "representatives": figure.representatives.tolist(),
            "x": floats(figure.points[:, 0]),
            "y": floats(figure.points[:, 1]),
            "axes": list(figure.axes),
        }
    elif isinstance(figure, Shares):
        kept = thinned(len(figure.episode))
        arms = [{"label": arm.label, "share": floats(arm.share[kept])} for arm in figure.arms]
        packed = {"episode": floats(figure.episode[kept]), "arms": arms}
    else:
        packed = _matrix(figure)
    return {"kind": figure.kind, "title": figure.title, "summary": summary(figure)} | packed


def thinned(n_points: int, most: int = MOST_POINTS) -> IntArray:
    """Which of so many points are shown: all, or evenly chosen ones, the first and last among them."""
    kept: IntArray = np.unique(np.linspace(0, n_points - 1, min(n_points, most)).round().astype(np.int64))
    return kept


def floats(values: FloatArray) -> str:
    """An array of finite numbers as base64 of float32."""
    narrow = np.clip(values, np.finfo(np.float32).min, np.finfo(np.float32).max).astype("<f4")
    return base64.b64encode(narrow.tobytes()).decode()


def counted(n: int, what: str) -> str:
    """A number of things in words."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _line(line: Line) -> dict[str, Any]:
    kept = thinned(len(line.episode))
    packed: dict[str, Any] = {"label": line.label, "reference": line.reference}
    return packed | {name: floats(getattr(line, name)[kept]) for name in ("episode", "mean", "deviation")}


def _matrix(figure: Matrix) -> dict[str, Any]:
    """Distances ordered by cell, at most ``MOST_ROWS`` of them."""
    n_tasks = len(figure.names)
    order = np.arange(n_tasks) if figure.cells is None else np.argsort(figure.cells, kind="stable")
    order = order[thinned(n_tasks, MOST_ROWS)]
    values, largest = figure.values[np.ix_(order, order)], float(figure.values.max())
    steps = np.zeros(values.shape) if largest == 0 else np.round(values / largest * STEPS)
    return {
        "numbers": figure.numbers[order].tolist(),
        "names": [figure.names[i] for i in order],
        "cells": None if figure.cells is None else figure.cells[order].tolist(),
        "largest": largest,
        "steps": STEPS,
        "values": base64.b64encode(steps.astype("<u2").tobytes()).decode(),
        "directed": figure.directed,
    }


def _curves_summary(figure: Curves) -> str:
    ends = [f"{line.label} ({line.mean[-1]:.4g})" for line in figure.lines[:NAMED]]
    more = "; and more" if len(figure.lines) > NAMED else ""
    last = max(float(line.episode[-1]) for line in figure.lines)
    return f"Mean return at the end, about episode {last:,.0f}: {'; '.join(ends)}{more}."


def _shares_summary(figure: Shares) -> str:
    ends = [f"{arm.label} ({100 * arm.share[-1]:.0f}%)" for arm in figure.arms[:NAMED]]
    more = "; and more" if len(figure.arms) > NAMED else ""
    return f"Shares at the end, about episode {figure.episode[-1]:,.0f}: {'; '.join(ends)}{more}."
