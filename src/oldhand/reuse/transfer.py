"""``transfer``: T episodes on a new task, reusing source policies where that pays, learning where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from oldhand import parallel
from oldhand._cross_kernels import states_met
from oldhand.errors import InvalidInputError
from oldhand.mdp import BoolArray, TabularMDP
from oldhand.reuse.episodes import FOREVER, CompiledEpisodes, PlainEpisodes, Trial
from oldhand.reuse.exp3_transfer import Exp3Transfer
from oldhand.reuse.ppr import ProbabilisticPolicyReuse
from oldhand.reuse.q_learning import QLearning, decay
from oldhand.reuse.regret_balancing import RegretBalancing
from oldhand.reuse.run import TransferRun, TrialResult
from oldhand.reuse.selector import Selector, checked_bounds, whole, within
from oldhand.reuse.tsallis_inf import TsallisINF
from oldhand.values import Bounds, checked_policy

SELECTORS: dict[str, Callable[..., Any]] = {
    selector.name: selector for selector in (Exp3Transfer, TsallisINF, RegretBalancing, ProbabilisticPolicyReuse)
}
RECOMMENDED: dict[str, Any] = {
    "selector": "regret-balancing",
    "share": True,
    "learner": QLearning(epsilon=decay(0.1, 500)),
}
"""The combination that docs/reuse.md recommends: ``transfer(..., **RECOMMENDED)``."""

Environment = gym.Env[Any, Any] | str | Callable[[], gym.Env[Any, Any]]
OnViolation = Literal["raise", "widen", "clip"]


def transfer(
    task: TabularMDP | Environment,
    sources: Sequence[Any],
    *,
    episodes: int,
    rng: np.random.Generator,
    bounds: tuple[float, float] | None = None,
    selector: str | Callable[..., Any] = "exp3-transfer",
    learner: Any = None,
    trials: int = 1,
    share: bool = False,
    on_violation: OnViolation = "raise",
    gamma: float | None = None,
    horizon: int | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> TransferRun:
    """Run ``episodes`` episodes on a new task, ``trials`` times over, and tell what happened.

    ``task`` is a ``TabularMDP``, or a Gymnasium environment, its id, or a function that makes one; these need a
    ``gamma``, and a ``horizon`` unless they have a step limit. ``sources`` are policies: actions [S], probabilities
    [S, A], or functions of the observation; none at all is Q-learning alone. ``bounds`` are the least and the greatest
    return, declared for the family (``return_bounds`` of its tasks), not taken from the new task. ``selector`` is a
    name in ``SELECTORS`` or is called as ``selector(n_sources, episodes, bounds=..., rng=...)``. ``learner`` is a
    ``QLearning``, or any object whose ``start(env, gamma, rng)`` gives one with ``act`` and ``learn``. ``share`` lets
    an episode count for every source that would have acted as it did.

    A return outside the bounds raises an error, or with ``on_violation="widen"`` doubles the span and starts the
    selector anew, or with "clip" is moved onto them; both are counted in the result.

    ``rng`` is spawned for each trial, then into the streams of selector, environment and learner: results depend
    neither on ``n_jobs`` nor on which body of the engine runs.
    """
    caller = "transfer"
    episodes = whole(caller, "episodes", episodes, at_least=1)
    trials = whole(caller, "trials", trials, at_least=1)
    if not isinstance(rng, np.random.Generator):
        raise InvalidInputError(f"{caller}: rng is {rng!r}, must be a numpy.random.Generator")
    if on_violation not in ("raise", "widen", "clip"):
        raise InvalidInputError(f"{caller}: on_violation is {on_violation!r}, must be 'raise', 'widen' or 'clip'")
    settings = QLearning() if learner is None else learner
    body = _Body(task, sources, settings, gamma, horizon, bool(share))
    declared = None if bounds is None else checked_bounds(caller, bounds)
    make = _selector_maker(selector, declared, on_violation == "clip")
    make(len(body.sources), episodes, declared, np.random.default_rng(0))  # refuse bad settings before any work
    alone = trials == 1 and progress

    def one(stream: np.random.Generator) -> TrialResult:
        return _run_trial(body, make, declared, episodes, on_violation, stream, alone)

    if body.shared_environment and parallel.worker_count(n_jobs) > 1 and trials > 1:
        raise InvalidInputError(
            f"{caller}: n_jobs is {n_jobs}, must be 1 for an environment that all trials share; "
            "pass its id or a function that makes it"
        )
    results = parallel.run(one, rng.spawn(trials), n_jobs=n_jobs, progress=progress and trials > 1, label="transfer")
    return TransferRun.of(results, body.sources, declared)


def _selector_maker(
    selector: str | Callable[..., Any], bounds: Bounds | None, clip: bool
) -> Callable[[int, int, Bounds | None, np.random.Generator], Any]:
    """A function of (n_sources, episodes, bounds, rng) that makes a fresh selector."""
    if isinstance(selector, str) and selector not in SELECTORS:
        raise InvalidInputError(
            f"transfer: selector is {selector!r}, must be one of {', '.join(SELECTORS)}, or a function that makes one"
        )
    factory = SELECTORS[selector] if isinstance(selector, str) else selector
    if not callable(factory) or isinstance(factory, Selector):
        raise InvalidInputError(
            f"transfer: selector is {selector!r}, must be a name or be called as "
            "selector(n_sources, episodes, bounds=..., rng=...): each trial starts its own"
        )
    if bounds is None and factory is not ProbabilisticPolicyReuse and isinstance(selector, str):
        raise InvalidInputError(
            f"transfer: bounds is None, must be (lower, upper) for {selector!r}: return_bounds(tasks) of the family"
        )
    extra = {"clip": True} if clip and factory is not ProbabilisticPolicyReuse else {}

    def make(n_sources: int, episodes: int, bounds: Bounds | None, rng: np.random.Generator) -> Any:
        return factory(n_sources, episodes, bounds=bounds, rng=rng, **extra)

    return make


class _Body:
    """What is the same in all trials, checked once: the task, the sources, the learner's settings."""

    def __init__(
        self, task: Any, sources: Any, settings: Any, gamma: float | None, horizon: int | None, share: bool
    ) -> None:
        if not isinstance(sources, Iterable):
            raise InvalidInputError(f"transfer: sources is {sources!r}, must be a list of policies")
        self.task, self.settings, self.share = task, settings, share
        if not callable(getattr(settings, "start", None)):
            raise InvalidInputError(f"transfer: learner is {settings!r}, must be a QLearning or have a method start")
        self.tabular = isinstance(task, TabularMDP)
        self.shared_environment = isinstance(task, gym.Env)
        if self.tabular:
            self._check_tabular(gamma, horizon)
        else:
            self._check_environment(gamma, horizon)
        self.sources = [self._checked_source(source, i) for i, source in enumerate(sources)]
        if share and not isinstance(settings, QLearning):
            raise InvalidInputError(
                "transfer: share=True needs the likelihood of the learner's actions, so learner must be a QLearning"
            )

    def _check_tabular(self, gamma: float | None, horizon: int | None) -> None:
        task: TabularMDP = self.task
        for name, value, own in (("gamma", gamma, task.gamma), ("horizon", horizon, task.horizon)):
            if value is not None and value != own:
                raise InvalidInputError(f"transfer: {name} is {value}, but the task has its own, {own}: leave it out")
        if task.horizon is None:
            endless = endless_states(task)
            if endless.any():
                raise InvalidInputError(
                    f"transfer: {task} has no horizon and an episode may never end (from state "
                    f"{int(np.argmax(endless))} on): give the task a horizon"
                )
        self.gamma, self.horizon = task.gamma, FOREVER if task.horizon is None else task.horizon
        self.n_states: int | None = task.n_states
        self.n_actions: int | None = task.n_actions

    def _check_environment(self, gamma: float | None, horizon: int | None) -> None:
        if gamma is None:
            raise InvalidInputError("transfer: gamma is None, must be given for a Gymnasium environment")
        self.gamma = within("transfer", "gamma", gamma, 0.0, 1.0)
        env = self.environment()
        limits = (env.spec.max_episode_steps if env.spec else None, getattr(env.unwrapped, "horizon", None), horizon)
        steps = [limit for limit in limits if limit is not None]
        if not steps:
            raise InvalidInputError(
                f"transfer: {env} has no step limit and an episode may never end: pass horizon, its most steps"
            )
        self.horizon = whole("transfer", "horizon", min(steps), at_least=1)
        self.n_states, self.n_actions = _size(env.observation_space), _size(env.action_space)
        if isinstance(self.settings, QLearning) and None in (self.n_states, self.n_actions):
            raise InvalidInputError(
                f"transfer: QLearning needs Discrete observations and actions from 0, got {env.observation_space} and "
                f"{env.action_space}: pass a learner of your own"
            )

    def environment(self) -> gym.Env[Any, Any]:
        """An environment to run episodes in."""
        if self.tabular:
            env: gym.Env[Any, Any] = self.task.to_gymnasium()
            return env
        if isinstance(self.task, str):
            env = gym.make(self.task)
        else:
            env = self.task() if callable(self.task) and not self.shared_environment else self.task
        if not isinstance(env, gym.Env):
            raise InvalidInputError(
                f"transfer: task is {self.task!r}, must be a TabularMDP, or a Gymnasium environment, its id, "
                "or a function that makes one"
            )
        return env

    def _checked_source(self, source: Any, i: int) -> Any:
        if callable(source):
            return source
        place = f"transfer: sources[{i}]"
        if self.n_states is None or self.n_actions is None:
            raise InvalidInputError(
                f"{place} is an array, which needs Discrete observations and actions: pass a function instead"
            )
        return checked_policy(source, self.n_states, self.n_actions, place)

    @property
    def compilable(self) -> bool:
        """Whether task, sources and learner are all arrays."""
        arrays = all(not callable(source) for source in self.sources)
        return self.tabular and arrays and isinstance(self.settings, QLearning)


def _size(space: gym.Space[Any]) -> int | None:
    return int(space.n) if isinstance(space, gym.spaces.Discrete) and space.start == 0 else None


def _run_trial(
    body: _Body,
    make: Callable[..., Any],
    bounds: Bounds | None,
    episodes: int,
    on_violation: OnViolation,
    rng: np.random.Generator,
    progress: bool,
) -> TrialResult:
    """One trial: run until done, widening the bounds where asked to."""
    selector_rng, environment_rng, learner_rng = rng.spawn(3)
    env = None if body.compilable else body.environment()
    if isinstance(body.settings, QLearning):
        learner: Any = body.settings.start(body.n_states or 0, body.n_actions or 0, body.gamma, learner_rng)
    else:
        learner = body.settings.start(env, body.gamma, learner_rng)
    every = getattr(body.settings, "learn_from", "own") == "every"
    selector = make(len(body.sources), episodes, bounds, selector_rng)
    seed = int(environment_rng.integers(2**31))
    trial = Trial(selector, learner, every, body.share, seed, np.empty(episodes), np.empty(episodes, np.int32))
    engine: CompiledEpisodes | PlainEpisodes
    if body.compilable and isinstance(selector, Selector):
        engine = CompiledEpisodes(body.task, body.sources, trial)
    else:
        engine = PlainEpisodes(env or body.environment(), body.sources, trial, body.gamma, body.horizon)
        if progress:
            engine.track = lambda steps: parallel.tracked(steps, len(steps), True, "transfer")
    begun, widened = 0, 0
    while (stopped := engine.play(begun)) < episodes:
        value = float(trial.returns[stopped])
        if on_violation != "widen":
            raise InvalidInputError(
                f"transfer: the return of episode {stopped} is {value:.6g}, outside the declared bounds "
                f"{bounds}: declare wider ones, or pass on_violation='widen' or 'clip'"
            )
        assert bounds is not None  # only bounded selectors refuse
        bounds, begun, widened = wider(bounds, value), stopped + 1, widened + 1
        if begun < episodes:
            trial.selector = make(len(body.sources), episodes - begun, bounds, selector_rng)
    return TrialResult(trial.returns, trial.arms, trial.selector, learner, widened, begun)


def wider(bounds: Bounds, value: float) -> Bounds:
    """The bounds with their span doubled, as often as it takes, on the side where ``value`` lies outside."""
    lower, upper = bounds
    while value > upper:
        upper += upper - lower
    while value < lower:
        lower -= upper - lower
    return checked_bounds("transfer", (lower, upper))


def endless_states(task: TabularMDP) -> BoolArray:
    """The states an episode can reach from which some policy goes on for ever, with positive probability [S]."""
    shape = (task.n_states, task.n_actions, -1)
    chances = np.ones(task.next_state.shape) if task.probability is None else task.probability
    possible: BoolArray = chances.reshape(shape) > 0
    ends = task.terminated.reshape(shape)
    following = task.next_state.reshape(shape)
    staying = np.ones(task.n_states, np.bool_)
    while True:  # the largest set in which some action of every state surely stays
        stays = (~possible | (~ends & staying[following])).all(axis=2)
        kept: BoolArray = staying & np.any(stays, axis=1)
        if (kept == staying).all():
            break
        staying = kept
    met: BoolArray = states_met(*task.model()[1:], task.start_states)
    return staying & met
