"""Losses of tasks under policies, and the four questions that ``keep`` answers about them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pastmaster.arrays import BoolArray, FloatArray, sealed
from pastmaster.clustering.columns import Choice, ColumnProblem
from pastmaster.clustering.cost import regret_bound
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.search import search_clusterings
from pastmaster.errors import InvalidInputError

TIE = 2.0**-40  # as in ``policy_distance``, whose room would have to be loaded for it


def losses_of(scores: FloatArray) -> FloatArray:
    """What each task loses under each policy [N, M], infinite where it was not tried; scores as good as the best: 0.

    Equal but for rounding, a part in 10^12, is as good, as in ``policy_distance``.
    """
    best = np.nanmax(scores, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        losses = np.where(scores >= best - TIE * np.abs(best), 0.0, best - scores)
    return sealed(np.where(np.isnan(scores), np.inf, losses))


@dataclass(frozen=True, eq=False)
class Losses:
    """A table of losses [N, M], the columns that must and must not be kept, and the tasks' weights [N] or None."""

    table: FloatArray
    must: tuple[int, ...] = ()
    never: tuple[int, ...] = ()
    weights: FloatArray | None = None

    @property
    def allowed(self) -> BoolArray:
        """The columns that may be kept [M]."""
        allowed = np.ones(self.table.shape[1], np.bool_)
        allowed[list(self.never)] = False
        return allowed

    def covers(self, max_loss: float) -> BoolArray:
        """Which columns serve which tasks within a limit, met up to rounding [N, M]."""
        found: BoolArray = self.table <= max_loss * (1.0 + TIE)
        return found

    def of_size(
        self, k: int, rng: np.random.Generator, deadline: float, certify: bool = True, start: Any = ()
    ) -> Clustering:
        """Exactly k columns with the least mean loss."""
        choice = self._chosen(self.table, k, 0.0, rng, deadline, certify, start)
        if not math.isfinite(choice.cost):
            raise self._too_few(k, rng, deadline)
        rest = np.flatnonzero(self.allowed & ~np.isin(np.arange(len(self.allowed)), choice.columns))
        columns = np.concatenate([choice.columns, rest[: k - len(choice.columns)]])
        return self._answer(choice._replace(columns=columns), "loss", 0.0, certify)

    def at_price(self, price: float, rng: np.random.Generator, deadline: float, certify: bool = True) -> Clustering:
        """The least price for each column + mean loss."""
        choice = self._chosen(self.table, len(self.allowed), price, rng, deadline, certify)
        return replace(self._answer(choice, "loss", price * len(choice.columns), certify), price=price)

    def within(self, max_loss: float, rng: np.random.Generator, deadline: float, certify: bool = True) -> Clustering:
        """The fewest columns such that no task loses more, and of these the least mean loss."""
        covers, begun = self.covers(max_loss), time.perf_counter()
        fewest = self.cover(covers, rng, begun + 0.7 * (deadline - begun), certify)
        table, size = np.where(covers, self.table, np.inf), len(fewest.columns)
        deadline = begun if fewest.interrupted else deadline
        choice = self._chosen(table, size, 0.0, rng, deadline, certify, fewest.columns)
        bound = min(fewest.lower_bound, float(size))
        choice = Choice(choice.columns, float(size), bound, choice.interrupted or fewest.interrupted)
        found = replace(self._answer(choice, "count", float(len(choice.columns)), certify), max_loss=max_loss)
        return replace(found, possible_c=tuple(range(int(bound), size + 1))) if certify else found

    def for_learning(self, episodes: float, span: float, rng: Any, seconds: float, certify: bool) -> Clustering:
        """The paper's least g(c, T) + mean radius."""
        columns, table = np.flatnonzero(self.allowed), self.table[:, self.allowed]
        largest = table[np.isfinite(table)].max()
        never = 4.0 * len(table) * (largest + regret_bound(len(table), episodes, span) + 1.0)  # no cell can pay that
        found = search_clusterings(
            np.where(np.isfinite(table), table, never), episodes=episodes, span=span, directed=True, rng=rng,
            certify=certify, certify_seconds=seconds, time_limit=max(seconds, 1e-9),
        )  # fmt: skip
        kept = sealed(columns[found.representatives])
        return replace(found, representatives=kept, distance=self.table, never_keep=self.never)

    def cover(self, covers: BoolArray, rng: np.random.Generator, deadline: float, certify: bool = False) -> Choice:
        """The fewest columns that cover every task."""
        different = np.unique(np.packbits(covers, axis=1), axis=0)
        rows = np.unpackbits(different, axis=1, count=covers.shape[1]).astype(np.bool_)
        costs = np.where(rows.T, 0.0, np.inf)
        problem = ColumnProblem(costs, len(self.allowed), self.allowed, self.must, price=1.0, whole=True)
        return problem.solved(rng, deadline, certify)

    def _chosen(
        self, table: FloatArray, most: int, price: float, rng: np.random.Generator, deadline: float, certify: bool,
        start: Any = (),
    ) -> Choice:  # fmt: skip
        """The best choice of at most so many columns, in units in which no number is too large or small.

        Where not all was tried, the search begins with columns of which every task has tried one.
        """
        if len(start) == 0 and np.isinf(table).any():
            start = self.cover(np.isfinite(table), rng, deadline).columns
        largest = max(float(np.max(table, where=np.isfinite(table), initial=0.0)), price)
        unit = 2.0 ** math.frexp(largest)[1] if largest > 0.0 else 1.0
        weights = np.ones(len(table)) if self.weights is None else self.weights
        share = weights / weights.sum()
        costs = np.ascontiguousarray(table.T / unit)
        np.multiply(costs, share, out=costs, where=np.isfinite(costs))
        problem = ColumnProblem(costs, most, self.allowed, self.must, price / unit)
        choice = problem.solved(rng, deadline, certify, start)
        return choice._replace(cost=choice.cost * unit, lower_bound=choice.lower_bound * unit)

    def _answer(self, choice: Choice, kind: str, size_cost: float, certify: bool) -> Clustering:
        made = Clustering.of_columns(
            self.table, choice.columns, kind, size_cost, weights=self.weights, must_keep=self.must,
            never_keep=self.never, interrupted=choice.interrupted,
        )  # fmt: skip
        return replace(made, lower_bound=min(choice.lower_bound, made.cost)) if certify else made

    def _too_few(self, k: int, rng: np.random.Generator, deadline: float) -> InvalidInputError:
        """Why k columns are not enough for every task to have one that was tried."""
        fewest = self.cover(np.isfinite(self.table), rng, max(deadline, time.perf_counter() + 1.0), True)
        needed = f"at least {fewest.lower_bound:g}" if fewest.lower_bound > k else f"more, such as {fewest.cost:g}"
        return InvalidInputError(
            f"keep: k is {k}, but no {k} policies were found of which each task has tried one, must be {needed}"
        )
