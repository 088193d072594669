"""The contract of a task, as a function that anyone can run."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from pastmaster.checks import whole
from pastmaster.errors import ContractError, InvalidInputError, TaskError
from pastmaster.parallel import transport
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, TabularMDP
from pastmaster.tasks.guard import Watch, watched

STEPS = 200  # of an episode at most
LANES = 3  # of a vector environment


def check_task(task: TabularMDP | GymTask, *, episodes: int = 3, seed: int = 0) -> None:
    """Check that a task keeps its contract, by playing a few episodes with random actions.

    Run it once on a task of your own before you spend hours on it. It checks that

    * episodes are the same for the same seed and actions, in the same and in another environment: nothing is carried
      from episode to episode, and all chance comes from ``reset(seed=...)``;
    * observations are in their space, and the environment does not change them later;
    * rewards are finite, and within ``reward_range`` where that is known;
    * actions that are passed in are not changed;
    * the episodes of a ``TabularMDP`` end by its horizon;
    * the lanes of a vector environment do what single environments do;
    * the task can be sent to another process, and plays the same episodes there.

    Parameters
    ----------
    task : TabularMDP or GymTask
        The task. Wrap an environment of your own: ``GymTask(make_env)``.
    episodes, seed : int
        How many episodes are played, of at most 200 steps, and the seed of the first and its actions; the others have
        the seeds that follow.

    Raises
    ------
    ContractError, InvalidInputError
        The first rule that the task breaks, and the likely cause; ``InvalidInputError`` if it is no task.

    Examples
    --------
    >>> from pastmaster import GymTask, TabularMDP
    >>> from pastmaster.testing import check_task
    >>> check_task(TabularMDP([[0, 1], [1, 1]], [[0.0, 1.0], [0.0, 0.0]], gamma=0.9, horizon=5))
    >>> check_task(GymTask("pastmaster/CartPole-v0"), episodes=2)
    """
    if not isinstance(task, TabularMDP | GymTask):
        raise InvalidInputError(
            f"check_task: task is {shown(task)}, must be a TabularMDP or a GymTask: wrap an environment, "
            "GymTask(make_env)"
        )
    first = whole("check_task", "seed", seed, at_least=0)
    contract = _Contract(task, range(first, first + whole("check_task", "episodes", episodes, at_least=1)))
    try:
        watched(contract.check_episodes, contract.watch)
        watched(contract.check_lanes, contract.watch)
    except (TaskError, InvalidInputError) as error:
        raise contract.broken(str(error)) from error


class _Step(NamedTuple):
    """What one step gave; the first of an episode is the reset."""

    observation: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class _Contract:
    """Episodes of a task, each from its seed, with actions drawn from the same seed."""

    def __init__(self, task: TabularMDP | GymTask, seeds: range) -> None:
        self.task = task
        self.seeds = seeds
        self.rewards = None
        if isinstance(task, GymTask):
            self.watch = task.watch()
            self.space = task.action_space
            self.rewards = task.known_rewards
        else:
            self.watch = Watch(repr(task), None)
            self.space = gym.spaces.Discrete(task.n_actions)

    def broken(self, symptom: str) -> ContractError:
        return ContractError(f"check_task: {symptom.removeprefix(f'{self.watch.name}: ')}, in {self.watch.name}")

    def environment(self, task: TabularMDP | GymTask) -> gym.Env[Any, Any]:
        return task.environment(self.watch) if isinstance(task, GymTask) else task.to_gymnasium()

    def actions(self, seed: int) -> gym.Space[Any]:
        """The space of actions, to sample from."""
        space = copy.deepcopy(self.space)
        space.seed(seed)
        return space

    def check_episodes(self) -> None:
        """Every episode is the same once more: in the same environment, in another, and in one of a pickled task."""
        copied = pickle.loads(transport.packed(self.task))
        envs = {
            "the same environment, after other episodes": self.environment(self.task),
            "another environment": self.environment(self.task),
            "an environment of a pickled copy of the task": self.environment(copied),
        }
        try:
            first = next(iter(envs.values()))
            played = {seed: self.episode(first, seed) for seed in self.seeds}
            for place, env in envs.items():
                for seed in reversed(self.seeds):
                    if not same(played[seed], self.episode(env, seed)):
                        raise self.broken(
                            f"seed {seed} gives another episode in {place}: does it draw from a generator other than "
                            "self.np_random, keep something from one episode to the next, or lose it when pickled?"
                        )
        finally:
            for env in envs.values():
                env.close()

    def episode(self, env: gym.Env[Any, Any], seed: int) -> list[_Step]:
        """One episode, each step checked."""
        actions = self.actions(seed)
        steps = [_Step(env.reset(seed=seed)[0])]
        kept = [copy.deepcopy(steps[0].observation)]
        while len(steps) <= STEPS and not (steps[-1].terminated or steps[-1].truncated):
            action = actions.sample()
            given = copy.deepcopy(action)
            observation, earned, terminated, truncated, _ = env.step(action)
            reward = float(earned)
            if not same(action, given):
                raise self.broken(f"step changes its action, from {given} to {action}: it must work on a copy")
            if self.rewards is not None and not self.rewards[0] <= reward <= self.rewards[1]:
                raise self.broken(
                    f"step returns the reward {reward:g}, must be within {self.rewards[0]:g} .. {self.rewards[1]:g}: "
                    "bounds of returns rest on that, so declare a wider reward_range"
                )
            steps.append(_Step(observation, reward, terminated, truncated))
            kept.append(copy.deepcopy(observation))
        if not all(same(step.observation, then) for step, then in zip(steps, kept, strict=True)):
            raise self.broken("step changes observations that it returned before: return a copy, not a buffer")
        if isinstance(self.task, TabularMDP) and len(steps) - 1 > (self.task.horizon or STEPS):
            raise self.broken(f"an episode goes on after {self.task.horizon} steps, its horizon")
        return steps

    def check_lanes(self) -> None:
        """The lanes of a vector environment do what single ones do, until the first episode is over."""
        lanes = self.task.vector_environment(LANES, self.watch) if isinstance(self.task, GymTask) else None
        if lanes is None:
            return
        seeds = [self.seeds[0] + lane for lane in range(LANES)]
        alone = [self.episode(self.environment(self.task), seed) for seed in seeds]
        spaces = [self.actions(seed) for seed in seeds]
        observations = self.watch("reset", lanes.reset, seed=seeds)[0]
        rewards = np.zeros(LANES)
        ends = [[False] * LANES] * 2
        for step, singles in enumerate(zip(*alone, strict=False)):
            seen, earned, terminated, truncated = zip(*singles, strict=True)
            alike = np.allclose(rewards, earned) and np.array_equal(ends, [terminated, truncated])
            over = any(terminated) or any(truncated)  # the lane may begin anew
            if not (alike and (over or np.allclose(observations, seen))):
                raise self.broken(f"step {step} of its vector environment differs from single environments")
            actions = np.stack([space.sample() for space in spaces])
            observations, rewards, *ends, _ = self.watch("step", lanes.step, actions)
        self.watch("close", lanes.close)


def same(one: Any, other: Any) -> bool:
    """Whether two observations, actions or episodes are equal, bit for bit; of containers all that is in them."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list):
        return isinstance(other, tuple | list) and len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other))
