"""What an experiment leaves in its folder: tables as CSV, figures as PNG and SVG.

Numbers are written with ten digits, so that files can be compared as text. Files that the report draws (learning
curves, task maps, distances, shares of arms) say their title in a comment on the first line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pastmaster import figures
from pastmaster.arrays import FloatArray
from pastmaster.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[FloatArray, FloatArray, FloatArray]
"""Episode, mean return, standard deviation, each [points]."""
OPTIMAL = "optimal policy"
"""The label of what an optimal policy would earn."""
Cells = npt.NDArray[np.integer[Any]]


def write_csv(path: Path, head: Sequence[str] | None, lines: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table, whole or not at all."""
    stream = io.StringIO()
    if title is not None:
        stream.write(f"# title: {title}\n")
    writer = csv.writer(stream, lineterminator="\n")
    if head is not None:
        writer.writerow(head)
    writer.writerows([_cell(value) for value in line] for line in lines)
    write_text(path, stream.getvalue())


def write_text(path: Path, text: str) -> None:
    """A text, whole or not at all."""
    write_whole(path, text.encode())


def _cell(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    return f"{value:.10g}" if isinstance(value, float | np.floating) else value


def write_figure(figure: Figure, path: Path) -> None:
    """A figure as PNG and as SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "pastmaster"}):
        for kind, varying in (("png", "Software"), ("svg", "Date")):
            stream = io.BytesIO()
            figure.savefig(stream, format=kind, dpi=110, metadata={varying: None})
            write_whole(path.with_suffix(f".{kind}"), stream.getvalue())


def write_map(
    folder: Path, slug: str, title: str, names: Sequence[str], labels: Cells, representatives: Cells,
    points: FloatArray, axes: tuple[str, str], distance: FloatArray,
) -> None:  # fmt: skip
    """Where tasks are, their cells, and the distances between them; ``representatives`` are those of the cells."""
    lines = (
        [i, names[i], int(labels[i]), int(representatives[labels[i]]), float(points[i, 0]), float(points[i, 1])]
        for i in range(len(names))
    )
    write_csv(folder / f"map-{slug}.csv", ["task", "name", "cell", "representative", *axes], lines, title)
    rows = ([f"{value:.5g}" for value in row] for row in distance.tolist())
    write_csv(folder / f"distance-{slug}.csv", None, rows, title)


def write_curves(folder: Path, slug: str, title: str, curves: Mapping[str, Curve]) -> None:
    """Learning curves by label: episode, mean, deviation."""
    lines = (
        [label, *(float(value) for value in point)]
        for label, columns in curves.items()
        for point in zip(*columns, strict=True)
    )
    write_csv(folder / f"curves-{slug}.csv", ["label", "episode", "mean", "deviation"], lines, title)


def draw_curves(axes: Any, curves: Mapping[str, Curve]) -> None:
    """Learning curves with one standard deviation shaded; the optimum dotted."""
    for i, (label, (episode, mean, deviation)) in enumerate(curves.items()):
        if label == OPTIMAL:
            axes.plot(episode, mean, color="black", linestyle=":", linewidth=1.2, label=label)
            continue
        style = figures.line_style(i)
        axes.plot(episode, mean, label=label, linewidth=1.4, **style)
        axes.fill_between(episode, mean - deviation, mean + deviation, color=style["color"], alpha=0.15, linewidth=0)
    axes.grid(alpha=0.3)
