"""Cross values of tasks of which only episodes can be run: estimated, with intervals, for a clustering.

U[i, j] is estimated by episodes of policy j in task i. Episode k of a task begins from the same seed whichever policy
runs it (common random numbers). Episodes come in rounds; what they say about U and distances is in ``returns``, the
intervals are in ``intervals``, where the next round's episodes go in ``allocation``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pastmaster import parallel
from pastmaster.arrays import IntArray, LongArray, sealed
from pastmaster.checks import as_name, chosen, flag, guess, mapping, whole, within
from pastmaster.clustering import Clustering, Question, search_clusterings
from pastmaster.clustering.question import DistanceProblem
from pastmaster.errors import InvalidInputError
from pastmaster.estimation.allocation import RUN, Allocation, evenly
from pastmaster.estimation.intervals import ahead_of_best, entry_limits
from pastmaster.estimation.means import certain_values, fitting_policy, has_one_episode, is_certain_table, kind_of
from pastmaster.estimation.ranges import CALLER, Ranges
from pastmaster.estimation.result import CrossValueEstimate, Round, cost_interval, kept_distances
from pastmaster.estimation.returns import Returns
from pastmaster.estimation.runner import EpisodeRunner
from pastmaster.generators import Rng, seeded
from pastmaster.policies import NetworkPolicy, OnnxPolicy, Policy, as_policy
from pastmaster.solving import solve
from pastmaster.tables import one_line
from pastmaster.tasks import TabularMDP, Task
from pastmaster.values import CrossValues
from pastmaster.values.given import listed_policies, listed_tasks, not_a_task, with_names

FIRST = 4  # episodes of every entry before anything is decided
GROWTH = 0.25  # a round spends this share of what has been spent
ASKED = ("episodes", "span", "directed", "n_clusters", "max_radius")
SEARCHED = ("restarts", "iterations")


def estimate_cross_values(
    tasks: Task | Iterable[Task] | Mapping[str, Task], policies: Iterable[Any] | Mapping[str, Any] | None = None, *,
    budget: int, rng: Rng = None, clustering: Mapping[str, Any] | None = None,
    allocation: Literal["sequential", "uniform"] | None = None,
    precision: float | None = None, confidence: float = 0.95, paired: bool | None = None,
    bounds: tuple[float, float] | None = None, n_jobs: int = 1, executor: Executor | None = None,
    save: str | Path | None = None, progress: bool = False,
) -> CrossValueEstimate:  # fmt: skip
    """Estimate by episodes what every policy is worth in every task.

    Parameters
    ----------
    tasks, policies
        N tasks with a horizon (or one task alone) and M policies, anything ``as_policy`` takes; by default the optimal
        policies of tasks that have a model. Both may be a dict of names, which the result then has, to tasks or
        policies. In a deterministic ``TabularMDP`` with one start a table of actions is
        valued exactly, and counted as one episode.
    budget : int
        The most episodes in all: at least 4 for each task and policy, 1 where the value is exact.
    rng : int, numpy.random.Generator, optional
        A seed or a generator; by default a fresh seed, which the result tells.
    clustering, allocation : mapping, {"sequential", "uniform"}
        What the estimate is for, as options of ``search_clusterings``: episodes, span (by default that of the bounds),
        directed, n_clusters, max_radius; restarts and iterations for the final search. With "sequential", the default
        if there is one, episodes go where they can change that clustering; with "uniform" to all entries alike.
    precision : float, optional
        Stop when the cost of the clustering (without one: every entry of U) is known to +- precision.
    confidence : float
        Of each entry's interval and of the interval of the cost. Both hold whenever one stops.
    paired : bool, optional
        Whether policy j is task j's own; by default only where ``policies`` are not given. A clustering by symmetric
        distances needs it (see ``policy_distance``).
    bounds : (float, float), optional
        Bounds on a return in all tasks; by default those each task knows, else twice the range seen so far, and then
        nothing is guaranteed, which the result says.
    n_jobs, executor, save, progress
        As for ``parallel.run``; several workers of this machine are processes. ``save`` is a folder of finished
        episodes: the same call goes on from them; tasks and policies must then be data.

    Returns
    -------
    CrossValueEstimate

    Raises
    ------
    InvalidInputError
        If a policy does not fit a task, the budget is too small, or a return lies outside of its bounds.

    Examples
    --------
    >>> from pastmaster import TabularMDP, keep
    >>> task = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
    >>> estimate_cross_values([task], [[0, 0], [1, 1]], budget=2, rng=0).mean
    array([[1.  , 1.75]])
    >>> found = estimate_cross_values([task], {"stay": [0, 0], "go": [1, 1]}, budget=2, rng=0)
    >>> keep(found, k=1).policies
    ['go']
    """
    generator, seed = seeded(CALLER, rng)
    (task_names, tasks), (names, policies) = (
        with_names(f"{CALLER}: {kind}", given) for kind, given in (("tasks", tasks), ("policies", policies))
    )
    parallel.check_workers(CALLER, n_jobs, executor)
    tasks, own, progress = _checked_tasks(tasks), policies is None, flag(CALLER, "progress", progress)
    columns = _own_policies(tasks) if own else _checked_columns(policies)
    returns = _exact_returns(tasks, columns, own if paired is None else flag(CALLER, "paired", paired))
    aim = {"budget": budget, "allocation": allocation, "precision": precision, "confidence": confidence}
    estimation = _Estimation(returns, Ranges(tasks, bounds), generator.spawn(1)[0], clustering, **aim)
    seeds = generator.integers(2**63, size=len(tasks)).tolist()
    folder = None if save is None else parallel.saving_folder(CALLER, save)
    with closing(EpisodeRunner(tasks, columns, seeds, folder, n_jobs, executor, progress)) as runner:
        found = estimation.run(runner)
    called = tuple(task_names) or tuple(task.name for task in tasks)
    own_names = called if own else tuple(p.name if isinstance(p, NetworkPolicy | OnnxPolicy) else "" for p in columns)
    return replace(found, seed=seed, tasks=called, policies=tuple(names) or own_names)


def _own_policies(tasks: list[Task]) -> list[Policy]:
    """The optimal policies of tasks that have a model."""
    models = [task if isinstance(task, TabularMDP) else task.table for task in tasks]
    if None in models:
        i = models.index(None)
        raise InvalidInputError(
            f"{CALLER}: policies is None, must be given: tasks[{i}] ({tasks[i].name}) has no model to solve"
        )
    return [solve(model) for model in models if model is not None]


def _checked_tasks(tasks: Any) -> list[Task]:
    found = listed_tasks(f"{CALLER}: tasks", tasks)
    for i, task in enumerate(found):
        if not isinstance(task, Task):
            raise not_a_task(f"{CALLER}: tasks[{i}]", task)
        if task.horizon is None:
            raise InvalidInputError(f"{CALLER}: tasks[{i}] has no horizon, must have one: an episode may never end")
    if not found:
        raise InvalidInputError(f"{CALLER}: tasks is empty, must hold at least one")
    return found


def _checked_columns(policies: Any) -> list[Policy]:
    columns = listed_policies(f"{CALLER}: policies", policies)
    found = [as_policy(p, f"{CALLER}: policies[{j}]") for j, p in enumerate(columns)]
    if not found:
        raise InvalidInputError(f"{CALLER}: policies is empty, must hold at least one")
    return found


def _exact_returns(tasks: list[Task], columns: list[Policy], paired: bool) -> Returns:
    """No episodes yet, but the values of entries whose episodes are all the same; tables are checked to fit."""
    if paired and len(tasks) != len(columns):
        raise InvalidInputError(f"{CALLER}: paired is True, must be False: {len(tasks)} tasks, {len(columns)} policies")
    _check_columns(tasks, columns)
    exact = np.outer(list(map(has_one_episode, tasks)), list(map(is_certain_table, columns)))
    returns = Returns(exact, paired)
    for i, task in enumerate(tasks):
        some = np.flatnonzero(exact[i]).tolist()
        for j, value in zip(some, certain_values(task, [columns[j] for j in some]), strict=True):
            returns.add(i, j, np.array([value]))
    return returns


def _check_columns(tasks: list[Task], columns: list[Policy]) -> None:
    """Refuse a policy that does not fit a task; tables and networks are tried once in tasks of one kind."""
    seen: set[str] = set()
    for i, task in enumerate(tasks):
        kind = kind_of(task)
        some = [(j, column) for j, column in enumerate(columns) if kind not in seen or isinstance(column, OnnxPolicy)]
        for j, column in some:
            fitting_policy(column, task, f"{CALLER}: in tasks[{i}] policies[{j}]")
        seen.add(kind)


def _sealed_values(returns: Returns) -> CrossValues:
    """The mean returns, read-only."""
    U = CrossValues(returns.mean, paired=returns.paired)
    U.setflags(write=False)
    return U


def checked_question(options: Any, returns: Returns) -> tuple[Question, dict[str, Any]]:
    """What is asked for, and how the final search is to be done, from options of ``search_clusterings``."""
    options = mapping(options, f"{CALLER}: clustering", "options of search_clusterings, as a dict")
    unknown = sorted({as_name(name, f"{CALLER}: clustering") for name in options} - {*ASKED, *SEARCHED})
    if unknown:
        names, hint = one_line(", ".join(map(repr, unknown))), guess(unknown[0], (*ASKED, *SEARCHED))
        raise InvalidInputError(f"{CALLER}: clustering has {names}{hint}, must be of {', '.join((*ASKED, *SEARCHED))}")
    question = Question(**{name: options[name] for name in ASKED if name in options})
    n_tasks, n_policies = returns.exact.shape
    if not question.directed and not returns.paired:
        raise InvalidInputError(
            f"{CALLER}: clustering is of symmetric distances, must have 'directed': True, or say paired=True if policy "
            f"j is task j's own: the {n_policies} policies are not known to be the {n_tasks} tasks' own"
        )
    place = f"{CALLER}: clustering"
    question.check_asked(place)
    with_span = question.span is not None or question.episodes is None
    (question if with_span else replace(question, span=1.0)).check(place, n_tasks, n_policies)
    return question, {name: whole(place, name, options[name], at_least=1) for name in SEARCHED if name in options}


class _Estimation:
    """Rounds of episodes, and what is known after each."""

    def __init__(
        self, returns: Returns, ranges: Ranges, rng: np.random.Generator, clustering: Any, *, budget: Any,
        allocation: Any, precision: Any, confidence: Any,
    ) -> None:  # fmt: skip
        if allocation is None:
            allocation = "uniform" if clustering is None else "sequential"
        self.sequential = chosen(CALLER, "allocation", allocation, ("sequential", "uniform")) == "sequential"
        if self.sequential and clustering is None:
            raise InvalidInputError(
                f"{CALLER}: allocation is 'sequential' and clustering None, must be the options of a clustering, "
                "such as {'episodes': 10_000}: episodes go where they can change it"
            )
        self.confidence = within(CALLER, "confidence", confidence, 0.5, 1.0 - 1e-12)
        self.precision = None if precision is None else within(CALLER, "precision", precision, 0.0, np.inf)
        self.budget, least = whole(CALLER, "budget", budget, at_least=1), int(np.where(returns.exact, 1, FIRST).sum())
        if self.budget < least:
            must = f"at least {least}: {FIRST} for every entry of U"
            raise InvalidInputError(f"{CALLER}: budget is {budget}, must be {must}")
        self.asked: Question | None = None
        self.options: dict[str, Any] = {}  # of the final search
        if clustering is not None:
            self.asked, self.options = checked_question(clustering, returns)
        self.returns, self.ranges, self.rng, self.alpha = returns, ranges, rng, 1.0 - self.confidence
        self.rounds: list[Round] = []
        self.sampler: Allocation | None = None
        self.labels: IntArray | None = None
        self.found: Clustering | None = None

    def run(self, runner: EpisodeRunner) -> CrossValueEstimate:
        """Rounds until the precision is reached or the budget is spent."""
        returns = self.returns
        plan: LongArray = np.where(returns.exact, 0, FIRST)
        while True:
            if plan.any():
                runner.run(returns, plan)
            self.bounds = self.ranges.of(returns)
            if self.asked is not None:
                self.sampler = self.sampler or Allocation(self.question, self.rng)
                self.sampler.question = self.question
                self.labels = self.sampler.incumbent(returns, self.labels)
            spent = int(returns.counts.sum())
            self.rounds.append(Round(spent, self.labels))
            left = self.budget - spent
            if self._is_precise():
                return self._result("precision")
            if left < RUN:
                return self._result("budget")
            plan = self._plan(int(GROWTH * spent) if left > 2 * GROWTH * spent else left)
            if not plan.any():  # all entries are exact
                return self._result("budget")

    def _plan(self, size: int) -> LongArray:
        """The episodes of the next round."""
        if not self.sequential or self.sampler is None or self.labels is None:
            return evenly(self.returns, size)
        self.sampler.look(self.returns, self.labels)
        if self.precision is not None:
            made = self._made(self.labels)
            ahead = ahead_of_best(*entry_limits(self.returns, self.bounds, self.alpha / self.returns.counts.size))
            self.sampler.look_at_width(made, *kept_distances(self.returns, self.bounds, made, self.alpha), ahead)
        return self.sampler.plan(self.returns, size)

    @property
    def question(self) -> Question:
        """What is asked, with a span: that of the bounds, if none is given; running bounds change."""
        question = self.asked
        assert question is not None
        if question.episodes is None or question.span is not None:
            return question
        return replace(question, span=self.ranges.span(self.returns))

    def _is_precise(self) -> bool:
        if self.precision is None:
            return False
        widest = 2.0 * self.precision
        if self.labels is None:
            low, high = entry_limits(self.returns, self.bounds, self.alpha)
            return bool((high - low).max() <= widest)
        if self._width(self._made(self.labels)) > widest:
            return False
        self.found = self._searched()
        return self._width(self.found) <= widest

    def _width(self, clustering: Clustering) -> float:
        low, high = cost_interval(self.returns, self.bounds, clustering, self.alpha)
        return high - low

    def _made(self, labels: IntArray) -> Clustering:
        """The clustering that labels make of the tasks now."""
        question = self.question
        return Clustering.of(DistanceProblem(self.returns.distance(question.directed), question), labels)

    def _searched(self) -> Clustering:
        """The clustering that all episodes so far make, well searched for."""
        question = self.question
        distance, rng = self.returns.distance(question.directed), self.rng.spawn(1)[0]
        return search_clusterings(distance, rng=rng, **asdict(question), **self.options)

    def _result(self, stopped: Literal["precision", "budget"]) -> CrossValueEstimate:
        returns, bounds = self.returns, self.bounds
        low, high = entry_limits(returns, bounds, self.alpha)
        found, interval, agreement = None, None, None
        if self.sampler is not None:
            found = self._searched() if self.found is None or stopped == "budget" else self.found
            interval = cost_interval(returns, bounds, found, self.alpha)
            self.sampler.look(returns, found.labels)
            agreement = self.sampler.agreement
        return CrossValueEstimate(
            mean=_sealed_values(returns), low=sealed(low), high=sealed(high), episodes=sealed(returns.counts.copy()),
            confidence=self.confidence, bounds=sealed(bounds), bounds_from=self.ranges.sources, stopped=stopped,
            paired=returns.paired, clustering=found, cost_interval=interval, agreement=agreement,
            rounds=tuple(self.rounds), question=None if self.sampler is None else self.question, returns=returns,
        )  # fmt: skip
