"""Readings of the paper: what it leaves open or contradicts itself about, as data.

The paper prints gamma = 0.9 and "discounted" rewards. With that, surveilling a place next to the right one is better
than one step more, no policy of the complex domain surveils a hub, and a second target is worth almost nothing. Read
without a discount its own span fits. 47 readings were tried on cheap runs before these two were fixed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pastmaster import InvalidInputError
from pastmaster_paper.experiments.setting import BY_NAME, Setting
from pastmaster_paper.files import read_bytes

CALLER = "reproduce"
BoundsKind = Literal["exact", "paper"]
MOST_BYTES = 100_000
LARGEST = 10**12 - 1
TRIED = "47 readings were tried on cheap runs, with seeds 1-2, 2000-2009 and 3000-3002, before these two were fixed."
FIRST_SEED = 5000
"""The first seed of those on which sentences are judged: the readings were fixed before any of them was looked at."""


@dataclass(frozen=True)
class Reading:
    """What the paper may have meant.

    Attributes
    ----------
    name : str
        Its name, in files and tables.
    gamma : float
        The discount of returns and policies.
    escape_ends : bool
        Whether surveilling a wrong place ends the episode.
    bounds : {"exact", "paper"}
        The bounds on returns that selectors and costs are given: exact ones, or the paper's.
    step_size : float
        That of Q-learning.
    sequences : tuple of (setting, number)
        How many group sequences the previous tasks of a setting are drawn from, where it is not the usual number.
    check_every : int
        The paper's l: after how many episodes sources are compared.
    thresholds : int, optional
        The greedy clustering tries so many thresholds in one order of the tasks; by default many, each in its own.
    repeats : bool
        Whether the task begins anew after the last capture, up to the step limit, instead of ending.
    """

    name: str
    gamma: float = 0.9
    escape_ends: bool = True
    bounds: BoundsKind = "exact"
    step_size: float = 0.5
    sequences: tuple[tuple[str, int], ...] = ()
    check_every: int = 100
    thresholds: int | None = None
    repeats: bool = False
    words: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", self.name):
            raise _refused("name", self.name, "small letters, digits and -")
        for name in ("gamma", "step_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
                raise _refused(name, value, "a number in 0 .. 1")
            object.__setattr__(self, name, float(value))
        for name in ("escape_ends", "repeats"):
            if not isinstance(getattr(self, name), bool):
                raise _refused(name, getattr(self, name), "True or False")
        if self.bounds not in get_args(BoundsKind):
            raise _refused("bounds", self.bounds, "'exact' or 'paper'")
        if self.bounds == "paper" and self.gamma == 1:
            raise _refused("bounds", self.bounds, "'exact' where gamma is 1")
        _check_whole("check_every", self.check_every, 1, LARGEST)
        if self.thresholds is not None:
            _check_whole("thresholds", self.thresholds, 1, 10_000)
        if not isinstance(self.words, str):
            raise _refused("words", self.words, "a text")
        for name, number in self.sequences:
            if name not in BY_NAME:
                raise _refused("sequences", name, f"one of {', '.join(BY_NAME)}")
            setting = BY_NAME[name]
            least = -(-setting.previous // setting.per_sequence)
            _check_whole(f"sequences[{name!r}]", number, least, setting.most_sequences)

    def n_sequences(self, setting: Setting) -> int:
        """How many group sequences the tasks of a setting are drawn from."""
        return dict(self.sequences).get(setting.name, setting.sequences)

    def but(self, name: str, words: str = "", **changes: Any) -> Reading:
        """The same reading with some things changed."""
        return replace(self, name=name, words=words, **changes)

    def table(self) -> dict[str, Any]:
        """Its settings by name, as a file has them."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"sequences": dict(self.sequences)}


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _refused(name, value, f"a whole number in {least}..{most}")


def _refused(name: str, got: Any, right: str) -> InvalidInputError:
    return InvalidInputError(f"{CALLER}: reading.{name} is {_shown(got)}, must be {right}")


def _shown(value: Any) -> str:
    return repr(value)[:100]


def checked_seed(caller: str, seed: Any) -> int:
    """A seed of a draw: a whole number, at least 0."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST:
        raise InvalidInputError(f"{caller}: seed is {_shown(seed)}, must be a whole number in 0..{LARGEST}")
    return seed


PRINTED = Reading("printed", words="as the paper prints it: gamma 0.9, and a wrong surveil ends the episode")
UNDISCOUNTED = Reading(
    "undiscounted", gamma=1.0, escape_ends=False, step_size=0.1,
    sequences=(("complex-100-2", 4), ("complex-200-2", 8)),
    words="without a discount; a wrong surveil costs 10 and the episode goes on",
)  # fmt: skip
READINGS = {one.name: one for one in (PRINTED, UNDISCOUNTED)}
"""The two readings under which sentences are judged, by name."""


def checked_readings(readings: Iterable[Reading | str | Path]) -> tuple[Reading, ...]:
    """Readings as people give them: those of ours by name, others as a ``Reading`` or a TOML file."""
    if isinstance(readings, str | Path | Reading):
        readings = [readings]
    found = tuple(_checked(one) for one in readings)
    names = [one.name for one in found]
    if not found or len(set(names)) < len(names):
        raise InvalidInputError(f"{CALLER}: readings is {names}, must be one or more with different names")
    for one in found:
        if one.name in READINGS and one != READINGS[one.name]:
            raise _refused("name", one.name, f"another name: {one.name} is one of ours")
    return found


def _checked(reading: Any) -> Reading:
    if isinstance(reading, Reading):
        return reading
    if isinstance(reading, str) and reading in READINGS:
        return READINGS[reading]
    if not isinstance(reading, str | Path) or not Path(reading).is_file():
        ours = ", ".join(READINGS)
        raise InvalidInputError(f"{CALLER}: reading is {_shown(reading)}, must be {ours}, or a TOML file")
    return read_reading(Path(reading))


def read_reading(path: Path) -> Reading:
    """A reading from a TOML file; what the file does not name is as in ``printed``. Its name is the file's own."""
    try:
        content = tomllib.loads(read_bytes(path, MOST_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{CALLER}: reading is {path}, which is not TOML ({error}), must be") from None
    known = [one.name for one in fields(Reading)]
    unknown = [key for key in content if key not in known]
    if unknown:
        raise InvalidInputError(f"{CALLER}: reading has {_shown(unknown[0])}, must have only {', '.join(known)}")
    if "sequences" in content:
        if not isinstance(content["sequences"], dict):
            raise _refused("sequences", content["sequences"], "a table of settings and numbers")
        content["sequences"] = tuple(content["sequences"].items())
    return Reading(**{"name": path.stem} | content)
