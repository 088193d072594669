"""Streams and their runs as records: what a lifelong agent needs to go on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array
from pastmaster.errors import DamagedError, InvalidInputError
from pastmaster.repository import rows
from pastmaster.repository.database import Database
from pastmaster.repository.schema import clusterings as clusterings_table, runs as runs_table, streams as streams_table
from pastmaster.reuse import TransferRun


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A task that was met: the returns of its episodes and the arms that ran them [T], as ``transfer`` left
    them; ``value`` is what the task's policy of record was worth then, ``value_now`` what it is worth now, nan if the
    task was removed.
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
    returns: Array
    arms: Array


def open_stream(database: Database, name: str, settings: dict[str, Any]) -> int:
    """The id of the stream of this name, which is made if need be; refused if it was begun with other settings."""

    def find_or_make(connection: sa.Connection) -> int:
        found = rows.fetch_where(connection, "streams", streams_table.c.name == name)
        if not found:
            return rows.insert(connection, "streams", {"name": name, "settings": settings}, {})
        number, now = int(found[0]["id"]), json.loads(json.dumps(settings))
        difference = _difference(now, found[0]["settings"])
        if difference and _is_empty(connection, number):  # nothing came of it: it is begun anew
            rows.update(connection, "streams", found[0], settings=now)
        elif difference:
            raise InvalidInputError(
                f"ContinualTransfer: {difference} as when the stream {name!r} was begun; "
                "pass another name (--name) to begin another"
            )
        return number

    return database.write(find_or_make)


def _difference(now: dict[str, Any], begun: dict[str, Any]) -> str:
    """The first setting that is not as it was, in words."""
    for key, value in now.items():
        was = begun.get(key)
        if isinstance(value, dict) and isinstance(was, dict):
            for name in sorted({*value, *was}):
                if value.get(name) != was.get(name):
                    got = f"is {value[name]!r}" if name in value else "is not given"
                    return f"{name} {got}, must " + (f"be {was[name]!r}" if name in was else "not be given")
        elif value != was:
            return "rng (--seed) is another, must be" if key == "entropy" else f"{key} is {value}, must be {was}"
    return ""


def _is_empty(connection: sa.Connection, stream: int) -> bool:
    """Whether nothing was stored of a stream but its settings."""
    return not any(
        connection.execute(sa.select(table.c.id).where(table.c.stream_id == stream).limit(1)).first()
        for table in (runs_table, clusterings_table)
    )


def stored_runs(database: Database, stream_id: int | None = None, position: int | None = None) -> list[StoredRun]:
    """All runs, or those of a stream in order, or the one at this position of it."""
    columns = runs_table.c
    wanted = (("stream_id", stream_id), ("position", position))
    conditions = [columns[name] == value for name, value in wanted if value is not None]

    def read(connection: sa.Connection) -> list[StoredRun]:
        found = rows.fetch_where(connection, "runs", *conditions)
        if stream_id is not None:
            found.sort(key=lambda row: row["position"])
        if stream_id is not None and position is None and [row["position"] for row in found] != list(range(len(found))):
            raise DamagedError(f"streams {stream_id}: its runs are not complete")
        arrays = dict(rows.fetch_arrays(connection, "runs", [row["id"] for row in found]))
        tasks = sorted({row["task_id"] for row in found if row["task_id"] is not None})
        values = {row["id"]: row["value"] for row in rows.fetch(connection, "tasks", tasks)}
        return [_run(row, arrays[row["id"]], values.get(row["task_id"], np.nan)) for row in found]

    return database.read(read)


def run_row(run: TransferRun, source_ids: list[int]) -> dict[str, Any]:
    """The columns and arrays that hold the best trial of a run; what it was about is added with the task."""
    trial = run.best_trial
    settings = {
        "source_ids": source_ids,
        "n_sources": run.n_sources,
        "selector": type(run.selectors[trial]).__name__,
        "episodes": run.returns.shape[1],
        "widened": int(run.widened[trial]),
        "clipped": int(run.clipped[trial]),
    }
    arrays = {"returns": run.returns[trial], "arms": run.arms[trial]}
    return {"stream_id": None, "position": None, "settings": settings, "arrays": arrays}


def _run(row: rows.Row, arrays: dict[str, Array], value_now: float) -> StoredRun:
    try:
        settings = row["settings"]
        return StoredRun(
            id=row["id"],
            stream_id=row["stream_id"],
            position=row["position"],
            name=settings["name"],
            task_id=row["task_id"],
            task_digest=settings["task_digest"],
            value=settings["value"],
            value_now=value_now,
            n_sources=settings["n_sources"],
            evaluation_episodes=settings["evaluation_episodes"],
            returns=arrays["returns"],
            arms=arrays["arms"],
        )
    except KeyError as error:
        raise DamagedError(f"runs {row['id']}: {error} is missing") from None
