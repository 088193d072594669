"""Black-box tasks: environments without a model, and what policies are worth in them as far as episodes tell."""

from oldhand.tasks.estimate import Estimate, estimate_values
from oldhand.tasks.gym_task import GymTask, transfer_setting

__all__ = ["Estimate", "GymTask", "estimate_values", "transfer_setting"]
