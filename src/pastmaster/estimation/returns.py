"""The returns of all episodes run so far, and what they say of the cross values U.

Cross values are wanted for distances, and distances take maxima: max_k U[i, k] - U[i, j], max(0, .), the larger of
two regrets. The maximum of noisy numbers is too large on average (Jensen): for two policies of equal worth whose
returns are 0 or 1 with equal chance, one episode each, max(0, X_1 - X_2) is 0, 0, 0 or 1 with equal chance: a loss of
1/4 is seen where there is none. So the largest is chosen in one half of the episodes and valued in the other (even and
odd ones, the same for a row), both ways, and the two are averaged. Where policies are the tasks' own, a row's best is
taken to be its own unless another is ahead by more than chance explains, so that the best of many is not chosen by
luck. Where the numbers of episodes were settled
beforehand the value is unbiased given the choice, and what is chosen is at most the largest: on average the result is
never above the truth, and below it by as much as the choice may be wrong. Numbers that were settled by looking at
returns, as sequential allocation does, add a bias of their own to every mean (an entry that looked bad early is looked
at less): small beside the error, but of either sign. Distances must not be negative: cutting them at 0 comes last. That
adds back the mean of the part below 0: for a normal difference with standard error s and no true loss 0.28 s, where the
plug-in is 0.40 s too high.
"""

from __future__ import annotations

import numpy as np

from pastmaster.arrays import BoolArray, FloatArray, LongArray, sealed
from pastmaster.estimation import _return_kernels as kernels
from pastmaster.values.distance import TIE

PRIOR = 1.0  # how many episodes the pseudo-return of a resampled entry counts for, on average


class Returns:
    """Returns of N x M entries, in the order of their episodes.

    ``exact`` [N, M] marks entries whose episodes are all the same: they have one. ``paired``: policy j is task j's own.
    """

    def __init__(self, exact: BoolArray, paired: bool) -> None:
        self.exact, self.paired = exact, paired
        self.parts: list[list[FloatArray]] = [[] for _ in range(exact.size)]
        self.counts: LongArray = np.zeros(exact.shape, np.int64)
        self._flat: tuple[FloatArray, LongArray] | None = None

    def add(self, i: int, j: int, returns: FloatArray) -> None:
        """More episodes of an entry."""
        self.parts[i * self.counts.shape[1] + j].append(returns)
        self.counts[i, j] += len(returns)
        self._flat = None

    @property
    def flat(self) -> tuple[FloatArray, LongArray]:
        """All returns, entry by entry, and where each entry's begin [N M + 1]."""
        if self._flat is None:
            first = np.concatenate([[0], np.cumsum(self.counts.ravel())])
            self._flat = sealed(np.concatenate([np.empty(0), *(part for parts in self.parts for part in parts)])), first
        return self._flat

    @property
    def mean(self) -> FloatArray:
        """The mean return of each entry."""
        flat, first = self.flat
        means: FloatArray = (np.add.reduceat(flat, first[:-1]) / self.counts.ravel()).reshape(self.counts.shape)
        return means

    @property
    def deviation(self) -> FloatArray:
        """The standard deviation of one return of each entry, 0 where its episodes are all the same."""
        flat, first = self.flat
        off = flat - np.repeat(self.mean.ravel(), self.counts.ravel())
        squares = np.add.reduceat(off * off, first[:-1]).reshape(self.counts.shape)
        deviation: FloatArray = np.where(self.exact, 0.0, pooled_deviation(squares, self.counts))
        return deviation

    def of(self, i: int, j: int) -> FloatArray:
        """The returns of an entry."""
        flat, first = self.flat
        e = i * self.counts.shape[1] + j
        return flat[first[e] : first[e + 1]]

    def differences(self, i: int, one: int, other: int) -> FloatArray:
        """What policy ``one`` earned more than ``other`` in the episodes of task i that both have run."""
        first, second = self.of(i, one), self.of(i, other)
        if self.exact[i, one] or self.exact[i, other]:
            return first - second
        common = min(len(first), len(second))
        return first[:common] - second[:common]

    @property
    def pivot(self) -> LongArray:
        """The column of each row that has the most episodes; where policies are the tasks' own, the own one."""
        return np.arange(len(self.counts)) if self.paired else self.counts.argmax(axis=1)

    def distance(self, directed: bool) -> FloatArray:
        """The distances of ``policy_distance``, without the upward bias of maxima."""
        return sealed(np.maximum(0.0, uncut_distance(self.halves, directed, self.margins)))

    @property
    def margins(self) -> FloatArray | None:
        """What a policy must be ahead of a task's own to be the reference instead, by halves and by all [3, N, N].

        None where policies are not the tasks' own: the reference is then the one that looks best. Among M that are no
        better one looks better by sqrt(2 ln M) standard errors, so that the margin is one more than that.
        """
        if not self.paired:
            return None
        out = np.empty((3, *self.counts.shape))
        kernels.own_margins(*self.flat, self.exact, 1.0 + np.sqrt(2.0 * np.log(len(out[0]))), out)
        return out

    @property
    def halves(self) -> FloatArray:
        """U as estimated from the even and from the odd episodes, to choose by and to value by [2, 2, N, M].

        What is chosen by is of one half alone; what is valued by has the slope on the pivot of the half that chose.
        """
        out = np.empty((2, 2, *self.counts.shape))
        for crossed in (0, 1):
            kernels.half_means(*self.flat, self.pivot, crossed, out[crossed])
        return out

    def spread(self) -> tuple[FloatArray, FloatArray]:
        """Slopes on the pivot, and the standard deviation of a return less its part of the pivot's, both [N, M].

        To the squares of an entry one is added, the pooled variance of all: few equal returns prove nothing.
        """
        beta, squares = np.empty(self.counts.shape), np.empty(self.counts.shape)
        kernels.spreads(*self.flat, self.pivot, beta, squares)
        pooled = squares.sum() / self.counts.sum()
        deviation = np.sqrt((squares + pooled) / self.counts)
        deviation[self.exact] = 0.0
        return beta, deviation

    def resample(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """U as it may be, given the returns [draws, N, M]: a Bayesian bootstrap over episodes.

        An episode has one weight for its whole row, so that what policies earn alike stays alike. Every entry has one
        more return, drawn from all there are: without it few equal returns would be taken as certain.
        """
        flat, first = self.flat
        n_tasks, n_policies = self.counts.shape
        pivot, (beta, _) = self.pivot, self.spread()
        out = np.empty((draws, n_tasks, n_policies))
        for i in range(n_tasks):
            edges = first[i * n_policies : (i + 1) * n_policies + 1]
            most = int(self.counts[i].max())
            for draw in range(draws):
                weights = rng.standard_exponential(most)
                prior = PRIOR * rng.standard_exponential(n_policies)
                pseudo = flat[rng.integers(len(flat), size=n_policies)]
                kernels.resampled(flat, edges, pivot[i], beta[i], weights, prior, pseudo, out[draw, i])
        out[:, self.exact] = self.mean[self.exact]
        return out


def pooled_deviation(squares: FloatArray, counts: LongArray) -> FloatArray:
    """The standard deviation of one return of each entry, from the squares of its returns and their number.

    To the squares of an entry one is added, the pooled variance of all: few equal returns prove nothing.
    """
    pooled = squares.sum() / max(1, (counts - 1).sum())
    deviation: FloatArray = np.sqrt((squares + pooled) / counts)
    return deviation


def uncut_distance(halves: FloatArray, directed: bool, margins: FloatArray | None) -> FloatArray:
    """Distances before they are cut at 0: on average at most the true ones, if no count was settled by looking."""
    choosing, valuing = halves
    margin = (None, None) if margins is None else margins
    both = 0.5 * (
        _chosen(choosing[0], valuing[1], directed, margin[0]) + _chosen(choosing[1], valuing[0], directed, margin[1])
    )
    if not directed:  # equal regrets of a pair may be valued either way: one of them for both
        both = np.triu(both) + np.triu(both, 1).T
    return both


def reference(U: FloatArray, margin: FloatArray | None) -> LongArray:
    """The column of each row's best [N]: the one that looks best, or the task's own unless one is ahead by more."""
    if margin is None:
        return np.asarray(U.argmax(axis=1))
    own = np.diagonal(U)[:, None]
    lead = U - own - margin
    lead = np.where(lead > TIE * np.abs(own), lead, -np.inf)
    np.fill_diagonal(lead, 0.0)
    return np.asarray(lead.argmax(axis=1))


def _chosen(choosing: FloatArray, valuing: FloatArray, directed: bool, margin: FloatArray | None) -> FloatArray:
    """Which term of the maxima is the largest by one U, and what it is by the other."""
    rows, best = np.arange(len(choosing)), reference(choosing, margin)
    regret = choosing[rows, best][:, None] - choosing
    value = valuing[rows, best][:, None] - valuing
    if not directed:
        value = np.where(regret >= regret.T, value, value.T)
        regret = np.maximum(regret, regret.T)
    return np.where(regret > 0.0, value, 0.0)
