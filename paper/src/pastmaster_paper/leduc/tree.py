"""The tree of Leduc hold'em, written down once: what can follow each decision, and which actions lead there.

Betting is a text of letters f, c and r (fold, call or check, raise), one text for each of the two rounds. Seat 0 acts
first in both. A round is open until a raise is called, both have checked, or someone folds.

The tree does not depend on how an opponent plays. What depends on it is a product of its probabilities, so the tree
keeps places in the table of probabilities: those of the opponent's actions before a decision, and after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from pastmaster_paper.arrays import BoolArray, FloatArray, LongArray, sealed

FOLD, CALL, RAISE = range(3)
LETTERS = "fcr"
RANKS = "JQK"  # two cards of each
ANTE, RAISES, MOST_RAISES = 1, (2, 4), 2  # chips; the size of a raise in each round; raises in a round
LONGEST = 4  # decisions of one player in a hand, two in each round
OPEN = ("", "c", "r", "cr", "rr", "crr")  # betting of a round after which somebody must act
CLOSED = ("cc", "rc", "crc", "rrc", "crrc")  # and after which both are still in


class InformationState(NamedTuple):
    """What a player knows when it must act: its seat, its card, the public card and the betting of both rounds.

    Cards are "J", "Q" or "K"; in the first round ``public`` is "" and ``second`` is "".
    """

    seat: int
    private: str
    public: str
    first: str
    second: str


class _Deal(NamedTuple):
    """A hand as someone sees it who sees all cards: ranks of both players and of the public card (-1: not yet)."""

    ranks: tuple[int, int]
    public: int
    first: str
    second: str


class _Following(NamedTuple):
    """What may come next: its chance by the cards, what the opponent does meanwhile, the next state or the end."""

    chance: float
    plays: tuple[int, ...]
    state: int  # -1: the hand is over
    pays: int


@dataclass(frozen=True, eq=False)
class Tree:
    """The tree as arrays: S states, 3 actions, at most K outcomes of each.

    A *play* is a place in a table of probabilities [S, 3] made flat; place 3 S stands for a factor 1.
    """

    states: tuple[InformationState, ...]
    legal: BoolArray  # [S, 3]
    next_state: LongArray  # [S, 3, K]
    reward: FloatArray  # [S, 3, K]
    terminated: BoolArray  # [S, 3, K]
    begins: BoolArray  # [S], whether it is the first decision of a hand
    dealt: FloatArray  # [S, 3], the chance of these cards, with the opponent's rank
    opponents: LongArray  # [S, 3, 4], the opponent's plays before it, with that rank
    own: LongArray  # [S, 4], one's own plays before it
    path_from: LongArray  # [n], place of (state, rank of the opponent) of a path to an outcome
    path_chance: FloatArray  # [n], its chance by the cards
    path_plays: LongArray  # [n, 2], the opponent's plays on it
    path_to: LongArray  # [n], place of the outcome in [S, 3, K]


def legal_actions(betting: str) -> list[int]:
    """The legal actions in a round with this betting: there must be something to fold to, and two raises at most."""
    return [FOLD] * betting.endswith("r") + [CALL] + [RAISE] * (betting.count("r") < MOST_RAISES)


def played(action: int, betting: str) -> int:
    """What an action does: an illegal one calls, so that a fold with nothing to pay is a check."""
    return action if action in legal_actions(betting) else CALL


def numbered() -> dict[InformationState, int]:
    """The number of each information state: those of seat 0 first, and of a seat those of the first round first."""
    seats = []
    for seat in (0, 1):
        turns = [betting for betting in OPEN if len(betting) % 2 == seat]
        seats += [(seat, private, "", first, "") for private, first in itertools.product(RANKS, turns)]
        later = itertools.product(RANKS, RANKS, CLOSED, turns)
        seats += [(seat, private, public, first, second) for private, public, first, second in later]
    return {InformationState(*known): number for number, known in enumerate(seats)}


@cache
def tree() -> Tree:
    """The tree, made when it is first asked for."""
    numbers = numbered()
    outcomes: list[list[dict[tuple[int, int], int]]] = [[{} for _ in range(3)] for _ in numbers]
    paths: list[tuple[int, _Following, int, int, int]] = []
    for (state, s), rank in itertools.product(numbers.items(), range(3)):
        deal = _seen_by_all(state, rank)
        for action in range(3) if _chance(state, rank) else ():
            slots = outcomes[s][action]
            for found in _after(_with(deal, action), state.seat, numbers):
                slot = slots.setdefault((found.state, found.pays), len(slots))
                paths.append((3 * s + rank, found, s, action, slot))
    widest = max(len(slots) for row in outcomes for slots in row)
    shape = (len(numbers), 3, widest)
    next_state, reward = np.arange(len(numbers)).repeat(3 * widest).reshape(shape), np.zeros(shape)
    terminated = np.ones(shape, np.bool_)
    for s, action in np.ndindex(shape[:2]):
        for (following, pays), slot in outcomes[s][action].items():
            place = s, action, slot
            next_state[place] = s if following < 0 else following
            reward[place], terminated[place] = pays, following < 0
    befores = [_before(state, rank, numbers) for state in numbers for rank in range(3)]
    to = np.array([np.ravel_multi_index((s, action, slot), shape) for _, _, s, action, slot in paths])
    none = 3 * len(numbers)
    return Tree(
        states=tuple(numbers),
        legal=sealed(np.array([[a in legal_actions(_betting(state)) for a in range(3)] for state in numbers])),
        next_state=sealed(next_state), reward=sealed(reward), terminated=sealed(terminated),
        begins=sealed(np.array([len(state.first) == state.seat and not state.public for state in numbers])),
        dealt=sealed(np.array([[_chance(state, rank) for rank in range(3)] for state in numbers])),
        opponents=_padded([theirs for _, theirs in befores], LONGEST, none).reshape(-1, 3, LONGEST),
        own=_padded([ours for ours, _ in befores[::3]], LONGEST, none),
        path_from=sealed(np.array([place for place, *_ in paths])),
        path_chance=sealed(np.array([found.chance for _, found, *_ in paths])),
        path_plays=_padded([found.plays for _, found, *_ in paths], 2, none),
        path_to=sealed(to),
    )  # fmt: skip


def legal_strategy(strategy: FloatArray) -> FloatArray:
    """The probabilities [S, 3] of what is done: an illegal action calls."""
    legal = tree().legal
    done = np.where(legal, strategy, 0.0)
    done[:, CALL] += np.where(legal, 0.0, strategy).sum(axis=1)
    return done


def reach(strategy: FloatArray) -> FloatArray:
    """The probability that cards and opponent lead to each state, with each rank of the opponent [S, 3]."""
    known, flat = tree(), np.append(strategy, 1.0)
    found: FloatArray = known.dealt * flat[known.opponents].prod(axis=2)
    return found


def outcome_probabilities(strategy: FloatArray) -> FloatArray:
    """The probability of each outcome of each action [S, 3, K], given the state, against this strategy."""
    known, flat = tree(), np.append(strategy, 1.0)
    weight = reach(strategy)
    weight = np.where(weight.any(axis=1, keepdims=True), weight, known.dealt)
    weight /= weight.sum(axis=1, keepdims=True)
    paths = weight.ravel()[known.path_from] * known.path_chance * flat[known.path_plays].prod(axis=1)
    found = np.zeros(known.next_state.size)
    np.add.at(found, known.path_to, paths)
    return found.reshape(known.next_state.shape)


def strength(private: int, public: int, other: int) -> int:
    """1, 0 or -1: whether a rank wins against another, a pair with the public card before all else."""
    mine, theirs = (3 if rank == public else rank for rank in (private, other))
    return (mine > theirs) - (mine < theirs)


def left(rank: int, *gone: int) -> int:
    """How many cards of a rank are left in the deck when these are gone."""
    return max(0, 2 - gone.count(rank))


def _betting(state: InformationState | _Deal) -> str:
    """The betting of the round that is being played."""
    return state.second if state.public not in ("", -1) else state.first


def _seen_by_all(state: InformationState, rank: int) -> _Deal:
    """The hand at a decision, where the opponent has this rank."""
    mine = RANKS.index(state.private)
    public = RANKS.index(state.public) if state.public else -1
    return _Deal((mine, rank) if state.seat == 0 else (rank, mine), public, state.first, state.second)


def _with(deal: _Deal, action: int) -> _Deal:
    """The hand after an action."""
    letter = LETTERS[played(action, _betting(deal))]
    return deal._replace(first=deal.first + letter) if deal.public < 0 else deal._replace(second=deal.second + letter)


def _number(deal: _Deal, seat: int, numbers: dict[InformationState, int]) -> int:
    """The state that a hand is to the player in a seat, whose turn it is."""
    public = RANKS[deal.public] if deal.public >= 0 else ""
    return numbers[InformationState(seat, RANKS[deal.ranks[seat]], public, deal.first, deal.second)]


def _after(deal: _Deal, seat: int, numbers: dict[InformationState, int]) -> Iterator[_Following]:
    """Everything that can come between an action of ours, in a seat, and our next one."""
    betting = _betting(deal)
    if betting.endswith("f") or (deal.public >= 0 and betting in CLOSED):
        yield _Following(1.0, (), -1, _pays(deal, seat))
    elif betting in CLOSED:
        for public in range(3):
            cards = left(public, *deal.ranks)
            for found in _after(deal._replace(public=public), seat, numbers) if cards else ():
                yield found._replace(chance=found.chance * cards / 4)
    elif len(betting) % 2 == seat:
        yield _Following(1.0, (), _number(deal, seat, numbers), 0)
    else:
        theirs = 3 * _number(deal, 1 - seat, numbers)
        for action in legal_actions(betting):
            for found in _after(_with(deal, action), seat, numbers):
                yield found._replace(plays=(theirs + action, *found.plays))


def _before(
    state: InformationState, rank: int, numbers: dict[InformationState, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Our plays, and those of an opponent with this rank, on the way to a state."""
    plays: tuple[list[int], list[int]] = ([], [])
    deal = _seen_by_all(state, rank)
    for public, betting in ((-1, state.first), (deal.public, state.second)):
        for n, letter in enumerate(betting):
            first = betting[:n] if public < 0 else state.first
            then = _Deal(deal.ranks, public, first, "" if public < 0 else betting[:n])
            plays[n % 2].append(3 * _number(then, n % 2, numbers) + LETTERS.index(letter))
    return tuple(plays[state.seat]), tuple(plays[1 - state.seat])


def _chance(state: InformationState, rank: int) -> float:
    """The chance of a state's cards, with the opponent's rank: 2 / 6, then what is left of 5, then of 4."""
    mine = RANKS.index(state.private)
    chance = 2 / 6 * left(rank, mine) / 5
    return chance * left(RANKS.index(state.public), mine, rank) / 4 if state.public else chance


def _stakes(first: str, second: str) -> list[int]:
    """The chips that each player has put in."""
    stakes = [ANTE, ANTE]
    for betting, size in zip((first, second), RAISES, strict=True):
        for n, letter in enumerate(betting):
            if letter != "f":
                stakes[n % 2] = max(stakes) + size * (letter == "r")
    return stakes


def _pays(deal: _Deal, seat: int) -> int:
    """What the player in a seat wins in a hand that is over: the chips of the other, or minus its own."""
    stakes, betting = _stakes(deal.first, deal.second), _betting(deal)
    if betting.endswith("f"):
        folded = (len(betting) - 1) % 2
        return -stakes[seat] if folded == seat else stakes[folded]
    return stakes[seat] * strength(deal.ranks[seat], deal.public, deal.ranks[1 - seat])


def _padded(rows: list[tuple[int, ...]], width: int, none: int) -> LongArray:
    """Rows of plays, made equally long by plays that count as a factor 1."""
    return sealed(np.array([(*plays, *[none] * (width - len(plays))) for plays in rows]))
