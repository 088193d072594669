"""What a lifelong agent tells its hooks. A hook is anything that can be called with an event.

Events come in the order of the stream, each after it is committed. A resumed agent first tells again what is stored,
``replayed`` set: so a hook that starts from nothing ends with the whole story, however often the agent was killed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pastmaster.repository.streams import StoredRun


@dataclass(frozen=True)
class TaskDone:
    """A task was met, and stored with its policy."""

    position: int
    """Its place in the stream, from 0."""
    name: str
    task_id: int | None
    """Its id in the repository; None if it was removed since."""
    episodes: int
    total: float
    """The sum of the returns of its episodes."""
    value: float
    """What its policy of record was worth then: an episode could have had so much."""
    n_sources: int
    learner_share: float
    """The share of the episodes that the learner ran."""
    evaluation_episodes: int
    """Episodes spent to value policies, where there is no model."""
    replayed: bool

    @classmethod
    def of(cls, run: StoredRun, replayed: bool) -> TaskDone:
        """From a stored run."""
        return cls(
            position=run.position or 0,
            name=run.name,
            task_id=run.task_id,
            episodes=len(run.returns),
            total=float(run.returns.sum()),
            value=run.value,
            n_sources=run.n_sources,
            learner_share=float((run.arms == run.n_sources).mean()),
            evaluation_episodes=run.evaluation_episodes,
            replayed=replayed,
        )

    @property
    def mean_return(self) -> float:
        """The mean return of an episode."""
        return self.total / self.episodes


@dataclass(frozen=True)
class Reclustered:
    """The repository was clustered anew after ``position`` tasks of the stream."""

    position: int
    n_tasks: int
    n_clusters: int
    cost: float
    mean_radius: float
    replayed: bool


Event = TaskDone | Reclustered
Hook = Callable[[Event], None]
