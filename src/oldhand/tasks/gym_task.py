"""A task that is a Gymnasium environment: an id, its arguments, a discount and a step cap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium as gym

from oldhand.checks import whole, within
from oldhand.errors import InvalidInputError
from oldhand.reuse.q_learning import discrete_size


@dataclass(frozen=True)
class GymTask:
    """The environment ``gymnasium.make(env_id, **kwargs)`` as a task. Call it to make one.

    ``kwargs`` are plain JSON values, so that the task can be stored. ``horizon`` is the environment's own step limit
    unless given. An id that names a module to import ("module:Name-v0") is refused: what is stored is data, so import
    the module that registers the environment yourself.
    """

    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    gamma: float = 0.99
    horizon: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.env_id, str) or ":" in self.env_id:
            raise InvalidInputError(
                f"GymTask: env_id is {self.env_id!r}, must be the id of a registered environment, without a module"
            )
        try:
            kwargs = json.loads(json.dumps(dict(self.kwargs), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"GymTask: kwargs must be plain JSON values: {error}") from None
        object.__setattr__(self, "kwargs", kwargs)
        object.__setattr__(self, "gamma", within("GymTask", "gamma", self.gamma, 0.0, 1.0))
        own_limit = self._spaces[2]  # looked at always: what cannot be made or is not Discrete is refused here
        limits = own_limit if self.horizon is None else self.horizon
        if limits is None:
            raise InvalidInputError(f"GymTask: {self.env_id} has no step limit, so horizon must be given")
        object.__setattr__(self, "horizon", whole("GymTask", "horizon", limits, at_least=1))
        if not self.name:
            object.__setattr__(self, "name", environment_name(self.env_id, kwargs))

    def __call__(self) -> gym.Env[Any, Any]:
        """A new environment."""
        try:
            return gym.make(self.env_id, disable_env_checker=True, **self.kwargs)
        except Exception as error:  # an environment's constructor may raise anything
            raise InvalidInputError(f"GymTask: {self.env_id} cannot be made with {self.kwargs}: {error!r}") from None

    @property
    def n_states(self) -> int:
        return self._spaces[0]

    @property
    def n_actions(self) -> int:
        return self._spaces[1]

    @cached_property
    def _spaces(self) -> tuple[int, int, int | None]:
        """The numbers of states and actions, and the step limit."""
        env = self()
        sizes = discrete_size(env.observation_space), discrete_size(env.action_space)
        limits = (env.spec.max_episode_steps if env.spec else None, getattr(env.unwrapped, "horizon", None))
        env.close()
        if sizes[0] is None or sizes[1] is None:
            raise InvalidInputError(
                f"GymTask: {self.env_id} has spaces {type(env.observation_space).__name__} and "
                f"{type(env.action_space).__name__}, must be Discrete from 0: "
                "its policies are arrays"
            )
        return sizes[0], sizes[1], min((limit for limit in limits if limit is not None), default=None)


def transfer_setting(task: Any) -> dict[str, Any]:
    """What ``transfer`` must be told of a task besides the task: of an environment its discount and its step cap."""
    return {"gamma": task.gamma, "horizon": task.horizon} if isinstance(task, GymTask) else {}


def environment_name(env_id: str, kwargs: Mapping[str, Any]) -> str:
    """What to call an environment made with these arguments."""
    arguments = ", ".join(f"{key}={value}" for key, value in kwargs.items())
    return f"{env_id}({arguments})" if arguments else env_id
