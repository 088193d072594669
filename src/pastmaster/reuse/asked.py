"""The episodes that a selector has asked for: open ones, and those told that wait for others to be told first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray

NOTHING = np.empty(0)


class Episode(NamedTuple):
    """An episode that a selector asks for.

    Attributes
    ----------
    arm : int
        Who is to run it: a source, or ``n_sources`` for the learner.
    number : int
        The number of the ask, counted from 0.

    Examples
    --------
    >>> from pastmaster import TsallisINF
    >>> selector = TsallisINF(3, bounds=(0, 1), rng=0)
    >>> first, second = selector.ask(), selector.ask()
    >>> selector.tell(second, 0.5)
    >>> selector.cancel(first)
    >>> first
    Episode(arm=2, number=0)
    """

    arm: int
    number: int


@dataclass(slots=True)
class Asked:
    """An episode as it was asked for: its arm, the selector's clock and probabilities; and its payoff once told."""

    arm: int
    time: float
    chances: FloatArray
    payoff: float | None = None


class AskedEpisodes:
    """Episodes from their ask until they are told and can be seen: until no earlier one is open any more."""

    def __init__(self) -> None:
        self._by_number: dict[int, Asked] = {}
        self._order: deque[int] = deque()  # numbers in the order of asks; of cancelled ones too, until they come first
        self.n_open, self.most_open = 0, 1

    def add(self, number: int, asked: Asked) -> None:
        self._by_number[number] = asked
        self._order.append(number)
        if asked.payoff is None:
            self.n_open += 1
            self.most_open = max(self.most_open, self.n_open)

    def get(self, number: int) -> Asked | None:
        """An open episode."""
        asked = self._by_number.get(number)
        return asked if asked is None or asked.payoff is None else None

    def is_only(self) -> bool:
        """Whether one episode is open, and none waits."""
        return len(self._order) == 1

    def clear(self) -> None:
        """The only episode is told and seen."""
        self._by_number.clear()
        self._order.clear()
        self.n_open = 0

    def tell(self, number: int, payoff: float) -> tuple[FloatArray, FloatArray]:
        """An open episode is told; returns arms and payoffs that can now be seen, in the order of their asks."""
        asked = self._by_number[number]
        asked.payoff, asked.chances = payoff, NOTHING
        self.n_open -= 1
        return self._ready()

    def cancel(self, number: int) -> tuple[FloatArray, FloatArray]:
        """An open episode will never be told; returns as ``tell``."""
        del self._by_number[number]
        self.n_open -= 1
        return self._ready()

    def _ready(self) -> tuple[FloatArray, FloatArray]:
        arms, payoffs = [], []
        while self._order:
            asked = self._by_number.get(self._order[0])
            if asked is not None:
                if asked.payoff is None:
                    break
                arms.append(asked.arm)
                payoffs.append(asked.payoff)
                del self._by_number[self._order[0]]
            self._order.popleft()
        return np.array(arms, np.int64), np.array(payoffs, np.float64)

    @property
    def open(self) -> Iterator[Episode]:
        """The open episodes, in the order of their asks."""
        return (Episode(asked.arm, n) for n, asked in self._by_number.items() if asked.payoff is None)

    def open_per_arm(self, n_arms: int) -> FloatArray:
        """How many episodes of each arm are open [n_arms]."""
        arms = [asked.arm for asked in self._by_number.values() if asked.payoff is None]
        return np.bincount(arms, minlength=n_arms).astype(np.float64)

    def first(self, otherwise: int) -> int:
        """The number of the first open episode; every one before it has been seen."""
        return self._order[0] if self._order else otherwise

    def entries(self) -> list[list[Any]]:
        """All of them as plain JSON values."""
        return [_entry(number, asked) for number, asked in self._by_number.items()]

    def arrays(self) -> tuple[FloatArray, FloatArray]:
        """The numbers of all of them: number, arm, time and payoff, NaN for an open one [n, 4]; and probabilities."""
        known = [
            (number, a.arm, a.time, np.nan if a.payoff is None else a.payoff) for number, a in self._by_number.items()
        ]
        return np.array(known, np.float64), np.concatenate([NOTHING, *(a.chances for a in self._by_number.values())])

    def entry(self, number: int) -> list[Any] | None:
        """One of them; None where it is neither open nor waits."""
        asked = self._by_number.get(number)
        return None if asked is None else _entry(number, asked)

    def put_back(self, entries: Iterable[list[Any]]) -> None:
        """Take over what ``entries`` returned."""
        for number, arm, time, payoff, chances in entries:
            if number in self._by_number:
                raise ValueError(f"episode {number} is there twice")
            self.add(number, Asked(arm, time, np.array(chances, np.float64), payoff))


def _entry(number: int, asked: Asked) -> list[Any]:
    return [number, asked.arm, asked.time, asked.payoff, asked.chances.tolist()]
