"""Which policy to keep after a trial: a source, or a snapshot of the learner, and why.

No episode tells of a snapshot alone: the learner that ran it had changed before, and changed during it. So a snapshot,
taken after k of the learner's own episodes, is judged by those just before it and those just after it, by the worse of
the two. The first are of a learner that still had to learn, the others show if it had collapsed.

With returns x_1, x_2, ... of its own episodes, scaled to [0, 1], let mu_i be what x_i is expected to be, given all
that was before. For a stretch of n episodes, the lower end of the mean of mu_i is

    max over theta of (exp((sum of ln(1 + theta x_i) - ln(20 A G)) / n) - 1) / theta,

with A places where a stretch may begin and G values of theta. For the products of (1 + theta x_i) / (1 + theta mu_i)
are martingales that begin at 1, so each reaches 20 A G with a chance of at most 1 / (20 A G) (Ville); and the sum of
ln(1 + theta mu_i) is at most n ln(1 + theta times their mean), since the logarithm is concave. So all these ends hold
at once, wherever a stretch ends, with a probability of 95%: a snapshot may be chosen by them. With n episodes around x
that vary little, the end is about x exp(-ln(20 A G) / n): the span of the bounds does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pastmaster.arrays import FloatArray, LongArray
from pastmaster.reuse.fixed_policy import FixedPolicy
from pastmaster.reuse.protocols import policy_to_keep
from pastmaster.reuse.snapshots import PARTS

if TYPE_CHECKING:
    from pastmaster.reuse.episodes import Trial

CONFIDENCE = 0.95
THETAS = 4.0 ** np.arange(-1, 6)  # 1/4 to 1024


@dataclass(frozen=True, eq=False)
class Advice:
    """The arm to keep, the policy that the learner hands out, and what is known of both.

    Attributes
    ----------
    arm : int
        The arm to keep; the number of sources stands for the learner.
    policy : object
        What the learner hands out: a snapshot, or its last policy where there is none.
    after : int or None
        After how many of its own episodes the snapshot was taken; None for the last policy.
    at_least : float
        What the learner was worth around the snapshot, at least, with 95% confidence; -inf if nothing is known.
    source : int or None
        The best source, by its lower confidence bound; None if none ran, or if a ``FixedPolicy`` did better.
    source_mean : float
        Its mean return; -inf if none ran.
    """

    arm: int
    policy: Any
    after: int | None
    at_least: float
    source: int | None
    source_mean: float

    def why(self, names: list[str]) -> str:
        """Why this arm, in a few words; nothing where there was no choice."""
        if self.source is None:
            return ""
        if self.arm != self.source:
            return f"worth at least {self.at_least:.4g}; {names[self.source]}: mean {self.source_mean:.4g}"
        return f"mean {self.source_mean:.4g}; the learner is not shown to be worth more"


def advise(trial: Trial, n_sources: int) -> Advice:
    """The learner where the lower end of what it is worth is above the best source's mean, else that source."""
    bounds = trial.selector.bounds if trial.bounds is None else trial.bounds
    low, high = float(trial.returns.min()), float(trial.returns.max())
    if bounds is None:
        bounds = (low, high)
    span = bounds[1] - bounds[0]
    own = trial.returns[trial.arms == n_sources]
    of_sources = [trial.returns[trial.arms == arm] for arm in range(n_sources)]
    if trial.selector.mixes:
        of_sources = []  # mixed episodes are evidence about no source
    last = policy_to_keep(trial.learner)
    source, source_mean = _best_source(of_sources, span)
    if isinstance(trial.learner, FixedPolicy):  # a policy like all others
        arm = int(lower_bounds([*of_sources, own], span).argmax())
        return Advice(arm, last, None, -math.inf, source if arm == source else None, source_mean)
    low, high = min(low, bounds[0]), max(high, bounds[1])  # returns that were clipped lie outside
    scale = high - low or 1.0
    after, end = _best_snapshot((own - low) / scale, sorted(trial.snapshots.policies), (source_mean - low) / scale)
    at_least = low + scale * end
    policy = last if after is None else trial.snapshots.policies[after]
    arm = source if source is not None and at_least <= source_mean else n_sources
    return Advice(arm, policy, after, at_least, source, source_mean)


def lower_bounds(own: list[FloatArray], span: float) -> FloatArray:
    """mean - span sqrt(ln(20 n) / 2 m) of the m returns of each of n arms; -inf of those with none."""
    bounds = np.full(len(own), -np.inf)
    for arm, returns in enumerate(own):
        if len(returns):
            bounds[arm] = returns.mean() - span * math.sqrt(math.log(20 * len(own)) / (2 * len(returns)))
    return bounds


def _best_source(of_sources: list[FloatArray], span: float) -> tuple[int | None, float]:
    """The source with the largest lower bound on its mean, and its mean."""
    if not any(len(returns) for returns in of_sources):
        return None, -math.inf
    best = int(lower_bounds(of_sources, span).argmax())
    return best, float(of_sources[best].mean())


def _best_snapshot(x: FloatArray, taken: list[int], rival: float) -> tuple[int | None, float]:
    """After how many own episodes the best snapshot was taken, and the lower end of what it is worth.

    Best is the one with the best mean in the episodes next to it; among those whose lower ends are above the rival
    where there are such. The mean is the worse one of the two sides, like the lower end.
    """
    edges = [0, *(after for after in taken if after < len(x)), len(x)]
    if len(edges) == 2:
        return None, -math.inf
    ends = _lower_ends(x, np.array(edges))
    means = [x[first:last].mean() for first, last in pairwise(edges)]
    found = []
    for k in range(1, len(edges) - 1):
        at_least = min(ends[:k, k].max(), ends[k, k + 1 :].max())
        found.append((at_least > rival, min(means[k - 1], means[k]), edges[k], at_least))
    _, _, after, at_least = max(found)
    return after, float(at_least)


def _lower_ends(x: FloatArray, edges: LongArray) -> FloatArray:
    """The lower ends of the means of x[edges[a] : edges[b]], that all hold at once; -inf for a >= b."""
    price = math.log(PARTS * len(THETAS) / (1 - CONFIDENCE))
    lengths = edges[None, :] - edges[:, None]
    ends = np.full(lengths.shape, -np.inf)
    for theta in THETAS:
        growth = np.concatenate([[0.0], np.cumsum(np.log1p(theta * x))])[edges]
        between = growth[None, :] - growth[:, None]
        found = np.expm1((between - price) / np.maximum(lengths, 1)) / theta
        ends = np.maximum(ends, found)
    return np.where(lengths > 0, ends, -np.inf)
