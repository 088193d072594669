"""The candidates of a repository as one array of actions: a new task is valued under all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, sealed
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import _kernels as kernels


class Stack:
    """Tables of actions [c, S] by the ids of their policies, in the order in which they came."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.actions = np.empty((0, 1), np.int32)

    def copy(self) -> Stack:
        """Another stack of the same policies."""
        other = Stack()
        other.places, other.actions = dict(self.places), self.actions.copy()
        return other

    def holds(self, policy: Any) -> bool:
        """Whether a policy is of the kind that is held: one action to each state."""
        return isinstance(policy, np.ndarray) and policy.ndim == 1 and policy.dtype == np.int32

    def put(self, number: int, policy: Any) -> None:
        """Hold a policy."""
        used = len(self.places)
        if used == len(self.actions):
            grown = np.empty((max(16, 2 * used), len(policy)), np.int32)
            grown[:used] = self.actions if used else 0
            self.actions = grown
        self.actions[used] = policy
        self.places[number] = used

    def values(self, task: TabularMDP, numbers: Sequence[int]) -> FloatArray:
        """What the policies of these ids are worth in a task: the same bits as by ``cross_values``.

        A few are picked out; of many it is quicker to value all that are held.
        """
        places = [self.places[number] for number in numbers]
        few = 2 * len(places) < len(self.places)
        actions = sealed(self.actions[places] if few else self.actions[: len(self.places)])
        found = np.empty(len(actions))
        episode = task.gamma, -1 if task.horizon is None else task.horizon, task.start_states, task.start_probability
        if task.probability is None:
            arrays = (task.next_state, task.reward, task.terminated)
            kernels.trajectory_values(*arrays, *episode, actions, found)
        else:
            kernels.reached_values(*task.model(), *episode, actions, found)
        return found if few else found[places]
