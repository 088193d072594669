"""A task of which only episodes can be run: a Gymnasium environment, a discount and a step cap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from pastmaster.checks import is_finite, listed, mapping, text, whole, within
from pastmaster.errors import InvalidInputError, TaskError
from pastmaster.tables import WIDEST, one_line, shown
from pastmaster.tasks import specs
from pastmaster.tasks.guard import Guarded, Watch, watched
from pastmaster.tasks.gymnasium_table import code_of, environment_name, spec_name, step_limit
from pastmaster.tasks.jax_dynamics import Dynamics
from pastmaster.tasks.jax_env import JaxEnv, JaxVectorEnv
from pastmaster.tasks.spaces import described_space, discrete_size
from pastmaster.tasks.tabular import TabularMDP

Factory = Callable[..., gym.Env[Any, Any]]
NAMELESS = "the function"


@dataclass(frozen=True, repr=False)
class GymTask:
    """A Gymnasium environment as a task: a black box, of which only episodes can be run.

    Call the task to make a guarded environment: one that raises, or returns what is no observation or reward, ends
    in a ``TaskError`` that names it. An environment that hangs does so too, where pastmaster runs the episodes.

    A task is known, and stored, by Gymnasium's spec of its environment as plain JSON values. What is stored is data:
    so an id that names a module to import ("module:Name-v0") is refused, import that module yourself. A function
    whose environments have no spec, or differ from it, can be used but not stored; ``identity`` says why.

    Parameters
    ----------
    env_id : str or callable
        The id for ``gymnasium.make``, without a module, or a function that makes an environment.
    kwargs : mapping
        The arguments for either; plain JSON values with an id.
    gamma : float
        The discount, in 0 .. 1.
    horizon : int, optional
        The most steps of an episode; the environment's own step limit unless given.
    name : str
        What to call the task; the id and the arguments unless given, for a nameless function those of its environment.
    reward_range : (float, float), optional
        The least and the greatest reward of a step, where the environment does not have a ``reward_range``.
    time_limit : float, optional
        The most seconds that **one call** of the environment (making it, ``reset``, ``step``, ``close``) may take;
        None is no limit. It limits no search and no run: elsewhere in the library ``time_limit`` is seconds in all.
    wrappers : sequence of mappings
        Some of Gymnasium's own wrappers, innermost first, each with the keys of a ``WrapperSpec``.

    Raises
    ------
    InvalidInputError
        An argument is wrong, or the environment cannot be made.

    Examples
    --------
    >>> from pastmaster import GymTask
    >>> task = GymTask("pastmaster/CartPole-v0", {"length": 0.7}, gamma=0.99)
    >>> task
    GymTask('pastmaster/CartPole-v0(length=0.7)', gamma=0.99, horizon=500)
    >>> task.observation_space.shape, task.n_actions
    ((4,), 2)
    """

    env_id: str | Factory
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    gamma: float = 0.99
    horizon: int | None = None
    name: str = ""
    reward_range: tuple[float, float] | None = None
    time_limit: float | None = 60.0
    wrappers: tuple[Mapping[str, Any], ...] = ()
    _look: _Look = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        made_by_id = isinstance(self.env_id, str)
        if isinstance(self.env_id, str):
            specs.checked_id("GymTask: env_id", self.env_id)
        elif not callable(self.env_id):
            made = ": pass lambda: gymnasium.make(...)" if isinstance(self.env_id, gym.Env) else ""
            raise InvalidInputError(
                f"GymTask: env_id is {shown(self.env_id)}, must be the id of a registered environment, "
                f"or a function that makes one{made}"
            )
        if not isinstance(self.kwargs, Mapping):
            raise InvalidInputError(f"GymTask: kwargs is {shown(self.kwargs)}, must be a dict of arguments")
        text("GymTask", "name", self.name)
        kwargs = specs.plain_arguments(self.kwargs) if made_by_id else mapping(self.kwargs, "GymTask: kwargs")
        nameless = not self.name
        self._set(
            kwargs=kwargs,
            wrappers=tuple(specs.plain_wrappers(self.wrappers)),
            name=self.name or environment_name(self._called, kwargs),
            gamma=within("GymTask", "gamma", self.gamma, 0.0, 1.0),
            reward_range=None if self.reward_range is None else _checked_range(self.reward_range),
        )
        if self.time_limit is not None:
            self._set(time_limit=within("GymTask", "time_limit", self.time_limit, 1e-3, 1e9))
        watch = self.watch()
        self._set(_look=watched(lambda: watch("making it", lambda: _Look.at(self._made())), watch))
        if nameless and self._look.spec is not None and self._called in ("<lambda>", NAMELESS):
            self._set(name=spec_name(self._look.spec))
        limit = self._look.horizon if self.horizon is None else self.horizon
        if limit is None:
            raise InvalidInputError(f"GymTask: {self.name} has no step limit, so horizon must be given")
        self._set(horizon=whole("GymTask", "horizon", limit, at_least=1))

    def __hash__(self) -> int:
        return hash((self.name, self.gamma, self.horizon))

    def __str__(self) -> str:
        return one_line(self.name)

    def __repr__(self) -> str:
        settings = f", gamma={self.gamma:g}, horizon={self.horizon})"
        kind = type(self).__name__
        return f"{kind}({one_line(repr(self.name), WIDEST - len(settings) - len(kind) - 1)}{settings}"

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def _called(self) -> str:
        """The id, or the name of the function."""
        return self.env_id if isinstance(self.env_id, str) else getattr(self.env_id, "__name__", NAMELESS)

    def __call__(self) -> Guarded:
        """A new environment, with a watch of its own."""
        return self.environment(self.watch())

    def watch(self) -> Watch:
        """A watch over environments of this task."""
        return Watch(self.name, self.time_limit)

    def environment(self, watch: Watch) -> Guarded:
        """A new environment under a watch; its spaces must be those of the first."""
        env = Guarded(watch("making it", self._made), watch)
        for what in ("observation_space", "action_space"):
            got = getattr(env, what)
            first = getattr(self._look, what)
            if got != first:
                env.close()
                raise TaskError(f"{self.name}: its {what} is {got}, was {first} when the task was made")
        return env

    def _made(self) -> gym.Env[Any, Any]:
        try:
            if not isinstance(self.env_id, str):
                env = self.env_id(**self.kwargs)
            else:
                known = self._registered(self.env_id)
                env = specs.made(known, self.kwargs, self.wrappers, disable_env_checker=True)
        except Exception as error:  # an environment's constructor may raise anything
            raise InvalidInputError(
                f"GymTask: {one_line(self._called)} cannot be made with {shown(self.kwargs)}: "
                f"{error if isinstance(error, InvalidInputError) else shown(error)}"
            ) from None
        if not isinstance(env, gym.Env):
            raise InvalidInputError(f"GymTask: env_id returned {shown(env)}, must return a Gymnasium environment")
        return env

    def _registered(self, env_id: str) -> str | EnvSpec:
        """What ``gymnasium.make`` is given: in another process the id may not be registered."""
        spec = self._look.spec if "_look" in vars(self) else None
        return env_id if env_id in gym.registry or spec is None else spec

    def vector_environment(self, lanes: int, watch: Watch) -> gym.vector.VectorEnv[Any, Any, Any] | None:
        """``lanes`` environments that step as one; None where the spec has none whose ``reset`` seeds each lane."""
        if self.program is not None:
            return watch("making it", lambda: JaxVectorEnv(cast(JaxEnv, self._made().unwrapped), lanes))
        spec = self._look.spec
        if not isinstance(self.env_id, str) or self.wrappers or spec is None or spec.vector_entry_point is None:
            return None
        if spec.additional_wrappers or spec.id not in gym.registry or specs.OF_LANES & set(self.kwargs):
            return None
        if "_seeds_lanes" not in vars(self):
            self._set(_seeds_lanes=self._has_seeded_lanes(watch))
        return self._made_vector(lanes, watch) if vars(self)["_seeds_lanes"] else None

    def _made_vector(self, lanes: int, watch: Watch) -> gym.vector.VectorEnv[Any, Any, Any]:
        assert isinstance(self.env_id, str)
        return watch("making it", specs.made_lanes, self.env_id, lanes, self.kwargs)

    def _has_seeded_lanes(self, watch: Watch) -> bool:
        """Whether each lane of the vector environment begins as a single one does from its seed."""
        lanes = self._made_vector(2, watch)
        single = self.environment(watch)
        try:
            first, _ = watch("reset", lanes.reset, seed=[5, 6])
            alone = [single.reset(seed=seed)[0] for seed in (5, 6)]
            spaces = (lanes.single_observation_space, lanes.single_action_space)
            return spaces == (self.observation_space, self.action_space) and np.allclose(first, alone)
        except TaskError:  # it takes one seed for all lanes, so that episodes cannot be repeated one by one
            return False
        finally:
            watch("close", lanes.close)
            single.close()

    @property
    def observation_space(self) -> gym.Space[Any]:
        return self._look.observation_space

    @property
    def action_space(self) -> gym.Space[Any]:
        return self._look.action_space

    @property
    def program(self) -> tuple[Dynamics, Any] | None:
        """The environment and its parameters where it is a JAX program; None of others."""
        return self._look.program

    @property
    def n_states(self) -> int | None:
        """The number of states, where observations are Discrete from 0."""
        return discrete_size(self.observation_space)

    @property
    def n_actions(self) -> int | None:
        """The number of actions, where they are Discrete from 0."""
        return discrete_size(self.action_space)

    @property
    def family(self) -> dict[str, Any]:
        """What tasks must share for a policy to act in them all, as plain JSON values."""
        if self.n_states is not None and self.n_actions is not None:
            return {"n_states": self.n_states, "n_actions": self.n_actions, "gamma": self.gamma}
        observations, actions = map(described_space, (self.observation_space, self.action_space))
        return {"observations": observations, "actions": actions, "gamma": self.gamma}

    @cached_property
    def table(self) -> TabularMDP | None:
        """The exact task behind an environment that carries its table ``P``; None of others, and where gamma is 1."""
        if not self._look.has_table or self.gamma == 1.0:
            return None
        return TabularMDP.from_gymnasium(self().env, gamma=self.gamma, horizon=self.horizon)

    @property
    def known_rewards(self) -> tuple[float, float] | None:
        """The least and the greatest reward of a step: as declared, else the environment's own, else None."""
        return self.reward_range or self._look.reward_range

    @property
    def identity(self) -> dict[str, Any]:
        """What makes the environment what it is, as plain JSON values; an error where that is not known."""
        if isinstance(self.env_id, str):
            wrappers = {"wrappers": list(self.wrappers)} if self.wrappers else {}
            return {"env_id": self.env_id, "kwargs": dict(self.kwargs)} | wrappers
        identity = specs.identity_of(self._look.spec)
        by_id = GymTask(**identity, gamma=self.gamma, horizon=self.horizon, time_limit=self.time_limit)
        watch = self.watch()
        if not watched(lambda: specs.behave_alike(self.environment(watch), by_id.environment(watch)), watch):
            raise InvalidInputError(
                f"GymTask: its function makes environments that are not what their spec says ({identity['env_id']}): "
                "are they changed after they are made? Register an environment that takes the change as an argument"
            )
        return identity

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The identity with what is registered under its id now: what results kept on disk depend on."""
        identity = self.identity
        spec = self._look.spec
        assert spec is not None
        arguments = specs.plain_arguments(spec.kwargs)
        return identity | {
            "code": code_of(spec),
            "arguments": arguments,
            "steps": spec.max_episode_steps,
        }


class _Look(NamedTuple):
    """What is read from an environment once, when its task is made."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    horizon: int | None
    reward_range: tuple[float, float] | None
    has_table: bool
    spec: EnvSpec | None
    program: tuple[Dynamics, Any] | None

    @classmethod
    def at(cls, env: gym.Env[Any, Any]) -> _Look:
        """Read an environment, and close it."""
        specs.check_wrappers(env)
        spec = env.spec
        as_it_is = env is env.unwrapped if spec is None else not spec.additional_wrappers  # wrappers may change rewards
        has_table = as_it_is and isinstance(getattr(env.unwrapped, "P", None), dict)
        rewards = _reward_range(env) if as_it_is else None
        limit = step_limit(env, "max_steps")
        program = (bare.dynamics, bare.params) if as_it_is and isinstance(bare := env.unwrapped, JaxEnv) else None
        look = cls(env.observation_space, env.action_space, limit, rewards, has_table, spec, program)
        env.close()
        return look


def _reward_range(env: gym.Env[Any, Any]) -> tuple[float, float] | None:
    """The least and the greatest reward of a step, where the environment has them."""
    declared = getattr(env.unwrapped, "reward_range", None)
    if isinstance(declared, tuple) and len(declared) == 2 and all(map(is_finite, declared)):
        return _checked_range(declared) if declared[0] <= declared[1] else None
    return None


def _checked_range(rewards: Any) -> tuple[float, float]:
    ends = listed(rewards, "GymTask: reward_range", "the least and the greatest reward of a step")
    least, most = map(float, ends) if len(ends) == 2 and all(map(is_finite, ends)) else (1.0, 0.0)
    if not least <= most:
        raise InvalidInputError(
            f"GymTask: reward_range is {shown(rewards)}, must be the least and the greatest reward of a step"
        )
    return least, most
