"""What a task is: a finite model, or a Gymnasium environment of which only episodes can be run."""

from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.tasks.tabular_env import TabularEnv

Task = TabularMDP | GymTask

__all__ = ["GymTask", "TabularEnv", "TabularMDP", "Task"]
