"""Search-Clusterings, the paper's Algorithm 3: the cheapest partition of the tasks, found by a compiled MHAV chain.

By default a restart climbs the ladder rung by rung for half of its steps (the burn-in: on the way it measures the mean
cost E_l on each rung), then walks by MHAV with weights frozen at w_l = sum of (ladder[l+1] - ladder[l]) * (mean of E_l
and E_{l+1}), an estimate of -ln Z(lambda_l) that evens out the time spent on the rungs, and at last moves single tasks
while that helps. One restart in four starts from the best of a scan of greedy clusterings, so that the result never
costs more than those; the others start at random. In the end the cells of all restarts are recombined: a small integer
program chooses the best cover among them. ``variant="paper"`` is the paper's own: random starts, all weights 0, no
burn-in, no descent, no recombination.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.checks import as_real, chosen, flag, whole, within
from pastmaster.clustering.bound import bounded
from pastmaster.clustering.chain import Chain
from pastmaster.clustering.cost import Kind
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.programs import fewest_labels
from pastmaster.clustering.question import Question
from pastmaster.clustering.restarts import Search, Walk
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.tables import shown

CALLER = "search_clusterings"


def search_clusterings(
    distance: npt.ArrayLike, *, rng: Rng = None,
    episodes: float | None = None, span: float | None = None,
    n_clusters: int | None = None, max_radius: float | None = None, directed: bool = False, kind: Kind = "average",
    restarts: int = 20, iterations: int = 100_000, variant: Literal["default", "paper"] = "default",
    chain: Chain | None = None, time_limit: float | None = None, certify: bool = False, certify_seconds: float = 30.0,
    n_jobs: int = 1, executor: Executor | None = None, save: str | Path | None = None, progress: bool = False,
) -> Clustering:  # fmt: skip
    """Find the cheapest clustering: which few of many policies to keep.

    Parameters
    ----------
    distance : array_like
        Distances between tasks [N, N], or what each task loses under each policy [N, M] if ``directed``: then any
        policy can stand for a cell.
    episodes, span : float, optional
        The question: the least cost g(c, T) + mean radius. The regret bound g bounds what it costs an episode, in
        expectation, to find the best of c policies within T ``episodes`` (see ``regret_bound``); ``span`` is that of an
        episode's discounted return.
    n_clusters, max_radius : optional
        Or: exactly so many cells with the least mean radius. Or: the fewest cells such that no task loses more. Then
        ``episodes`` and ``span`` only add g to the cost that is shown.
    kind : {"average", "worst", "max_diameter"}
        The mean radius, the largest radius, or the mean over tasks of the largest distance within the cell.
    restarts, iterations, variant, chain
        Walks of the chain, steps of each, "default" or "paper" (random starts and the plain chain), its settings.
    time_limit, certify, certify_seconds
        Seconds after which the best so far is returned, as it is at Ctrl-C; whether to look for a lower bound (a
        cheaper clustering met there is taken), and for how long. With both, the search takes at most half of
        ``time_limit``, and the bound is looked for in what is left of it.
    n_jobs, executor, save, progress
        As for ``parallel.run``; the same call goes on from the walks kept in the folder ``save``. The result is the
        same, unless time cuts it short (recombination has a limit of its own: 5 s for each of three programs).
    rng : int, numpy.random.Generator, optional
        A seed or a generator; by default a fresh seed, which the result tells.

    Returns
    -------
    Clustering
        With its trace and, if certified, its lower bound. Of ``n_clusters`` policies no two are the same, if so many
        columns differ; where cells would share one, the others are chosen at the least cost for these cells (see the
        module ``different`` for what is proven).

    Raises
    ------
    InvalidInputError
        If nothing is asked, or both ``n_clusters`` and ``max_radius``, or an argument is out of its range.

    Examples
    --------
    >>> losses = [[0, 5, 6], [1, 4, 6], [7, 0, 1], [8, 1, 0]]  # of four tasks under three policies
    >>> search_clusterings(losses, n_clusters=2, directed=True, rng=0, iterations=1_000)
    2 of 3 policies kept, cost 1 (regret bound 0 + mean radius 1)
    """
    problem = Question(episodes, span, n_clusters, max_radius, directed, kind).about(CALLER, distance)
    problem.question.check_asked(CALLER)
    whole(CALLER, "restarts", restarts, at_least=1)
    whole(CALLER, "iterations", iterations, at_least=1)
    chosen(CALLER, "variant", variant, ("default", "paper"))
    if not isinstance(chain, Chain | None):
        raise InvalidInputError(f"{CALLER}: chain is {shown(chain)}, must be a Chain(...)")
    if time_limit is not None and not as_real(time_limit) > 0:
        raise InvalidInputError(f"{CALLER}: time_limit is {shown(time_limit)}, must be a positive number of seconds")
    within(CALLER, "certify_seconds", certify_seconds, 0.0, math.inf)
    if flag(CALLER, "certify", certify) and kind != "average":
        raise InvalidInputError(f"{CALLER}: certify is True and kind {kind!r}, must be 'average' to be certified")
    flag(CALLER, "progress", progress)
    parallel.check_workers(CALLER, n_jobs, executor)
    generator, seed = seeded(CALLER, rng)
    folder = None if save is None else parallel.saving_folder(CALLER, save)
    if max_radius is not None:
        labels, fewest = fewest_labels(problem, certify_seconds if time_limit is None else time_limit)
        found = Clustering.of(problem, labels)
        return replace(found, possible_c=tuple(range(fewest, found.n_clusters + 1)), seed=seed)
    begun, seconds = time.perf_counter(), math.inf if time_limit is None else float(time_limit)
    deadline = begun + (0.5 * seconds if certify else seconds)
    search = Search(problem, chain or Chain(), iterations, plain=variant == "paper", deadline=deadline)
    walks = search.walks(list(enumerate(generator.spawn(restarts))), folder, n_jobs, executor, progress)
    left = min(certify_seconds, begun + seconds - time.perf_counter())
    return replace(_best(search, walks, left if certify else None), seed=seed)


def _best(search: Search, walks: list[Walk], seconds: float | None) -> Clustering:
    """The best clustering of the walks or made of their cells; with ``seconds``, bounded from below."""
    best = min(walks, key=lambda walk: walk.cost)
    labels, lower, possible = best.labels, math.inf, None
    try:
        labels = search.recombine(walks, best)
        if seconds is not None and not search.stop.is_set():
            bound = bounded(search.problem, labels, seconds)
            labels, lower, possible = bound.labels, bound.value, bound.possible_c
    except KeyboardInterrupt:
        search.stop.set()
    candidates = [labels]
    if search.problem.directed and search.n_clusters is not None:  # different policies may change the walks' order
        candidates += [walk.labels for walk in walks if walk.labels.max() + 1 == search.n_clusters]
    found = min((Clustering.of(search.problem, one) for one in candidates), key=lambda made: made.cost)
    lower_bound, traces = None if possible is None else min(lower, found.cost), np.stack([w.trace for w in walks])
    interrupted = search.stop.is_set()
    return replace(found, lower_bound=lower_bound, possible_c=possible, traces=traces, interrupted=interrupted)
