"""Selectors of others, as published, to compare with: their common base, and UCB1.

None of them has a learner: they choose among the sources alone and never run arm c. They are plain NumPy, an ask and a
tell take some tens of microseconds. Each works on payoffs, returns scaled by the bounds to 0 .. 1, and keeps
what it knows beside the counts of every `Selector`. Where several episodes are open, each is learned from when it is
told; the papers have one at a time, and so have the guarantees. The others are in ``rivals_informed``,
``rivals_latent`` and ``rivals_advice``.

*UCB1* (Auer, Cesa-Bianchi and Fischer 2002, "Finite-time analysis of the multiarmed bandit problem", Machine Learning
47): each source once, then the one with the largest

    mean_j + sqrt(2 ln n / n_j),

n_j its episodes, n all of them. Their Theorem 1: after n episodes the payoffs lost to the best source are, in
expectation, at most 8 sum_j ln n / gap_j + (1 + pi^2 / 3) sum_j gap_j, summed over the sources that are worse by
gap_j > 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import BoolArray, FloatArray
from pastmaster.checks import is_whole, mapping
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng
from pastmaster.reuse import _layout as layout, selector as base
from pastmaster.reuse._selector_kernels import draw
from pastmaster.reuse.asked import Asked, Episode
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.tables import counted

FIXED = MappingProxyType({"elimination": "none", "check_every": 1})


class PlainSelector(base.Selector):
    """A selector that chooses among the sources in plain Python.

    A child says how likely each source is (``_chances``), and what it keeps of an ask, a return or a cancelled episode
    (``_begun``, ``_told``, ``_cancelled``). What must be written to JSON beside the counts goes through ``_model``
    and ``_take_model``.
    """

    rule = layout.PLAIN
    fixed: ClassVar[Mapping[str, Any]] = MappingProxyType({**FIXED, "delta": 0.0})

    def __init__(self, rng: Rng, **arguments: Any) -> None:
        if is_whole(arguments["n_sources"]) and arguments["n_sources"] == 0:
            raise InvalidInputError(
                f"{type(self).__name__}: n_sources is 0, must be at least 1: it has no learner, and runs sources alone"
            )
        super().__init__(rng, **arguments)

    @abstractmethod
    def _chances(self) -> FloatArray:
        """How likely each source is at the next ask [c]; nothing is changed."""

    def _begun(self, number: int, arm: int) -> None:
        """An episode is asked for."""

    def _told(self, number: int, arm: int, payoff: float) -> None:
        """An episode is told, and counted."""

    def _cancelled(self, number: int, arm: int) -> None:
        """An episode is cancelled."""

    def _model(self) -> dict[str, Any]:
        """What is known beside the counts, as plain JSON values."""
        return {}

    def _take_model(self, place: str, model: Mapping[str, Any]) -> None:
        """Take over what ``_model`` returned; an error if it cannot be that."""

    def ask(self) -> Episode:
        with base.LOCK:
            number, chances = self.n_asked, self.probabilities
            arm = int(draw(chances, self._rng.random()))
            self._begun(number, arm)
            self._arms[layout.PROBABILITY] = chances
            self._arms[layout.OPEN, arm] += 1.0
            self._memory[layout.ASKED] += 1.0
            self._asked.add(number, Asked(arm, float(self._memory[layout.ASKED]), chances))
            return Episode(arm, number)

    def tell(self, episode: Episode, value: float, likelihood: npt.ArrayLike | None = None) -> None:
        """Tell the discounted return of an open episode; episodes may be told in any order.

        Raises
        ------
        InvalidInputError
            If the episode is not open, the return is not finite or outside the bounds, or ``likelihood`` is given,
            which the published rule has no use for; nothing is changed.
        """
        if likelihood is not None:
            raise InvalidInputError(
                f"{type(self).__name__}.tell: likelihood is given, must be None: it learns of the arm that ran alone"
            )
        with base.LOCK:
            super().tell(episode, value)
            payoff = min(max((float(value) - self.bounds.lower) / self.bounds.span, 0.0), 1.0)
            self._told(episode.number, episode.arm, payoff)

    def cancel(self, episode: Episode) -> None:
        with base.LOCK:
            super().cancel(episode)
            self._cancelled(episode.number, episode.arm)

    @property
    def probabilities(self) -> FloatArray:
        """How likely each arm is at the next ask [c + 1]; 0 for the learner."""
        with base.LOCK:
            return np.append(self._chances(), 0.0)

    @property
    def active(self) -> BoolArray:
        """Which arms are in play [c + 1]; the learner never is."""
        return np.append(np.ones(self.n_sources, np.bool_), np.False_)

    def to_dict(self) -> dict[str, Any]:
        with base.LOCK:
            return {**super().to_dict(), "model": self._model()}

    def _fill(self, caller: str, state: Mapping[str, Any]) -> None:
        super()._fill(caller, state)
        if any(asked.arm == self.n_sources for asked in self._asked.open) or self._arms[layout.COUNT, -1] > 0.0:
            raise InvalidInputError(f"{caller}: the learner ran an episode, must be what to_dict returned")
        self._take_model(f"{caller}: model", mapping(state.get("model"), f"{caller}: model", "what to_dict returned"))

    def _conditional_guarantee(self, episodes: int, at_once: int, statement: str) -> RegretGuarantee:
        """A guarantee that no bound of a `RegretGuarantee` can hold, because it is not about all tasks: in words."""
        statement = "Nothing is proven with several episodes open at once." if at_once > 1 else statement
        return RegretGuarantee(episodes, None, None, None, statement)

    def _if_independent(self, at_once: int | None, regret: Callable[[int], float], how: str) -> RegretGuarantee:
        """A bound on the payoffs lost to each source in so many episodes, if returns are independent and alike."""
        episodes, at_once = self._guaranteed(at_once)
        if at_once > 1:
            return self._conditional_guarantee(episodes, at_once, "")
        span = self.bounds.span
        bound = span * min(1.0, regret(episodes) / episodes)
        empty = "This says nothing: the bound is the whole span. " if bound >= span else ""
        statement = (
            f"{empty}Over {counted(episodes, 'episode')}, {how}, the mean return per episode is at most {bound:.4g} "
            "below the value of each source,\nif the returns of a source are independent and alike. Nothing is proven "
            "about the learner, which never runs."
        )
        return RegretGuarantee(episodes, None, bound, bound, statement)


def only(arm: int, n_sources: int) -> FloatArray:
    """The probabilities of a choice that is certain [c]."""
    chances = np.zeros(n_sources)
    chances[arm] = 1.0
    return chances


def ucb1_regret(n_sources: int, episodes: int) -> float:
    """Payoffs that UCB1 loses to the best source in expectation, whatever the gaps are.

    By Theorem 1, with sources closer than d to the best counted as d for each episode, and d the best choice:
    2 sqrt(8 (c - 1) n ln n) + (1 + pi^2 / 3) (c - 1).
    """
    others = n_sources - 1
    return 2.0 * math.sqrt(8.0 * others * episodes * math.log(episodes)) + (1.0 + math.pi**2 / 3.0) * others


class UCB1(PlainSelector):
    """UCB1 of Auer, Cesa-Bianchi and Fischer (2002) over the sources. It has no learner and uses no experience.

    With several episodes open, n_j and n count open ones too, and a source of which no return is known yet is taken to
    pay the upper bound. Ties go to the first source.

    Parameters
    ----------
    n_sources : int
        The number of source policies, c, at least 1. Arm c, the learner, is never chosen.
    episodes : int, optional
        The number of episodes planned; only ``regret_guarantee`` uses it.
    bounds : (float, float)
        The lower and upper bound of a return.
    clip : bool
        Move returns outside the bounds onto them; by default they are refused.
    rng : int, Generator or None
        One number is drawn for each ask, as by every selector; the choice does not depend on it.

    Examples
    --------
    >>> from pastmaster import UCB1
    >>> selector = UCB1(3, bounds=(0, 1), rng=0)
    >>> for _ in range(300):
    ...     episode = selector.ask()
    ...     selector.tell(episode, [0.9, 0.1, 0.5][episode.arm])
    >>> selector.counts.tolist()
    [257, 12, 31, 0]
    """

    name = "ucb1"

    def __init__(
        self,
        n_sources: int,
        episodes: int | None = None,
        *,
        bounds: tuple[float, float],
        clip: bool = False,
        rng: Rng = None,
    ) -> None:
        super().__init__(rng, n_sources=n_sources, episodes=episodes, bounds=bounds, clip=clip)

    def _chances(self) -> FloatArray:
        count, total, asked = self._arms[[layout.COUNT, layout.TOTAL, layout.OPEN], :-1]
        runs = count + asked
        untried = np.flatnonzero(runs == 0.0)
        if len(untried):
            return only(int(untried[0]), self.n_sources)
        means = np.ones(self.n_sources)
        np.divide(total, count, out=means, where=count > 0.0)
        return only(int(np.argmax(means + np.sqrt(2.0 * math.log(runs.sum()) / runs))), self.n_sources)

    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """Return Theorem 1 of the paper for the least favourable gaps; nothing for several episodes open at once."""
        return self._if_independent(at_once, partial(ucb1_regret, self.n_sources), "in expectation")
