"""What a report says, apart from how it looks: a page of sections, made of texts, tables, pictures and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pastmaster.report.charts import Chart


@dataclass(frozen=True)
class Gallery:
    """Charts of one kind, one of them shown at a time, and a note on how to read them."""

    heading: str
    note: str
    charts: Sequence[Chart]


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
    """Rows of texts under a head; the columns in ``numeric`` are aligned to the right."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()


@dataclass(frozen=True)
class Bar:
    """One bar: its name, a note beside it, its number as text, and its length as a share of the longest."""

    name: str
    note: str
    value: str
    share: float


@dataclass(frozen=True)
class Bars:
    """Bars under a heading, and a sentence on what is not shown."""

    heading: str
    note: str
    bars: Sequence[Bar]
    more: str = ""


@dataclass(frozen=True)
class Trend:
    """A number for each task in the order they were met, beside what it could have been."""

    heading: str
    note: str
    axis: str
    names: Sequence[str]
    label: str
    values: Sequence[float]
    reference_label: str
    reference: Sequence[float]


class Markup(Protocol):
    """A part of somebody else's that writes its own HTML."""

    def html(self, text: Callable[[str], str]) -> Iterable[str]:
        """Lines of HTML, in which every text from outside went through ``text``, which escapes it."""


Part = Prose | Table | Gallery | Picture | Markup


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    heading: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Page:
    """A report: a title, a sentence that gives the answer, facts in pairs of name and value, notes, and sections.

    ``overview`` are the figures of the first screen. ``made`` says when the page was made, and by which version,
    ``maker`` by which command. ``style`` is CSS for parts that write their own HTML.
    """

    title: str
    lead: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[Prose] = ()
    made: str = ""
    overview: Sequence[Bars | Trend] = ()
    maker: str = "pastmaster report"
    style: str = ""
