"""What the selectors are held against: the printed algorithms in plain Python floats and lists, slow and in full.

Written from the paper's Algorithm 1 as corrected, from Zimmert and Seldin's Tsallis-INF, from Waudby-Smith and Ramdas'
empirical Bernstein sequence and from Fernandez and Veloso's softmax, without looking at the kernels.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from functools import partial

import numpy as np
from reference import outcomes, start_distribution
from seams import selecting as kernels

from pastmaster import Exp3Transfer, Informed
from pastmaster.reuse import Episode

LEVEL = 1e-6  # the chance that a statistical test fails although all is well
UNIFORM = partial(Exp3Transfer, beta=1.0, elimination="none")  # every arm as likely as any other, whatever is told


def some_experience(selector, n_sources, bounds=(0.0, 1.0)):
    """``experience`` of five old tasks, for a selector (a class, partial or not, or a name) that takes it."""
    if getattr(selector, "func", selector) not in (Informed, "informed"):
        return {}
    share = np.random.default_rng(int(n_sources)).random((5, int(n_sources)))
    return {"experience": bounds[0] + (bounds[1] - bounds[0]) * share}


def forced(selector, arm, chances=None, time=None):
    """An open episode of this arm, whichever would have been drawn; asked for with these probabilities, at this t."""
    asked = selector.ask()
    kept = selector._asked.get(asked.number)
    selector.cancel(asked)
    kept.arm = arm
    kept.chances = kept.chances if chances is None else np.asarray(chances, float)
    kept.time = kept.time if time is None else time
    selector._asked.add(asked.number, kept)
    kernels.await_return(selector._arms, selector._memory, selector._settings, arm, 1.0)
    return Episode(arm, asked.number)


class Exp3:
    """Algorithm 1, with every payoff kept. Sources 0 .. c - 1, the learner c; payoffs are in [0, 1]."""

    def __init__(self, c, beta, *, elimination="none", delta=0.1, check_every=100):
        self.c, self.beta, self.elimination, self.delta, self.check_every = c, beta, elimination, delta, check_every
        self.log_weight = [0.0] * (c + 1)
        self.payoffs = [[] for _ in range(c + 1)]
        self.in_play = set(range(c + 1))
        self.eliminated_at = [-1] * c
        self.t = 0

    def probabilities(self):
        top = max(self.log_weight[i] for i in self.in_play)
        weight = [math.exp(self.log_weight[i] - top) if i in self.in_play else 0.0 for i in range(self.c + 1)]
        total, n = math.fsum(weight), len(self.in_play)
        return [
            (1 - self.beta) * weight[i] / total + self.beta / n if i in self.in_play else 0.0 for i in range(self.c + 1)
        ]

    def tell(self, arm, x):
        self.log_weight[arm] += self.beta / (self.c + 1) * x / self.probabilities()[arm]
        self.payoffs[arm].append(x)
        self.t += 1
        if self.elimination != "none" and self.t % self.check_every == 0:
            before = sorted(self.in_play - {self.c})  # C_t: all are compared as they stood
            for k in before:
                if any(self.beats(j, k) for j in before if j != k):
                    self.in_play.discard(k)  # from C_{t+1}
                    self.eliminated_at[k] = self.t

    def beats(self, j, k):
        one, other = self.payoffs[j], self.payoffs[k]
        if not one or not other:
            return False
        if self.elimination == "anytime":
            log_level = math.log(self.c / self.delta)
            return confidence_ends(one, log_level)[0] > confidence_ends(other, log_level)[1]
        gap = math.fsum(one) / len(one) - math.fsum(other) / len(other)
        return all(gap / 2 > math.sqrt(-math.log(self.delta / (2 * self.c)) / (2 * len(x))) for x in (one, other))


def log_capital(payoffs, mean, exactly=False):
    """What a bettor has who says that payoffs are more than ``mean`` in expectation, or what he has at least.

    The first capital, 1, is divided among bets of 3/4, 3/8, ..., in proportion to 1, 1/4, 1/9, ...
    """
    bets = [0.75 / 2**k for k in range(12)]
    parts = [1 / (k + 1) ** 2 for k in range(12)]
    total, squares = math.fsum(payoffs), math.fsum(x * x for x in payoffs)
    if not exactly and total > 0:  # the most scattered payoffs that have the same sums
        told = {squares / total: total * total / squares, 0.0: len(payoffs) - total * total / squares}
    else:
        told = Counter(payoffs)
    logs = [
        math.fsum(times * math.log1p(share / mean * (x - mean)) for x, times in told.items())
        + math.log(part / math.fsum(parts))
        for share, part in zip(bets, parts, strict=True)
    ]
    return max(logs) + math.log(math.fsum(math.exp(log - max(logs)) for log in logs))


def confidence_ends(payoffs, log_level):
    """The means that no bettor with a capital of exp(log_level) speaks against; each end fails with chance e^-level."""
    return _low_end(payoffs, log_level), 1 - _low_end([1 - x for x in payoffs], log_level)


def _low_end(payoffs, log_level):
    low, high = 0.0, math.fsum(payoffs) / max(len(payoffs), 1)
    for _ in range(60 if high > 0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if log_capital(payoffs, middle) >= log_level else (low, middle)
    return low


def tsallis_probabilities(losses, eta):
    """p_i = 4 (eta (L_i - x))^-2 with the x at which they sum to 1, by halving the interval it must lie in."""
    least = min(losses)
    low, high = least - 2 * math.sqrt(len(losses)) / eta, least - 2 / eta
    for _ in range(200):
        x = (low + high) / 2
        if math.fsum(4 / (eta * (loss - x)) ** 2 for loss in losses) > 1:
            high = x
        else:
            low = x
    return [4 / (eta * (loss - low)) ** 2 for loss in losses]


class Tsallis:
    """Tsallis-INF with either estimator of losses 1 - x; ``shares`` are the arms' likelihoods of the episode's acts."""

    def __init__(self, n_arms, reduced):
        self.losses, self.reduced, self.t = [0.0] * n_arms, reduced, 1

    @property
    def eta(self):
        return (4 if self.reduced else 2) / math.sqrt(self.t)

    def probabilities(self):
        return tsallis_probabilities(self.losses, self.eta)

    def base(self, i, p):
        """What is subtracted from arm i's loss before the division, and added back after it."""
        return 0.5 if self.reduced and p[i] >= self.eta**2 else 0.0

    def tell(self, arm, x, shares=None):
        p = self.probabilities()
        shares = [float(i == arm) for i in range(len(p))] if shares is None else shares
        chance = math.fsum(q * share for q, share in zip(p, shares, strict=True))
        for i, share in enumerate(shares):
            base = self.base(i, p)
            self.losses[i] += (1 - x - base) * share / chance + base
        self.t += 1


def learner_value(mdp, learner):
    """What a Q-learner would earn, in expectation, in its next own episode, by trying all that can happen.

    It learns within the episode, so that its policy changes on the way; ``learner`` itself stays as it is.
    """
    epsilon, n_actions = learner.epsilon, mdp.n_actions

    def value(learner, s, steps):
        if steps == 0:
            return 0.0
        row = learner.Q[s].tolist()
        ties = row.count(max(row))
        expected = 0.0
        for a in range(n_actions):
            chance_a = epsilon / n_actions + ((1 - epsilon) / ties if row[a] == max(row) else 0.0)
            for chance, following, reward, terminated in outcomes(mdp, s, a):
                after = copy.copy(learner)
                after.Q, after.visits = learner.Q.copy(), learner.visits.copy()
                after.learn(s, a, reward, following, terminated)
                rest = 0.0 if terminated else mdp.gamma * value(after, following, steps - 1)
                expected += chance_a * chance * (reward + rest)
        return expected

    return sum(p * value(learner, s, mdp.horizon) for s, p in enumerate(start_distribution(mdp)) if p > 0)
