"""What a task is: a finite model, or an environment of Gymnasium or JAX of which only episodes can be run."""

from pastmaster.tasks.brax_env import BraxEnv
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.jax_env import JaxEnv
from pastmaster.tasks.jax_task import JaxTask
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.tasks.tabular_env import TabularEnv

Task = TabularMDP | GymTask

__all__ = ["BraxEnv", "GymTask", "JaxEnv", "JaxTask", "TabularEnv", "TabularMDP", "Task"]
