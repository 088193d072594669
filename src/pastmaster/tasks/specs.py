"""Which environment a task is: Gymnasium's spec of it, as plain JSON values; and the door to ``gymnasium.make``.

Only ids that are registered and some of Gymnasium's own wrappers are named, never code: what is stored is data, and
reading it imports nothing but Gymnasium. Gymnasium itself imports the module of an id like "module:Name-v0". An id may
come from anywhere, so ``checked_id`` refuses it: which module to import is for a person to say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from pastmaster.checks import listed, mapping
from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line, shown

WRAPPERS = (
    "ClipAction",
    "ClipReward",
    "DelayObservation",
    "DiscretizeAction",
    "DiscretizeObservation",
    "DtypeObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "GrayscaleObservation",
    "MaxAndSkipObservation",
    "RecordEpisodeStatistics",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
    "TimeLimit",
)
"""Gymnasium's wrappers that carry nothing from episode to episode and touch nothing but the environment."""
STEPS_COMPARED = 100
OF_MAKE = frozenset({"id", "disable_env_checker", "apply_api_compatibility", "autoreset"})
"""Arguments of ``gymnasium.make`` itself, now or formerly, that say nothing about the environment."""
OF_LANES = frozenset({"num_envs", "vectorization_mode", "vector_kwargs", "wrappers"})
"""Arguments that ``gymnasium.make_vec`` takes for its own."""
CODE = frozenset({"id", "env_id", "entry_point", "vector_entry_point"})
"""Arguments by which an environment that stands for another one is told which: these too may name a module."""
UNSEEN = (None, "ansi", "rgb_array")


def checked_id(place: str, env_id: str) -> str:
    """An id that names no module to import; ``place`` is what the person gave it as, like "GymTask: env_id"."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        raise InvalidInputError(
            f"{place} is {shown(env_id)}, must be an id without a module: import {one_line(module)} yourself "
            f"(on the command line: --import {one_line(module)}), then use {one_line(repr(name))}"
        )
    return env_id


def check_arguments(place: str, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that are not the environment's own, show it on a screen, or name a module to import."""
    if wrong := sorted(OF_MAKE & set(kwargs)):
        raise InvalidInputError(f"{place}[{wrong[0]!r}] is given, must be left out: no environment takes it")
    if (mode := kwargs.get("render_mode")) not in UNSEEN:
        raise InvalidInputError(
            f"{place}['render_mode'] is {shown(mode)}, must be 'ansi', 'rgb_array' or left out: the episodes "
            "of a task are not shown; to watch an environment, pass a function that makes it"
        )
    _check_names(place, kwargs)


def _check_names(place: str, value: Any) -> None:
    """Refuse a module that is named somewhere in the arguments of an environment."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        where = f"{place}[{one_line(repr(key))}]"
        if key in CODE and isinstance(inner, str):
            checked_id(where, inner)
        _check_names(where, inner)


def made(
    env_id: str | EnvSpec, kwargs: Mapping[str, Any], wrappers: Sequence[Any] = (), **options: Any
) -> gym.Env[Any, Any]:
    """An environment by an id and arguments that were checked.

    A spec is one of this library's own: that of an environment made before, in a process where its id is registered.
    """
    if wrappers and isinstance(env_id, str):
        env_id = copy.deepcopy(gym.spec(env_id))
        env_id.additional_wrappers = tuple(WrapperSpec(**wrapper) for wrapper in wrappers)
    return gym.make(env_id, **options, **kwargs)


def made_by_id(place: str, env_id: str | EnvSpec, kwargs: Mapping[str, Any] | None = None) -> gym.Env[Any, Any]:
    """The environment of an id; an error in our words where there is none."""
    if isinstance(env_id, str):
        checked_id(place, env_id)
    check_arguments(place, kwargs or {})
    try:
        return made(env_id, kwargs or {})
    except Exception as error:  # an environment's constructor may raise anything
        remedy = " (if a module registers it, import that first; on the command line, pass --import MODULE)"
        raise InvalidInputError(
            f"{place} is {shown(env_id)}, must be an environment that can be made: {one_line(str(error), 200)}"
            + remedy * isinstance(error, gym.error.UnregisteredEnv)
        ) from None


def made_lanes(env_id: str, lanes: int, kwargs: Mapping[str, Any]) -> gym.vector.VectorEnv[Any, Any, Any]:
    """``lanes`` environments of an id that step as one, made by its own vector class."""
    return gym.make_vec(env_id, lanes, "vector_entry_point", **kwargs)


def plain_arguments(kwargs: Any) -> dict[str, Any]:
    """The arguments of an environment as JSON has them."""
    given = mapping(kwargs, "GymTask: kwargs")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(given, allow_nan=False))
        named = _text_keys(given)  # JSON would make texts of others
    except (
        TypeError,
        ValueError,
        RecursionError,
    ) as error:  # from CPython 3.12 on JSON goes deeper than a function
        raise InvalidInputError(f"GymTask: kwargs must be plain JSON values: {one_line(str(error))}") from None
    if not named:
        raise InvalidInputError("GymTask: kwargs must be plain JSON values: a key of a mapping is no text")
    check_arguments("GymTask: kwargs", plain)
    return plain


def _text_keys(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _text_keys(inner) for key, inner in value.items())
    return not isinstance(value, list | tuple) or all(map(_text_keys, value))


def plain_wrappers(wrappers: Sequence[Any]) -> list[dict[str, Any]]:
    """The wrappers of a spec or a stored identity as JSON has them; only those in ``WRAPPERS`` are allowed."""
    plain = []
    for i, wrapper in enumerate(listed(wrappers, "GymTask: wrappers", "a list of mappings")):
        if not isinstance(wrapper, Mapping | WrapperSpec):
            raise InvalidInputError(
                f"GymTask: wrappers[{i}] is {shown(wrapper)}, must be a mapping with name, entry_point and kwargs"
            )
        fields = wrapper if isinstance(wrapper, Mapping) else vars(wrapper)
        name, entry, kwargs = (fields.get(key) for key in ("name", "entry_point", "kwargs"))
        known = getattr(gym.wrappers, name) if isinstance(name, str) and name in WRAPPERS else None
        if known is None or entry != f"{known.__module__}:{known.__name__}":
            raise InvalidInputError(f"GymTask: {name} is another wrapper, must be one of {', '.join(WRAPPERS)}")
        if kwargs is None:
            raise InvalidInputError(f"GymTask: the wrapper {name} does not record its arguments")
        plain.append({"name": name, "entry_point": entry, "kwargs": plain_arguments(kwargs)})
    return plain


def check_wrappers(env: gym.Env[Any, Any]) -> None:
    """Refuse an environment whose episodes depend on those before them, where that is known."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.NormalizeObservation | gym.wrappers.NormalizeReward):
            raise InvalidInputError(
                f"GymTask: {type(env).__name__} learns from episode to episode, so that no two are alike, must not be "
                "around a task: pass its statistics to the policy, load_sb3(..., normalise=...)"
            )
        env = env.env


def identity_of(spec: EnvSpec | None) -> dict[str, Any]:
    """The id, arguments and wrappers that make an environment of this spec again; an error where none do."""
    if spec is None:
        raise InvalidInputError(
            "GymTask: its function makes environments without a spec: register the environment and pass its id"
        )
    if spec.id not in gym.registry or ":" in spec.id:
        raise InvalidInputError(f"GymTask: its function makes environments of the id {spec.id!r}, not registered here")
    kwargs = plain_arguments(spec.kwargs)
    wrappers = plain_wrappers(spec.additional_wrappers)
    if spec.max_episode_steps != gym.registry[spec.id].max_episode_steps:
        kwargs["max_episode_steps"] = spec.max_episode_steps
    return {"env_id": spec.id, "kwargs": kwargs} | ({"wrappers": wrappers} if wrappers else {})


def behave_alike(one: gym.Env[Any, Any], other: gym.Env[Any, Any]) -> bool:
    """Whether two environments have the same spaces and hold the same values, and take the same first steps."""
    if (one.observation_space, one.action_space) != (other.observation_space, other.action_space):
        return False
    if not _alike(vars(one.unwrapped), vars(other.unwrapped)):
        return False
    one.action_space.seed(0)
    seen: list[list[Any]] = [[env.reset(seed=0)[0]] for env in (one, other)]
    for _ in range(STEPS_COMPARED):
        action = one.action_space.sample()
        for env, outcomes in zip((one, other), seen, strict=True):
            *outcome, _ = env.step(action)
            outcomes.append(outcome[:2])
            if outcome[2] or outcome[3]:
                outcomes.append(env.reset()[0])
    return _alike(*seen)


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, of containers all that is in them; of other objects whether they are of one class.

    Functions that an environment was given after it was made are never alike.
    """
    if type(one) is not type(other) or isinstance(one, FunctionType | MethodType):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, bool | int | float | str | bytes | np.ndarray | np.generic | gym.Space):
        return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other or one != one)
    return True
