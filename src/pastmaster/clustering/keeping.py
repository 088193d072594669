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
QUESTIONS = ("k", "max_loss", "price", "episodes", "span")


def keep(
    scores: Any,
    *,
    k: int | None = None,
    max_loss: float | None = None,
    price: float | None = None,
    episodes: float | None = None,
    span: float | None = None,
    certify: bool = True,
    time_limit: float = 30.0,
    rng: Rng = None,
    **table_settings: Any,
) -> Clustering:
    """``pastmaster.keep``, for a price that is a number; ``table_settings`` are those of ``told_losses``."""
    question = asked(CALLER, k=k, max_loss=max_loss, price=price, episodes=episodes, span=span)
    losses, table = told_losses(CALLER, scores, **table_settings)
    seconds = within(CALLER, "time_limit", time_limit, 0.0, math.inf)
    certify = flag(CALLER, "certify", certify)
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


def asked(caller: str, **question: Any) -> str:
    """Which question is asked, of the values by ``QUESTIONS``: exactly one must be."""
    names = [name for name in QUESTIONS if question[name] is not None]
    price = question["price"]
    if isinstance(price, str):
        if price != "measured" or not {*names} <= {"price", "episodes"}:
            got = repr(price) if price != "measured" else "'measured' beside another question"
            raise InvalidInputError(f"{caller}: price is {got}, must be a number, or 'measured' with episodes alone")
        whole(caller, "episodes", question["episodes"], at_least=1)
        return "measured"
    if names in (["k"], ["max_loss"], ["price"], ["episodes", "span"]):
        return names[0]
    wanted = "must be one question: k, or max_loss, or price, or episodes and span"
    if not names:
        raise InvalidInputError(f"{caller}: nothing is asked, {wanted}")
    if len(names) == 1:
        missing = "span" if names == ["episodes"] else "episodes"
        raise InvalidInputError(f"{caller}: {missing} is None, must be given where {names[0]} is")
    raise InvalidInputError(f"{caller}: {' and '.join(names)} are given, {wanted}")


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
