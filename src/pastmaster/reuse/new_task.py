"""``transfer``: T episodes on a new task, reusing source policies where that pays, learning where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pastmaster import parallel
from pastmaster.checks import whole
from pastmaster.errors import InvalidInputError
from pastmaster.generators import checked_rng
from pastmaster.reuse.episodes import CompiledEpisodes, PlainEpisodes, Trial
from pastmaster.reuse.exp3_transfer import Exp3Transfer
from pastmaster.reuse.ppr import ProbabilisticPolicyReuse
from pastmaster.reuse.problem import Environment, Problem
from pastmaster.reuse.q_learning import QLearning, decay
from pastmaster.reuse.regret_balancing import RegretBalancing
from pastmaster.reuse.run import TransferRun, TrialResult
from pastmaster.reuse.selector import Selector, checked_bounds
from pastmaster.reuse.trials import saved_trials
from pastmaster.reuse.tsallis_inf import TsallisINF
from pastmaster.tasks import GymTask
from pastmaster.tasks.guard import Watch, watched
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import Bounds, task_bounds

SELECTORS: dict[str, type[Selector]] = {
    selector.name: selector for selector in (Exp3Transfer, TsallisINF, RegretBalancing, ProbabilisticPolicyReuse)
}
RECOMMENDED: dict[str, Any] = {
    "selector": "regret-balancing",
    "learner": QLearning(epsilon=decay(0.1, 500)),
}
"""The combination that docs/reuse.md recommends: ``transfer(..., **RECOMMENDED)``."""

DECLARED, OF_TASK, RUNNING = "declared", "task", "running"  # where bounds on returns come from
UNIT = Bounds(0.0, 1.0)  # of a selector that never runs: running bounds are what the first episodes make them

OnViolation = Literal["raise", "widen", "clip"]


def transfer(
    task: TabularMDP | Environment,
    sources: Sequence[Any],
    *,
    episodes: int,
    rng: np.random.Generator,
    bounds: tuple[float, float] | Literal["running"] | None = None,
    selector: str | Callable[..., Any] = "exp3-transfer",
    learner: Any = None,
    trials: int = 1,
    share: bool = False,
    on_violation: OnViolation = "raise",
    gamma: float | None = None,
    horizon: int | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    save: str | Path | None = None,
    progress: bool = False,
) -> TransferRun:
    """Run ``episodes`` episodes on a new task, ``trials`` times over, and tell what happened.

    ``task`` is a ``TabularMDP`` or a ``GymTask``, or a Gymnasium environment, its id, or a function that makes one;
    these need a ``gamma``, and a ``horizon`` unless they have a step limit. ``sources`` are policies: actions [S],
    probabilities [S, A], functions of the observation, or objects with ``act`` (see ``policies.Policy``); none at all
    is learning alone. ``bounds`` are the least and the greatest return, declared for the family (``return_bounds`` of
    its tasks), not taken from the new task. Of a ``GymTask`` they follow from its reward range where it has one, else
    they are "running", which can also be asked for: the arms run in turn, the learner first, until two returns differ;
    these are the first bounds, and each return outside doubles the span and starts the selector anew. The regret is
    then at most 8 times the bound for known bounds, plus the span for each restart and for each episode of that
    opening: the spans of the starts sum to at most twice the last, which is at most 4 times the true one. The run tells
    which it was. ``selector`` is a
    name in ``SELECTORS`` or is called as ``selector(n_sources, episodes, bounds=..., rng=...)``. ``learner`` is a
    ``QLearning``, or settings of your own (see ``learner.LearnerSettings``). ``share`` lets an episode count for every
    source that would have acted as it did.

    A return outside the bounds raises an error, or with ``on_violation="widen"`` doubles the span and starts the
    selector anew, or with "clip" is moved onto them; both are counted in the result.

    ``rng`` is spawned for each trial, then into the streams of selector, environment and learner: results depend
    neither on ``n_jobs`` nor on ``backend`` nor on which body of the engine runs. ``backend`` is "threads", "loky",
    "dask" or "ray" (see ``parallel.run``); by default trials run on threads where all is arrays, which are compiled,
    and otherwise on processes, so that what your own code does to its surroundings is not seen here. ``save`` is a
    folder: finished trials are kept there, and the same call goes on from them.
    """
    caller = "transfer"
    episodes = whole(caller, "episodes", episodes, at_least=1)
    trials = whole(caller, "trials", trials, at_least=1)
    checked_rng(caller, rng)
    if not isinstance(share, bool | np.bool_):
        raise InvalidInputError(f"{caller}: share is {share!r}, must be True or False")
    if on_violation not in ("raise", "widen", "clip"):
        raise InvalidInputError(f"{caller}: on_violation is {on_violation!r}, must be 'raise', 'widen' or 'clip'")
    problem = Problem(task, sources, QLearning() if learner is None else learner, gamma, horizon, bool(share))
    declared, told = _chosen_bounds(problem, bounds)
    make = _selector_maker(selector, problem, declared)
    fresh = make(episodes, declared, np.random.default_rng(0))  # refuse bad settings before any work
    alone = parallel.worker_count(n_jobs) == 1 or trials == 1
    if parallel.checked_backend(backend) is None and not (alone or (problem.compilable and as_compiled(fresh))):
        backend = "loky"  # Python holds the GIL
    if problem.shared_environment and trials > 1 and not (alone and backend in (None, "threads")):
        wrong = f"n_jobs is {n_jobs}, must be 1" if not alone else f"backend is {backend!r}, must be None"
        raise InvalidInputError(
            f"{caller}: {wrong} for an environment that all trials share; pass its id or a function that makes it"
        )
    folder = None if save is None else parallel.saving_folder(caller, save)
    streams, shown = rng.spawn(trials), progress and trials == 1 and backend in (None, "threads")
    saved = None
    if folder is not None:
        settings = (episodes, declared, told, on_violation)
        saved = saved_trials(folder, problem, selector, fresh, settings, streams, SELECTORS)

    def one(stream: np.random.Generator) -> TrialResult:
        watch = problem.watch()
        settings = (declared, told == RUNNING, episodes, on_violation)
        return watched(lambda: _run_trial(problem, make, *settings, stream, shown, watch), watch)

    results = parallel.run(
        one, streams, n_jobs=n_jobs, backend=backend, save=saved, progress=progress and trials > 1, label="transfer"
    )
    return TransferRun.of(results, problem.sources, told)


def _chosen_bounds(problem: Problem, bounds: Any) -> tuple[Bounds | None, str]:
    """The bounds to begin with, and in words where they come from."""
    if isinstance(bounds, str):
        if bounds != RUNNING or problem.tabular:
            wanted = "return_bounds(tasks) of the family" if problem.tabular else "(lower, upper) or 'running'"
            raise InvalidInputError(f"transfer: bounds is {bounds!r}, must be {wanted}")
        return UNIT, RUNNING
    if bounds is not None or not isinstance(problem.task, GymTask):
        return None if bounds is None else checked_bounds("transfer", bounds), DECLARED
    found = task_bounds(problem.task)
    if found is None:
        return UNIT, RUNNING
    return found.with_span(), OF_TASK


Maker = Callable[[int, Bounds | None, np.random.Generator], Any]


def _selector_maker(selector: str | Callable[..., Any], problem: Problem, bounds: Bounds | None) -> Maker:
    """A function of (episodes, bounds, rng) that makes a fresh selector."""
    if isinstance(selector, str) and selector not in SELECTORS:
        raise InvalidInputError(
            f"transfer: selector is {selector!r}, must be one of {', '.join(SELECTORS)}, or a function that makes one"
        )
    factory: Callable[..., Any] = SELECTORS[selector] if isinstance(selector, str) else selector
    called = "selector(n_sources, episodes, bounds=..., rng=...)"
    if not callable(factory) or isinstance(factory, Selector):
        raise InvalidInputError(
            f"transfer: selector is {selector!r}, must be a name or be called as {called}: each trial starts its own"
        )
    if bounds is None and isinstance(selector, str) and factory is not ProbabilisticPolicyReuse:
        raise InvalidInputError(
            f"transfer: bounds is None, must be (lower, upper) for {selector!r}: return_bounds(tasks) of the family"
        )

    def make(episodes: int, bounds: Bounds | None, rng: np.random.Generator) -> Any:
        try:
            made = factory(len(problem.sources), episodes, bounds=bounds, rng=rng)
        except TypeError as error:
            raise InvalidInputError(f"transfer: selector cannot be called as {called}: {error}") from error
        if getattr(made, "mixes", False) and not isinstance(problem.settings, QLearning):
            raise InvalidInputError("transfer: policy reuse acts greedily by its learner, which must be a QLearning")
        if getattr(made, "mixes", False) and problem.share:
            raise InvalidInputError("transfer: share is True, must be False for policy reuse: its episodes are mixed")
        return made

    return make


def _run_trial(
    problem: Problem,
    make: Maker,
    bounds: Bounds | None,
    running: bool,
    episodes: int,
    on_violation: OnViolation,
    rng: np.random.Generator,
    progress: bool,
    watch: Watch,
) -> TrialResult:
    """One trial: run until done, widening the bounds where asked to."""
    selector_rng, environment_rng, learner_rng = rng.spawn(3)
    settings = problem.settings
    trial = Trial(
        make(episodes, bounds, selector_rng),
        settings.start(problem.observations, problem.actions, problem.gamma, learner_rng),
        learner_rng,
        getattr(settings, "learn_from", "own") == "every",
        problem.share,
        None if running else bounds,
        on_violation == "clip" and not running,
        int(environment_rng.integers(2**31)),
        np.empty(episodes),
        np.empty(episodes, np.int32),
    )
    engine: CompiledEpisodes | PlainEpisodes
    if problem.compilable and as_compiled(trial.selector):
        engine = CompiledEpisodes(problem.task, *problem.arrays, trial)
    else:
        engine = PlainEpisodes(problem.environment(watch), problem.sources, trial, problem.gamma, problem.horizon)
        if progress:
            engine.track = lambda steps: parallel.tracked(steps, len(steps), True, "transfer")
    try:
        opened = _open(engine, trial, make, selector_rng) if running and isinstance(engine, PlainEpisodes) else 0
        begun, widened = _play(engine, trial, make, opened, running or on_violation == "widen", selector_rng)
    finally:
        if isinstance(engine, PlainEpisodes):
            problem.leave(engine.env)
    return TrialResult(
        trial.returns, trial.arms, trial.selector, trial.learner, trial.bounds, trial.clipped, widened, begun
    )


def as_compiled(selector: Any) -> bool:
    """Whether the compiled body does what this selector's ask and tell would do."""
    return type(selector) in SELECTORS.values() and selector.pending is None


def _open(engine: PlainEpisodes, trial: Trial, make: Maker, rng: np.random.Generator) -> int:
    """The first episodes of running bounds, and the selector of all others; returns how many those were."""
    if trial.mixing:
        return 0  # policy reuse needs no bounds
    opened = engine.open()
    seen = trial.returns[:opened]
    if not np.isfinite(seen).all():
        raise InvalidInputError(f"transfer: a return is {seen.sum()}, must be a finite number")
    trial.bounds = Bounds(float(seen.min()), float(seen.max())).with_span()
    if opened < len(trial.returns):
        trial.selector = make(len(trial.returns) - opened, trial.bounds, rng)
    return opened


def _play(
    engine: CompiledEpisodes | PlainEpisodes,
    trial: Trial,
    make: Maker,
    first: int,
    widen: bool,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """Run all episodes; returns the one at which the last selector began, and how often the bounds were widened."""
    episodes, begun, widened = len(trial.returns), first, 0
    while (stopped := engine.play(first)) < episodes:
        value, first = float(trial.returns[stopped]), stopped + 1
        if not math.isfinite(value):
            raise InvalidInputError(f"transfer: the return of episode {stopped} is {value}, must be a finite number")
        if trial.bounds is None or not widen:
            lower, upper = trial.selector.bounds if trial.bounds is None else trial.bounds
            raise InvalidInputError(
                f"transfer: the return of episode {stopped} is {value:.6g}, must be within the declared bounds "
                f"{lower:.6g} .. {upper:.6g}: declare wider ones, or pass on_violation='widen' or 'clip'"
            )
        trial.bounds, widened = wider(trial.bounds, value), widened + 1
        if first < episodes:
            begun, trial.selector = first, make(episodes - first, trial.bounds, rng)
            if isinstance(trial.selector, Selector) and trial.selector.refuses(value):
                raise InvalidInputError(
                    f"transfer: selector keeps to {tuple(trial.selector.bounds)}, must take the bounds it is given"
                )
    return begun, widened


def wider(bounds: Bounds, value: float) -> Bounds:
    """The bounds with their span doubled, as often as it takes, on the side where ``value`` lies outside."""
    lower, upper = bounds
    while value > upper:
        upper += upper - lower
    while value < lower:
        lower -= upper - lower
    return checked_bounds("transfer", (lower, upper))
