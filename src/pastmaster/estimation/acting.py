"""What policies do in episodes of a task: on batches, with their own chances, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array, BoolArray, FloatArray
from pastmaster.errors import InvalidInputError
from pastmaster.policies import Policy, stacked
from pastmaster.policies.batch import actions_as_one, begun, check_parts, is_random, is_recurrent
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, Task


class Episode(NamedTuple):
    """One episode: the number of its policy, and its own."""

    policy: int
    number: int


def policy_edges(episodes: list[Episode]) -> list[int]:
    """Where the policy changes from one episode to the next, the ends included."""
    changes = (i for i in range(1, len(episodes)) if episodes[i].policy != episodes[i - 1].policy)
    return [0, *changes, len(episodes)]


class Actors:
    """The policies that run episodes of a task, and the chances that belong to each episode."""

    def __init__(self, task: Task, policies: Sequence[Policy], seed: int) -> None:
        self.task, self.policies, self.seed = task, policies, seed
        self.seeds: dict[int, int] = {}
        self.space: gym.Space[Any] = (
            task.action_space if isinstance(task, GymTask) else gym.spaces.Discrete(task.n_actions)
        )

    def act(self, policy: Policy, observations: Any, uniforms: FloatArray, begun: Sequence[Any] = ()) -> Any:
        """What a policy does on a batch; an error of its own is raised with its name and the task's.

        Of a recurrent policy, ``begun`` has what it is in the episode of each observation.
        """
        drawn = (uniforms,) if is_random(policy) else ()
        try:
            check_parts(policy, observations)
            if is_recurrent(policy):
                rows = [(slice(i, i + 1), acting) for i, acting in enumerate(begun)]
                parts = [acting.act(observations[i], *(some[i] for some in drawn))[0] for i, acting in rows]
                actions = actions_as_one(parts)
            else:
                actions = policy.act(observations, *drawn)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self._place(policy)}: {error}") from None
        except Exception as error:
            error.add_note(f"raised by {self._place(policy)}")
            raise
        return self.checked(policy, actions, len(observations))

    def _place(self, policy: Any) -> str:
        index = next((j for j, other in enumerate(self.policies) if other is policy), None)
        number = "" if index is None else f"policies[{index}], "
        return f"{self.task.name}: {number}{shown(policy)}"

    def checked(self, policy: Any, actions: Any, count: int) -> Any:
        """The actions of a batch as environments take them; an error names the policy."""
        fitting = _fitting(actions, self.space, count)
        if fitting is None:
            given = " ".join(str(actions)[:80].split())
            raise InvalidInputError(
                f"{self._place(policy)} gave {given} for {count} observations, must be one of {self.space} for each"
            )
        return fitting

    def draws(self, number: int) -> np.random.Generator:
        """The generator of what belongs to an episode: first its reset's seed, then a policy's draws."""
        rng = np.random.default_rng([self.seed, number])
        rng.integers(2**31)
        return rng

    def reset_seed(self, number: int) -> int:
        """The seed of an episode's reset."""
        if number not in self.seeds:
            self.seeds[number] = episode_seed(self.seed, number)
        return self.seeds[number]


def episode_seed(seed: int, number: int) -> int:
    """The seed of the reset of a task's episode."""
    return int(np.random.default_rng([seed, number]).integers(2**31))


def is_plain(space: gym.Space[Any]) -> bool:
    """Whether a batch of a space's members is one array."""
    return isinstance(space, gym.spaces.Discrete | gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary)


def _fitting(actions: Any, space: gym.Space[Any], count: int) -> Any:
    """So many actions, as an environment with this space takes them, or None where they do not fit."""
    if not is_plain(space):
        return _members(actions, space, count)
    array = np.asarray(actions)
    if isinstance(space, gym.spaces.Discrete):
        fits = array.shape == (count,) and array.dtype.kind in "iu"
        fits = fits and not ((array < space.start) | (array >= space.start + space.n)).any()
    elif isinstance(space, gym.spaces.Box):
        fits = array.shape == (count, *space.shape) and array.dtype.kind in "fiu" and bool(np.isfinite(array).all())
    else:
        fits = array.shape == (count, *(space.shape or ())) and array.dtype.kind in "iub"
    return array if fits else None


def _members(actions: Any, space: gym.Space[Any], count: int) -> list[Any] | None:
    """Actions of a Dict, a Tuple or another space whose members are no arrays, one to each observation."""
    if not isinstance(actions, list | tuple | np.ndarray) or len(actions) != count:
        return None
    try:
        return [_member(action, space) for action in actions]
    except ValueError:
        return None


def _member(action: Any, space: gym.Space[Any]) -> Any:
    """One action, part by part, as the environment takes it; ``ValueError`` where it does not fit."""
    if isinstance(space, gym.spaces.Dict) and isinstance(action, Mapping) and set(action) == set(space):
        return {key: _member(action[key], space[key]) for key in space}
    if isinstance(space, gym.spaces.Tuple) and isinstance(action, list | tuple | np.ndarray):
        return tuple(_member(part, kind) for part, kind in zip(action, space, strict=True))
    if is_plain(space):
        fitting = _fitting([action], space, 1)
        if fitting is not None:
            return fitting[0].astype(space.dtype)
    elif space.contains(action):
        return action
    raise ValueError(f"{action} is not of {space}")


class LaneActions:
    """How the policies of a vector environment's lanes act: as one where they are networks of one shape."""

    def __init__(self, actors: Actors, episodes: list[Episode]) -> None:
        self.actors = actors
        edges = policy_edges(episodes)
        self.groups = [(actors.policies[episodes[a].policy], slice(a, b)) for a, b in pairwise(edges)]
        self.draws = [
            actors.draws(number) if is_random(actors.policies[policy]) else None for policy, number in episodes
        ]
        self.chosen = np.zeros((len(episodes), *(actors.space.shape or ())), actors.space.dtype)
        self.begun = [begun(actors.policies[episode.policy]) for episode in episodes]
        self.lanes = edges[1] if len({b - a for a, b in pairwise(edges)}) == 1 else 0  # of each policy, if all alike
        self.live = np.arange(len(self.groups))
        self.stack = stacked([policy for policy, _ in self.groups]) if self.lanes else None

    def actions(self, observations: Any, going: BoolArray) -> Array:
        """The actions of all lanes; where one is over, whatever it was before."""
        if self.stack is not None:
            self._act_as_one(observations, going)
            return self.chosen
        for policy, group in self.groups:
            lanes = np.flatnonzero(going[group]) + group.start
            if len(lanes):
                uniforms = np.array([rng.random() for i in lanes if (rng := self.draws[i]) is not None])
                remembering = [self.begun[i] for i in lanes]
                self.chosen[lanes] = self.actors.act(policy, observations[lanes], uniforms, remembering)
        return self.chosen

    def _act_as_one(self, observations: Any, going: BoolArray) -> None:
        """By a stack of the policies some of whose lanes still go on, made again when a quarter of them are over."""
        still: BoolArray = np.any(going.reshape(len(self.groups), self.lanes), axis=1)[self.live]
        if still.sum() <= 0.75 * len(self.live):
            self.live = self.live[still]
            self.stack = stacked([self.groups[g][0] for g in self.live])
        assert self.stack is not None
        by_policy = observations.reshape(len(self.groups), self.lanes, *observations.shape[1:])
        chosen = self.chosen.reshape(len(self.groups), self.lanes, *self.chosen.shape[1:])
        actions = self.stack.act(by_policy[self.live])
        flat = actions.reshape(-1, *actions.shape[2:])
        chosen[self.live] = self.actors.checked(self.stack, flat, len(flat)).reshape(actions.shape)
