"""What the sources are worth in a new task, by what they were worth in old ones; and which of them is worth trying.

The new task is *like* one of N old tasks, each as likely as the others, or like none (``UNLIKE``). If it is like task
i, source j is worth v_j = V_ij, up to a deviation of variance tau^2, and of e_ij^2 more where V_ij is an estimate; but
in a share of cases, ``ODD``, it is worth anything. A return is v_j plus noise, of variance s_ij^2 where that is known,
else as large as returns of one source were found to vary, sigma^2. So the mean x_j of n_j returns has the density

    N(x_j; V_ij, tau^2 + e_ij^2 + s_ij^2 / n_j)    or, if j is odd,    N(x_j; 1/2, 1/12 + tau^2 + sigma^2 / n_j),

1/2 and 1/12 mean and variance of a number that may be anything in 0 .. 1. (With those of column j instead, old tasks
that all say the same of a source would leave no way out where it is wrong.) How much these returns scatter says which
task it is, too: their squared distances from x_j, q_j in sum, have the density of n_j - 1 normal numbers of variance
s_ij^2, to the power 1 / (1 + omega^2 (n_j - 1) / 2). Among tasks that are alike ln s^2 has the variance omega^2, and
from n returns it is known up to 2 / (n - 1): the power is the share of this in both. The likelihood of task i is the
product over the sources tried of (1 - ODD) first + ODD second, the first times the density of q_j, the second times
its mean over all old tasks: one odd source cannot refute a task. That of "none" is the product of the second.
Without old tasks there is only "none", with the mean and variance of the sources tried so far (``set_prior``).

*Expectation.* If the task is like i, source j is worth V_ij before it was tried, and afterwards the mean of V_ij and
its own mean return, weighed by their precisions, 1 / (tau^2 + e_ij^2) and n_j / noise. If j is odd in task i, and if
the task is like none, m_j and S_j, mean and variance of column j, take the place of V_ij and tau^2 before it was tried,
1/2 and 1/12 afterwards. Mean and variance are those of the mixture of all. p_j is the probability that a source tried
is odd or the task like none, w_j what it then is worth.

*Which source to try.* Let b be the largest expectation among the sources tried, R the episodes left. To try source j
for m episodes earns m (E v_j - b) more than b, and gains up to (R - m) E(E[v_j | m returns] - b)^+ later. E[v_j | m
returns] is as far from its mean as v_j is, times sqrt(m s^2 / (m s^2 + noise)), s^2 the variance of v_j. m = 1 is
looked at, and the m at which half of that variance is known. A source tried that may be odd is also worth

    (R - m) p_j E(E[w_j | m returns] - b)^+ + m (E v_j - b),    m = 2 sigma^2 ln(1 / p_j) / E(w_j - v_j)^2,

where m is how many returns make it likely that it is odd, if it is: each of them multiplies the odds by e^(E(w_j -
v_j)^2 / (2 sigma^2)) on average, v_j what it is worth if not. The source with the largest sum for each episode of its
trial runs; if no sum is above R / 10,000, the best one, which then stays for a fiftieth of the episodes so far. Before
the first trial, b is the largest expectation of all. Open episodes are taken to pay what is expected.

Rows and places are those of ``_layout``; the weights of tasks are in the learner's column.
"""

import math

import numpy as np

from pastmaster.compiled import inlined, kernel
from pastmaster.reuse import _layout as at

FAR = 25.0  # what is less likely by so many powers of e is left out
ROUNDED = 40.0  # a sum's part that is less by so many powers of e is lost to rounding
RECENT = 1.3  # the noise changes by this factor before likelihoods are computed anew
ANYTHING = 0.5  # the mean of a payoff of which nothing is known
UNKNOWN_NOISE = 1.0 / 12.0  # its variance
UNSEEN_NOISE = 1e-4  # a variance that says nothing of a task: deviations of a hundredth of the bounds' span
FORMERLY = 0.1  # as if so many episodes had shown that
NEXT_TO_NOTHING = 1e-12  # a weight that cannot matter
NEGLIGIBLE = 1e-4  # a trial that gains less than this for each episode left is not worth the trouble
PROMISING = 0.1  # a trial that may gain less than this share of what the learner may gain does not keep it waiting
STAY = 50  # the best arm stays for 1 / STAY of the episodes so far


@inlined
def n_tasks(arms):
    """The number of old tasks."""
    return (arms.shape[0] - at.EXPERIENCE) // at.TABLES


@inlined
def table(arms, which):
    """The first row of one of the tables of old tasks."""
    return at.EXPERIENCE + which * n_tasks(arms)


@inlined
def runs(arms, j):
    """The episodes of a source, open ones too."""
    return arms[at.COUNT, j] + arms[at.OPEN, j]


@inlined
def noise_of(arms, memory, i, j):
    """The variance of one return of source j in old task i, or where that is not known, of returns here."""
    known = arms[table(arms, at.SPREADS) + i, j]
    return known if known >= 0.0 else memory[at.NOISE]


@inlined
def half_width(arms, n, delta):
    """Half of Hoeffding's interval of a source's value after n payoffs, for all n and all sources at once."""
    return width(n * math.sqrt(arms.shape[1] - 1), delta) / math.sqrt(n)


@kernel
def noise_variance(memory, settings):
    """The variance of a return around its source's value: of all sources together, and as it was in old tasks."""
    return (settings[at.NOISE_BEFORE] + memory[at.SQUARES]) / (1.0 + memory[at.REPEATS])


@kernel
def learn_return(arms, memory, arm, x):
    """One more payoff of a source, which is counted next; the likelihoods follow when they are needed."""
    n, total = arms[at.COUNT, arm], arms[at.TOTAL, arm]
    if n > 0.0:
        memory[at.REPEATS] += 1.0
        square = (x - total / n) * (x - (total + x) / (n + 1.0))
        arms[at.SCATTER, arm] += square
        memory[at.SQUARES] += square
    arms[at.CHANGED, arm] = 1.0


@kernel
def catch_up(arms, memory, settings):
    """Bring the likelihoods up to date: of sources with new returns, or of all if the noise is not what it seemed."""
    noise = noise_variance(memory, settings)
    all_of_them = not memory[at.NOISE] / RECENT <= noise <= memory[at.NOISE] * RECENT
    if all_of_them:
        memory[at.NOISE] = noise
    for j in range(arms.shape[1] - 1):
        if arms[at.COUNT, j] > 0.0 and (all_of_them or arms[at.CHANGED, j] != 0.0):
            weigh_tasks_by(arms, memory, settings, j)
            arms[at.CHANGED, j] = 0.0


@kernel
def weigh_tasks_by(arms, memory, settings, j):
    """How likely each old task makes the mean payoff of source j, as a logarithm."""
    n, count, around = arms[at.COUNT, j], n_tasks(arms), settings[at.DEVIATION_OF_TASKS]
    mean = arms[at.TOTAL, j] / n
    values, errors, scores = table(arms, at.VALUES), table(arms, at.ERRORS), table(arms, at.LIKELIHOODS)
    wide = log_normal(mean - ANYTHING, UNKNOWN_NOISE + around + memory[at.NOISE] / n)
    scatter, trust = arms[at.SCATTER, j], 1.0 / (1.0 + 0.5 * settings[at.DEVIATION_OF_NOISE] * (n - 1.0))
    top, total = -math.inf, 0.0
    for i in range(count):
        score = trust * log_scatter(scatter, n, noise_of(arms, memory, i, j))
        arms[scores + i, j] = score
        if score > top:
            total, top = total * math.exp(top - score) + 1.0, score
        else:
            total += math.exp(score - top)
    if count > 0:
        wide += top + math.log(total / count)
    odd, likely = math.log(settings[at.ODD]) + wide, math.log(1.0 - settings[at.ODD])
    for i in range(count):
        variance = around + arms[errors + i, j] + noise_of(arms, memory, i, j) / n
        close = likely + log_normal(mean - arms[values + i, j], variance) + arms[scores + i, j]
        apart = abs(odd - close)
        arms[scores + i, j] = max(odd, close) + (math.log1p(math.exp(-apart)) if apart < ROUNDED else 0.0)
    arms[at.ANY, j] = wide


@inlined
def log_scatter(scatter, n, noise):
    """How likely n normal payoffs scatter so much around their mean, as a logarithm, up to a constant."""
    variance = noise + UNSEEN_NOISE
    return -0.5 * ((n - 1.0) * math.log(variance) + scatter / variance)


@inlined
def log_normal(off, variance):
    """The logarithm of a normal density at this distance from its mean, up to a constant."""
    return -0.5 * (math.log(variance) + off * off / variance)


@kernel
def weigh_tasks(arms, settings):
    """Write the probability that the new task is like each old one; returns that of being like none."""
    count, c, scores = n_tasks(arms), arms.shape[1] - 1, table(arms, at.LIKELIHOODS)
    if count == 0:
        return 1.0
    none = math.log(settings[at.UNLIKE])
    for i in range(count):
        arms[scores + i, c] = math.log((1.0 - settings[at.UNLIKE]) / count)
    for j in range(c):
        if arms[at.COUNT, j] > 0.0:
            none += arms[at.ANY, j]
            for i in range(count):
                arms[scores + i, c] += arms[scores + i, j]
    top = none
    for i in range(count):
        top = max(top, arms[scores + i, c])
    none = math.exp(none - top)
    total = none
    for i in range(count):
        weight = math.exp(arms[scores + i, c] - top) if arms[scores + i, c] > top - FAR else 0.0
        arms[scores + i, c] = weight
        total += weight
    for i in range(count):
        arms[scores + i, c] /= total
    return none / total


@kernel
def tasks_that_matter(arms, none):
    """The old tasks that the new one may be like, or whose values it may have if it is like none."""
    count, c, scores = n_tasks(arms), arms.shape[1] - 1, table(arms, at.LIKELIHOODS)
    found, n = np.empty(count, np.int64), 0
    for i in range(count):
        if arms[scores + i, c] + none / count > NEXT_TO_NOTHING:
            found[n] = i
            n += 1
    return found[:n]


@kernel
def set_prior(arms):
    """Without experience: the mean of the sources tried and 1/2, and their variance plus 1/12, that of anything at all.

    So one source may be far better than all that were tried: otherwise many bad first returns would speak against it.
    """
    c = arms.shape[1] - 1
    n, total, squares = 1.0, 0.5, 0.25
    for j in range(c):
        if arms[at.COUNT, j] > 0.0:
            mean = arms[at.TOTAL, j] / arms[at.COUNT, j]
            n += 1.0
            total += mean
            squares += mean * mean
    mean = total / n
    variance = max(squares / n - mean * mean, 0.0) + 1.0 / 12.0
    for j in range(c):
        arms[at.PRIOR_MEAN, j], arms[at.PRIOR_VARIANCE, j] = mean, variance


@kernel
def predict(arms, memory, settings, none, tasks):
    """Write mean and variance of what each source is worth, and of one return, given the old tasks and its returns."""
    c, around, odd = arms.shape[1] - 1, settings[at.DEVIATION_OF_TASKS], math.log(settings[at.ODD])
    values, errors, scores = table(arms, at.VALUES), table(arms, at.ERRORS), table(arms, at.LIKELIHOODS)
    own, free, rest = np.zeros(c), np.empty(c), np.empty(c)
    for j in range(c):
        n = arms[at.COUNT, j]
        own[j] = arms[at.TOTAL, j] / n if n > 0.0 else 0.0
        mean, variance = arms[at.PRIOR_MEAN, j], arms[at.PRIOR_VARIANCE, j]
        if n > 0.0 and n_tasks(arms) > 0:  # a source that was tried may be worth anything
            mean, variance = ANYTHING, UNKNOWN_NOISE
        free[j], rest[j] = shrunk(mean, variance + around, own[j], memory[at.NOISE], n)
        arms[at.MEAN, j], arms[at.SPREAD, j] = none * free[j], none * memory[at.NOISE]
        arms[at.VARIANCE, j] = none * (free[j] * free[j] + rest[j])  # the mean of squares, at first
        arms[at.FREE, j], arms[at.REST, j], arms[at.CHANCE, j] = free[j], rest[j], none
    for i in tasks:
        weight = arms[scores + i, c]
        if weight == 0.0:
            continue
        for j in range(c):
            n, noise = arms[at.COUNT, j], noise_of(arms, memory, i, j)
            value, left = arms[values + i, j], around + arms[errors + i, j]
            if n > 0.0:
                value, left = shrunk(value, left, own[j], noise, n)
                share = min(0.0, odd + arms[at.ANY, j] - arms[scores + i, j])
                if share > -ROUNDED:
                    chance = math.exp(share)
                    arms[at.CHANCE, j] += weight * chance
                    value, left = mixed(chance, free[j], rest[j], value, left)
            arms[at.MEAN, j] += weight * value
            arms[at.VARIANCE, j] += weight * (value * value + left)
            arms[at.SPREAD, j] += weight * noise
    for j in range(c):
        mean, spread = arms[at.MEAN, j], arms[at.SPREAD, j]
        variance = max(arms[at.VARIANCE, j] - mean * mean, 0.0)
        waiting = arms[at.OPEN, j] * variance  # open episodes are taken to pay what is expected
        arms[at.VARIANCE, j] = variance * spread / (spread + waiting) if waiting > 0.0 else variance


@inlined
def mixed(chance, mean, variance, other_mean, other_variance):
    """Mean and variance of a value of the first kind with this chance, else of the other."""
    middle = chance * mean + (1.0 - chance) * other_mean
    apart = chance * (1.0 - chance) * (mean - other_mean) ** 2
    return middle, chance * variance + (1.0 - chance) * other_variance + apart


@inlined
def shrunk(value, variance, own, noise, n):
    """Mean and variance of a normal value after n returns of mean ``own``."""
    share = variance / (variance + noise / n) if n > 0.0 else 0.0
    return value + share * (own - value), (1.0 - share) * variance


@kernel
def gain_above(mean, deviation, level):
    """E(v - level)^+ of a normal v."""
    off = mean - level
    if deviation <= 1e-12:
        return max(off, 0.0)
    z = off / deviation
    if z < -8.0:
        return 0.0
    return off * 0.5 * math.erfc(-z / math.sqrt(2.0)) + deviation * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@kernel
def worth_of_trial(arms, j, none, tasks, best, left, m):
    """What m episodes of source j earn more than the best one, now and later, for each of them."""
    count, c = n_tasks(arms), arms.shape[1] - 1
    mean, variance = arms[at.MEAN, j], arms[at.VARIANCE, j]
    seen = math.sqrt(m * variance / (m * variance + arms[at.SPREAD, j])) if variance > 0.0 else 0.0
    gain = 0.0
    if count == 0 or runs(arms, j) > 0.0:
        gain = gain_above(mean, seen * math.sqrt(variance), best)
    else:
        values, scores, any_task = table(arms, at.VALUES), table(arms, at.LIKELIHOODS), none / count
        for i in tasks:
            weight = arms[scores + i, c] + any_task
            gain += weight * max(0.0, mean + seen * (arms[values + i, j] - mean) - best)
    return (left - m) * gain / m + mean - best


@kernel
def worth_of_doubt(arms, memory, j, best, left):
    """What it earns, for each episode, to run source j until it is shown to be odd, if it is.

    A normal value has no such thin tail as the two things that the source may be, and would never be worth it.
    """
    chance, noise = arms[at.CHANCE, j], memory[at.NOISE]
    if arms[at.COUNT, j] == 0.0 or arms[at.OPEN, j] > 0.0 or chance <= 0.0 or chance >= 1.0:
        return -math.inf
    free, rest, mean = arms[at.FREE, j], arms[at.REST, j], arms[at.MEAN, j]
    apart = (free - mean) / (1.0 - chance)
    m = max(1.0, math.ceil(-2.0 * noise * math.log(chance) / (apart * apart + rest)))
    if m >= 0.5 * left:
        return -math.inf
    seen = math.sqrt(m * rest / (m * rest + noise)) if rest > 0.0 else 0.0
    return (left - m) * chance * gain_above(free, seen * math.sqrt(rest), best) / m + mean - best


@inlined
def may_pay(arms, j, best, left, most):
    """Whether a trial of source j can be worth so much: E(v - b)^+ <= (sqrt(Var v + d^2) - d) / 2, d = b - E v."""
    below = best - arms[at.MEAN, j]
    return 0.5 * left * (math.sqrt(arms[at.VARIANCE, j] + below * below) - below) - below > most


@kernel
def width(n, delta):
    """C(n): the mean of n payoffs is within C(n) / sqrt(n) of its expectation, for all n at once."""
    return math.sqrt(0.5 * math.log(7.0 * n * n / delta))


@kernel
def raise_sure(arms, memory, delta, j):
    """Note the lower confidence bound of source j, which has just been told a payoff, if it is the largest so far."""
    n = arms[at.COUNT, j]
    memory[at.SURE] = max(memory[at.SURE], arms[at.TOTAL, j] / n - half_width(arms, n, delta))


@kernel
def may_be_best(arms, memory, delta, j):
    """Whether source j is in play and its upper confidence bound is not below the largest lower one so far."""
    n = arms[at.COUNT, j]
    if arms[at.ACTIVE, j] == 0.0 or n == 0.0:
        return arms[at.ACTIVE, j] != 0.0
    return arms[at.TOTAL, j] / n + half_width(arms, n, delta) >= memory[at.SURE]


@kernel
def rule_out(arms, memory, delta):
    """Mark the sources that may be the best; all that are in play should none be left."""
    c, left = arms.shape[1] - 1, 0
    for j in range(c):
        possible = may_be_best(arms, memory, delta, j)
        arms[at.POSSIBLE, j] = 1.0 if possible else 0.0
        left += 1 if possible else 0
    if left == 0:
        for j in range(c):
            arms[at.POSSIBLE, j] = arms[at.ACTIVE, j]


@kernel
def decide(arms, memory, settings):
    """Choose a source by the model, and note what it is worth."""
    count, c = n_tasks(arms), arms.shape[1] - 1
    catch_up(arms, memory, settings)
    if count == 0:
        set_prior(arms)
    none = weigh_tasks(arms, settings)
    tasks = tasks_that_matter(arms, none)
    predict(arms, memory, settings, none, tasks)
    rule_out(arms, memory, settings[at.DELTA])
    lead, first = -1, -1
    for j in range(c):
        if arms[at.POSSIBLE, j] != 0.0:
            if first < 0 or arms[at.MEAN, j] > arms[at.MEAN, first]:
                first = j
            if runs(arms, j) > 0.0 and (lead < 0 or arms[at.MEAN, j] > arms[at.MEAN, lead]):
                lead = j
    arm = leader = first if lead < 0 else lead
    best = arms[at.MEAN, leader]
    left = episodes_left(memory, settings)
    most = NEGLIGIBLE * left
    for j in range(c):
        if j != lead and arms[at.POSSIBLE, j] != 0.0 and may_pay(arms, j, best, left, most):
            many = math.ceil(arms[at.SPREAD, j] / max(arms[at.VARIANCE, j], 1e-12))
            worth = worth_of_trial(arms, j, none, tasks, best, left, 1.0)
            if 1.0 < many < 0.5 * left:
                worth = max(worth, worth_of_trial(arms, j, none, tasks, best, left, many))
            if count > 0:
                worth = max(worth, worth_of_doubt(arms, memory, j, best, left))
            if worth > most:
                most, arm = worth, j
    more = potential(arms, none, tasks, best)
    memory[at.ARM], memory[at.LEADING], memory[at.POTENTIAL] = arm, best, more
    memory[at.SEARCHING] = 1.0 if lead < 0 or (arm != lead and most >= PROMISING * more * left) else 0.0
    noise = (FORMERLY * UNKNOWN_NOISE + memory[at.SQUARES]) / (FORMERLY + memory[at.REPEATS])
    memory[at.HOPE] = best + math.sqrt(noise / max(arms[at.COUNT, leader], 1.0))
    told = memory[at.EPISODE]
    memory[at.DECIDE_AT] = told + (max(1.0, math.floor(told / STAY)) if arm == lead else 1.0)


@kernel
def try_another(arms, memory, need):
    """Choose the source tried least often, if less than ``need`` times; False if there is none.

    Of several it is the one that may be worth most in a task like no old one.
    """
    found, most = -1, -math.inf
    for j in range(arms.shape[1] - 1):
        if arms[at.ACTIVE, j] != 0.0 and runs(arms, j) < need:
            gain = gain_above(arms[at.PRIOR_MEAN, j], math.sqrt(arms[at.PRIOR_VARIANCE, j]), memory[at.LEADING])
            gain -= 2.0 * runs(arms, j)  # a gain is below 2
            if gain > most:
                found, most = j, gain
    if found >= 0:
        memory[at.ARM], memory[at.SEARCHING], memory[at.DECIDE_AT] = found, 1.0, memory[at.EPISODE]
    return found >= 0


@kernel
def potential(arms, none, tasks, best):
    """How much more a learner may earn than the sources, in expectation.

    If the task is like an old one: what that was worth beyond ``best`` and beyond all sources not tried yet; if it is
    like none, beyond ``best``. Without old tasks, half of what the bounds leave.
    """
    count, c = n_tasks(arms), arms.shape[1] - 1
    if count == 0:
        return 0.5 * max(0.0, 1.0 - best)
    values, scores, more = table(arms, at.VALUES), table(arms, at.LIKELIHOODS), 0.0
    for i in tasks:
        beyond, weight = arms[values + i, c] - best, arms[scores + i, c]
        if beyond > 0.0:
            more += none / count * beyond
            if weight > NEXT_TO_NOTHING:
                reach = best
                for j in range(c):
                    if arms[at.ACTIVE, j] != 0.0 and runs(arms, j) == 0.0:
                        reach = max(reach, arms[values + i, j])
                more += weight * max(0.0, arms[values + i, c] - reach)
    return more


@kernel
def episodes_left(memory, settings):
    """The episodes still to be asked for; where their number is not known, as many as there were, 16 at least."""
    if settings[at.HORIZON] > 0.0:
        return max(settings[at.HORIZON] - memory[at.ASKED], 1.0)
    return max(memory[at.ASKED], 16.0)


@kernel
def fit_tasks(V, rows, cut):
    """The nearest other row of some tasks' rows [len(rows)], and the distances from it, source by source."""
    found, where = np.empty((len(rows), V.shape[1])), np.empty(len(rows), np.int64)
    for r in range(len(rows)):
        nearest, least = -1, np.inf
        for i in range(len(V)):
            if i != rows[r]:
                total = 0.0
                for j in range(V.shape[1]):
                    total += min(abs(V[rows[r], j] - V[i, j]), cut)
                if total < least:
                    nearest, least = i, total
        where[r] = nearest
        for j in range(V.shape[1]):
            found[r, j] = abs(V[rows[r], j] - V[nearest, j])
    return where, found
