"""The persistent store: tasks, policies, what each is worth to the others, and which to keep."""

from pastmaster.repository.check import Damage
from pastmaster.repository.clusterings import ClusteringRecord
from pastmaster.repository.records import TaskRecord
from pastmaster.repository.store import Repository

__all__ = ["ClusteringRecord", "Damage", "Repository", "TaskRecord"]
