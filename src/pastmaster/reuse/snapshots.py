"""Copies of a learner's policy, taken while it learns: what it was before it changed again, or collapsed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pastmaster.reuse.fixed_policy import FixedPolicy
from pastmaster.reuse.protocols import Learner, policy_to_keep

PARTS = 10  # a copy after every tenth of T own episodes, so ten at most


class Snapshots:
    """Copies of one learner's policy, by the number of its own episodes that were over.

    When they are taken depends on the number of episodes alone, never on returns. A policy that cannot change is not
    copied, nor one that cannot be copied.
    """

    def __init__(self, episodes: int) -> None:
        self.every = -(-episodes // PARTS)  # own episodes between two copies
        self.own_episodes = 0
        self.policies: dict[int, Any] = {}

    @property
    def due(self) -> int:
        """The number of own episodes after which the next copy is taken."""
        return (self.own_episodes // self.every + 1) * self.every

    def count(self, learner: Learner, episodes: int = 1) -> None:
        """So many more own episodes are over, not beyond the one that is due."""
        self.own_episodes += episodes
        if not episodes or self.own_episodes % self.every or isinstance(learner, FixedPolicy):
            return
        policy = policy_to_keep(learner)
        try:
            copied = deepcopy(policy)
            if copied is policy and callable(policy):
                raise TypeError("copies of functions are the functions themselves: they would change on")
            self.policies[self.own_episodes] = copied
        except Exception:  # of whatever kind: it is the learner's, and the run does not need the copy
            self.policies.clear()
