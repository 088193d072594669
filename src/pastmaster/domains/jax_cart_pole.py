"""Gymnasium's CartPole as a JAX program, in gymnax's convention. It needs JAX alone.

Parameters have Gymnasium's names and values: ``length`` is half the length of the pole, and a negative ``force_mag``
is a motor wired the other way round. The same starts and actions give the same states as CartPole-v1, to the rounding
of float32.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

TAU = 0.02  # seconds of a step
FARTHEST, STEEPEST = 2.4, 12 * 2 * math.pi / 360  # where an episode ends
START = 0.05  # a start is uniform within this of 0, in all four coordinates


class Params(NamedTuple):
    """The physical parameters: gravity in m/s^2, half the pole's length in m, the push in N, and masses in kg."""

    gravity: Any = 9.8
    length: Any = 0.5
    force_mag: Any = 10.0
    masscart: Any = 1.0
    masspole: Any = 0.1


class State(NamedTuple):
    """Position, speed, angle and angular speed, apart: so that each is one array of all episodes."""

    x: Any
    x_speed: Any
    angle: Any
    angle_speed: Any


class Box(NamedTuple):
    """Numbers of a shape within limits, as gymnax describes them."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any = jnp.float32


class Discrete(NamedTuple):
    """One of n, as gymnax describes it."""

    n: int


class CartPole:
    """A cart that keeps a pole upright; every step earns 1. All four numbers of the state are observed."""

    default_params = Params()
    reward_range = (1.0, 1.0)

    def reset(self, key: Any, params: Params) -> tuple[Any, State]:
        """A start: its observation, and the state."""
        start = jax.random.uniform(key, (4,), minval=-START, maxval=START)
        return start, State(*start)

    def step(self, key: Any, state: State, action: Any, params: Params) -> tuple[Any, State, Any, Any, dict[str, Any]]:
        """One step of Euler's method: observation, state, reward, whether the episode is over, and nothing else."""
        x, x_speed, angle, angle_speed = state
        mass, lever = params.masscart + params.masspole, params.masspole * params.length
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        push = jnp.where(action == 1, params.force_mag, -params.force_mag)
        push = (push + lever * angle_speed**2 * sine) / mass
        inertia = params.length * (4.0 / 3.0 - params.masspole * cosine**2 / mass)
        turn = (params.gravity * sine - cosine * push) / inertia
        shift = push - lever * turn * cosine / mass
        after = State(
            x + TAU * x_speed,
            x_speed + TAU * shift,
            angle + TAU * angle_speed,
            angle_speed + TAU * turn,
        )
        over = (jnp.abs(after.x) > FARTHEST) | (jnp.abs(after.angle) > STEEPEST)
        return jnp.stack(after), after, jnp.float32(1.0), over, {}

    def observation_space(self, params: Params) -> Box:
        """Position, speed, angle and angular speed."""
        return Box(-math.inf, math.inf, (4,))

    def action_space(self, params: Params) -> Discrete:
        """0 pushes to the left, 1 to the right."""
        return Discrete(2)
