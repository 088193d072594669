"""Which few policies to keep, asked of a table of scores."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from pastmaster.checks import called_as, flag, whole, within
from pastmaster.clustering.cost import check_setting
from pastmaster.clustering.losses import Losses
from pastmaster.clustering.partition import Clustering
from pastmaster.clustering.score_table import LARGEST, Scores, task_of
from pastmaster.clustering.told import told_losses
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, seeded

CALLER = "keep"


def keep(
    scores: Any, *, k: int | None = None, max_loss: float | None = None, price: float | None = None,
    episodes: float | None = None, span: float | None = None, tasks: Any = None, policies: Any = None,
    weights: Any = None, must_keep: Any = None, never_keep: Any = None, lower_is_better: bool = False,
    certify: bool = True, time_limit: float = 30.0, rng: Rng = None,
) -> Clustering:  # fmt: skip
    """``pastmaster.keep``, for a price that is a number."""
    question = _question(k=k, max_loss=max_loss, price=price, episodes=episodes, span=span)
    losses, table = told_losses(CALLER, scores, tasks, policies, weights, must_keep, never_keep, lower_is_better)
    seconds, certify = within(CALLER, "time_limit", time_limit, 0.0, math.inf), flag(CALLER, "certify", certify)
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
        found = losses.at_price(within(CALLER, "price", price, 0.0, LARGEST), generator, deadline, certify)
    else:
        found = _for_learning(losses, episodes, span, generator if seed is None else seed, seconds, certify)
    found = replace(found, seed=seed, standard_errors=table.standard_errors)
    return found.named(table.tasks, table.policies)


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


def _check_reachable(losses: Losses, table: Scores, limit: float) -> None:
    """Refuse a limit if a task loses more under every policy that may be kept."""
    beyond = np.flatnonzero(~losses.covers(limit)[:, losses.allowed].any(axis=1))
    if len(beyond):
        least = losses.table[:, losses.allowed].min(axis=1)
        raise InvalidInputError(
            f"{CALLER}: max_loss is {limit:.12g}, but {task_of(table, int(beyond[0]))} loses at least "
            f"{least[beyond[0]]:.12g} under every policy that may be kept, must be at least {least.max():.12g}"
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
