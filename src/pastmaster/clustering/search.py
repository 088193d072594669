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
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.arrays import FloatArray
from pastmaster.clustering.bound import bound_costs
from pastmaster.clustering.cost import Kind, checked_distance, checked_kind
from pastmaster.clustering.cover import fewest_labels
from pastmaster.clustering.mhav import check_chances, checked_ladder
from pastmaster.clustering.partition import Clustering, size_cost_table
from pastmaster.clustering.restarts import Search
from pastmaster.errors import InvalidInputError

RUNGS = 60


def search_clusterings(
    distance: npt.ArrayLike,
    *,
    episodes: float | None = None,
    span: float | None = None,
    rng: np.random.Generator,
    directed: bool = False,
    kind: Kind = "average",
    restarts: int = 20,
    iterations: int = 100_000,
    ladder: npt.ArrayLike | None = None,
    variant: Literal["default", "paper"] = "default",
    n_clusters: int | None = None,
    max_radius: float | None = None,
    certify: bool = False,
    time_limit: float | None = None,
    certify_seconds: float = 30.0,
    alpha: float = 0.1,
    beta: float = 0.8,
    up: float = 0.5,
    theta: float = 1.0,
    n_jobs: int = 1,
    backend: str | None = None,
    save: str | Path | None = None,
    progress: bool = False,
) -> Clustering:
    """The cheapest clustering found in ``restarts`` walks of ``iterations`` steps.

    ``episodes`` and ``span`` set g(c, T). Without them, ask for ``n_clusters`` (exactly so many cells, least mean
    radius) or ``max_radius`` (no task loses more, fewest cells). ``certify`` adds a lower bound, looked for during at
    most ``certify_seconds``; a cheaper clustering met there is taken. ``time_limit`` seconds end the search early, as
    does Ctrl-C: both return the best so far (of worker processes: of the walks that are over). The result does not
    depend on ``n_jobs``, unless a limit of time cuts it short (recombination has one of its own, 5 s for each of three
    programs), nor on ``backend``: "threads" (the default), "loky", "dask" or "ray" (see ``parallel.run``). ``save`` is
    a folder: walks that ran to their end are kept there, and the same call goes on from them. With ``max_radius`` the
    answer comes from an integer program, and what sets up walks is not used.
    """
    matrix = checked_distance("search_clusterings", distance, directed)
    kind_index = checked_kind("search_clusterings", kind, directed)
    _check(matrix, episodes, n_clusters, max_radius, restarts, iterations, variant, theta, time_limit, certify, kind)
    if not (np.isfinite(certify_seconds) and certify_seconds >= 0):
        raise InvalidInputError(f"search_clusterings: certify_seconds is {certify_seconds!r}, must be at least 0")
    check_chances("search_clusterings", alpha, beta, up)
    folder = None if save is None else parallel.saving_folder("search_clusterings", save)
    setting = {"episodes": episodes, "span": span, "kind": kind, "directed": directed}
    rungs = checked_ladder("search_clusterings", default_ladder(matrix) if ladder is None else ladder)
    if max_radius is not None:
        seconds = certify_seconds if time_limit is None else time_limit
        labels, fewest = fewest_labels(matrix, max_radius, directed, seconds)
        found = Clustering.from_labels(matrix, labels, **setting)  # type: ignore[arg-type]
        return replace(found, possible_c=tuple(range(fewest, found.n_clusters + 1)))
    size_cost = size_cost_table("search_clusterings", len(matrix), episodes, span)
    counts = range(1, len(matrix) + 1)
    if n_clusters is not None:  # any other number of cells costs more than any distance can
        counts = range(n_clusters, n_clusters + 1)
        steps = np.abs(np.arange(len(matrix) + 1) - n_clusters)
        size_cost = size_cost[n_clusters] + (2.0 * matrix.max() + 1.0) * steps
    search = Search(
        matrix, directed, kind_index, size_cost,
        rungs, variant == "paper", iterations, theta, np.array([alpha, beta, up]),
        math.inf if time_limit is None else time.perf_counter() + time_limit, n_clusters,
    )  # fmt: skip
    jobs = list(enumerate(rng.spawn(restarts)))
    walks = parallel.run(
        search.restart,
        jobs,
        n_jobs=n_jobs,
        backend=backend,
        save=None if folder is None else search.saved(folder, jobs),
        progress=progress,
        label="clustering",
        on_interrupt=search.stop.set,
    )
    best = min(walks, key=lambda walk: walk.cost)
    labels, lower, possible = best.labels, None, None
    try:
        labels = search.recombine(walks, best)
        if certify and not search.stop.is_set():
            bound = bound_costs(matrix, size_cost, directed, labels, certify_seconds, counts)
            labels, lower, possible = bound.labels, bound.value, bound.possible_c
    except KeyboardInterrupt:
        search.stop.set()
    found = Clustering.from_labels(matrix, labels, **setting)  # type: ignore[arg-type]
    return replace(
        found,
        lower_bound=None if lower is None else min(lower, found.cost),
        possible_c=possible,
        traces=np.stack([walk.trace for walk in walks]),
        interrupted=search.stop.is_set(),
    )


def default_ladder(distance: FloatArray) -> FloatArray:
    """Rungs from where a cell costs nothing to make to where the smallest moves matter.

    Moving one task changes the cost by about mean(d) / N, so ln lambda runs from 1/10 of its inverse to 300 times it.
    """
    scale = float(distance.mean()) or 1.0
    return np.geomspace(0.1, 300.0, RUNGS) * len(distance) / scale


def _check(
    distance: FloatArray, episodes: float | None, n_clusters: int | None, max_radius: float | None,
    restarts: int, iterations: int, variant: str, theta: float, time_limit: float | None, certify: bool, kind: str,
) -> None:  # fmt: skip
    """Refuse settings that make no sense, by name."""
    caller = "search_clusterings"
    if n_clusters is not None and max_radius is not None:
        raise InvalidInputError(f"{caller}: n_clusters and max_radius are both given, must be one question at a time")
    if episodes is None and n_clusters is None and max_radius is None:
        raise InvalidInputError(f"{caller}: give episodes and span, or n_clusters, or max_radius")
    most = min(distance.shape)
    whole = isinstance(n_clusters, int | np.integer) and not isinstance(n_clusters, bool)
    if n_clusters is not None and not (whole and 1 <= n_clusters <= most):
        raise InvalidInputError(f"{caller}: n_clusters is {n_clusters!r}, must be in 1..{most}")
    if max_radius is not None and not max_radius >= 0:
        raise InvalidInputError(f"{caller}: max_radius is {max_radius!r}, must be at least 0")
    for name, value in (("restarts", restarts), ("iterations", iterations)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InvalidInputError(f"{caller}: {name} is {value!r}, must be a positive whole number")
    if variant not in ("default", "paper"):
        raise InvalidInputError(f"{caller}: variant is {variant!r}, must be 'default' or 'paper'")
    if not (np.isfinite(theta) and theta > 0):
        raise InvalidInputError(f"{caller}: theta is {theta!r}, must be a positive number")
    if time_limit is not None and not time_limit > 0:
        raise InvalidInputError(f"{caller}: time_limit is {time_limit!r}, must be a positive number of seconds")
    if certify and kind != "average":
        raise InvalidInputError(f"{caller}: certify needs kind 'average', got {kind!r}")
