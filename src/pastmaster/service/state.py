"""What a task looks like now: who gets the episodes, what they return, what is proven, what is open and late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster.errors import InvalidInputError
from pastmaster.service import store
from pastmaster.service.decider import Decider
from pastmaster.service.operations import Operation, Turn

if TYPE_CHECKING:
    from pastmaster.service.answers import ArmState, Best, Guarantee, Returns, TaskState

MOST_LISTED = 20  # open episodes that are named
PROVEN = ("episodes", "to_learner", "to_each_source", "to_best_source")
FORGOTTEN = (
    "{count} episodes were cancelled or expired. The bounds are about the episodes told, and hold if whether an "
    "episode is told depends neither on its arm nor on its return. Where it may, declare expired_return: an episode "
    "that is never told then counts as that return."
)


@dataclass(eq=False)
class Describe(Operation):
    """The state of a task."""

    writes = False

    def run(self, turn: Turn) -> TaskState:
        decider = turn.decider
        selector, settings, history = decider.selector, decider.settings, decider.history
        arms = _arms(decider)
        return {
            "name": decider.name,
            "selector": selector.name,
            "seed": selector.seed,
            "bounds": list(selector.bounds),
            "lease": settings["lease"],
            "expired_return": settings["expired_return"],
            "asked": selector.n_asked,
            "told": sum(arm["told"] for arm in arms),
            "open": selector.n_open,
            "cancelled": history.cancelled,
            "expired": int(history.expired.sum()),
            "arms": arms,
            "best": _best(arms),
            "guarantee": _guarantee(decider),
            "returns": _returns(decider),
            "next_to_expire": [
                {
                    "number": row["number"],
                    "arm": row["arm"],
                    "name": arms[row["arm"]]["name"],
                    "lease": max(0.0, row["deadline"] - turn.now),
                    "late": row["deadline"] < turn.now,
                }
                for row in store.next_open(turn.connection, decider.id, MOST_LISTED)
            ],
        }


def _arms(decider: Decider) -> list[ArmState]:
    selector, history, settings = decider.selector, decider.history, decider.settings
    ends, counts = history.intervals(selector.bounds), history.sums[0]
    # An expired episode may count as a return, but nobody told it.
    told = counts if settings["expired_return"] is None else counts - history.expired
    return [
        {
            "name": arm["name"],
            "policy": arm["policy"],
            "told": int(told[i]),
            "expired": int(history.expired[i]),
            "share": float(counts[i] / max(1.0, counts.sum())),
            "probability": float(selector.probabilities[i]),
            "in_play": bool(selector.active[i]),
            "mean": _plain(ends[1, i]),
            "lower": _plain(ends[0, i]),
            "upper": _plain(ends[2, i]),
        }
        for i, arm in enumerate(settings["arms"])
    ]


def _plain(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


def _best(arms: list[ArmState]) -> Best | None:
    """The arm with the largest mean return so far, and whether its interval is above all others."""
    means = [-np.inf if arm["mean"] is None else arm["mean"] for arm in arms]
    best = int(np.argmax(means))
    lower = arms[best]["lower"]
    if lower is None:
        return None
    ends = [arm["upper"] for arm in arms[:best] + arms[best + 1 :]]
    return {"arm": best, "certain": all(upper is not None and upper < lower for upper in ends)}


def _guarantee(decider: Decider) -> Guarantee:
    try:
        found = decider.selector.regret_guarantee()
    except InvalidInputError:  # nothing is told, and nobody said how many there will be
        nothing: Any = dict.fromkeys(PROVEN)
        return nothing | {"statement": "Nothing is told yet."}  # type: ignore[no-any-return]
    forgotten, statement = decider.history.cancelled, found.statement
    if decider.settings["expired_return"] is None:
        forgotten += int(decider.history.expired.sum())
    if forgotten:
        statement += f"\n{FORGOTTEN.format(count=forgotten)}"
    proven: Any = {name: getattr(found, name) for name in PROVEN}
    return proven | {"statement": statement}  # type: ignore[no-any-return]


def _returns(decider: Decider) -> Returns:
    """The mean return of each step, of all episodes and of the learner's, and how many episodes expired in it."""
    bounds, steps = decider.selector.bounds, decider.history.steps

    def mean(n: float, total: float) -> float | None:
        return bounds.lower + bounds.span * total / n if n else None

    return {
        "width": decider.history.width,
        "all": [mean(*step[:2]) for step in steps],
        "learner": [mean(*step[2:4]) for step in steps],
        "expired": [int(step[4]) for step in steps],
    }
