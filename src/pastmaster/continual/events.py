"""The events of a lifelong agent. A hook is any callable that takes one.

Events come in the order of the stream, each after it is committed. A resumed agent first repeats the events that are
stored, with ``replayed`` set: so a hook that starts from nothing ends with all of them, however often the agent was
stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pastmaster.repository import ClusteringRecord, StoredRun


@dataclass(frozen=True)
class TaskDone:
    """A task was met, and stored with its policy.

    Attributes
    ----------
    position, name, task_id
        Its place in the stream, from 0, its name, and its id in the repository, None if it was removed since.
    episodes, total, mean_return
        How many episodes were run, and the sum and the mean of their returns.
    value : float
        The value of the task's policy of record then: what an episode could have returned on average.
    n_sources, learner_share
        How many source policies there were, and the share of the episodes that the learner ran.
    evaluation_episodes : int
        Episodes spent to value policies, where there is no model.
    replayed : bool
        Whether this happened before the agent was resumed.
    shares : dict of str to float
        The share of the episodes that each policy ran, by name, the largest first: "learner", and the sources of which
        at least one episode came.
    """

    position: int
    name: str
    task_id: int | None
    episodes: int
    total: float
    value: float
    n_sources: int
    learner_share: float
    evaluation_episodes: int
    replayed: bool
    shares: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: StoredRun, replayed: bool = False) -> TaskDone:
        """From a stored run."""
        names, counts = [*run.source_names, "learner"], np.bincount(run.arms, minlength=run.n_sources + 1)
        order = np.argsort(-counts, kind="stable")
        same = ("name", "task_id", "value", "n_sources", "evaluation_episodes")
        return cls(
            position=run.position or 0,
            episodes=len(run.returns),
            total=float(run.returns.sum()),
            learner_share=float((run.arms == run.n_sources).mean()),
            replayed=replayed,
            shares={names[arm]: float(counts[arm] / len(run.arms)) for arm in order.tolist() if counts[arm]},
            **{name: getattr(run, name) for name in same},
        )

    @property
    def mean_return(self) -> float:
        """The mean return of an episode."""
        return self.total / self.episodes


@dataclass(frozen=True)
class Reclustered:
    """The repository was clustered after ``position`` tasks of the stream: ``n_clusters`` cells, ``n_tasks`` tasks.

    ``kept`` are the names of the policies that are kept.
    """

    position: int
    n_tasks: int
    n_clusters: int
    cost: float
    mean_radius: float
    replayed: bool
    kept: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, record: ClusteringRecord, replayed: bool = False) -> Reclustered:
        """From a stored clustering of a stream."""
        _, position = record.stream or (None, 0)
        numbers = {name: record.result[name] for name in ("n_tasks", "n_clusters", "cost", "mean_radius")}
        return cls(position=position, replayed=replayed, kept=list(record.result["kept"]), **numbers)


Event = TaskDone | Reclustered
Hook = Callable[[Event], None]
