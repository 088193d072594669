"""Continual-Transfer, the paper's Algorithm 4.

For each task of a stream: run T episodes of ``transfer`` with the current source policies; store the task with its
policy, solved exactly where the model is known, else the one that was learned; after every J tasks cluster all that is
stored, and take the representatives' policies as sources from then on.

Everything random in task h comes from a generator made of the stream's entropy and h alone, and a task is committed
together with its run. So an agent that is killed goes on with the task it was at, and ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from pastmaster.checks import whole
from pastmaster.continual.events import Event, Hook, Reclustered, TaskDone
from pastmaster.continual.run import ContinualRun
from pastmaster.continual.settings import check_transfer_options, checked_clustering, described, rehearse
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.generators import checked_rng
from pastmaster.repository import Repository
from pastmaster.repository.addition import DEFAULT_EPISODES
from pastmaster.repository.records import Task, task_row
from pastmaster.repository.store import UNRECORDED
from pastmaster.repository.streams import StoredRun, open_stream, run_row, stored_runs
from pastmaster.reuse import TransferRun, transfer
from pastmaster.reuse.selector import checked_bounds
from pastmaster.tasks import GymTask
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import Bounds, return_bounds, task_bounds

Sources = Literal["clusters", "all", "none"]


class ContinualTransfer:
    """A lifelong agent over a repository.

    ``episodes`` is T, ``recluster_every`` is J. ``sources``: the policies the "clusters" keep (the paper's), "all" of
    them, or "none" (learning alone). ``bounds`` on an episode's return are those of the stored tasks unless declared;
    they must be where tasks have no model. ``model=False`` uses no model even of tasks that have one: their learned
    policies are kept, valued by ``evaluation_episodes`` episodes each. ``selector``, ``learner``, ``share`` and
    ``on_violation`` go to ``transfer``, ``clustering`` to ``Repository.cluster``. ``name`` tells the streams of one
    repository apart. ``hooks`` are called with every event.
    """

    def __init__(
        self,
        repository: Repository,
        *,
        episodes: int,
        recluster_every: int,
        rng: np.random.Generator,
        sources: Sources = "clusters",
        bounds: tuple[float, float] | None = None,
        model: bool = True,
        evaluation_episodes: int | None = None,
        clustering: Mapping[str, Any] | None = None,
        name: str = "continual",
        hooks: Iterable[Hook] = (),
        n_jobs: int = 1,
        **transfer_options: Any,
    ) -> None:
        caller = "ContinualTransfer"
        if not isinstance(repository, Repository):
            raise InvalidInputError(f"{caller}: repository is {repository!r}, must be a Repository")
        if sources not in ("clusters", "all", "none"):
            raise InvalidInputError(f"{caller}: sources is {sources!r}, must be 'clusters', 'all' or 'none'")
        if not isinstance(name, str) or not 0 < len(name) <= 200:
            raise InvalidInputError(f"{caller}: name is {name!r}, must be a text of 1 to 200 letters")
        check_transfer_options(caller, transfer_options)
        self.repository, self.name, self.n_jobs, self.hooks = repository, name, n_jobs, list(hooks)
        for hook in self.hooks:
            if not callable(hook):
                raise InvalidInputError(f"{caller}: hooks holds {hook!r}, must hold functions of an event")
        self.episodes = whole(caller, "episodes", episodes, at_least=1)
        self.recluster_every = whole(caller, "recluster_every", recluster_every, at_least=1)
        self.sources, self.model = sources, bool(model)
        self.bounds = None if bounds is None else checked_bounds(caller, bounds)
        if evaluation_episodes is not None:
            evaluation_episodes = whole(caller, "evaluation_episodes", evaluation_episodes, at_least=2)
        self.evaluation_episodes = evaluation_episodes
        self.clustering = checked_clustering(caller, clustering)
        if self.clustering and sources == "clusters":
            rehearse(caller, self.clustering, self.recluster_every)
        self.options = {"on_violation": "widen"} | transfer_options
        self._entropy = [int(word) for word in checked_rng(caller, rng).integers(2**63, size=2)]

    def run(self, stream: Iterable[Task]) -> ContinualRun:
        """Meet the tasks of a stream, after those it has met already; they must be the same as then."""
        stream_id = open_stream(self.repository.database, self.name, self._settings())
        tasks = iter(stream)
        past = stored_runs(self.repository.database, stream_id)
        clusterings = self._past_clusterings(stream_id)
        for run in past:
            self._check_same(run, next(tasks, None))
            if run.position in clusterings:
                self._tell(clusterings[run.position])
            self._tell(TaskDone.of(run, replayed=True))
        met = len(past)
        if met in clusterings:
            self._tell(clusterings[met])
        elif met:
            self._recluster(stream_id, met)
        for task in tasks:
            if met == 0:
                self._cluster_what_is_there(stream_id)
            self._meet(stream_id, met, task)
            met += 1
            self._recluster(stream_id, met)
        runs, reclustered = stored_runs(self.repository.database, stream_id), sorted(self._past_clusterings(stream_id))
        return ContinualRun.of(runs, self.episodes, reclustered)

    def _meet(self, stream_id: int, position: int, task: Task) -> None:
        """One task: transfer, then commit task, policy and run together."""
        if not isinstance(task, Task):
            raise InvalidInputError(
                f"ContinualTransfer.run: task {position} is a {type(task).__name__}, must be a TabularMDP or a GymTask"
            )
        self.repository.check_family(task)
        ids, sources = self._current_sources()
        run = transfer(
            task, sources, episodes=self.episodes, bounds=self._bounds(task, position, bool(sources)),
            rng=self._generator(position, 0), **self.options,
        )  # fmt: skip
        if self.model and isinstance(task, TabularMDP):
            addition = self.repository.addition(task)
        else:
            addition = self.repository.addition(task, _storable(run), "learned", self._evaluations())
        row = run_row(run, ids) | {"stream_id": stream_id, "position": position}
        self.repository.store(addition, row)
        self._tell(TaskDone.of(stored_runs(self.repository.database, stream_id, position)[0], replayed=False))

    def _evaluations(self) -> int:
        """Episodes to value a policy in a task whose model is not to be used."""
        return DEFAULT_EPISODES if self.evaluation_episodes is None else self.evaluation_episodes

    def _current_sources(self) -> tuple[list[int], list[Any]]:
        """Ids and policies of the current sources."""
        if self.sources == "none":
            return [], []
        if self.sources == "clusters":
            return self.repository.numbered_sources()
        policies = self.repository.policies()
        numbered = dict(zip(policies.ids, policies, strict=True))
        return list(numbered), list(numbered.values())

    def _bounds(self, task: Task, position: int, choosing: bool) -> Bounds:
        """The declared bounds, or those of the stored tasks; where there is nothing to choose any that hold will do."""
        if self.bounds is not None:
            return self.bounds
        try:
            if choosing:
                return self.repository.return_bounds()
            if isinstance(task, TabularMDP) and self.model:
                return return_bounds(task, kind="paper").with_span()
            if isinstance(task, GymTask) and (found := task_bounds(task)) is not None:
                return found.with_span()
        except RepositoryError as error:
            raise InvalidInputError(f"ContinualTransfer: bounds is None, must be given: {error}") from None
        raise InvalidInputError(
            f"ContinualTransfer: bounds is None, must be given: task {position} of the stream is met without a model"
        )

    def _generator(self, position: int, use: int) -> np.random.Generator:
        """The generator for one use at one place of the stream."""
        return np.random.default_rng([*self._entropy, position, use])

    def _cluster_what_is_there(self, stream_id: int) -> None:
        """Begin with what the repository holds, clustered if it was not."""
        if self.sources == "clusters" and len(self.repository) and not self.repository.clusterings():
            self._cluster(stream_id, 0)

    def _recluster(self, stream_id: int, met: int) -> None:
        if self.sources == "clusters" and met % self.recluster_every == 0:
            self._cluster(stream_id, met)

    def _cluster(self, stream_id: int, met: int) -> None:
        span: dict[str, Any] = {} if self.bounds is None else {"span": self.bounds.span}
        jobs = {} if self.clustering.get("method") == "greedy" else {"n_jobs": self.n_jobs}
        self.repository.cluster(
            episodes=self.episodes, rng=self._generator(met, 1), stream=(stream_id, met),
            **span, **jobs | self.clustering,
        )  # fmt: skip
        self._tell(self._past_clusterings(stream_id, replayed=False)[met])

    def _past_clusterings(self, stream_id: int, replayed: bool = True) -> dict[int, Reclustered]:
        """The clusterings of this stream, by how many tasks had been met."""
        found = {}
        for record in self.repository.clusterings():
            if record.stream is not None and record.stream[0] == stream_id:
                result, met = record.result, record.stream[1]
                numbers = result["n_tasks"], result["n_clusters"], result["cost"], result["mean_radius"]
                found[met] = Reclustered(met, *numbers, replayed)
        return found

    def _check_same(self, run: StoredRun, task: Task | None) -> None:
        """A resumed stream begins with the tasks it began with."""
        if not isinstance(task, Task) or task_row(task)[0]["digest"] != run.task_digest:
            got = repr(task.name) if isinstance(task, Task) else "not there" if task is None else repr(task)
            raise InvalidInputError(
                f"ContinualTransfer.run: task {run.position} of the stream is {got}, must be {run.name!r} as when "
                f"the stream {self.name!r} was begun; pass another name (--name) to begin another"
            )

    def _settings(self) -> dict[str, Any]:
        """All that the bits of a run depend on, as plain values."""
        options = {key: described(value) for key, value in sorted(self.options.items()) if key not in UNRECORDED}
        clustering = {key: described(value) for key, value in sorted(self.clustering.items()) if key not in UNRECORDED}
        return {
            "entropy": self._entropy,
            "episodes": self.episodes,
            "recluster_every": self.recluster_every,
            "sources": self.sources,
            "bounds": None if self.bounds is None else list(self.bounds),
            "model": self.model,
            "evaluation_episodes": self.evaluation_episodes,
            "transfer": options,
            "clustering": clustering,
        }

    def _tell(self, event: Event) -> None:
        for hook in self.hooks:
            hook(event)


def _storable(run: TransferRun) -> Any:
    """The learner's policy, as it can be stored."""
    if callable(run.policy):
        raise InvalidInputError(
            "ContinualTransfer: the learner's policy is a function, must be an array or a NetworkPolicy to be stored"
        )
    return run.policy
