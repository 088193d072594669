"""Which few policies to keep, asked of a table of scores."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, as_floats, sealed
from pastmaster.checks import as_name, called_as, flag, guess, is_whole, listed, mapping, whole, within
from pastmaster.clustering.cost import check_setting
from pastmaster.clustering.losses import Losses, losses_of
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.scores import LARGEST, Scores, read_scores
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded
from pastmaster.tables import cut, shown

CALLER = "keep"


def keep(
    scores: Any, *, k: int | None = None, max_loss: float | None = None, price: float | None = None,
    episodes: float | None = None, span: float | None = None, tasks: Any = None, policies: Any = None,
    weights: Any = None, must_keep: Any = None, never_keep: Any = None, lower_is_better: bool = False,
    certify: bool = True, time_limit: float = 30.0, rng: Rng = None,
) -> Clustering:  # fmt: skip
    """Which few policies to keep, and what each task loses by it.

    A task's loss is the best score known for it less that of the best kept policy.

    Parameters
    ----------
    scores : array_like, DataFrame or path
        The score of each task under each policy [N, M], higher is better, nan where a policy was not tried: then it
        cannot stand for that task. A DataFrame, or the path of a .csv file, is wide (a row to a task, a column to a
        policy) or long (columns task, policy and score; trials of the same two are averaged).
    k : int, optional
        The question: exactly so many policies, with the least mean loss.
    max_loss : float, optional
        Or: the fewest policies such that no task loses more; of those, the least mean loss.
    price : float, optional
        Or: the least ``price`` times the number of policies + mean loss. A policy must earn so much a task to be kept.
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
        Whether to prove how good the answer is; about how many seconds to take at most.
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
    table = read_scores(CALLER, scores, tasks, policies)
    question = _question(k=k, max_loss=max_loss, price=price, episodes=episodes, span=span)
    seconds, certify = within(CALLER, "time_limit", time_limit, 0.0, math.inf), flag(CALLER, "certify", certify)
    values = -table.values if flag(CALLER, "lower_is_better", lower_is_better) else table.values
    losses = Losses(losses_of(values), *_columns(table, must_keep, never_keep), _weights(table, weights))
    generator, seed = seeded(CALLER, rng)
    deadline = time.perf_counter() + seconds
    if question == "k":
        size = whole(CALLER, "k", k, at_least=max(1, len(losses.must)), at_most=int(losses.allowed.sum()))
        found = losses.of_size(size, generator, deadline, certify)
    elif question == "max_loss":
        limit = within(CALLER, "max_loss", max_loss, 0.0, math.inf)
        _check_reachable(losses, table, limit)
        found = losses.within(limit, generator, deadline, certify)
    elif question == "price":
        _check_reachable(losses, table, math.inf)
        found = losses.at_price(within(CALLER, "price", price, 0.0, LARGEST), generator, deadline, certify)
    else:
        _check_reachable(losses, table, math.inf)
        found = _for_learning(losses, episodes, span, generator if seed is None else seed, seconds, certify)
    return replace(found, seed=seed).named(table.tasks, table.policies)


def _question(**given: Any) -> str:
    """Which of the four questions is asked: exactly one must be."""
    asked = [name for name, value in given.items() if value is not None]
    if asked in (["k"], ["max_loss"], ["price"], ["episodes", "span"]):
        return asked[0]
    wanted = "must be one question: k, or max_loss, or price, or episodes and span"
    if not asked:
        raise InvalidInputError(f"{CALLER}: nothing is asked, {wanted}")
    if len(asked) == 1:
        missing = "span" if asked == ["episodes"] else "episodes"
        raise InvalidInputError(f"{CALLER}: {missing} is None, must be given where {asked[0]} is")
    raise InvalidInputError(f"{CALLER}: {' and '.join(asked)} are given, {wanted}")


def _columns(table: Scores, must_keep: Any, never_keep: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The columns that must be kept and those that must not, told by name or number."""
    must, never = (
        tuple(sorted({_column(table, name, value) for value in _several(name, given)}))
        for name, given in (("must_keep", must_keep), ("never_keep", never_keep))
    )
    both = sorted(set(must) & set(never))
    if both:
        raise InvalidInputError(f"{CALLER}: must_keep and never_keep both hold {_policy(table, both[0])}, must not")
    if len(never) == table.values.shape[1]:
        raise InvalidInputError(f"{CALLER}: never_keep holds all {len(never)} policies, must leave one at least")
    return must, never


def _several(name: str, given: Any) -> list[Any]:
    """A list of names or numbers; one alone is a list of one."""
    if given is None:
        return []
    single = isinstance(given, str) or is_whole(given)
    return [given] if single else listed(given, f"{CALLER}: {name}", "a list of names or column numbers")


def _column(table: Scores, name: str, value: Any) -> int:
    """The column of a policy, told by name or number."""
    n_columns = table.values.shape[1]
    if is_whole(value) and 0 <= value < n_columns:
        return int(value)
    places = [j for j, known in enumerate(table.policies) if known == value] if isinstance(value, str) else []
    if len(places) == 1:
        return places[0]
    wanted = f"must be the name of a policy or a column in 0..{n_columns - 1}{guess(value, table.policies)}"
    if places:
        wanted = f"must be told by number: columns {places[0]} and {places[1]} have that name"
    raise InvalidInputError(f"{CALLER}: {name} holds {shown(value)}, {wanted}")


def _policy(table: Scores, j: int) -> str:
    return f"policy {cut(table.policies[j])!r}" if table.policies else f"column {j}"


def _task(table: Scores, i: int) -> str:
    return f"task {cut(table.tasks[i])!r}" if table.tasks else f"task {i}"


def _weights(table: Scores, given: Any) -> FloatArray | None:
    """How much each task counts [N], told in order or by name."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        by_name = {
            as_name(name, f"{CALLER}: weights"): value for name, value in mapping(given, f"{CALLER}: weights").items()
        }
        names = table.tasks or tuple(map(str, range(len(table.values))))
        for name in (*by_name, *names):
            if name not in names or name not in by_name:
                what = "is no task" if name not in names else "has none"
                raise InvalidInputError(f"{CALLER}: weights: {cut(name)!r} {what}, must be one weight to each task")
        given = [by_name[name] for name in names]
    weights = as_floats(given, f"{CALLER}: weights")
    if weights.shape != (len(table.values),):
        raise InvalidInputError(f"{CALLER}: weights has shape {weights.shape}, must be [{len(table.values)}]")
    bad = ~((weights >= 0) & (weights < LARGEST))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"{CALLER}: weights of {_task(table, i)} is {weights[i]}, must be finite and at least 0"
        )
    if not weights.any():
        raise InvalidInputError(f"{CALLER}: weights are all 0, must have one above 0")
    return sealed(weights / 2.0 ** math.frexp(weights.max())[1])


def _check_reachable(losses: Losses, table: Scores, limit: float) -> None:
    """Refuse a table in which a task loses more than ``limit`` under every policy that may be kept."""
    least = losses.table[:, losses.allowed].min(axis=1)
    beyond = (least > limit) | np.isinf(least)
    if beyond.any():
        i = int(np.flatnonzero(beyond)[0])
        if np.isinf(least[i]):
            raise InvalidInputError(
                f"{CALLER}: never_keep leaves {_task(table, i)} without a policy that was tried, must leave one"
            )
        raise InvalidInputError(
            f"{CALLER}: max_loss is {limit:g}, but {_task(table, i)} loses at least {least[i]:g} under every policy "
            f"that may be kept, must be at least {least.max():g}"
        )


def _for_learning(losses: Losses, episodes: Any, span: Any, rng: Any, seconds: float, certify: bool) -> Clustering:
    """The paper's question, which knows neither weights nor policies that must be kept."""
    check_setting(CALLER, episodes, span)
    for name, given in (("must_keep", losses.must), ("weights", losses.weights is not None)):
        if given:
            raise InvalidInputError(
                f"{CALLER}: {name} is given with episodes and span, must be None: use k, max_loss or price with it"
            )
    with called_as(CALLER):
        return losses.for_learning(float(episodes), float(span), rng, seconds, certify)
