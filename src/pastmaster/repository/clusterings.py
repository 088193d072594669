"""Clusterings as records: their parameters and certificates, and which tasks and policies they were about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import Array, sealed
from pastmaster.clustering import Clustering
from pastmaster.errors import DamagedError, RepositoryError
from pastmaster.repository import rows
from pastmaster.repository.records import plain
from pastmaster.repository.worth import read_matrix
from pastmaster.values import policy_distance

ARRAYS = ("task_ids", "policy_ids", "labels", "representatives", "radii")


@dataclass(frozen=True)
class ClusteringRecord:
    """A stored clustering: what was asked (``settings``), what was found and proven (``result``).

    ``stream`` is the lifelong agent's stream and how many of its tasks it had met, where one asked for it.
    """

    id: int
    stream: tuple[int, int] | None
    settings: Mapping[str, Any]
    result: Mapping[str, Any]

    @classmethod
    def of(cls, row: rows.Row) -> ClusteringRecord:
        """From a row of the table."""
        stream = None if row["stream_id"] is None else (row["stream_id"], row["position"])
        return cls(row["id"], stream, row["settings"]["asked"], row["settings"]["found"])

    def arrays(self, connection: sa.Connection) -> dict[str, Array]:
        """Its arrays, which fit together."""
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
        """The ids of the tasks that stand for all, and of the policies they had then."""
        found = self.arrays(connection)
        chosen = found["representatives"]
        return found["task_ids"][chosen].tolist(), found["policy_ids"][chosen].tolist()

    def cells(self, connection: sa.Connection) -> dict[int, int]:
        """The cell of each task, by its id."""
        found = self.arrays(connection)
        return dict(zip(found["task_ids"].tolist(), found["labels"].tolist(), strict=True))

    def read(self, connection: sa.Connection) -> Clustering:
        """The clustering itself, over the tasks and policies there were."""
        found = self.arrays(connection)
        tasks, policies = found["task_ids"].tolist(), found["policy_ids"].tolist()
        for table, wanted in (("tasks", tasks), ("policies", policies)):
            gone = sorted(set(wanted) - set(rows.numbers(connection, table)))
            if gone:
                raise RepositoryError(
                    f"clustering {self.id} is about {table} {gone[0]}, since removed: cluster the repository anew"
                )
        distinct, column = np.unique(policies, return_inverse=True)
        U = read_matrix(connection, tasks, distinct.tolist())[:, column]
        result = self.result
        return Clustering(
            labels=sealed(found["labels"]),
            representatives=sealed(found["representatives"]),
            radii=sealed(found["radii"]),
            cost=result["cost"],
            size_cost=result["size_cost"],
            kind=result["kind"],
            directed=result["directed"],
            distance=policy_distance(U, directed=result["directed"], paired=True),
            lower_bound=result["lower_bound"],
            possible_c=None if result["possible_c"] is None else tuple(result["possible_c"]),
            traces=found.get("traces"),
            interrupted=result["interrupted"],
        )


def clustering_row(
    found: Clustering,
    tasks: list[int],
    policies: list[int],
    asked: Mapping[str, Any],
    stream: tuple[int, int] | None,
) -> tuple[rows.Row, dict[str, Array]]:
    """The columns and arrays that hold a clustering."""
    names = ("cost", "size_cost", "kind", "directed", "lower_bound", "possible_c", "interrupted")
    counts = {"n_tasks": len(tasks), "n_clusters": found.n_clusters, "mean_radius": found.mean_radius}
    result = counts | {"traced": found.traces is not None} | {name: getattr(found, name) for name in names}
    arrays: dict[str, Array] = {name: getattr(found, name) for name in ("labels", "representatives", "radii")}
    arrays |= {"task_ids": np.array(tasks, np.int64), "policy_ids": np.array(policies, np.int64)}
    if found.traces is not None:
        arrays["traces"] = found.traces
    settings = {"asked": dict(asked), "found": plain(result, "Repository.cluster: result")}
    stream_id, position = stream or (None, None)
    return {"stream_id": stream_id, "position": position, "settings": settings}, arrays
