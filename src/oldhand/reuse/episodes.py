"""The two bodies of the episode engine: a plain loop over any Gymnasium environment, and the compiled one.

Both draw from three streams: the selector's (one number an episode), the environment's (its own, seeded by one number)
and the learner's (all actions drawn at random). On a tabular task they give the same arms and returns, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from oldhand.mdp import FloatArray, TabularMDP, sealed
from oldhand.reuse import _episode_kernels as kernels
from oldhand.reuse import _selector_kernels as selector_kernels
from oldhand.reuse.q_learning import QLearner
from oldhand.reuse.selector import Selector

FOREVER = 2**62


@dataclass
class Trial:
    """One run of T episodes: who chooses, who learns, and what has been seen so far."""

    selector: Any
    learner: Any
    every: bool
    share: bool
    seed: int
    returns: FloatArray
    arms: npt.NDArray[np.int32]

    @property
    def mixing(self) -> bool:
        """Whether sources and learner act in one episode (policy reuse)."""
        return getattr(self.selector, "reuse", (1.0, 1.0)) != (1.0, 1.0)


class CompiledEpisodes:
    """Episodes of a tabular task by arrays of policies, compiled."""

    def __init__(self, task: TabularMDP, sources: list[npt.NDArray[Any]], trial: Trial) -> None:
        self.trial, self.n_sources = trial, len(sources)
        self.task, self.sources = simulated(task), source_arrays(sources, task)
        learner: QLearner = trial.learner
        self.learner = kernels.Learner(learner.Q, learner.visits, learner.steps, learner.epsilons, learner.own_episodes)
        self.rng, _ = gym.utils.seeding.np_random(trial.seed)
        fixed = task.is_deterministic and len(task.start_states) == 1
        # a source's return in such a task is the same every time, unless the learner looks on or others act too
        self.constant = np.full(self.n_sources, np.nan) if fixed and not self._watched() else np.empty(0)

    def _watched(self) -> bool:
        return self.trial.every or self.trial.share or self.trial.mixing

    def play(self, first: int) -> int:
        """Run episodes from ``first`` on; returns the one whose return the selector refused, or their number."""
        selector: Selector = self.trial.selector
        n_arms = self.n_sources + 1
        buffers = kernels.Buffers(np.ones(n_arms), np.empty(n_arms, np.int64), np.empty(256, np.int64), np.empty(256))
        stopped: int = kernels.play(
            self.task, self.sources, self.learner, selector._arms, selector._memory, selector._settings,
            self.trial.every, self.trial.share, *selector.reuse, buffers, self.constant,
            selector._rng, self.rng, self.trial.learner.rng, first, self.trial.returns, self.trial.arms,
        )  # fmt: skip
        return stopped


def simulated(task: TabularMDP) -> kernels.Task:
    """A task as the compiled episodes read it."""
    shape = (task.n_states, task.n_actions, -1)
    chances = np.ones((*shape[:2], 1)) if task.probability is None else task.probability
    return kernels.Task(
        sealed(task.next_state.reshape(shape)), sealed(task.reward.reshape(shape)),
        sealed(task.terminated.reshape(shape)), sealed(reach_of(chances)), sealed(task.start_states),
        sealed(reach_of(task.start_probability)), task.gamma, FOREVER if task.horizon is None else task.horizon,
    )  # fmt: skip


def reach_of(probability: FloatArray) -> FloatArray:
    """Cumulative probabilities along the last axis, 2 from the last possible outcome on."""
    n = probability.shape[-1]
    last = n - 1 - np.argmax(probability[..., ::-1] > 0, axis=-1)
    reach: FloatArray = np.where(np.arange(n) >= last[..., None], 2.0, np.cumsum(probability, axis=-1))
    return reach


def source_arrays(sources: list[npt.NDArray[Any]], task: TabularMDP) -> kernels.Sources:
    """Source policies as the compiled episodes read them."""
    actions = np.zeros((len(sources), task.n_states), np.int32)
    mixed = np.full(len(sources), -1, np.int32)
    chances: list[npt.NDArray[Any]] = []
    for i, policy in enumerate(sources):
        if policy.ndim == 1:
            actions[i] = policy
        else:
            mixed[i] = len(chances)
            chances.append(policy)
    stacked = np.array(chances).reshape(len(chances), task.n_states, task.n_actions)
    return kernels.Sources(sealed(actions), sealed(mixed), sealed(stacked))


class PlainEpisodes:
    """Episodes of any Gymnasium environment by arrays or callables, in plain Python."""

    def __init__(self, env: gym.Env[Any, Any], sources: list[Any], trial: Trial, gamma: float, horizon: int) -> None:
        self.env, self.sources, self.trial = env, sources, trial
        self.gamma, self.horizon = gamma, horizon
        self.seed: int | None = trial.seed
        self.track: Callable[[range], Iterable[int]] = iter  # a progress bar may be put here

    def play(self, first: int) -> int:
        """Run episodes from ``first`` on; returns the one whose return the selector refused, or their number."""
        trial = self.trial
        for t in self.track(range(first, len(trial.returns))):
            arm = trial.selector.ask()
            total, likelihood = self.episode(arm)
            trial.returns[t], trial.arms[t] = total, arm
            if refuses(trial.selector, total):
                return t
            if trial.share:
                trial.selector.tell(arm, total, likelihood)
            else:
                trial.selector.tell(arm, total)
        return len(trial.returns)

    def episode(self, arm: int) -> tuple[float, FloatArray]:
        """One episode of an arm: its discounted return, and how likely each arm would have been to act so."""
        trial, learner = self.trial, self.trial.learner
        own = arm == len(self.sources)
        psi, upsilon = trial.selector.reuse if trial.mixing else (1.0, 1.0)
        learning = own or trial.every or trial.share or trial.mixing
        undoing = trial.share and not (own or trial.every or trial.mixing)
        likelihood, changes = np.ones(len(self.sources) + 1), []
        total, discount, step, over = 0.0, 1.0, 0, False
        observation, _ = self.env.reset(seed=self.seed)
        self.seed = None  # the first reset seeds the environment's own stream
        while not over and step < self.horizon:
            if own:
                action = learner.act(observation, 0.0) if trial.mixing else learner.act(observation)
            elif trial.mixing and not learner.rng.random() < psi:
                action = learner.act(observation)
            else:
                action = self.source_action(arm, observation)
            psi *= upsilon
            if trial.share:
                for i in np.flatnonzero(likelihood[:-1]).tolist():
                    likelihood[i] *= self.source_likelihood(i, observation, action)
                likelihood[-1] *= learner.likelihood(observation, action)
            following, reward, terminated, truncated, _ = self.env.step(action)
            total += discount * float(reward)
            discount *= self.gamma
            if learning:
                if undoing:
                    changes.append((observation, action, learner.Q[observation, action]))
                learner.learn(observation, action, float(reward), following, terminated)
            observation, over = following, terminated or truncated
            step += 1
        if undoing:
            learner.unlearn(changes)
        if own:
            learner.end_own_episode()
        return total, likelihood

    def source_action(self, i: int, observation: Any) -> Any:
        """What source i does."""
        source = self.sources[i]
        if callable(source):
            return source(observation)
        if source.ndim == 1:
            return int(source[observation])
        return kernels.draw_action.py_func(source[observation], self.trial.learner.rng.random())  # type: ignore[attr-defined]

    def source_likelihood(self, i: int, observation: Any, action: Any) -> float:
        """How likely source i is to take the action; callables are taken to be deterministic."""
        source = self.sources[i]
        if callable(source):
            return float(np.array_equal(source(observation), action))
        return float(source[observation] == action) if source.ndim == 1 else float(source[observation, action])


def refuses(selector: Any, episode_return: float) -> bool:
    """Whether a selector of ours would refuse the return as outside its bounds."""
    if not isinstance(selector, Selector) or not selector.bounded or selector.clip:
        return False
    return bool(selector_kernels.outside(episode_return, *selector.bounds)) or not math.isfinite(episode_return)
