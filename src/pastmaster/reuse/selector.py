"""Base of the selectors: ask for an episode, tell its return, keep the state in arrays, write it as plain JSON.

A selector chooses, before each episode, one of c + 1 arms: the source policies 0 .. c - 1 and the learner, c. It needs
no task: anything that runs an episode (a simulator, a robot, a website) can be driven by ``ask`` and ``tell``, from any
number of threads.

Any number of episodes may be open at once. An episode keeps the probabilities and the learning rate of its ask: its
return is weighed by them whenever it is told, which leaves every estimate unbiased. As *evidence* for elimination,
returns are seen in the order of all asks, up to the first episode that is still open: quick episodes, which are often
the failed ones, are not seen before slow ones. ``docs/guarantees.md`` has what delay costs, and proves it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import BoolArray, FloatArray, LongArray, as_floats
from pastmaster.checks import (
    called_as,
    chosen,
    flag,
    is_finite,
    is_whole,
    is_word,
    listed,
    mapping,
    optional_whole,
    whole,
    within,
)
from pastmaster.errors import InvalidInputError
from pastmaster.generators import Rng, rng_from_dict, rng_to_dict, seeded
from pastmaster.reuse import _layout as at, _selector_kernels as kernels
from pastmaster.reuse.asked import NOTHING, Asked, AskedEpisodes, Episode
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.tables import counted, shown
from pastmaster.values.bounds import checked_bounds

Elimination = Literal["paper", "anytime", "none"]
ELIMINATIONS = {"none": at.NEVER, "paper": at.PAPER, "anytime": at.ANYTIME}
MOST_SOURCES = 10**6  # whose numbers take 100 MB
LARGEST_RETURN = 1e100  # in size, where there are no bounds
LOCK = threading.RLock()
"""Held while a selector changes; one for all of them, so that selectors can be copied and sent to other processes."""


def _fresh_lock() -> None:
    """In a forked child the lock may be held by a thread that is not there."""
    global LOCK
    LOCK = threading.RLock()


os.register_at_fork(after_in_child=_fresh_lock)


class Selector(ABC):
    """State in three arrays (see ``_selector_kernels``) and the open episodes; ``ask``, ``tell`` and ``cancel``."""

    name: ClassVar[str]
    rule: ClassVar[int]
    n_memory: ClassVar[int] = at.N_MEMORY
    informed: ClassVar[bool] = False  # whether it takes ``experience``
    bounded: ClassVar[bool] = True  # whether returns must lie within bounds
    fixed: ClassVar[Mapping[str, Any]] = {}  # settings that the constructor does not take
    mixes: ClassVar[bool] = False  # whether sources and learner act in one episode, as ``reuse`` (psi, upsilon) says
    reuse: tuple[float, float] = (1.0, 1.0)

    def __init__(self, rng: Rng, **arguments: Any) -> None:
        """Check what all selectors take; ``arguments`` are the constructor's, in the order they are written in."""
        name, given = type(self).__name__, {**self.fixed, **arguments}
        self.n_sources = whole(name, "n_sources", given["n_sources"], at_least=0, at_most=MOST_SOURCES)
        self.episodes = optional_whole(name, "episodes", given["episodes"])
        self.bounds = checked_bounds(name, given["bounds"])
        self.delta = within(name, "delta", given["delta"], 0.0, 1.0)
        self.clip = flag(name, "clip", given["clip"])
        check_every = whole(name, "check_every", given["check_every"], at_least=1)
        elimination = chosen(name, "elimination", given["elimination"], ELIMINATIONS)
        self.elimination = elimination if self.delta > 0.0 else "none"  # delta = 0 never eliminates
        self._rng, self.seed = seeded(name, rng)
        checked = {
            "n_sources": self.n_sources, "episodes": self.episodes, "bounds": list(self.bounds), "delta": self.delta,
            "check_every": check_every, "clip": self.clip,
        }  # fmt: skip
        self._arguments = {key: checked.get(key, value) for key, value in arguments.items()}
        self._arms = np.zeros((self._rows(), self.n_sources + 1))
        self._arms[[at.ACTIVE, at.WEIGHT]] = 1.0
        self._arms[at.DROPPED] = -1.0
        self._memory = np.zeros(self.n_memory)
        self._memory[at.NEXT_CHECK] = check_every
        self._asked = AskedEpisodes()
        self._settings = np.zeros(at.N_SETTINGS)
        (lower, upper), slack = self.bounds, kernels.rounding(*self.bounds)
        self._settings[[at.RULE, at.LOWER, at.UPPER]] = self.rule, lower, upper
        self._settings[[at.LEAST, at.MOST, at.CLIP]] = lower - slack, upper + slack, self.clip
        self._settings[[at.ELIMINATION, at.DELTA]] = ELIMINATIONS[self.elimination], self.delta
        self._settings[at.CHECK_EVERY] = check_every

    def _rows(self) -> int:
        """The rows of ``arms``; the first ``N_ROWS`` are written to JSON, what others hold follows from these."""
        return at.N_ROWS

    def ask(self) -> Episode:
        """Open an episode: which arm to run next. Any number may be open at once, each is told or cancelled once."""
        with LOCK:
            number = self.n_asked
            arm, time = kernels.ask(self._arms, self._memory, self._settings, self._rng.random())
            self._asked.add(number, Asked(arm, time, self._arms[at.PROBABILITY].copy()))
            return Episode(arm, number)

    def tell(self, episode: Episode, value: float, likelihood: npt.ArrayLike | None = None) -> None:
        """Tell the discounted return of an open episode; episodes may be told in any order.

        Parameters
        ----------
        episode, value : Episode, float
            What ``ask`` gave, and the discounted return of that episode.
        likelihood : array_like [c + 1], optional
            How likely each arm would have been to act as this episode did (1 or 0 for a deterministic source), up to a
            common factor. The episode then counts, without bias, for every arm that could have run it.

        Raises
        ------
        InvalidInputError
            If the episode is not open, or the return is not finite or outside the bounds; nothing is changed.
        """
        with LOCK:
            asked = self._opened("tell", episode)
            self._check_value(value)
            shares = NOTHING if likelihood is None else self._checked_likelihood(asked, likelihood)
            at_once = not self._asked.is_only()
            payoff = kernels.take(
                self._arms, self._memory, self._settings, asked.arm, asked.time, asked.chances, float(value), shares,
                not at_once,
            )  # fmt: skip
            if math.isnan(payoff):
                raise InvalidInputError(
                    f"{type(self).__name__}.tell: value is {float(value):.6g} for arm {asked.arm}, must be within the "
                    f"bounds {self.bounds.lower:.6g} .. {self.bounds.upper:.6g}; declare wider ones, or pass clip=True"
                )
            if at_once:
                seen = self._asked.tell(episode.number, payoff)
                kernels.catch_up(self._arms, self._memory, self._settings, *seen, True)
            else:
                self._asked.clear()

    def cancel(self, episode: Episode) -> None:
        """Forget an open episode that will never be told.

        What is proven holds if the reason has nothing to do with the arm or the return. An episode that broke off
        because its arm did badly should be told a bad return instead. Cancel what will never be told: while an episode
        is open, no later one is evidence for dropping a source.

        Raises
        ------
        InvalidInputError
            If the episode is not open; nothing is changed.
        """
        with LOCK:
            asked = self._opened("cancel", episode)
            kernels.await_return(self._arms, self._memory, self._settings, asked.arm, -1.0)
            seen = self._asked.cancel(episode.number)
            kernels.catch_up(self._arms, self._memory, self._settings, *seen, False)

    @property
    def open(self) -> tuple[Episode, ...]:
        """The episodes asked for, and neither told nor cancelled, in the order of their asks."""
        with LOCK:
            return tuple(self._asked.open)

    @property
    def probabilities(self) -> FloatArray:
        """How likely each arm is at the next ask [c + 1]."""
        with LOCK:
            arms = self._arms.copy()
            kernels.weigh(arms, self._memory.copy(), self._settings)
        return np.asarray(arms[at.PROBABILITY])

    @property
    def active(self) -> BoolArray:
        """Which arms are still in play [c + 1]; the learner always is."""
        return np.asarray(self._arms[at.ACTIVE], np.bool_)

    @property
    def eliminated_at(self) -> LongArray:
        """After how many episodes each source was eliminated, -1 if it was not [c]."""
        return np.asarray(self._arms[at.DROPPED, :-1], np.int64)

    @property
    def counts(self) -> LongArray:
        """Each arm's own episodes told [c + 1]."""
        return np.asarray(self._arms[at.COUNT], np.int64)

    @property
    def mean_returns(self) -> FloatArray:
        """The mean return of each arm's own episodes, NaN where there are none [c + 1]."""
        with LOCK:
            counts, totals = self._arms[[at.COUNT, at.TOTAL]]
        means = np.full(len(counts), np.nan)
        np.divide(totals, counts, out=means, where=counts > 0)
        return self.bounds.lower + self.bounds.span * means if self.bounded else means

    @property
    def n_asked(self) -> int:
        """Episodes asked for so far."""
        return int(self._memory[at.ASKED])

    @property
    def n_told(self) -> int:
        """Episodes told so far."""
        return int(self._memory[at.EPISODE])

    @property
    def n_clipped(self) -> int:
        """Returns outside the bounds that ``clip=True`` moved onto them."""
        return int(self._memory[at.CLIPPED])

    def start_clipping(self) -> None:
        """From now on move returns outside the bounds onto them."""
        self.clip = True
        self._settings[at.CLIP] = 1.0
        if "clip" in self._arguments:
            self._arguments["clip"] = True

    def refuses(self, episode_return: float) -> bool:
        """Whether ``tell`` would refuse the return as outside the bounds."""
        if not is_finite(episode_return):
            return True
        return self.bounded and not self.clip and bool(kernels.outside(float(episode_return), *self.bounds))

    @abstractmethod
    def regret_guarantee(self, at_once: int | None = None) -> RegretGuarantee:
        """What is proven about the mean loss per episode.

        Parameters
        ----------
        at_once : int, optional
            The most episodes that are ever open at once; by default as many as there were so far, 1 at least.
        """

    def _guaranteed(self, at_once: int | None) -> tuple[int, int]:
        """The number of episodes that a guarantee is about, as declared or as there were; and the most at once."""
        caller = f"{type(self).__name__}.regret_guarantee"
        most = self._asked.most_open
        at_once = most if at_once is None else whole(caller, "at_once", at_once, at_least=most)
        episodes = max(self.episodes or 0, self.n_told + self._asked.n_open)
        if episodes == 0:
            raise InvalidInputError(f"{caller}: episodes is None, must be given, or some be told")
        return episodes, at_once

    def _bandit_guarantee(self, episodes: int, at_once: int, regret: float, delay: float) -> RegretGuarantee:
        """The guarantee of a bandit over sources and learner that loses so many payoffs per episode to any arm.

        They are ``regret``, and ``delay`` because of episodes that are open at once.
        """
        about = f"Over {counted(episodes, 'episode')}" + (f", at most {at_once} open at once" if at_once > 1 else "")
        span, charge = self.bounds.span, self.delta * self.bounds.span
        bound = span * min(1.0, regret + delay)
        charged = min(span, bound + charge)
        wrongly = f"{charge:.4g} of it for wrong eliminations"
        best, about_sources = {
            "none": (bound, f"at most {bound:.4g} below the value of each source."),
            "anytime": (charged, f"at most {charged:.4g} below the value of the best source ({wrongly})."),
            "paper": (None, "below the value of the sources by an amount not proven: the paper's test exceeds delta."),
        }[self.elimination]
        if bound >= span:
            about = f"This says nothing: the bound is the whole span. {about}"
        lines = [
            f"{about}, in expectation, the mean return per episode is",
            f"  at most {bound:.4g} below what the learner would have earned with what it had learned by each episode;",
            f"  {about_sources}",
            *([f"Of this, {span * delay:.4g} is for episodes open at once. {INDEPENDENT}"] if at_once > 1 else []),
            *(["Returns outside the bounds count as clipped onto the bounds."] if self.clip else []),
            "This is no bound against the learner run alone: here it learns only from the episodes it gets.",
        ]
        each = bound if self.elimination == "none" else None
        return RegretGuarantee(episodes, bound, each, best, "\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain JSON values; ``from_dict`` continues from it, bit for bit."""
        with LOCK:
            return self._state(self._asked)

    def to_dict_alone(self) -> dict[str, Any]:
        """What ``to_dict`` returns but without episodes, in a time that does not depend on how many are open."""
        with LOCK:
            return self._state(AskedEpisodes())

    def _state(self, asked: AskedEpisodes) -> dict[str, Any]:
        rng = rng_to_dict(self._rng)
        return {
            "selector": self.name,
            "arguments": self._plain_arguments(),
            "rng": rng,
            "arms": self._arms[: at.N_ROWS].tolist(),
            "memory": self._memory.tolist(),
            "checksum": self._checksum(asked, rng),
            "open": asked.entries(),
            "most_open": self._asked.most_open,
            "seed": self.seed,
        }

    def _checksum(self, asked: AskedEpisodes, rng: dict[str, Any]) -> str:
        """Of all that is written: it finds accidents, not forgeries."""
        arrays = [self._arms[: at.N_ROWS], self._memory, *asked.arrays(), *self._given_arrays()]
        shapes = [None if array is None else array.shape for array in arrays]
        words = json.dumps([self.name, self._arguments, rng, self._asked.most_open, self.seed, shapes])
        total = hashlib.sha256(words.encode())
        for array in arrays:
            if array is not None:
                total.update(np.ascontiguousarray(array, "<f8").tobytes())
        return total.hexdigest()

    def _plain_arguments(self) -> dict[str, Any]:
        """What the constructor was given, as plain JSON values."""
        return {key: list(value) if isinstance(value, list) else value for key, value in self._arguments.items()}

    def _given_arrays(self) -> list[FloatArray | None]:
        """What the constructor was given beside plain values."""
        return []

    def pending(self, numbers: Iterable[int]) -> dict[int, list[Any]]:
        """What ``to_dict`` has of those of these episodes that are open, or told and wait for an earlier one."""
        wanted = listed(numbers, f"{type(self).__name__}.pending: numbers")
        with LOCK:
            found = {number: self._asked.entry(number) for number in wanted}
        return {number: entry for number, entry in found.items() if entry is not None}

    @property
    def first_open(self) -> int:
        """The number of the first open episode; ``n_asked`` where none is open. Earlier ones are not pending."""
        with LOCK:
            return self._asked.first(self.n_asked)

    @property
    def n_open(self) -> int:
        """How many episodes are open."""
        return self._asked.n_open

    def arm_of(self, number: int) -> int | None:
        """The arm of an open episode; None where the number is of none."""
        asked = self._asked.get(number)
        return None if asked is None else asked.arm

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Make a selector from what ``to_dict`` returned."""
        caller, wanted = f"{cls.__name__}.from_dict", "what to_dict returned"
        state = mapping(state, f"{caller}: state", wanted)
        try:
            if not is_word(state["selector"], [cls.name]):
                raise InvalidInputError(f"{caller}: this is a {shown(state['selector'])}, must be a {cls.name!r}")
            with called_as(caller):
                selector = cls(**state["arguments"], rng=rng_from_dict(state["rng"]))
            selector._take(state)
            intact = selector._checksum(selector._asked, rng_to_dict(selector._rng)) == state["checksum"]
        except InvalidInputError:
            raise
        except KeyError as error:
            raise InvalidInputError(f"{caller}: {error} is missing, must be {wanted}") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InvalidInputError(f"{caller}: state is not {wanted}: {shown(error)}") from None
        if not intact:
            raise InvalidInputError(f"{caller}: its content does not have its checksum, must be {wanted}")
        return selector

    def _take(self, state: Mapping[str, Any]) -> None:
        """Take over the numbers and the open episodes of a state."""
        self._arms[: at.N_ROWS] = state["arms"]
        self._memory[:] = state["memory"]
        self.seed = state["seed"]
        self._asked.put_back(state["open"])
        self._asked.most_open = state["most_open"]

    def _put_back(self, entries: Iterable[list[Any]]) -> None:
        """Take over the episodes of a selector whose state was written by ``to_dict_alone``."""
        self._asked.put_back(entries)
        opened = self._asked.open_per_arm(self.n_sources + 1)
        if not np.array_equal(opened, self._arms[at.OPEN]):
            raise InvalidInputError(
                f"{type(self).__name__}: {opened.tolist()} episodes of each arm are open, must be "
                f"{self._arms[at.OPEN].tolist()}"
            )

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: all of it at one moment, shared with nobody."""
        with LOCK:
            return deepcopy(self.__dict__)

    def __repr__(self) -> str:
        left, still = int(self.active[:-1].sum()), f", {self._asked.n_open} open" if self._asked.n_open else ""
        return f"{type(self).__name__}({self.n_sources} sources, {left} in play, {self.n_told} episodes told{still})"

    def _check_value(self, value: Any) -> None:
        finite = not isinstance(value, bool | np.bool_) and is_finite(value)
        if not finite or not (self.bounded or abs(float(value)) <= LARGEST_RETURN):
            raise InvalidInputError(f"{type(self).__name__}.tell: value is {shown(value)}, must be a finite number")

    def _opened(self, method: str, episode: Episode) -> Asked:
        """What is known of an open episode; an error if it is none."""
        place = f"{type(self).__name__}.{method}: episode"
        if not isinstance(episode, Episode):
            raise InvalidInputError(
                f"{place} is {shown(episode)}, must be the Episode that ask returned, or Episode(arm, number)"
            )
        known = is_whole(episode.number) and 0 <= episode.number < self.n_asked
        asked = self._asked.get(episode.number) if known else None
        if asked is None:
            why = "was told or cancelled before" if known else f"was never asked for ({self.n_asked} were)"
            raise InvalidInputError(
                f"{place} {shown(episode.number)} {why}, must be one that is open: {self._shown_open()}"
            )
        if asked.arm != episode.arm:
            raise InvalidInputError(
                f"{place} {episode.number} is of arm {shown(episode.arm)}, but ask said {asked.arm}"
            )
        return asked

    def _shown_open(self) -> str:
        numbers = [str(episode.number) for episode in self.open]
        return ", ".join(numbers[:5]) + ", ..." * (len(numbers) > 5) if numbers else "none is, call ask first"

    def _checked_likelihood(self, asked: Asked, likelihood: npt.ArrayLike) -> FloatArray:
        place = f"{type(self).__name__}.tell: likelihood"
        shares = np.ascontiguousarray(as_floats(likelihood, place))
        if shares.shape != (self.n_sources + 1,):
            raise InvalidInputError(f"{place} has shape {shares.shape}, must be ({self.n_sources + 1},), one to an arm")
        possible = (shares >= 0.0) & (shares < math.inf)
        if not possible.all() or not asked.chances @ shares > 0.0:
            raise InvalidInputError(
                f"{place} is {shown(shares.tolist())}, must be at least 0, finite, "
                f"and above 0 for some arm that could have been asked for, as arm {asked.arm} was"
            )
        return shares


INDEPENDENT = "It is proven if returns and their delays do not depend on the arms of episodes that are still open."
