"""Leduc hold'em against a fixed opponent: a small poker game, and a task for each opponent.

The game (Southey et al. 2005; OpenSpiel's ``leduc_poker``): two players, six cards, two each of J, Q and K. Both pay
an ante of 1 chip and get a card; they bet; a public card is turned over; they bet again. In turn a player folds (if
there is a bet to pay), calls (checks if there is none), or raises: by 2 chips in the first round, by 4 in the second,
two raises a round at most. Seat 0 acts first in both rounds. A pair with the public card wins, else the higher card;
equal cards split the pot. The seat is drawn for each hand, half and half, as at a table where the deal passes on: one
policy must know both. The return of a hand is the chips won, -13 to 13.

State: what the player knows when it must act (``information_states``), its seat, its card, the public card and the
betting: 144 in each seat. Cards are ranks, without suits: suits decide nothing, and no opponent here looks at them, so
the best response is worth the same as in the game with 936 states that tells suits apart. Actions: 0 fold, 1 call,
2 raise. An illegal action calls: a fold with nothing to pay is a check, and a third raise a call.

Why a hidden card leaves an MDP. Let h be a decision of ours, q the opponent's rank, and let the opponent act with
probabilities sigma. A player remembers its own actions, so h tells them all. The probability to come to h with q is

    P(h, q) = (our own actions on the way) * w(h, q),    w(h, q) = P(cards of h, q) * product of sigma over its actions.

Our own factor is the same for all q and cancels: P(q | h) = w(h, q) / sum_q' w(h, q'), whatever our policy is. So what
follows an action of ours in h has the probability sum_q P(q | h) * P(cards and sigma lead there | h, q), which depends
on h and the action alone: the task is Markov, and exact. Where sigma never leads to h, w is that of the cards alone.
The first decision of a hand is the start: in seat 0 the card, in seat 1 the card and what the opponent did first.

gamma must be below 1, but a chip is a chip whenever it is won. A hand pays at its end only, and a state tells how many
decisions came before it: t = 0 to 3. What ends a hand there pays chips / gamma^t, so that the discounted return is the
chips won, for any gamma; it is 0.99 here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pastmaster import InvalidInputError, TabularMDP
from pastmaster.policies import as_policy
from pastmaster_paper.arrays import Array, FloatArray
from pastmaster_paper.leduc.opponents import KINDS, drawn_strategy
from pastmaster_paper.leduc.tree import (
    LONGEST,
    InformationState,
    legal_strategy,
    outcome_probabilities,
    reach,
    tree,
)

Rng = int | np.random.Generator | None

GAMMA = 0.99
N_SEEDS = 10**9  # numbers of opponents of a kind


def information_states() -> list[InformationState]:
    """What the player knows in each state, by its number.

    Examples
    --------
    >>> information_states()[50]
    InformationState(seat=0, private='J', public='K', first='rrc', second='rr')
    """
    return list(tree().states)


def opponent(kind: str, *, rng: Rng = None) -> FloatArray:
    """The probabilities [288, 3] with which an opponent acts, in either seat; those of illegal actions are 0.

    Parameters
    ----------
    kind : str
        "rock" (tight and passive), "calling station" (loose and passive), "tight-aggressive", "maniac" (loose and
        aggressive), "random", or "near-equilibrium".
    rng : int, numpy.random.Generator or None
        What the opponent's own lines, or probabilities, are drawn by.

    Examples
    --------
    >>> first_with_a_jack = information_states().index((0, "J", "", "", ""))
    >>> opponent("maniac", rng=1)[first_with_a_jack].round(2).tolist()
    [0.0, 0.28, 0.72]
    """
    if kind not in KINDS:
        raise InvalidInputError(f"leduc.opponent: kind is {kind!r}, must be one of {', '.join(map(repr, KINDS))}")
    return drawn_strategy(kind, np.random.default_rng(rng))


def task(strategy: Any, *, name: str = "Leduc", params: Mapping[str, Any] | None = None) -> TabularMDP:
    """The task of winning chips from one opponent.

    Parameters
    ----------
    strategy : array, [288, 3] probabilities or [288] actions, or any policy over the states
        How the opponent plays, in either seat: it sees the same kind of states as we do, so that a policy for one
        opponent can be the opponent of another.
    name, params
        What to call the task, and what it was made of, for people to read.

    Examples
    --------
    >>> from pastmaster import solve
    >>> always_call = task(np.ones(288, int))
    >>> round(solve(always_call).start_value, 3)
    1.467
    """
    known = tree()
    acts = legal_strategy(_probabilities(strategy, len(known.states)))
    start = np.where(known.begins, 0.5 * reach(acts).sum(axis=1), 0.0)
    earlier = (known.own < 3 * len(known.states)).sum(axis=1)  # decisions of ours
    return TabularMDP(
        known.next_state, known.reward / GAMMA ** earlier[:, None, None], probability=outcome_probabilities(acts),
        terminated=known.terminated, gamma=GAMMA, start=start, horizon=LONGEST, name=name, params=params,
    )  # fmt: skip


def _probabilities(strategy: Any, n_states: int) -> FloatArray:
    """How likely each action is in each state [S, 3]."""
    given = isinstance(strategy, np.ndarray | list | tuple)
    table: Array = np.asarray(
        strategy if given else as_policy(strategy, "leduc.task: strategy").act(np.arange(n_states))
    )
    if table.shape == (n_states,) and table.dtype.kind in "iu":
        wrong = np.flatnonzero((table < 0) | (table > 2))
        if len(wrong):
            place = wrong[0]
            raise InvalidInputError(f"leduc.task: strategy[{place}] is action {table[place]}, must be in 0..2")
        return np.asarray(np.eye(3)[table])
    if table.shape != (n_states, 3) or table.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"leduc.task: strategy has shape {table.shape} and dtype {table.dtype}, must be [{n_states}] integer "
            f"actions or [{n_states}, 3] probabilities"
        )
    sound = (table >= 0.0).all(axis=1) & (np.abs(table.sum(axis=1) - 1.0) < 1e-6)
    if not sound.all():
        place = int(np.argmin(sound))
        raise InvalidInputError(
            f"leduc.task: strategy[{place}] is {table[place].tolist()}, must be probabilities that sum to 1"
        )
    return np.asarray(table / table.sum(axis=1, keepdims=True), np.float64)  # they sum to 1 up to rounding


def family(n_opponents: int = 60, *, rng: Rng = None) -> list[TabularMDP]:
    """One task for each of ``n_opponents`` opponents, drawn at random, as many of each kind, in the order of ``KINDS``.

    The name of a task tells the opponent: 'Leduc, rock 5' plays ``opponent("rock", rng=5)``.

    Examples
    --------
    >>> [task.params["kind"] for task in family(7, rng=0)]
    ['rock', 'rock', 'calling station', 'tight-aggressive', 'maniac', 'random', 'near-equilibrium']
    """
    _check_count("leduc.family: n_opponents", n_opponents)
    return _drawn(sorted(i % len(KINDS) for i in range(n_opponents)), np.random.default_rng(rng))


def new_tasks(n_tasks: int, *, rng: Rng = None) -> list[TabularMDP]:
    """``n_tasks`` tasks against other opponents of the same kinds, kinds drawn at random too.

    Examples
    --------
    >>> [task.name for task in new_tasks(2, rng=0)]
    ['Leduc, near-equilibrium 511136479', 'Leduc, maniac 269786713']
    """
    _check_count("leduc.new_tasks: n_tasks", n_tasks)
    generator = np.random.default_rng(rng)
    return _drawn(generator.integers(len(KINDS), size=n_tasks).tolist(), generator)


def _check_count(place: str, count: Any) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidInputError(f"{place} is {count!r}, must be a whole number, at least 1")


def _drawn(kinds: list[int], rng: np.random.Generator) -> list[TabularMDP]:
    """A task against a new opponent for each number of a kind."""
    seeds = rng.integers(N_SEEDS, size=len(kinds)).tolist()
    return [
        task(opponent(KINDS[i], rng=seed), name=f"Leduc, {KINDS[i]} {seed}", params={"kind": KINDS[i], "seed": seed})
        for i, seed in zip(kinds, seeds, strict=True)
    ]
