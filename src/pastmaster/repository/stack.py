"""The candidates of a repository as one array of actions: a new task is valued under all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, sealed
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import _kernels as kernels


class Stack:
    """Tables of actions [c, S] by the ids of their policies.

    A stack never changes, so threads may share one: ``joined`` makes another.
    """

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.actions: IntArray = sealed(np.empty((0, 1), np.int32))

    def joined(self, policies: Mapping[int, Any]) -> Stack:
        """Another stack, with these policies too, by id; those that are not one action to each state are left out."""
        tables = {number: policy for number, policy in policies.items() if _is_table(policy)}
        new = [number for number in tables if number not in self.places]
        if not new:
            return self
        other = Stack()
        other.places = self.places | {number: len(self.places) + i for i, number in enumerate(new)}
        added = np.stack([tables[number] for number in new])
        other.actions = sealed(np.concatenate([self.actions, added]) if self.places else added)
        return other

    def values(self, task: TabularMDP, numbers: Sequence[int]) -> FloatArray:
        """What the policies of these ids are worth in a task: the same bits as by ``cross_values``.

        A few are picked out; of many it is quicker to value all that are held.
        """
        places = [self.places[number] for number in numbers]
        few = 2 * len(places) < len(self.places)
        actions = sealed(self.actions[places]) if few else self.actions
        found = np.empty(len(actions))
        episode = task.gamma, -1 if task.horizon is None else task.horizon, task.start_states, task.start_probability
        if task.probability is None:
            arrays = (task.next_state, task.reward, task.terminated)
            kernels.trajectory_values(*arrays, *episode, actions, found)
        else:
            kernels.reached_values(*task.model(), *episode, actions, found)
        return found if few else found[places]


def _is_table(policy: Any) -> bool:
    """Whether a policy is one action to each state."""
    return isinstance(policy, np.ndarray) and policy.ndim == 1 and policy.dtype == np.int32
