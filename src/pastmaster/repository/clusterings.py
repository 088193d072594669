"""Clusterings of a repository: found, stored with their settings and certificates, and read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array, sealed
from pastmaster.checks import chosen
from pastmaster.clustering import Chain, Clustering, greedy_clustering, search_clusterings
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError, RepositoryError
from pastmaster.repository import rows
from pastmaster.repository.database import Database
from pastmaster.repository.records import TaskRecord, joined_bounds, plain
from pastmaster.repository.schema import clusterings, policies as policies_table, tasks as tasks_table
from pastmaster.repository.worth import distinct_policies, matrix_of_record, read_matrix
from pastmaster.values import policy_distance

METHODS: dict[str, Callable[..., Clustering]] = {"search": search_clusterings, "greedy": greedy_clustering}
UNRECORDED = ("n_jobs", "backend", "save", "progress")  # options on which no result depends
FIELDS = ("cost", "size_cost", "kind", "directed", "lower_bound", "possible_c", "interrupted")
VECTORS = ("labels", "representatives", "radii")
ARRAYS = ("task_ids", "policy_ids", *VECTORS)
Place = tuple[int, int]  # a stream's id, and how many of its tasks were met


@dataclass(frozen=True)
class ClusteringRecord:
    """A stored clustering.

    Attributes
    ----------
    id, stream : int, tuple of int or None
        Its id, and, where a lifelong agent asked for it, the agent's stream and how many of its tasks were met.
    settings, result : mapping
        What was asked (the arguments of ``Repository.cluster``), and found: n_tasks, n_clusters, cost, mean_radius ...
    """

    id: int
    stream: Place | None
    settings: Mapping[str, Any]
    result: Mapping[str, Any]

    @classmethod
    def of(cls, row: rows.Row) -> ClusteringRecord:
        """From a row of the table."""
        stream = None if row["stream_id"] is None else (row["stream_id"], row["position"])
        return cls(row["id"], stream, row["settings"]["asked"], row["settings"]["found"])

    def arrays(self, connection: sa.Connection) -> dict[str, Array]:
        """Its arrays, checked to fit together."""
        found = next(iter(rows.fetch_arrays(connection, "clusterings", [self.id])))[1]
        for name in (*ARRAYS, "traces") if self.result["traced"] else ARRAYS:
            if name not in found:
                raise DamagedError(f"clusterings {self.id}: array {name!r} is missing")
        lengths = [len(found[name]) for name in ARRAYS]
        n_tasks, n_clusters = self.result["n_tasks"], self.result["n_clusters"]
        indices = (("labels", n_clusters), ("representatives", n_tasks))
        fit = lengths == [n_tasks, n_tasks, n_tasks, n_clusters, n_clusters] and all(
            found[name].dtype.kind in "iu" and ((found[name] >= 0) & (found[name] < most)).all()
            for name, most in indices
        )
        if not fit:
            raise DamagedError(f"clusterings {self.id}: its arrays do not fit together")
        return found

    def kept(self, connection: sa.Connection) -> tuple[list[int], list[int]]:
        """The ids of the representatives, and of the policies they had then."""
        found = self.arrays(connection)
        representatives = found["representatives"]
        return found["task_ids"][representatives].tolist(), found["policy_ids"][representatives].tolist()

    def cells(self, connection: sa.Connection) -> dict[int, int]:
        """The cell of each task, by the task's id."""
        found = self.arrays(connection)
        return dict(zip(found["task_ids"].tolist(), found["labels"].tolist(), strict=True))

    def read(self, connection: sa.Connection) -> Clustering:
        """The clustering itself, over the tasks and policies there were."""
        found, result = self.arrays(connection), self.result
        tasks, policies = found["task_ids"].tolist(), found["policy_ids"].tolist()
        for table, wanted in (("tasks", tasks), ("policies", policies)):
            gone = sorted(set(wanted) - set(rows.numbers(connection, table)))
            if gone:
                raise RepositoryError(
                    f"clustering {self.id} is about {table} {gone[0]}, since removed: cluster the repository anew"
                )
        distinct, column = distinct_policies(policies)
        U = read_matrix(connection, tasks, distinct)[:, column]
        distance = policy_distance(U, directed=result["directed"], paired=True)
        fields = {name: result[name] for name in FIELDS} | {name: sealed(found[name]) for name in VECTORS}
        if fields["possible_c"] is not None:
            fields["possible_c"] = tuple(fields["possible_c"])
        return Clustering(**fields, distance=distance, traces=found.get("traces"))


def cluster(
    database: Database, place: Place | None = None, *, rng: np.random.Generator, episodes: int | None = None,
    span: float | None = None, directed: bool = False, method: str = "search", **options: Any,
) -> Clustering:  # fmt: skip
    """Cluster all tasks, and store the answer, at most once for one place of a stream."""
    chosen("Repository.cluster", "method", method, METHODS)
    tasks, U = database.read(matrix_of_record)
    if not tasks:
        raise RepositoryError(f"{database.place} holds no tasks yet, so there is nothing to cluster")
    if episodes is not None and span is None:
        span = joined_bounds(tasks, database.place).span or 1.0  # where all returns are equal any span will do
    shared = {"episodes": episodes, "span": span, "directed": bool(directed)}
    asked = {key: asdict(v) if isinstance(v, Chain) else v for key, v in options.items() if key not in UNRECORDED}
    settings = plain(asked, "Repository.cluster: options") | shared | {"method": method}
    distance = policy_distance(U, directed=bool(directed), paired=True)
    found = METHODS[method](distance, rng=rng, **shared, **options)
    if found.interrupted and place is not None:  # a stream must not depend on when it was stopped
        raise KeyboardInterrupt
    row, arrays = _row(found, tasks, settings, place)

    def store(connection: sa.Connection) -> None:
        here = [clusterings.c[name] == row[name] for name in ("stream_id", "position")]
        if place is None or not rows.fetch_where(connection, "clusterings", *here):
            rows.insert(connection, "clusterings", row, arrays)

    database.write(store)
    return found


def _row(
    found: Clustering, tasks: list[TaskRecord], asked: Mapping[str, Any], place: Place | None
) -> tuple[rows.Row, dict[str, Array]]:
    """The columns and arrays that hold a clustering."""
    result = {name: getattr(found, name) for name in ("n_clusters", "mean_radius", *FIELDS)}
    result |= {"n_tasks": len(tasks), "traced": found.traces is not None}
    arrays: dict[str, Array] = {name: getattr(found, name) for name in VECTORS}
    arrays["task_ids"] = np.array([task.id for task in tasks], np.int64)
    arrays["policy_ids"] = np.array([task.policy_of_record for task in tasks], np.int64)
    if found.traces is not None:
        arrays["traces"] = found.traces
    stream_id, position = place or (None, None)
    settings = {"asked": dict(asked), "found": plain(result, "Repository.cluster: result")}
    return {"stream_id": stream_id, "position": position, "settings": settings}, arrays


def latest(connection: sa.Connection) -> ClusteringRecord | None:
    """The clustering found last."""
    last = sa.select(sa.func.max(clusterings.c.id)).scalar_subquery()
    found = rows.fetch_where(connection, "clusterings", clusterings.c.id == last)
    return ClusteringRecord.of(found[0]) if found else None


def source_ids(connection: sa.Connection) -> list[int]:
    """The ids of the policies that the latest clustering keeps, each policy once.

    They are those of record in the representatives now; of a directed clustering, those of record then.
    """
    clustering = latest(connection)
    if clustering is None:
        return []
    tasks, policies = clustering.kept(connection)
    found = rows.fetch_where(connection, "tasks", tasks_table.c.id.in_(tasks))
    of_record = {row["id"]: row["policy_of_record"] for row in found}
    ids = policies if clustering.settings["directed"] else [of_record.get(task, -1) for task in tasks]
    left = rows.fetch_where(connection, "policies", policies_table.c.id.in_(ids))
    digests = {row["id"]: row["digest"] for row in left}
    first = {digests[number]: number for number in reversed(ids) if number in digests}
    return list(first.values())[::-1]


def checked_options(caller: str, options: Mapping[str, Any] | None, n_tasks: int | None) -> dict[str, Any]:
    """Options of ``Repository.cluster`` for an agent, refused now rather than when it clusters for the first time.

    ``n_tasks`` tasks that are all alike are clustered with them, if given.
    """
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(f"{caller}: clustering is {options!r}, must be a mapping of options")
    given = dict(options or {})
    method = METHODS[chosen(caller, "clustering's method", given.get("method", "search"), METHODS)]
    parameters = signature(method).parameters
    own = {"distance", "episodes", "span", "rng", "time_limit"}  # the last would make results depend on the clock
    allowed = sorted({*parameters, "method"} - own)
    if unknown := sorted(set(map(str, given)) - set(allowed)):
        raise InvalidInputError(f"{caller}: clustering holds {unknown[0]!r}, must hold some of {', '.join(allowed)}")
    if not given or n_tasks is None:
        return given
    quick = {key: value for key, value in given.items() if key not in (*UNRECORDED, "method", "certify")}
    if "iterations" in parameters:
        quick["iterations"] = min(1, quick.get("iterations", 1))
    size = min(n_tasks, max(50, quick.get("n_clusters") or 0))
    try:
        method(np.zeros((size, size)), episodes=1, span=1.0, rng=np.random.default_rng(0), **quick)
    except (PastmasterError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{caller}: clustering cannot be done every {n_tasks} tasks: {error}") from None
    return given
