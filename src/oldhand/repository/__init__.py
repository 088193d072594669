"""The persistent store: tasks, policies, what each is worth to the others, and which to keep."""

from oldhand.repository.check import Damage
from oldhand.repository.clusterings import ClusteringRecord
from oldhand.repository.records import TaskRecord
from oldhand.repository.store import Repository

__all__ = ["ClusteringRecord", "Damage", "Repository", "TaskRecord"]
