"""The pieces of work that a reproduction is made of, and what an experiment is.

A unit runs once for a seed, on any worker, and returns arrays: all that sentences, tables and pictures are made from.
An experiment reads one or more units. So a setting that several experiments use runs once, and an interrupted
reproduction continues from the units that are done. A seed draws other tasks: seeds are the replicates of all figures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pastmaster.report import Chart
from pastmaster_paper.arrays import Array
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UnitArrays = dict[str, Array]
Results = Mapping[str, UnitArrays]
"""What was found with one seed, by unit."""


class Draws(NamedTuple):
    """What was found with each seed, under one reading; the reading is None where an experiment does not have any."""

    results: Sequence[Results]
    reading: Reading | None = None


Tables = Iterable[tuple[str, Columns | Chart]]
Pictures = Iterable[tuple[str, "Figure"]]


@dataclass(frozen=True)
class Unit:
    """A piece of work.

    ``settings`` tells what its arrays depend on besides the module ``scale`` and the code, of which the version is
    told: results of other settings are not taken for its own. ``weight`` is roughly how long it takes, compared with
    others. ``stream`` names its random stream; units of different readings share one, so that they draw the same tasks
    where they can.
    """

    name: str
    run: Callable[[np.random.Generator, Scale], UnitArrays]
    settings: str
    weight: float = 1.0
    stream: str = ""

    def rng(self, seed: int) -> np.random.Generator:
        """Its own random stream, whatever else runs."""
        return np.random.default_rng([seed, zlib.crc32((self.stream or self.name).encode())])


def no_units(_: Reading) -> Sequence[Unit]:
    """Of an experiment that has none under a reading."""
    return ()


@dataclass(frozen=True)
class Experiment:
    """An experiment: the units it reads, and the tables and pictures it makes of them, each by name.

    ``units`` are those of one reading, ``common`` those that no reading changes. ``ours`` is an experiment of ours and
    not the paper's. One that ``wants_name`` is run only if it is named. ``check`` raises, before any work, where
    something it needs is missing.
    """

    name: str
    title: str
    tables: Callable[[Draws], Tables]
    pictures: Callable[[Draws], Pictures]
    units: Callable[[Reading], Sequence[Unit]] = no_units
    common: Sequence[Unit] = ()
    ours: bool = False
    wants_name: bool = False
    check: Callable[[], object] = lambda: None
