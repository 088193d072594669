"""Episodes of a tabular task, compiled: the twin of the plain loop in ``episodes``, bit for bit."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, IntArray
from pastmaster.compiled import inlined, kernel
from pastmaster.reuse._selector_kernels import choose, draw, record

TINY = 2.0**-500  # where all likelihoods are below it they are raised alike: only their ratios matter


class Sources(NamedTuple):
    """Source policies: ``actions`` [c, S]; ``mixed`` [c] is -1, or the place of a random policy in ``chances``."""

    actions: IntArray
    mixed: IntArray
    chances: FloatArray


class Learner(NamedTuple):
    """A Q-learner: ``steps`` by visits of (s, a), ``epsilons`` by own episodes, the last of each for ever after."""

    Q: FloatArray
    visits: npt.NDArray[np.int64]
    steps: FloatArray
    epsilons: FloatArray
    own_episodes: npt.NDArray[np.int64]


class Buffers(NamedTuple):
    """Room for one episode: who agrees with its actions so far, and what to undo in the learner."""

    likelihood: FloatArray
    agreeing: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    values: FloatArray


@kernel
def outcome(reach, u):
    """The first outcome whose cumulative probability exceeds u."""
    k = 0
    while reach[k] <= u:
        k += 1
    return k


@inlined
def one_of_best(Q, s, best, ties, first, epsilon, u):
    """The greedy action that a uniform number from epsilon on decides, of so many ties from ``first`` on."""
    action = first
    if ties > 1:
        pick = min(int((u - epsilon) / (1.0 - epsilon) * ties), ties - 1)
        while Q[s, action] != best or pick > 0:
            if Q[s, action] == best:
                pick -= 1
            action += 1
    return action


@inlined
def best_actions(Q, s):
    """The largest Q(s, a), how many actions have it, and the first of them."""
    best, ties, first = Q[s, 0], 1, 0
    for a in range(1, Q.shape[1]):
        if Q[s, a] > best:
            best, ties, first = Q[s, a], 1, a
        elif Q[s, a] == best:
            ties += 1
    return best, ties, first


@kernel
def epsilon_greedy(Q, s, epsilon, u):
    """One uniform number decides all: explore or not, and which action, or which of the best."""
    n_actions = Q.shape[1]
    if u < epsilon:
        return min(int(u / epsilon * n_actions), n_actions - 1)
    best, ties, first = best_actions(Q, s)
    return one_of_best(Q, s, best, ties, first, epsilon, u)


@kernel
def action_likelihood(Q, s, epsilon, action):
    """How likely ``epsilon_greedy`` is to take the action."""
    best, ties, _ = best_actions(Q, s)
    return epsilon / Q.shape[1] + ((1.0 - epsilon) / ties if Q[s, action] == best else 0.0)


@kernel
def learn(learner, gamma, s, a, reward, following, terminated):
    """Q(s, a) += step * (r + gamma max Q(s') - Q(s, a)), without what follows where the episode is over."""
    Q = learner.Q
    target = reward
    if not terminated:
        best = Q[following, 0]
        for other in range(1, Q.shape[1]):
            best = max(best, Q[following, other])
        target = reward + gamma * best
    step = learner.steps[0]
    if len(learner.steps) > 1:
        step = learner.steps[min(learner.visits[s, a], len(learner.steps) - 1)]
        learner.visits[s, a] += 1
    Q[s, a] += step * (target - Q[s, a])


@kernel
def unlearn(learner, places, values, n):
    """Take back the latest n updates."""
    n_actions = learner.Q.shape[1]
    for i in range(n - 1, -1, -1):
        s, a = places[i] // n_actions, places[i] % n_actions
        learner.Q[s, a] = values[i]
        if len(learner.steps) > 1:
            learner.visits[s, a] -= 1


@kernel
def longer(array):
    """A copy with twice the room."""
    copy = np.empty(2 * len(array), array.dtype)
    for i in range(len(array)):
        copy[i] = array[i]
    return copy


@kernel
def still_agreeing(sources, buffers, n_agreeing, s, action, chance_of_learner):
    """Keep the sources that could have taken the action, with their likelihoods; returns their number."""
    c = len(sources.mixed)
    kept, greatest = 0, 0.0
    for place in range(n_agreeing):
        i = buffers.agreeing[place]
        if sources.mixed[i] < 0:
            chance = 1.0 if sources.actions[i, s] == action else 0.0
        else:
            chance = sources.chances[sources.mixed[i], s, action]
        buffers.likelihood[i] *= chance
        if chance > 0.0:
            buffers.agreeing[kept] = i
            kept += 1
            greatest = max(greatest, buffers.likelihood[i])
    buffers.likelihood[c] *= chance_of_learner
    if max(greatest, buffers.likelihood[c]) < TINY:
        for i in range(c + 1):
            buffers.likelihood[i] /= TINY
    return kept


@kernel
def learned_episode(
    Q, visits, steps, epsilon, source, actions, mixed, chances, psi, upsilon, next_state, rewards, ends, reach, s,
    gamma, horizon, environment, rng,
):  # fmt: skip
    """An episode that the learner learns from and that nobody shares; returns its discounted return.

    The action of a ``source`` (-1: none, the episode is the learner's own) is taken with probability psi, times upsilon
    at each step, else the learner's.

    The loop that most time is spent in, so written out: calls that pass arrays take longer than what they do. A row of
    Q is scanned once, for the update of the step before and for the next action; again if the update changed it.
    """
    n_actions = Q.shape[1]
    total, discount, step, size, reward = 0.0, 1.0, 0, steps[0], 0.0
    before, action, updating = np.int64(0), np.int64(0), False
    while True:
        best, ties, first = Q[s, 0], 0, np.int64(0)
        for a in range(1, n_actions):
            best = max(best, Q[s, a])
        for a in range(n_actions - 1, -1, -1):
            if Q[s, a] == best:
                ties, first = ties + 1, np.int64(a)
        if updating:
            Q[before, action] += size * (reward + gamma * best - Q[before, action])
            updating = False
            if before == s:
                continue
        if step == horizon:
            return total
        if source >= 0 and rng.random() < psi:
            if mixed[source] < 0:
                action = np.int64(actions[source, s])
            else:
                action = np.int64(draw(chances[mixed[source], s], rng.random()))
        else:
            u = rng.random()
            if u < epsilon:
                action = np.int64(min(int(u / epsilon * n_actions), n_actions - 1))
            else:
                action = one_of_best(Q, s, best, ties, first, epsilon, u)
        psi *= upsilon
        k = 0
        if reach.shape[2] > 1:
            v = environment.random()
            while reach[s, action, k] <= v:
                k += 1
        reward = rewards[s, action, k]
        total += discount * reward
        discount *= gamma
        if len(steps) > 1:
            size = steps[min(visits[s, action], len(steps) - 1)]
            visits[s, action] += 1
        if ends[s, action, k]:
            Q[s, action] += size * (reward - Q[s, action])
            return total
        before, s, updating = s, np.int64(next_state[s, action, k]), True
        step += 1


@kernel
def episode(task, sources, learner, arm, every, share, buffers, environment_rng, learner_rng):
    """Run one episode of any arm; returns its discounted return. With ``share``, fills ``buffers.likelihood``."""
    c = len(sources.mixed)
    own = arm == c
    learning = own or every or share
    undoing = share and not (own or every)
    epsilon = learner.epsilons[min(learner.own_episodes[0], len(learner.epsilons) - 1)]
    places, values, n_agreeing = buffers.places, buffers.values, 0
    if share:
        n_agreeing = c
        for i in range(c):
            buffers.agreeing[i] = i
            buffers.likelihood[i] = 1.0
        buffers.likelihood[c] = 1.0
    total, discount, step, terminated = 0.0, 1.0, 0, False
    s = np.int64(task.start_states[outcome(task.start_reach, environment_rng.random())])
    while not terminated and step < task.horizon:
        if own:
            action = epsilon_greedy(learner.Q, s, epsilon, learner_rng.random())
        elif sources.mixed[arm] < 0:
            action = np.int64(sources.actions[arm, s])
        else:
            action = draw(sources.chances[sources.mixed[arm], s], learner_rng.random())
        if share:
            chance = action_likelihood(learner.Q, s, epsilon, action)
            n_agreeing = still_agreeing(sources, buffers, n_agreeing, s, action, chance)
        k = 0
        if task.reach.shape[2] > 1:
            k = outcome(task.reach[s, action], environment_rng.random())
        following, reward = np.int64(task.next_state[s, action, k]), task.reward[s, action, k]
        terminated = task.terminated[s, action, k]
        total += discount * reward
        discount *= task.gamma
        if learning:
            if undoing:
                if step == len(places):
                    places, values = longer(places), longer(values)
                places[step], values[step] = s * learner.Q.shape[1] + action, learner.Q[s, action]
            learn(learner, task.gamma, s, action, reward, following, terminated)
        s = following
        step += 1
    if undoing:
        unlearn(learner, places, values, step)
    if own:
        learner.own_episodes[0] += 1
    return total


@kernel
def play(
    task, sources, learner, arms, memory, settings, every, share, mixing, psi, upsilon, buffers, constant,
    uniforms, environment_rng, learner_rng, first, until, returns, chosen,
):  # fmt: skip
    """Episodes from ``first`` on; returns the number of the next one, and whether the selector refused a return.

    They end at len(returns), when the learner has had ``until`` episodes of its own, or at the return that is refused:
    then the number is that episode's.

    ``uniforms`` [T] are the selector's random numbers, one to an episode. ``constant`` [c] holds returns known not to
    vary, NaN where unknown; it is empty where none can be constant. ``mixing``: sources and learner act in one
    episode, as policy reuse does; never with ``share``.
    """
    likelihood = buffers.likelihood[: len(buffers.likelihood) if share else 0]
    c, own_episodes, epsilons = len(sources.mixed), learner.own_episodes, learner.epsilons
    for t in range(first, len(returns)):
        arm = choose(arms, memory, settings, uniforms[t])
        if mixing or (arm == c and not share):
            epsilon = epsilons[min(own_episodes[0], len(epsilons) - 1)]
            if arm == c and mixing:
                epsilon = 0.0  # policy reuse plays the learned policy greedily
            s = np.int64(task.start_states[outcome(task.start_reach, environment_rng.random())])
            returns[t] = learned_episode(
                learner.Q, learner.visits, learner.steps, epsilon, arm if arm < c else -1, sources.actions,
                sources.mixed, sources.chances, psi, upsilon, task.next_state, task.reward, task.terminated, task.reach,
                s, task.gamma, task.horizon, environment_rng, learner_rng,
            )  # fmt: skip
            if arm == c:
                own_episodes[0] += 1
        elif len(constant) and arm < c and sources.mixed[arm] < 0 and not np.isnan(constant[arm]):
            returns[t] = constant[arm]
        else:
            returns[t] = episode(task, sources, learner, arm, every, share, buffers, environment_rng, learner_rng)
            if len(constant) and arm < c:
                constant[arm] = returns[t]
        chosen[t] = arm
        if not record(arms, memory, settings, arm, returns[t], likelihood):
            return t, True
        if arm == c and own_episodes[0] == until:
            return t + 1, False
    return len(returns), False
