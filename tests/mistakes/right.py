"""Right arguments, which calls share: the smallest tasks, policies and results, made where they are asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pastmaster as pm
from pastmaster.policies import NetworkPolicy

Mistake = tuple[Mapping[str, Any], str] | tuple[Mapping[str, Any], str, type[Exception]]
"""Arguments in the place of right ones, and what is said of them (three dots stand for anything), by which error."""


@dataclass(frozen=True)
class Call:
    """How to call a public function rightly, and what is said of mistakes.

    ``says`` is how errors begin, where it is not the name of the function. ``runs``: whether the right call can be made
    here; it may need a file or a server.
    """

    function: Callable[..., Any]
    right: Callable[[], Mapping[str, Any]]
    says: str = ""
    runs: bool = True
    mistakes: Sequence[Mistake] = ()

    def refuses(self, *mistakes: Mistake) -> Call:
        """The same, with what is said of mistakes."""
        return replace(self, mistakes=mistakes)


def each(name: str, values: Iterable[Any], sentence: str) -> list[Mistake]:
    """Values of one argument of which the same is said."""
    return [({name: value}, f"{name} {sentence}") for value in values]


U = np.array([[4.0, 2.0, 1.0], [1.0, 3.0, 2.5], [0.0, 2.0, 2.0]])
DISTANCE = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]])
TASK = pm.TabularMDP(
    [[0, 1], [2, 0], [2, 2]], [[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]],
    terminated=[[False, False], [True, False], [True, True]], gamma=0.5, horizon=4, name="small",
)  # fmt: skip
CHANCE = pm.TabularMDP(
    [[[0, 1], [1, 2]]] * 3, [[[0.0, 1.0], [2.0, 0.0]]] * 3,
    probability=[[[0.5, 0.5], [0.25, 0.75]]] * 3, gamma=0.5, horizon=4, name="chance",
)  # fmt: skip
POLICY = [0, 1, 0]
NETWORK = NetworkPolicy([([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])])
CLUSTERING = pm.Clustering.from_labels(DISTANCE, [0, 0, 1], episodes=100, span=1.0)


FOLDER = tempfile.TemporaryDirectory(prefix="mistakes", ignore_cleanup_errors=True)  # until this process ends


def folder() -> Path:
    """A new folder for files."""
    return Path(tempfile.mkdtemp(dir=FOLDER.name))


@cache
def repository() -> pm.Repository:
    """A repository of one task; a call that is refused leaves it as it is."""
    stored = pm.Repository(folder() / "tasks.db")
    stored.add(TASK)
    return stored


@cache
def kept() -> pm.Clustering:
    """What ``keep`` returns."""
    return pm.keep(pm.Scores(U, standard_errors=0.1 * U), k=2, rng=0)


@cache
def run() -> pm.TransferRun:
    """What ``transfer`` returns."""
    return pm.transfer(TASK, [[0, 0, 0], [1, 0, 1]], episodes=6, trials=2, rng=0)


@cache
def estimate() -> pm.CrossValueEstimate:
    """What ``estimate_cross_values`` returns."""
    policies = [[0, 0, 0], [1, 1, 1]]
    asked = {"episodes": 100, "restarts": 1, "iterations": 20}
    return pm.estimate_cross_values(
        [CHANCE, CHANCE], policies, budget=40, rng=0, bounds=(-10, 10), clustering=asked, paired=True
    )
