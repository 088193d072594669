"""Episodes of a tabular task, compiled: the twin of the plain loop in ``episodes``, bit for bit."""

from __future__ import annotations

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
    """Room for one episode: who agrees with its actions so far, and what to undo in the learner.

    ``changed`` [S, A] marks the entries of Q that it changed, ``places``, ``values`` and ``visits`` [S A] hold which
    they are and what was there before; they are empty where nothing is ever undone.
    """

    likelihood: FloatArray
    agreeing: npt.NDArray[np.int64]
    changed: npt.NDArray[np.bool_]
    places: npt.NDArray[np.int64]
    values: FloatArray
    visits: npt.NDArray[np.int64]

    @classmethod
    def of(cls, n_arms: int, shape: tuple[int, int]) -> Buffers:
        """For so many arms, and a Q of this shape."""
        size = shape[0] * shape[1]
        return cls(
            likelihood=np.ones(n_arms),
            agreeing=np.empty(n_arms, np.int64),
            changed=np.zeros(shape, np.bool_),
            places=np.empty(size, np.int64),
            values=np.empty(size),
            visits=np.empty(size, np.int64),
        )


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


@inlined
def episode(
    task, sources, learner, arm, psi, upsilon, mixing, learning, share, buffers, environment_rng, learner_rng,
):  # fmt: skip
    """Run one episode of any arm; returns its discounted return. With ``share``, fills ``buffers.likelihood``.

    With ``mixing``, the action of a source is taken with probability psi, times upsilon at each step, else the
    learner's. What the learner learns from a shared episode of a source is taken back, unless it is ``learning``.

    The loop that most time is spent in. So it is one function: calls that pass arrays take longer than what they do. A
    row of Q is scanned once, for the update of the step before and for the next action; again if the update changed it.
    """
    Q, visits, steps = learner.Q, learner.visits, learner.steps
    actions, mixed, chances = sources.actions, sources.mixed, sources.chances
    next_state, rewards, ends, reach = task.next_state, task.reward, task.terminated, task.reach
    gamma, horizon = task.gamma, task.horizon
    n_actions, c = Q.shape[1], len(mixed)
    own, undoing, looking = arm == c, share and not learning, mixing or learning or share
    n_agreeing, n_changed = 0, 0
    epsilon = learner.epsilons[min(learner.own_episodes[0], len(learner.epsilons) - 1)]
    if own and mixing:
        epsilon = 0.0  # policy reuse plays the learned policy greedily
    if share:
        n_agreeing = c
        for i in range(c):
            buffers.agreeing[i] = i
            buffers.likelihood[i] = 1.0
        buffers.likelihood[c] = 1.0
    total, discount, step, size, reward, ended = 0.0, 1.0, 0, steps[0], 0.0, False
    before, action, updating = np.int64(0), np.int64(0), False
    best, ties, first = 0.0, 0, np.int64(0)
    s = np.int64(task.start_states[outcome(task.start_reach, environment_rng.random())])
    while not ended:
        if looking:
            best, ties = Q[s, 0], 0
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
            break
        if own or (mixing and not learner_rng.random() < psi):
            u = learner_rng.random()
            if u < epsilon:
                action = np.int64(min(int(u / epsilon * n_actions), n_actions - 1))
            else:
                action = one_of_best(Q, s, best, ties, first, epsilon, u)
        elif mixed[arm] < 0:
            action = np.int64(actions[arm, s])
        else:
            action = np.int64(draw(chances[mixed[arm], s], learner_rng.random()))
        psi *= upsilon
        if share:
            chance = epsilon / n_actions + ((1.0 - epsilon) / ties if Q[s, action] == best else 0.0)
            n_agreeing = still_agreeing(sources, buffers, n_agreeing, s, action, chance)
        k = 0
        if reach.shape[2] > 1:
            v = environment_rng.random()
            while reach[s, action, k] <= v:
                k += 1
        reward, ended = rewards[s, action, k], ends[s, action, k]
        total += discount * reward
        discount *= gamma
        if learning or undoing:
            if undoing and not buffers.changed[s, action]:
                buffers.changed[s, action] = True
                buffers.places[n_changed], buffers.values[n_changed] = s * n_actions + action, Q[s, action]
                if len(steps) > 1:
                    buffers.visits[n_changed] = visits[s, action]
                n_changed += 1
            if len(steps) > 1:
                size = steps[min(visits[s, action], len(steps) - 1)]
                visits[s, action] += 1
            updating = not ended
            if ended:
                Q[s, action] += size * (reward - Q[s, action])
        before, s = s, np.int64(next_state[s, action, k])
        step += 1
    for i in range(n_changed):
        s, action = buffers.places[i] // n_actions, buffers.places[i] % n_actions
        Q[s, action], buffers.changed[s, action] = buffers.values[i], False
        if len(steps) > 1:
            visits[s, action] = buffers.visits[i]
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
    c = len(sources.mixed)
    for t in range(first, len(returns)):
        arm = choose(arms, memory, settings, uniforms[t])
        own = arm == c
        if not own and len(constant) and sources.mixed[arm] < 0 and not np.isnan(constant[arm]):
            returns[t] = constant[arm]
        else:
            learning = own or every or mixing
            returns[t] = episode(
                task, sources, learner, arm, psi, upsilon, mixing, learning, share, buffers, environment_rng,
                learner_rng,
            )  # fmt: skip
            if len(constant) and not own:
                constant[arm] = returns[t]
        chosen[t] = arm
        if not record(arms, memory, settings, arm, returns[t], likelihood):
            return t, True
        if own and learner.own_episodes[0] == until:
            return t + 1, False
    return len(returns), False
