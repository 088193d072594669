"""Returns of sources in a JAX task, episodes ahead: a block of a source's episodes takes about as long as one.

Episode t of a trial has its own seed, so what a source earns in it is settled before anyone asks. Where nobody learns
from a source's episodes, its return is all that matters.
"""

from __future__ import annotations

import numpy as np

from pastmaster.estimation.acting import episode_seed
from pastmaster.estimation.jax_rollouts import PlayedRuns, Runs, is_program, play_runs
from pastmaster.reuse.problem import Problem
from pastmaster.tasks.gym_task import GymTask

BLOCK = 64  # episodes: what runs at once on a CPU anyway


class Ahead:
    """The returns of network sources in the episodes of one trial, a block at a time."""

    def __init__(self, problem: Problem, seed: int, episodes: int, watched: bool) -> None:
        task, sources = problem.task, problem.sources
        self.task, self.sources, self.seed, self.episodes = task, sources, seed, episodes
        self.seeded = isinstance(task, GymTask) and task.program is not None
        self.known = [not watched and is_program(task, [source]) for source in sources]
        self.blocks: dict[int, tuple[int, PlayedRuns]] = {}

    def seed_of(self, t: int) -> int | None:
        """The seed of an episode's reset, where each has its own."""
        return episode_seed(self.seed, t) if self.seeded else None

    def returned(self, arm: int, t: int) -> tuple[float, float] | None:
        """What a source earns in an episode, discounted and not; None where it must be run step by step."""
        if arm >= len(self.known) or not self.known[arm]:
            return None
        first, played = self.blocks.get(arm, (0, None))
        if played is None or not first <= t < first + len(played.returns):
            first, played = t, self._played(arm, t)
            self.blocks[arm] = first, played
        return float(played.returns[t - first]), float(played.undiscounted[t - first])

    def _played(self, arm: int, t: int) -> PlayedRuns:
        runs = Runs(*(np.array([part]) for part in (0, arm, t, min(BLOCK, self.episodes - t))))
        return play_runs([self.task], self.sources, [self.seed], runs, called="sources")
