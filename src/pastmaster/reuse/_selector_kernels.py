"""How a selector weighs its arms, draws one, and learns from an episode's return.

A selector is three arrays, so that the episode engine can work on the very state that ``ask`` and ``tell`` work on:
``arms`` [rows, c + 1], one column to an arm, the learner last; ``memory``, numbers that change; ``settings``, numbers
that do not. ``_layout`` names the rows and places. Scalars use libm's exp and log (``math``), which the compiled loops,
plain Python and C share to the last bit.
"""

import math

import numpy as np

from pastmaster.compiled import inlined, kernel
from pastmaster.reuse._elimination_kernels import (
    eliminate,
    extend_confidence,
    leading_mean,
    mean_payoff,
    payoff_variance,
)
from pastmaster.reuse._layout import (
    ACTIVE,
    ANYTIME,
    BALANCING,
    CHECK_EVERY,
    CLIP,
    CLIPPED,
    COUNT,
    DELTA,
    ELIMINATION,
    EPISODE,
    EXP3,
    KIND,
    LEAST,
    LOWER,
    MOST,
    NEXT_CHECK,
    NONE,
    PENDING,
    PROBABILITY,
    RATE,
    RISE,
    SCORE,
    SHIFT,
    SOFTMAX,
    TOTAL,
    TSALLIS,
    UPPER,
    WEIGHT,
)

SHIFT_LIMIT = 40.0  # weights stay below exp(40) relative to their shift
ROUNDING = 1e-9  # of the bounds' size


@kernel
def weigh(arms, memory, settings):
    """Write the probability of each arm."""
    kind = settings[KIND]
    if kind == EXP3:
        weigh_exp3(arms, settings[RATE])
    elif kind == TSALLIS:
        weigh_tsallis(arms, memory, memory[EPISODE] + 1.0, settings[RATE] != 0.0, arms.shape[1])
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
    if settings[KIND] == EXP3:  # without the call, which would cost as much as the weighing
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
        if kind == EXP3 and len(likelihood) == 0:
            arms[SCORE, arm] += settings[RATE] * (x / arms[PROBABILITY, arm]) / arms.shape[1]
            if arms[SCORE, arm] > memory[SHIFT] + SHIFT_LIMIT:  # ``reweigh`` written out: its call costs a fifth
                shift_weights(arms, memory)
            else:
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
    """Add the unbiased estimate of every arm's payoff, or loss, to its score; of EXP-3 only where shared."""
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
        for i in range(n_arms):
            if likelihood[i] > 0.0 and arms[ACTIVE, i] != 0.0:
                arms[SCORE, i] += settings[RATE] * (x * likelihood[i] / chance) / n_arms
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
