"""A family of CartPole tasks: Gymnasium's environment on other planets, with other poles and other motors.

The equations, the start, the reward of 1 a step and the ends of an episode are those of Gymnasium's CartPole-v1, whose
parameters are the defaults here. ``length`` is half the length of the pole, as there. ``force_mag`` may be negative: a
motor wired the other way round, so that action 1 pushes to the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control import cartpole
from gymnasium.utils import seeding

from pastmaster.arrays import Array
from pastmaster.checks import called_as, is_finite, is_number, whole
from pastmaster.environments import CART_POLE_STEPS as STEPS
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, checked_rng
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, JaxEnv
from pastmaster.tasks.jax_dynamics import jax_of

GAMMA = 0.99
GRAVITY = (1.6, 25.0)  # the family's ranges
LENGTH = (0.05, 2.0)
FORCE = (5.0, 10.0)
START = 0.05  # a start is uniform within this of 0, in all four coordinates


@called_as("cart_pole.family")
def family(n_tasks: int, *, rng: Rng = None, gamma: float = GAMMA, horizon: int = STEPS) -> list[GymTask]:
    """``n_tasks`` variants drawn at random, so that each call gives new ones; the settings are those of ``task``.

    Gravity from the Moon's to Jupiter's, poles from a pencil to a mast, motors of either direction: the first three
    evenly on a logarithmic scale, the direction by a coin. What a policy must do differs most with the direction and
    the length: what balances a mast drops a pencil.

    Examples
    --------
    >>> family(2, rng=np.random.default_rng(0))[0].name
    'cart-pole, gravity 9.22, length 0.135, force 5.14'
    """
    caller = "cart_pole.family"
    n_tasks = whole(caller, "n_tasks", n_tasks, at_least=1)
    rng = checked_rng(caller, rng)
    low, high = np.log([GRAVITY, LENGTH, FORCE]).T
    drawn = np.exp(low + (high - low) * rng.random((n_tasks, 3)))
    drawn[:, 2] *= rng.choice([-1, 1], n_tasks)
    return [task(*parameters, gamma=gamma, horizon=horizon) for parameters in drawn]


@called_as("cart_pole.task")
def task(gravity: float, length: float, force_mag: float, *, gamma: float = GAMMA, horizon: int = STEPS) -> GymTask:
    """One variant as a black box.

    Parameters
    ----------
    gravity, length, force_mag : float
        In m/s^2, half the length of the pole in m, and the push in N; rounded to three digits.
    gamma, horizon
        The discount, and the step cap of an episode, at most 500.

    Examples
    --------
    >>> task(1.6, 0.5, -10.0).name
    'cart-pole, gravity 1.6, length 0.5, force -10'
    """
    horizon = whole("cart_pole.task", "horizon", horizon, at_least=1, at_most=STEPS)
    parameters = {"gravity": gravity, "length": length, "force_mag": force_mag}
    for name, value in parameters.items():
        if not (is_number(value) and is_finite(value)):
            raise InvalidInputError(f"cart_pole.task: {name} is {shown(value)}, must be a finite number")
    rounded = {name: float(f"{value:.3g}") for name, value in parameters.items()}
    label = "cart-pole, gravity {gravity:g}, length {length:g}, force {force_mag:g}".format(**rounded)
    return GymTask("pastmaster/CartPole-v0", rounded, gamma=gamma, horizon=horizon, name=label)


class CartPoleEnv(cartpole.CartPoleEnv):
    """``gymnasium.make("pastmaster/CartPole-v0", gravity=1.6, length=2.0)``: one variant, stepped alone."""

    reward_range = (1.0, 1.0)  # of a step

    def __init__(self, render_mode: str | None = None, **parameters: float) -> None:
        super().__init__(render_mode=render_mode)
        _set_parameters(self, parameters)


class CartPoleVectorEnv(cartpole.CartPoleVectorEnv):
    """Many lanes of one variant, stepped together: what Gymnasium's ``SyncVectorEnv`` would do, much faster.

    Every lane has a generator of its own. ``reset`` takes one seed for each lane, or one number s for the seeds
    s, s + 1, ...; so what a lane does depends on its seed and its actions alone. Actions are not checked: all but 1
    push as 0 does.
    """

    state: Any  # [4, lanes] once reset

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = STEPS,
        render_mode: str | None = None,
        **parameters: float,
    ) -> None:
        super().__init__(num_envs, max_episode_steps, render_mode)
        _set_parameters(self, parameters)
        self._generators: list[np.random.Generator] = []

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in every lane."""
        if seed is not None or not self._generators:
            self._generators = [seeding.np_random(each)[0] for each in self._seed_of_each_lane(seed)]
        self.state = np.empty((4, self.num_envs))
        self.steps = np.zeros(self.num_envs, np.int32)
        self._begin(np.arange(self.num_envs))
        self.prev_done = np.zeros(self.num_envs, np.bool_)
        return self.state.T.astype(np.float32), {}

    def step(self, action: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step in every lane; a lane whose episode was over begins another instead, as Gymnasium has it."""
        _, x_speed, angle, angle_speed = self.state
        cosine = np.cos(angle)
        sine = np.sin(angle)
        push = np.where(np.equal(action, 1), self.force_mag, -self.force_mag)
        push = (push + self.polemass_length * np.square(angle_speed) * sine) / self.total_mass
        inertia = self.length * (4.0 / 3.0 - self.masspole * np.square(cosine) / self.total_mass)
        turn = (self.gravity * sine - cosine * push) / inertia
        shift = push - self.polemass_length * turn * cosine / self.total_mass
        self.state = self.state + self.tau * np.stack((x_speed, shift, angle_speed, turn))
        self.steps += 1
        reward = np.ones(self.num_envs, np.float32)
        if self.prev_done.any():
            self._begin(np.flatnonzero(self.prev_done))
            reward[self.prev_done] = 0.0
        x = np.abs(self.state[0])
        angle = np.abs(self.state[2])
        terminated = (x > self.x_threshold) | (angle > self.theta_threshold_radians)
        truncated = self.steps >= self.max_episode_steps
        self.prev_done = terminated | truncated
        return self.state.T.astype(np.float32), reward, terminated, truncated, {}

    def _seed_of_each_lane(self, seed: int | Sequence[int] | None) -> Sequence[int | None]:
        """One for each lane; None leaves it to chance."""
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return range(int(seed), int(seed) + self.num_envs)
        if len(seed) != self.num_envs:
            raise InvalidInputError(
                f"CartPoleVectorEnv.reset: seed has {len(seed)} entries, must be {self.num_envs}, one to a lane"
            )
        return [int(each) for each in seed]

    def _begin(self, lanes: npt.NDArray[np.intp]) -> None:
        """A new start in these lanes."""
        drawn = np.array([self._generators[lane].random(4) for lane in lanes])
        self.state[:, lanes] = 2 * START * drawn.T - START
        self.steps[lanes] = 0


DEFAULTS = {"gravity": 9.8, "length": 0.5, "force_mag": 10.0, "masscart": 1.0, "masspole": 0.1}


def _set_parameters(env: Any, parameters: dict[str, float]) -> None:
    """Give an environment of Gymnasium's these parameters, and the defaults for the others."""
    _check_parameters(parameters)
    for name, value in (DEFAULTS | parameters).items():
        setattr(env, name, float(value))
    env.total_mass = env.masscart + env.masspole
    env.polemass_length = env.masspole * env.length


def _check_parameters(parameters: dict[str, float]) -> None:
    for name, value in parameters.items():
        if name not in DEFAULTS:
            raise InvalidInputError(f"CartPole: {name} is no parameter, must be one of {', '.join(DEFAULTS)}")
        if not is_finite(value) or (value == 0 if name == "force_mag" else value <= 0):
            must = "a number other than 0" if name == "force_mag" else "a number above 0"
            raise InvalidInputError(f"CartPole: {name} is {shown(value)}, must be {must}")


def jax_environment(**parameters: float) -> JaxEnv:
    """``gymnasium.make("pastmaster/JaxCartPole-v0", gravity=1.6)``: one variant as a JAX program."""
    _check_parameters(parameters)
    jax_of("pastmaster/JaxCartPole-v0")
    from pastmaster.domains.jax_cart_pole import CartPole

    return JaxEnv(CartPole(), parameters)
