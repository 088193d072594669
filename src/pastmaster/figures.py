"""Drawing primitives. matplotlib is imported when something is drawn, and never needs a screen."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pastmaster.errors import InvalidInputError
from pastmaster.files import write_whole
from pastmaster.tables import one_line, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "DASHES", "label", "labels", "line_style", "matrix", "new_figure", "save", "shade", "writable"]

LONGEST_LABEL = 60  # letters of a name in a legend


def new_figure(width: float = 6.4, height: float = 4.8, **layout: Any) -> tuple[Figure, Any]:
    """A figure with its axes, outside pyplot: nothing global to close or to leak."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**layout)


def label(name: str, width: int = LONGEST_LABEL) -> str:
    """A name as a picture shows it: on one line, cut, and letter by letter, though ``$`` begins a formula."""
    text = one_line(name, width).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text  # or a legend would leave it out


def labels(names: Iterable[str], width: int = LONGEST_LABEL) -> list[str]:
    """Names that a picture shows side by side: what they have in common is left out where one is too long."""
    return [label(name, width) for name in told_apart(names, width)]


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3b08", "#5e3c99")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))


def line_style(i: int) -> dict[str, Any]:
    """The i-th colour and dash: colours that the colour-blind can tell apart, and dashes for prints in grey."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}


def shade(i: int, n: int) -> Any:
    """The i-th of n colours from dark violet to yellow."""
    from matplotlib import colormaps

    return colormaps["plasma"](0.9 * i / max(n - 1, 1))


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as its suffix says (.png, the default, .svg or .pdf), making the folder if need be."""
    path = writable(path)
    drawn = io.BytesIO()
    with warnings.catch_warnings():  # a name may have letters that the font lacks: boxes are drawn for them
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        figure.savefig(drawn, dpi=150, format=path.suffix[1:])
    write_whole(path, drawn.getvalue())
    return path


def writable(path: str | Path) -> Path:
    """The path a figure will be written to; an error, before any work is done, where it cannot be."""
    path = Path(path)
    if path.is_dir():
        raise InvalidInputError(f"cannot write a picture to {path}: it is a folder")
    if not path.suffix:
        path = path.with_suffix(".png")
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise InvalidInputError(f"cannot write a picture to {path}: must end in .png, .svg or .pdf")
    return path


def matrix(
    axes: Axes, values: npt.ArrayLike, *, title: str, rows: str, columns: str, scale: str, colours: str = "viridis"
) -> None:
    """A matrix as a heat map with its scale beside it."""
    image = axes.imshow(values, cmap=colours, interpolation="nearest")
    axes.set(title=title, xlabel=columns, ylabel=rows)
    axes.figure.colorbar(image, ax=axes, label=scale, shrink=0.85)
