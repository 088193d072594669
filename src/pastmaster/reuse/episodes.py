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

from pastmaster.arrays import FloatArray, sealed
from pastmaster.policies.batch import action_of
from pastmaster.reuse import _episode_kernels as kernels
from pastmaster.reuse._selector_kernels import outside
from pastmaster.reuse.q_learning import QLearner
from pastmaster.reuse.selector import Selector
from pastmaster.tasks.simulated import SimulatedTask
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import Bounds

FOREVER = 2**62


@dataclass
class Trial:
    """One run of T episodes: who chooses, who learns, and what has been seen so far."""

    selector: Any
    learner: Any
    rng: np.random.Generator
    every: bool
    share: bool
    bounds: Bounds | None
    clip: bool
    seed: int
    returns: FloatArray
    arms: npt.NDArray[np.int32]
    clipped: int = 0

    @property
    def mixing(self) -> bool:
        """Whether sources and learner act in one episode (policy reuse)."""
        return bool(getattr(self.selector, "mixes", False))

    def admitted(self, episode_return: float) -> float | None:
        """The return as the selector may be told it, or None if it must not be; our selectors do their own clipping."""
        if not math.isfinite(episode_return):
            return None
        if isinstance(self.selector, Selector):
            return None if self.selector.refuses(episode_return) else episode_return
        if self.bounds is None or not outside(episode_return, *self.bounds):
            return episode_return
        if not self.clip:
            return None
        self.clipped += 1
        return min(max(episode_return, self.bounds.lower), self.bounds.upper)

    def begin(self) -> None:
        """Before the episodes of a selector."""
        if self.clip and isinstance(self.selector, Selector):
            self.selector.start_clipping()


class CompiledEpisodes:
    """Episodes of a tabular task by arrays of policies, compiled."""

    def __init__(self, task: TabularMDP, arrays: SimulatedTask, sources: kernels.Sources, trial: Trial) -> None:
        self.task, self.sources, self.trial = arrays, sources, trial
        self.n_sources = len(sources.mixed)
        learner: QLearner = trial.learner
        self.learner = kernels.Learner(learner.Q, learner.visits, learner.steps, learner.epsilons, learner.own_episodes)
        self.rng, _ = gym.utils.seeding.np_random(trial.seed)
        self.uniforms: FloatArray | None = None
        # a source's return in such a task is the same every time, unless the learner looks on or acts too
        fixed = task.is_deterministic and len(task.start_states) == 1
        watched = trial.every or trial.share or trial.mixing
        self.constant = np.full(self.n_sources, np.nan) if fixed and not watched else np.empty(0)
        n_arms = self.n_sources + 1
        self.buffers = kernels.Buffers(
            np.ones(n_arms), np.empty(n_arms, np.int64), np.empty(256, np.int64), np.empty(256)
        )

    def play(self, first: int) -> int:
        """Run episodes from ``first`` on; returns the one whose return the selector refused, or their number."""
        trial, selector = self.trial, self.trial.selector
        trial.begin()
        if self.uniforms is None:
            self.uniforms = selector._rng.random(len(trial.returns))  # all that its asks would draw
        stopped: int = kernels.play(
            self.task, self.sources, self.learner, selector._arms, selector._memory, selector._settings,
            trial.every, trial.share, trial.mixing, *selector.reuse, self.buffers, self.constant,
            self.uniforms, self.rng, trial.rng, first, trial.returns, trial.arms,
        )  # fmt: skip
        trial.clipped = selector.n_clipped
        return stopped


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
        """Run episodes from ``first`` on; returns the one whose return cannot be told, or their number."""
        trial = self.trial
        trial.begin()
        for t in self.track(range(first, len(trial.returns))):
            arm = trial.selector.ask()
            total, likelihood = self.episode(arm)
            trial.returns[t], trial.arms[t] = total, arm
            told = trial.admitted(total)
            if told is None:
                return t
            if trial.share:
                trial.selector.tell(arm, told, likelihood)
            else:
                trial.selector.tell(arm, told)
        trial.clipped += getattr(trial.selector, "n_clipped", 0)
        return len(trial.returns)

    def open(self) -> int:
        """Run the arms in turn, the learner first, until two returns differ; returns how many episodes that took."""
        trial, arms = self.trial, len(self.sources) + 1
        for t in range(len(trial.returns)):
            trial.arms[t] = (t - 1) % arms
            trial.returns[t], _ = self.episode(int(trial.arms[t]))
            if trial.returns[t] != trial.returns[0]:
                return t + 1
        return len(trial.returns)

    def episode(self, arm: int) -> tuple[float, FloatArray]:
        """One episode of an arm: its discounted return, and how likely each arm would have been to act so."""
        trial, learner = self.trial, self.trial.learner
        own, mixing, share = arm == len(self.sources), trial.mixing, trial.share
        psi, upsilon = trial.selector.reuse if mixing else (1.0, 1.0)
        learning = own or trial.every or share or mixing
        undoing = share and not (own or trial.every)
        likelihood, changes = np.ones(len(self.sources) + 1), []
        total, discount, step, over = 0.0, 1.0, 0, False
        observation, _ = self.env.reset(seed=self.seed)
        self.seed = None  # the first reset seeds the environment's own stream
        while not over and step < self.horizon:
            if own:
                action = learner.act(observation, 0.0) if mixing else learner.act(observation)
            elif mixing and not trial.rng.random() < psi:
                action = learner.act(observation)
            else:
                action = self.source_action(arm, observation)
            psi *= upsilon
            if share:
                self.update_likelihood(likelihood, observation, action)
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
        if own and hasattr(learner, "end_own_episode"):
            learner.end_own_episode()
        return total, likelihood

    def update_likelihood(self, likelihood: FloatArray, observation: Any, action: Any) -> None:
        """Multiply in how likely each arm is to take the action; raise all alike before all vanish."""
        for i in np.flatnonzero(likelihood[:-1]).tolist():
            likelihood[i] *= self.source_likelihood(i, observation, action)
        likelihood[-1] *= self.trial.learner.likelihood(observation, action)
        if likelihood.max() < kernels.TINY:
            likelihood /= kernels.TINY

    def source_action(self, i: int, observation: Any) -> Any:
        """What source i does."""
        source = self.sources[i]
        if not isinstance(source, np.ndarray):
            acts = hasattr(source, "act")  # it may be callable besides
            return action_of(source, observation, self.trial.rng) if acts else source(observation)
        if source.ndim == 1:
            return int(source[observation])
        return kernels.draw_action.py_func(source[observation], self.trial.rng.random())  # type: ignore[attr-defined]

    def source_likelihood(self, i: int, observation: Any, action: Any) -> float:
        """How likely source i is to take the action; all but arrays are taken to be deterministic."""
        source = self.sources[i]
        if not isinstance(source, np.ndarray):
            return float(np.array_equal(self.source_action(i, observation), action))
        return float(source[observation] == action) if source.ndim == 1 else float(source[observation, action])
