"""How a selector weighs its arms, draws one, and learns from an episode's return.

A selector is three arrays, so that the episode engine can work on the very state that ``ask`` and ``tell`` work on:
``arms`` [rows, c + 1], one column to an arm, the learner last; ``memory``, numbers that change; ``settings``, numbers
that do not. The rows and places are named below. Scalars use libm's exp and log (``math``), which the compiled loops,
plain Python and C share to the last bit.
"""

import math

import numpy as np

from oldhand.compiled import inlined, kernel

# rows of ``arms``
ACTIVE = 0  # 1 while the arm may be chosen
COUNT = 1  # own episodes
TOTAL = 2  # payoffs of own episodes, summed
SCORE = 3  # EXP-3: log-weight; Tsallis-INF: estimated loss so far; policy reuse: mean return
WEIGHT = 4  # EXP-3: exp(log-weight - shift)
PROBABILITY = 5  # of the latest ask
DROPPED = 6  # the episode after which the arm was eliminated, -1 while it was not
DEVIATION = 7  # confidence sequence: sum of (x_n - mean_n)^2
SLOPE = 8  # sum of lambda_n
WEIGHTED = 9  # sum of lambda_n x_n
CHARGE = 10  # sum of (x_n - mean_{n-1})^2 (-ln(1 - lambda_n) - lambda_n)
N_ROWS = 11

# places in ``memory``
EPISODE = 0  # episodes told
PENDING = 1  # the arm asked for and not yet told, or -1
SHIFT = 2  # EXP-3: what weights are relative to; Tsallis-INF: the normaliser
CLIPPED = 3  # returns clipped into the bounds
NEXT_CHECK = 4  # the number of episodes told at which sources are next compared
N_MEMORY = 5

# places in ``settings``
KIND = 0
LOWER = 1
UPPER = 2
CLIP = 3
ELIMINATION = 4
DELTA = 5
CHECK_EVERY = 6
RATE = 7  # EXP-3: beta; Tsallis-INF: 1 for reduced variance; policy reuse: temperature; balancing: kappa
RISE = 8  # policy reuse: what the temperature rises by per episode; balancing: the floor's factor
LEAST = 9  # the bounds with room for rounding
MOST = 10
N_SETTINGS = 11

EXP3, TSALLIS, BALANCING, SOFTMAX = 0, 1, 2, 3  # KIND
NONE, PAPER, ANYTIME = 0, 1, 2  # ELIMINATION
SHIFT_LIMIT = 40.0  # weights stay below exp(40) relative to their shift
LARGEST_LAMBDA = 0.75
ROUNDING = 1e-9  # of the bounds' size


@kernel
def weigh(arms, memory, settings):
    """Write the probability of each arm."""
    kind = settings[KIND]
    n_arms = arms.shape[1]
    if kind == EXP3:
        weigh_exp3(arms, settings[RATE])
    elif kind == TSALLIS:
        weigh_tsallis(arms, memory, memory[EPISODE] + 1.0, settings[RATE] != 0.0, n_arms)
    elif kind == SOFTMAX:
        weigh_softmax(arms, settings[RATE] + settings[RISE] * memory[EPISODE])
    else:
        weigh_balancing(arms, memory, settings)


@inlined
def weigh_exp3(arms, beta):
    """p_i = (1 - beta) w_i / sum of w over active arms + beta / their number."""
    total, n_active = 0.0, 0.0
    for i in range(arms.shape[1]):
        total += arms[WEIGHT, i]  # 0 for an arm out of play
        n_active += arms[ACTIVE, i]
    scale, floor = (1.0 - beta) / total, beta / n_active
    for i in range(arms.shape[1]):
        arms[PROBABILITY, i] = arms[ACTIVE, i] * (scale * arms[WEIGHT, i] + floor)


@kernel
def tsallis_rate(t, reduced):
    """eta_t = 4 / sqrt(t) with the reduced-variance estimator, 2 / sqrt(t) with importance weights alone."""
    return (4.0 if reduced else 2.0) / math.sqrt(t)


@kernel
def weigh_tsallis(arms, memory, t, reduced, n_arms):
    """p_i = 4 (eta_t (L_i - x))^-2 over the first ``n_arms`` arms, x such that they sum to 1.

    The sum f(x) - 1 is increasing and convex below the smallest L, and x lies left of min L - 2 / eta, where the best
    arm alone has weight 1. So a Newton step from anywhere lands right of x or on it, and from there on they only fall.
    """
    eta = tsallis_rate(t, reduced)
    least = np.inf
    for i in range(n_arms):
        if arms[ACTIVE, i] != 0.0:
            least = min(least, arms[SCORE, i])
    ceiling = least - 2.0 / eta
    x = min(memory[SHIFT], ceiling)
    for _ in range(100):
        total, slope = 0.0, 0.0
        for i in range(n_arms):
            if arms[ACTIVE, i] != 0.0:
                inverse = 2.0 / (eta * (arms[SCORE, i] - x))
                total += inverse * inverse
                slope += inverse * inverse * inverse
        step = (total - 1.0) / (eta * slope)
        x = min(x - step, ceiling)
        if abs(step) <= 1e-13 * (abs(x) + 2.0 / eta):
            break
    memory[SHIFT] = x
    total = 0.0
    for i in range(n_arms):
        inverse = 2.0 / (eta * (arms[SCORE, i] - x)) if arms[ACTIVE, i] != 0.0 else 0.0
        arms[PROBABILITY, i] = inverse * inverse
        total += arms[PROBABILITY, i]
    for i in range(n_arms):
        arms[PROBABILITY, i] /= total


@kernel
def weigh_softmax(arms, temperature):
    """p_i in proportion to exp(temperature * mean return)."""
    n_arms = arms.shape[1]
    greatest, total = -np.inf, 0.0
    for i in range(n_arms):
        greatest = max(greatest, arms[SCORE, i])
    for i in range(n_arms):
        arms[PROBABILITY, i] = math.exp(temperature * (arms[SCORE, i] - greatest))
        total += arms[PROBABILITY, i]
    for i in range(n_arms):
        arms[PROBABILITY, i] /= total


@kernel
def low_end(arms, i, log_level):
    """The lower end of a source's confidence sequence."""
    return 0.0 if arms[SLOPE, i] == 0.0 else (arms[WEIGHTED, i] - log_level - arms[CHARGE, i]) / arms[SLOPE, i]


@kernel
def high_end(arms, i, log_level):
    """The upper end of a source's confidence sequence, at most 1, as payoffs are."""
    if arms[SLOPE, i] == 0.0:
        return 1.0
    return min(1.0, (arms[WEIGHTED, i] + log_level + arms[CHARGE, i]) / arms[SLOPE, i])


@kernel
def leading_mean(arms):
    """The largest mean payoff measured among the sources in play, 0 before the first."""
    best = 0.0
    for i in range(arms.shape[1] - 1):
        if arms[ACTIVE, i] != 0.0 and arms[COUNT, i] > 0.0:
            best = max(best, arms[TOTAL, i] / arms[COUNT, i])
    return best


@kernel
def weigh_balancing(arms, memory, settings):
    """All to the learner while it has lost little to the best source, else Tsallis-INF among the sources."""
    c = arms.shape[1] - 1
    t = memory[EPISODE] + 1.0
    own = arms[COUNT, c]
    others = memory[EPISODE] - own
    owed = others < settings[RISE] * math.pow(c * t * t, 1.0 / 3.0)
    shortfall = own * leading_mean(arms) - arms[TOTAL, c]
    learner = c == 0 or (not owed and shortfall <= settings[RATE] * math.sqrt(t))
    if learner:
        for i in range(c):
            arms[PROBABILITY, i] = 0.0
    else:
        weigh_tsallis(arms, memory, others + 1.0, True, c)
    arms[PROBABILITY, c] = 1.0 if learner else 0.0


@inlined
def draw(arms, u):
    """The arm that a uniform number falls on; the last possible one where rounding leaves a gap at the top."""
    reached, last = 0.0, arms.shape[1] - 1
    for i in range(arms.shape[1]):
        if arms[PROBABILITY, i] > 0.0:
            last = i
            reached += arms[PROBABILITY, i]
            if u < reached:
                break
    return last


@inlined
def choose(arms, memory, settings, u):
    """Weigh the arms and draw one, which is then pending."""
    if settings[KIND] == EXP3:
        weigh_exp3(arms, settings[RATE])
    else:
        weigh(arms, memory, settings)
    arm = draw(arms, u)
    memory[PENDING] = arm
    return arm


@inlined
def normalised(episode_return, lower, upper):
    """x = (return - lower) / (upper - lower), which lies in [0, 1] for a return within the bounds."""
    return (episode_return - lower) / (upper - lower)


@kernel
def rounding(lower, upper):
    """How far outside the bounds a return is still taken for one of them, rounded."""
    return min(ROUNDING * max(abs(lower), abs(upper)), 1e-6 * (upper - lower))


@inlined
def outside(episode_return, lower, upper):
    """Whether a return lies outside the bounds by more than rounding."""
    slack = rounding(lower, upper)
    return not lower - slack <= episode_return <= upper + slack


@inlined
def record(arms, memory, settings, arm, episode_return, likelihood):
    """Learn from an episode; False, and nothing changed, if its return is outside the bounds and not to be clipped.

    ``likelihood`` [c + 1], or empty: how likely each arm would have been to act as the episode did. Estimates then
    divide by the total probability of those acts, sum_j p_j likelihood_j, rather than by p_arm.
    """
    kind = settings[KIND]
    lower, upper = settings[LOWER], settings[UPPER]
    if kind == SOFTMAX:
        n = arms[COUNT, arm]
        arms[SCORE, arm] = (arms[SCORE, arm] * n + episode_return) / (n + 1.0)
        arms[COUNT, arm] += 1.0
        arms[TOTAL, arm] += episode_return
    else:
        if not settings[LEAST] <= episode_return <= settings[MOST]:
            if settings[CLIP] == 0.0:
                return False
            memory[CLIPPED] += 1.0
        x = min(max(normalised(episode_return, lower, upper), 0.0), 1.0)
        if kind == EXP3 and len(likelihood) == 0:  # as ``estimate`` does, without its loops and calls
            arms[SCORE, arm] += settings[RATE] * (x / arms[PROBABILITY, arm]) / arms.shape[1]
            if arms[SCORE, arm] > memory[SHIFT] + SHIFT_LIMIT:
                shift_weights(arms, memory)
            arms[WEIGHT, arm] = math.exp(arms[SCORE, arm] - memory[SHIFT])
        else:
            estimate(arms, memory, settings, arm, x, likelihood)
        if (settings[ELIMINATION] == ANYTIME or kind == BALANCING) and arm < arms.shape[1] - 1:
            extend_confidence(arms, arm, x, math.log((arms.shape[1] - 1) / settings[DELTA]))
        arms[COUNT, arm] += 1.0
        arms[TOTAL, arm] += x
    memory[EPISODE] += 1.0
    memory[PENDING] = -1.0
    if settings[ELIMINATION] != NONE and memory[EPISODE] >= memory[NEXT_CHECK]:
        memory[NEXT_CHECK] += settings[CHECK_EVERY]
        if eliminate(arms, settings, memory[EPISODE]) and kind == EXP3:
            shift_weights(arms, memory)
    return True


@kernel
def estimate(arms, memory, settings, arm, x, likelihood):
    """Add the unbiased estimate of every arm's payoff, or loss, to its score."""
    kind, n_arms = settings[KIND], arms.shape[1]
    if kind == BALANCING:
        if arm == n_arms - 1:  # the learner keeps its own account
            return
        n_arms -= 1
    chance = arms[PROBABILITY, arm]
    if len(likelihood):
        chance = 0.0
        for i in range(n_arms):
            chance += arms[PROBABILITY, i] * likelihood[i]
    if kind == EXP3:
        for i in range(n_arms) if len(likelihood) else range(arm, arm + 1):
            share = likelihood[i] if len(likelihood) else 1.0
            if share > 0.0 and arms[ACTIVE, i] != 0.0:
                arms[SCORE, i] += settings[RATE] * (x * share / chance) / n_arms
                reweigh(arms, memory, i)
        return
    t = memory[EPISODE] + 1.0
    reduced = kind == BALANCING or settings[RATE] != 0.0
    if kind == BALANCING:
        t -= arms[COUNT, arms.shape[1] - 1]
    eta = tsallis_rate(t, reduced)
    for i in range(n_arms):
        base = 0.5 if kind == TSALLIS else 1.0 - mean_payoff(arms, i)
        gate = 1.0 if kind == TSALLIS else min(1.0, 4.0 * payoff_variance(arms, i))
        if not reduced or arms[PROBABILITY, i] < gate * eta * eta:
            base = 0.0
        share = likelihood[i] if len(likelihood) else 1.0 if i == arm else 0.0
        arms[SCORE, i] += (1.0 - x - base) * share / chance + base


@kernel
def reweigh(arms, memory, i):
    """Renew the weight of an arm whose log-weight grew; all of them if it outgrew the shift."""
    if arms[SCORE, i] > memory[SHIFT] + SHIFT_LIMIT:
        shift_weights(arms, memory)
    else:
        arms[WEIGHT, i] = math.exp(arms[SCORE, i] - memory[SHIFT])


@kernel
def shift_weights(arms, memory):
    """Make weights relative to the largest in play."""
    memory[SHIFT] = -np.inf
    for i in range(arms.shape[1]):
        if arms[ACTIVE, i] != 0.0:
            memory[SHIFT] = max(memory[SHIFT], arms[SCORE, i])
    for i in range(arms.shape[1]):
        arms[WEIGHT, i] = math.exp(arms[SCORE, i] - memory[SHIFT]) if arms[ACTIVE, i] != 0.0 else 0.0


@kernel
def mean_payoff(arms, i):
    """The mean payoff of an arm's own episodes, 1/2 before the first."""
    return arms[TOTAL, i] / arms[COUNT, i] if arms[COUNT, i] > 0.0 else 0.5


@kernel
def payoff_variance(arms, i):
    """The variance of a source's payoffs as estimated so far, starting from 1/4."""
    return (0.25 + arms[DEVIATION, i]) / (arms[COUNT, i] + 1.0)


@kernel
def extend_confidence(arms, i, x, log_level):
    """One more payoff of source i in its confidence sequence (see ``Exp3Transfer``)."""
    n, variance = arms[COUNT, i], payoff_variance(arms, i)
    slope = min(math.sqrt(2.0 * log_level / (variance * (n + 1.0) * math.log(n + 2.0))), LARGEST_LAMBDA)
    arms[SLOPE, i] += slope
    arms[WEIGHTED, i] += slope * x
    surprise = x - (0.5 + arms[TOTAL, i]) / (n + 1.0)
    arms[CHARGE, i] += surprise * surprise * (-math.log(1.0 - slope) - slope)
    error = x - (0.5 + arms[TOTAL, i] + x) / (n + 2.0)
    arms[DEVIATION, i] += error * error


@kernel
def eliminate(arms, settings, t):
    """Drop each source that another source in play is shown to beat, all compared as they stood; whether any was."""
    c = arms.shape[1] - 1
    dropped = False
    if settings[ELIMINATION] == ANYTIME:
        level = math.log(c / settings[DELTA]) if c else 0.0
        best = -np.inf
        for j in range(c):
            if arms[ACTIVE, j] != 0.0 and arms[COUNT, j] > 0.0:
                best = max(best, low_end(arms, j, level))
        for k in range(c):  # a low end is never above its own high end
            if arms[ACTIVE, k] != 0.0 and arms[COUNT, k] > 0.0 and best > high_end(arms, k, level):
                drop(arms, k, t)
                dropped = True
        return dropped
    level = math.log(2.0 * c / settings[DELTA]) if c else 0.0
    best = -np.inf
    for j in range(c):
        if arms[ACTIVE, j] != 0.0 and arms[COUNT, j] > 0.0:
            best = max(best, arms[TOTAL, j] / arms[COUNT, j])
    for k in range(c):
        if arms[ACTIVE, k] != 0.0 and arms[COUNT, k] > 0.0 and beaten(arms, k, best, level, t):
            drop(arms, k, t)
            dropped = True
    return dropped


@kernel
def drop(arms, k, t):
    """Take a source out of play, after t episodes."""
    arms[ACTIVE, k] = 0.0
    arms[DROPPED, k] = t


@kernel
def beaten(arms, k, best, level, t):
    """Whether some source in play when the check began beats k by the paper's test; ``best`` is the largest mean."""
    mean = arms[TOTAL, k] / arms[COUNT, k]
    if not 0.5 * (best - mean) > math.sqrt(level / (2.0 * arms[COUNT, k])):
        return False  # not even the largest mean is far enough above
    for j in range(arms.shape[1] - 1):
        if (arms[ACTIVE, j] != 0.0 or arms[DROPPED, j] == t) and arms[COUNT, j] > 0.0:
            half = 0.5 * (arms[TOTAL, j] / arms[COUNT, j] - mean)
            if half > math.sqrt(level / (2.0 * min(arms[COUNT, j], arms[COUNT, k]))):
                return True
    return False
