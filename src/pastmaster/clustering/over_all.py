"""What an answer found on a sample of tasks says of all tasks: an estimate, an interval and a lower bound.

**The estimate.** The kept policies are chosen on landmarks. Then tasks are drawn from all N, uniformly and with
replacement, by a random stream of its own, and all policies are valued in them: a loss is what the best policy known
for a task is worth in it, of all that are stored and the one it came with, less what the best kept one is, in landmarks
and in these tasks alike. So the sample does not depend on the choice, and the losses are independent, in 0 .. R with R
the largest span of returns: the interval is that of ``estimation.intervals``, by betting. With few tasks all of them
are looked at, and the mean is exact.

**The lower bound.** Let L(S) be the mean loss over all tasks where the policies S are kept, S* the best S that the
question allows, and l(S) the weighted mean over landmarks, weights w_i of sum 1, of which all S on the landmarks have
l(S) >= b, as ``keep`` proves. S* does not depend on the landmarks, if the policies do not: that is so where tasks are
solved, or come with their policies, and not where an agent learned them from sources that were chosen on these
landmarks. So l(S*) is a sum of independent terms w_i X_i with X_i in 0 .. R and mean L(S*) (within a cell they are
drawn without replacement, which makes the sum no wider: Hoeffding 1963, theorem 4). With w the largest weight and x ->
e^x convex, for every s > 0

    ln E exp(s l(S*)) <= sum_i (E X_i / R) (exp(s w_i R) - 1) <= L(S*) / (R w) (exp(s w R) - 1).

Chernoff's bound with the best s: if L(S*) = m < b, the chance that l(S*) >= b is at most

    exp(-(b ln(b / m) - b + m) / (R w)).

The lower bound is the m at which this is 1 - confidence: with that confidence no choice loses less on all tasks. The
same holds of losses that are cut at any level R' that does not depend on the landmarks, and a loss is at least the cut
one. With R' far below R the bound is closer where losses are small. So two bounds are found, R' being eight times the
repository's ``max_loss``, each with half of the risk, and the larger one is told.

**A limit.** Asked for the fewest policies such that no task loses more than a limit, landmarks obey it, and other tasks
may not. Those of the drawn tasks that lose more join the landmarks, with no weight in means, and the question is asked
again, ``ROUNDS`` times at most; each time other tasks are drawn. How many of n independent draws lose more is binomial,
so the share of all tasks that do is bounded (Clopper and Pearson). Each round has 1 / ``ROUNDS`` of the risk, so
whichever is the last one, what it tells holds with the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pastmaster.tables import WIDEST, counted

CONFIDENCE = 0.95  # of the interval, of the lower bound, and of the share of tasks above a limit, each
ROUNDS = 3  # in which a limit is asked for
BOUNDS = {
    "loss": "no choice loses less than {:.4g}",
    "cost": "no choice costs less than {:.4g}",
    "policies": "at least {:g} policies are needed",
}


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
        That of the interval, of the lower bound, and of ``share_above``, each.
    bounded : {"loss", "cost", "policies"}
        What ``lower_bound`` is: of a mean loss (``k`` was asked), of price and mean loss, or a number of policies
        (``max_loss``).
    largest_loss : float
        The largest that was seen.
    n_above, share_above : int and float, or None and nan
        Where ``max_loss`` was asked: how many of the tasks that were looked at lose more, and how large a part of all
        tasks that can be.
    estimated : bool
        Whether values are means of episodes: then all this is about these means, and not about exact values.
    """

    n_tasks: int
    sampled: int
    mean_loss: float
    low: float
    high: float
    lower_bound: float
    confidence: float = CONFIDENCE
    bounded: str = "loss"
    largest_loss: float = math.nan
    n_above: int | None = None
    share_above: float = math.nan
    estimated: bool = False

    def told(self) -> dict[str, Any]:
        """All of it by name, None where a number is not known: JSON has no nan."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in self._asdict().items()
        }

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> OverAll:
        """From what ``told`` gave."""
        known: dict[str, Any] = {name: math.nan if value is None else value for name, value in told.items()}
        return cls(**known | {"n_above": told.get("n_above")})

    def __repr__(self) -> str:
        return line_of(self)


def line_of(told: OverAll, width: int = WIDEST) -> str:
    """As much of what is told of all tasks as so many characters hold, what matters most first."""
    about = [*(["of estimates"] if told.estimated else [] if told.sampled else ["exact"])]
    if told.sampled and not math.isnan(told.low):
        about = [f"{told.low:.4g} to {told.high:.4g}", *about]
    parts = [f"mean loss {told.mean_loss:.4g}" + (f" ({', '.join(about)})" if about else "")]
    if not math.isnan(told.lower_bound):
        parts.append(BOUNDS[told.bounded].format(told.lower_bound))
    if told.n_above is not None:
        above = f"at most {told.share_above:.2%} lose more"
        if not told.sampled:
            above = f"{counted(told.n_above, 'task')} above the limit" if told.n_above else "none above the limit"
        parts = [above, f"largest loss {'seen ' if told.sampled else ''}{told.largest_loss:.4g}", *parts[::-1]]
    line = f"over all {told.n_tasks:,} tasks: {parts[0]}"
    for part in parts[1:]:
        line += f", {part}" if len(line) + len(part) + 2 <= width else ""
    return line


def largest_share(n_above: int, n_drawn: int, level: float) -> float:
    """The largest share of all tasks at which so few of independent draws are above with a chance of ``level``.

    Examples
    --------
    >>> round(largest_share(0, 10_000, 0.05), 6)  # 1 - 0.05^(1 / 10,000)
    0.0003
    """
    from scipy.special import betaincinv  # slow to load

    return 1.0 if n_above == n_drawn else float(betaincinv(n_above + 1, n_drawn - n_above, 1.0 - level))


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
