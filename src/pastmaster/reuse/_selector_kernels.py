"""How a selector weighs its arms, draws one, and learns from an episode's return.

A selector is three arrays, so that the episode engine can work on the very state that ``ask`` and ``tell`` work on:
``arms`` [rows, c + 1], one column to an arm, the learner last; ``memory``, numbers that change; ``settings``, numbers
that do not. ``at`` names the rows and places (see ``_layout``).

Every rule is a pair of functions, ``weigh_...`` and ``credit_...``. ``weigh`` and ``credit`` choose among them by the
number ``RULE``: a function passed to a kernel would be compiled anew in every process. Scalars use libm's exp and log
(``math``), which the compiled loops, plain Python and C share to the last bit.
"""

import math

import numpy as np

from pastmaster.compiled import inlined, kernel
from pastmaster.reuse import _balancing_kernels as balancing, _elimination_kernels as evidence, _layout as at

SHIFT_LIMIT = 40.0  # weights stay below exp(40) relative to their shift
ROUNDING = 1e-9  # of the bounds' size


@inlined
def choose(arms, memory, settings, u):
    """Weigh the arms and draw one."""
    if settings[at.RULE] == at.EXP3:  # without the call, which would cost as much as the weighing
        weigh_exp3(arms, settings[at.BETA])
    else:
        weigh(arms, memory, settings)
    memory[at.ASKED] += 1.0
    return draw(arms[at.PROBABILITY], u)


@inlined
def record(arms, memory, settings, arm, episode_return, likelihood):
    """Learn from the latest episode; False, and nothing changed, if its return is outside the bounds and not clipped.

    ``take`` does the same for an episode that was asked for before others.
    """
    rule = settings[at.RULE]
    if refused(settings, rule, episode_return):
        return False
    x = payoff(memory, settings, rule, episode_return)
    learn(arms, memory, settings, rule, arm, memory[at.ASKED], x, likelihood)
    count(arms, memory, settings, rule, arm, x)
    see(arms, settings, arm, x)
    review(arms, memory, settings, rule)
    return True


@kernel
def ask(arms, memory, settings, u):
    """``choose`` an arm, which then has an open episode, and the number of asks so far."""
    arm = choose(arms, memory, settings, u)
    await_return(arms, memory, settings, arm, 1.0)
    return arm, memory[at.ASKED]


@kernel
def await_return(arms, memory, settings, arm, change):
    """One more open episode of an arm, or one less."""
    arms[at.OPEN, arm] += change
    if settings[at.RULE] == at.BALANCING and arm < arms.shape[1] - 1:
        memory[at.AWAITED] += change


@kernel
def take(arms, memory, settings, arm, t, chances, episode_return, likelihood, seen):
    """Learn from an open episode, which was ask number t, with these probabilities; returns its payoff.

    It is NaN, and nothing changed, if the return is refused. ``seen``: no other episode is open or waits; otherwise the
    payoffs that can now be seen are still to be passed to ``catch_up``.
    """
    rule = settings[at.RULE]
    if refused(settings, rule, episode_return):
        return np.nan
    x = payoff(memory, settings, rule, episode_return)
    for i in range(len(chances)):
        arms[at.PROBABILITY, i] = chances[i]
    await_return(arms, memory, settings, arm, -1.0)
    if rule != at.EXP3 or arms[at.ACTIVE, arm] != 0.0 or len(likelihood) > 0:  # or it was dropped since its ask
        learn(arms, memory, settings, rule, arm, t, x, likelihood)
    count(arms, memory, settings, rule, arm, x)
    if seen:
        see(arms, settings, arm, x)
        review(arms, memory, settings, rule)
    return x


@kernel
def catch_up(arms, memory, settings, who, payoffs, told):
    """See payoffs in the order of their asks, and review if an episode was told."""
    for k in range(len(who)):
        see(arms, settings, who[k], payoffs[k])
    if told:
        review(arms, memory, settings, settings[at.RULE])


@inlined
def refused(settings, rule, episode_return):
    """Whether a return is outside the bounds and not to be clipped; policy reuse has no bounds."""
    within = settings[at.LEAST] <= episode_return <= settings[at.MOST]
    return not within and settings[at.CLIP] == 0.0 and rule != at.POLICY_REUSE


@inlined
def payoff(memory, settings, rule, episode_return):
    """A return as a payoff in 0 .. 1, clipped if it must be; policy reuse takes it as it is."""
    if rule == at.POLICY_REUSE:
        return episode_return
    if not settings[at.LEAST] <= episode_return <= settings[at.MOST]:
        memory[at.CLIPPED] += 1.0
    span = settings[at.UPPER] - settings[at.LOWER]
    return min(max((episode_return - settings[at.LOWER]) / span, 0.0), 1.0)


@inlined
def learn(arms, memory, settings, rule, arm, t, x, likelihood):
    """Weigh the arms by one more payoff.

    ``arms[PROBABILITY]`` and ``t`` are those at the ask of the episode. ``likelihood`` [c + 1], or empty: how likely
    each arm would have been to act as the episode did. Estimates then divide by the total probability of those acts,
    sum_j p_j likelihood_j, rather than by p_arm.
    """
    if rule == at.EXP3 and len(likelihood) == 0:  # ``credit`` written out: its calls cost a fifth
        arms[at.LOG_WEIGHT, arm] += settings[at.BETA] * (x / arms[at.PROBABILITY, arm]) / arms.shape[1]
        if arms[at.LOG_WEIGHT, arm] > memory[at.SHIFT] + SHIFT_LIMIT:
            shift_weights(arms, memory)
        else:
            arms[at.WEIGHT, arm] = math.exp(arms[at.LOG_WEIGHT, arm] - memory[at.SHIFT])
    else:
        credit(arms, memory, settings, arm, t, x, likelihood)


@inlined
def count(arms, memory, settings, rule, arm, x):
    """Count a payoff that was told."""
    if rule == at.POLICY_REUSE:
        n = arms[at.COUNT, arm]
        arms[at.MEAN_RETURN, arm] = (arms[at.MEAN_RETURN, arm] * n + x) / (n + 1.0)
    arms[at.COUNT, arm] += 1.0
    arms[at.TOTAL, arm] += x
    if rule == at.BALANCING:
        balancing.settle_payoff(arms, memory, settings, arm)


@inlined
def see(arms, settings, arm, x):
    """Take a payoff as evidence about the arm; payoffs are seen in the order of their asks."""
    if settings[at.ELIMINATION] != at.NEVER:
        arms[at.SEEN, arm] += 1.0
        arms[at.SEEN_TOTAL, arm] += x
        arms[at.SEEN_SQUARES, arm] += x * x


@inlined
def review(arms, memory, settings, rule):
    """One more episode was told: drop sources if it is time to compare them."""
    memory[at.EPISODE] += 1.0
    if settings[at.ELIMINATION] != at.NEVER and memory[at.EPISODE] >= memory[at.NEXT_CHECK]:
        memory[at.NEXT_CHECK] += settings[at.CHECK_EVERY]
        if evidence.eliminate(arms, settings, memory[at.EPISODE]) and rule == at.EXP3:
            shift_weights(arms, memory)


@kernel
def weigh(arms, memory, settings):
    """Write the probability of each arm."""
    rule = settings[at.RULE]
    if rule == at.EXP3:
        weigh_exp3(arms, settings[at.BETA])
    elif rule == at.TSALLIS:
        weigh_tsallis(arms, memory, memory[at.ASKED] + 1.0, settings[at.REDUCED_VARIANCE] != 0.0)
    elif rule == at.BALANCING:
        balancing.weigh_balancing(arms, memory, settings)
    else:
        weigh_softmax(arms, settings[at.TEMPERATURE] + settings[at.TEMPERATURE_STEP] * memory[at.ASKED])


@kernel
def credit(arms, memory, settings, arm, t, x, likelihood):
    """Add the estimate of every arm's payoff, or loss, to what is known of it; of EXP-3 only where shared."""
    rule = settings[at.RULE]
    if rule == at.EXP3:
        credit_exp3(arms, memory, settings[at.BETA], x, likelihood)
    elif rule == at.TSALLIS:
        credit_tsallis(arms, t, settings[at.REDUCED_VARIANCE] != 0.0, arm, x, likelihood)
    elif rule == at.BALANCING:
        balancing.credit_balancing(arms, memory, arm, x)


# EXP-3


@inlined
def weigh_exp3(arms, beta):
    """p_i = (1 - beta) w_i / sum of w over active arms + beta / their number."""
    total, n_active = 0.0, 0.0
    for i in range(arms.shape[1]):
        total += arms[at.WEIGHT, i]  # 0 for an arm out of play
        n_active += arms[at.ACTIVE, i]
    scale, floor = (1.0 - beta) / total, beta / n_active
    for i in range(arms.shape[1]):
        arms[at.PROBABILITY, i] = arms[at.ACTIVE, i] * (scale * arms[at.WEIGHT, i] + floor)


@inlined
def credit_exp3(arms, memory, beta, x, likelihood):
    """Raise the log-weight of every arm that could have acted as the episode did."""
    n_arms = arms.shape[1]
    chance = shared_chance(arms, likelihood)
    for i in range(n_arms):
        if likelihood[i] > 0.0 and arms[at.ACTIVE, i] != 0.0:
            arms[at.LOG_WEIGHT, i] += beta * (x * likelihood[i] / chance) / n_arms
            if arms[at.LOG_WEIGHT, i] > memory[at.SHIFT] + SHIFT_LIMIT:
                shift_weights(arms, memory)
            else:
                arms[at.WEIGHT, i] = math.exp(arms[at.LOG_WEIGHT, i] - memory[at.SHIFT])


@kernel
def shift_weights(arms, memory):
    """Make weights relative to the largest in play."""
    memory[at.SHIFT] = -np.inf
    for i in range(arms.shape[1]):
        if arms[at.ACTIVE, i] != 0.0:
            memory[at.SHIFT] = max(memory[at.SHIFT], arms[at.LOG_WEIGHT, i])
    for i in range(arms.shape[1]):
        in_play = arms[at.ACTIVE, i] != 0.0
        arms[at.WEIGHT, i] = math.exp(arms[at.LOG_WEIGHT, i] - memory[at.SHIFT]) if in_play else 0.0


# Tsallis-INF


@kernel
def tsallis_rate(t, reduced):
    """eta_t = 4 / sqrt(t) with the reduced-variance estimator, 2 / sqrt(t) with importance weights alone."""
    return (4.0 if reduced else 2.0) / math.sqrt(t)


@kernel
def weigh_tsallis(arms, memory, t, reduced):
    """p_i = 4 (eta_t (L_i - x))^-2, x such that they sum to 1.

    The sum f(x) - 1 is increasing and convex below the smallest L, and x lies left of min L - 2 / eta, where the best
    arm alone has weight 1. So a Newton step from anywhere lands right of x or on it, and from there on they only fall.
    """
    n_arms, eta = arms.shape[1], tsallis_rate(t, reduced)
    least = np.inf
    for i in range(n_arms):
        if arms[at.ACTIVE, i] != 0.0:
            least = min(least, arms[at.LOSS, i])
    ceiling = least - 2.0 / eta
    x = min(memory[at.NORMALISER], ceiling)
    for _ in range(100):
        total, slope = 0.0, 0.0
        for i in range(n_arms):
            if arms[at.ACTIVE, i] != 0.0:
                inverse = 2.0 / (eta * (arms[at.LOSS, i] - x))
                total += inverse * inverse
                slope += inverse * inverse * inverse
        step = (total - 1.0) / (eta * slope)
        x = min(x - step, ceiling)
        if abs(step) <= 1e-13 * (abs(x) + 2.0 / eta):
            break
    memory[at.NORMALISER] = x
    total = 0.0
    for i in range(n_arms):
        inverse = 2.0 / (eta * (arms[at.LOSS, i] - x)) if arms[at.ACTIVE, i] != 0.0 else 0.0
        arms[at.PROBABILITY, i] = inverse * inverse
        total += arms[at.PROBABILITY, i]
    for i in range(n_arms):
        arms[at.PROBABILITY, i] /= total


@inlined
def credit_tsallis(arms, t, reduced, arm, x, likelihood):
    """Add the estimated loss of every arm: (loss - b) share / chance + b, b = 1/2 where p >= eta^2, else 0."""
    n_arms, eta = arms.shape[1], tsallis_rate(t, reduced)
    chance = shared_chance(arms, likelihood) if len(likelihood) else arms[at.PROBABILITY, arm]
    for i in range(n_arms):
        base = 0.5 if reduced and arms[at.PROBABILITY, i] >= eta * eta else 0.0
        share = likelihood[i] if len(likelihood) else 1.0 if i == arm else 0.0
        arms[at.LOSS, i] += (1.0 - x - base) * share / chance + base


# policy reuse


@kernel
def weigh_softmax(arms, temperature):
    """p_i in proportion to exp(temperature * mean return)."""
    n_arms, greatest, total = arms.shape[1], -np.inf, 0.0
    for i in range(n_arms):
        greatest = max(greatest, arms[at.MEAN_RETURN, i])
    for i in range(n_arms):
        arms[at.PROBABILITY, i] = math.exp(temperature * (arms[at.MEAN_RETURN, i] - greatest))
        total += arms[at.PROBABILITY, i]
    for i in range(n_arms):
        arms[at.PROBABILITY, i] /= total


# all of them


@inlined
def shared_chance(arms, likelihood):
    """How likely the acts of an episode were, whichever arm ran it."""
    chance = 0.0
    for i in range(arms.shape[1]):
        chance += arms[at.PROBABILITY, i] * likelihood[i]
    return chance


@inlined
def draw(chances, u):
    """Where a uniform number falls among probabilities; the last possible place if rounding leaves a gap at the top."""
    reached, last = 0.0, 0
    for i in range(len(chances)):
        if chances[i] > 0.0:
            last = i
            reached += chances[i]
            if u < reached:
                break
    return last


@kernel
def rounding(lower, upper):
    """How far outside the bounds a return still counts as one of them, rounded."""
    return min(ROUNDING * max(abs(lower), abs(upper)), 1e-6 * (upper - lower))


@inlined
def outside(episode_return, lower, upper):
    """Whether a return lies outside the bounds by more than rounding."""
    slack = rounding(lower, upper)
    return not lower - slack <= episode_return <= upper + slack
