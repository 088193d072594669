"""What all selectors share: ask for an arm, tell its return, keep the state in arrays, write it down as plain JSON.

A selector chooses, before each episode, one of c + 1 arms: the source policies 0 .. c - 1 and the learner, c. It knows
nothing of tasks: whatever runs an episode (a simulator, a robot, a website) can be driven by ``ask`` and ``tell``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import FloatArray, as_array
from pastmaster.checks import is_finite, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.generators import checked_rng, rng_from_dict, rng_to_dict
from pastmaster.reuse import _layout as layout, _selector_kernels as kernels
from pastmaster.values import Bounds

Elimination = Literal["paper", "anytime", "none"]
ELIMINATIONS = {"none": layout.NONE, "paper": layout.PAPER, "anytime": layout.ANYTIME}
NOBODY = np.empty(0)


@dataclass(frozen=True)
class RegretGuarantee:
    """What is proven about the mean loss per episode over ``episodes`` episodes, in units of return, in expectation.

    None where nothing is proven. ``to_learner`` is about what the learner would have earned in each episode *in the
    state it was in*; it is never a bound against the learner run alone.
    """

    episodes: int
    to_learner: float | None
    to_each_source: float | None
    to_best_source: float | None
    statement: str

    def __str__(self) -> str:
        return self.statement


def guarantee(
    selector: Selector, episodes: int, bound: float, each: float | None, best: float | None
) -> RegretGuarantee:
    """The guarantee of a bandit over sources and learner, in words."""
    lines = [
        f"Over {episodes:,} episodes, in expectation and per episode, the returns fall short",
        f"  of what the learner would have earned, in the state it was in at each episode, by at most {bound:.4g};",
    ]
    if best is None:
        lines.append("  of the sources by an amount not proven: the printed elimination test does not keep its delta.")
    elif each is None:
        share = f"{selector.delta * selector.bounds.span:.4g} of it for wrong eliminations"
        lines.append(f"  of the best source's value by at most {best:.4g} ({share}).")
    else:
        lines.append(f"  of each source's value by at most {best:.4g}.")
    if selector.clip:
        lines.append("Returns are meant as clipped onto the bounds.")
    lines.append("This is no bound against the learner run alone: here it learns only from the episodes it gets.")
    return RegretGuarantee(episodes, bound, each, best, "\n".join(lines))


class Selector(ABC):
    """Base of the selectors: state in three arrays (see ``_selector_kernels``), ``ask`` and ``tell``."""

    name: ClassVar[str]
    bounded: ClassVar[bool] = True  # whether returns must lie within bounds
    mixes: ClassVar[bool] = False  # whether sources and learner act in one episode, as ``reuse`` (psi, upsilon) says
    reuse: tuple[float, float] = (1.0, 1.0)
    episodes: int | None

    def __init__(
        self,
        n_sources: int,
        *,
        kind: int,
        bounds: tuple[float, float],
        clip: bool,
        elimination: str,
        delta: float,
        check_every: int,
        rate: float,
        rise: float,
        rng: np.random.Generator,
        arguments: Mapping[str, Any],
    ) -> None:
        self.n_sources = whole(self.name, "n_sources", n_sources, at_least=0)
        self.bounds = checked_bounds(self.name, bounds)
        if not isinstance(elimination, str) or elimination not in ELIMINATIONS:
            raise InvalidInputError(
                f"{self.name}: elimination is {elimination!r}, must be one of {', '.join(ELIMINATIONS)}"
            )
        delta = within(self.name, "delta", delta, 0.0, 1.0)
        self.elimination = "none" if delta == 0.0 else elimination  # in the limit no source is ever eliminated
        check_every = whole(self.name, "check_every", check_every, at_least=1)
        if not isinstance(clip, bool | np.bool_):
            raise InvalidInputError(f"{self.name}: clip is {clip!r}, must be True or False")
        self.delta, self.clip, self._rng = delta, bool(clip), checked_rng(self.name, rng)
        checked = {"n_sources": self.n_sources, "bounds": list(self.bounds), "delta": delta, "check_every": check_every}
        self._arguments = {name: checked.get(name, value) for name, value in arguments.items()}
        self._arms = np.zeros((layout.N_ROWS, self.n_sources + 1))
        self._arms[[layout.ACTIVE, layout.WEIGHT]] = 1.0
        self._arms[layout.DROPPED] = -1.0
        self._memory = np.zeros(layout.N_MEMORY)
        self._memory[layout.PENDING] = -1.0
        self._memory[layout.NEXT_CHECK] = check_every
        self._settings = np.zeros(layout.N_SETTINGS)
        slack = kernels.rounding(*self.bounds)
        self._settings[:] = (
            kind, *self.bounds, self.clip, ELIMINATIONS[self.elimination], delta, check_every, rate, rise,
            self.bounds.lower - slack, self.bounds.upper + slack,
        )  # fmt: skip

    def ask(self) -> int:
        """The arm to run next: a source, or ``n_sources`` for the learner. Until it is told, asking repeats it."""
        pending = self._memory[layout.PENDING]
        if pending >= 0.0:
            return int(pending)
        arm: int = kernels.choose(self._arms, self._memory, self._settings, self._rng.random())
        return arm

    def tell(self, arm: int, episode_return: float, likelihood: npt.ArrayLike | None = None) -> None:
        """The discounted return of one episode of the arm asked for.

        ``likelihood`` [c + 1], where known, is how likely each arm would have been to act as this episode did (1 or 0
        for a deterministic source), up to a common factor (beside which that of the arm itself may round to 0): the
        episode then counts, without bias, for every arm that could have run it.
        """
        pending = self._memory[layout.PENDING]
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
        arm = int(self._memory[layout.PENDING])
        return arm if arm >= 0 else None

    @property
    def probabilities(self) -> FloatArray:
        """How likely each arm is at the next ask, or was at the one not yet told [c + 1]."""
        arms = self._arms.copy()
        if self._memory[layout.PENDING] < 0.0:
            kernels.weigh(arms, self._memory.copy(), self._settings)
        probabilities: FloatArray = arms[layout.PROBABILITY]
        return probabilities

    @property
    def active(self) -> npt.NDArray[np.bool_]:
        """Which arms are still in play [c + 1]; the learner always is."""
        active: npt.NDArray[np.bool_] = self._arms[layout.ACTIVE] != 0.0
        return active

    @property
    def eliminated_at(self) -> npt.NDArray[np.int64]:
        """After how many episodes each source was eliminated, -1 if it was not [c]."""
        dropped: npt.NDArray[np.int64] = self._arms[layout.DROPPED, :-1].astype(np.int64)
        return dropped

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Each arm's own episodes [c + 1]."""
        counts: npt.NDArray[np.int64] = self._arms[layout.COUNT].astype(np.int64)
        return counts

    @property
    def mean_returns(self) -> FloatArray:
        """The mean return of each arm's own episodes, NaN where there are none [c + 1]."""
        counts = self._arms[layout.COUNT]
        means = np.full(len(counts), np.nan)
        np.divide(self._arms[layout.TOTAL], counts, out=means, where=counts > 0)
        return self._in_returns(means)

    def _in_returns(self, payoffs: FloatArray) -> FloatArray:
        return self.bounds.lower + self.bounds.span * payoffs

    @property
    def n_told(self) -> int:
        """Episodes told so far."""
        return int(self._memory[layout.EPISODE])

    @property
    def n_clipped(self) -> int:
        """Returns outside the bounds that ``clip=True`` moved onto them."""
        return int(self._memory[layout.CLIPPED])

    def start_clipping(self) -> None:
        """From now on move returns outside the bounds onto them."""
        self.clip = True
        self._settings[layout.CLIP] = 1.0
        if "clip" in self._arguments:
            self._arguments["clip"] = True

    def refuses(self, episode_return: float) -> bool:
        """Whether ``tell`` would refuse the return as outside the bounds."""
        return self.bounded and not self.clip and bool(kernels.outside(episode_return, *self.bounds))

    def horizon(self) -> int:
        """The number of episodes a guarantee speaks of: as declared, or as told if that is more."""
        episodes = max(self.episodes or 0, self.n_told)
        if episodes == 0:
            raise InvalidInputError(f"{self.name}.regret_guarantee: episodes is None, must be given, or some be told")
        return episodes

    @abstractmethod
    def regret_guarantee(self) -> RegretGuarantee:
        """What is proven of this selector, to whom."""

    def to_dict(self) -> dict[str, Any]:
        """The whole state as plain JSON values; ``from_dict`` goes on from it, bit for bit."""
        state = {"selector": self.name, "arguments": deepcopy(self._arguments), "rng": rng_to_dict(self._rng)}
        return state | {"arms": self._arms.tolist(), "memory": self._memory.tolist()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """A selector as ``to_dict`` wrote it."""
        for key in ("selector", "arguments", "rng", "arms", "memory"):
            if not isinstance(state, Mapping) or key not in state:
                raise InvalidInputError(f"{cls.__name__}.from_dict: {key!r} is missing, must be what to_dict returned")
        if state["selector"] != cls.name:
            raise InvalidInputError(
                f"{cls.__name__}.from_dict: this is a {state['selector']!r}, must be a {cls.name!r}"
            )
        try:
            selector = cls(**state["arguments"], rng=rng_from_dict(state["rng"]))
        except TypeError as error:
            raise InvalidInputError(f"{cls.__name__}.from_dict: arguments do not fit: {error}") from None
        for key, array in (("arms", selector._arms), ("memory", selector._memory)):
            try:
                values = np.array(state[key], np.float64)
            except (TypeError, ValueError):
                values = NOBODY
            if values.shape != array.shape or not np.isfinite(values).all():
                raise InvalidInputError(
                    f"{cls.__name__}.from_dict: {key} has shape {values.shape}, must be finite numbers {array.shape}"
                )
            array[...] = values
        pending = selector._memory[layout.PENDING]
        if pending not in range(-1, selector.n_sources + 1) or not selector.active[-1]:
            raise InvalidInputError(
                f"{cls.__name__}.from_dict: the pending arm is {pending:g}, must be in 0..{selector.n_sources} or -1, "
                "and the learner in play"
            )
        return selector

    def __repr__(self) -> str:
        left = int(self.active[:-1].sum())
        return f"{type(self).__name__}({self.n_sources} sources, {left} in play, {self.n_told} episodes told)"

    def _why_not(self, arm: object) -> str:
        """Why a tell is refused."""
        pending = int(self._memory[layout.PENDING])
        known = isinstance(arm, int | np.integer) and 0 <= arm <= self.n_sources
        if not known:
            return f"{self.name}.tell: arm is {arm!r}, must be in 0..{self.n_sources} ({self.n_sources}: the learner)"
        if pending >= 0:
            return f"{self.name}.tell: arm is {arm}, but ask said {pending}, which has not been told yet"
        if self.n_told == 0:
            return f"{self.name}.tell: arm {arm} was told without being asked for, call ask first"
        return f"{self.name}.tell: arm {arm} was told, but the last ask was told already, call ask first"

    def _checked_likelihood(self, arm: int, likelihood: npt.ArrayLike) -> FloatArray:
        given = as_array(likelihood, f"{self.name}.tell: likelihood", "iuf")
        shares = np.ascontiguousarray(given, np.float64)
        if shares.shape != (self.n_sources + 1,):
            raise InvalidInputError(
                f"{self.name}.tell: likelihood has shape {shares.shape}, must be ({self.n_sources + 1},), one to an arm"
            )
        possible = (shares >= 0.0) & (shares < math.inf)
        if not possible.all() or not self._arms[layout.PROBABILITY] @ shares > 0.0:
            raise InvalidInputError(
                f"{self.name}.tell: likelihood is {shares.tolist()}, must be at least 0, finite, "
                f"and above 0 for some arm that could have been asked for, as arm {arm} was"
            )
        return shares


def checked_bounds(caller: str, bounds: Any) -> Bounds:
    """Bounds on a return, lower below upper, or a refusal."""
    try:
        lower, upper = (math.nan if isinstance(end, str) else float(end) for end in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{caller}: bounds is {bounds!r}, must be (lower, upper)") from None
    if not (math.isfinite(upper - lower) and lower < upper):
        raise InvalidInputError(f"{caller}: bounds is ({lower:g}, {upper:g}), must be finite, lower below upper")
    return Bounds(lower, upper)
