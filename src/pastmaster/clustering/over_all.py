"""What an answer found on a sample of tasks says of all tasks: an estimate, an interval and a lower bound.

**The estimate.** The kept policies are chosen on landmarks. Then tasks are drawn from all N, uniformly and with
replacement, by a random stream of its own, and the kept policies are valued in them. So the sample does not depend on
the choice, and the losses are independent, in 0 .. R with R the largest span of returns: the interval is that of
``estimation.intervals``, by betting. With few tasks all of them are looked at, and the mean is exact.

**The lower bound.** Let L(S) be the mean loss over all tasks where the policies S are kept, S* the best S that the
question allows, and l(S) the weighted mean over landmarks, weights w_i of sum 1, of which all S on the landmarks have
l(S) >= b, as ``keep`` proves. S* does not depend on the landmarks, so l(S*) is a sum of independent terms w_i X_i with
X_i in 0 .. R and mean L(S*) (within a cell they are drawn without replacement, which makes the sum no wider: Hoeffding
1963, theorem 4). With w the largest weight and x -> e^x convex, for every s > 0

    ln E exp(s l(S*)) <= sum_i (E X_i / R) (exp(s w_i R) - 1) <= L(S*) / (R w) (exp(s w R) - 1).

Chernoff's bound with the best s: if L(S*) = m < b, the chance that l(S*) >= b is at most

    exp(-(b ln(b / m) - b + m) / (R w)).

The lower bound is the m at which this is 1 - confidence: with that confidence no choice loses less on all tasks. The
same holds of losses that are cut at any level R' that does not depend on the landmarks, and a loss is at least the cut
one. With R' far below R the bound is closer where losses are small. So two bounds are found, R' being eight times the
repository's ``max_loss``, each with half of the risk, and the larger one is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from pastmaster.tables import one_line

CONFIDENCE = 0.95  # of the interval, and of the lower bound, each


class OverAll(NamedTuple):
    """What kept policies lose over all tasks of a repository, where they were chosen on landmarks.

    Attributes
    ----------
    n_tasks, sampled : int
        How many tasks there are, and how many were drawn for the estimate: 0 where all were looked at.
    mean_loss, low, high : float
        The mean loss over all tasks, and the interval that holds it; nan where returns have no known bounds.
    lower_bound : float
        No choice that the question allows has a smaller cost over all tasks; nan where nothing is proven.
    confidence : float
        That of the interval, and that of the lower bound.
    """

    n_tasks: int
    sampled: int
    mean_loss: float
    low: float
    high: float
    lower_bound: float
    confidence: float = CONFIDENCE

    def told(self) -> dict[str, float | None]:
        """The numbers by name, None where one is not known: JSON has no nan."""
        return {name: None if math.isnan(value) else value for name, value in self._asdict().items()}

    @classmethod
    def of(cls, told: Mapping[str, float | None]) -> OverAll:
        """From what ``told`` gave."""
        known = {name: math.nan if value is None else value for name, value in told.items()}
        return cls(int(known.pop("n_tasks")), int(known.pop("sampled")), **known)

    def __repr__(self) -> str:
        sure = "" if math.isnan(self.low) else f" ({self.low:.4g} to {self.high:.4g})" if self.sampled else " (exact)"
        bound = "" if math.isnan(self.lower_bound) else f", no choice below {self.lower_bound:.4g}"
        return one_line(f"over all {self.n_tasks:,} tasks: mean loss {self.mean_loss:.4g}{sure}{bound}")


def lower_limit(found: float, largest_weight: float, span: float, confidence: float = CONFIDENCE) -> float:
    """The least mean over all that ``found``, a bound on the weighted mean of a sample, is compatible with.

    Terms are in 0 .. ``span``, their weights sum to 1. Bisection returns the end that is ruled out.

    Examples
    --------
    >>> round(lower_limit(2.0, 1 / 500, 90.0), 3)
    0.867
    """
    if found <= 0.0 or span <= 0.0:
        return 0.0
    room = -math.log(1.0 - confidence) * largest_weight * span
    low, high = 0.0, found
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if found * math.log(found / middle) - found + middle >= room:
            low = middle
        else:
            high = middle
    return low
