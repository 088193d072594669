"""Which few policies to keep, asked of a table of scores: the public door, which can also find what one should cost."""

from __future__ import annotations

import math
import time
from typing import Any, Literal

import numpy as np

from pastmaster.checks import flag, within
from pastmaster.clustering import Clustering, keeping
from pastmaster.clustering.score_table import policy_of, task_of
from pastmaster.clustering.told import told_losses
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded

CALLER = "keep"


def keep(
    scores: Any,
    *,
    k: int | None = None,
    max_loss: float | None = None,
    price: float | Literal["measured"] | None = None,
    episodes: float | None = None,
    span: float | None = None,
    tasks: Any = None,
    policies: Any = None,
    weights: Any = None,
    must_keep: Any = None,
    never_keep: Any = None,
    lower_is_better: bool = False,
    certify: bool = True,
    time_limit: float = 30.0,
    rng: Rng = None,
) -> Clustering:
    """Which few policies to keep, and what each task loses by it.

    A task's loss is the best score known for it less that of the best kept policy.

    Parameters
    ----------
    scores : array_like, DataFrame, path or CrossValueEstimate
        The score of each task under each policy [N, M], higher is better, nan where a policy was not tried: then it
        cannot stand for that task. A DataFrame, or the path of a .csv file, is wide (a row to a task, a column to a
        policy) or long (columns task, policy and score; trials of the same two are averaged). What
        ``estimate_cross_values`` returns is taken with its names and standard errors.
    k : int, optional
        The question: exactly so many policies, with the least mean loss.
    max_loss : float, optional
        Or: the fewest policies such that no task loses more; of those, the least mean loss.
    price : float or "measured", optional
        Or: the least ``price`` times the number of policies + mean loss. A policy must earn so much a task to be kept.
        "measured", with ``episodes``, finds the price: tasks are left out, and met as new ones by the selector
        "informed" for so many episodes; the price at which they earn most is taken (see the module ``reuse.price``).
        Every score must be known then, and ``lower_is_better`` False; ``weights`` and ``must_keep`` do not change the
        price. It may take half of ``time_limit``.
    episodes, span : float, optional
        Or: the paper's least cost g(c, T) + mean radius (see ``search_clusterings``).
    tasks, policies : list of str, optional
        Names of rows and columns, in place of the table's own.
    weights : array_like or mapping, optional
        How much each task counts in the mean [N], or by name; at least 0.
    must_keep, never_keep : optional
        Names or column numbers of policies that are kept in any case, or in none. Those never kept still say what the
        best score of a task is.
    lower_is_better : bool
        Whether scores are costs, such as run times.
    certify, time_limit : bool, float
        Whether to prove how good the answer is; about how many seconds to take at most, for search and proof together.
    rng : int, numpy.random.Generator, optional
        A seed or a generator; by default a fresh seed, which the result tells.

    Returns
    -------
    Clustering
        With ``policies``, ``losses``, ``mean_loss``, ``largest_loss``, and, if certified, ``lower_bound``.

    Raises
    ------
    InvalidInputError
        If not exactly one question is asked, an entry is no number, a task has no score, an argument is out of its
        range, or nothing answers the question.

    Examples
    --------
    >>> scores = [[9, 4, 1], [8, 5, 2], [1, 6, 7], [0, float("nan"), 8]]
    >>> kept = keep(scores, k=2, policies=["a", "b", "c"])
    >>> kept
    2 of 3 policies kept (a, c), mean loss 0, largest 0, proven optimal
    >>> keep(scores, price=2.0).policies
    [0, 2]
    """
    question: dict[str, Any] = {"k": k, "max_loss": max_loss, "price": price, "episodes": episodes, "span": span}
    table_settings = {
        "tasks": tasks,
        "policies": policies,
        "weights": weights,
        "must_keep": must_keep,
        "never_keep": never_keep,
        "lower_is_better": lower_is_better,
    }
    if isinstance(price, str):
        keeping.asked(CALLER, **question)
        generator, seed = seeded(CALLER, rng)
        rng = generator if seed is None else seed  # the one that the result tells
        time_limit = within(CALLER, "time_limit", time_limit, 0.0, math.inf)
        begun = time.perf_counter()
        price = _measured_price(scores, episodes, begun + 0.5 * time_limit, rng, table_settings)
        question |= {"price": price, "episodes": None}
        time_limit = max(0.0, begun + time_limit - time.perf_counter())
    return keeping.keep(scores, certify=certify, time_limit=time_limit, rng=rng, **question, **table_settings)


def _measured_price(scores: Any, episodes: Any, deadline: float, rng: Rng, table_settings: dict[str, Any]) -> float:
    """The price at which tasks left out earn most."""
    from pastmaster.reuse.price import measured_price  # selectors take longer to load than a table to be read

    if flag(CALLER, "lower_is_better", table_settings["lower_is_better"]):
        raise InvalidInputError(f"{CALLER}: lower_is_better is True, must be False where price is 'measured'")
    losses, table = told_losses(CALLER, scores, **table_settings)
    if np.isnan(table.values).any():
        i, j = np.argwhere(np.isnan(table.values))[0].tolist()
        raise InvalidInputError(
            f"{CALLER}: the score of {task_of(table, i)} under {policy_of(table, j)} is missing, must be known where "
            "price is 'measured'"
        )
    return measured_price(table.values[:, losses.allowed], episodes, seeded(CALLER, rng)[0], deadline=deadline)
