"""Leduc hold'em dealt with six real cards, by rules written down a second time: what the exact tasks are tested by."""

from __future__ import annotations

from collections import Counter

import numpy as np

Known = tuple[int, str, str, str, str]  # seat, own card, public card, betting of both rounds


def may(betting: str) -> str:
    """The letters that a player may add to the betting of a round."""
    return {"": "cr", "c": "cr", "r": "fcr", "cr": "fcr", "rr": "fc", "crr": "fc"}[betting]


class Player:
    """Probabilities [288, 3] by what the player knows; an illegal letter calls."""

    def __init__(self, states: list[Known], table: np.ndarray) -> None:
        self.reach = {tuple(known): np.cumsum(row).tolist() for known, row in zip(states, table, strict=True)}

    def act(self, known: Known, betting: str, uniform: float) -> str:
        fold, call, _ = self.reach[known]
        letter = "f" if uniform < fold else "c" if uniform < call else "r"
        return letter if letter in may(betting) else "c"


def play(players: tuple[Player, Player], cards: list[int], uniforms: list[float], noted: list | None = None) -> int:
    """What seat 0 wins in one hand. Cards 0..5 are J J Q Q K K: seat 0, seat 1, public."""
    letters = ["JQK"[card // 2] for card in cards]
    paid, rounds, draws = [1, 1], ["", ""], iter(uniforms)
    for number, bet in enumerate((2, 4)):
        public = letters[2] if number else ""
        while True:
            betting = rounds[number]
            seat = len(betting) % 2
            known = (seat, letters[seat], public, *rounds)
            letter = players[seat].act(known, betting, next(draws))
            if noted is not None:
                noted.append((known, letter))
            rounds[number] += letter
            if letter == "f":
                return -paid[0] if seat == 0 else paid[1]
            paid[seat] = paid[1 - seat] + (bet if letter == "r" else 0)
            if letter == "c" and betting:
                break
    points = [10 if letters[seat] == letters[2] else cards[seat] // 2 for seat in (0, 1)]
    return paid[0] * ((points[0] > points[1]) - (points[0] < points[1]))


def hands(us: Player, them: Player, n: int, rng: np.random.Generator) -> tuple[np.ndarray, list, Counter]:
    """What we win in each of n hands with seats drawn, our (state, letter, what followed) and how often each came."""
    cards = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :3].tolist()
    uniforms, seats = rng.random((n, 8)).tolist(), rng.integers(2, size=n).tolist()
    won, followed = np.empty(n), Counter()
    for i, seat in enumerate(seats):
        noted: list = []
        first = play((us, them) if seat == 0 else (them, us), cards[i], uniforms[i], noted)
        won[i] = first if seat == 0 else -first
        ours = [entry for entry in noted if entry[0][0] == seat]
        for (known, letter), (following, _) in zip(ours, [*ours[1:], (int(won[i]), "")], strict=True):
            followed[known, letter, following] += 1
    return won, seats, followed
