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
from pastmaster.reuse.run import TrialResult
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
    bounds: Bounds | None
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
            if self.bounds is None and SELECTORS[self.selector].bounded:
                raise InvalidInputError(
                    f"transfer: bounds is None, must be (lower, upper) for {shown(self.selector)}: "
                    "return_bounds(tasks) of the family"
                )
            if SELECTORS[self.selector].informed != (self.experience is not None):
                wanted = "must be given for" if self.experience is None else "is of no use to"
                raise InvalidInputError(
                    f"transfer: experience {wanted} the selector {shown(self.selector)}"
                    + (": what each source was worth in each old task" if self.experience is None else "")
                )
        elif not callable(self.selector) or isinstance(self.selector, Selector):
            raise InvalidInputError(
                f"transfer: selector is {shown(self.selector)}, must be a name or be called as {CALL}: each trial "
                "starts its own"
            )

    def make(self, episodes: int, bounds: Bounds | None, rng: np.random.Generator) -> Any:
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

    def compiles(self, selector: Any) -> bool:
        """Whether the compiled body does what this selector's ask and tell would do."""
        return self.problem.compilable and type(selector) in SELECTORS.values() and not selector.open


def run_trial(plan: Plan, stream: np.random.Generator) -> TrialResult:
    """One trial, under a watch where the task has a time limit."""
    watch = plan.problem.watch()
    return watched(lambda: TrialRun(plan, stream, watch).result(), watch)


class TrialRun:
    """A trial on its way: the engine, the bounds so far, and how often they were widened."""

    def __init__(self, plan: Plan, stream: np.random.Generator, watch: Watch) -> None:
        self.plan, problem = plan, plan.problem
        self.rng, environment_rng, learner_rng = stream.spawn(3)
        self.bounds = None if plan.running else plan.bounds
        self.begun, self.widened = 0, 0  # the episode at which the last selector began; restarts
        selector, learner = self._selector(plan.episodes, plan.bounds), problem.new_learner(learner_rng)
        seed, returns = int(environment_rng.integers(2**31)), np.empty(plan.episodes)
        arms, snapshots = np.empty(plan.episodes, np.int32), Snapshots(plan.episodes)
        self.trial = Trial(problem, selector, learner, learner_rng, seed, returns, arms, snapshots)
        self.engine: CompiledEpisodes | PlainEpisodes
        if plan.compiles(self.trial.selector):
            self.engine = CompiledEpisodes(self.trial)
        else:
            self.engine = PlainEpisodes(problem.environment(watch), self.trial, plan.progress)

    def _selector(self, episodes: int, bounds: Bounds | None) -> Selector | BroughtSelector:
        """A fresh selector that clips if it is to."""
        selector = adapted(self.plan.make(episodes, bounds, self.rng), self.bounds)
        if self.plan.on_violation == "clip" and not self.plan.running:
            selector.start_clipping()
        return selector

    def result(self) -> TrialResult:
        """Run all episodes."""
        try:
            self._play(self._open() if self.plan.running else 0)
        finally:
            if isinstance(self.engine, PlainEpisodes):
                self.plan.problem.leave(self.engine.env)
        trial, selector = self.trial, self.trial.selector
        original = selector.original if isinstance(selector, BroughtSelector) else selector
        return TrialResult(
            trial.returns, trial.arms, original, trial.learner, self.bounds, selector.n_clipped, self.widened,
            self.begun, trial.undiscounted, trial.snapshots.policies,
        )  # fmt: skip

    def _open(self) -> int:
        """The first episodes of running bounds, and the selector of all others; returns how many those were."""
        if self.trial.selector.mixes or isinstance(self.engine, CompiledEpisodes):
            return 0  # policy reuse needs no bounds, and a task of arrays has its own
        opened, episodes = self.engine.open(), self.plan.episodes
        seen = self.trial.returns[:opened]
        if not np.isfinite(seen).all():
            first = int(np.argmin(np.isfinite(seen)))
            raise InvalidInputError(
                f"transfer: the return of episode {first} is {seen[first]}, must be a finite number"
            )
        self.bounds = Bounds(float(seen.min()), float(seen.max())).with_span()
        if opened < episodes:
            self.trial.selector = self._selector(episodes - opened, self.bounds)
        return opened

    def _play(self, first: int) -> None:
        """Run all episodes from ``first`` on, widening the bounds where that is asked for."""
        self.begun, episodes = first, self.plan.episodes
        while (stopped := self.engine.play(first)) < episodes:
            value, first = float(self.trial.returns[stopped]), stopped + 1
            if not math.isfinite(value):
                raise InvalidInputError(
                    f"transfer: the return of episode {stopped} is {value}, must be a finite number"
                )
            if self.bounds is None or not (self.plan.running or self.plan.on_violation == "widen"):
                lower, upper = self.bounds or self.trial.selector.bounds
                raise InvalidInputError(
                    f"transfer: the return of episode {stopped} is {value:.6g}, must be within the declared bounds "
                    f"{lower:.6g} .. {upper:.6g}: declare wider ones, or pass on_violation='widen' or 'clip'"
                )
            self.bounds, self.widened = wider(self.bounds, value), self.widened + 1
            if first < episodes:
                self.begun, self.trial.selector = first, self._selector(episodes - first, self.bounds)
                if self.trial.selector.refuses(value):
                    raise InvalidInputError(
                        f"transfer: selector keeps to {tuple(self.trial.selector.bounds)}, must take the bounds it is "
                        "given"
                    )


def wider(bounds: Bounds, value: float) -> Bounds:
    """The bounds with their span doubled, as often as it takes, on the side where ``value`` lies outside."""
    lower, upper = bounds
    while value > upper:
        upper += upper - lower
    while value < lower:
        lower -= upper - lower
    return checked_bounds("transfer", (lower, upper))
