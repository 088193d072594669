"""The two bodies of the episode engine: a plain loop over any Gymnasium environment, and the compiled one.

Both draw from three streams: the selector's (one number an episode), the environment's (its own, seeded by one number)
and the learner's (all actions drawn at random). On a tabular task they give the same arms and returns, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster import parallel
from pastmaster.arrays import FloatArray, IntArray
from pastmaster.policies.batch import begun, is_recurrent
from pastmaster.reuse import _episode_kernels as kernels
from pastmaster.reuse.ahead import Ahead
from pastmaster.reuse.problem import Problem
from pastmaster.reuse.protocols import BroughtSelector, end_of_own_episode
from pastmaster.reuse.selector import Selector
from pastmaster.reuse.snapshots import Snapshots
from pastmaster.reuse.sources import acting
from pastmaster.shield import Shield
from pastmaster.values import Bounds


@dataclass
class Trial:
    """One run of T episodes, on its way and at its end."""

    selector: Selector | BroughtSelector
    learner: Any
    returns: FloatArray
    arms: IntArray
    snapshots: Snapshots
    bounds: Bounds | None = None
    begun: int = 0  # the episode at which the selector began
    widened: int = 0  # how often it was started anew with wider bounds
    undiscounted: FloatArray | None = None  # sums of rewards, where episodes are not compiled


class CompiledEpisodes:
    """Episodes of a tabular task by arrays of policies, compiled."""

    def __init__(self, problem: Problem, trial: Trial, seed: int, rng: np.random.Generator) -> None:
        self.problem, self.trial, self.learner_rng, learner = problem, trial, rng, trial.learner
        self.task, self.sources = problem.arrays
        self.learner = kernels.Learner(learner.Q, learner.visits, learner.steps, learner.epsilons, learner.own_episodes)
        self.rng, _ = gym.utils.seeding.np_random(seed)
        self.uniforms: FloatArray | None = None
        # a source's return in such a task is the same every time, unless the learner learns from it or acts too
        fixed = problem.task.is_deterministic and len(problem.task.start_states) == 1
        constant = fixed and not problem.is_watched(trial.selector)
        self.constant = np.full(len(problem.sources) if constant else 0, np.nan)
        self.buffers = kernels.Buffers.of(len(problem.sources) + 1, learner.Q.shape if problem.share else (0, 0))

    def play(self, first: int) -> int:
        """Run episodes from ``first`` on; returns the one whose return the selector refused, or their number."""
        trial, selector = self.trial, self.trial.selector
        assert isinstance(selector, Selector)
        if self.uniforms is None:
            self.uniforms = selector._rng.random(len(trial.returns))  # all that its asks would draw
        refused = False
        while first < len(trial.returns) and not refused:
            with Shield():
                first, refused = kernels.play(
                    self.task, self.sources, self.learner, selector._arms, selector._memory, selector._settings,
                    self.problem.every, self.problem.share, selector.mixes, *selector.reuse, self.buffers,
                    self.constant, self.uniforms, self.rng, self.learner_rng, first, trial.snapshots.due, trial.returns,
                    trial.arms,
                )  # fmt: skip
            trial.snapshots.count(trial.learner, int(trial.learner.own_episodes[0]) - trial.snapshots.own_episodes)
        return first


class PlainEpisodes:
    """Episodes of any Gymnasium environment by arrays or callables, in plain Python."""

    def __init__(
        self, problem: Problem, trial: Trial, seed: int, rng: np.random.Generator, env: gym.Env[Any, Any],
        progress: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.trial, self.rng, self.env, self.progress = problem, trial, rng, env, progress
        self.sources = problem.sources
        self.seed: int | None = seed
        self.source_actions = [acting(source, rng, f"transfer: sources[{i}]") for i, source in enumerate(self.sources)]
        self.recurrent = [is_recurrent(source) for source in self.sources]
        self.ahead = Ahead(problem, seed, len(trial.returns), problem.is_watched(trial.selector))
        self.sums = trial.undiscounted = np.empty(len(trial.returns))

    def play(self, first: int) -> int:
        """Run episodes from ``first`` on; returns the one whose return cannot be told, or their number."""
        trial, selector = self.trial, self.trial.selector
        episodes = range(first, len(trial.returns))
        for t in parallel.tracked(episodes, len(episodes), self.progress, "transfer"):
            asked = selector.ask()
            total, self.sums[t], likelihood = self.episode(asked.arm, t)
            trial.returns[t], trial.arms[t] = total, asked.arm
            if not math.isfinite(total) or selector.refuses(total):
                selector.cancel(asked)
                return t
            if self.problem.share:
                selector.tell(asked, total, likelihood)
            else:
                selector.tell(asked, total)
        return len(trial.returns)

    def open(self) -> int:
        """Run the arms in turn, the learner first, until two returns differ; returns how many episodes that took."""
        trial, arms = self.trial, len(self.sources) + 1
        for t in range(len(trial.returns)):
            trial.arms[t] = (t - 1) % arms
            trial.returns[t], self.sums[t], _ = self.episode(int(trial.arms[t]), t)
            if trial.returns[t] != trial.returns[0]:
                return t + 1
        return len(trial.returns)

    def episode(self, arm: int, t: int) -> tuple[float, float, FloatArray]:
        """Episode t, of an arm: its return, discounted and not, and how likely each arm would have been to act so."""
        if (known := self.ahead.returned(arm, t)) is not None:
            return *known, np.ones(len(self.sources) + 1)
        trial, learner, problem = self.trial, self.trial.learner, self.problem
        own, mixing, share = arm == len(self.sources), trial.selector.mixes, problem.share
        psi, upsilon = trial.selector.reuse
        learning = own or problem.every or mixing
        undoing = share and not learning
        likelihood, changes = np.ones(len(self.sources) + 1), []
        total, plain, discount, step, over = 0.0, 0.0, 1.0, 0, False
        if not own and self.recurrent[arm]:
            self.source_actions[arm] = acting(begun(self.sources[arm]), self.rng, f"transfer: sources[{arm}]")
        observation = self._reset(t)
        while not over and step < problem.horizon:
            if own:
                action = learner.act(observation, 0.0) if mixing else learner.act(observation)
            elif mixing and not self.rng.random() < psi:
                action = learner.act(observation)
            else:
                action = self.source_actions[arm](observation)
            psi *= upsilon
            if share:
                self.update_likelihood(likelihood, observation, action)
            try:
                following, reward, ended, cut, _ = self.env.step(action)
                terminated, truncated = bool(ended), bool(cut)
                total += discount * float(reward)
                plain += float(reward)
            except Exception as error:  # the environment's
                problem.failed(error, "step", arm, action)
            if not math.isfinite(total):
                break  # nothing is learned from it, and the return is refused
            discount *= problem.gamma
            if undoing:
                changes.append((observation, action, learner.Q[observation, action]))
            if learning or undoing:
                learner.learn(observation, action, float(reward), following, terminated)
            observation, over = following, terminated or truncated
            step += 1
        if undoing:
            learner.unlearn(changes)
        if own:
            end_of_own_episode(learner)
            trial.snapshots.count(learner)
        return total, plain, likelihood

    def _reset(self, t: int) -> Any:
        """The first observation of episode t; the first reset seeds the environment's own stream."""
        seed = self.ahead.seed_of(t) if self.ahead.seeded else self.seed
        self.seed = None
        try:
            return self.env.reset(seed=seed)[0]
        except Exception as error:  # the environment's
            self.problem.failed(error, "reset")

    def update_likelihood(self, likelihood: FloatArray, observation: Any, action: Any) -> None:
        """Multiply in how likely each arm is to take the action; raise all alike before all vanish."""
        for i in np.flatnonzero(likelihood[:-1]).tolist():
            source = self.sources[i]
            if not isinstance(source, np.ndarray):  # deterministic: with share=True random ones are refused
                likelihood[i] *= float(np.array_equal(self.source_actions[i](observation), action))
            elif source.ndim == 1:
                likelihood[i] *= float(source[observation] == action)
            else:
                likelihood[i] *= float(source[observation, action])
        likelihood[-1] *= self.trial.learner.likelihood(observation, action)
        if likelihood.max() < kernels.TINY:
            likelihood /= kernels.TINY
