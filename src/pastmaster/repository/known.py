"""What stored policies were worth in all stored tasks, as ``transfer`` takes it: a repository's experience."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa

from pastmaster.arrays import FloatArray
from pastmaster.errors import RepositoryError
from pastmaster.estimation.returns import pooled_deviation
from pastmaster.repository import names, rows
from pastmaster.repository.asked import Chosen, beside_writers, chosen_landmarks, completed
from pastmaster.repository.clusterings import source_ids
from pastmaster.repository.memory import Contents, on
from pastmaster.repository.records import Stored, best_value
from pastmaster.repository.worth import Worth, read_worths
from pastmaster.reuse import Experience
from pastmaster.reuse.sources import named_sources
from pastmaster.tasks.tabular import TabularMDP
from pastmaster.values import return_spread

REMEMBERED = 2048  # landmarks: a new task is compared with each of them after each episode


class Known(NamedTuple):
    """What is stored of policies in all tasks, as it was at one moment."""

    tasks: list[int]
    policies: dict[int, Stored]
    episodes: list[int]  # by which policies are valued in each task, 0: by its model
    worths: FloatArray  # [N, c, 2]: value and standard error
    best: list[float]
    sources: list[str]


def experience(contents: Contents, policies: Sequence[int] | None = None) -> Experience:
    """What the policies of these ids, or those kept, were worth in every task, or in the landmarks that stand for all.

    The spread of one return is exact where a task is valued by its model. Where episodes value it, it is what these
    returns tell (``pooled_deviation``).
    """

    def read(connection: sa.Connection, chosen: Chosen | None, _: FloatArray | None) -> Known:
        return _read(connection, contents, policies, None if chosen is None else chosen.tasks)

    def choose(connection: sa.Connection) -> Chosen | None:
        return chosen_landmarks(connection, contents, REMEMBERED)

    if policies is not None:
        contents.database.read(lambda connection: rows.require(connection, "policies", policies))
    return beside_writers(contents, lambda: _experience(contents, completed(contents, choose, read)))


def _experience(contents: Contents, known: Known) -> Experience:
    values, errors = known.worths[..., 0], known.worths[..., 1].copy()
    spread, n = np.zeros(values.shape), np.array(known.episodes)
    tried = n > 0
    if not tried.all():
        spread[~tried] = _exact_spread(contents, np.array(known.tasks)[~tried].tolist(), known.policies)
    if tried.any():
        counts = np.broadcast_to(n[tried, None], errors[tried].shape)
        spread[tried] = pooled_deviation(errors[tried] ** 2 * counts * (counts - 1), counts)
        errors[tried] = spread[tried] / np.sqrt(counts)
    return Experience(
        values, errors=errors if tried.any() else None, spread=spread, best=np.array(known.best), sources=known.sources
    )


def _read(
    connection: sa.Connection, contents: Contents, policies: Sequence[int] | None, wanted: list[int] | None
) -> Known:
    ids = source_ids(connection) if policies is None else list(dict.fromkeys(policies))
    tasks = rows.fetch(connection, "tasks", wanted)
    if not (ids and tasks):
        what, remedy = ("policies", "keep() chooses them") if tasks else ("tasks", "add() stores them")
        raise RepositoryError(f"{contents.database.place} keeps no {what} yet, so there is no experience: {remedy}")
    numbers = [task["id"] for task in tasks]
    called = names.distinct_names(names.policy_records(connection, ids))
    return Known(
        numbers,
        dict(zip(ids, contents.policies.get(on(connection), ids), strict=True)),
        [task["settings"]["evaluation_episodes"] or 0 for task in tasks],
        _worths(connection, contents, numbers, ids),
        [best_value(task) for task in tasks],
        named_sources(dict.fromkeys(called))[0],
    )


def _worths(connection: sa.Connection, contents: Contents, tasks: list[int], policies: list[int]) -> FloatArray:
    """Values and standard errors [N, c, 2]; each pair is read once, as ids always mean the same."""
    stored = contents.worths
    new = [task for task in tasks if any((task, policy) not in stored for policy in policies)]
    if new:
        found = read_worths(connection, new, policies).reshape(-1, 2)
        stored |= zip(product(new, policies), map(Worth._make, found.tolist()), strict=True)
    return np.array([[stored[task, policy] for policy in policies] for task in tasks])


def _exact_spread(contents: Contents, tasks: list[int], policies: Mapping[int, Stored]) -> FloatArray:
    """The standard deviation of one return [N, c]; each pair is computed once."""
    stored = contents.spreads
    for batch in rows.batches([task for task in tasks if any((task, number) not in stored for number in policies)]):
        new = [number for number in policies if any((task, number) not in stored for task in batch)]
        valued = contents.read(contents.tasks, list(batch))
        models = [one.task for one in valued if isinstance(one.task, TabularMDP)]
        spread = return_spread(models, [policies[number] for number in new])
        stored |= zip(product(batch, new), spread.ravel().tolist(), strict=True)
    return np.array([[stored[task, number] for number in policies] for task in tasks])
