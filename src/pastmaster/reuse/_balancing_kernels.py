"""Who gets the next episode: the sources, among which a model chooses, or the learner. Neither can starve.

Sources and learner have an account each: n episodes of total payoff u, and a coefficient d, at first 1. The next
episode goes to the one with the smaller w d sqrt(n + 1), w = 1 for the one that seems better and ``PREFERENCE`` for the
other. After each episode, an account that is shown to earn less than its d allows,

    u / n + (d + C(n)) / sqrt(n)  <  u' / n' - C(n') / sqrt(n'),    C(n)^2 = ln(7 n^2 / delta) / 2,

u' and n' the other's, doubles its d until that is no longer so. This is the balancing of Dann, Gentile and Pacchiano
("Data-Driven Online Model Selection With Regret Guarantees", 2024), with the weights w added. Of the sources' episodes,
one in ``PREFERENCE`` squared is the guard's, which knows no old tasks: it runs the source in play with the largest mean
+ C(n sqrt(c)) / sqrt(n), as UCB does. In every episode the model leaves out the sources whose bound of this kind is
below the largest mean - C(n sqrt(c)) / sqrt(n) so far (``SURE``). ``docs/guarantees.md`` has what all this proves.

The learner seems better if more can be earned than by the sources (``POTENTIAL``), no source on trial promises enough,
and one of these holds: it has lost little to the best source so far; it earns more of late; or its progress,
extrapolated with 1.5 standard errors, repays in the episodes left four times what it has lost and still loses. The best
source is given the benefit of the doubt as long as its noise is hardly known (``HOPE``).
Where sources are few, each of them is tried once whatever the model says: before the learner, if c is at most four
times the root of the episodes left, and after 10 c episodes, if 1.5 c^2 are left and the best source leaves enough to
gain. With experience this begins after c episodes, as soon as c are at most 1 / ``AFFORDABLE`` of those left, and each
is tried more than once if that is affordable too: until the variance of its mean is that of a payoff of which nothing
is known, 1/12. For what old tasks say of a source can be wrong though all else they say is right, and then no return of
another source tells. Where sources are many, to try them all would cost more than it can find.
"""

import math

from pastmaster.compiled import kernel
from pastmaster.reuse import _layout as at, _model_kernels as model

SURELY = 4.0  # how many times it must repay what it loses
FEW = 8.0  # episodes of the learner before its progress is looked at
AFFORDABLE = 40.0  # a trial of every source is affordable if it takes this share of the episodes left, 1 / 40
SOURCES, LEARNER = 0, 1


@kernel
def settle_payoff(arms, memory, settings, arm):
    """After a payoff of this arm is counted: note what its source is surely worth, and compare the accounts."""
    if arm < arms.shape[1] - 1:
        model.raise_sure(arms, memory, settings[at.DELTA], arm)
    compare_accounts(arms, memory, settings)


@kernel
def compare_accounts(arms, memory, settings):
    """Double the coefficient of an account that earns less than it allows."""
    c = arms.shape[1] - 1
    n, m = memory[at.RUNS], arms[at.COUNT, c]
    if n > 0.0 and m > 0.0:
        delta = settings[at.DELTA]
        half, other_half = model.width(n, delta) / math.sqrt(n), model.width(m, delta) / math.sqrt(m)
        sources, learner = memory[at.EARNED] / n, arms[at.TOTAL, c] / m
        while sources + half + memory[at.RATE + SOURCES] / math.sqrt(n) < learner - other_half:
            memory[at.RATE + SOURCES] *= 2.0
        while learner + other_half + memory[at.RATE + LEARNER] / math.sqrt(m) < sources - half:
            memory[at.RATE + LEARNER] *= 2.0


@kernel
def is_learners_turn(arms, memory, settings, seems_better):
    """Whether the next episode goes to the learner."""
    c = arms.shape[1] - 1
    sources = memory[at.RATE + SOURCES] * math.sqrt(memory[at.RUNS] + memory[at.AWAITED] + 1.0)
    learner = memory[at.RATE + LEARNER] * math.sqrt(model.runs(arms, c) + 1.0)
    if seems_better:
        return learner <= settings[at.PREFERENCE] * sources
    return settings[at.PREFERENCE] * learner < sources


@kernel
def learner_seems_better(arms, memory, settings):
    """Whether the learner's next episodes seem to earn more, now or later, than those of the best source."""
    c = arms.shape[1] - 1
    best, more, n = memory[at.HOPE], memory[at.POTENTIAL], arms[at.COUNT, c]
    if memory[at.RUNS] + memory[at.AWAITED] == 0.0 or memory[at.SEARCHING] != 0.0 or more <= 0.0:
        return False
    shortfall = (model.runs(arms, c) + 1.0) * best - arms[at.TOTAL, c]  # should the next one pay nothing
    if shortfall <= settings[at.KAPPA] * math.sqrt(memory[at.ASKED] + 1.0) * more / (more + best):
        return True
    return n >= FEW and repays(arms, memory, settings, best, more)


@kernel
def repays(arms, memory, settings, best, more):
    """Whether the learner, should it go on to improve as it does, repays what it earns less than the best source."""
    c = arms.shape[1] - 1
    n, mark, before = arms[at.COUNT, c], memory[at.MARK], memory[at.BEFORE]
    early = (memory[at.MARK + 1] - memory[at.BEFORE + 1]) / (mark - before)
    recent = (arms[at.TOTAL, c] - memory[at.MARK + 1]) / (n - mark) if n - mark >= 0.25 * mark else early
    noise = model.noise_variance(memory, settings)
    if recent >= best:
        return True
    if n - mark < 0.25 * mark:  # the two windows before
        return memory[at.REPAYING] != 0.0
    error = 1.5 * math.sqrt(max(recent * (1.0 - recent), noise) * 2.0 / (n - mark))
    slope = 2.0 * (recent - early + error) / (n - before)
    left = model.episodes_left(memory, settings)
    wait = (best - recent) / slope if slope > 0.0 else math.inf
    lost = max(0.0, n * best - arms[at.TOTAL, c]) + wait * (best - recent)
    memory[at.REPAYING] = 1.0 if wait < 0.5 * left and (left - wait) * more > SURELY * lost else 0.0
    return memory[at.REPAYING] != 0.0


@kernel
def least_trials(arms, memory, settings, seems_better):
    """How often each source is to be tried, whatever the model says of it."""
    c = arms.shape[1] - 1
    left, best = model.episodes_left(memory, settings), memory[at.LEADING]
    least = 1.0 if seems_better and 16.0 * left >= c * c else 0.0
    may_gain = memory[at.SEARCHING] == 0.0 and left * (1.0 - best) > best
    if not may_gain or left < 1.5 * c * c:
        return least
    if memory[at.ASKED] >= 10.0 * c:
        least = 1.0
    if model.n_tasks(arms) > 0 and memory[at.ASKED] >= c:
        enough = math.ceil(model.noise_variance(memory, settings) / model.UNKNOWN_NOISE)
        least = max(least, min(enough, math.floor(left / (AFFORDABLE * c))))
    return least


@kernel
def weigh_balancing(arms, memory, settings):
    """All to one arm: the learner's, or the source that the model chooses, or the guard; or to several alike."""
    c = arms.shape[1] - 1
    if c == 0:
        arms[at.PROBABILITY, 0] = 1.0
        return
    stale = memory[at.EPISODE] >= memory[at.DECIDE_AT] or memory[at.AWAITED] > 0.0
    if stale or not model.may_be_best(arms, memory, settings[at.DELTA], int(memory[at.ARM])):
        model.decide(arms, memory, settings)
    seems_better = learner_seems_better(arms, memory, settings)
    least = least_trials(arms, memory, settings, seems_better)
    seems_better = not model.try_another(arms, memory, least) and seems_better
    arm = c
    if not is_learners_turn(arms, memory, settings, seems_better):
        arm = int(memory[at.ARM])
        asked = memory[at.RUNS] + memory[at.AWAITED] + 1.0
        if (memory[at.GUARD] + 1.0) * settings[at.PREFERENCE] * settings[at.PREFERENCE] <= asked:
            memory[at.GUARD] += 1.0
            arm = highest_reaching(arms, settings[at.DELTA])
    alike = arm < c and model.runs(arms, arm) == 0.0 and model.n_tasks(arms) == 0
    total = 0.0
    for i in range(c + 1):
        also = alike and i < c and arms[at.ACTIVE, i] != 0.0 and model.runs(arms, i) == 0.0
        arms[at.PROBABILITY, i] = 1.0 if also or i == arm else 0.0
        total += arms[at.PROBABILITY, i]
    for i in range(c + 1):
        arms[at.PROBABILITY, i] /= total


@kernel
def highest_reaching(arms, delta):
    """The source in play whose upper confidence bound is largest; of those never tried, the first."""
    found, most = -1, -1.0
    for j in range(arms.shape[1] - 1):
        n = model.runs(arms, j)
        if arms[at.ACTIVE, j] != 0.0:
            reach = math.inf
            if n > 0.0:
                reach = (arms[at.TOTAL, j] + arms[at.OPEN, j]) / n + model.half_width(arms, n, delta)
            if found < 0 or reach > most:
                found, most = j, reach
    return found


@kernel
def credit_balancing(arms, memory, arm, x):
    """One more payoff: the accounts, the learner's progress, and what a source's says of the task."""
    c = arms.shape[1] - 1
    if arm < c:
        memory[at.RUNS] += 1.0
        memory[at.EARNED] += x
        model.learn_return(arms, memory, arm, x)
        return
    n = arms[at.COUNT, c] + 1.0
    if n == 1.0 or n == 2.0 * memory[at.MARK]:
        memory[at.BEFORE], memory[at.BEFORE + 1] = memory[at.MARK], memory[at.MARK + 1]
        memory[at.MARK], memory[at.MARK + 1] = n, arms[at.TOTAL, c] + x
