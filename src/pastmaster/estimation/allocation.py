"""Which entries of U to run more episodes of: those that decide between one clustering and another.

A round draws some U' that the returns so far allow (``Returns.resample``) and clusters each. Where the cheapest
clustering L' of a draw is not the incumbent L, the difference of their costs decides, and it depends on few entries:
a cell's radius is one regret, U[i, best] - U[i, j], and what both have in common cancels. With g the gradient of that
difference in U, at U', its variance is the sum of (g s)^2 / n over entries, s the standard deviation of a return and n
the number of episodes. Every entry claims its part of that sum, more where more is to be gained by L'. Entries that
are well known claim little, so that claims move on.

Half of the claims go to the incumbent's own cost, with the representatives it has: a radius is the least over
representatives of a largest over members, so that the one chosen is likely to look too good, and is looked at again.
A part of each round goes to the entries with the fewest episodes, small distances first: so an entry that was
misjudged, and that no draw points to, is not misjudged for ever.

With the pivot of a row as a control variate (``_return_kernels``) an entry's s is that of what is left of it,
X_j - beta_j X_p, and the pivot carries g_p + sum of g_j beta_j: two policies that earn the same in the same
episodes cost nothing to tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pastmaster.arrays import FloatArray, IntArray, LongArray, sealed
from pastmaster.clustering import Chain, Clustering, Question
from pastmaster.clustering.programs import covering_labels
from pastmaster.clustering.question import DistanceProblem
from pastmaster.clustering.restarts import Search
from pastmaster.estimation.returns import Returns, reference

DRAWS = 16
DRAWN, INCUMBENT = (2, 5_000), (8, 20_000)  # walks and their steps: of the search in a draw, and for the incumbent
RUN = 8  # the fewest episodes of an entry in a round
MOST = 3  # an entry gets at most so many times the episodes it has
KEPT = 0.5  # the part of an entry's claim that is carried into the next round
OWN = 0.5  # the part of claims that the incumbent's own cost has; all of it where no draw disagrees
FEWEST = 0.25  # the part of a round for the entries with the fewest episodes
ALIKE = 1e-9  # relative: costs nearer than that are equal


@dataclass
class Allocation:
    """How far each entry matters, and which clusterings were met in draws."""

    question: Question
    rng: np.random.Generator
    claim: FloatArray | None = None
    agreement: float = 0.0
    met: list[IntArray] = field(default_factory=list)

    def incumbent(self, returns: Returns, last: IntArray | None) -> IntArray:
        """The clustering that all returns so far make; those that draws of U made are where the search begins."""
        starts = [*self.met, *([] if last is None else [last])]
        problem = DistanceProblem(returns.distance(self.question.directed), self.question)
        return quick_labels(problem, starts, self.rng, *INCUMBENT)

    def look(self, returns: Returns, incumbent: IntArray) -> None:
        """Draw, cluster, and see how far the entries matter."""
        directed, pivot = self.question.directed, returns.pivot
        beta, deviation = returns.spread()
        error = deviation / np.sqrt(returns.counts)
        own, deciding, agreed = np.zeros(beta.shape), np.zeros(beta.shape), 0
        kept = DistanceProblem(returns.distance(directed), self.question).cells(incumbent).representatives
        self.met = []
        margins = returns.margins
        best = None if margins is None else reference(returns.mean, margins[2])
        for U in returns.resample(DRAWS, self.rng):
            columns = U.argmax(axis=1) if best is None else best
            problem = DistanceProblem(drawn_distance(U, columns, directed), self.question)
            labels = quick_labels(problem, [incumbent], self.rng, *DRAWN)
            self.met.append(labels)
            mine = gradient(problem, U, columns, incumbent, kept)
            own += parts(carried(mine, beta, pivot) * error)
            stays = problem.objective(incumbent)
            gain = stays - problem.objective(labels)
            if gain <= ALIKE * stays:
                agreed += 1
                continue
            other = gradient(problem, U, columns, labels, problem.cells(labels).representatives)
            deciding += gain * parts(carried(other - mine, beta, pivot) * error)
        self.agreement = agreed / DRAWS
        claim = _together(own, deciding)
        self.claim = claim if self.claim is None else KEPT * self.claim + claim

    def look_at_width(self, clustering: Clustering, low: FloatArray, high: FloatArray, ahead: FloatArray) -> None:
        """Add claims for what keeps the interval of a cost wide, as much as there are: low and high [N] are its ends.

        A task whose distance to its representative may be larger than its cell's radius claims, for that entry and
        for policies that may be its best, by how far they may be ``ahead`` [N, M] of what is surely earned.
        """
        assert self.claim is not None
        labels, extra = clustering.labels, np.zeros(self.claim.shape)
        radius = np.zeros(clustering.n_clusters)
        np.maximum.at(radius, labels, low)
        share = np.bincount(labels)[labels] * np.maximum(0.0, high - radius[labels])
        tasks, policies = np.arange(len(labels)), clustering.representatives[labels]
        extra += share[:, None] * ahead / np.maximum(ahead.sum(axis=1, keepdims=True), 1e-300)
        np.add.at(extra, (tasks, policies), share)
        if not clustering.directed:
            np.add.at(extra, (policies, tasks), share)
        self.claim += extra * (max(self.claim.sum(), 1.0) / max(extra.sum(), 1e-300))

    def plan(self, returns: Returns, episodes: int) -> LongArray:
        """How many episodes more of each entry [N, M], at most ``episodes`` in all.

        An entry that claims takes the pivot of its row along, so that it has as many. If the claims ask for little,
        little is run.
        """
        assert self.claim is not None
        plan = self._fewest(returns, FEWEST * episodes)
        room = episodes - int(plan.sum())
        share = np.where(returns.exact, 0.0, self.claim)
        share *= room / max(share.sum(), 1e-300)
        most = np.maximum(2 * RUN, MOST * returns.counts)
        while 2.0 * np.minimum(most, share).sum() < room and (most < share).any():
            most = 2 * most
        wanted = np.minimum(most, share)
        pivot = returns.pivot
        for e in np.argsort(-share / returns.counts, axis=None, kind="stable").tolist():
            i, j = divmod(e, share.shape[1])
            if share[i, j] <= 0.0:
                break
            more = RUN * max(1, round(wanted[i, j] / RUN))
            behind = (returns.counts + plan)[i, [j, pivot[i]]] @ [1, -1] + more
            behind = 0 if j == pivot[i] or returns.exact[i, pivot[i]] else max(0, int(behind))
            if more + behind <= room:
                plan[i, j] += more
                plan[i, pivot[i]] += behind
                room -= more + behind
        return plan if plan.any() else evenly(returns, episodes)

    def _fewest(self, returns: Returns, episodes: float) -> LongArray:
        """The episodes of entries that have the fewest are doubled; of equals the smallest distances come first."""
        counts = np.where(returns.exact, 0, returns.counts).ravel()
        order = np.lexsort((returns.distance(self.question.directed).ravel(), counts))
        more = np.where(returns.exact.ravel(), 0, np.clip(counts, RUN, max(RUN, int(episodes))))
        chosen = order[np.cumsum(more[order]) <= episodes]
        plan = np.zeros(counts.size, np.int64)
        plan[chosen] = more[chosen]
        return plan.reshape(returns.counts.shape)


def evenly(returns: Returns, episodes: int) -> LongArray:
    """So many episodes for all entries alike; what is left over goes to the first ones with the fewest."""
    plan = np.zeros(returns.counts.size, np.int64)
    order = np.argsort(np.where(returns.exact, np.iinfo(np.int64).max, returns.counts), axis=None, kind="stable")
    free = order[: int((~returns.exact).sum())]
    if len(free):
        plan[free] = episodes // len(free)
        plan[free[: episodes % len(free)]] += 1
    return plan.reshape(returns.counts.shape)


def quick_labels(
    problem: DistanceProblem, starts: list[IntArray], rng: np.random.Generator, walks: int, steps: int
) -> IntArray:
    """A good clustering, found in milliseconds: the best of short walks and of descents from ``starts``."""
    if problem.question.max_radius is not None:
        return covering_labels(problem)
    search = Search(problem, Chain(), steps)
    found = [search.restart(item) for item in enumerate(rng.spawn(walks))]
    tried = [*((walk.labels, walk.cost) for walk in found), *(problem.descended(start) for start in starts)]
    return min(tried, key=lambda pair: pair[1])[0]


def drawn_distance(U: FloatArray, best: LongArray, directed: bool) -> FloatArray:
    """The distances by a U whose rows' best columns are taken to be these [N]."""
    regret = np.maximum(0.0, U[np.arange(len(U)), best][:, None] - U)
    return sealed(regret if directed else np.maximum(regret, regret.T))


def gradient(problem: DistanceProblem, U: FloatArray, best: LongArray, labels: IntArray, kept: LongArray) -> FloatArray:
    """d mean radius / d U [N, M]: a cell's radius is a regret, that of the member worst off under its policy."""
    slopes, rows, distance = np.zeros(U.shape), np.arange(len(U)), problem.distance
    regret = U[rows, best][:, None] - U
    for cell, policy in enumerate(kept.tolist()):
        members = np.flatnonzero(labels == cell)
        task = int(members[np.argmax(distance[members, policy])])
        if not distance[task, policy] > 0.0:
            continue
        if not problem.directed and regret[policy, task] > regret[task, policy]:
            task, policy = policy, task
        slopes[task, best[task]] += len(members) / len(labels)
        slopes[task, policy] -= len(members) / len(labels)
    return slopes


def carried(slopes: FloatArray, beta: FloatArray, pivot: LongArray) -> FloatArray:
    """What the estimate depends on, entry by entry: the pivot carries its own slope and its part of the others'."""
    out = slopes.copy()
    out[np.arange(len(slopes)), pivot] += (slopes * beta).sum(axis=1)
    return out


def parts(errors: FloatArray) -> FloatArray:
    """What part of a variance is due to each entry."""
    squares = errors**2
    return squares / squares.sum() if squares.any() else squares


def _together(own: FloatArray, deciding: FloatArray) -> FloatArray:
    """Claims that sum to 1, or to 0 where nothing matters."""
    mine, others = float(own.sum()), float(deciding.sum())
    if mine == 0.0 or others == 0.0:
        return np.asarray((own + deciding) / max(mine + others, 1e-300))
    return np.asarray(OWN * own / mine + (1.0 - OWN) * deciding / others)
