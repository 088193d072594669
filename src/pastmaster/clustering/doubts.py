"""Which scores should be measured again: those by whose errors the mean loss would move."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray, LongArray

WRONG_BY = 2.0  # standard errors


class Doubt(NamedTuple):
    """A score that should be measured again.

    ``shift`` is how far the mean loss would move if this score alone were wrong by two standard errors.
    """

    task: Any
    policy: Any
    standard_error: float
    shift: float


def shifts(losses: FloatArray, columns: LongArray, standard_errors: FloatArray, share: FloatArray) -> FloatArray:
    """How far the mean loss would move if one score were wrong by two standard errors, either way, for each [N, M].

    A score that was measured once has the largest standard error known.
    """
    wrong = WRONG_BY * known_errors(standard_errors)
    kept = np.zeros(losses.shape[1], np.bool_)
    kept[columns] = True
    scores = -losses
    among_kept = np.where(kept, scores, -np.inf)
    loss, moved = losses[:, columns].min(axis=1)[:, None], np.zeros(losses.shape)
    for change in (-wrong, wrong):
        changed = scores + change
        best = np.maximum(_best_of_others(scores), changed)
        best_kept = np.maximum(_best_of_others(among_kept), np.where(kept, changed, -np.inf))
        with np.errstate(invalid="ignore"):
            moved = np.fmax(moved, np.where(np.isinf(losses), 0.0, np.abs(best - best_kept - loss)))
    return np.asarray(moved * share[:, None])


def noise_known(standard_errors: FloatArray) -> bool:
    """Whether the standard errors of scores tell of noise: some are larger than 0, or all are known to be 0."""
    return bool((standard_errors > 0.0).any() or not np.isnan(standard_errors).any())


def known_errors(standard_errors: FloatArray) -> FloatArray:
    """Standard errors [N, M], of scores that were measured once the largest that is known."""
    largest = np.nanmax(standard_errors, initial=0.0)
    return np.where(np.isnan(standard_errors), largest, standard_errors)


def _best_of_others(scores: FloatArray) -> FloatArray:
    """The best score of each row but for the entry itself [N, M]."""
    order = np.argsort(-scores, axis=1, kind="stable")
    rows = np.arange(len(scores))
    best = np.repeat(scores[rows, order[:, 0]][:, None], scores.shape[1], axis=1)
    best[rows, order[:, 0]] = scores[rows, order[:, 1]] if scores.shape[1] > 1 else -np.inf
    return best
