"""A JAX environment as Gymnasium has them: one episode at a time, or many lanes that step as one.

Both give the episode of a seed that the stacked program gives (``estimation.jax_program``), to the rounding of float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.checks import whole
from pastmaster.tasks.jax_dynamics import CALLER, Dynamics, action_type, jax_of, single_precision

SEEDS = 2**32  # JAX takes this many
LANES = 8  # of the smallest program: others have a power of two times as many


@lru_cache(64)
def _compiled(dynamics: Dynamics) -> tuple[Any, Any]:
    """``reset`` and ``step`` of many lanes, compiled: each has its own seed and state, all have the same parameters."""
    jax = jax_of(CALLER)

    def reset(seed: Any, params: Any) -> Any:
        key = jax.random.PRNGKey(seed)
        return key, *dynamics.reset(jax.random.fold_in(key, 0), params)

    def step(key: Any, n: Any, state: Any, action: Any, params: Any) -> Any:
        return dynamics.step(jax.random.fold_in(key, n), state, action, params)

    return jax.jit(jax.vmap(reset, (0, None))), jax.jit(jax.vmap(step, (0, None, 0, 0, None)))


class JaxLanes:
    """Lanes of a JAX environment, without Gymnasium around them."""

    def __init__(self, dynamics: Dynamics, params: Any, lanes: int, spaces: Sequence[gym.Space[Any]]) -> None:
        self.dynamics = dynamics
        self.params = params
        self.lanes = lanes
        self.padded = LANES * 2 ** max(0, (lanes - 1) // LANES).bit_length()
        self.observation_type = spaces[0].dtype
        self.action_type = action_type(spaces[1].dtype)
        self.keys = None
        self.state = None
        self.steps = 0
        self.compiled: tuple[Any, Any] = (None, None)

    def reset(self, seeds: Sequence[int]) -> Array:
        """Begin an episode of each seed; the first observations."""
        given = np.zeros(self.padded, np.uint32)
        given[: self.lanes] = np.asarray(seeds) % SEEDS
        with single_precision():
            self.compiled = _compiled(self.dynamics.now())
            self.keys, observation, self.state = self.compiled[0](given, self.params)
        self.steps = 0
        return self._observed(observation)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        """Observations, rewards, terminated and truncated."""
        given = np.zeros((self.padded, *np.shape(actions)[1:]), self.action_type)
        given[: self.lanes] = actions
        self.steps += 1
        with single_precision():
            observation, self.state, *rest = self.compiled[1](
                self.keys, np.int32(self.steps), self.state, given, self.params
            )
        reward, terminated, truncated = (np.asarray(part)[: self.lanes] for part in rest)
        return self._observed(observation), reward.astype(np.float64), terminated, truncated

    def _observed(self, observation: Any) -> Array:
        return np.array(observation)[: self.lanes].astype(self.observation_type, copy=False)


class JaxEnv(gym.Env[Any, Any]):
    """A JAX environment as a Gymnasium environment.

    Return one from the entry point of an id (``gymnasium.register``), and ``JaxTask(id, params)`` can be stored.

    Parameters
    ----------
    env : object
        In gymnax's convention: ``reset(key, params)``, ``step(key, state, action, params)``, ``observation_space`` and
        ``action_space``, and perhaps ``default_params`` and ``reward_range``.
    params : optional
        Its parameters, any tree of numbers; or a dict of those that differ from ``default_params``.

    Examples
    --------
    >>> from pastmaster.domains.jax_cart_pole import CartPole
    >>> from pastmaster.tasks import JaxEnv
    >>> env = JaxEnv(CartPole(), {"length": 0.7})
    >>> observation, _ = env.reset(seed=0)
    >>> env.step(1)[1:]
    (1.0, False, False, {})
    """

    def __init__(self, env: Any, params: Any = None) -> None:
        self.dynamics = Dynamics(env)
        self.params = self.dynamics.filled(params)
        self.observation_space, self.action_space = spaces = self.dynamics.spaces(self.params)
        self.dynamics.check(self.params, spaces)
        self.max_steps = getattr(self.params, "max_steps_in_episode", None)
        if self.max_steps is not None:
            self.max_steps = int(self.max_steps)
        self.reward_range = getattr(env, "reward_range", None)
        self._lanes = JaxLanes(self.dynamics, self.params, 1, spaces)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the episode of a seed; without one, of a seed that is drawn."""
        if seed is not None:
            seed = whole("JaxEnv.reset", "seed", seed, at_least=0)
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        return self._lanes.reset([drawn])[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminated, truncated = self._lanes.step(np.asarray(action)[None])
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}


class JaxVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """Lanes of a JAX environment that step as one; a lane that is over goes on, and what it gives means nothing."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}  # noqa: RUF012  Gymnasium's own form

    def __init__(self, env: JaxEnv, lanes: int) -> None:
        self.num_envs = lanes
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.observation_space, self.action_space = (
            gym.vector.utils.batch_space(space, lanes) for space in (env.observation_space, env.action_space)
        )
        self._lanes = JaxLanes(env.dynamics, env.params, lanes, (env.observation_space, env.action_space))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin the episodes of seeds, one to each lane."""
        return self._lanes.reset(seed), {}

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step in every lane."""
        return *self._lanes.step(np.asarray(actions)), {}
