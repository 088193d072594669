"""The pieces of work that a reproduction is made of, and what an experiment is.

A unit runs once for a seed, on any worker, and returns arrays: all that claims, tables and pictures are made from. An
experiment reads one or more units. So a setting that several experiments use runs once, and an interrupted
reproduction continues from the units that are done.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pastmaster.arrays import Array
from pastmaster.experiments.charts import Chart, Columns
from pastmaster.experiments.claims import Checks
from pastmaster.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UnitArrays = dict[str, Array]
Results = Mapping[str, UnitArrays]
"""By unit."""
Tables = Iterable[tuple[str, Columns | Chart]]
Pictures = Iterable[tuple[str, "Figure"]]


@dataclass(frozen=True)
class Unit:
    """A piece of work.

    ``settings`` tells all that its arrays depend on besides the module ``scale``: results of other settings are not
    taken for its own. ``weight`` is roughly how long it takes, compared with others.
    """

    name: str
    run: Callable[[np.random.Generator, Scale], UnitArrays]
    settings: str
    weight: float = 1.0

    def rng(self, seed: int) -> np.random.Generator:
        """Its own random stream, whatever else runs."""
        return np.random.default_rng([seed, zlib.crc32(self.name.encode())])


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper: the units it reads, and what it makes of them, each by name.

    ``check`` raises, before any work, where something it needs is missing.
    """

    name: str
    title: str
    units: Sequence[Unit]
    tables: Callable[[Results], Tables]
    pictures: Callable[[Results], Pictures]
    claims: Callable[[Results], Checks] = lambda _: {}
    check: Callable[[], object] = lambda: None
