"""The contract of a selector, as a function that anyone can run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pastmaster.checks import is_whole, whole
from pastmaster.errors import ContractError, InvalidInputError
from pastmaster.reuse.asked import Episode
from pastmaster.tables import shown
from pastmaster.testing.tasks import same

BOUNDS = (-2.0, 6.0)
MANY = 20


def check_selector(factory: Callable[..., Any], *, n_sources: int = 3, episodes: int = 200, seed: int = 0) -> None:
    """Check that a selector keeps its contract, by asking and telling it.

    It checks that

    * ``ask`` gives an ``Episode`` with a number of its own and an arm in 0 .. n_sources; or just an arm, which it
      repeats until that arm is told;
    * ``tell`` refuses what was not asked for, an unknown arm, a second tell and a return that is not finite, and that
      the selector is as it was after each refusal;
    * if ``ask`` gives episodes, many can be open at once, be told in any order, or be cancelled;
    * the same seed and returns give the same arms, and other returns change the selector;
    * ``probabilities``, if there are any, sum to 1, and are above 0 for the arm asked for;
    * ``to_dict`` and ``from_dict``, if there are any, continue as if nothing had happened, through JSON.

    Parameters
    ----------
    factory : callable
        Called as ``factory(n_sources, episodes, bounds=..., rng=...)``, as ``transfer`` does: a class, or a function.
    n_sources, episodes, seed : int
        The number of sources, the episodes of a run, and the seed of the selectors and the returns.

    Raises
    ------
    InvalidInputError
        If ``factory`` is a selector, or a name, in place of a class or function.
    ContractError
        The first rule that a selector breaks, and the likely cause. It is an ``AssertionError`` too: in a test, a
        failure.

    Examples
    --------
    >>> from functools import partial
    >>> from pastmaster import Exp3Transfer
    >>> from pastmaster.testing import check_selector
    >>> check_selector(partial(Exp3Transfer, elimination="anytime"))
    """
    if not callable(factory):
        raise InvalidInputError(
            f"check_selector: factory is {shown(factory)}, must be a class or a function that makes selectors"
        )
    for arms in (whole("check_selector", "n_sources", n_sources, at_least=0), 0):
        check = _Check(factory, arms, whole("check_selector", "episodes", episodes, at_least=2), seed)
        check.repeats()
        check.refuses()
        check.resumes()
        check.overlaps()
        if arms:
            check.learns()


class _Check:
    """Selectors of one factory, from one seed: ``first`` as it ended after a run, and its ``arms``."""

    def __init__(self, factory: Callable[..., Any], n_sources: int, episodes: int, seed: int) -> None:
        self.factory = factory
        self.n_sources = n_sources
        self.episodes = episodes
        self.seed = whole("check_selector", "seed", seed, at_least=0)
        self.returns = np.random.default_rng(self.seed).uniform(*BOUNDS, (episodes, n_sources + 1))
        self.first = self.made()
        self.arms = self.run(self.first)

    def made(self) -> Any:
        rng = np.random.default_rng(self.seed)
        try:
            selector = self.factory(self.n_sources, self.episodes, bounds=BOUNDS, rng=rng)
        except TypeError as error:
            raise ContractError(
                f"check_selector: it cannot be called as factory(n_sources, episodes, bounds=..., rng=...): {error}"
            ) from error
        except Exception as error:  # of whatever kind: it is the factory's
            raise ContractError(f"check_selector: it raises {shown(error)} for {self.n_sources} sources") from error
        for name in ("ask", "tell"):
            if not callable(getattr(selector, name, None)):
                raise ContractError(f"check_selector: {shown(selector)} has no method {name}")
        return selector

    def asked(self, selector: Any) -> Any:
        """What ``ask`` gives, checked; an arm alone is asked for twice."""
        before = self.chances(selector)
        asked = selector.ask()
        arm = arm_of(asked)
        if not is_whole(arm) or not 0 <= arm <= self.n_sources:
            raise ContractError(
                f"check_selector: ask gives {shown(asked)}, must be an Episode of, or just, a whole number in 0 .. "
                f"{self.n_sources}, {self.n_sources} for the learner"
            )
        if not isinstance(asked, Episode):
            if selector.ask() != asked:
                raise ContractError(
                    "check_selector: a second ask gives another arm before the first was told: does ask keep the arm "
                    "that is pending? To have many open at once, let it give Episodes"
                )
            before = self.chances(selector)
        if before is not None and before[arm] <= 0:
            raise ContractError(f"check_selector: ask gives arm {arm}, which has probability 0")
        return asked

    def chances(self, selector: Any) -> Any:
        """The probabilities of the arms, checked; None if the selector does not tell them."""
        if not hasattr(selector, "probabilities"):
            return None
        chances = np.asarray(selector.probabilities)
        if chances.shape != (self.n_sources + 1,) or not (chances >= 0).all() or abs(chances.sum() - 1) > 1e-9:
            raise ContractError(
                f"check_selector: probabilities are {chances.tolist()}, must be {self.n_sources + 1} numbers that "
                "sum to 1"
            )
        return chances

    def told(self, selector: Any, asked: Any, value: float) -> None:
        try:
            selector.tell(asked, value)
        except Exception as error:  # of whatever kind: it is the selector's
            raise ContractError(
                f"check_selector: tell raises {shown(error)} for {asked}, which was asked for, and a return of "
                f"{value:g} within the bounds {BOUNDS}"
            ) from error

    def run(self, selector: Any, begin: int = 0, end: int | None = None) -> list[int]:
        """The arms of episodes ``begin`` .. ``end`` - 1."""
        arms = []
        for row in self.returns[begin:end]:
            asked = self.asked(selector)
            arms.append(arm_of(asked))
            self.told(selector, asked, float(row[arms[-1]]))
        return arms

    def repeats(self) -> None:
        """The same seed gives the same run."""
        if self.run(self.made()) != self.arms:
            raise ContractError(
                "check_selector: the same seed and returns give other arms: does it draw from a generator other than "
                "its rng, or share state with other selectors?"
            )

    def refuses(self) -> None:
        """What cannot be told is refused, and changes nothing."""
        selector = self.made()
        unknown = self.n_sources + 1
        arms = []
        self.refused(selector, 0, 0.0, "an arm before the first ask")
        for row in self.returns:
            asked = self.asked(selector)
            arm = arm_of(asked)
            arms.append(arm)
            self.refused(selector, _with_arm(asked, unknown), 0.0, "an unknown arm")
            self.refused(selector, _with_arm(asked, -1), 0.0, "an unknown arm")
            self.refused(selector, asked, math.nan, "a return that is not a number")
            self.refused(selector, asked, math.inf, "an infinite return")
            if self.n_sources:
                self.refused(
                    selector,
                    _with_arm(asked, (arm + 1) % unknown),
                    0.0,
                    "an arm that was not asked for",
                )
            if isinstance(asked, Episode):
                self.refused(
                    selector,
                    Episode(arm, asked.number + 1),
                    0.0,
                    "an episode that was not asked for",
                )
            self.told(selector, asked, float(row[arm]))
            self.refused(selector, asked, 0.0, "the same episode twice")
        if arms != self.arms:
            raise ContractError("check_selector: a refused tell changes later arms: check arguments before any change")

    def refused(self, selector: Any, asked: Any, value: float, what: str) -> None:
        before = _state(selector)
        try:
            selector.tell(asked, value)
        except Exception:  # any error is a refusal
            if not same(_state(selector), before):
                raise ContractError(
                    f"check_selector: tell refuses {what} but changes the selector: check arguments before any change"
                ) from None
            return
        raise ContractError(
            f"check_selector: tell takes {what} ({asked}, {value:g}), must raise an error: an episode that is told "
            "twice or to the wrong arm spoils all estimates without a sign"
        )

    def learns(self) -> None:
        """Other returns make another selector."""
        runs = []
        for best in (0, self.n_sources):
            selector = self.made()
            arms = []
            for _ in range(self.episodes):
                asked = self.asked(selector)
                arms.append(arm_of(asked))
                self.told(selector, asked, BOUNDS[arms[-1] == best])
            runs.append((arms, _state(selector)))
        if same(*runs):
            raise ContractError("check_selector: other returns give the same selector: does tell forget them?")

    def resumes(self) -> None:
        """A selector read back from JSON goes on as the one that was written, told or not."""
        selector = self.made()
        half = self.episodes // 2
        if not (hasattr(selector, "to_dict") and hasattr(selector, "from_dict")):
            return
        self.run(selector, 0, half)
        for pending in (False, True):
            asked = self.asked(selector) if pending else None
            again = self.read_back(selector)
            if isinstance(asked, Episode):
                self.told(again, asked, float(self.returns[half][asked.arm]))
            rest = self.run(again, half + isinstance(asked, Episode))
            if rest != self.arms[len(self.arms) - len(rest) :] or not same(_state(again), _state(self.first)):
                raise ContractError(
                    "check_selector: read back from JSON it goes on in another way: does to_dict miss the generator, "
                    "an open episode or another part of its state?"
                )

    def read_back(self, selector: Any) -> Any:
        try:
            text = json.dumps(selector.to_dict(), allow_nan=False)
            return type(selector).from_dict(json.loads(text))
        except Exception as error:  # of whatever kind: it is the selector's
            raise ContractError(
                f"check_selector: it cannot be written as JSON and read back: {shown(error)}"
            ) from error

    def overlaps(self) -> None:
        """Many episodes open at once are told and cancelled in any order, once each; JSON keeps those that are open."""
        selector = self.made()
        order = np.random.default_rng(self.seed)
        self.run(selector, 0, MANY)
        if not isinstance(self.asked(selector), Episode):
            return
        opened: list[Episode] = [self.asked(selector) for _ in range(MANY)]
        numbers = [episode.number for episode in opened]
        if len(set(numbers)) < MANY:
            raise ContractError(f"check_selector: open episodes have the numbers {numbers}, must be all different")
        half = [opened[i] for i in order.permutation(MANY)]
        self.settle(selector, half[: MANY // 2])
        again = self.read_back(selector) if hasattr(selector, "to_dict") and hasattr(selector, "from_dict") else None
        for each in (selector, again):
            if each is not None:
                self.settle(each, half[MANY // 2 :])
                self.run(each, 0, MANY)
        if again is not None and not same(_state(again), _state(selector)):
            raise ContractError(
                "check_selector: read back from JSON with episodes open it goes on in another way: does to_dict miss "
                "their probabilities?"
            )

    def settle(self, selector: Any, episodes: list[Episode]) -> None:
        """Tell these episodes, and cancel every third."""
        for place, episode in enumerate(episodes):
            if place % 3 or not hasattr(selector, "cancel"):
                self.told(selector, episode, float(self.returns[0][episode.arm]))
            else:
                selector.cancel(episode)
            self.refused(selector, episode, 0.0, "an episode that is not open any more")


def arm_of(asked: Any) -> Any:
    """The arm of what ``ask`` gave."""
    return asked.arm if isinstance(asked, Episode) else asked


def _with_arm(asked: Any, arm: int) -> Any:
    """The same with another arm."""
    return asked._replace(arm=arm) if isinstance(asked, Episode) else arm


def _state(selector: Any) -> Any:
    """The state as plain values, or None where the selector does not write it."""
    return selector.to_dict() if hasattr(selector, "to_dict") else None
