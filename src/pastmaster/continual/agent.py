"""Continual-Transfer, the paper's Algorithm 4.

For each task of a stream: run T episodes of ``transfer`` with the current source policies, and with what these were
worth in the tasks before; store the task with its policy, solved exactly where the model is known, else the one that
was learned; after every J tasks cluster all stored tasks, and take the representatives' policies as sources from then
on. By default the policies of tasks met since are sources too: with what is known of old tasks they cost little, and a
new stream need not wait for its first J tasks.

All random numbers of task h come from a generator made of the stream's entropy and h alone, and a task is committed
together with its run. So an agent that was killed continues with the task it was at, and ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from inspect import signature
from itertools import chain, islice
from typing import Any

import numpy as np

from pastmaster import parallel
from pastmaster.checks import called_as, chosen, flag, known_options, listed, text, whole
from pastmaster.continual.events import Event, Hook, Reclustered, TaskDone
from pastmaster.continual.run import ContinualRun
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.generators import Rng, seeded
from pastmaster.repository import Repository, StoredRun, Stream
from pastmaster.repository.addition import DEFAULT_EPISODES
from pastmaster.repository.clusterings import checked_options
from pastmaster.repository.names import distinct_names
from pastmaster.repository.pins import KEEP, PINS, pinned_columns
from pastmaster.repository.streams import Sources
from pastmaster.reuse import transfer
from pastmaster.reuse.selector import Selector
from pastmaster.reuse.trial import SELECTORS
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, TabularMDP, Task
from pastmaster.values import Bounds, return_bounds, task_bounds
from pastmaster.values.bounds import checked_bounds
from pastmaster.values.given import not_a_task, several_tasks

BOUNDS_REMEDY = "pass bounds=(lower, upper) (--bounds), or tell the rewards of a step: GymTask(..., reward_range=)"
OWN_OPTIONS = {"task", "sources", "experience", "episodes", "rng", "bounds", "trials", "gamma", "horizon", "progress"}


class ContinualTransfer:
    """A lifelong agent: it meets task after task, reuses what the repository keeps, and stores what it learns.

    Run again after it was stopped, with the same arguments and tasks, it continues where it was. A wrong argument
    raises ``InvalidInputError`` before any task is met.

    Parameters
    ----------
    repository : Repository
        Where tasks, policies, runs and clusterings are stored. Tasks it holds already are used from the start.
    episodes, recluster_every : int
        T, the episodes of each task, and J: after every J tasks the repository is clustered.
    rng : int or numpy.random.Generator, optional
        A seed, or a generator, from which the stream's entropy is drawn once. By default a stream that was begun
        continues with its own, and a new one gets a fresh seed, which the result tells.
    sources : {"clusters", "all", "none"}
        The policies to reuse: those that are kept, all of them, or none (learning alone). By default the policies of
        tasks stored since the last choice are sources too, unless they were learned; where ``clustering`` is given, the
        kept ones alone.
    bounds : tuple of float, optional
        The least and the greatest return of an episode; by default those of the stored tasks. They must be given
        where tasks have no model and no known range of rewards.
    model : bool
        Whether to solve tasks that have a model. If not, their learned policies are stored.
    evaluation_episodes : int, optional
        How many episodes value a learned policy in a task: 30 by default.
    clustering, n_jobs, executor : mapping, optional, int, and concurrent.futures.Executor, optional
        How to choose what is kept. By default ``Repository.keep`` does, at the price at which stored tasks, left out,
        earn most (``price="measured"``). ``{"k": 3, "must_keep": "ppo.zip"}`` pins what you have settled: ``k``,
        ``max_loss`` or ``price``, and ``must_keep`` and ``never_keep``, by name. With arguments for
        ``Repository.cluster``, or with a selector that takes no experience, the paper's cost decides: ``{"method":
        "search"}`` is the paper's, with symmetric distances; its walks run on so many workers, or on those of an
        executor.
    name : str
        The stream's name: a repository can hold several.
    hooks : iterable of callables
        Called with every ``TaskDone`` and ``Reclustered`` event, after it is committed.
    **transfer_options
        Arguments for ``transfer``: ``selector``, ``learner``, ``share``, ``on_violation`` ("widen" by default) ...
        The default selector, "informed", knows what the sources were worth in every stored task
        (``Repository.experience``); another one is used without that.

    Examples
    --------
    >>> import tempfile
    >>> from pastmaster import ContinualTransfer, Repository
    >>> from pastmaster.domains import windy_corridor
    >>> with tempfile.TemporaryDirectory() as folder, Repository(f"{folder}/agent.db") as repository:
    ...     agent = ContinualTransfer(repository, episodes=20, recluster_every=2, rng=0)
    ...     run = agent.run(windy_corridor.family()[:3])
    >>> run.returns.shape, run.n_sources.tolist(), run.reclustered
    ((3, 20), [0, 1, 1], [2])
    """

    def __init__(
        self,
        repository: Repository,
        *,
        episodes: int,
        recluster_every: int,
        rng: Rng = None,
        sources: Sources = "clusters",
        bounds: tuple[float, float] | None = None,
        model: bool = True,
        evaluation_episodes: int | None = None,
        clustering: Mapping[str, Any] | None = None,
        name: str = "continual",
        hooks: Iterable[Hook] = (),
        n_jobs: int = 1,
        executor: Executor | None = None,
        **transfer_options: Any,
    ) -> None:
        caller = "ContinualTransfer"
        if not isinstance(repository, Repository):
            raise InvalidInputError(f"{caller}: repository is {shown(repository)}, must be a Repository")
        if not 0 < len(text(caller, "name", name)) <= 200:
            raise InvalidInputError(f"{caller}: name is {shown(name)}, must be a text of 1 to 200 letters")
        parallel.check_workers(caller, n_jobs, executor)
        self.repository, self.name = repository, name
        self.n_jobs, self.executor = n_jobs, executor
        self.hooks = listed(hooks, f"{caller}: hooks")
        if wrong := [hook for hook in self.hooks if not callable(hook)]:
            raise InvalidInputError(f"{caller}: hooks holds {shown(wrong[0])}, must hold functions of an event")
        own = set(signature(ContinualTransfer).parameters) - {"transfer_options"}
        known_options(caller, transfer_options, (set(signature(transfer).parameters) - OWN_OPTIONS) | own)
        self.options = {"on_violation": "widen"} | transfer_options
        self.episodes = whole(caller, "episodes", episodes, at_least=1)
        self.recluster_every = whole(caller, "recluster_every", recluster_every, at_least=1)
        chosen(caller, "sources", sources, ("clusters", "all", "none"))
        self.sources, self.model = sources, flag(caller, "model", model)
        self.bounds = None if bounds is None else checked_bounds(caller, bounds)
        if evaluation_episodes is not None:
            evaluation_episodes = whole(caller, "evaluation_episodes", evaluation_episodes, at_least=2)
        self.evaluation_episodes = evaluation_episodes
        self.clustering = checked_options(caller, clustering, self.recluster_every if sources == "clusters" else None)
        generator, self.seed = seeded(caller, rng)
        self._entropy = [int(word) for word in generator.integers(2**63, size=2)]
        self._given_rng = rng is not None
        informed = takes_experience(self.options.get("selector"))
        # whether the price of a policy is measured, and new policies are sources at once
        self._measures = informed and not self.clustering

    def run(self, stream: Task | Iterable[Task]) -> ContinualRun:
        """Meet the tasks of a stream, all of one family; returns the run, with the tasks of earlier calls.

        A stream that was stopped must be given the tasks it began with. These are not run again, and hooks are called
        for them with ``replayed`` set. ``InvalidInputError`` if a task is of another family, or the stream of this name
        began with other tasks or settings.
        """
        tasks: Iterator[Any] = several_tasks("ContinualTransfer.run: stream", stream)
        for first in islice(tasks, 1):  # before anything is stored
            self._check_task(first, 0)
            tasks = chain([first], tasks)
        if not self.clustering.keys().isdisjoint(PINS):
            pinned_columns("ContinualTransfer", self.repository.policy_records(), self.clustering)
        stored = self._stored()
        runs, clusterings = stored.runs(), stored.clusterings()
        for run in runs:
            self._check_same(run, next(tasks, None))
            if run.position in clusterings:
                self._tell(Reclustered.of(clusterings[run.position], replayed=True))
            self._tell(TaskDone.of(run, replayed=True))
        met = len(runs)
        if met in clusterings:
            self._tell(Reclustered.of(clusterings[met], replayed=True))
        elif met:
            self._recluster(stored, met)
        for task in tasks:
            self._check_task(task, met)
            if met == 0 and not self.repository.clusterings() and len(self.repository):
                self._recluster(stored, 0)
            self._meet(stored, met, task)
            met += 1
            self._recluster(stored, met)
        return ContinualRun.of(stored.runs(), self.episodes, sorted(stored.clusterings()), self.seed)

    def _stored(self) -> Stream:
        """The stream, found or begun; without an ``rng`` it continues with the entropy it was begun with."""
        drawn = {"entropy": self._entropy}
        fresh = drawn | {"seed": self.seed}
        stored = self.repository.stream(self.name, self._settings() | (drawn if self._given_rng else {}), fresh)
        if not self._given_rng:
            self._entropy, self.seed = stored.settings["entropy"], stored.settings.get("seed")
        return stored

    def _meet(self, stored: Stream, position: int, task: Task) -> None:
        """One task: transfer, then commit task, policy and run together."""
        sources = stored.sources(self.sources, with_new=self._measures)
        run = transfer(
            task, self._named(sources), episodes=self.episodes, bounds=self._bounds(task, position, bool(sources)),
            rng=self._generator(position, 0), **self._reuse(list(sources)),
        )  # fmt: skip
        solved = self.model and isinstance(task, TabularMDP)
        if not solved and callable(run.policy):
            wanted = "must be an array or a NetworkPolicy"
            raise InvalidInputError(f"ContinualTransfer.run: the learner's policy is a function, {wanted}")
        episodes = None if solved else self.evaluation_episodes or DEFAULT_EPISODES
        self._tell(TaskDone.of(stored.commit(position, task, run, episodes=episodes)))

    def _reuse(self, sources: list[int]) -> dict[str, Any]:
        """How ``transfer`` chooses among the policies of these ids: where it can, by what they were worth before."""
        options = self.options
        if not takes_experience(options.get("selector")):
            return options
        if sources:
            return options | {"experience": self.repository.experience(sources)}
        return {name: value for name, value in options.items() if name != "selector"}

    def _check_task(self, task: Any, position: int) -> None:
        """Refuse what is no task, or a task of another family."""
        if not isinstance(task, Task):
            raise not_a_task(f"ContinualTransfer.run: task {position}", task)
        with called_as("ContinualTransfer.run"):
            self.repository.check_family(task)

    def _named(self, sources: Mapping[int, Any]) -> dict[str, Any]:
        """Source policies by name."""
        names = distinct_names(self.repository.policy_records(list(sources)))
        return dict(zip(names, sources.values(), strict=True))

    def _bounds(self, task: Task, position: int, choosing: bool) -> Bounds:
        """The given bounds, or those of the stored tasks; with no sources to choose from, those of the task."""
        if self.bounds is not None:
            return self.bounds
        if choosing:
            try:
                return self.repository.return_bounds()
            except RepositoryError as error:
                raise InvalidInputError(
                    f"ContinualTransfer: bounds is None, must be given: {error}; {BOUNDS_REMEDY}"
                ) from None
        if isinstance(task, GymTask):
            known = task_bounds(task)
        elif self.model:  # without a discount the paper has no bounds
            known = return_bounds(task, kind="paper" if task.gamma < 1.0 else "exact")
        else:
            known = None
        if known is None:
            why = f"task {position} of the stream is met without a model"
            raise InvalidInputError(f"ContinualTransfer: bounds is None, must be given: {why}; {BOUNDS_REMEDY}")
        return known.with_span()

    def _generator(self, position: int, use: int) -> np.random.Generator:
        """The generator for one use at one place of the stream."""
        return np.random.default_rng([*self._entropy, position, use])

    def _recluster(self, stored: Stream, met: int) -> None:
        """Cluster if it is due after so many tasks."""
        if self.sources != "clusters" or met % self.recluster_every:
            return
        options: dict[str, Any] = dict(self.clustering)
        if self._measures or options.get("method") == KEEP:
            options.pop("method", None)
            choose = stored.keep
        else:
            if options.get("method") != "greedy":
                options = {"n_jobs": self.n_jobs, "executor": self.executor} | options
            if self.bounds is not None:
                options = {"span": self.bounds.span} | options
            choose = stored.cluster
        record = choose(met, episodes=self.episodes, rng=self._generator(met, 1), **options)
        self._tell(Reclustered.of(record))

    def _check_same(self, run: StoredRun, task: Task | None) -> None:
        """A resumed stream begins with the tasks it began with."""
        if not run.is_of(task):
            got = repr(task.name) if isinstance(task, Task) else "not there" if task is None else repr(task)
            raise InvalidInputError(
                f"ContinualTransfer.run: task {run.position} of the stream is {got}, must be {shown(run.name)} as when "
                f"the stream {shown(self.name)} was begun: pass the earlier tasks too, new ones at the end, or another "
                "name to begin another stream"
            )

    def _settings(self) -> dict[str, Any]:
        """The settings on which the bits of a run depend."""
        return {
            "episodes": self.episodes,
            "recluster_every": self.recluster_every,
            "sources": self.sources,
            "bounds": None if self.bounds is None else list(self.bounds),
            "model": self.model,
            "evaluation_episodes": self.evaluation_episodes,
            "transfer": self.options,
            "clustering": self.clustering,
        }

    def _tell(self, event: Event) -> None:
        for hook in self.hooks:
            hook(event)


def takes_experience(selector: Any) -> bool:
    """Whether a selector, as ``transfer`` is given it, chooses by what sources were worth in other tasks."""
    if selector is None:
        return True
    made = selector.func if isinstance(selector, partial) else selector
    made = SELECTORS.get(made) if isinstance(made, str) else made
    return isinstance(made, type) and issubclass(made, Selector) and made.informed
