"""What ``RegretBalancing`` and ``Informed`` are held against: their rule in plain Python, from all payoffs at once.

Written from the docstrings of ``_balancing_kernels`` and ``_model_kernels``, whose constants it shares. Nothing is
summed on the way: what is told is kept in lists, and means, likelihoods and accounts are computed anew from these at
every ask. What the rule itself remembers is kept too: the noise that likelihoods are computed with, when it chooses
again, the coefficients, and the guard's episodes.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, ndtr

from pastmaster.reuse import _balancing_kernels as rule, _model_kernels as model

QUIET = 1e-6


class Balancing:
    """Sources 0 .. c - 1, the learner c; payoffs in 0 .. 1. ``values`` [N, c] or None: what is known of old tasks."""

    def __init__(
        self, c, episodes=None, *, values=None, errors=None, spread=None, best=None, likeness=(1e-6, 0.5, 1.0, 0.0),
        kappa=0.25, preference=20.0, delta=0.1,
    ):  # fmt: skip
        self.c, self.T, self.kappa, self.preference, self.delta = c, episodes, kappa, preference, delta
        self.values = None if values is None else np.asarray(values, float)
        self.tau2, self.odd, self.unlike, self.omega2 = likeness
        if values is not None:
            zeros = np.zeros(self.values.shape)
            self.errors2 = zeros if errors is None else np.asarray(errors) ** 2
            self.spread2 = None if spread is None else np.asarray(spread) ** 2
            tops = self.values.max(axis=1) if c else np.full(len(self.values), -np.inf)
            self.best = tops if best is None else np.maximum(best, tops)
        self.noise_before = QUIET if values is None or spread is None else max(QUIET, float(self.spread2.mean()))
        self.noise = self.noise_before
        self.told = [[] for _ in range(c + 1)]  # payoffs in the order of tells
        self.open = [0] * (c + 1)
        self.asked = 0
        self.rate = [1.0, 1.0]  # sources, learner
        self.sure = 0.0  # the largest lower confidence bound of a source so far
        self.guard = 0
        self.repaying = False
        self.decide_at, self.chosen = 0, None
        self.active = [True] * c

    # what follows from the payoffs told

    @property
    def n_told(self):
        return sum(map(len, self.told))

    @property
    def of_sources(self):
        """The sources' episodes told, and open."""
        return sum(map(len, self.told[:-1])), sum(self.open[:-1])

    def n(self, j):
        return len(self.told[j]) + self.open[j]

    def within(self):
        """Episodes of sources beyond the first of each, and the squared distances from the means of their own."""
        own = [np.array(x) for x in self.told[:-1] if x]
        return sum(len(x) - 1 for x in own), math.fsum(((x - x.mean()) ** 2).sum() for x in own)

    def pooled(self, before, weight):
        repeats, squares = self.within()
        return (weight * before + squares) / (weight + repeats)

    @property
    def left(self):
        return max(self.asked, 16) if self.T is None else max(self.T - self.asked, 1)

    # the model

    def prior(self):
        """Mean and variance of what each source is worth in a task like none."""
        if self.values is not None:
            return self.values.mean(axis=0), self.values.var(axis=0)
        means = [0.5] + [np.mean(x) for x in self.told[:-1] if x]
        return np.full(self.c, np.mean(means)), np.full(self.c, np.var(means) + 1 / 12)

    def renewed_noise(self):
        """The noise that likelihoods are computed with: as before, unless it is now very different."""
        noise = self.pooled(self.noise_before, 1.0)
        return self.noise if self.noise / model.RECENT <= noise <= self.noise * model.RECENT else noise

    def likelihoods(self, j):
        """Logarithms: of source j's mean payoff under each old task, if j is not odd; and if it may be anything."""
        n, x = len(self.told[j]), math.fsum(self.told[j]) / len(self.told[j])
        pooled = self.renewed_noise()
        noise = self.spread2[:, j] if self.spread2 is not None else np.full(len(self.values), pooled)
        close = log_normal(x - self.values[:, j], self.tau2 + self.errors2[:, j] + noise / n)
        anything = log_normal(x - 1 / 2, 1 / 12 + self.tau2 + pooled / n)
        squares = math.fsum((payoff - x) ** 2 for payoff in self.told[j])
        variance = noise + model.UNSEEN_NOISE
        scatter = -0.5 * ((n - 1) * np.log(variance) + squares / variance) / (1 + self.omega2 * (n - 1) / 2)
        return close + scatter, anything + logsumexp(scatter) - math.log(len(scatter))

    def weights(self):
        """The probability of being like each old task, and of being like none."""
        if self.values is None:
            return np.empty(0), 1.0
        log_none = math.log(self.unlike)
        log_tasks = np.full(len(self.values), math.log((1 - self.unlike) / len(self.values)))
        for j in range(self.c):
            if self.told[j]:
                close, anything = self.likelihoods(j)
                log_tasks += np.logaddexp(math.log(1 - self.odd) + close, math.log(self.odd) + anything)
                log_none += anything
        top = max(log_none, log_tasks.max())
        tasks = np.where(log_tasks > top - model.FAR, np.exp(log_tasks - top), 0.0)
        none = math.exp(log_none - top)
        return tasks / (tasks.sum() + none), none / (tasks.sum() + none)

    def predict(self, tasks, none):
        """Mean and variance of what each source is worth, and the variance of one return: a mixture over tasks."""
        m, s2 = self.prior()
        mean, variance, spread = np.empty(self.c), np.empty(self.c), np.empty(self.c)
        self.if_odd = []  # of each source: mean and variance if it is worth anything, and how likely that is
        for j in range(self.c):
            n = len(self.told[j])
            own = math.fsum(self.told[j]) / n if n else 0.0
            before = (1 / 2, 1 / 12) if n and self.values is not None else (m[j], s2[j])
            free, wide = posterior(before[0], before[1] + self.tau2, own, self.noise, n)
            parts, total = [(none, free, wide, self.noise)], none
            close, anything = self.likelihoods(j) if n and len(tasks) else ([], 0.0)
            for i, weight in enumerate(tasks):
                noise = self.noise if self.spread2 is None else self.spread2[i, j]
                value, rest = posterior(self.values[i, j], self.tau2 + self.errors2[i, j], own, noise, n)
                chance = 0.0
                if n:
                    log_odd = math.log(self.odd) + anything
                    chance = math.exp(log_odd - np.logaddexp(math.log(1 - self.odd) + close[i], log_odd))
                total += weight * chance
                parts.append((weight * (1 - chance), value, rest, noise))
                parts.append((weight * chance, free, wide, noise))
            self.if_odd.append((free, wide, total))
            w, v, rests, noises = np.array(parts).T
            mean[j], spread[j] = w @ v, w @ noises
            variance[j] = max(w @ (v**2 + rests) - mean[j] ** 2, 0.0)
            if self.open[j] and variance[j] > 0:
                variance[j] = spread[j] / (spread[j] / variance[j] + self.open[j])
        return mean, variance, spread

    def worth(self, j, m, b, tasks, none, mean, variance, noise):
        """((R - m) E(E[v_j | m returns] - b)^+ - m E(b - v_j)^+) / m."""
        seen = math.sqrt(m * variance[j] / (m * variance[j] + noise[j])) if variance[j] > 0 else 0.0
        if self.values is None or self.n(j):
            gain = positive_part(mean[j] - b, seen * math.sqrt(variance[j]))
        else:
            v, weight = self.values[:, j], tasks + none / len(self.values)
            gain = weight @ np.maximum(mean[j] + seen * (v - mean[j]) - b, 0.0)
        return (self.left - m) * gain / m + mean[j] - b

    def worth_of_doubt(self, j, b, mean):
        """What it earns to run source j until it is shown to be odd: 2 s^2 ln(1 / p) / E (v - w)^2 episodes."""
        free, rest, p = self.if_odd[j]
        if self.values is None or not self.told[j] or self.open[j] or not 0 < p < 1:
            return -math.inf
        squared = ((free - mean[j]) / (1 - p)) ** 2 + rest
        m = max(1, math.ceil(2 * self.noise * math.log(1 / p) / squared))
        if m >= self.left / 2:
            return -math.inf
        deviation = rest * math.sqrt(m / (m * rest + self.noise))
        return (self.left - m) * p * positive_part(free - b, deviation) / m + mean[j] - b

    def potential(self, b, tasks, none):
        """How much more than the sources a learner may earn."""
        if self.values is None:
            return max(0.0, 1 - b) / 2
        untried = [j for j in range(self.c) if self.active[j] and not self.n(j)]
        reach = np.maximum(self.values[:, untried].max(axis=1, initial=-np.inf), b)
        beyond = np.maximum(self.best - b, 0.0)
        return none * beyond.mean() + tasks @ (np.maximum(self.best - reach, 0.0) * (beyond > 0))

    def possible(self):
        """The sources that may be the best: all in play should none be left."""
        in_play = [j for j in range(self.c) if self.active[j]]
        return [j for j in in_play if self.may_be_best(j)] or in_play

    def may_be_best(self, j):
        """Whether a source is in play and not surely worse than one has been shown to be."""
        return self.active[j] and (not self.told[j] or self.bounds(j)[1] >= self.sure)

    def bounds(self, j):
        """Hoeffding's, of what a source is worth."""
        n, mean = len(self.told[j]), math.fsum(self.told[j]) / len(self.told[j])
        half = width(n * math.sqrt(self.c), self.delta) / math.sqrt(n)
        return mean - half, mean + half

    def decide(self):
        self.noise = self.renewed_noise()
        tasks, none = self.weights()
        mean, variance, noise = self.predict(tasks, none)
        self.mean, self.variance, self.spread = mean, variance, noise
        in_play = self.possible()
        tried = [j for j in in_play if self.n(j)]
        lead = max(tried or in_play, key=lambda j: (mean[j], -j))
        self.arm, self.lead, worth = lead, mean[lead], model.NEGLIGIBLE * self.left
        for j in in_play:
            if tried and j == lead:
                continue
            many = math.ceil(noise[j] / max(variance[j], 1e-12))
            lengths = [1, many] if 1 < many < self.left / 2 else [1]
            found = max(self.worth(j, m, self.lead, tasks, none, mean, variance, noise) for m in lengths)
            found = max(found, self.worth_of_doubt(j, self.lead, mean))
            if found > worth:
                self.arm, worth = j, found
        self.more = self.potential(self.lead, tasks, none)
        self.searching = not tried or (self.arm != lead and worth >= model.PROMISING * self.more * self.left)
        self.hope = self.lead + math.sqrt(
            self.pooled(model.UNKNOWN_NOISE, model.FORMERLY) / max(len(self.told[lead]), 1)
        )
        stays = bool(tried) and self.arm == lead
        self.decide_at = self.n_told + (max(1, self.n_told // model.STAY) if stays else 1)

    # the accounts

    def account(self, side):
        """Episodes told and their payoffs: of the sources (0) or of the learner (1)."""
        payoffs = self.told[-1] if side else [x for own in self.told[:-1] for x in own]
        return len(payoffs), math.fsum(payoffs)

    def ends(self, side):
        """Lower and upper end of what an account earns."""
        n, u = self.account(side)
        half = width(n, self.delta) / math.sqrt(n)
        return u / n - half, u / n + half

    def compare(self):
        if self.account(0)[0] and self.account(1)[0]:
            for side in (0, 1):
                n = self.account(side)[0]
                while self.ends(side)[1] + self.rate[side] / math.sqrt(n) < self.ends(1 - side)[0]:
                    self.rate[side] *= 2

    def learners_turn(self, better):
        sources = self.rate[0] * math.sqrt(sum(self.of_sources) + 1)
        learner = self.rate[1] * math.sqrt(self.n(self.c) + 1)
        return learner <= self.preference * sources if better else self.preference * learner < sources

    def learner_seems_better(self):
        if sum(self.of_sources) == 0 or self.searching or self.more <= 0:
            return False
        shortfall = (self.n(self.c) + 1) * self.hope - math.fsum(self.told[-1])
        allowed = self.kappa * math.sqrt(self.asked + 1) * self.more / (self.more + self.hope)
        return shortfall <= allowed or (len(self.told[-1]) >= rule.FEW and self.repays())

    def repays(self):
        own = self.told[-1]
        mark = 2 ** int(math.log2(len(own)))
        early, late = np.mean(own[mark // 2 : mark]), own[mark:]
        young = 4 * len(late) < mark
        recent = early if young else np.mean(late)
        if recent >= self.hope:
            return True
        if not young:
            variance = max(recent * (1 - recent), self.pooled(self.noise_before, 1.0))
            slope = (recent - early + 1.5 * math.sqrt(2 * variance / len(late))) / ((len(own) - mark // 2) / 2)
            wait = (self.hope - recent) / slope if slope > 0 else math.inf
            lost = max(0.0, len(own) * self.hope - math.fsum(own)) + wait * (self.hope - recent)
            self.repaying = wait < self.left / 2 and (self.left - wait) * self.more > rule.SURELY * lost
        return self.repaying

    def another(self, need):
        """Of the sources tried least, less than ``need`` times, the one that may be worth most in a task like none."""
        means, variances = self.prior()
        runs = [self.n(j) for j in range(self.c) if self.active[j]]
        if min(runs) >= need:
            return None
        least = [j for j in range(self.c) if self.active[j] and self.n(j) == min(runs)]
        gains = [positive_part(means[j] - self.lead, math.sqrt(variances[j])) for j in least]
        return least[int(np.argmax(gains))]

    def least_trials(self, better):
        """How often each source is tried, whatever the model says."""
        least = int(better and 16 * self.left >= self.c**2)
        may_gain = not self.searching and self.left * (1 - self.lead) > self.lead
        if may_gain and self.left >= 1.5 * self.c**2:
            if self.asked >= 10 * self.c:
                least = 1
            if self.values is not None and self.asked >= self.c:
                enough = math.ceil(12 * self.pooled(self.noise_before, 1.0))
                least = max(least, min(enough, int(self.left / (rule.AFFORDABLE * self.c))))
        return least

    def guards(self):
        """The source in play with the largest upper confidence bound, open episodes as worth 1."""

        def reach(j):
            n = self.n(j)
            if not n:
                return math.inf
            return (math.fsum(self.told[j]) + self.open[j]) / n + width(n * math.sqrt(self.c), self.delta) / math.sqrt(
                n
            )

        return max((j for j in range(self.c) if self.active[j]), key=lambda j: (reach(j), -j))

    # ask and tell

    def probabilities(self):
        """Of the next ask; to be called once for each."""
        if self.c == 0:
            return [1.0]
        fresh = self.n_told < self.decide_at and not self.of_sources[1]
        if not fresh or not self.may_be_best(self.arm):
            self.decide()
        better = self.learner_seems_better()
        other = self.another(self.least_trials(better))
        if other is not None:
            self.arm, self.searching, self.decide_at, better = other, True, self.n_told, False
        self.guarding = False
        arm = self.c
        if not self.learners_turn(better):
            arm = self.arm
            if (self.guard + 1) * self.preference**2 <= sum(self.of_sources) + 1:
                self.guard, self.guarding = self.guard + 1, True
                arm = self.guards()
        alike = [arm]
        if arm < self.c and self.values is None and not self.n(arm):
            alike = [j for j in range(self.c) if self.active[j] and not self.n(j)]
        return [1 / len(alike) if i in alike else 0.0 for i in range(self.c + 1)]

    def ask(self, arm):
        self.asked += 1
        self.open[arm] += 1

    def cancel(self, arm):
        self.open[arm] -= 1

    def tell(self, arm, x):
        self.open[arm] -= 1
        self.told[arm].append(x)
        if arm < self.c:
            self.sure = max(self.sure, self.bounds(arm)[0])
        self.compare()


def posterior(mean, variance, own, noise, n):
    """Mean and variance of a normal value after n returns of this mean and noise."""
    if n == 0 or noise == 0.0:
        return (own, 0.0) if n else (mean, variance)
    precision = 1 / variance + n / noise
    return (mean / variance + own * n / noise) / precision, 1 / precision


def width(n, delta):
    """C(n)."""
    return math.sqrt(math.log(7 * n**2 / delta) / 2)


def log_normal(off, variance):
    """The logarithm of a normal density."""
    return -off * off / (2 * variance) - np.log(2 * math.pi * variance) / 2


def positive_part(mean, deviation):
    """E(v)^+ of a normal v."""
    if deviation <= 1e-12:
        return max(mean, 0.0)
    z = mean / deviation
    return 0.0 if z < -8 else mean * ndtr(z) + deviation * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
