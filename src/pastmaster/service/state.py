"""What a task looks like now: who gets the episodes, what they return, what is proven, what is open and late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from pastmaster.errors import InvalidInputError
from pastmaster.service import store
from pastmaster.service.decider import Decider
from pastmaster.service.operations import Known, Operation

MOST_LISTED = 20  # open episodes that are named
FORGOTTEN = (
    "{count} episodes were cancelled or expired. The bounds are about the episodes told, and hold if whether an "
    "episode is told depends neither on its arm nor on its return. Where it may, declare expired_return: an episode "
    "that is never told then counts as that return."
)


@dataclass(eq=False)
class Describe(Operation):
    """The state of a task."""

    writes = False

    def run(self, decider: Decider, known: Known, connection: sa.Connection) -> Any:
        selector, history = decider.selector, decider.history
        ends, counts = history.intervals(selector.bounds), history.sums[0]
        told, returns = counts.astype(int), counts.sum()
        if decider.settings["expired_return"] is not None:
            told -= history.expired  # these count as returns, but nobody told them
        arms = [
            {
                "name": arm["name"], "policy": arm["policy"], "told": int(told[i]),
                "expired": int(history.expired[i]),
                "share": float(counts[i] / returns) if returns else 0.0,
                "probability": float(chance), "in_play": bool(active),
                "mean": _plain(ends[1, i]), "lower": _plain(ends[0, i]), "upper": _plain(ends[2, i]),
            }
            for i, (arm, chance, active) in enumerate(
                zip(decider.settings["arms"], selector.probabilities, selector.active, strict=True)
            )
        ]  # fmt: skip
        return {
            "name": decider.name, "selector": selector.name, "seed": selector.seed, "bounds": list(selector.bounds),
            "lease": decider.settings["lease"], "expired_return": decider.settings["expired_return"],
            "asked": selector.n_asked, "told": int(told.sum()), "open": selector.n_open,
            "cancelled": history.cancelled, "expired": int(history.expired.sum()),
            "arms": arms, "best": _best(ends), "guarantee": _guarantee(decider), "returns": _returns(decider),
            "next_to_expire": [
                {
                    "number": row["number"], "arm": row["arm"], "name": decider.settings["arms"][row["arm"]]["name"],
                    "lease": max(0.0, row["deadline"] - known.now), "late": row["deadline"] < known.now,
                }
                for row in store.next_open(connection, decider.id, MOST_LISTED)
            ],
        }  # fmt: skip


def _plain(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


def _best(ends: Any) -> dict[str, Any] | None:
    """The arm with the largest mean return so far, and whether its interval is above all others."""
    lower, mean, upper = ends
    if np.isnan(mean).all():
        return None
    arm = int(np.nanargmax(mean))
    others = np.delete(upper, arm)
    tried = not np.isnan(others).any()
    return {"arm": arm, "certain": bool(tried and (lower[arm] > others).all())}


def _guarantee(decider: Decider) -> dict[str, Any]:
    try:
        found = decider.selector.regret_guarantee()
    except InvalidInputError:  # nothing is told, and nobody said how many there will be
        return {
            "episodes": None, "to_learner": None, "to_each_source": None, "to_best_source": None,
            "statement": "Nothing is told yet.",
        }  # fmt: skip
    forgotten = decider.history.cancelled
    if decider.settings["expired_return"] is None:
        forgotten += int(decider.history.expired.sum())
    more = f"\n{FORGOTTEN.format(count=forgotten)}" if forgotten else ""
    return {
        "episodes": found.episodes, "to_learner": found.to_learner, "to_each_source": found.to_each_source,
        "to_best_source": found.to_best_source, "statement": found.statement + more,
    }  # fmt: skip


def _returns(decider: Decider) -> dict[str, Any]:
    """The mean return of each step, of all episodes and of the learner's, and how many episodes expired in it."""
    (lower, _), span = decider.selector.bounds, decider.selector.bounds.span
    steps = decider.history.steps

    def mean(n: float, total: float) -> float | None:
        return lower + span * total / n if n else None

    return {
        "width": decider.history.width,
        "all": [mean(step[0], step[1]) for step in steps],
        "learner": [mean(step[2], step[3]) for step in steps],
        "expired": [int(step[4]) for step in steps],
    }
