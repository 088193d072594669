"""Episodes of policies in a task, many at once: the one place where policies meet environments.

Every episode is one *lane*: it begins with a ``reset`` of its own and ends where the environment ends it, at the task's
horizon at the latest. No autoreset is used: an environment that would begin the next episode by itself is not stepped
again, and where lanes step as one (a vector environment) what comes after a lane's end is thrown away.

Episode k of a task begins from seeds made of the task's seed and k alone, whichever policy runs it (common random
numbers), and what a policy draws at random belongs to the episode too. So a return depends neither on who else runs
nor on how episodes are put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import FloatArray, sealed
from pastmaster.checks import LARGEST_SEED, listed, whole
from pastmaster.errors import InvalidInputError, TaskError
from pastmaster.estimation import _rollout_kernels as kernels
from pastmaster.estimation.acting import Actors, Episode, LaneActions, is_plain, policy_edges
from pastmaster.estimation.jax_rollouts import Runs, is_program, play_runs
from pastmaster.policies import Policy, TablePolicy
from pastmaster.policies.batch import batch, begun, is_random
from pastmaster.policies.policy import is_policy
from pastmaster.tables import one_line, shown
from pastmaster.tasks import GymTask, TabularMDP, Task
from pastmaster.tasks.guard import Watch, finite_reward, watched
from pastmaster.tasks.simulated import simulated
from pastmaster.values.given import listed_policies, not_a_task

SINGLE_LANES = 32  # environments stepped one by one, side by side: enough that a policy acts on batches
KEPT_NUMBERS = 2**22  # random numbers of a model's episodes that are kept at once
VECTOR_LANES = 512  # of an environment that steps all lanes as one


@dataclass(frozen=True)
class EpisodeRange:
    """Episodes first, first + 1, ..., first + count - 1 of one policy, which is given by its number."""

    policy: int
    first: int
    count: int


def episode_returns(
    task: Task, policies: Sequence[Policy], ranges: Sequence[EpisodeRange], seed: int
) -> list[FloatArray]:
    """Run episodes of policies in a task.

    Parameters
    ----------
    task, policies
        A ``TabularMDP`` or ``GymTask`` with a horizon, and what ``as_policy`` returns.
    ranges : sequence of EpisodeRange
        Which episodes of which policy.
    seed : int
        The task's: episode k begins from the same chances whichever policy runs it.

    Returns
    -------
    list of ndarray
        The discounted returns of each range's episodes, in order.

    Raises
    ------
    InvalidInputError, TaskError
        If the task has no horizon or a policy gives an action that does not fit; if the environment fails.

    Examples
    --------
    >>> from pastmaster.policies import TablePolicy
    >>> task = TabularMDP([[1, 0], [0, 1]], [[0.0, 1.0], [2.0, 0.0]], gamma=0.5, horizon=3)
    >>> episode_returns(task, [TablePolicy([0, 0])], [EpisodeRange(0, first=0, count=2)], seed=7)
    [array([1., 1.])]
    """
    seed, known, ranges = _checked(task, policies, ranges, seed)
    if task.horizon is None:
        raise InvalidInputError(f"episode_returns: {task} has no horizon, must have one: an episode may never end")
    episodes = [Episode(some.policy, some.first + k) for some in ranges for k in range(some.count)]
    totals = np.zeros(len(episodes))
    compiled = np.array([is_program(task, [known[episode.policy]]) for episode in episodes], np.bool_)
    if compiled.any():
        of_networks = [some for some in ranges if is_program(task, [known[some.policy]])]
        parts = zip(*((0, some.policy, some.first, some.count) for some in of_networks), strict=True)
        totals[compiled] = play_runs([task], known, [seed], Runs(*map(np.array, parts))).returns
    others = [episode for episode, done in zip(episodes, compiled.tolist(), strict=True) if not done]
    if others or not episodes:
        rest = np.zeros(len(others))
        watch = task.watch() if isinstance(task, GymTask) else Watch(str(task), None)
        watched(lambda: _Rollout(Actors(task, known, seed), others, rest, watch).play(), watch)
        totals[~compiled] = rest
    if not np.isfinite(totals).all():
        k = int(np.argmin(np.isfinite(totals)))
        raise TaskError(
            f"{one_line(task.name or str(task))}: the return of episode {episodes[k].number} is {totals[k]}, must be a "
            "finite number: its rewards are too large"
        )
    return np.split(totals, np.cumsum([some.count for some in ranges])[:-1])


def _checked(task: Any, policies: Any, ranges: Any, seed: Any) -> tuple[int, list[Policy], list[EpisodeRange]]:
    """The arguments of ``episode_returns`` but the task, of types that fit."""
    caller = "episode_returns"
    if not isinstance(task, Task):
        raise not_a_task(f"{caller}: task", task)
    known, found = listed_policies(f"{caller}: policies", policies), listed(ranges, f"{caller}: ranges")
    if wrong := [policy for policy in known if not is_policy(policy)]:
        raise InvalidInputError(f"{caller}: policies holds {shown(wrong[0])}, must hold what as_policy returns")
    for i, some in enumerate(found):
        if not isinstance(some, EpisodeRange):
            raise InvalidInputError(f"{caller}: ranges[{i}] is {shown(some)}, must be an EpisodeRange")
        whole(caller, f"ranges[{i}].policy", some.policy, at_least=0, at_most=len(known) - 1)
        for name in ("first", "count"):
            whole(caller, f"ranges[{i}].{name}", getattr(some, name), at_least=0)
    return whole(caller, "seed", seed, at_least=0, at_most=LARGEST_SEED), known, found


class _Lane:
    """An episode under way in an environment of its own."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.index, self.steps, self.weight, self.total = 0, 0, 1.0, 0.0
        self.observation: Any = None
        self.rng: np.random.Generator | None = None
        self.begun: Any = None


class _Rollout:
    """Episodes to be played, and their returns so far."""

    def __init__(self, actors: Actors, episodes: list[Episode], totals: FloatArray, watch: Watch) -> None:
        self.actors, self.task, self.policies = actors, actors.task, actors.policies
        self.episodes, self.totals, self.watch, self.horizon = episodes, totals, watch, actors.task.horizon or 0

    def play(self) -> None:
        """All episodes."""
        tables = all(isinstance(policy, TablePolicy) for policy in self.policies)
        if isinstance(self.task, TabularMDP) and tables and self.horizon <= KEPT_NUMBERS:  # which are drawn beforehand
            if self.episodes:
                self._play_model(self.task)
            return
        if isinstance(self.task, GymTask) and self.episodes and self._is_plain(self.task):
            for first in range(0, len(self.episodes), VECTOR_LANES):
                lanes = range(first, min(first + VECTOR_LANES, len(self.episodes)))
                env = self.task.vector_environment(len(lanes), self.watch)
                if env is None:
                    break
                self._play_vector(env, lanes)
            else:
                return
        self._play_singles()

    @staticmethod
    def _is_plain(task: GymTask) -> bool:
        """Whether observations and actions of many lanes are one array each."""
        return is_plain(task.observation_space) and is_plain(task.action_space)

    # models and tables: compiled, with the numbers that the environment would draw

    def _play_model(self, task: TabularMDP) -> None:
        model = simulated(task, self.horizon)
        most = max(1, KEPT_NUMBERS // (self.horizon + 1))
        chances = lru_cache(most)(self._chances)  # policies meet the same
        for begin, end in pairwise(policy_edges(self.episodes)):
            policy: Any = self.policies[self.episodes[begin].policy]
            reach = policy.reach if policy.random else kernels.reached(policy.table, task.n_actions)
            for first in range(begin, end, most):
                last = min(first + most, end)
                numbers = [episode.number for episode in self.episodes[first:last]]
                drawn = np.zeros((len(numbers), self.horizon))
                if policy.random:
                    drawn = np.array([self.actors.draws(number).random(self.horizon) for number in numbers])
                kernels.play(
                    model.reach, model.next_state, model.reward, model.terminated, task.gamma, self.horizon,
                    model.start_reach, model.start_states, sealed(reach), np.array([chances(n) for n in numbers]),
                    drawn, self.totals[first:last],
                )  # fmt: skip

    def _chances(self, number: int) -> FloatArray:
        """What an environment of a model draws in an episode: for its start, and for every step if it is random."""
        rng, _ = gym.utils.seeding.np_random(self.actors.reset_seed(number))
        return rng.random(self.horizon + 1)

    # environments one by one

    def _play_singles(self) -> None:
        waiting = iter(range(len(self.episodes)))
        lanes = [_Lane(self._environment()) for _ in range(min(SINGLE_LANES, len(self.episodes)))]
        try:
            under_way = [lane for lane in lanes if self._begin(lane, waiting)]
            while under_way:
                for policy, those in self._by_policy(under_way):
                    self._step(policy, those)
                under_way = [lane for lane in under_way if lane.steps >= 0 or self._begin(lane, waiting)]
        finally:
            for lane in lanes:
                lane.env.close()

    def _environment(self) -> gym.Env[Any, Any]:
        if isinstance(self.task, GymTask):
            return self.task.environment(self.watch)
        return self.task.to_gymnasium()

    def _begin(self, lane: _Lane, waiting: Iterator[int]) -> bool:
        """Give a lane the next episode, if there is one."""
        index = next(waiting, None)
        if index is None:
            return False
        policy, number = self.episodes[index]
        lane.index, lane.steps, lane.weight, lane.total = index, 0, 1.0, 0.0
        lane.rng = self.actors.draws(number) if is_random(self.policies[policy]) else None
        lane.begun = begun(self.policies[policy])
        lane.observation, _ = lane.env.reset(seed=self.actors.reset_seed(number))
        return True

    def _by_policy(self, lanes: list[_Lane]) -> list[tuple[Policy, list[_Lane]]]:
        groups: dict[int, list[_Lane]] = {}
        for lane in lanes:
            groups.setdefault(self.episodes[lane.index].policy, []).append(lane)
        return [(self.policies[number], those) for number, those in groups.items()]

    def _step(self, policy: Policy, lanes: list[_Lane]) -> None:
        """One step of lanes that one policy runs; ``steps`` becomes -1 where the episode is over."""
        uniforms = np.array([lane.rng.random() for lane in lanes if lane.rng is not None])
        observations = batch([lane.observation for lane in lanes])
        actions = self.actors.act(policy, observations, uniforms, [lane.begun for lane in lanes])
        for lane, action in zip(lanes, actions, strict=True):
            lane.observation, reward, terminated, truncated, _ = lane.env.step(action)
            lane.total += lane.weight * float(reward)
            lane.weight *= self.task.gamma
            lane.steps += 1
            if terminated or truncated or lane.steps == self.horizon:
                self.totals[lane.index] = lane.total
                lane.steps = -1

    # environments that step as one

    def _play_vector(self, env: gym.vector.VectorEnv[Any, Any, Any], lanes: range) -> None:
        """One episode in each lane; a lane that is over is stepped on with the others, for nothing."""
        episodes = [self.episodes[index] for index in lanes]
        seeds = [self.actors.reset_seed(number) for _, number in episodes]
        try:
            observations, _ = self.watch("reset", env.reset, seed=seeds)
            acting = LaneActions(self.actors, episodes)
            going, weight = np.ones(len(episodes), np.bool_), 1.0
            for n in range(self.horizon):
                self._look("step" if n else "reset", observations[going], env.single_observation_space)
                actions = acting.actions(observations, going)
                observations, rewards, terminated, truncated, _ = self.watch("step", env.step, actions)
                rewards = np.asarray(rewards, np.float64)  # a product with float32 would be rounded
                if not np.isfinite(rewards[going]).all():
                    finite_reward(rewards[going & ~np.isfinite(rewards)][0], self.watch)
                self.totals[lanes.start : lanes.stop][going] += weight * rewards[going]
                weight *= self.task.gamma
                going &= ~(terminated | truncated)
                if not going.any():
                    break
        finally:
            self.watch("close", env.close)

    def _look(self, call: str, observations: Any, space: gym.Space[Any]) -> None:
        if isinstance(space, gym.spaces.Box) and not np.isfinite(observations).all():
            raise TaskError(f"{self.watch.name}: {call} returned observations that are not finite")
