"""Kinds of poker players: how each of them plays Leduc hold'em, as probabilities of actions.

Four kinds are those of every poker book, by how many hands they play (tight, loose) and how they bet (passive,
aggressive). Such a player looks at the strength x of its hand: the probability to win against a random card, ties
counted as half. It folds to a bet the more surely the further x lies below its fold line, and raises the more surely
the further x lies above its raise line, both by a logistic function of (x - line) / softness. The lines differ between
the rounds. A *random* player does not look at its cards: it folds, calls and raises with fixed frequencies, of its own
for each round. A *near-equilibrium* player is the average of some hundred iterations of counterfactual regret
minimisation (Zinkevich et al. 2007), with regrets kept at 0 or above and later iterations weighing more (Tammelin
2014), from regrets that are drawn.

Every player takes each legal action with a probability of at least ``SLIP`` / 3: nobody is quite consistent, and so
nothing that can be met is left unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pastmaster_paper.arrays import BoolArray, FloatArray, LongArray
from pastmaster_paper.leduc.tree import (
    FOLD,
    LONGEST,
    RAISE,
    RANKS,
    left,
    outcome_probabilities,
    reach,
    strength,
    tree,
)

SLIP = 0.03
ITERATIONS = (100, 300)  # of counterfactual regret minimisation, least and most


class Lines(NamedTuple):
    """Ranges from which a kind draws its fold lines and its raise lines, in hand strength, one for each round."""

    fold: tuple[float, float]
    raises: tuple[float, float]


BY_LINES = {
    "rock": Lines(fold=(0.45, 0.75), raises=(0.80, 1.10)),
    "calling station": Lines(fold=(-0.20, 0.15), raises=(0.90, 1.30)),
    "tight-aggressive": Lines(fold=(0.35, 0.60), raises=(0.40, 0.70)),
    "maniac": Lines(fold=(-0.20, 0.20), raises=(-0.20, 0.25)),
}
SOFTNESS = (0.03, 0.12)
FREQUENCIES = (2.0, 2.0, 2.0)  # of the Dirichlet distribution of how often a random player folds, calls and raises
RANDOM, NEAR_EQUILIBRIUM = "random", "near-equilibrium"
KINDS = (*BY_LINES, RANDOM, NEAR_EQUILIBRIUM)


def drawn_strategy(kind: str, rng: np.random.Generator) -> FloatArray:
    """The probabilities [S, 3] with which an opponent of a kind, drawn at random, acts; 0 where it is illegal."""
    legal = tree().legal
    if kind in BY_LINES:
        strategy = _by_lines(BY_LINES[kind], rng)
    elif kind == RANDOM:
        strategy = rng.dirichlet(FREQUENCIES, size=2)[_round()]
    else:
        iterations = int(rng.integers(*ITERATIONS, endpoint=True))
        strategy = regret_minimisation(iterations, rng.random(legal.shape))
    strategy = np.where(legal, strategy, 0.0) / np.where(legal, strategy, 0.0).sum(axis=1, keepdims=True)
    even: FloatArray = legal / legal.sum(axis=1, keepdims=True)
    mixed: FloatArray = (1 - SLIP) * strategy + SLIP * even
    return mixed


def hand_strength() -> FloatArray:
    """The probability to win, in each state, against a random card and a random public card; ties count half, [S]."""
    found = []
    for state in tree().states:
        mine = RANKS.index(state.private)
        publics = [RANKS.index(state.public)] if state.public else range(3)
        deals = [(left(p, mine) * left(q, mine, p), strength(mine, p, q)) for p in publics for q in range(3)]
        found.append(sum(cards * (1 + won) / 2 for cards, won in deals) / sum(cards for cards, _ in deals))
    return np.array(found)


def regret_minimisation(iterations: int, regrets: FloatArray) -> FloatArray:
    """The average strategy [S, 3] of two players who minimise their regrets, and begin with these [S, 3].

    Both play the same table, so the hand seen from either seat is the task of ``leduc.task``. The counterfactual value
    of an action is its value Q in that task, times the probability that cards and opponent lead to the state.
    """
    legal = tree().legal
    regrets, total = np.where(legal, regrets, 0.0), np.zeros(legal.shape)
    for n in range(1, iterations + 1):
        strategy = _in_proportion(regrets, legal)
        total += n * np.append(strategy, 1.0)[tree().own].prod(axis=1)[:, None] * strategy
        Q = _action_values(strategy)
        gain = reach(strategy).sum(axis=1)[:, None] * (Q - (strategy * Q).sum(axis=1, keepdims=True))
        regrets = np.where(legal, np.maximum(regrets + gain, 0.0), 0.0)
    return _in_proportion(total, legal)


def _in_proportion(weights: FloatArray, legal: BoolArray) -> FloatArray:
    """Probabilities in proportion to weights, even where all are 0."""
    total = weights.sum(axis=1, keepdims=True)
    even = legal / legal.sum(axis=1, keepdims=True)
    found: FloatArray = np.where(total > 0, weights / np.where(total > 0, total, 1.0), even)
    return found


def _action_values(strategy: FloatArray) -> FloatArray:
    """The value Q [S, 3] of each action where both players go on by this strategy."""
    known, probability = tree(), outcome_probabilities(strategy)
    paid = (probability * known.reward).sum(axis=2)
    goes_on = np.where(known.terminated, 0.0, probability)
    Q: FloatArray = paid
    for _ in range(LONGEST - 1):
        value = (strategy * Q).sum(axis=1)
        Q = paid + (goes_on * value[known.next_state]).sum(axis=2)
    return Q


def _round() -> LongArray:
    """The round of each state, 0 or 1."""
    return np.array([state.public != "" for state in tree().states]).astype(np.int64)


def _by_lines(lines: Lines, rng: np.random.Generator) -> FloatArray:
    """A player that folds below a line and raises above another."""
    known, played = tree(), _round()
    softness = rng.uniform(*SOFTNESS)
    fold, raises = (rng.uniform(*ends, size=2)[played] for ends in lines)
    x = hand_strength()
    folds, wants = 1 / (1 + np.exp((x - fold) / softness)), 1 / (1 + np.exp((raises - x) / softness))
    folds, wants = np.where(known.legal[:, FOLD], folds, 0.0), np.where(known.legal[:, RAISE], wants, 0.0)
    return np.column_stack([folds, (1 - folds) * (1 - wants), (1 - folds) * wants])
