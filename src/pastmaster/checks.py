"""Arguments as people give them, checked; errors have one form of sentence.

Every error reads ``<function>: <argument> is <what was got>, must be <what would be right>``.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from pastmaster.errors import InvalidInputError
from pastmaster.tables import one_line, shown

LARGEST_WHOLE = 10**12 - 1
LONGEST_PATH = 4096
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # what no file, terminal or database can hold
LARGEST_SEED = 2**128 - 1
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
    """Whether this is an integer; True, False and a span of time are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> bool:
    """Whether this is an integer or a float; True and False are not."""
    return is_whole(value) or isinstance(value, float | np.floating)


def as_real(value: Any) -> float:
    """A number as a float, which may be infinite; of all else nan, which compares with nothing."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:
        return math.nan


def as_number(value: Any) -> float:
    """A finite number as a float; of all else nan, which compares with nothing."""
    number = as_real(value)
    return number if math.isfinite(number) else math.nan


def plain_number(value: Any) -> Any:
    """A float, NumPy's too, as Python's own, which prints as one; all else as it is."""
    return float(value) if isinstance(value, float) else value


def is_finite(value: Any) -> bool:
    """Whether this is a finite number; a fraction and a decimal are, too."""
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def whole(caller: str, name: str, value: Any, *, at_least: int, at_most: int = LARGEST_WHOLE) -> int:
    """A whole number in a range."""
    if not (is_whole(value) and at_least <= int(value) <= at_most):
        place = f"at least {at_least} (and < 1e12)" if at_most == LARGEST_WHOLE else f"in {at_least}..{at_most}"
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be a whole number, {place}")
    return int(value)


def as_index(value: Any, size: int) -> int:
    """A whole number in 0 .. size - 1, which may be an array of no axes; -1 of all else."""
    number = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    return int(number) if is_whole(number) and 0 <= int(number) < size else -1


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
        raise InvalidInputError(
            f"{caller}: {one_line(name)} is no option here{hint}, must be one of {', '.join(words)}"
        )


def within(caller: str, name: str, value: Any, lowest: float, highest: float) -> float:
    """A number in a closed interval."""
    number = as_number(value)
    if not lowest <= number <= highest:
        place = f"at least {lowest:g}" if highest == math.inf else f"in {lowest:g} .. {highest:g}"
        kind = "" if is_number(value) else "a number, "
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be {kind}{place}")
    return number


def is_word(value: Any, words: Iterable[str]) -> bool:
    """Whether this is one of a few words."""
    return isinstance(value, str) and value in words


def chosen(caller: str, name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words."""
    words = list(options)
    if not is_word(value, words):
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be one of {', '.join(map(repr, words))}")
    return str.__str__(value)


def flag(caller: str, name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be True or False")
    return bool(value)


def text(caller: str, name: str, value: Any) -> str:
    """A text that can be printed and stored: in UTF-8, without NUL."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be a text")
    if UNSTORABLE.search(value):
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be a text without NUL and lone surrogates")
    return str.__str__(value)  # Python's own, of NumPy's and of an enumeration


def as_name(value: Any, place: str) -> str:
    """What something is called: a text, or what anything else is as one."""
    caller, _, argument = place.partition(": ")
    return text(caller, argument, str(value))


def file_path(caller: str, name: str, value: Any, wanted: str = "a path") -> Path:
    """The path of a file or a folder; whether it is there is not looked at."""
    given = str(value) if isinstance(value, str | os.PathLike) else ""
    if not 0 < len(given) <= LONGEST_PATH or UNSTORABLE.search(given):
        raise InvalidInputError(f"{caller}: {name} is {shown(value)}, must be {wanted}")
    return Path(value)


def mapping(value: Any, place: str, wanted: str = "a mapping") -> dict[Any, Any]:
    """A mapping as a dict of its own."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{place} is {shown(value)}, must be {wanted}")
    return dict(value)


def each(things: Any, place: str, wanted: str = "a list") -> Iterator[Any]:
    """What an iterable holds, one by one."""
    try:
        if isinstance(things, str | bytes | Set | Mapping):
            raise TypeError
        found = iter(things)
    except TypeError:
        raise InvalidInputError(f"{place} is {shown(things)}, must be {wanted}") from None
    yield from found


def listed(things: Any, place: str, wanted: str = "a list", most: int | None = None) -> list[Any]:
    """An iterable as a list, of at most so many things."""
    found = list(each(things, place, wanted))
    if most is not None and len(found) > most:
        raise InvalidInputError(f"{place} is {shown(things)}, which holds more than {most:,}, must be {wanted}")
    return found
