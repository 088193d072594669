"""Cross values of tasks of which only episodes can be run: estimated, with intervals, for a clustering.

U[i, j] is estimated by episodes of policy j in task i. Episode k of a task begins from the same seed whichever policy
runs it (common random numbers). Episodes come in rounds; what they say of U and of distances is in ``returns``, the
intervals are in ``intervals``, where the next round's episodes go in ``allocation``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.arrays import FloatArray, sealed
from pastmaster.checks import listed, whole, within
from pastmaster.clustering import Clustering, search_clusterings
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.allocation import RUN, Allocation, evenly
from pastmaster.estimation.episodes import Episodes
from pastmaster.estimation.intervals import entry_limits
from pastmaster.estimation.means import check_fits, is_certain
from pastmaster.estimation.question import CALLER, Labels, Question, checked_question
from pastmaster.estimation.ranges import Ranges
from pastmaster.estimation.result import CrossValueEstimate, Round, cost_interval, kept_distances
from pastmaster.estimation.returns import Counts, Returns
from pastmaster.generators import checked_rng
from pastmaster.policies import Policy, TablePolicy, as_policy
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import cross_values

FIRST = 4  # episodes of every entry before anything is decided
GROWTH = 0.25  # a round spends this share of what has been spent


def estimate_cross_values(
    tasks: Iterable[TabularMDP | GymTask],
    policies: Iterable[Any],
    *,
    rng: np.random.Generator,
    budget: int,
    clustering: Mapping[str, Any] | None = None,
    precision: float | None = None,
    confidence: float = 0.95,
    allocation: Literal["sequential", "uniform"] = "sequential",
    paired: bool | None = None,
    bounds: tuple[float, float] | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    save: str | Path | None = None,
    progress: bool = False,
) -> CrossValueEstimate:
    """U [N, M] of N tasks and M policies (anything ``as_policy`` takes), by at most ``budget`` episodes in all.

    ``clustering`` says what the estimate is for: options of ``search_clusterings`` (episodes, span, directed,
    n_clusters, max_radius; span by default that of the bounds; restarts and iterations for the final search).
    "sequential" allocation spends episodes where they can change that clustering, "uniform" on all entries alike.
    ``precision`` ends it early: when the cost of the clustering found is known to +- precision (without a clustering:
    every entry of U).

    ``confidence`` is that of each entry's interval, and of the interval of the cost; both hold whenever one stops.
    They rest on bounds of a return: ``bounds`` (lower, upper) for all tasks, else those each task knows, else twice the
    range seen so far, and then nothing is guaranteed, and the result says so. ``paired``: policy j is task j's own, by
    default where U is square (see ``policy_distance``).

    In a deterministic ``TabularMDP`` with one start a table of actions is valued exactly, and counted as one episode.

    ``backend`` is "loky" by default where ``n_jobs`` is not 1, since environments hold the interpreter; see
    ``parallel.run``. The result depends on ``rng`` and on nothing of this. ``save`` is a folder: finished episodes
    are kept there, and the same call goes on from them; tasks and policies must then be data.
    """
    rng = checked_rng(CALLER, rng)
    tasks, columns = _checked_tasks(tasks), _checked_columns(policies)
    square = len(tasks) == len(columns)
    paired = square if paired is None else paired
    if paired and not square:
        raise InvalidInputError(f"{CALLER}: paired is True, must be False: {len(tasks)} tasks, {len(columns)} policies")
    if allocation not in ("sequential", "uniform"):
        raise InvalidInputError(f"{CALLER}: allocation is {allocation!r}, must be 'sequential' or 'uniform'")
    if allocation == "sequential" and clustering is None:
        raise InvalidInputError(
            f"{CALLER}: allocation is 'sequential' and clustering None, must be the options of a clustering, "
            "such as {'episodes': 10_000}: episodes go where they can change it"
        )
    confidence = within(CALLER, "confidence", confidence, 0.5, 1.0 - 1e-12)
    if precision is not None:
        precision = within(CALLER, "precision", precision, 0.0, np.inf)
    exact = _exact_entries(tasks, columns)
    least = int(np.where(exact, 1, FIRST).sum())
    budget = whole(CALLER, "budget", budget, at_least=1)
    if budget < least:
        raise InvalidInputError(f"{CALLER}: budget is {budget}, must be at least {least}: {FIRST} for every entry of U")
    ranges = Ranges(tasks, bounds)
    seeds, stream = rng.integers(2**63, size=len(tasks)).tolist(), rng.spawn(1)[0]
    folder = None if save is None else parallel.saving_folder(CALLER, save)
    episodes = Episodes(tasks, columns, seeds, folder, n_jobs, backend, progress)
    asked = None if clustering is None else checked_question(clustering, paired, *exact.shape)
    estimation = _Estimation(tasks, columns, exact, ranges, asked, stream, confidence, precision, paired)
    with closing(episodes):
        return estimation.run(episodes, budget, allocation == "sequential")


def exact_returns(tasks: list[TabularMDP | GymTask], columns: list[Policy], exact: npt.NDArray[np.bool_]) -> Returns:
    """No episodes yet, but the values of the entries that one episode tells all of."""
    returns = Returns(len(tasks), len(columns), exact)
    for i in np.flatnonzero(exact.any(axis=1)).tolist():
        some = np.flatnonzero(exact[i]).tolist()
        tables = [column.table for j in some if isinstance(column := columns[j], TablePolicy)]
        for j, value in zip(some, cross_values([tasks[i]], tables)[0], strict=True):
            returns.add(i, j, np.array([value]))
    return returns


def _checked_tasks(tasks: Any) -> list[TabularMDP | GymTask]:
    found = listed([tasks] if isinstance(tasks, TabularMDP | GymTask) else tasks, f"{CALLER}: tasks")
    for i, task in enumerate(found):
        if not isinstance(task, TabularMDP | GymTask):
            raise InvalidInputError(f"{CALLER}: tasks[{i}] is a {type(task).__name__}, must be a TabularMDP or GymTask")
        if task.horizon is None:
            raise InvalidInputError(f"{CALLER}: tasks[{i}] has no horizon, must have one: an episode may never end")
    if not found:
        raise InvalidInputError(f"{CALLER}: tasks is empty, must hold at least one")
    return found


def _checked_columns(policies: Any) -> list[Policy]:
    found = [as_policy(p, f"{CALLER}: policies[{j}]") for j, p in enumerate(listed(policies, f"{CALLER}: policies"))]
    if not found:
        raise InvalidInputError(f"{CALLER}: policies is empty, must hold at least one")
    return found


def _exact_entries(tasks: list[TabularMDP | GymTask], columns: list[Policy]) -> npt.NDArray[np.bool_]:
    """Which entries one episode tells all of; tables that do not fit a task are refused."""
    exact = np.zeros((len(tasks), len(columns)), np.bool_)
    for i, task in enumerate(tasks):
        for j, column in enumerate(columns):
            check_fits(column, task, f"{CALLER}: in tasks[{i}] policies[{j}]")
            exact[i, j] = is_certain(task, column)
    return exact


class _Estimation:
    """Rounds of episodes, and what is known after each."""

    def __init__(
        self,
        tasks: list[TabularMDP | GymTask],
        columns: list[Policy],
        exact: npt.NDArray[np.bool_],
        ranges: Ranges,
        asked: tuple[Question, dict[str, Any]] | None,
        rng: np.random.Generator,
        confidence: float,
        precision: float | None,
        paired: bool,
    ) -> None:
        self.tasks, self.columns, self.ranges, self.rng = tasks, columns, ranges, rng
        self.confidence, self.precision, self.paired = confidence, precision, paired
        self.question = None if asked is None else asked[0]
        self.how = {} if asked is None else asked[1]
        self.returns = exact_returns(tasks, columns, exact)
        self.rounds: list[Round] = []
        self.found: Clustering | None = None

    def run(self, episodes: Episodes, budget: int, sequential: bool) -> CrossValueEstimate:
        """Rounds until the precision is reached or the budget is spent."""
        returns = self.returns
        plan: Counts = np.where(returns.exact, 0, FIRST)
        labels: Labels | None = None
        sampler: Allocation | None = None
        while True:
            if plan.any():
                episodes.run(returns, plan)
            bounds = self.ranges.of(returns)
            if self.question is not None:
                question = self._settled()
                sampler = sampler or Allocation(question, self.rng)
                sampler.question = question
                labels = sampler.incumbent(returns, labels)
            spent = int(returns.counts.sum())
            self.rounds.append(Round(spent, labels))
            left = budget - spent
            size = int(GROWTH * spent) if left > 2 * GROWTH * spent else left
            if self._is_precise(bounds, labels):
                return self._result(bounds, sampler, "precision")
            if left < RUN:
                return self._result(bounds, sampler, "budget")
            if sequential and sampler is not None and labels is not None:
                sampler.look(returns, labels)
                if self.precision is not None:
                    made = self._made(labels)
                    ends = kept_distances(returns, bounds, made, 1.0 - self.confidence, self.paired)
                    sampler.look_at_width(made, *ends)
                plan = sampler.plan(returns, size)
            else:
                plan = evenly(returns, size)
            if not plan.any():  # all entries are exact
                return self._result(bounds, sampler, "budget")

    def _settled(self) -> Question:
        """The question with a span: that of the bounds, if none is given, and running bounds change."""
        assert self.question is not None
        if self.question.episodes is None or self.question.span is not None:
            return self.question
        return replace(self.question, span=self.ranges.span(self.returns))

    def _is_precise(self, bounds: FloatArray, labels: Labels | None) -> bool:
        if self.precision is None:
            return False
        if labels is None:
            low, high = entry_limits(self.returns, bounds, 1.0 - self.confidence)
            return bool((high - low).max() <= 2.0 * self.precision)
        if self._width(bounds, labels) > 2.0 * self.precision:
            return False
        self.found = self._searched()
        return self._width(bounds, self.found.labels) <= 2.0 * self.precision

    def _width(self, bounds: FloatArray, labels: Labels) -> float:
        low, high = cost_interval(self.returns, bounds, self._made(labels), 1.0 - self.confidence, self.paired)
        return high - low

    def _made(self, labels: Labels) -> Clustering:
        """The clustering that labels make of the tasks now."""
        question = self._settled()
        return Clustering.from_labels(
            question.estimated(self.returns),
            labels,
            directed=question.directed,
            episodes=question.episodes,
            span=question.span,
        )

    def _searched(self) -> Clustering:
        """The clustering that all episodes so far make, well searched for."""
        question = self._settled()
        return search_clusterings(
            question.estimated(self.returns),
            episodes=question.episodes,
            span=question.span,
            directed=question.directed,
            n_clusters=question.n_clusters,
            max_radius=question.max_radius,
            rng=self.rng.spawn(1)[0],
            **self.how,
        )

    def _result(
        self, bounds: FloatArray, sampler: Allocation | None, stopped: Literal["precision", "budget"]
    ) -> CrossValueEstimate:
        returns, alpha = self.returns, 1.0 - self.confidence
        low, high = entry_limits(returns, bounds, alpha)
        found, interval, agreement = None, None, None
        if sampler is not None:
            found = self._searched() if self.found is None or stopped == "budget" else self.found
            interval = cost_interval(returns, bounds, found, alpha, self.paired)
            sampler.look(returns, found.labels)
            agreement = sampler.agreement
        return CrossValueEstimate(
            mean=sealed(returns.mean),
            low=sealed(low),
            high=sealed(high),
            episodes=sealed(returns.counts.copy()),
            confidence=self.confidence,
            bounds=sealed(bounds),
            bounds_from=self.ranges.sources,
            stopped=stopped,
            paired=self.paired,
            clustering=found,
            cost_interval=interval,
            agreement=agreement,
            rounds=tuple(self.rounds),
            question=None if self.question is None else self._settled(),
            returns=returns,
        )
