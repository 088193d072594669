"""``Repository``: the tasks an agent has met, their policies, what each is worth in each task, and which to keep.

A repository is a file (SQLite) or a database on a server (PostgreSQL). Every change is one transaction: killed at any
moment, it reopens to the last change that was acknowledged. Opening reads nothing; tasks, policies and values are read
when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import FloatArray
from pastmaster.checks import whole
from pastmaster.clustering import Clustering, greedy_clustering, search_clusterings
from pastmaster.errors import InvalidInputError, RepositoryError
from pastmaster.repository import archive, rows
from pastmaster.repository.addition import Addition, check_family
from pastmaster.repository.check import Damage, find_damage
from pastmaster.repository.clusterings import ClusteringRecord, clustering_row
from pastmaster.repository.database import Database
from pastmaster.repository.forgetting import forget_damaged, forget_task
from pastmaster.repository.lazy import Lazy
from pastmaster.repository.memory import Memory, policy_memory, task_memory
from pastmaster.repository.records import Stored, Task, TaskRecord, plain
from pastmaster.repository.schema import (
    RECORDS,
    clusterings as clusterings_table,
    policies as policies_table,
    tasks as tasks_table,
)
from pastmaster.repository.streams import StoredRun, run_row, stored_runs
from pastmaster.repository.worth import read_matrix
from pastmaster.reuse import TransferRun
from pastmaster.values import Bounds, policy_distance

Thing = TypeVar("Thing")
UNRECORDED = ("n_jobs", "backend", "save", "progress")  # options on which no result depends
METHODS: dict[str, Callable[..., Clustering]] = {"search": search_clusterings, "greedy": greedy_clustering}


class Repository:
    """The tasks and policies at a path, or at a URL like ``postgresql://user@host/name``.

    ``create`` makes the database where there is none; an older one is brought up to date, a newer one refused.
    """

    def __init__(self, url_or_path: str | Path, *, create: bool = True) -> None:
        self.database = Database(url_or_path, create=create)
        self._tasks, self._policies = task_memory(), policy_memory()

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        return self.database.place

    def add(
        self,
        task: Task,
        policy: Any = None,
        *,
        provenance: str | None = None,
        evaluation_episodes: int | None = None,
        run: TransferRun | None = None,
    ) -> int:
        """Store a task and its policy, with what they are worth to the others; returns the task's id.

        Without ``policy`` the task is solved. ``provenance`` is "solved", "learned" or "imported" (a policy that is
        given, unless told). Only the task's row of U and the policy's column are computed, exactly by the tasks'
        models; in a task without one, or where ``evaluation_episodes`` is given, as the mean of so many episodes (30).
        A task that is there already keeps its id; its policy is replaced if the one given is better in it. ``run``,
        what ``transfer`` did on the task, is stored with it: the returns and arms of its best trial.
        """
        addition = Addition(self._tasks, self._policies, task, policy, provenance, evaluation_episodes)
        return self.store(addition, None if run is None else run_row(run, []))

    def store(self, addition: Addition, run: rows.Row | None = None) -> int:
        """Commit an addition, with the run that led to it: valued first, then stored in one short transaction."""
        addition.prepare(self.database)
        number = self.database.write(lambda connection: addition.insert(connection, run))
        addition.remember()
        return number

    def addition(self, *arguments: Any) -> Addition:
        """A task and policy prepared for ``store``."""
        return Addition(self._tasks, self._policies, *arguments)

    def replace_policy(self, number: int, policy: Any, *, provenance: str = "imported") -> None:
        """Give a task another policy of its own, better or not; its column of U takes the old one's place."""
        number = _id(number)
        if policy is None:
            raise InvalidInputError("Repository.replace_policy: policy is None, must be given")
        valued = self.database.read(lambda connection: self._tasks.get(connection, [number]))[0]
        addition = self.addition(valued.task, policy, provenance, valued.episodes)
        addition.prepare(self.database, known=True)

        def install(connection: sa.Connection) -> None:
            addition.numbers.clear()
            task = rows.fetch(connection, "tasks", [number])[0]
            own = rows.fetch(connection, "policies", [task["own_policy"]])[0]
            if own["digest"] != addition.policy_row["digest"]:
                addition.install(connection, task)

        self.database.write(install)
        addition.remember()

    def remove(self, *numbers: int) -> None:
        """Forget tasks, and their policies unless others go by them. Their runs stay, without a task."""
        gone = list(dict.fromkeys(_id(number) for number in numbers))

        def forget(connection: sa.Connection) -> None:
            for number in gone:
                forget_task(connection, self._policies, number)

        self.database.write(forget)
        for number in gone:
            self._tasks.forget(number)

    def remove_damaged(self) -> list[Damage]:
        """Forget every record that ``check`` names, and what cannot be without it; returns what it found."""
        found = self.check()
        self.database.write(lambda connection: forget_damaged(connection, self._policies, found))
        self._tasks, self._policies = task_memory(), policy_memory()
        return found

    def check_family(self, task: Task) -> None:
        """Refuse a task that does not share states, actions and gamma with those there."""
        self.database.read(lambda connection: check_family(connection, task))

    def __len__(self) -> int:
        return self._count("tasks")

    def records(self) -> list[TaskRecord]:
        """What is known of every task, in order of id, without reading the tasks themselves."""
        return [TaskRecord.of(row) for row in self._rows("tasks")]

    def record(self, number: int) -> TaskRecord:
        """What is known of the task of this id."""
        return TaskRecord.of(self.database.read(lambda connection: rows.fetch(connection, "tasks", [_id(number)]))[0])

    def task(self, number: int) -> Task:
        """The task of this id."""
        return self._task_list([_id(number)])[0]

    def policy(self, number: int) -> Stored:
        """The policy of this id."""
        return self._policy_list([_id(number)])[0]

    def tasks(self) -> Lazy[Task]:
        """All tasks in order of id, each read when it is looked at."""
        return Lazy(self.database.read(lambda c: rows.numbers(c, "tasks")), self._task_list)

    def policies(self) -> Lazy[Stored]:
        """The policy of record of each task, in the order of ``tasks()``, each read when it is looked at."""
        return Lazy([record.policy_of_record for record in self.records()], self._policy_list)

    def cross_values(self) -> FloatArray:
        """U [N, N]: what the policy of record of task j is worth in task i, in the order of ``tasks()``."""
        return self._matrix()[2]

    def return_bounds(self) -> Bounds:
        """Bounds on the return of an episode of any policy in any of the tasks."""
        bounds = [(record.id, record.bounds) for record in self.records()]
        if not bounds:
            raise RepositoryError(f"{self.place} holds no tasks yet, so their returns have no bounds")
        if unknown := [number for number, bound in bounds if bound is None]:
            raise RepositoryError(
                f"task {unknown[0]} is valued without a model: declare bounds on its returns, or its reward_range"
            )
        return Bounds(min(b.lower for _, b in bounds if b), max(b.upper for _, b in bounds if b))

    def cluster(
        self,
        *,
        rng: np.random.Generator,
        episodes: int | None = None,
        span: float | None = None,
        directed: bool = False,
        method: str = "search",
        stream: tuple[int, int] | None = None,
        **options: Any,
    ) -> Clustering:
        """Find the few policies that stand for all, and keep the answer with its parameters and certificate.

        ``episodes`` is what a new task will get, ``span`` the width of the return's bounds, those of the tasks unless
        given. ``options`` go to ``search_clusterings`` (or ``greedy_clustering``). ``stream`` is a lifelong agent's
        stream and position.
        """
        if method not in METHODS:
            raise InvalidInputError(f"Repository.cluster: method is {method!r}, must be one of {', '.join(METHODS)}")
        tasks, policies, U = self._matrix()
        if not tasks:
            raise RepositoryError(f"{self.place} holds no tasks yet, so there is nothing to cluster")
        if episodes is not None and span is None:
            span = self.return_bounds().span or 1.0  # where all returns are equal any span gives the same answer
        distance = policy_distance(U, directed=directed, paired=True)
        asked = {name: value for name, value in options.items() if name not in UNRECORDED}
        settings = plain(asked, "Repository.cluster: options") | {
            "directed": directed,
            "episodes": episodes,
            "span": span,
            "method": method,
        }
        found = METHODS[method](distance, episodes=episodes, span=span, rng=rng, directed=directed, **options)
        if found.interrupted and stream is not None:  # a lifelong agent's bits must not depend on when it was stopped
            raise KeyboardInterrupt
        row, arrays = clustering_row(found, tasks, policies, settings, stream)

        def keep(connection: sa.Connection) -> None:
            if stream is None or not any(record.stream == stream for record in self._clusterings(connection)):
                rows.insert(connection, "clusterings", row, arrays)

        self.database.write(keep)
        return found

    def clusterings(self) -> list[ClusteringRecord]:
        """Every clustering found so far, the latest last."""
        return self.database.read(self._clusterings)

    def clustering(self) -> Clustering | None:
        """The latest clustering, over the tasks there were then; None if there is none."""

        def read(connection: sa.Connection) -> Clustering | None:
            latest = _latest(connection)
            return None if latest is None else latest.read(connection)

        return self.database.read(read)

    def cells(self) -> dict[int, int]:
        """The cell of each task in the latest clustering, by its id; none of those added since."""

        def read(connection: sa.Connection) -> dict[int, int]:
            latest = _latest(connection)
            return {} if latest is None else latest.cells(connection)

        return self.database.read(read)

    def numbered_sources(self) -> tuple[list[int], list[Stored]]:
        """The ids of the source policies, and the policies."""

        def kept(connection: sa.Connection) -> tuple[list[int], list[Stored]]:
            latest = _latest(connection)
            if latest is None:
                return [], []
            tasks, policies = latest.kept(connection)
            found = rows.fetch_where(connection, "tasks", tasks_table.c.id.in_(tasks))
            now = {row["id"]: row["policy_of_record"] for row in found}
            ids = policies if latest.settings["directed"] else [now.get(task, -1) for task in tasks]
            there = {
                row["id"]: row["digest"]
                for row in rows.fetch_where(connection, "policies", policies_table.c.id.in_(ids))
            }
            distinct = {there[number]: number for number in reversed(ids) if number in there}
            numbers = list(distinct.values())[::-1]
            return numbers, self._policies.get(connection, numbers)

        return self.database.read(kept)

    def source_ids(self) -> list[int]:
        """The ids of the policies of ``sources``."""
        return self.numbered_sources()[0]

    def sources(self) -> list[Stored]:
        """The policies that the latest clustering keeps: of record in its representatives now, none of them twice."""
        return self.numbered_sources()[1]

    def runs(self) -> list[StoredRun]:
        """Every run that was stored with a task, in order."""
        return stored_runs(self.database)

    def check(self) -> list[Damage]:
        """Every record read and every checksum verified; what is damaged, by name."""
        return find_damage(self.database)

    def export(self, folder: str | Path) -> Path:
        """Everything, as a folder of .npy files and ``manifest.json``."""
        return archive.export(self.database, Path(folder))

    def import_(self, folder: str | Path) -> int:
        """Read an exported folder into this repository, which must be empty; returns the number of tasks."""
        return archive.import_(self.database, Path(folder))

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Repository({self.place}: {self._count('tasks')} tasks, {self._count('policies')} policies)"

    def _count(self, table: str) -> int:
        query = sa.select(sa.func.count()).select_from(RECORDS[table])
        return int(self.database.read(lambda connection: connection.execute(query).scalar() or 0))

    def _rows(self, table: str) -> list[rows.Row]:
        return self.database.read(lambda connection: rows.fetch(connection, table))

    def _task_list(self, numbers: list[int]) -> list[Task]:
        return [valued.task for valued in self._there(self._tasks, numbers)]

    def _policy_list(self, numbers: list[int]) -> list[Stored]:
        return self._there(self._policies, numbers)

    def _there(self, memory: Memory[Thing], numbers: list[int]) -> list[Thing]:
        """Things of a memory, unless another process has removed them."""

        def get(connection: sa.Connection) -> list[Thing]:
            rows.require(connection, memory.table, numbers)
            return memory.get(connection, numbers)

        return self.database.read(get)

    def _matrix(self) -> tuple[list[int], list[int], FloatArray]:
        """Ids of the tasks and of their policies of record, and U."""

        def read(connection: sa.Connection) -> tuple[list[int], list[int], FloatArray]:
            found = rows.fetch(connection, "tasks")
            tasks, policies = [row["id"] for row in found], [row["policy_of_record"] for row in found]
            distinct = list(dict.fromkeys(policies))
            columns = {number: j for j, number in enumerate(distinct)}
            U = read_matrix(connection, tasks, distinct)
            return tasks, policies, U[:, [columns[number] for number in policies]]

        return self.database.read(read)

    def _clusterings(self, connection: sa.Connection) -> list[ClusteringRecord]:
        return [ClusteringRecord.of(row) for row in rows.fetch(connection, "clusterings")]


def _latest(connection: sa.Connection) -> ClusteringRecord | None:
    """The clustering found last."""
    columns = clusterings_table.c
    last = sa.select(sa.func.max(columns.id)).scalar_subquery()
    found = rows.fetch_where(connection, "clusterings", columns.id == last)
    return ClusteringRecord.of(found[0]) if found else None


def _id(number: Any) -> int:
    """A number that a record may have, or a refusal."""
    return whole("Repository", "id", number, at_least=1)
