"""The lifelong agent: task after task, reusing what it has, keeping what it learns."""

from oldhand.continual.agent import ContinualTransfer
from oldhand.continual.events import Event, Hook, Reclustered, TaskDone
from oldhand.continual.hooks import JsonLines, Progress, TensorBoard
from oldhand.continual.run import ContinualRun, plot_streams

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
