"""Black-box tasks: environments without a model, and what policies are worth in them as far as episodes tell."""

from pastmaster.tasks.cross import estimate_cross_values
from pastmaster.tasks.cross_estimate import CrossValueEstimate
from pastmaster.tasks.estimate import Estimate, estimate_values, fitting_policy
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.rollouts import Run, episode_returns
from pastmaster.tasks.sb3_learner import SB3Learning

__all__ = [
    "CrossValueEstimate",
    "Estimate",
    "GymTask",
    "Run",
    "SB3Learning",
    "episode_returns",
    "estimate_cross_values",
    "estimate_values",
    "fitting_policy",
]
