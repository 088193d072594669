"""What each task loses by an answer of ``keep``, and how sure that is, as ``keep`` and ``repo keep`` print it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pastmaster.cli import printing
from pastmaster.tables import counted

if TYPE_CHECKING:
    from pastmaster.clustering import Clustering

MOST_ROWS = 40  # tasks up to which each has its line
WORST = 20  # tasks that have one where there are more
MOST_DOUBTS = 5  # scores to be measured again that are told


def number(value: float) -> str:
    """A number in a table: whole where it is large."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def tell_tasks(answer: Clustering, every: bool) -> None:
    """A line to each task, worst first; of many tasks the worst, and a count of the rest."""
    rows = sorted(answer.table(), key=lambda row: -row.loss)
    shown = rows if every or len(rows) <= MOST_ROWS else rows[:WORST]
    printing.print_table(("task", "policy", "loss"), [(row.task, row.policy, number(row.loss)) for row in shown])
    if len(rows) > len(shown):
        rest = rows[len(shown) :]
        nothing, most = sum(row.loss == 0 for row in rest), number(rest[0].loss)
        printing.say(
            f"... and {counted(len(rest), 'task')} more, which lose {most} at most, {nothing:,} of them nothing "
            "(--all shows them)"
        )


def tell_stability(answer: Clustering, rng: int) -> None:
    """How sure the choice is: which kept policies stay in resamples of the scores, and where the mean loss lies."""
    if _may_be_resampled(answer):
        printing.say(answer.stability(rng=rng))


def stability_json(answer: Clustering, rng: int) -> dict[str, Any] | None:
    """The same for scripts; None of the paper's cost."""
    if not _may_be_resampled(answer):
        return None
    found = answer.stability(rng=rng)
    shares = {str(name): share for name, share in found.kept.items()} if found.resamples else None
    interval = [found.low, found.high] if found.resamples else None
    return {"resamples": found.resamples, "mean_loss": interval, "kept": shares}


def _may_be_resampled(answer: Clustering) -> bool:
    """Whether the question was k, max_loss or price."""
    from pastmaster.clustering.partition import KEPT

    return answer.kind in KEPT


def tell_doubts(answer: Clustering) -> None:
    """Which scores should be measured again, where some were measured several times."""
    doubts = answer.doubts()
    if doubts:
        printing.say("", "measure again first, to be sure of the mean loss:")
        lines = [
            (d.task, d.policy, "-" if math.isnan(d.standard_error) else number(d.standard_error), number(d.shift))
            for d in doubts[:MOST_DOUBTS]
        ]
        printing.print_table(("task", "policy", "standard error", "shifts the mean loss by"), lines)
        if len(doubts) > MOST_DOUBTS:
            printing.say(f"... and {counted(len(doubts) - MOST_DOUBTS, 'score')} more (--json has all)")
