"""A policy that does not learn, in the learner's place."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from pastmaster.policies.batch import begun
from pastmaster.reuse.protocols import Space
from pastmaster.reuse.sources import acting, as_source, fitted
from pastmaster.tables import one_line

PLACE = "FixedPolicy: policy"


class FixedPolicy:
    """In the learner's place, a policy that does not learn: the one you would run otherwise. It is never eliminated.

    Parameters
    ----------
    policy : array_like, Solution, callable, object with ``act``, or Stable-Baselines3 model
        Any policy, as for the sources of ``transfer``.

    Examples
    --------
    >>> from pastmaster import FixedPolicy, TabularMDP, transfer
    >>> task = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    >>> run = transfer(task, [[0]], episodes=50, learner=FixedPolicy([1]), rng=0)
    >>> run.policy.tolist(), int(run.recommended[0])
    ([1], 1)
    """

    def __init__(self, policy: Any) -> None:
        self.policy = as_source(policy, PLACE)
        self._rng, self._place = np.random.default_rng(), PLACE
        self.end_own_episode()

    def start(self, observations: Space, actions: Space, gamma: float, rng: np.random.Generator) -> FixedPolicy:
        """Return a copy that draws from ``rng`` where the policy is random; an error if it cannot act in the spaces."""
        started = copy(self)
        started.policy = fitted(self.policy, observations, actions, PLACE)
        started._rng, started._place = rng, "transfer: learner.policy"
        started.end_own_episode()
        return started

    def __repr__(self) -> str:
        policy = f"{list(self.policy.shape)} table" if isinstance(self.policy, np.ndarray) else repr(self.policy)
        return f"FixedPolicy({one_line(policy, 80)})"

    def act(self, observation: Any) -> Any:
        """Return the policy's action."""
        return self._act(observation)

    def end_own_episode(self) -> None:
        """Let a recurrent policy forget what it saw: the next episode begins."""
        self._act = acting(begun(self.policy), self._rng, self._place)

    def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, terminated: bool) -> None:
        """Learn nothing."""
