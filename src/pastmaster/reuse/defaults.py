"""What ``transfer`` takes where it is not told: the recommended selector, and a learner that fits the task."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from pastmaster.errors import InvalidInputError
from pastmaster.reuse.protocols import LearnerSettings, Space
from pastmaster.reuse.q_learning import QLearning, decay
from pastmaster.reuse.sb3_learner import SB3Learning, fitting
from pastmaster.tasks.spaces import discrete_size

RECOMMENDED: dict[str, Any] = {
    "selector": "regret-balancing",
    "learner": QLearning(epsilon=decay(0.1, 500)),
}
"""What ``transfer`` uses for a task with finitely many states and actions, unless it is told otherwise."""


def default_learner(observations: Space, actions: Space) -> LearnerSettings:
    """Q-learning for Discrete observations and actions, Stable-Baselines3's DQN or SAC for others."""
    if discrete_size(observations) is not None and discrete_size(actions) is not None:
        learner: LearnerSettings = RECOMMENDED["learner"]
        return learner
    algorithms, remedy = fitting(observations, actions)
    if not algorithms:
        raise InvalidInputError(f"transfer: learner is None, must be given for this task: {remedy}")
    if find_spec("stable_baselines3") is None:
        raise InvalidInputError(
            f"transfer: learner is None, for this task {algorithms[0]} of Stable-Baselines3, which is not installed: "
            "must be given, or pip install stable-baselines3"
        )
    return SB3Learning(algorithms[0])
