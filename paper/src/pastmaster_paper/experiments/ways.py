"""Ways to meet a new task: an algorithm, the sources it is given, the episodes it is tuned for, and a reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pastmaster import RECOMMENDED, Bounds, Exp3Transfer, QLearning, TabularMDP, transfer
from pastmaster_paper.arrays import Array, FloatArray, IntArray
from pastmaster_paper.experiments.readings import Reading
from pastmaster_paper.experiments.scale import EPISODES, WINDOWS, Scale
from pastmaster_paper.experiments.unit import UnitArrays

EXP3, UNTRIMMED, PPR = "EXP-3-Transfer", "EXP-3-Transfer without elimination", "Probabilistic Policy Reuse"
Q_LEARNING, OURS, DECAYING_EXP3 = "Q-learning", "regret balancing (ours)", "EXP-3-Transfer, decaying epsilon"
DECAYING_Q, INFORMED, TSALLIS = "Q-learning, decaying epsilon", "informed (ours)", "Tsallis-INF"
PAPERS = (EXP3, UNTRIMMED, PPR, Q_LEARNING)
"""Algorithms with the paper's learner; the others explore less and less, as ``RECOMMENDED`` does."""


def options(algorithm: str, reading: Reading) -> dict[str, Any]:
    """Arguments of ``transfer`` that make an algorithm; with no source there is nothing to select."""
    exp3 = partial(Exp3Transfer, check_every=reading.check_every)
    selectors = {
        PPR: "ppr", OURS: RECOMMENDED["selector"], INFORMED: "informed", TSALLIS: "tsallis-inf",
        UNTRIMMED: partial(exp3, elimination="none"),
    }  # fmt: skip
    learner = QLearning() if algorithm in PAPERS else RECOMMENDED["learner"]
    return {"selector": selectors.get(algorithm, exp3), "learner": replace(learner, step_size=reading.step_size)}


class Way(NamedTuple):
    """An algorithm, a clustering by name, T, and which bounds the selector is given ("": those of the reading)."""

    algorithm: str
    clustering: str
    episodes: int = EPISODES
    bounds: str = ""

    @property
    def label(self) -> str:
        """For a legend."""
        return self.algorithm if self.clustering in ("", "sources") else f"{self.algorithm}, {self.clustering}"


class Meeting(NamedTuple):
    """What every way meets: new tasks, a reading, how much is run."""

    targets: Sequence[TabularMDP]
    reading: Reading
    scale: Scale

    def returns(
        self, way: Way, sources: Sequence[Sequence[IntArray]], bounds: Bounds, rng: np.random.Generator,
        experience: Array | None = None,
    ) -> FloatArray:  # fmt: skip
        """The returns of one way on each target [targets, trials, T], with the ``sources`` of each."""
        known: dict[str, Any] = {"experience": experience} if way.algorithm == INFORMED else {}
        return np.stack(
            [
                transfer(
                    target, own, episodes=way.episodes, bounds=bounds, rng=stream, trials=self.scale.trials,
                    on_violation="widen", **known, **options(way.algorithm, self.reading),
                ).returns
                for target, own, stream in zip(self.targets, sources, rng.spawn(len(self.targets)), strict=True)
            ]
        )  # fmt: skip


def window_means(returns: FloatArray) -> FloatArray:
    """The mean of returns [..., T] over each of the windows [..., WINDOWS]."""
    windows = returns.reshape(*returns.shape[:-1], WINDOWS, -1)
    return np.asarray(windows.mean(axis=-1))


def window_middles(episodes: int) -> FloatArray:
    """The middle of each window, in episodes [WINDOWS]."""
    length = episodes // WINDOWS
    return np.asarray(length * (np.arange(WINDOWS) + 0.5))


def summed_up(returns: FloatArray) -> UnitArrays:
    """Of returns [targets, trials, T]: means of the targets, of all episodes and of the last; the learning curve.

    ``deviation`` is that of a run around the mean of its target.
    """
    curves = window_means(returns)
    return {
        "reward": returns.mean(axis=(1, 2)),
        "final": curves[:, :, -1].mean(axis=1),
        "curve": curves.mean(axis=(0, 1)),
        "deviation": np.sqrt(curves.var(axis=1).mean(axis=0)),
    }
