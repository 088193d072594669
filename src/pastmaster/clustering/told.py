"""What a person tells of a table of scores, as losses: who counts how much, who must be kept, which way is better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster.arrays import FloatArray, as_floats, sealed
from pastmaster.checks import as_name, flag, guess, is_whole, listed, mapping
from pastmaster.clustering.losses import Losses, losses_of
from pastmaster.clustering.score_table import LARGEST, Scores, policy_of, task_of
from pastmaster.clustering.scores import read_scores
from pastmaster.errors import InvalidInputError
from pastmaster.tables import cut, shown


def told_losses(
    caller: str,
    scores: Any,
    *,
    tasks: Any = None,
    policies: Any = None,
    weights: Any = None,
    must_keep: Any = None,
    never_keep: Any = None,
    lower_is_better: Any = False,
) -> tuple[Losses, Scores]:
    """The losses of a table, with all that is told of it, and the table itself; the arguments are those of ``keep``."""
    table = read_scores(caller, scores, tasks, policies)
    costs = flag(caller, "lower_is_better", lower_is_better) or table.lower_is_better
    values = -table.values if costs else table.values
    must, never = _columns(caller, table, must_keep, never_keep)
    losses = Losses(losses_of(values), must, never, _weights(caller, table, weights))
    untried = np.isinf(losses.table[:, losses.allowed]).all(axis=1)
    if untried.any():
        i = int(np.flatnonzero(untried)[0])
        raise InvalidInputError(
            f"{caller}: never_keep leaves {task_of(table, i)} without a policy that was tried, must leave one"
        )
    return losses, table


def _columns(caller: str, table: Scores, must_keep: Any, never_keep: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The columns that must be kept and those that must not, told by name or number."""
    must, never = (
        tuple(sorted({_column(caller, table, name, value) for value in _several(caller, name, given)}))
        for name, given in (("must_keep", must_keep), ("never_keep", never_keep))
    )
    both = sorted(set(must) & set(never))
    if both:
        raise InvalidInputError(f"{caller}: must_keep and never_keep both hold {policy_of(table, both[0])}, must not")
    if len(never) == table.values.shape[1]:
        raise InvalidInputError(f"{caller}: never_keep holds all {len(never)} policies, must leave one at least")
    return must, never


def _several(caller: str, name: str, given: Any) -> list[Any]:
    """A list of names or numbers; one alone is a list of one."""
    if given is None:
        return []
    single = isinstance(given, str) or is_whole(given)
    return [given] if single else listed(given, f"{caller}: {name}", "a list of names or column numbers")


def _column(caller: str, table: Scores, name: str, value: Any) -> int:
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
    raise InvalidInputError(f"{caller}: {name} holds {shown(value)}, {wanted}")


def _weights(caller: str, table: Scores, given: Any) -> FloatArray | None:
    """How much each task counts [N], told in order or by name."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        by_name = {
            as_name(name, f"{caller}: weights"): value for name, value in mapping(given, f"{caller}: weights").items()
        }
        names = table.tasks or tuple(map(str, range(len(table.values))))
        for name in (*by_name, *names):
            if name not in names or name not in by_name:
                what = "is no task" if name not in names else "has none"
                raise InvalidInputError(f"{caller}: weights: {cut(name)!r} {what}, must be one weight to each task")
        given = [by_name[name] for name in names]
    weights = as_floats(given, f"{caller}: weights")
    if weights.shape != (len(table.values),):
        raise InvalidInputError(f"{caller}: weights has shape {weights.shape}, must be [{len(table.values)}]")
    bad = ~((weights >= 0) & (weights < LARGEST))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"{caller}: weights of {task_of(table, i)} is {weights[i]}, must be finite and at least 0"
        )
    if not weights.any():
        raise InvalidInputError(f"{caller}: weights are all 0, must have one above 0")
    return sealed(weights / 2.0 ** math.frexp(weights.max())[1])
