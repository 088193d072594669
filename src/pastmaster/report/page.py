"""What a report says, apart from how it looks: a page of sections, made of texts, tables, claims and figures.

Figures hold arrays in the units they are read in; ``payload`` makes them small and ``render`` puts all into HTML.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Line:
    """A learning curve: its mean and the deviation around it at some episodes, each [points].

    A ``reference`` is something to compare with that does not learn: drawn dotted and black, without a band.
    """

    label: str
    episode: FloatArray
    mean: FloatArray
    deviation: FloatArray
    reference: bool = False


@dataclass(frozen=True, eq=False)
class Curves:
    """Learning curves in one figure."""

    kind: ClassVar[str] = "curves"
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class TaskMap:
    """Tasks as points [N, 2]; ``representatives`` [N] is the index of the task that stands for each one's cell.

    ``numbers`` [N] is what the tasks are called besides their names, ``axes`` what the two coordinates are.
    """

    kind: ClassVar[str] = "map"
    title: str
    numbers: IntArray
    names: tuple[str, ...]
    cells: IntArray
    representatives: IntArray
    points: FloatArray
    axes: tuple[str, str]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Distances [N, N], not negative, with the cells [N] of the tasks; ``cells`` is None where they are not known."""

    kind: ClassVar[str] = "matrix"
    title: str
    numbers: IntArray
    names: tuple[str, ...]
    cells: IntArray | None
    values: FloatArray
    directed: bool = False


@dataclass(frozen=True, eq=False)
class Arm:
    """The share of the episodes that an arm ran, at each of a figure's episodes [points]."""

    label: str
    share: FloatArray


@dataclass(frozen=True, eq=False)
class Shares:
    """Who ran the episodes: shares that add up to 1, in the order in which they are stacked."""

    kind: ClassVar[str] = "shares"
    title: str
    episode: FloatArray
    arms: tuple[Arm, ...]


Figure = Curves | TaskMap | Matrix | Shares


@dataclass(frozen=True)
class Gallery:
    """Figures of one kind, one of them shown at a time, and a note on how to read them."""

    heading: str
    note: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Picture:
    """A drawing as the bytes of a PNG file, and what it shows, for those who cannot see it."""

    caption: str
    png: bytes = field(repr=False)


@dataclass(frozen=True)
class Prose:
    """A paragraph; an ``aside`` is set apart: a caveat, or why there is nothing to see."""

    text: str
    aside: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of texts under a head; the columns named in ``numeric`` are set to the right."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True)
class Check:
    """One measured number of a claim, with its interval, and what the claim wants of it.

    ``value`` is None where nothing could be measured. ``held`` is about the first seed, None where nothing was wanted;
    ``n_held`` the number of seeds with which it held, None where that was not counted.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    wanted: str
    held: bool | None
    n_held: int | None = None


@dataclass(frozen=True)
class Claim:
    """A sentence to be reproduced: whether it held with each seed, and what was measured with the first."""

    id: str
    sentence: str
    experiment: str
    held: tuple[bool, ...]
    reproduced: bool | None
    """None where nothing was judged."""
    reason: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Claims:
    """All claims, the seeds they were tried with, and whether that was a quick run."""

    claims: tuple[Claim, ...]
    seeds: tuple[int, ...]
    quick: bool


Part = Prose | Table | Claims | Gallery | Picture


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    heading: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Page:
    """A report: a title, a sentence of what it is about, facts in pairs of name and value, and sections."""

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    notes: tuple[Prose, ...] = field(default=())
