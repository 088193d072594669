"""An environment that is a JAX program, in gymnax's convention: what it takes and gives, checked before it runs.

``reset(key, params)`` gives an observation and a state; ``step(key, state, action, params)`` gives observation, state,
reward, whether the episode is over and a dict, or terminated and truncated apart before the dict. JAX knows the shapes
and types of all of them without running anything, so what is wrong with them is told when a task is made.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, cast

import cloudpickle
import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line, shown

CALLER = "JaxTask"
KINDS = {
    "f": np.float32,
    "i": np.int32,
    "u": np.uint32,
    "b": np.bool_,
}  # of parameters, as JAX takes them


def jax_of(place: str) -> Any:
    """The package JAX, or an error that says how to get it."""
    try:
        import jax
    except ImportError:
        raise InvalidInputError(f"{place} needs JAX, which is not installed: pip install pastmaster[jax]") from None
    return jax


def single_precision() -> AbstractContextManager[Any]:
    """Within it JAX computes in float32 and int32, as by default, whatever this process has set for itself."""
    jax = jax_of(CALLER)
    if hasattr(jax, "enable_x64"):
        return cast(AbstractContextManager[Any], jax.enable_x64(False))
    return cast(AbstractContextManager[Any], importlib.import_module("jax.experimental").disable_x64())  # older JAX


class Dynamics:
    """The functions of an environment; two are equal if their class and settings are, when made and now.

    Settings are compared as they are pickled. Of an environment that cannot be pickled, only itself is equal.
    """

    def __init__(self, env: Any) -> None:
        jax_of(CALLER)
        if isinstance(env, type) or not all(callable(getattr(env, name, None)) for name in ("reset", "step")):
            raise InvalidInputError(
                f"{CALLER}: env is {shown(env)}, must be an object with the methods reset(key, params) and "
                "step(key, state, action, params), or the id of one that is registered with Gymnasium"
            )
        self.env = env
        self.name = str(getattr(env, "called", None) or type(env).__name__)
        self.key = self._key()
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dynamics) or self.key != other.key:
            return False
        return bool(self.key == self._key() and other.key == other._key())  # else a program traced again is another one

    def __hash__(self) -> int:
        return self._hash

    def _key(self) -> Any:
        """What tells an environment from others: its class and its settings, as they are now."""
        try:
            settings = vars(self.env)
            return type(self.env), cloudpickle.dumps(settings) if settings else b""
        except Exception:  # pickling runs code of whatever it meets
            return type(self.env), id(self.env)  # it lives as long as this does

    def now(self) -> Dynamics:
        """This, or the same environment with the settings that it has now."""
        return self if self.key == self._key() else Dynamics(self.env)

    def reset(self, key: Any, params: Any) -> tuple[Any, Any]:
        """The first observation and state of an episode."""
        observation, state = self.env.reset(key, params)
        return observation, state

    def step(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Observation, state, reward, terminated and truncated."""
        outcome = self.env.step(key, state, action, params)
        if len(outcome) == 6:
            return tuple(outcome[:5])
        observation, state, reward, done, _ = outcome
        return observation, state, reward, done, False

    def episode_step(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any]:
        """Observation, state, reward, and whether the episode is over."""
        observation, state, reward, terminated, truncated = self.step(key, state, action, params)
        return observation, state, reward, terminated | truncated

    def filled(self, params: Any) -> Any:
        """Parameters as a tree of arrays: the environment's own where None, or with some of them replaced by name."""
        own = getattr(self.env, "default_params", None)
        if own is not None and (params is None or isinstance(params, Mapping)):
            params = self._replaced(own, dict(params or {}))
        flatten = jax_of(CALLER).tree_util.tree_flatten_with_path
        leaves, tree = flatten(params)
        usual, its = flatten(dict(own) if isinstance(own, Mapping) else own)
        real = [np.asarray(leaf).dtype.kind == "f" for _, leaf in usual] if tree == its else [False] * len(leaves)
        return tree.unflatten([self._leaf(value, path, r) for (path, value), r in zip(leaves, real, strict=True)])

    def _replaced(self, own: Any, some: dict[str, Any]) -> Any:
        """The environment's own parameters, some of them replaced."""
        if isinstance(own, Mapping):
            usual = dict(own)
        else:
            fields = getattr(own, "_fields", None) or [field.name for field in dataclasses.fields(own)]
            usual = {name: getattr(own, name) for name in fields}
        for name, value in some.items():
            if name not in usual:
                raise InvalidInputError(
                    f"{CALLER}: params has {shown(name)}, must be of {self.name}'s own: {one_line(', '.join(usual))}"
                )
            if isinstance(value, list | tuple) and hasattr(usual[name], "dtype"):
                some[name] = np.asarray(value)  # a list for an array is one too, not a tree of numbers
        if isinstance(own, Mapping):
            return usual | some
        return own._replace(**some) if hasattr(own, "_replace") else dataclasses.replace(own, **some)

    def _leaf(self, value: Any, path: Any, real: bool) -> Array:
        """One parameter as JAX takes it; a whole number becomes a real one where the environment's own is ``real``."""
        array = np.asarray(value)
        kind = "f" if real and array.dtype.kind in "iu" else array.dtype.kind
        name = f"params{jax_of(CALLER).tree_util.keystr(path)}"
        if kind not in KINDS or (kind == "f" and np.isnan(array).any()):
            raise InvalidInputError(f"{CALLER}: {name} is {shown(value)}, must be numbers")
        if kind in "iu" and array.dtype.itemsize == 1:  # bytes of a picture stay bytes
            return array
        limits: Any = np.finfo(np.float32) if kind == "f" else np.iinfo(np.uint8 if kind == "b" else KINDS[kind])
        finite = array[np.isfinite(array)]
        if (finite < limits.min).any() or (finite > limits.max).any():
            least, most = (f"{x:.4g}" if kind == "f" else x for x in (limits.min, limits.max))
            raise InvalidInputError(
                f"{CALLER}: {name} is {shown(value)}, must be in {least} .. {most}: JAX takes it as {limits.dtype}"
            )
        return array.astype(KINDS[kind])

    def differing(self, params: Any) -> dict[str, str]:
        """The single numbers in which parameters differ from the environment's own, by name."""
        tree_util = jax_of(CALLER).tree_util
        given, structure = tree_util.tree_flatten_with_path(params)
        own, its = tree_util.tree_flatten_with_path(self.filled(None))
        if structure != its:
            own = [(path, np.float32(np.nan)) for path, _ in given]
        names = [tree_util.keystr(path).strip(".[]'\"") for path, _ in given]
        pairs = zip(names, given, own, strict=True)
        return {name: number_name(leaf) for name, (_, leaf), (_, usual) in pairs if not leaf.ndim and leaf != usual}

    def spaces(self, params: Any) -> tuple[gym.Space[Any], gym.Space[Any]]:
        """The spaces of observations and actions, as Gymnasium has them."""
        return self._space("observation_space", params), self._space("action_space", params)

    def _space(self, name: str, params: Any) -> gym.Space[Any]:
        given = getattr(self.env, name, None)
        if callable(given) and not isinstance(given, gym.Space):
            try:
                given = given(params)
            except Exception as error:  # of whatever kind: it is the environment's
                raise InvalidInputError(f"{CALLER}: {self.name}: {name} raised {shown(error)}") from error
        if isinstance(
            given,
            gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary,
        ):
            return given
        size = getattr(given, "n", None)
        shape = getattr(given, "shape", None)
        if isinstance(size, int | np.integer):
            return gym.spaces.Discrete(int(size))
        low = getattr(given, "low", None)
        high = getattr(given, "high", None)
        if low is None or high is None or not isinstance(shape, tuple):
            raise InvalidInputError(
                f"{CALLER}: {self.name}: its {name} is {shown(given)}, must be a Discrete or a Box, of Gymnasium or of "
                f"gymnax: set it, or define {name}(self, params)"
            )
        dtype = np.dtype(getattr(given, "dtype", None) or np.float32)
        low, high = (np.broadcast_to(np.asarray(limit), shape).astype(dtype) for limit in (low, high))
        return gym.spaces.Box(low, high, shape, dtype.type)

    def check(self, params: Any, spaces: tuple[gym.Space[Any], gym.Space[Any]]) -> None:
        """Refuse an environment whose functions give other shapes or types than its spaces and its first state."""
        leaves, tree = jax_of(CALLER).tree.flatten(params)
        _check_shapes(self, tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves), *map(_key_of, spaces))


def number_name(value: Any) -> str:
    """A parameter in a name: a real number with as many digits as tell it from all others of float32."""
    is_real = isinstance(value, float) or (isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f")
    with np.errstate(over="ignore"):
        return str(np.float32(value)) if is_real else str(value)


def _key_of(space: gym.Space[Any]) -> tuple[Any, ...]:
    """A space by its shape and type."""
    return space.shape, space.dtype


@lru_cache(256)  # tasks of a family are alike
def _check_shapes(dynamics: Dynamics, tree: Any, leaves: Any, observations: Any, actions: Any) -> None:
    jax = jax_of(CALLER)
    name = dynamics.name
    params = tree.unflatten([jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    key = jax.ShapeDtypeStruct((2,), np.uint32)
    action = jax.ShapeDtypeStruct(actions[0], action_type(actions[1]))
    first, state = _traced(dynamics, "reset", jax, key, params)
    following, after, reward, terminated, truncated = _traced(dynamics, "step", jax, key, state, action, params)
    for call, observation in (("reset", first), ("step", following)):
        shape: Any = getattr(observation, "shape", None)
        dtype: Any = getattr(observation, "dtype", None)
        if shape != observations[0] or not np.can_cast(dtype, observations[1], "same_kind"):
            raise InvalidInputError(
                f"{CALLER}: {name}: {call} returns an observation {_shape_of(observation)}, must be of its space, "
                f"{observations[1]}{list(observations[0])}"
            )
    before, then = (
        {jax.tree_util.keystr(path): _shape_of(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(some)}
        for some in (state, after)
    )
    odd = min((leaf for leaf in before | then if before.get(leaf) != then.get(leaf)), default=None)
    if odd is not None:
        got = then.get(odd, "is missing")
        wanted = before.get(odd, "no such part")
        raise InvalidInputError(f"{CALLER}: {name}: step returns state{odd} {got}, must be {wanted} as from reset")
    for what, given, kinds in (
        ("reward", reward, "fiub"),
        ("end", terminated, "b"),
        ("cut", truncated, "b"),
    ):
        if given is not False and (getattr(given, "shape", None) != () or given.dtype.kind not in kinds):
            wanted = "one number" if what == "reward" else "one bool"
            raise InvalidInputError(f"{CALLER}: {name}: step returns the {what} {_shape_of(given)}, must be {wanted}")


def _traced(dynamics: Dynamics, call: str, jax: Any, *arguments: Any) -> Any:
    """The shapes of what a function returns; an error where it raises."""
    try:
        with single_precision():
            return jax.eval_shape(getattr(dynamics, call), *arguments)
    except InvalidInputError:
        raise
    except Exception as error:  # of whatever kind: it is the environment's
        raise InvalidInputError(f"{CALLER}: {dynamics.name}: {call} raised {shown(error)}") from error


def _shape_of(value: Any) -> str:
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    return shown(value) if shape is None else f"{dtype}{list(shape)}"


def action_type(dtype: Any) -> Any:
    """The type of actions of a space, as JAX takes them."""
    return np.int32 if np.dtype(dtype).kind in "iub" else np.float32
