"""Base of the selectors: ask for an arm, tell its return, keep the state in arrays, write it as plain JSON.

A selector chooses, before each episode, one of c + 1 arms: the source policies 0 .. c - 1 and the learner, c. It needs
no task: anything that runs an episode (a simulator, a robot, a website) can be driven by ``ask`` and ``tell``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import BoolArray, FloatArray, LongArray, as_array
from pastmaster.checks import chosen, flag, is_finite, optional_whole, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import checked_rng, rng_from_dict, rng_to_dict
from pastmaster.reuse import _layout as at, _selector_kernels as kernels
from pastmaster.reuse.guarantee import RegretGuarantee
from pastmaster.values.bounds import checked_bounds

Elimination = Literal["paper", "anytime", "none"]
ELIMINATIONS = {"none": at.NEVER, "paper": at.PAPER, "anytime": at.ANYTIME}
NOBODY = np.empty(0)


class Selector(ABC):
    """State in three arrays (see ``_selector_kernels``), ``ask`` and ``tell``."""

    name: ClassVar[str]
    rule: ClassVar[int]
    bounded: ClassVar[bool] = True  # whether returns must lie within bounds
    fixed: ClassVar[Mapping[str, Any]] = {}  # settings that the constructor does not take
    mixes: ClassVar[bool] = False  # whether sources and learner act in one episode, as ``reuse`` (psi, upsilon) says
    reuse: tuple[float, float] = (1.0, 1.0)

    def __init__(self, rng: np.random.Generator, **arguments: Any) -> None:
        """Check what all selectors take; ``arguments`` are the constructor's, in the order they are written in."""
        name, given = self.name, {**self.fixed, **arguments}
        self.n_sources = whole(name, "n_sources", given["n_sources"], at_least=0)
        self.episodes = optional_whole(name, "episodes", given["episodes"])
        self.bounds = checked_bounds(name, given["bounds"])
        self.delta = within(name, "delta", given["delta"], 0.0, 1.0)
        self.clip = flag(name, "clip", given["clip"])
        check_every = whole(name, "check_every", given["check_every"], at_least=1)
        elimination = chosen(name, "elimination", given["elimination"], ELIMINATIONS)
        self.elimination = elimination if self.delta > 0.0 else "none"  # delta = 0 never eliminates
        self._rng = checked_rng(name, rng)
        checked = {
            "n_sources": self.n_sources, "episodes": self.episodes, "bounds": list(self.bounds), "delta": self.delta,
            "check_every": check_every, "clip": self.clip,
        }  # fmt: skip
        self._arguments = {key: checked.get(key, value) for key, value in arguments.items()}
        self._arms = np.zeros((at.N_ROWS, self.n_sources + 1))
        self._arms[[at.ACTIVE, at.WEIGHT]] = 1.0
        self._arms[at.DROPPED] = -1.0
        self._memory = np.zeros(at.N_MEMORY)
        self._memory[[at.PENDING, at.NEXT_CHECK]] = -1.0, check_every
        self._settings = np.zeros(at.N_SETTINGS)
        (lower, upper), slack = self.bounds, kernels.rounding(*self.bounds)
        self._settings[[at.RULE, at.LOWER, at.UPPER]] = self.rule, lower, upper
        self._settings[[at.LEAST, at.MOST, at.CLIP]] = lower - slack, upper + slack, self.clip
        self._settings[[at.ELIMINATION, at.DELTA]] = ELIMINATIONS[self.elimination], self.delta
        self._settings[at.CHECK_EVERY] = check_every

    def ask(self) -> int:
        """Return the arm to run next, a source or ``n_sources`` for the learner; repeated until that arm is told."""
        pending = self._memory[at.PENDING]
        if pending >= 0.0:
            return int(pending)
        return int(kernels.choose(self._arms, self._memory, self._settings, self._rng.random()))

    def tell(self, arm: int, episode_return: float, likelihood: npt.ArrayLike | None = None) -> None:
        """Tell the discounted return of one episode of the arm asked for.

        Parameters
        ----------
        arm, episode_return : int, float
            The arm that ``ask`` gave, and the discounted return of its episode.
        likelihood : array_like [c + 1], optional
            How likely each arm would have been to act as this episode did (1 or 0 for a deterministic source), up to a
            common factor. The episode then counts, without bias, for every arm that could have run it.

        Raises
        ------
        InvalidInputError
            If the arm was not asked for, or the return is not finite or outside the bounds; nothing is changed.
        """
        pending = self._memory[at.PENDING]
        if pending < 0.0 or pending != arm:
            raise InvalidInputError(self._why_not(arm))
        if not is_finite(episode_return):
            raise InvalidInputError(f"{self.name}.tell: the return is {episode_return!r}, must be a finite number")
        shares = NOBODY if likelihood is None else self._checked_likelihood(arm, likelihood)
        if not kernels.record(self._arms, self._memory, self._settings, int(arm), float(episode_return), shares):
            raise InvalidInputError(
                f"{self.name}.tell: the return of arm {arm} is {episode_return:.6g}, must be within the bounds "
                f"{self.bounds.lower:.6g} .. {self.bounds.upper:.6g}; declare wider ones, or pass clip=True"
            )

    @property
    def pending(self) -> int | None:
        """The arm asked for and not yet told, or None."""
        arm = int(self._memory[at.PENDING])
        return arm if arm >= 0 else None

    @property
    def probabilities(self) -> FloatArray:
        """How likely each arm is at the next ask, or was at the one not yet told [c + 1]."""
        arms = self._arms.copy()
        if self._memory[at.PENDING] < 0.0:
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
        """Each arm's own episodes [c + 1]."""
        return np.asarray(self._arms[at.COUNT], np.int64)

    @property
    def mean_returns(self) -> FloatArray:
        """The mean return of each arm's own episodes, NaN where there are none [c + 1]."""
        counts = self._arms[at.COUNT]
        means = np.full(len(counts), np.nan)
        np.divide(self._arms[at.TOTAL], counts, out=means, where=counts > 0)
        return self.bounds.lower + self.bounds.span * means if self.bounded else means

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
        return self.bounded and not self.clip and bool(kernels.outside(episode_return, *self.bounds))

    @abstractmethod
    def regret_guarantee(self) -> RegretGuarantee:
        """What is proven about the mean loss per episode."""

    def _guaranteed_episodes(self) -> int:
        """The number of episodes that a guarantee is about: as declared, or as told if that is more."""
        episodes = max(self.episodes or 0, self.n_told)
        if episodes == 0:
            raise InvalidInputError(f"{self.name}.regret_guarantee: episodes is None, must be given, or some be told")
        return episodes

    def _bandit_guarantee(self, episodes: int, regret: float) -> RegretGuarantee:
        """The guarantee of a bandit over sources and learner that loses ``regret`` payoffs per episode to any arm."""
        span, charge = self.bounds.span, self.delta * self.bounds.span
        bound = span * min(1.0, regret)
        charged = min(span, bound + charge)
        wrongly = f"{charge:.4g} of it for wrong eliminations"
        best, about_sources = {
            "none": (bound, f"at most {bound:.4g} below the value of each source."),
            "anytime": (charged, f"at most {charged:.4g} below the value of the best source ({wrongly})."),
            "paper": (None, "below the value of the sources by an amount not proven: the paper's test exceeds delta."),
        }[self.elimination]
        lines = [
            f"Over {episodes:,} episodes, in expectation, the mean return per episode is",
            f"  at most {bound:.4g} below what the learner would have earned with what it had learned by each episode;",
            f"  {about_sources}",
            *(["Returns outside the bounds count as clipped onto the bounds."] if self.clip else []),
            "This is no bound against the learner run alone: here it learns only from the episodes it gets.",
        ]
        each = bound if self.elimination == "none" else None
        return RegretGuarantee(episodes, bound, each, best, "\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain JSON values; ``from_dict`` continues from it, bit for bit."""
        state = {"selector": self.name, "arguments": deepcopy(self._arguments), "rng": rng_to_dict(self._rng)}
        return state | {"arms": self._arms.tolist(), "memory": self._memory.tolist()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Make a selector from what ``to_dict`` returned."""
        caller = f"{cls.__name__}.from_dict"
        for key in ("selector", "arguments", "rng", "arms", "memory"):
            if not isinstance(state, Mapping) or key not in state:
                raise InvalidInputError(f"{caller}: {key!r} is missing, must be what to_dict returned")
        if state["selector"] != cls.name:
            raise InvalidInputError(f"{caller}: this is a {state['selector']!r}, must be a {cls.name!r}")
        try:
            selector = cls(**state["arguments"], rng=rng_from_dict(state["rng"]))
        except TypeError as error:
            raise InvalidInputError(f"{caller}: arguments do not fit: {error}") from None
        for key, array in (("arms", selector._arms), ("memory", selector._memory)):
            try:
                values = np.array(state[key], np.float64)
            except (TypeError, ValueError):
                values = NOBODY
            if values.shape != array.shape or not np.isfinite(values).all():
                raise InvalidInputError(
                    f"{caller}: {key} has shape {values.shape}, must be finite numbers {array.shape}"
                )
            array[...] = values
        pending = selector._memory[at.PENDING]
        if pending not in range(-1, selector.n_sources + 1) or not selector.active[-1]:
            raise InvalidInputError(
                f"{caller}: the pending arm is {pending:g}, must be in 0..{selector.n_sources} or -1, "
                "and the learner in play"
            )
        return selector

    def __repr__(self) -> str:
        left = int(self.active[:-1].sum())
        return f"{type(self).__name__}({self.n_sources} sources, {left} in play, {self.n_told} episodes told)"

    def _why_not(self, arm: object) -> str:
        """Why a tell is refused."""
        place = f"{self.name}.tell: arm"
        if not isinstance(arm, int | np.integer) or not 0 <= arm <= self.n_sources:
            return f"{place} is {arm!r}, must be in 0..{self.n_sources} ({self.n_sources}: the learner)"
        if self.pending is not None:
            return f"{place} is {arm}, but ask said {self.pending}, which has not been told yet"
        if self.n_told == 0:
            return f"{place} {arm} was told without being asked for, call ask first"
        return f"{place} {arm} was told, but the last ask was told already, call ask first"

    def _checked_likelihood(self, arm: int, likelihood: npt.ArrayLike) -> FloatArray:
        place = f"{self.name}.tell: likelihood"
        shares = np.ascontiguousarray(as_array(likelihood, place, "iuf"), np.float64)
        if shares.shape != (self.n_sources + 1,):
            raise InvalidInputError(f"{place} has shape {shares.shape}, must be ({self.n_sources + 1},), one to an arm")
        possible = (shares >= 0.0) & (shares < math.inf)
        if not possible.all() or not self._arms[at.PROBABILITY] @ shares > 0.0:
            raise InvalidInputError(
                f"{place} is {shares.tolist()}, must be at least 0, finite, "
                f"and above 0 for some arm that could have been asked for, as arm {arm} was"
            )
        return shares
