"""What ``transfer`` needs of a learner and of a selector that you bring.

The protocols hold what is required, and list what is optional. Optional members are looked up in this module alone.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from pastmaster.reuse._selector_kernels import outside
from pastmaster.reuse.asked import Episode
from pastmaster.reuse.selector import Selector
from pastmaster.values import Bounds

Space = gym.Space[Any]


class Learner(Protocol):
    """A running learner.

    Optional members: ``end_own_episode()`` is called after each episode that the learner ran itself; ``policy`` is the
    policy to keep, in place of ``act``; copies of it are taken while it learns, by ``copy.deepcopy``.
    """

    def act(self, observation: Any) -> Any:
        """Return the action to take."""

    def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, terminated: bool) -> None:
        """Learn from one step of this learner or of another arm."""


@runtime_checkable
class LearnerSettings(Protocol):
    """Settings that start a learner, once for each trial.

    Optional member: ``learn_from``, "own" (the default) or "every": whose episodes the learner learns from.
    """

    def start(self, observations: Space, actions: Space, gamma: float, rng: np.random.Generator) -> Learner:
        """Return a learner that knows nothing yet."""


@runtime_checkable
class SelectorProtocol(Protocol):
    """A selector of your own. ``selector(n_sources, episodes, bounds=..., rng=...)`` makes one for each trial.

    ``ask`` gives an ``Episode``, or just an arm; ``tell`` is given back what ``ask`` gave. ``transfer`` tells each
    episode before it asks for the next. With ``share=True`` there is a third argument, the likelihoods (see
    ``Exp3Transfer.tell``). Optional members:

    * ``bounds``: the (lower, upper) that it counts on, or None;
    * ``n_clipped``: how many returns it clipped itself; 0 by default;
    * ``eliminated_at`` [c]: after how many episodes each source was dropped, -1 (the default) if it was not;
    * ``mixes``, ``reuse``: True if source and learner act in one episode, and the (psi, upsilon) of
      ``ProbabilisticPolicyReuse``.
    """

    def ask(self) -> Any:
        """Return the episode to run next."""

    def tell(self, episode: Any, value: float) -> None:
        """Take its discounted return."""


class BroughtSelector:
    """A selector that someone brings, with the members that ``transfer`` reads of ours.

    It is told returns within ``limits``: others are refused, or with ``clip`` moved onto them.
    """

    def __init__(self, original: Any, limits: Bounds | None) -> None:
        self.original, self.limits, self.clip, self._clipped = original, limits, False, 0
        self._asked = 0  # asks that gave an arm alone
        self._given: Any = None  # what the latest ask gave
        self.bounds: Any = getattr(original, "bounds", None)
        self.mixes = bool(getattr(original, "mixes", False))
        self.reuse: tuple[float, float] = getattr(original, "reuse", (1.0, 1.0))

    def ask(self) -> Episode:
        self._given = self.original.ask()
        if isinstance(self._given, Episode):
            return self._given
        self._asked += 1
        return Episode(self._given, self._asked - 1)

    def tell(self, episode: Episode, value: float, *likelihood: Any) -> None:
        if self.clip and self.limits is not None and outside(value, *self.limits):
            self._clipped += 1
            value = min(max(value, self.limits.lower), self.limits.upper)
        self.original.tell(self._given, value, *likelihood)

    def cancel(self, episode: Episode) -> None:
        """Nothing: the selector that was asked is not asked again."""

    def start_clipping(self) -> None:
        self.clip = True

    def refuses(self, episode_return: float) -> bool:
        return self.limits is not None and not self.clip and bool(outside(episode_return, *self.limits))

    @property
    def n_clipped(self) -> int:
        return self._clipped + int(getattr(self.original, "n_clipped", 0))

    @property
    def eliminated_at(self) -> Any:
        """After how many episodes each source was dropped; None if the selector has no such number."""
        return getattr(self.original, "eliminated_at", None)


def adapted(selector: Any, limits: Bounds | None = None) -> Selector | BroughtSelector:
    """Our own selector as it is, another one behind the same members."""
    return selector if isinstance(selector, Selector) else BroughtSelector(selector, limits)


def learns_from_every(settings: LearnerSettings) -> bool:
    """Whether the learner learns from every arm's episodes."""
    return bool(getattr(settings, "learn_from", "own") == "every")


def end_of_own_episode(learner: Learner) -> None:
    """Tell the learner, if it wants to know, that an episode of its own is over."""
    getattr(learner, "end_own_episode", lambda: None)()


def policy_to_keep(learner: Learner) -> Any:
    """The learner's policy, or its ``act`` where it has none."""
    return getattr(learner, "policy", learner.act)
