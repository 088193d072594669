"""Clusterings of a repository: found, stored with their settings and certificates, and read again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array, sealed
from pastmaster.checks import called_as, chosen, flag, is_whole, known_options, mapping, whole, within
from pastmaster.clustering import Chain, Clustering, greedy_clustering, keeping, search_clusterings
from pastmaster.clustering.over_all import ROUNDS, OverAll
from pastmaster.errors import DamagedError, InvalidInputError, PastmasterError, RepositoryError
from pastmaster.generators import Rng, seeded
from pastmaster.repository import rows
from pastmaster.repository.asked import Values, beside_writers
from pastmaster.repository.auditing import audit
from pastmaster.repository.memory import Contents
from pastmaster.repository.names import distinct_names, task_records
from pastmaster.repository.pins import KEEP, asks_keep, checked_pins, known_parts, pinned_columns
from pastmaster.repository.records import joined_bounds, plain
from pastmaster.repository.schema import RECORDS, clusterings
from pastmaster.reuse.price import measured_price
from pastmaster.tables import one_line

METHODS: dict[str, Callable[..., Clustering]] = {"search": search_clusterings, "greedy": greedy_clustering}
UNRECORDED = ("n_jobs", "executor", "save", "progress")  # options on which no result depends
FIELDS = ("cost", "size_cost", "kind", "directed", "lower_bound", "possible_c", "interrupted")
COLUMNS = ("must_keep", "never_keep")
VECTORS = ("labels", "representatives", "radii")
ARRAYS = ("task_ids", "policy_ids", *VECTORS)
OWN = "its own, forgotten"  # the column of what forgotten policies were worth
AUDITED = 1  # the random stream of the tasks that are drawn for an estimate
Place = tuple[int, int]  # a stream's id, and how many of its tasks were met


@dataclass(frozen=True, repr=False)
class ClusteringRecord:
    """A stored clustering.

    Attributes
    ----------
    id, stream : int, tuple of int or None
        Its id, and, where a lifelong agent asked for it, the agent's stream and how many of its tasks were met.
    settings, result : mapping
        What was asked (the arguments of ``Repository.keep`` or ``Repository.cluster``), and found: n_tasks, n_clusters,
        cost, mean_radius, mean_loss, largest_loss, kept (the names of the kept policies) ...
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

    @property
    def seed(self) -> int | None:
        """The seed of its search, None where a generator was given."""
        seed: int | None = self.settings.get("seed")
        return seed

    def __repr__(self) -> str:
        kept, tasks, lost = (self.result[name] for name in ("n_clusters", "n_tasks", "mean_loss"))
        return one_line(f"ClusteringRecord({self.id}: {kept} kept for {tasks} tasks, mean loss {lost:.4g})")

    def arrays(self, connection: sa.Connection) -> dict[str, Array]:
        """Its arrays."""
        ((_, found),) = rows.fetch_arrays(connection, "clusterings", [self.id])
        for name in (*ARRAYS, "traces") if self.result["traced"] else ARRAYS:
            if name not in found:
                raise DamagedError(f"clusterings {self.id}: array {name!r} is missing")
        return found

    def kept_policies(self, connection: sa.Connection) -> list[int]:
        """The id of each cell's policy: as it was then where losses counted, else that of record now; -1: gone."""
        found = self.arrays(connection)
        if self.result["directed"]:
            return [int(number) for number in found["policy_ids"][found["representatives"]]]
        tasks = found["task_ids"][found["representatives"]].tolist()
        of_record = {row["id"]: row["policy_of_record"] for row in _there(connection, "tasks", tasks)}
        return [of_record.get(task, -1) for task in tasks]

    def cells(self, connection: sa.Connection) -> dict[int, int]:
        """The cell of each task, by the task's id."""
        found = self.arrays(connection)
        return dict(zip(found["task_ids"].tolist(), found["labels"].tolist(), strict=True))

    def read(self, connection: sa.Connection) -> Clustering:
        """The clustering itself, over the tasks and policies there were."""
        found, result = self.arrays(connection), self.result
        tasks, policies = found["task_ids"].tolist(), found["policy_ids"].tolist()
        try:
            values = Values.read(connection, task_records(connection, tasks), policies)
        except rows.NoRecordError as gone:
            raise RepositoryError(
                f"clustering {self.id} is about {gone.kind} {gone.number}, since removed: cluster the repository anew"
            ) from None
        distance = values.distance(result["directed"])
        fields: dict[str, Any] = {name: result[name] for name in (*FIELDS, *COLUMNS)}
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        fields |= {name: sealed(found[name]) for name in VECTORS}
        fields |= {name: found.get(name) for name in ("traces", "weights")}
        fields |= {name: self.settings.get(name) for name in ("max_loss", "price")}
        fields["over_all"] = None if (told := result["over_all"]) is None else OverAll.of(told)
        return values.named(Clustering(**fields, distance=distance, seed=self.seed))


def cluster(
    contents: Contents, place: Place | None = None, *, rng: Rng, episodes: int | None, span: float | None,
    directed: bool, method: str, **options: Any,
) -> Clustering:  # fmt: skip
    """Cluster all tasks, and store the answer, at most once for one place of a stream."""
    chosen("Repository.cluster", "method", method, METHODS)
    directed = flag("Repository.cluster", "directed", directed)
    known_options("Repository.cluster", options, {*signature(METHODS[method]).parameters, "method"} - {"distance"})
    generator, seed = seeded("Repository.cluster", rng)
    values, span = _asked_of(contents, directed, episodes, span)
    shared = {"episodes": episodes, "span": span, "directed": directed}
    asked = {key: asdict(v) if isinstance(v, Chain) else v for key, v in options.items() if key not in UNRECORDED}
    settings = plain(asked | shared, "Repository.cluster: options") | {"method": method}
    with called_as("Repository.cluster"):
        found = METHODS[method](values.distance(directed), rng=generator if seed is None else seed, **shared, **options)
    return _stored(contents, values.named(found), values, settings | {"seed": seed}, place)


def keep(contents: Contents, place: Place | None = None, **question: Any) -> Clustering:
    """Ask which stored policies to keep, and store the answer; ``place`` is set for an agent."""
    return beside_writers(contents, lambda: _keep(contents, place, **question))


def _keep(
    contents: Contents,
    place: Place | None,
    *,
    rng: Rng,
    price: float | str | None = None,
    episodes: float | None,
    span: float | None,
    **told: Any,
) -> Clustering:
    caller = "Repository.keep" if place is None else "ContinualTransfer"
    generator, seed = seeded(caller, rng)
    measured = isinstance(price, str)
    values, span = _asked_of(contents, True, None if measured else episodes, span)
    noted: dict[str, Any] = {}
    if isinstance(price, str):
        chosen(caller, "price", price, ["measured"])
        noted = {"measured": whole(caller, "episodes", episodes, at_least=1)}
        drawn, begun = np.random.default_rng(len(values.policies)), time.perf_counter()
        seconds = within(caller, "time_limit", told["time_limit"], 0.0, math.inf)
        deadline = begun + 0.5 * seconds
        price, episodes = measured_price(values.U, noted["measured"], drawn, own=values.own, deadline=deadline), None
        told["time_limit"] = max(0.0, begun + seconds - time.perf_counter())
    if place is not None:  # an agent: pins are names, and k may be more than there are yet
        told |= pinned_columns("ContinualTransfer", values.policies, told)
        if told.get("k") is not None:
            told["k"] = min(told["k"], len(values.policies) - len(told.get("never_keep", ())))
    question = told | {"price": price, "episodes": episodes, "span": span}
    question = {key: value for key, value in question.items() if value is not None}
    with called_as(caller):
        drawn = generator if seed is None else np.random.default_rng([seed, AUDITED])
        for asked_before in range(ROUNDS):
            found = _kept(caller, values, generator if seed is None else seed, question)
            made = audit(contents, values, found, drawn)
            if made is None or not made.above or found.interrupted or asked_before + 1 == ROUNDS:
                break
            values = values.joined(contents, made.above)
        found = replace(found, over_all=None if made is None else made.told)
    asked = {key: value for key, value in question.items() if key not in ("weights", "time_limit", *COLUMNS)}
    settings = plain({"method": "keep", "directed": True, "seed": seed} | asked | noted, f"{caller}: options")
    return _stored(contents, values.named(found), values, settings, place)


def _kept(caller: str, values: Values, rng: Any, question: dict[str, Any]) -> Clustering:
    """The answer of ``keep``, with what forgotten policies were worth as a column that nobody can keep."""
    policies, U = distinct_names(values.policies), values.U
    if values.marks is not None:
        if question.get("weights") is not None:
            raise InvalidInputError(
                f"{caller}: weights is given, must be None where max_loss is set: landmarks have own"
            )
        question = question | {"weights": values.marks.weights}
    if values.best is None:
        return keeping.keep(U, tasks=values.task_names, policies=policies, rng=rng, **question)
    never = question.get("never_keep")
    never = [] if never is None else [never] if isinstance(never, str) or is_whole(never) else [*never]
    question = question | {"never_keep": [*never, len(policies)]}
    U, named = np.column_stack([U, np.maximum(values.best, U.max(axis=1))]), [*policies, OWN]
    found = keeping.keep(U, tasks=values.task_names, policies=named, rng=rng, **question)
    kept = tuple(j for j in found.never_keep if j < len(policies))
    return replace(found, distance=values.distance(True), policy_names=(), never_keep=kept)


def _asked_of(contents: Contents, directed: bool, episodes: Any, span: Any) -> tuple[Values, Any]:
    """What stands for all that is stored, and the span of returns, by default that of the bounds of these tasks."""
    database, values = contents.database, Values.of_all(contents, directed)
    if not values.tasks:
        raise RepositoryError(f"{database.place} holds no tasks yet, so there is nothing to keep")
    if episodes is not None and span is None:
        span = joined_bounds(values.tasks, database.place).span or 1.0  # where all returns are equal any span will do
    return values, span


def _stored(
    contents: Contents, found: Clustering, values: Values, asked: Mapping[str, Any], place: Place | None = None
) -> Clustering:
    """Store an answer, and return it."""
    if found.interrupted and place is not None:  # a stream must not depend on when it was stopped
        raise KeyboardInterrupt
    row, arrays = _row(found, values, asked, place)

    def store(connection: sa.Connection) -> None:
        here = [clusterings.c[name] == row[name] for name in ("stream_id", "position")]
        if place is None or not rows.fetch_where(connection, "clusterings", *here):
            rows.insert(connection, "clusterings", row, arrays)

    contents.database.write(store)
    return found


def _row(
    found: Clustering, values: Values, asked: Mapping[str, Any], place: Place | None
) -> tuple[rows.Row, dict[str, Array]]:
    """The columns and arrays that hold a clustering."""
    measures = ("n_clusters", "mean_radius", "mean_loss", "largest_loss")
    result = {name: getattr(found, name) for name in (*measures, *FIELDS, *COLUMNS)}
    kept = dict.fromkeys(values.policies[j].name for j in found.representatives.tolist())
    result |= {"over_all": None if found.over_all is None else found.over_all.told()}
    result |= {"n_tasks": len(values.tasks), "traced": found.traces is not None, "kept": list(kept)}
    arrays: dict[str, Array] = {name: getattr(found, name) for name in VECTORS}
    arrays["task_ids"] = np.array([task.id for task in values.tasks], np.int64)
    arrays["policy_ids"] = np.array([policy.id for policy in values.policies], np.int64)
    more = {"traces": found.traces, "weights": found.weights}
    arrays |= {name: array for name, array in more.items() if array is not None}
    stream_id, position = place or (None, None)
    settings = {"asked": dict(asked), "found": plain(result, "Repository.cluster: result")}
    return {"stream_id": stream_id, "position": position, "settings": settings}, arrays


def latest(connection: sa.Connection) -> ClusteringRecord | None:
    """The clustering found last."""
    last = sa.select(sa.func.max(clusterings.c.id)).scalar_subquery()
    found = rows.fetch_where(connection, "clusterings", clusterings.c.id == last)
    return ClusteringRecord.of(found[0]) if found else None


def _there(connection: sa.Connection, table: str, wanted: list[int]) -> list[rows.Row]:
    """Those of these records that are still there."""
    return rows.fetch_where(connection, table, RECORDS[table].c.id.in_(wanted))


def source_ids(connection: sa.Connection, with_new: bool = False) -> list[int]:
    """The ids of the policies that the latest clustering keeps, each policy once.

    ``with_new`` adds those of tasks stored since, unless they were learned: these may be worth nothing yet.
    """
    clustering = latest(connection)
    ids = [] if clustering is None else clustering.kept_policies(connection)
    if with_new:
        last = 0 if clustering is None else max(clustering.cells(connection), default=0)
        since = rows.fetch_where(connection, "tasks", RECORDS["tasks"].c.id > last)
        new = _there(connection, "policies", [row["policy_of_record"] for row in since])
        ids += [row["id"] for row in new if row["provenance"] != "learned"]
    digests = {row["id"]: row["digest"] for row in _there(connection, "policies", ids)}
    first = {digests[number]: number for number in reversed(ids) if number in digests}
    return list(first.values())[::-1]


def checked_options(caller: str, options: Mapping[str, Any] | None, n_tasks: int | None) -> dict[str, Any]:
    """Options of ``Repository.cluster``, or of ``keep``, for an agent, refused before it chooses for the first time.

    ``n_tasks`` tasks that are all alike are clustered with them, if given.
    """
    given = {} if options is None else mapping(options, f"{caller}: clustering", "a mapping of options")
    if asks_keep(given):
        return checked_pins(caller, given)
    method = METHODS[chosen(caller, "clustering's method", given.get("method", "search"), [*METHODS, KEEP])]
    parameters = signature(method).parameters
    own = {"distance", "episodes", "span", "rng", "time_limit"}  # the last would make results depend on the clock
    allowed = sorted({*parameters, "method"} - own)
    known_parts(caller, given, allowed)
    if not given or n_tasks is None:
        return given
    quick = {key: value for key, value in given.items() if key not in (*UNRECORDED, "method", "certify")}
    if "iterations" in parameters and is_whole(quick.get("iterations", 1)):
        quick["iterations"] = min(1, quick.get("iterations", 1))
    cells: Any = quick.get("n_clusters")
    size = min(n_tasks, max(50, cells if is_whole(cells) else 0))
    try:
        method(np.zeros((size, size)), episodes=1, span=1.0, rng=np.random.default_rng(0), **quick)
    except (PastmasterError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{caller}: clustering cannot be done every {n_tasks} tasks: {error}") from None
    return given
