"""Streams: the runs and clusterings of a lifelong agent, so that it can continue where it was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.checks import mapping, text
from pastmaster.errors import DamagedError, InvalidInputError, RepositoryError
from pastmaster.parallel import digest
from pastmaster.repository import rows
from pastmaster.repository.addition import Addition, commit
from pastmaster.repository.clusterings import UNRECORDED, ClusteringRecord, cluster, keep, source_ids
from pastmaster.repository.database import Database
from pastmaster.repository.listing import Records
from pastmaster.repository.memory import Contents, on
from pastmaster.repository.records import Stored, plain, task_row, verify_run
from pastmaster.repository.schema import clusterings as clusterings_table, runs as runs_table, streams as streams_table
from pastmaster.repository.worth import distinct_policies
from pastmaster.reuse import QLearning, TransferRun
from pastmaster.tables import one_line
from pastmaster.tasks import Task
from pastmaster.texts import printable

FOR_EVER = 1e9  # seconds
Sources = Literal["clusters", "all", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class StoredRun:
    """A run of ``transfer`` on a task, as stored.

    Attributes
    ----------
    id, stream_id, stream_name, position
        Its id, and the stream, by id and name ("" outside of streams), and the place in it, from 0, where a lifelong
        agent ran it.
    name, task_id, task_digest
        The task: its name, its id (None if it was removed), and the SHA-256 of what it is.
    value, value_now : float
        The value of the task's policy of record then, and now (nan if the task was removed).
    n_sources, evaluation_episodes : int
        How many source policies there were, and how many episodes were spent to value policies.
    source_names : list of str [n_sources]
        What the source policies were called.
    returns, arms : array [T]
        The return of each episode, and the arm that ran it; arm ``n_sources`` is the learner.
    """

    id: int
    stream_id: int | None
    position: int | None
    name: str
    task_id: int | None
    task_digest: str
    value: float
    value_now: float
    n_sources: int
    evaluation_episodes: int
    source_names: list[str]
    returns: Array
    arms: Array
    stream_name: str = ""

    @classmethod
    def of(cls, row: rows.Row, arrays: Mapping[str, Array], value_now: float) -> StoredRun:
        """From a row of the table."""
        verify_run(row, arrays)
        settings = row["settings"]
        return cls(
            **{name: row[name] for name in ("id", "stream_id", "position", "task_id")},
            **{name: settings[name] for name in ("name", "task_digest", "value", "n_sources", "evaluation_episodes")},
            source_names=settings["source_names"],
            value_now=value_now,
            returns=arrays["returns"],
            arms=arrays["arms"],
        )

    def __repr__(self) -> str:
        mean = f"mean return {self.returns.mean():.4g}" if len(self.returns) else "no returns"
        name = one_line(self.name or "unnamed", 30)
        return one_line(
            f"StoredRun({self.id}: {name}, {len(self.returns):,} episodes, {self.n_sources} sources, {mean})"
        )

    def is_of(self, task: Any) -> bool:
        """Whether this is the run of a task."""
        return isinstance(task, Task) and task_row(task)[0]["digest"] == self.task_digest


class Stream:
    """The tasks that a lifelong agent meets in order, with the run on each and the clusterings between them.

    A stream is found by its name, or begun. One that was begun with other ``settings`` is refused. Of these, mappings
    are options, stored as text where they are no plain values; other settings are plain values. ``fresh`` are settings
    for a stream that is begun now: one that is found keeps its own. The attribute ``settings`` has both, as stored.
    """

    def __init__(
        self, contents: Contents, name: str, settings: Mapping[str, Any], fresh: Mapping[str, Any] | None = None
    ) -> None:
        self._contents, self.name = contents, text("Repository.stream", "name", name)
        caller, wanted = "Repository.stream", "a mapping of plain values"
        given = mapping(settings, f"{caller}: settings", wanted)
        stored = {key: _recorded(value) if isinstance(value, Mapping) else value for key, value in given.items()}
        stored = plain(stored, f"{caller}: settings")
        begun = plain(mapping({} if fresh is None else fresh, f"{caller}: fresh", wanted), f"{caller}: fresh")
        self._id, self.settings = contents.database.write(
            lambda connection: _find_or_begin(connection, name, stored, begun)
        )

    def __repr__(self) -> str:
        return one_line(f"Stream({one_line(self.name, 60)!r}: {len(self.runs())} tasks met)")

    def runs(self) -> Records[StoredRun]:
        """The runs so far, in order."""
        return Records(stored_runs(self._contents.database, self._id))

    def clusterings(self) -> dict[int, ClusteringRecord]:
        """The clusterings so far, by how many tasks had been met."""
        here = clusterings_table.c.stream_id == self._id
        found = self._contents.database.read(lambda c: rows.fetch_where(c, "clusterings", here))
        return {row["position"]: ClusteringRecord.of(row) for row in found}

    def sources(self, which: Sources, with_new: bool = False) -> dict[int, Stored]:
        """Source policies by id: those the latest clustering keeps, all of record, or none.

        ``with_new`` adds to those that are kept the policies of the tasks stored since.
        """

        def read(connection: sa.Connection) -> dict[int, Stored]:
            ids: list[int] = []
            if which == "clusters":
                ids = source_ids(connection, with_new)
            elif which == "all":
                ids, _ = distinct_policies(row["policy_of_record"] for row in rows.fetch(connection, "tasks"))
            return dict(zip(ids, self._contents.policies.get(on(connection), ids), strict=True))

        return self._contents.database.read(read)

    def commit(self, position: int, task: Task, run: TransferRun, *, episodes: int | None) -> StoredRun:
        """Store the task at a position, its policy and its run in one transaction.

        The policy is the solved task's; with ``episodes``, the one that was learned, and they value it.
        """
        policy, provenance = (None, None) if episodes is None else (run.policy, "learned")
        row = run_row(run) | {"stream_id": self._id, "position": position}
        commit(self._contents, [Addition(task, policy, provenance, episodes)], row)
        return stored_runs(self._contents.database, self._id, position)[0]

    def keep(self, position: int, *, episodes: int, rng: np.random.Generator, **told: Any) -> ClusteringRecord:
        """Ask after ``position`` tasks which policies to keep; no clock decides.

        ``told`` is k, max_loss or price, the measured one by default, and must_keep and never_keep, by name.
        """
        asked = {"price": "measured"} if {"k", "max_loss", "price"}.isdisjoint(told) else {}
        how: dict[str, Any] = {"span": None, "certify": False, "time_limit": FOR_EVER} | asked | told
        measured = how.get("price") == "measured"
        keep(self._contents, (self._id, position), episodes=episodes if measured else None, rng=rng, **how)
        return self.clusterings()[position]

    def cluster(self, position: int, **options: Any) -> ClusteringRecord:
        """Cluster the repository after ``position`` tasks; ``options`` are those of ``Repository.cluster``.

        By default distances are symmetric, as the paper's agent has them.
        """
        paper = {"episodes": None, "span": None, "directed": False, "method": "search"}
        cluster(self._contents, (self._id, position), **(paper | options))
        return self.clusterings()[position]


def stored_runs(database: Database, stream_id: int | None = None, position: int | None = None) -> list[StoredRun]:
    """All runs, or those of a stream in order, or the one at a position of it."""
    columns = runs_table.c
    wanted = (("stream_id", stream_id), ("position", position))
    conditions = [columns[name] == value for name, value in wanted if value is not None]

    def read(connection: sa.Connection) -> list[StoredRun]:
        found = rows.fetch_where(connection, "runs", *conditions)
        if stream_id is not None and position is None and [row["position"] for row in found] != list(range(len(found))):
            raise DamagedError(f"streams {stream_id}: its runs are not complete")
        arrays = dict(rows.fetch_arrays(connection, "runs", [row["id"] for row in found]))
        tasks = sorted({row["task_id"] for row in found if row["task_id"] is not None})
        values = {row["id"]: row["value"] for row in rows.fetch(connection, "tasks", tasks)}
        return [StoredRun.of(row, arrays[row["id"]], values.get(row["task_id"], np.nan)) for row in found]

    found = database.read(read)
    streams = {run.stream_id for run in found if run.stream_id is not None}
    names: dict[int | None, str] = {number: _name_of(database, number) for number in streams}
    return [replace(run, stream_name=names.get(run.stream_id, "")) for run in found]


def _name_of(database: Database, stream_id: int) -> str:
    """The name of a stream; none where its record is damaged: its runs are not.

    It is asked for apart: where a page is damaged, SQLite may refuse even to end the transaction.
    """
    try:
        return str(database.read(lambda connection: rows.fetch(connection, "streams", [stream_id]))[0]["name"])
    except RepositoryError:
        return ""


def run_row(run: TransferRun) -> rows.Row:
    """The columns and arrays that hold the best trial of a run; those about the task are added with it."""
    if not np.isfinite(run.returns).all():
        raise InvalidInputError("Repository.add: run.returns holds what is not finite, must be finite numbers")
    trial = run.best_trial
    settings = {
        "source_names": run.arm_names[:-1],
        "n_sources": run.n_sources,
        "selector": type(run.selectors[trial]).__name__,
        "widened": int(run.widened[trial]),
    }
    arrays = {"returns": run.returns[trial], "arms": run.arms[trial]}
    return {"stream_id": None, "position": None, "settings": settings, "arrays": arrays}


def _find_or_begin(
    connection: sa.Connection, name: str, settings: dict[str, Any], fresh: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    """Id and settings of the stream of this name.

    One without runs may begin again with other settings, and the clustering it may have begun with goes.
    """
    found = rows.fetch_where(connection, "streams", streams_table.c.name == name)
    if not found:
        begun = fresh | settings
        return rows.insert(connection, "streams", {"name": name, "settings": begun}, {}), begun
    number = int(found[0]["id"])
    difference = printable(_difference(settings, found[0]["settings"]))
    if not difference:
        return number, found[0]["settings"]
    if connection.execute(sa.select(runs_table.c.id).where(runs_table.c.stream_id == number).limit(1)).first():
        raise InvalidInputError(
            f"ContinualTransfer: {difference} as when the stream {name!r} was begun; pass another name to begin another"
        )
    for made in rows.fetch_where(connection, "clusterings", clusterings_table.c.stream_id == number):
        rows.remove(connection, "clusterings", made["id"])
    rows.update(connection, "streams", found[0], settings=fresh | settings)
    return number, fresh | settings


def _difference(now: dict[str, Any], begun: dict[str, Any]) -> str:
    """The first setting that has changed, in words."""
    for key, value in now.items():
        was = begun.get(key)
        if isinstance(value, dict) and isinstance(was, dict):
            for name in sorted({*value, *was}):
                if value.get(name) != was.get(name):
                    got = f"is {value[name]!r}" if name in value else "is not given"
                    return f"{name} {got}, must " + (f"be {was[name]!r}" if name in was else "be left out,")
        elif value != was:
            seed = "rng (--seed) is another, must be the same"
            return seed if key == "entropy" else f"{key} is {value}, must be {was}"
    return ""


def _recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they are stored, without those on which no result depends."""
    return {key: _as_text(value) for key, value in sorted(options.items()) if key not in UNRECORDED}


def _as_text(value: Any) -> Any:
    """A plain value as it is; else text that is the same in another process: of functions and the like their name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, QLearning):
        return f"QLearning {digest(*value.identity, versions=False)}"
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return f"array {digest(np.asarray(value), versions=False)}"
    text = repr(value)
    if " at 0x" in text:
        return getattr(value, "__qualname__", type(value).__qualname__)
    return text
