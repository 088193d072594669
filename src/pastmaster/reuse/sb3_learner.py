"""Stable-Baselines3's off-policy algorithms as the arm that learns: DQN, SAC, TD3 and DDPG inside ``transfer``.

The learning is theirs: their replay buffer, their ``train``, their exploration, at their rhythm (``train_freq``,
``gradient_steps``, ``learning_starts``, target updates). Here is only what feeds them one transition at a time.

A transition counts as final where the episode terminated, not where it was cut off: the value of what follows is then
learned on, as their own handling of time limits does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from threading import RLock
from typing import Any, get_args

import gymnasium as gym
import numpy as np
from numpy.random import mtrand

from pastmaster.checks import chosen, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import checked_rng
from pastmaster.policies import NetworkPolicy, PredictPolicy
from pastmaster.policies.sb3_live import network_of
from pastmaster.reuse.protocols import Space
from pastmaster.reuse.q_learning import LearnFrom
from pastmaster.tables import one_line, shown
from pastmaster.tasks.spaces import described_space, discrete_size

ALGORITHMS = ("DQN", "SAC", "TD3", "DDPG")
TAKEN = {
    "env": "the task is transfer's",
    "gamma": "it is transfer's",
    "seed": "all is drawn from transfer's rng",
    "exploration_fraction": "pass exploration_steps",
    "n_steps": "one step at a time is learned from",
    "use_sde": "noise by gSDE has a rhythm of its own",
    "optimize_memory_usage": "steps of several episodes are not one sequence",
}


def fitting(observations: Space, actions: Space) -> tuple[tuple[str, ...], str]:
    """The algorithms that can learn in these spaces, the default first; where there is none, what to do about it."""
    own = "pass a learner of your own, or FixedPolicy(policy)"
    kind = type(observations).__name__
    image = isinstance(observations, gym.spaces.Box) and len(observations.shape) == 3
    if isinstance(observations, gym.spaces.Box) and not all(observations.shape):
        return (), f"no learner here takes observations of no numbers ({described_space(observations)}): {own}"
    numbers = isinstance(observations, gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary)
    if image or not (numbers or discrete_size(observations) is not None):
        wrap = "wrap the task" if image else "wrap the task in gymnasium.wrappers.FlattenObservation"
        what = "images" if image else f"{kind} observations"
        return (), f"no learner here takes {what} ({described_space(observations)}): {wrap}, or {own}"
    if isinstance(actions, gym.spaces.Box):
        if not (all(actions.shape) and np.isfinite([actions.low, actions.high]).all()):
            what = f"actions without finite limits ({one_line(str(actions))})"
            return (), f"no learner here takes {what}: wrap the task in gymnasium.wrappers.TransformAction, or {own}"
        return ("SAC", "TD3", "DDPG"), ""
    if discrete_size(actions) is not None:
        return ("DQN",), ""
    return (), f"no learner here takes {type(actions).__name__} actions ({shown(actions)}): {own}"


class SB3Learning:
    """Settings of a learner of Stable-Baselines3, for tasks that are no tables.

    Parameters
    ----------
    algorithm : {"DQN", "SAC", "TD3", "DDPG"}
        TD3 and DDPG explore by ``action_noise`` alone, and have none unless it is given.
    policy : str
        Stable-Baselines3's name of the network.
    learn_from : {"own", "every"}
        As for `QLearning`.
    exploration_steps : int
        The own steps over which schedules run, and after which they stay: how much training is left is not known.
    **settings
        The algorithm's own settings, with its own defaults, apart from a ``buffer_size`` of 50,000.

    Examples
    --------
    >>> from pastmaster import SB3Learning
    >>> SB3Learning("DQN", learning_rate=1e-3)
    SB3Learning(DQN, learn_from='own', buffer_size=50000, device='cpu', learning_rate=0.001)
    """

    def __init__(
        self,
        algorithm: str,
        *,
        policy: str = "MlpPolicy",
        learn_from: LearnFrom = "own",
        exploration_steps: int = 10_000,
        **settings: Any,
    ) -> None:
        chosen("SB3Learning", "algorithm", algorithm, ALGORITHMS)
        chosen("SB3Learning", "learn_from", learn_from, get_args(LearnFrom))
        for name in set(settings) & set(TAKEN):
            raise InvalidInputError(f"SB3Learning: {name} is given, must be left out: {TAKEN[name]}")
        self.algorithm, self.policy, self.learn_from = algorithm, policy, learn_from
        self.exploration_steps = whole("SB3Learning", "exploration_steps", exploration_steps, at_least=1)
        self.settings = {"buffer_size": 50_000, "device": "cpu"} | settings

    def __repr__(self) -> str:
        settings = "".join(f", {key}={value!r}" for key, value in self.settings.items())
        return one_line(f"SB3Learning({self.algorithm}, learn_from={self.learn_from!r}{settings})")

    def start(self, observations: Space, actions: Space, gamma: float, rng: np.random.Generator) -> SB3Learner:
        """Return a learner that knows nothing yet."""
        caller = "SB3Learning.start"
        gamma = within(caller, "gamma", gamma, 0.0, 1.0)
        return SB3Learner(self, observations, actions, gamma, checked_rng(caller, rng))


class SB3Learner:
    """A running learner; ``model`` is Stable-Baselines3's."""

    def __init__(
        self, settings: SB3Learning, observations: Space, actions: Space, gamma: float, rng: np.random.Generator
    ) -> None:
        try:
            import stable_baselines3
            from stable_baselines3.common.logger import Logger
        except ImportError:
            raise InvalidInputError(
                f"SB3Learning: algorithm is {settings.algorithm!r}, which needs Stable-Baselines3: pip install "
                "stable-baselines3"
            ) from None
        algorithms, remedy = fitting(observations, actions)
        if not algorithms:
            raise InvalidInputError(
                f"SB3Learning: algorithm is {settings.algorithm!r}, must be another learner: {remedy}"
            )
        if settings.algorithm not in algorithms:
            raise InvalidInputError(
                f"SB3Learning: algorithm is {settings.algorithm!r}, must be {' or '.join(map(repr, algorithms))} for "
                f"actions of {described_space(actions)}"
            )
        env = Spaces(deepcopy(observations), deepcopy(actions))
        env.action_space.seed(int(rng.integers(2**31)))
        own = deepcopy(settings.settings)
        if settings.algorithm == "DQN":
            own["exploration_fraction"] = 1.0
        self.streams = Streams(rng)
        try:
            with self.streams.drawn_from():
                algorithm = getattr(stable_baselines3, settings.algorithm)
                self.model = algorithm(settings.policy, env, gamma=gamma, **own)
        except (TypeError, ValueError, AssertionError) as error:
            raise InvalidInputError(
                f"SB3Learning: settings are {one_line(str(settings.settings))}, must be settings that "
                f"{settings.algorithm} takes: {error}"
            ) from None
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        self.model.exploration_rate = getattr(self.model, "exploration_initial_eps", 0.0)
        self.exploration_steps, self.own_steps = settings.exploration_steps, 0
        self._steps, self._episodes = 0, 0  # since the last training
        self._following: Any = None  # the next observation of the episode; None between episodes

    def __repr__(self) -> str:
        return f"SB3Learner({type(self.model).__name__}, {self.own_steps:,} steps of its own)"

    def act(self, observation: Any) -> Any:
        """The algorithm's action: at random at first, then by its policy and its exploration."""
        model = self.model
        with self.streams.drawn_from():
            model.policy.set_training_mode(False)
            model._last_obs = np.asarray(observation)[None]
            action = model._sample_action(model.learning_starts, model.action_noise, 1)[0][0]
        self.own_steps += 1
        return action.item() if isinstance(model.action_space, gym.spaces.Discrete) else action

    def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, terminated: bool) -> None:
        """One step into the replay buffer; training, where it is time for it."""
        if self._following is not None and not np.array_equal(observation, self._following):
            self._end_episode()  # another arm's episode, cut off
        model = self.model
        taken = np.asarray(action)[None]
        if isinstance(model.action_space, gym.spaces.Box):
            taken = model.policy.scale_action(np.clip(taken, model.action_space.low, model.action_space.high))
        step = (np.asarray(observation)[None], np.asarray(next_observation)[None], taken, np.array([reward]))
        model.num_timesteps += 1
        self._steps += 1
        model.replay_buffer.add(*step, np.array([terminated]), [{}])
        model._current_progress_remaining = max(0.0, 1.0 - self.own_steps / self.exploration_steps)
        model._on_step()
        self._following = np.array(next_observation)
        if terminated:
            self._end_episode()
        elif model.train_freq.unit.value == "step" and self._steps >= model.train_freq.frequency:
            self._train()

    def end_own_episode(self) -> None:
        """An episode of its own is over, by termination or cut off."""
        if self._following is not None:
            self._end_episode()

    def _end_episode(self) -> None:
        model = self.model
        self._following = None
        self._episodes += 1
        model._episode_num += 1
        if model.action_noise is not None:
            model.action_noise.reset()
        done = self._steps if model.train_freq.unit.value == "step" else self._episodes
        if done >= model.train_freq.frequency:
            self._train()

    def _train(self) -> None:
        """As many gradient steps as the settings ask for, once there is enough to learn from."""
        model = self.model
        steps = model.gradient_steps if model.gradient_steps >= 0 else self._steps
        self._steps = self._episodes = 0
        if model.num_timesteps > model.learning_starts and steps > 0:
            with self.streams.drawn_from():
                model.train(gradient_steps=steps, batch_size=model.batch_size)

    @property
    def policy(self) -> NetworkPolicy | PredictPolicy:
        """The greedy policy as it is now, a copy."""
        with self.streams.drawn_from():
            try:
                return network_of(self.model, None, "SB3Learner.policy")
            except InvalidInputError:
                return PredictPolicy(deepcopy(self.model.policy))


class Spaces(gym.Env[Any, Any]):
    """An environment that is its spaces: what a model must be given to be made. It cannot be stepped."""

    def __init__(self, observations: Space, actions: Space) -> None:
        self.observation_space, self.action_space = observations, actions


class Streams:
    """The random streams of one learner, for code that draws from NumPy's and torch's global ones.

    Within ``drawn_from`` the global streams are this learner's; after it they are as they were before. One learner at
    a time, and torch on one thread: how many there are would change its rounding.
    """

    alone = RLock()

    def __init__(self, rng: np.random.Generator) -> None:
        import torch

        self._numpy = np.random.MT19937(int(rng.integers(2**31)))
        self._torch = torch.Generator().manual_seed(int(rng.integers(2**31))).get_state()

    @contextmanager
    def drawn_from(self) -> Iterator[None]:
        """Make the global streams this learner's, for a while."""
        import torch

        with self.alone:
            state: Any = np.random.get_state(legacy=False)  # noqa: NPY002  put back below
            bits = mtrand.get_bit_generator()
            torch_before, threads = torch.get_rng_state(), torch.get_num_threads()
            mtrand.set_bit_generator(self._numpy)
            torch.set_rng_state(self._torch)
            torch.set_num_threads(1)
            try:
                yield
            finally:
                self._torch = torch.get_rng_state()
                torch.set_rng_state(torch_before)
                torch.set_num_threads(threads)
                mtrand.set_bit_generator(bits)
                if state["has_gauss"]:  # kept outside the bit generator, and slow to put back
                    np.random.set_state(state)  # noqa: NPY002
