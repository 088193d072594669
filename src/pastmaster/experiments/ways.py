"""Ways to meet a new task: an algorithm, the sources it is given, the episodes and the bounds it is tuned for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray, IntArray
from pastmaster.experiments.charts import OPTIMAL, Curves, Line
from pastmaster.experiments.measured import Measured
from pastmaster.experiments.scale import EPISODES, HORIZONS, WINDOWS, Scale
from pastmaster.experiments.unit import UnitArrays
from pastmaster.reuse import RECOMMENDED, Exp3Transfer, QLearning, transfer
from pastmaster.reuse.windows import windows
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import Bounds, cross_values

EXP3, UNTRIMMED, PPR = "EXP-3-Transfer", "EXP-3-Transfer without elimination", "Probabilistic Policy Reuse"
Q_LEARNING, OURS = "Q-learning", "regret balancing, decaying epsilon (ours)"
DECAYING_EXP3, DECAYING_Q = "EXP-3-Transfer, decaying epsilon", "Q-learning, decaying epsilon"
ALGORITHMS: dict[str, dict[str, Any]] = {
    EXP3: {"selector": "exp3-transfer", "learner": QLearning()},
    UNTRIMMED: {"selector": partial(Exp3Transfer, elimination="none"), "learner": QLearning()},
    PPR: {"selector": "ppr", "learner": QLearning()},
    Q_LEARNING: {"selector": "exp3-transfer", "learner": QLearning()},  # with no source there is nothing to select
    OURS: RECOMMENDED,
    DECAYING_EXP3: {"selector": "exp3-transfer", "learner": RECOMMENDED["learner"]},
    DECAYING_Q: {"selector": "exp3-transfer", "learner": RECOMMENDED["learner"]},
}


class Way(NamedTuple):
    """An algorithm, a clustering by name, T, and which bounds the selector is given."""

    algorithm: str
    clustering: str
    episodes: int = EPISODES
    bounds: str = "exact"

    @property
    def label(self) -> str:
        """For a legend."""
        return self.algorithm if self.clustering in ("", "sources") else f"{self.algorithm}, {self.clustering}"


def meet(
    targets: Sequence[TabularMDP], sources: Callable[[int], Sequence[IntArray]], way: Way, bounds: Bounds,
    scale: Scale, rng: np.random.Generator,
) -> UnitArrays:  # fmt: skip
    """Run one way on each target; ``sources`` gives those of a target by its number.

    Returns ``totals``, cumulative rewards after each of HORIZONS (nan beyond T) [targets, trials, 3]; ``final``, the
    mean return of the last window [targets, trials]; ``curves``, means over targets [trials, windows]; the
    ``deviation`` of a run around its target's mean [windows]; how often bounds were ``widened``; and the ``shares`` of
    the first target's arms [windows, c + 1].
    """
    cut, shape = windows(way.episodes, way.episodes // WINDOWS), (len(targets), scale.trials)
    totals, curves = np.full((*shape, len(HORIZONS)), np.nan), np.empty((*shape, WINDOWS))
    widened, shares = 0, np.empty((0, 0))
    for i, (target, stream) in enumerate(zip(targets, rng.spawn(len(targets)), strict=True)):
        run = transfer(
            target, sources(i), episodes=way.episodes, bounds=bounds, rng=stream, trials=scale.trials,
            on_violation="widen", **ALGORITHMS[way.algorithm],
        )  # fmt: skip
        for place, horizon in enumerate(HORIZONS):
            if horizon <= way.episodes:
                totals[i, :, place] = run.returns[:, :horizon].sum(axis=1)
        curves[i] = cut.means(run.returns)
        widened += int(run.widened.sum())
        shares = run.shares(way.episodes // WINDOWS) if i == 0 else shares
    deviation = np.sqrt(curves.var(axis=1).mean(axis=0))
    return {
        "totals": totals, "final": curves[:, :, -1], "curves": curves.mean(axis=0), "deviation": deviation,
        "widened": np.array(widened), "shares": shares,
    }  # fmt: skip


def meet_all(
    targets: Sequence[TabularMDP], ways: Sequence[Way], sources: Callable[[Way, int], Sequence[IntArray]],
    bounds: Mapping[str, Bounds], scale: Scale, rng: np.random.Generator,
) -> UnitArrays:  # fmt: skip
    """Run each way on each target; ``sources`` gives those of a way and a target, ``bounds`` are by their kind.

    Returns the outcomes of all ways as arrays, the shares of the first way, and what scores are relative to.
    """
    outcomes = [
        meet(targets, partial(sources, way), way, bounds[way.bounds], scale, stream)
        for way, stream in zip(ways, rng.spawn(len(ways)), strict=True)
    ]
    stacked = {name: np.stack([one[name] for one in outcomes]) for name in outcomes[0] if name != "shares"}
    return stacked | {
        "shares": outcomes[0]["shares"],
        "optimum": np.array([float(cross_values([target])[0, 0]) for target in targets]),
        "lower": np.array(bounds["exact"].lower),
    }


class Runs:
    """The arrays of ``meet_all``, read by way.

    A score is 100 (mean return - lower) / (optimum - lower), the percent of optimal counted from the worst possible
    return. It is summed over targets before dividing, because some optima are near zero.
    """

    def __init__(self, name: str, ways: Sequence[Way], arrays: UnitArrays) -> None:
        self.name, self.ways, self.arrays = name, list(ways), arrays
        self.optimum, self.lower = arrays["optimum"], float(arrays["lower"])

    def score(self, way: Way, episodes: int | None = None) -> Measured:
        """The score over all episodes, or the first so many of them."""
        upto = way.episodes if episodes is None else episodes
        samples = self._of("totals", way)[:, :, HORIZONS.index(upto)] / upto
        return Measured.of(samples, self._score, f"{self.name} {way} score {upto}")

    def final(self, way: Way) -> Measured:
        """The score of the last window."""
        return Measured.of(self._of("final", way), self._score, f"{self.name} {way} final")

    def reward(self, way: Way) -> Measured:
        """The cumulative reward, a mean over targets: the paper's unit."""
        samples = self._of("totals", way)[:, :, HORIZONS.index(way.episodes)]
        return Measured.of(samples, lambda means: means.mean(axis=-1), f"{self.name} {way} reward")

    def line(self, way: Way, label: str) -> Line:
        """The learning curve."""
        middles = windows(way.episodes, way.episodes // WINDOWS).middles
        return Line(label, middles, self._of("curves", way).mean(axis=0), self._of("deviation", way))

    def curves(self, title: str, ways: Mapping[str, Way]) -> Curves:
        """Learning curves by label, with what an optimal policy earns."""
        ends, level = np.array([0.0, EPISODES]), np.full(2, self.optimum.mean())
        optimal = Line(OPTIMAL, ends, level, np.zeros(2), reference=True)
        return Curves(title, [*(self.line(way, label) for label, way in ways.items()), optimal])

    def number_row(self, title: str, way: Way, sources: int) -> list[Any]:
        """A line of ``numbers.csv``."""
        measured = [number for one in (self.reward(way), self.score(way), self.final(way)) for number in one.row]
        widened = int(self.arrays["widened"][self.ways.index(way)])
        return [title, way.algorithm, way.clustering, sources, way.episodes, *measured, widened]

    def below(self, way: Way, other: Way) -> float:
        """In which share of the other's windows, up to this one's T, this one's mean return is lower beyond chance."""
        ratio = other.episodes // way.episodes
        n = WINDOWS // ratio
        own = self._of("curves", way)[:, : n * ratio].reshape(-1, n, ratio).mean(axis=2)
        theirs = self._of("curves", other)[:, :n]
        name = f"{self.name} {way} {other}"
        leads = [
            Measured.mean(own[:, i], f"{name} {i}") - Measured.mean(theirs[:, i], f"{name} {i}'") for i in range(n)
        ]
        return float(np.mean([lead.high < 0 for lead in leads]))

    def _score(self, means: FloatArray) -> FloatArray:
        got: FloatArray = (means - self.lower).sum(axis=-1)
        return 100.0 * got / float((self.optimum - self.lower).sum())

    def _of(self, name: str, way: Way) -> FloatArray:
        found: FloatArray = self.arrays[name][self.ways.index(way)]
        return found
