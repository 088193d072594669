"""What ``transfer`` asks of a learner. ``QLearning`` is one; bring your own for other observations or actions."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np


class Learner(Protocol):
    """A running learner. It may also have ``end_own_episode()``, called after each episode that it ran, and a
    ``policy`` to be kept in place of ``act``.
    """

    def act(self, observation: Any) -> Any:
        """The action to take."""

    def learn(self, observation: Any, action: Any, reward: float, following: Any, terminated: bool) -> None:
        """One step was made, by this learner or another arm; ``following`` is the next observation."""


@runtime_checkable
class LearnerSettings(Protocol):
    """Settings that start a learner. An attribute ``learn_from`` = "every" has it learn from every arm's episodes."""

    def start(
        self, observations: gym.Space[Any], actions: gym.Space[Any], gamma: float, rng: np.random.Generator
    ) -> Learner:
        """A learner that knows nothing yet, for one trial."""


class FixedPolicy:
    """In the learner's place, a policy that does not learn: what you would run otherwise, and never eliminated.

    ``policy`` is a function of the observation, or actions [S].
    """

    def __init__(self, policy: Any) -> None:
        self.policy = policy if callable(policy) else np.asarray(policy)

    def start(
        self, observations: gym.Space[Any], actions: gym.Space[Any], gamma: float, rng: np.random.Generator
    ) -> FixedPolicy:
        """Itself: there is nothing to start."""
        return self

    def act(self, observation: Any) -> Any:
        """The policy's action."""
        return self.policy(observation) if callable(self.policy) else int(self.policy[observation])

    def learn(self, observation: Any, action: Any, reward: float, following: Any, terminated: bool) -> None:
        """Nothing is learned."""
