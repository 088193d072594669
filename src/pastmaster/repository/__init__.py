"""The persistent store: tasks, policies, what each is worth in the others, and which to keep."""

from pastmaster.repository.check import Damage
from pastmaster.repository.clusterings import ClusteringRecord
from pastmaster.repository.listing import Records
from pastmaster.repository.records import PolicyRecord, TaskRecord
from pastmaster.repository.spot_check import Checked
from pastmaster.repository.store import Repository
from pastmaster.repository.streams import StoredRun, Stream

__all__ = [
    "Checked",
    "ClusteringRecord",
    "Damage",
    "PolicyRecord",
    "Records",
    "Repository",
    "StoredRun",
    "Stream",
    "TaskRecord",
]
