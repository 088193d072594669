"""The task, the sources and the learner's settings of a ``transfer``, checked once for all trials."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from pastmaster.arrays import BoolArray, sealed
from pastmaster.checks import as_number, optional_whole, whole, within
from pastmaster.errors import InvalidInputError, PastmasterError, TaskError
from pastmaster.policies.batch import is_random, is_recurrent
from pastmaster.reuse import _episode_kernels as kernels
from pastmaster.reuse.defaults import default_learner
from pastmaster.reuse.fixed_policy import FixedPolicy
from pastmaster.reuse.protocols import BroughtSelector, Space, learns_from_every
from pastmaster.reuse.q_learning import QLearning
from pastmaster.reuse.sb3_learner import SB3Learning, fitting
from pastmaster.reuse.selector import Selector
from pastmaster.reuse.sources import fitted, named_sources, of_space, source_arrays
from pastmaster.tables import one_line, shown
from pastmaster.tasks import Task
from pastmaster.tasks.guard import Watch
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.gymnasium_table import step_limit
from pastmaster.tasks.identity import spec_data, task_data
from pastmaster.tasks.simulated import SimulatedTask, simulated
from pastmaster.tasks.spaces import described_space, discrete_size
from pastmaster.tasks.specs import made_by_id
from pastmaster.tasks.tabular import TabularMDP, capped
from pastmaster.values._kernels import states_met

FOREVER = 2**62  # the horizon of a task without one
Environment = gym.Env[Any, Any] | str | Callable[[], gym.Env[Any, Any]]


class Problem:
    """A task, source policies and a learner's settings that fit together."""

    def __init__(
        self, task: Any, sources: Any, settings: Any, gamma: float | None, horizon: int | None, share: bool
    ) -> None:
        of_class = isinstance(task, type) and not issubclass(task, gym.Env)
        if of_class or not (isinstance(task, TabularMDP | GymTask | gym.Env | str) or callable(task)):
            raise _no_task(task)
        self.names, given = named_sources(sources)
        horizon = optional_whole("transfer", "horizon", horizon)
        if settings is not None and (isinstance(settings, type) or not callable(getattr(settings, "start", None))):
            raise InvalidInputError(
                f"transfer: learner is {shown(settings)}, must be a QLearning(), an SB3Learning(...), for a "
                "policy FixedPolicy(policy), or an object with a method start"
            )
        self.task, self.share = task, share
        self.tabular = isinstance(task, TabularMDP)
        self.spec: gym.envs.registration.EnvSpec | None = None
        self.shared_environment = isinstance(task, gym.Env)
        own = (task.gamma, task.horizon) if isinstance(task, TabularMDP | GymTask) else (None, None)
        gamma, horizon = _agreed("gamma", gamma, own[0]), _agreed("horizon", horizon, own[1])
        if self.tabular:
            self._take_task(horizon)
        else:
            self._take_environment(gamma, horizon)
        self.settings = default_learner(self.observations, self.actions) if settings is None else settings
        self.every = learns_from_every(self.settings)
        self._check_learner()
        self.sources = [self._checked_source(source, i) for i, source in enumerate(given)]

    def _check_learner(self) -> None:
        q_learning = isinstance(self.settings, QLearning)
        if q_learning and None in (discrete_size(self.observations), discrete_size(self.actions)):
            algorithms, remedy = fitting(self.observations, self.actions)
            wanted = f"must be another one, such as SB3Learning({algorithms[0]!r})" if algorithms else remedy
            raise InvalidInputError(
                f"transfer: learner is a QLearning, which needs Discrete observations and actions from 0, for "
                f"{described_space(self.observations)} and {described_space(self.actions)}: {wanted}"
            )
        if self.share and not q_learning:
            raise InvalidInputError(
                "transfer: share=True needs the likelihood of the learner's actions, so learner must be a QLearning"
            )

    def _take_task(self, horizon: int | None) -> None:
        task: TabularMDP = self.task
        if horizon is None and (endless := endless_states(task)).any():
            raise InvalidInputError(
                f"transfer: {task} has no horizon and an episode may never end (for example in state "
                f"{int(np.argmax(endless))}): pass horizon, its most steps"
            )
        self.gamma, self.horizon = task.gamma, FOREVER if horizon is None else horizon
        self.observations: Space = gym.spaces.Discrete(task.n_states)
        self.actions: Space = gym.spaces.Discrete(task.n_actions)

    def _take_environment(self, gamma: float | None, horizon: int | None) -> None:
        if gamma is None:
            raise InvalidInputError("transfer: gamma is None, must be given for a Gymnasium environment")
        self.gamma = within("transfer", "gamma", gamma, 0.0, 1.0)
        env = self.environment()
        own = None if isinstance(self.task, GymTask) else step_limit(env)
        steps = [limit for limit in (own, horizon) if limit is not None]
        spaces: list[Any] = [getattr(env, name, None) for name in ("observation_space", "action_space")]
        self.leave(env)
        if not all(isinstance(space, gym.Space) for space in spaces):
            raise InvalidInputError(f"transfer: task is {env}, whose spaces are {spaces}, must be Gymnasium spaces")
        self.observations, self.actions = spaces
        if not steps:
            raise InvalidInputError(
                f"transfer: {env} has no step limit and an episode may never end: pass horizon, its most steps"
            )
        self.horizon = whole("transfer", "horizon", min(steps), at_least=1)

    def new_learner(self, rng: np.random.Generator) -> Any:
        """A learner that knows nothing yet."""
        try:
            return self.settings.start(self.observations, self.actions, self.gamma, rng)
        except InvalidInputError as error:
            _, _, wrong = str(error).partition(": ")
            if not (wrong and isinstance(self.settings, SB3Learning | FixedPolicy)):
                raise
            raise InvalidInputError(f"transfer: learner.{wrong}") from error

    def watch(self) -> Watch:
        """A watch over the environments of one trial."""
        return self.task.watch() if isinstance(self.task, GymTask) else Watch(str(self.task), None)

    def environment(self, watch: Watch | None = None) -> gym.Env[Any, Any]:
        """An environment to run episodes in, under a watch if the task wants one; ``leave`` it when done."""
        env: gym.Env[Any, Any]
        if self.tabular:
            return self.task.to_gymnasium()  # type: ignore[no-any-return]
        if isinstance(self.task, GymTask):
            return self.task() if watch is None else self.task.environment(watch)
        if isinstance(self.task, str):
            env = made_by_id("transfer: task", self.spec or self.task)
            self.spec = env.spec  # in another process the id may not be registered
        else:
            env = self.task if self.shared_environment else self._made()
        if not isinstance(env, gym.Env):
            raise _no_task(self.task)
        return env

    def _made(self) -> Any:
        """What the function returns that a person gave as the task."""
        try:
            return self.task()
        except Exception as error:  # of whatever kind: it is the function's
            raise InvalidInputError(
                f"transfer: task is {shown(self.task)}, which raised {shown(error)}, must make an environment "
                "when it is called without arguments"
            ) from error

    def bounded_task(self) -> Task | None:
        """The task whose bounds on returns hold here, with the horizon of this problem; None where none are known."""
        if isinstance(self.task, TabularMDP):
            return self.task if self.horizon == FOREVER else capped(self.task, self.horizon)
        if isinstance(self.task, str):
            try:
                return GymTask(self.task, gamma=self.gamma, horizon=self.horizon)
            except InvalidInputError:  # wrapped in what may change rewards
                return None
        return self.task if isinstance(self.task, GymTask) else None

    def failed(self, error: Exception, call: str, arm: int = -1, action: Any = None) -> NoReturn:
        """Raise an error of the environment: as the arm's where its action is not of the space, else by its name."""
        if call == "step" and not of_space(action, self.actions):
            arm_name = "learner" if arm == len(self.sources) else f"sources[{arm}]"
            raise InvalidInputError(
                f"transfer: {arm_name} gives the action {shown(action)}, must be of "
                f"{described_space(self.actions)}: {call} raised {shown(error)}"
            ) from error
        if isinstance(error, PastmasterError):
            raise error
        raise TaskError(f"{one_line(str(self.task))}: {call} raised {shown(error)}") from error

    def leave(self, env: gym.Env[Any, Any]) -> None:
        """Close an environment that was made here."""
        if not self.shared_environment:
            env.close()

    def _checked_source(self, source: Any, i: int) -> Any:
        place = f"transfer: sources[{i}]"
        policy = fitted(source, self.observations, self.actions, place)
        if self.share and not isinstance(policy, np.ndarray) and is_random(policy):
            raise InvalidInputError(f"{place} is {shown(policy)}, must not draw at random with share=True")
        if self.share and is_recurrent(policy):
            raise InvalidInputError(f"{place} is {shown(policy)}, must not be recurrent with share=True")
        return policy

    def is_watched(self, selector: Selector | BroughtSelector) -> bool:
        """Whether more comes of a source's episode than its return: somebody learns from it or acts in it."""
        return self.every or self.share or selector.mixes

    @property
    def compilable(self) -> bool:
        """Whether task, sources and learner are all arrays."""
        arrays = all(isinstance(source, np.ndarray) for source in self.sources)
        return self.tabular and arrays and isinstance(self.settings, QLearning)

    @property
    def identity(self) -> list[Any] | None:
        """The data that tells this task from every other; None for code, which cannot be told apart."""
        if self.tabular:
            return task_data(self.task)
        if isinstance(self.task, GymTask):
            try:
                return ["task", task_data(self.task)[0]]  # the digest has gamma and horizon beside it
            except InvalidInputError:  # a function whose environments cannot be told apart
                return None
        return None if self.spec is None else spec_data(self.spec)

    @cached_property
    def arrays(self) -> tuple[SimulatedTask, kernels.Sources]:
        """Task and sources as the compiled episodes read them."""
        return simulated(self.task, self.horizon), source_arrays(self.sources, self.task)


def _no_task(task: Any) -> InvalidInputError:
    kind = ", a class" if isinstance(task, type) else ""
    return InvalidInputError(
        f"transfer: task is {shown(task)}{kind}, must be a TabularMDP, a GymTask, or a Gymnasium environment, "
        "its id, or a function that makes one"
    )


def _agreed(name: str, given: Any, own: Any) -> Any:
    """The task's own gamma or horizon, where it has one; another one is refused."""
    if own is not None and given is not None and as_number(given) != own:
        raise InvalidInputError(f"transfer: {name} is {shown(given)}, but the task has its own, {own}: leave it out")
    return given if own is None else own


def endless_states(task: TabularMDP) -> BoolArray:
    """The states [S] that an episode can reach and in which some policy keeps it going for ever."""
    shape = (task.n_states, task.n_actions, -1)
    chances = np.ones(task.next_state.shape) if task.probability is None else task.probability
    possible: BoolArray = chances.reshape(shape) > 0
    ends, following = task.terminated.reshape(shape), task.next_state.reshape(shape)
    staying = np.ones(task.n_states, np.bool_)
    while True:  # the largest set in which some action of every state surely stays
        stays = (~possible | (~ends & staying[following])).all(axis=2)
        kept: BoolArray = staying & np.any(stays, axis=1)
        if (kept == staying).all():
            break
        staying = kept
    goes_on = (possible & ~ends).astype(np.float64)
    met: BoolArray = states_met(sealed(following), sealed(goes_on), task.start_states)
    return staying & met
