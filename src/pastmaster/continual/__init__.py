"""The lifelong agent: task after task, reusing what it has, keeping what it learns."""

from pastmaster.continual.agent import ContinualTransfer
from pastmaster.continual.events import Event, Hook, Reclustered, TaskDone
from pastmaster.continual.hooks import JsonLines, Progress, TensorBoard
from pastmaster.continual.run import ContinualRun, plot_streams

__all__ = [
    "ContinualRun",
    "ContinualTransfer",
    "Event",
    "Hook",
    "JsonLines",
    "Progress",
    "Reclustered",
    "TaskDone",
    "TensorBoard",
    "plot_streams",
]
