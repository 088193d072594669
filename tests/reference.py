"""What the tests compare with: the mathematics, dense and slow, written without looking at how the library does it.

A task's arrays become P [S, A, S], the probability of *continuing* in a state (an outcome that ends the episode
leads nowhere), and R [S, A], the expected reward. Then

    V^pi = (I - gamma P_pi)^-1 R_pi,        V^pi_h = R_pi + gamma P_pi V^pi_{h-1},  V^pi_0 = 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import strategies as st

from pastmaster import TabularMDP

TAXI, CLIFF = (max(name for name in gym.registry if name.startswith(f"{kind}-v")) for kind in ("Taxi", "CliffWalking"))
"""Ids in the newest version that Gymnasium has: what differs between versions is not used here."""


def outcomes(mdp: TabularMDP, s: int, a: int) -> list[tuple[float, int, float, bool]]:
    """The possible outcomes of an action: (probability, next state, reward, terminated)."""
    if mdp.probability is None:
        return [(1.0, int(mdp.next_state[s, a]), float(mdp.reward[s, a]), bool(mdp.terminated[s, a]))]
    rows = zip(mdp.probability[s, a], mdp.next_state[s, a], mdp.reward[s, a], mdp.terminated[s, a], strict=True)
    return [(float(p), int(n), float(r), bool(t)) for p, n, r, t in rows if p > 0]


def matrices(mdp: TabularMDP) -> tuple[np.ndarray, np.ndarray]:
    """P [S, A, S] and R [S, A]."""
    P, R = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states)), np.zeros((mdp.n_states, mdp.n_actions))
    for s, a in np.ndindex(R.shape):
        for chance, following, reward, terminated in outcomes(mdp, s, a):
            R[s, a] += chance * reward
            if not terminated:
                P[s, a, following] += chance
    return P, R


def action_probabilities(mdp: TabularMDP, policy: Any) -> np.ndarray:
    """A policy [S] or [S, A] as probabilities [S, A]."""
    policy = np.asarray(policy)
    return np.eye(mdp.n_actions)[policy] if policy.ndim == 1 else policy


def chain(mdp: TabularMDP, policy: Any) -> tuple[np.ndarray, np.ndarray]:
    """P [S, S] and R [S] under a policy."""
    P, R = matrices(mdp)
    pi = action_probabilities(mdp, policy)
    return np.einsum("sa,sat->st", pi, P), np.einsum("sa,sa->s", pi, R)


def endless_values(mdp: TabularMDP, policy: Any) -> np.ndarray:
    """V^pi [S], the horizon aside, by a dense linear solve."""
    P, R = chain(mdp, policy)
    return np.linalg.solve(np.eye(mdp.n_states) - mdp.gamma * P, R)


def exact_values(mdp: TabularMDP, policy: Any) -> list[Fraction]:
    """V^pi [S] of a policy of actions, the horizon aside, by elimination in rational numbers: no rounding at all."""
    n, gamma = mdp.n_states, Fraction(mdp.gamma)
    rows = [[Fraction(int(s == t)) for t in range(n)] + [Fraction(0)] for s in range(n)]
    for s in range(n):
        for chance, following, reward, terminated in outcomes(mdp, s, int(policy[s])):
            rows[s][n] += Fraction(chance) * Fraction(reward)
            rows[s][following] -= 0 if terminated else gamma * Fraction(chance)
    for i in range(n):  # diagonally dominant: no pivoting
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [x - rows[j][i] * y for x, y in zip(rows[j], rows[i], strict=True)]
    return [row[n] for row in rows]


def capped_values(mdp: TabularMDP, policy: Any, horizon: int) -> np.ndarray:
    """V^pi [S] of episodes of at most ``horizon`` steps."""
    P, R = chain(mdp, policy)
    value = np.zeros(mdp.n_states)
    for _ in range(horizon):
        value = R + mdp.gamma * P @ value
    return value


def values(mdp: TabularMDP, policy: Any) -> np.ndarray:
    """V^pi [S] as the task's own horizon has it."""
    return endless_values(mdp, policy) if mdp.horizon is None else capped_values(mdp, policy, mdp.horizon)


def start_distribution(mdp: TabularMDP) -> np.ndarray:
    return np.eye(mdp.n_states)[mdp.start] if isinstance(mdp.start, int) else np.asarray(mdp.start)


def start_value(mdp: TabularMDP, policy: Any) -> float:
    return float(start_distribution(mdp) @ values(mdp, policy))


def all_policies(mdp: TabularMDP) -> Iterator[np.ndarray]:
    """Every deterministic stationary policy."""
    for actions in itertools.product(range(mdp.n_actions), repeat=mdp.n_states):
        yield np.array(actions)


def optimal_values_by_enumeration(mdp: TabularMDP) -> np.ndarray:
    """V* [S]: the best that any of the A^S policies does in each state."""
    P, R = matrices(mdp)
    every, identity = np.arange(mdp.n_states), np.eye(mdp.n_states)
    candidates = [
        np.linalg.solve(identity - mdp.gamma * P[every, policy], R[every, policy]) for policy in all_policies(mdp)
    ]
    return np.max(candidates, axis=0)


def optimal_values_by_iteration(mdp: TabularMDP, accuracy: float = 1e-11) -> np.ndarray:
    """V* [S] to relative ``accuracy`` by value iteration: |V - V*| <= gamma / (1 - gamma) * the last change."""
    P, R = matrices(mdp)
    flat, value = P.reshape(-1, mdp.n_states), np.zeros(mdp.n_states)
    while True:
        better = (R + mdp.gamma * (flat @ value).reshape(R.shape)).max(axis=1)
        change, value = np.abs(better - value).max(), better
        if change * mdp.gamma / (1 - mdp.gamma) <= accuracy * np.abs(value).max():
            return value


def q_values(mdp: TabularMDP, value: np.ndarray) -> np.ndarray:
    """Q [S, A] = R + gamma P V."""
    P, R = matrices(mdp)
    return R + mdp.gamma * P @ value


def extreme_returns(mdp: TabularMDP, horizon: int | None = None) -> tuple[float, float]:
    """The least and the greatest return from the start, by trying everything that can happen.

    Without a horizon it goes on until gamma^depth is below 1e-13.
    """
    forever = 1 if mdp.gamma == 0 else math.ceil(math.log(1e-13) / math.log(mdp.gamma))
    depth = forever if horizon is None else horizon

    possible = [[o for a in range(mdp.n_actions) for o in outcomes(mdp, s, a)] for s in range(mdp.n_states)]

    def best(sign: int) -> list[float]:
        value = [0.0] * mdp.n_states
        for _ in range(depth):
            value = [
                max(
                    sign * reward + (0.0 if end else mdp.gamma * value[following]) for _, following, reward, end in here
                )
                for here in possible
            ]
        return value

    starts = np.flatnonzero(start_distribution(mdp)).tolist()
    least, greatest = best(-1), best(1)
    return -max(least[s] for s in starts), max(greatest[s] for s in starts)


def draw(chances: Any, rng: np.random.Generator) -> int:
    """An index, as often as its chance says; never one of chance 0."""
    left = rng.random() * float(sum(chances))
    for index, chance in enumerate(chances):
        left -= chance
        if left < 0:
            return index
    return int(np.flatnonzero(chances)[-1])


def simulated_return(mdp: TabularMDP, policy: Any, rng: np.random.Generator, max_steps: int) -> float:
    """The discounted return of one simulated episode, cut off at the horizon or after ``max_steps``."""
    pi = action_probabilities(mdp, policy).tolist()
    s = draw(start_distribution(mdp), rng)
    total, discount = 0.0, 1.0
    for _ in range(max_steps if mdp.horizon is None else min(max_steps, mdp.horizon)):
        possible = outcomes(mdp, s, draw(pi[s], rng))
        _, s, reward, terminated = possible[draw([chance for chance, *_ in possible], rng)]
        total += discount * reward
        discount *= mdp.gamma
        if terminated:
            break
    return total


def stepped_return(mdp: TabularMDP, policy: Any, start: int, steps: int) -> float:
    """The return of a deterministic task's one trajectory, a step at a time."""
    s, total, discount = start, 0.0, 1.0
    for _ in range(steps):
        a = int(policy[s])
        total += discount * float(mdp.reward[s, a])
        if mdp.terminated[s, a]:
            break
        discount *= mdp.gamma
        s = int(mdp.next_state[s, a])
    return total


def random_arrays(
    rng: np.random.Generator,
    n_states: int,
    n_actions: int,
    n_outcomes: int | None,
    *,
    ending: float = 0.2,
    reach: int | None = None,
) -> dict[str, np.ndarray]:
    """Arguments of a TabularMDP; ``n_outcomes`` None: deterministic.

    A share ``ending`` of outcomes ends the episode; next states lie at most ``reach`` states away; next states repeat
    within an action; a third of the outcomes is impossible, and those pay a fortune that nobody may ever see.
    """
    shape = (n_states, n_actions) if n_outcomes is None else (n_states, n_actions, n_outcomes)
    next_state = rng.integers(n_states, size=shape)
    if reach is not None:
        own = np.arange(n_states).reshape(-1, *[1] * (len(shape) - 1))
        next_state = np.clip(own + rng.integers(-1, reach + 1, size=shape), 0, n_states - 1)
    arrays = {"next_state": next_state, "reward": rng.normal(size=shape), "terminated": rng.random(shape) < ending}
    if n_outcomes is not None:
        if n_outcomes > 1:
            next_state[..., 1] = np.where(rng.random(shape[:2]) < 0.3, next_state[..., 0], next_state[..., 1])
        chances = rng.random(shape) + 0.05
        chances[..., 1:][rng.random(chances[..., 1:].shape) < 1 / 3] = 0.0
        arrays["probability"] = chances / chances.sum(axis=2, keepdims=True)
        arrays["reward"][chances == 0] = rng.choice([-77.0, 77.0], size=int((chances == 0).sum()))
    return arrays


def random_start(rng: np.random.Generator, n_states: int) -> int | np.ndarray:
    """A start state, or as often a distribution that leaves some states out."""
    if rng.random() < 0.5:
        return int(rng.integers(n_states))
    chances = rng.random(n_states) * (rng.random(n_states) < 0.6)
    chances[rng.integers(n_states)] += 0.1
    return chances / chances.sum()


def random_mdp(
    rng: np.random.Generator,
    n_states: int = 6,
    n_actions: int = 3,
    n_outcomes: int | None = 3,
    *,
    gamma: float = 0.9,
    horizon: int | None = None,
    **structure: Any,
) -> TabularMDP:
    arrays = random_arrays(rng, n_states, n_actions, n_outcomes, **structure)
    return TabularMDP(**arrays, gamma=gamma, start=random_start(rng, n_states), horizon=horizon)


def random_policy(rng: np.random.Generator, mdp: TabularMDP, *, mixed: bool = False) -> np.ndarray:
    """Actions [S], or probabilities [S, A] of which some are 0."""
    if not mixed:
        return rng.integers(mdp.n_actions, size=mdp.n_states)
    chances = rng.random((mdp.n_states, mdp.n_actions)) + 0.01
    chances[:, 1:][rng.random(chances[:, 1:].shape) < 0.3] = 0.0
    return chances / chances.sum(axis=1, keepdims=True)


@st.composite
def random_mdps(
    draw: st.DrawFn, max_states: int = 6, max_actions: int = 3, horizons: tuple[int | None, ...] = (None, 1, 4, 30)
) -> tuple[TabularMDP, np.random.Generator]:
    """A task of any of our kinds, and a generator to draw what else the test needs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mdp = random_mdp(
        rng,
        draw(st.integers(1, max_states)),
        draw(st.integers(1, max_actions)),
        draw(st.sampled_from([None, 1, 2, 3])),
        gamma=draw(st.sampled_from([0.0, 0.5, 0.9])),
        horizon=draw(st.sampled_from(horizons)),
        ending=draw(st.sampled_from([0.0, 0.2, 0.6])),
    )
    return mdp, rng
