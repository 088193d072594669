"""The pieces of work a reproduction is made of, and what an experiment is.

A unit is run once for a seed, on any worker, and gives arrays: all that claims, tables and figures are made from. An
experiment reads one or more units. So a setting that several experiments look at is run once, and a reproduction that
is interrupted goes on from the units that are done.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pastmaster.arrays import Array
from pastmaster.experiments.claims import Claim
from pastmaster.experiments.scale import Scale

Arrays = dict[str, Array]
Results = Mapping[str, Arrays]


@dataclass(frozen=True)
class Unit:
    """A piece of work.

    ``settings`` is all that its arrays depend on besides the module ``scale``: what was run under others is not taken
    for it.
    ``weight`` is about how long it takes, next to others.
    """

    name: str
    run: Callable[[np.random.Generator, Scale], Arrays]
    settings: str
    weight: float = 1.0

    def rng(self, seed: int) -> np.random.Generator:
        """Its own stream, whatever else is run."""
        return np.random.default_rng([seed, zlib.crc32(self.name.encode())])


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper: the units it reads, the claims it judges, the tables and figures it writes.

    ``check`` refuses, before any work, where something it needs is missing.
    """

    name: str
    title: str
    units: Sequence[Unit]
    claims: Callable[[Results], list[Claim]]
    write: Callable[[Results, Path], None]
    draw: Callable[[Results, Path], None]
    check: Callable[[], object] = lambda: None
