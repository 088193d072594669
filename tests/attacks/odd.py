"""Odd values, by name: what a careless or a hostile caller may pass where something else is meant.

Most are made anew each time, since generators can be read once. ``TWISTS`` make an odd value of a right one, so that
it comes further: an array of another dtype, order or shape, a number of another type, a list that is no list.
"""

from __future__ import annotations

import datetime
import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

LONG = "x" * 20_000


class ImpossibleError(Exception):
    """There is no such odd value of this right one."""


class RudeError(Exception):
    """What a rude object raises."""


class OwnError(Exception):
    """What a function raises that a person brings: it is theirs, and may come back to them as it is."""


def _rude(method: str) -> Any:
    def raises(self: Any, *_: Any, **__: Any) -> Any:
        raise (OwnError if method in ("__call__", "act") else RudeError)(method)

    return type(f"Rude{method.strip('_').title()}", (), {method: raises})()


class RudeLength(list[float]):
    """A list that does not tell its length."""

    def __len__(self) -> int:
        raise RudeError("__len__")


class RudeItems(Mapping[str, Any]):
    """A mapping whose entries cannot be read."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[str]:
        return iter(["a", "b"])

    def __getitem__(self, key: str) -> Any:
        raise RudeError("__getitem__")


class RudeText(str):
    """A text that cannot be compared or printed."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise RudeError("__eq__")

    def __repr__(self) -> str:
        raise RudeError("__repr__")


class RudeNumber(float):
    """A number that cannot be compared or printed."""

    __hash__ = float.__hash__

    def __lt__(self, other: float) -> bool:
        raise RudeError("__lt__")

    __le__ = __gt__ = __ge__ = __lt__

    def __repr__(self) -> str:
        raise RudeError("__repr__")


class LiarLength:
    """A sequence that says it is longer than anything."""

    def __len__(self) -> int:
        return 2**62

    def __getitem__(self, index: int) -> float:
        return 0.0


def _raising() -> Iterator[Any]:
    yield 1.0
    raise RudeError("while it is read")


def _deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(1000):
        nested = [nested]
    return nested


def _own() -> list[Any]:
    own: list[Any] = [1]
    own.append(own)
    return own


def _own_dict() -> dict[str, Any]:
    own: dict[str, Any] = {}
    own["self"] = own
    return own


def _mapped() -> Any:
    with tempfile.NamedTemporaryFile() as file:
        return np.memmap(file.name, np.float64, "w+", shape=(3, 3))


ODD: dict[str, Callable[[], Any]] = {
    # nothing, truth, texts
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "numpy True": lambda: np.True_,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "an object": object,
    "a class": lambda: int,
    "a module": lambda: math,
    "a function": lambda: (lambda *_, **__: 0.0),
    "an empty text": lambda: "",
    "a text": lambda: "abc",
    "a number as text": lambda: "3",
    "a text with NUL": lambda: "a\0b",
    "a lone surrogate": lambda: "a\ud800b",
    "escape sequences": lambda: "\x1b[31mred\x1b]0;title\x07\u202e",
    "a long text": lambda: LONG,
    "braces": lambda: "{0} {} %s %d {x}",
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abcd"),
    "a path": lambda: Path("/nowhere/at/all"),
    "a date": lambda: datetime.date(2020, 1, 1),
    # numbers
    "0": lambda: 0,
    "-1": lambda: -1,
    "1": lambda: 1,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "-2**63 - 1": lambda: -(2**63) - 1,
    "2**64": lambda: 2**64,
    "10**18": lambda: 10**18,
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "-10**5000": lambda: -(10**5000),
    "0.5": lambda: 0.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1e308": lambda: 1e308,
    "-1e308": lambda: -1e308,
    "5e-324": lambda: 5e-324,
    "-0.0": lambda: -0.0,
    "a complex number": lambda: 1 + 2j,
    "a fraction": lambda: Fraction(1, 3),
    "a decimal": lambda: Decimal("0.5"),
    "a decimal nan": lambda: Decimal("sNaN"),
    "a large decimal": lambda: Decimal("1e1000"),
    "float16": lambda: np.float16(0.5),
    "float16 nan": lambda: np.float16("nan"),
    "float32": lambda: np.float32(0.1),
    "longdouble": lambda: np.longdouble("1e4000"),
    "int8": lambda: np.int8(-5),
    "uint64": lambda: np.uint64(2**64 - 1),
    "numpy text": lambda: np.str_("abc"),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "NaT": lambda: np.datetime64("NaT"),
    "timedelta64": lambda: np.timedelta64(3, "s"),
    "void": lambda: np.void(b"abc"),
    "a 0-d array": lambda: np.array(2.0),
    "a 0-d array of int": lambda: np.array(2),
    "an array of one": lambda: np.array([2]),
    # containers
    "an empty list": list,
    "an empty tuple": lambda: (),
    "an empty dict": dict,
    "an empty set": set,
    "a list": lambda: [1, 2, 3],
    "a list of texts": lambda: ["a", "b"],
    "a list of None": lambda: [None, None],
    "a list of nan": lambda: [math.nan, math.nan],
    "a list of large ints": lambda: [10**400, 1],
    "a list of 2**63": lambda: [2**63, 2**64],
    "a ragged list": lambda: [[1, 2], [3]],
    "a list of lists of None": lambda: [[None, 1.0], [1.0, None]],
    "a list of dicts": lambda: [{}, {}],
    "a list of functions": lambda: [lambda *_, **__: 0.0] * 2,
    "a list of empty lists": lambda: [[], []],
    "a nested list": _deep,
    "a list within itself": _own,
    "a dict within itself": _own_dict,
    "a set": lambda: {1, 2, 3},
    "a frozenset": lambda: frozenset([0.0, 1.0]),
    "a dict": lambda: {"a": 1, "b": 2},
    "a dict of odd keys": lambda: {None: 1, (1, 2): 2, 3.5: 3},
    "a dict of a long key": lambda: {LONG: LONG},
    "a dict of texts with NUL": lambda: {"a\0": "b\0", "\ud800": "\udfff"},
    "dict keys": lambda: {"a": 1}.keys(),
    "a range": lambda: range(3),
    "a long range": lambda: range(10**15),
    "a slice": lambda: slice(None),
    "a generator": lambda: (x for x in (0.0, 1.0)),
    "an iterator": lambda: iter([[0.0, 1.0], [1.0, 0.0]]),
    "an endless iterator": itertools.count,
    "an endless iterator of one": lambda: itertools.repeat(0.5),
    "a generator that raises": _raising,
    "a zip": lambda: zip([1], [2], strict=True),
    "a map": lambda: map(float, "12"),
    # arrays
    "an empty array": lambda: np.empty(0),
    "an empty matrix": lambda: np.empty((0, 3)),
    "an array of no columns": lambda: np.empty((3, 0)),
    "an array of 64 axes": lambda: np.zeros((1,) * 64),
    "an array of float16": lambda: np.eye(3, dtype=np.float16),
    "an array of longdouble": lambda: np.full((3, 3), np.longdouble("1e4000")),
    "an array of complex": lambda: np.eye(3, dtype=complex),
    "an array of objects": lambda: np.array([[0, 1.0, None], [1, 0, 2], [3, 2, 0]], dtype=object),
    "an array of texts": lambda: np.array([["0", "1"], ["1", "0"]]),
    "an array of bytes": lambda: np.array([b"0", b"1"]),
    "an array of dates": lambda: np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    "a structured array": lambda: np.zeros(3, [("a", float), ("b", int)]),
    "a record array": lambda: np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", int), ("b", float)]),
    "an array of bools": lambda: np.eye(3, dtype=bool),
    "a masked array": lambda: np.ma.masked_array(1.0 - np.eye(3), mask=np.eye(3, dtype=bool)),
    "a masked array of one": lambda: np.ma.masked_array([1.0], mask=[True]),
    "the masked constant": lambda: np.ma.masked,
    "a masked array without masks": lambda: np.ma.masked_array(1.0 - np.eye(3)),
    "a list of masked arrays": lambda: [np.ma.masked_array([0.0, 1.0], mask=[True, False]), [1.0, 0.0]],
    "an array of nan": lambda: np.full((3, 3), math.nan),
    "an array of inf": lambda: np.full((3, 3), math.inf),
    "an array of 1e308": lambda: np.full((3, 3), 1e308),
    "an array of -1": lambda: np.full((3, 3), -1.0),
    "a matrix": lambda: np.matrix("0 1; 1 0"),
    "a memory map": _mapped,
    "a broadcast array": lambda: np.broadcast_to(np.float64(0.0), (10**9, 10**9)),
    "a scalar broadcast": lambda: np.broadcast_to(np.float64(0.5), (3, 3)),
    # rude ones
    **{
        f"rude {method}": (lambda method=method: _rude(method))
        for method in (
            "__len__", "__eq__", "__repr__", "__array__", "__iter__", "__getattr__", "__bool__", "__float__", "__int__",
            "__index__", "__hash__", "__str__", "__call__", "__getitem__", "__contains__", "__fspath__", "act",
        )
    },
    "rude length of a list": lambda: RudeLength([1.0, 2.0]),
    "rude items of a mapping": RudeItems,
    "a rude text": lambda: RudeText("a"),
    "a rude number": lambda: RudeNumber(0.5),
    "a list of rude objects": lambda: [_rude("__eq__"), _rude("__bool__"), _rude("__repr__")],
    "a liar about its length": LiarLength,
    "a generator of random numbers": lambda: np.random.default_rng(0),
    "a legacy generator of random numbers": lambda: np.random.RandomState(0),
    "a bit generator": lambda: np.random.PCG64(0),
    "a seed sequence": lambda: np.random.SeedSequence(0),
}  # fmt: skip


def _nan_inside(value: Any) -> Any:
    array = np.array(value, np.float64)
    if not array.size:
        raise TypeError("nothing inside")
    array.flat[-1] = math.nan
    return array


def _put(value: Any, inner: Any) -> Any:
    made = np.array(value, np.float64)
    if not made.size:
        raise TypeError("nothing inside")
    made.flat[0] = inner
    return made


def _strided(value: Any) -> Any:
    array = np.asarray(value)
    return np.repeat(array, 2, axis=-1)[..., ::2]


def _frozen(value: Any) -> Any:
    array = np.array(value)
    array.setflags(write=False)
    return array


def _filed(value: Any) -> Any:
    array = np.asarray(value)
    with tempfile.NamedTemporaryFile() as file:
        made = np.memmap(file.name, array.dtype, "w+", shape=array.shape)
    made[...] = array
    return made


def _half_masked(value: Any) -> Any:
    array = np.ma.masked_array(np.array(value))
    if not array.size:
        raise TypeError("nothing to mask")
    array.flat[0] = np.ma.masked
    return array


def _with(value: Any, more: Any) -> list[Any]:
    return [*value, more]


TWISTS: dict[str, Callable[[Any], Any]] = {
    # an honest value in other clothes: taken for the same, or refused
    "as float16": lambda x: np.asarray(x).astype(np.float16),
    "as float32": lambda x: np.asarray(x).astype(np.float32),
    "as longdouble": lambda x: np.asarray(x).astype(np.longdouble),
    "as int8": lambda x: np.asarray(x).astype(np.int8),
    "as uint64": lambda x: np.asarray(x).astype(np.uint64),
    "as bool": lambda x: np.asarray(x).astype(bool),
    "as complex": lambda x: np.asarray(x).astype(complex),
    "as objects": lambda x: np.asarray(x).astype(object),
    "as texts": lambda x: np.asarray(x).astype(str),
    "big-endian": lambda x: np.asarray(x).astype(np.asarray(x).dtype.newbyteorder(">")),
    "read-only": _frozen,
    "column by column": lambda x: np.asfortranarray(x),
    "with gaps": _strided,
    "backwards": lambda x: np.asarray(x)[::-1],
    "transposed": lambda x: np.asarray(x).T,
    "as a matrix": lambda x: np.matrix(x),
    "as a masked array": lambda x: np.ma.masked_array(np.array(x)),
    "with a mask": _half_masked,
    "all masked": lambda x: np.ma.masked_all_like(np.array(x)),
    "as a memory map": _filed,
    "of one more axis": lambda x: np.asarray(x)[None],
    "of one axis less": lambda x: np.asarray(x)[0],
    "doubled": lambda x: np.concatenate([np.asarray(x)] * 2),
    "halved": lambda x: x[: len(x) // 2],
    "with nan": _nan_inside,
    "with inf": lambda x: _put(x, math.inf),
    "with 1e308": lambda x: _put(x, 1e308),
    "with -1": lambda x: _put(x, -1.0),
    "with 2**62": lambda x: _put(x, 2.0**62),
    "negated": lambda x: -np.asarray(x),
    "times 1e300": lambda x: np.asarray(x) * 1e300,
    "times 1e-300": lambda x: np.asarray(x) * 1e-300,
    "as nested lists": lambda x: np.asarray(x).tolist(),
    "as a list": list,
    "as a tuple": tuple,
    "as a set": set,
    "as a frozenset": frozenset,
    "as a generator": lambda x: (y for y in x),
    "as an iterator": iter,
    "as a dict": lambda x: dict(enumerate(x)),
    "with None at the end": lambda x: _with(x, None),
    "with itself at the end": lambda x: _with(x, x),
    "with a text at the end": lambda x: _with(x, "a"),
    "with a rude object at the end": lambda x: _with(x, _rude("__eq__")),
    "endless": lambda x: itertools.cycle(list(x)),
    "alone": lambda x: x[0],
    "in a list": lambda x: [x],
    "as a text": str,
    "as a text with NUL": lambda x: f"{x}\0",
    "as bytes": lambda x: str(x).encode(),
    "plus 1": lambda x: x + 1,
    "minus 1": lambda x: x - 1,
    "as a float": float,
    "as an int8 number": lambda x: np.int8(x),
    "as a numpy number": lambda x: np.float64(x),
    "as a float16 number": lambda x: np.float16(x),
    "as a 0-d array": lambda x: np.array(x),
    "as a fraction": lambda x: Fraction(x),
    "as a decimal": lambda x: Decimal(x),
    "without a key": lambda x: dict(list(x.items())[1:]),
    "with an odd key": lambda x: {**x, None: None},
    "with another key": lambda x: {**x, "other": 1},
    "its keys": lambda x: x.keys(),
}


INSIDE = ", inside"


def names() -> list[str]:
    """What odd values are called: those made of nothing, those made of a right one, and those within one."""
    return [*ODD, *TWISTS, *(f"{name}{INSIDE}" for name in ODD)]


def odd(name: str, right: Any) -> Any:
    """The odd value of this name, in the place of a right one; ``ImpossibleError`` where none can be made of it."""
    if name in ODD:
        return ODD[name]()
    if name.endswith(INSIDE):
        return _inside(right, name.removesuffix(INSIDE))
    try:
        with np.errstate(all="ignore"):
            return TWISTS[name](right)
    except Exception as error:  # a twist for arrays cannot be done to a text
        raise ImpossibleError(f"{name} of a {type(right).__name__}") from error


def _inside(right: Any, name: str) -> Any:
    """A list, a tuple or a dict with an odd value in one place, which the name chooses."""
    if not isinstance(right, list | tuple | dict) or not right:
        raise ImpossibleError(f"{name} within a {type(right).__name__}")
    place = len(name) % len(right)
    if isinstance(right, dict):
        return {**right, list(right)[place]: ODD[name]()}
    replaced = [ODD[name]() if i == place else inner for i, inner in enumerate(right)]
    return replaced if isinstance(right, list) else tuple(replaced)
