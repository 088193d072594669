"""``transfer``: T episodes on a new task, reusing source policies where that pays, learning where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from pastmaster import parallel
from pastmaster.checks import chosen, flag, whole
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.reuse.defaults import RECOMMENDED
from pastmaster.reuse.experience import as_experience
from pastmaster.reuse.informed import Informed
from pastmaster.reuse.problem import Environment, Problem
from pastmaster.reuse.run import TransferRun
from pastmaster.reuse.trial import DECLARED, OF_TASK, RUNNING, OnViolation, Plan, run_trial
from pastmaster.reuse.trials import saved_trials
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, TabularMDP
from pastmaster.values import Bounds, task_bounds
from pastmaster.values.bounds import checked_bounds

UNIT = Bounds(0.0, 1.0)  # of a selector that never runs: running bounds are what the first episodes make them


def transfer(
    task: TabularMDP | GymTask | Environment,
    sources: Sequence[Any] | Mapping[str, Any],
    *,
    episodes: int,
    experience: Any = None,
    rng: Rng = None,
    bounds: tuple[float, float] | Literal["running"] | None = None,
    selector: str | Callable[..., Any] | None = None,
    learner: Any = None,
    trials: int = 1,
    share: bool = False,
    on_violation: OnViolation = "raise",
    gamma: float | None = None,
    horizon: int | None = None,
    n_jobs: int = 1,
    executor: Executor | None = None,
    save: str | Path | None = None,
    progress: bool = False,
) -> TransferRun:
    """Run episodes on a new task: reuse source policies where that pays, learn where it does not.

    Returns are *discounted* by the task's gamma (0.99 by default for a ``GymTask``), so they are smaller than those of
    Stable-Baselines3's ``evaluate_policy``. Of an environment the result has the undiscounted ones too.

    Parameters
    ----------
    task : TabularMDP, GymTask, gymnasium.Env, str or callable
        The new task. An environment, its id, or a function that makes one needs ``gamma``, and ``horizon`` unless it
        has a step limit.
    sources : list of policies, or dict of names and policies
        Actions [S], probabilities [S, A], functions of the observation, objects with ``act``, solutions, or
        Stable-Baselines3 models. Without any, the learner learns alone. Names are shown in prints and pictures.
    episodes, trials : int
        The episodes of a trial, T, and how many independent trials to run.
    experience : array_like [N, c], Experience, DataFrame or CrossValueEstimate, optional
        What each source was worth in each of N tasks met before: the columns of the sources in ``cross_values``,
        ``U[:, kept.columns]``. Of an estimate of more policies the sources' columns are taken by name. With it tens of
        episodes find the best source where thousands were needed without.
    rng : int, numpy.random.Generator or None
        A seed, or a generator, which is spawned for each trial, then for selector, environment and learner. Without it
        the seed is fresh; ``run.seed`` tells it.
    bounds : (float, float) or "running", optional
        The least and the greatest return of an episode. By default those of the task: exact if it has a model, or its
        environment, given by id, has a table; else by its reward range. They tell the selector something about the
        task. Where that must not be, as in the paper, declare those of the family, ``return_bounds(tasks)``. If
        nothing is known they are "running": the arms run in turn, the learner first, until two returns differ, which
        are the first bounds; each return outside doubles the span and restarts the selector. What is still proven then
        is in docs/guarantees.md.
    selector : str or callable, optional
        "informed" (the default with experience), "regret-balancing" (the default without), "exp3-transfer" (the
        paper's), "tsallis-inf" or "ppr"; or a class or function that is called as
        ``selector(n_sources, episodes, bounds=..., rng=...)``, with ``experience=...`` where there is one (see
        ``SelectorProtocol``).
    learner : QLearning, SB3Learning, FixedPolicy or LearnerSettings, optional
        The settings of the learner. By default Q-learning for Discrete observations and actions, with an exploration
        of 0.1 that halves every 500 episodes at first; for others Stable-Baselines3's DQN (Discrete actions) or SAC
        (Box actions), if it is installed.
    share : bool
        Count an episode for every source that would have acted as it did.
    on_violation : {"raise", "widen", "clip"}
        What to do with a return outside the bounds: raise an error, double the span and restart the selector, or move
        the return onto the bounds. The last two are counted in the result.
    gamma, horizon : float, int, optional
        The discount and the most steps of an episode, for a task that does not have its own.
    n_jobs, executor : int, concurrent.futures.Executor, optional
        Workers for the trials (see ``parallel.run``). On several of this machine compiled trials run on threads, all
        others in processes. Results do not depend on either.
    save, progress : path, bool, optional
        A folder for finished trials, from which the same call continues; and whether to show a progress bar.

    Returns
    -------
    TransferRun
        Every return and arm, the policy learned, the policy recommended; ``.curve()``, ``.shares()``, ``.plot()``.

    Raises
    ------
    InvalidInputError
        If an argument does not fit, before any episode; or if a return is not finite or outside the declared bounds.
    TaskError
        If the environment of a ``GymTask`` raises or hangs.

    Examples
    --------
    >>> from pastmaster import TabularMDP, transfer
    >>> task = TabularMDP([[0, 0]], [[0.0, 1.0]], terminated=[[True, True]], gamma=0.9)
    >>> transfer(task, {"left": [0], "right": [1]}, episodes=500, rng=0)
    TransferRun(1 x 500 episodes, 2 sources, mean return 0.996, keep right)
    """
    episodes = whole("transfer", "episodes", episodes, at_least=1)
    trials = whole("transfer", "trials", trials, at_least=1)
    rng, seed = seeded("transfer", rng)
    share, progress = flag("transfer", "share", share), flag("transfer", "progress", progress)
    chosen("transfer", "on_violation", on_violation, get_args(OnViolation))
    problem = Problem(task, sources, learner, gamma, horizon, share)
    known = None if experience is None else as_experience("transfer", experience, len(problem.sources), problem.names)
    if selector is None:
        selector = RECOMMENDED["selector"] if known is None else Informed.name
    declared, bounds_from = _chosen_bounds(problem, bounds)
    parallel.check_workers("transfer", n_jobs, executor)
    shown = progress and trials == 1 and executor is None
    plan = Plan(problem, selector, declared, bounds_from, episodes, on_violation, shown, known)
    fresh = plan.make(episodes, declared, np.random.default_rng(0))  # refuse bad settings before any work
    _check_shared(problem, trials, n_jobs, executor)
    folder = None if save is None else parallel.saving_folder("transfer", save)
    streams = rng.spawn(trials)
    saved = None if folder is None else saved_trials(folder, plan, fresh, streams)
    results = parallel.run(
        partial(run_trial, plan),
        streams,
        n_jobs=n_jobs,
        executor=executor,
        processes=trials > 1 and not plan.compiles(fresh),  # Python holds the GIL
        save=saved,
        progress=progress and trials > 1,
        label="transfer",
        caller="transfer",
    )
    return TransferRun.of(
        results, problem.sources, bounds_from, names=problem.names, gamma=problem.gamma, seed=seed
    )  # fmt: skip


def _chosen_bounds(problem: Problem, bounds: Any) -> tuple[Bounds, str]:
    """The bounds to begin with, and where they come from."""
    if isinstance(bounds, str):
        if bounds != RUNNING or problem.tabular:
            wanted = "" if problem.tabular else ", 'running'"
            raise InvalidInputError(
                f"transfer: bounds is {shown(bounds)}, must be (lower, upper){wanted} or None, for those of the task"
            )
        return UNIT, RUNNING
    if bounds is not None:
        return checked_bounds("transfer", bounds), DECLARED
    known = problem.bounded_task()
    found = None if known is None else task_bounds(known)
    return (UNIT, RUNNING) if found is None else (found.with_span(), OF_TASK)


def _check_shared(problem: Problem, trials: int, n_jobs: int, executor: Executor | None) -> None:
    """Refuse workers whose trials would share an environment."""
    if not problem.shared_environment or trials == 1:
        return
    if executor is not None:
        wrong = f"executor is {shown(executor)}, must be None"
    elif parallel.worker_count(n_jobs) > 1:
        wrong = f"n_jobs is {n_jobs}, must be 1"
    else:
        return
    raise InvalidInputError(
        f"transfer: {wrong} for an environment that all trials share; pass its id or a function that makes it"
    )
