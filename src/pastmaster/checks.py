"""Arguments as people give them, checked; errors have one form of sentence.

Every error reads ``<function>: <argument> is <what was got>, must be <what would be right>``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np

from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line

LARGEST_WHOLE = 10**12 - 1
OTHER_WORDS = {"k": "n_clusters", "n_policies": "n_clusters", "seed": "rng", "T": "episodes", "n_episodes": "episodes"}


@contextmanager
def called_as(caller: str) -> Iterator[None]:
    """Errors within begin with the function that a person called, not with the one that it calls; also a decorator."""
    try:
        yield
    except InvalidInputError as error:
        function, _, rest = str(error).partition(": ")
        named = rest and " " not in function  # else the sentence begins with an argument
        raise InvalidInputError(f"{caller}: {rest if named else error}") from error.__cause__


def is_whole(value: Any) -> bool:
    """Whether this is an integer; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is an integer or a float; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether this is a finite number."""
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def whole(caller: str, name: str, value: Any, *, at_least: int, at_most: int = LARGEST_WHOLE) -> int:
    """A whole number in a range."""
    if not (is_whole(value) and at_least <= value <= at_most):
        place = f"at least {at_least} (and < 1e12)" if at_most == LARGEST_WHOLE else f"in {at_least}..{at_most}"
        raise InvalidInputError(f"{caller}: {name} is {one_line(repr(value))}, must be a whole number, {place}")
    return int(value)


def optional_whole(caller: str, name: str, value: Any) -> int | None:
    """None, or a whole number from 1 on."""
    return None if value is None else whole(caller, name, value, at_least=1)


def guess(name: Any, known: Iterable[str]) -> str:
    """What a name that is not known may have been meant to be, in brackets, or nothing."""
    words = list(known)
    meant = OTHER_WORDS.get(str(name))
    close = [meant] if meant in words else get_close_matches(str(name), words, n=2)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def known_options(caller: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of options that a function does not have."""
    words = sorted(known)
    for name in sorted(set(given) - set(words)):
        hint = guess(name, words)
        raise InvalidInputError(f"{caller}: {name} is no option here{hint}, must be one of {', '.join(words)}")


def within(caller: str, name: str, value: Any, lowest: float, highest: float) -> float:
    """A number in a closed interval."""
    if not (is_number(value) and is_finite(value) and lowest <= float(value) <= highest):
        place = f"at least {lowest:g}" if highest == math.inf else f"in {lowest:g} .. {highest:g}"
        kind = "" if is_number(value) else "a number, "
        raise InvalidInputError(f"{caller}: {name} is {one_line(repr(value))}, must be {kind}{place}")
    return float(value)


def chosen(caller: str, name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words."""
    words = list(options)
    if not isinstance(value, str) or value not in words:
        got = one_line(repr(value))
        raise InvalidInputError(f"{caller}: {name} is {got}, must be one of {', '.join(map(repr, words))}")
    return value


def flag(caller: str, name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{caller}: {name} is {one_line(repr(value))}, must be True or False")
    return bool(value)


def listed(things: Iterable[Any], place: str) -> list[Any]:
    """An iterable as a list."""
    if not isinstance(things, Iterable):
        raise InvalidInputError(f"{place} is {one_line(repr(things))}, must be a list")
    return list(things)
