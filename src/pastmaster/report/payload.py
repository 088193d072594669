"""Charts as data for the page's script: arrays thinned and packed, and a sentence for those who do not see them.

Arrays travel as base64 of little-endian float32; distances as uint16 relative to the largest, which travels with them.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.report.charts import Chart, Curves, Distances, Indices, Shares, TaskMap
from pastmaster.tables import counted, told_apart

MOST_POINTS = 400  # of a line: more cannot be told apart on a screen
MOST_ROWS = 600  # of distances
STEPS = 65_535  # of a packed distance
LONGEST_LABEL = 40  # letters of a name beside a heat map
NAMED = 6  # lines or arms named in a summary


def payload(chart: Chart) -> dict[str, Any]:
    """What the script draws a chart from, as plain JSON."""
    packed: dict[str, Any]
    if isinstance(chart, Curves):
        packed = {"lines": [{"label": line.label, "reference": line.reference} for line in chart.lines]}
        for line, entry in zip(chart.lines, packed["lines"], strict=True):
            kept = thinned(len(line.episode))
            columns = {"episode": line.episode, "mean": line.mean, "deviation": line.deviation}
            entry |= {name: floats(values[kept]) for name, values in columns.items()}
        first = packed["lines"][0]["episode"]
        for entry in packed["lines"][1:]:  # most lines of a chart share their episodes
            entry["episode"] = "" if entry["episode"] == first else entry["episode"]
    elif isinstance(chart, Shares):
        kept = thinned(len(chart.episode))
        arms = [{"label": label, "share": floats(share[kept])} for label, share in chart.arms.items()]
        packed = {"episode": floats(chart.episode[kept]), "arms": arms}
    elif isinstance(chart, TaskMap):
        packed = {
            "numbers": chart.tasks.numbers.tolist(),
            "names": list(chart.tasks.names),
            "cells": chart.tasks.cells.tolist(),
            "representatives": None if (chosen := chart.tasks.representatives) is None else chosen.tolist(),
            "kept": list(chart.kept),
            "x": floats(chart.points[:, 0]),
            "y": floats(chart.points[:, 1]),
            "axes": list(chart.axes),
        }
    else:
        packed = _distances(chart)
    return {"kind": chart.kind, "title": chart.title, "summary": summary(chart)} | packed


def _distances(chart: Distances) -> dict[str, Any]:
    """Distances ordered by cell, at most ``MOST_ROWS`` of them; columns of policies as they are, and all kept ones."""
    tasks, largest = chart.tasks, float(chart.values.max())
    order = np.argsort(tasks.cells, kind="stable")[thinned(len(tasks.names), MOST_ROWS)]
    columns = order
    if chart.policies:
        columns = np.union1d(thinned(len(chart.policies), MOST_ROWS), np.array(chart.kept, np.int64))
    values = chart.values[np.ix_(order, columns)]
    steps = np.zeros(values.shape) if largest == 0 else np.round(values / largest * STEPS)
    return {
        "numbers": tasks.numbers[order].tolist(),
        "names": [tasks.names[i] for i in order],
        "labels": told_apart([tasks.names[i] or "unnamed" for i in order], LONGEST_LABEL),
        "cells": tasks.cells[order].tolist(),
        "largest": largest,
        "steps": STEPS,
        "values": base64.b64encode(steps.astype("<u2").tobytes()).decode(),
        "policies": [chart.policies[j] for j in columns] if chart.policies else None,
        "policy_labels": told_apart([chart.policies[j] for j in columns], LONGEST_LABEL) if chart.policies else None,
        "kept": np.searchsorted(columns, chart.kept).tolist() if chart.policies else [],
    }


def summary(chart: Chart) -> str:
    """A chart in a sentence or two."""
    if isinstance(chart, Curves):
        last = max(float(line.episode[-1]) for line in chart.lines)
        ends = [f"{line.label} ({line.mean[-1]:.4g})" for line in chart.lines]
        return f"Mean return at the end, about episode {last:,.0f}: {_some(ends)}."
    if isinstance(chart, Shares):
        ends = [f"{label} ({100 * share[-1]:.0f}%)" for label, share in chart.arms.items()]
        return f"Shares at the end, about episode {chart.episode[-1]:,.0f}: {_some(ends)}."
    tasks, cells = len(chart.tasks.names), counted(len(np.unique(chart.tasks.cells)), "cell")
    if isinstance(chart, TaskMap):
        return f"{counted(tasks, 'task')} in {cells}."
    some = f", every {tasks / MOST_ROWS:.1f}th of them shown" if tasks > MOST_ROWS else ""
    largest = f"The largest {'loss' if chart.policies else 'distance'} is {chart.values.max():.4g}."
    if not chart.policies:
        return f"{counted(tasks, 'task')} ordered by their {cells}{some}. {largest}"
    kept, policies = _some([chart.policies[j] for j in chart.kept]), counted(len(chart.policies), "policy")
    return f"{counted(tasks, 'task')} ordered by their {cells}{some}, and {policies}. Kept: {kept}. {largest}"


def _some(texts: list[str]) -> str:
    return "; ".join(texts[:NAMED] + ["and more"] * (len(texts) > NAMED))


def thinned(n_points: int, most: int = MOST_POINTS) -> Indices:
    """Which of so many points are shown: all, or evenly chosen ones, the first and last among them."""
    return np.unique(np.linspace(0, n_points - 1, min(n_points, most)).round().astype(np.int64))


def floats(values: FloatArray) -> str:
    """An array of finite numbers as base64 of float32."""
    narrow = np.clip(values, np.finfo(np.float32).min, np.finfo(np.float32).max).astype("<f4")
    return base64.b64encode(narrow.tobytes()).decode()
