"""One trial of ``transfer``: run its episodes, and start the selector anew where the bounds must be widened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pastmaster.errors import InvalidInputError
from pastmaster.policies.batch import is_recurrent
from pastmaster.reuse.episodes import CompiledEpisodes, PlainEpisodes, Trial
from pastmaster.reuse.exp3_transfer import Exp3Transfer
from pastmaster.reuse.experience import Experience
from pastmaster.reuse.informed import Informed
from pastmaster.reuse.ppr import ProbabilisticPolicyReuse
from pastmaster.reuse.problem import Problem
from pastmaster.reuse.protocols import BroughtSelector, SelectorProtocol, adapted
from pastmaster.reuse.q_learning import QLearning
from pastmaster.reuse.regret_balancing import RegretBalancing
from pastmaster.reuse.selector import Selector
from pastmaster.reuse.snapshots import Snapshots
from pastmaster.reuse.tsallis_inf import TsallisINF
from pastmaster.tables import shown
from pastmaster.tasks.guard import Watch, watched
from pastmaster.values import Bounds
from pastmaster.values.bounds import checked_bounds

SELECTORS: dict[str, type[Selector]] = {
    selector.name: selector
    for selector in (Informed, RegretBalancing, Exp3Transfer, TsallisINF, ProbabilisticPolicyReuse)
}
CALL = "selector(n_sources, episodes, bounds=..., rng=...)"
DECLARED, OF_TASK, RUNNING = "declared", "task", "running"  # where bounds on returns come from

OnViolation = Literal["raise", "widen", "clip"]


@dataclass(frozen=True)
class Plan:
    """What all trials of one ``transfer`` share."""

    problem: Problem
    selector: str | Callable[..., Any]
    bounds: Bounds
    bounds_from: str
    episodes: int
    on_violation: OnViolation
    progress: bool = False
    experience: Experience | None = None

    @property
    def running(self) -> bool:
        """Whether the bounds come from the returns seen."""
        return self.bounds_from == RUNNING

    @property
    def factory(self) -> Callable[..., Any]:
        """What makes a selector: the class of a name, or what was given."""
        return SELECTORS[self.selector] if isinstance(self.selector, str) else self.selector

    def __post_init__(self) -> None:
        """Refuse what cannot make a selector."""
        if isinstance(self.selector, str):
            if self.selector not in SELECTORS:
                raise InvalidInputError(
                    f"transfer: selector is {shown(self.selector)}, must be one of {', '.join(SELECTORS)}, "
                    "or a function that makes one"
                )
            if SELECTORS[self.selector].informed != (self.experience is not None):
                wanted = "must be given for" if self.experience is None else "is of no use to"
                raise InvalidInputError(f"transfer: experience {wanted} the selector {shown(self.selector)}")
        elif not callable(self.selector) or isinstance(self.selector, Selector):
            raise InvalidInputError(
                f"transfer: selector is {shown(self.selector)}, must be a name or be called as {CALL}: each trial "
                "starts its own"
            )

    def make(self, episodes: int, bounds: Bounds, rng: np.random.Generator) -> Any:
        """A fresh selector."""
        try:
            known = {} if self.experience is None else {"experience": self.experience}
            made = self.factory(len(self.problem.sources), episodes, bounds=bounds, rng=rng, **known)
        except TypeError as error:
            raise InvalidInputError(f"transfer: selector cannot be called as {CALL}: {shown(error)}") from error
        if not isinstance(made, SelectorProtocol):
            raise InvalidInputError(
                f"transfer: selector makes {shown(made)}, must make an object with methods ask and tell"
            )
        if adapted(made).mixes:
            if not isinstance(self.problem.settings, QLearning):
                raise InvalidInputError(
                    "transfer: policy reuse acts greedily by its learner, which must be a QLearning"
                )
            if any(map(is_recurrent, self.problem.sources)):
                raise InvalidInputError(
                    "transfer: sources has a recurrent policy, must have none for policy reuse: its episodes are mixed"
                )
            if self.problem.share:
                raise InvalidInputError(
                    "transfer: share is True, must be False for policy reuse: its episodes are mixed"
                )
        if self.problem.share and isinstance(made, RegretBalancing):
            raise InvalidInputError(
                f"transfer: share is True, must be False for {made.name!r}, which draws no arms at random: "
                "'tsallis-inf' and 'exp3-transfer' share episodes"
            )
        return made

    def started(
        self, episodes: int, bounds: Bounds, limits: Bounds | None, rng: np.random.Generator
    ) -> Selector | BroughtSelector:
        """A fresh selector that clips if it is to; one of the caller's own is told returns within ``limits``."""
        selector = adapted(self.make(episodes, bounds, rng), limits)
        if self.on_violation == "clip" and not self.running:
            selector.start_clipping()
        return selector

    def compiles(self, selector: Any) -> bool:
        """Whether the compiled body does what this selector's ask and tell would do."""
        return self.problem.compilable and type(selector) in SELECTORS.values() and not selector.open


def run_trial(plan: Plan, stream: np.random.Generator) -> Trial:
    """One trial, under a watch where the task has a time limit."""
    watch = plan.problem.watch()
    return watched(lambda: _run(plan, stream, watch), watch)


def _run(plan: Plan, stream: np.random.Generator, watch: Watch) -> Trial:
    problem, episodes = plan.problem, plan.episodes
    rng, environment_rng, learner_rng = stream.spawn(3)
    bounds = None if plan.running else plan.bounds
    trial = Trial(
        plan.started(episodes, plan.bounds, bounds, rng),
        problem.new_learner(learner_rng),
        np.empty(episodes),
        np.empty(episodes, np.int32),
        Snapshots(episodes),
        bounds,
    )
    seed = int(environment_rng.integers(2**31))
    if plan.compiles(trial.selector):
        _play(plan, CompiledEpisodes(problem, trial, seed, learner_rng), rng)
        return trial
    env = problem.environment(watch)
    try:
        engine = PlainEpisodes(problem, trial, seed, learner_rng, env, plan.progress)
        if plan.running and not trial.selector.mixes:  # policy reuse needs no bounds
            _open(plan, engine, rng)
        _play(plan, engine, rng)
    finally:
        problem.leave(env)
    return trial


def _open(plan: Plan, engine: PlainEpisodes, rng: np.random.Generator) -> None:
    """Run the first episodes of running bounds, and start the selector of all others."""
    trial = engine.trial
    trial.begun = engine.open()
    seen = trial.returns[: trial.begun]
    for t in np.flatnonzero(~np.isfinite(seen)).tolist():
        raise _not_finite(t, seen[t])
    trial.bounds = Bounds(float(seen.min()), float(seen.max())).with_span()
    if trial.begun < plan.episodes:
        trial.selector = plan.started(plan.episodes - trial.begun, trial.bounds, trial.bounds, rng)


def _play(plan: Plan, engine: CompiledEpisodes | PlainEpisodes, rng: np.random.Generator) -> None:
    """Run all episodes that are left, widening the bounds where that is asked for."""
    trial, first = engine.trial, engine.trial.begun
    while (stopped := engine.play(first)) < plan.episodes:
        value, first = float(trial.returns[stopped]), stopped + 1
        if not math.isfinite(value):
            raise _not_finite(stopped, value)
        if trial.bounds is None or not (plan.running or plan.on_violation == "widen"):
            lower, upper = trial.bounds or trial.selector.bounds
            raise InvalidInputError(
                f"transfer: the return of episode {stopped} is {value:.6g}, must be within the declared bounds "
                f"{lower:.6g} .. {upper:.6g}: declare wider ones, or pass on_violation='widen' or 'clip'"
            )
        trial.bounds = wider(trial.bounds, value)
        trial.widened += 1
        if first == plan.episodes:
            return
        trial.begun, trial.selector = first, plan.started(plan.episodes - first, trial.bounds, trial.bounds, rng)
        if trial.selector.refuses(value):
            raise InvalidInputError(
                f"transfer: selector keeps to {tuple(trial.selector.bounds)}, must take the bounds it is given"
            )


def _not_finite(episode: int, value: float) -> InvalidInputError:
    return InvalidInputError(f"transfer: the return of episode {episode} is {value}, must be a finite number")


def wider(bounds: Bounds, value: float) -> Bounds:
    """The bounds with their span doubled, as often as it takes, on the side where ``value`` lies outside."""
    lower, upper = bounds
    while value > upper:
        upper += upper - lower
    while value < lower:
        lower -= upper - lower
    return checked_bounds("transfer", (lower, upper))
