"""A Brax environment in gymnax's convention, so that it can be a ``JaxTask``."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown
from pastmaster.tasks.jax_dynamics import jax_of

CALLER = "BraxEnv"


class BraxEnv:
    """A Brax environment for ``JaxTask``; its parameters are the numbers of its physical system, by name.

    The names are paths in ``env.sys``, such as "gravity" (of the backend "mjx": "opt.gravity") or "link.inertia.mass";
    ``default_params`` has all of them with their values. Brax has no step limit of its own: give ``JaxTask`` a horizon.

    Parameters
    ----------
    env : brax.envs.Env
        As ``brax.envs.get_environment(name)`` makes it, without wrappers.

    Raises
    ------
    InvalidInputError
        JAX is missing, ``env`` is no Brax environment, or it is wrapped.

    Examples
    --------
    >>> from brax import envs                                                  # doctest: +SKIP
    >>> from pastmaster import JaxTask
    >>> from pastmaster.tasks import BraxEnv
    >>> pendulum = BraxEnv(envs.get_environment("inverted_pendulum"))           # doctest: +SKIP
    >>> damping = pendulum.default_params["dof.damping"]                        # doctest: +SKIP
    >>> tasks = JaxTask.variants(pendulum, [{"dof.damping": k * damping} for k in (1, 2, 4)], horizon=500)
    ... # doctest: +SKIP
    """

    def __init__(self, env: Any) -> None:
        jax = jax_of(CALLER)
        wanted = ("reset", "step", "sys", "observation_size", "action_size")
        if isinstance(env, type) or any(getattr(env, name, None) is None for name in wanted):
            raise InvalidInputError(
                f"{CALLER}: env is {shown(env)}, must be a Brax environment, as brax.envs.get_environment(name) makes "
                "it"
            )
        if (inner := getattr(env, "unwrapped", None)) is not None and inner is not env:
            raise InvalidInputError(
                f"{CALLER}: env is {shown(type(env).__name__)}, a wrapper, must be the environment itself: "
                "brax.envs.get_environment(name), or env.unwrapped"
            )
        self.env = env
        self.called = type(env).__name__
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(env.sys)
        self._names = [jax.tree_util.keystr(path).strip(".[]'\"") for path, _ in leaves]
        self._leaves = [leaf for _, leaf in leaves]

    @property
    def default_params(self) -> dict[str, Array]:
        """The real numbers of the system."""
        pairs = zip(self._names, map(np.asarray, self._leaves), strict=True)
        return {name: leaf for name, leaf in pairs if leaf.dtype.kind == "f"}

    def reset(self, key: Any, params: Any) -> tuple[Any, Any]:
        """The first observation and state of an episode."""
        state = self._with(params).reset(key)
        return state.obs, state

    def step(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Observation, state, reward, whether the episode is over."""
        after = self._with(params).step(state, action)
        return after.obs, after, after.reward, after.done > 0.5, {}

    def observation_space(self, params: Any) -> gym.Space[Any]:
        """All real numbers."""
        return gym.spaces.Box(-np.inf, np.inf, (int(self.env.observation_size),), np.float32)

    def action_space(self, params: Any) -> gym.Space[Any]:
        """Brax takes actions in -1 .. 1."""
        return gym.spaces.Box(-1.0, 1.0, (int(self.env.action_size),), np.float32)

    def _with(self, params: Any) -> Any:
        """The environment with these parameters; it is copied, since others may use it at the same time."""
        changed = copy.copy(self.env)
        leaves = [params.get(name, leaf) for name, leaf in zip(self._names, self._leaves, strict=True)]
        changed.sys = self._tree.unflatten(leaves)
        return changed
