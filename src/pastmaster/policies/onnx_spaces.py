"""How observations go into a graph and its outputs become actions: by shapes and types, where these leave no doubt.

A policy is asked about one observation at a time, so an axis for the batch has size 1. An observation goes in as it is,
flat, with its channels moved to the front or to the end, or, from a Discrete space, as a number or one-hot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.onnx_graph import Tensor
from pastmaster.tables import counted, shown
from pastmaster.tasks.spaces import described_space

LAYOUTS = ("as_is", "channels_first", "channels_last")
NUMBER, ONE_HOT = "number", "one_hot"
WHOLE = ""  # the key of an observation that is no Dict
Shape = tuple[int, ...]


class Part(NamedTuple):
    """An observation, or what a Dict holds under a key: its shape and type, and n of Discrete(n), 0 of others."""

    shape: Shape
    dtype: str
    n: int


class Input(NamedTuple):
    """How a part of an observation goes into a graph: the input's name, type and shape, and the form."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    form: str

    def encoded(self, part: Array, n: int) -> Array:
        """A batch [n, ...] as it goes in, row by row: [n, *shape]."""
        if self.form == ONE_HOT:
            part = np.eye(math.prod(self.shape), dtype=self.dtype)[part.reshape(n)]
        elif self.form == "channels_first":
            part = np.moveaxis(part, -1, 1)
        elif self.form == "channels_last":
            part = np.moveaxis(part, 1, -1)
        return np.ascontiguousarray(part, self.dtype).reshape(n, *self.shape)


def parts_of(space: gym.Space[Any], place: str) -> dict[str, Part]:
    """The parts of an observation by key; one that is no Dict has one part, ``WHOLE``."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _part(inner, f"{place}[{key!r}]") for key, inner in space.spaces.items()}
    return {WHOLE: _part(space, place)}


def _part(space: gym.Space[Any], place: str) -> Part:
    if isinstance(space, gym.spaces.Discrete) and space.start == 0:
        return Part((), "int64", int(space.n))
    if isinstance(space, gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        return Part(tuple(map(int, space.shape)), str(space.dtype), 0)
    raise InvalidInputError(
        f"{place} is {described_space(space)}, must be a Box, MultiDiscrete, MultiBinary, Discrete from 0, or a Dict "
        "of these"
    )


def matched(name: str, tensor: Tensor, part: Part, layout: str | None, recurrent: bool, place: str) -> Input:
    """How a part goes into an input of a graph; an error where it does not fit, or fits in two ways."""
    forms: set[tuple[str, Shape]] = set()
    axes = tensor.shape or ()
    for lead in (1, 0, 2) if recurrent else (1, 0):  # of a batch; of none; of a batch and time
        if not forms and len(axes) >= lead and all(size in (None, 1) for size in axes[:lead]):
            forms = {(form, (1,) * lead + shape) for form, shape in _forms(part, axes[lead:])}
    if layout is not None and not part.n:
        forms = {(form, shape) for form, shape in forms if form == layout}
    what = f"{place}: its input {shown(name)} takes {tensor}"
    if len(forms) > 1:
        ways = " or ".join(sorted(form for form, _ in forms))
        raise InvalidInputError(f"{what}, which an observation of {_told(part)} fits as {ways}: layout must be given")
    if tensor.shape is None or not forms or not _castable(part.dtype, tensor.dtype):
        raise InvalidInputError(
            f"{what}, must be [n, ...] for observations of {_told(part)}, with n free or 1"
            + ("" if layout is None else f", for layout={layout!r}")
        )
    form, shape = forms.pop()
    return Input(name, tensor.dtype, shape, form)


def _told(part: Part) -> str:
    return f"Discrete({part.n})" if part.n else f"{part.dtype} {list(part.shape)}"


def _castable(have: str, wanted: np.dtype[Any]) -> bool:
    """Whether numbers may go in: floats as floats, whole numbers as either, if they fit."""
    return bool(np.can_cast(have, wanted, "same_kind"))


def _forms(part: Part, axes: tuple[int | None, ...]) -> list[tuple[str, Shape]]:
    """The forms in which a part fits the axes of an input, without those of the batch."""
    if part.n:
        found: list[tuple[str, Shape]] = [(NUMBER, (1,) * len(axes))] if axes in ((), (1,), (None,)) else []
        return found + ([(ONE_HOT, (part.n,))] if part.n > 1 and axes in ((part.n,), (None,)) else [])
    shape = part.shape
    orders = {"as_is": shape}
    if len(shape) == 3:
        orders |= {"channels_first": (shape[2], *shape[:2]), "channels_last": (*shape[1:], shape[0])}
    fitting = [(form, moved) for form, moved in orders.items() if _fits(axes, moved)]
    flat = (math.prod(shape),)
    return fitting or ([("as_is", flat)] if len(shape) != 1 and _fits(axes, flat) else [])


def _fits(axes: tuple[int | None, ...], shape: Shape) -> bool:
    return len(axes) == len(shape) and all(a in (None, s) for a, s in zip(axes, shape, strict=True))


class Actions(NamedTuple):
    """A space of actions as far as a policy depends on it; the numbers of choices of Discrete and MultiDiscrete."""

    kind: str
    shape: Shape
    dtype: str
    start: int = 0
    choices: Shape = ()
    low: Array | None = None
    high: Array | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def check_output(self, name: str, tensor: Tensor, size: int, place: str) -> None:
        """Refuse an output of so many numbers to an observation that does not tell an action."""
        whole = tensor.dtype.kind in "iub"
        if self.kind == "Box":
            fits, wanted = not whole and size == self.size, counted(self.size, "float")
        elif self.kind == "MultiBinary":
            fits, wanted = whole and size == self.size, f"{counted(self.size, 'whole number')} 0 or 1"
        else:
            n = sum(self.choices)
            fits = size == self.size and not self.start if whole else size == n
            wanted = f"{counted(n, 'float')}, of which the largest decides" + (
                "" if self.start else f", or {counted(self.size, 'whole number')}, the action{'s' * (self.size != 1)}"
            )
        if not fits:
            raise InvalidInputError(
                f"{place}: its output {shown(name)} gives {counted(size, 'number')} of type {tensor.dtype} "
                f"to an observation, must be {wanted}, for {self}"
            )

    def of_outputs(self, outputs: Array, place: str) -> Array:
        """Actions [n, ...] from outputs [n, size]."""
        n, whole = len(outputs), outputs.dtype.kind in "iub"
        if not whole and np.isnan(outputs).any():
            raise InvalidInputError(f"{place} gave nan for an observation, must give numbers")
        if self.kind == "Box":
            assert self.low is not None
            assert self.high is not None
            actions: Array = np.clip(outputs.astype(self.dtype).reshape(n, *self.shape), self.low, self.high)
            return actions
        if not whole:
            cuts = np.cumsum(self.choices)[:-1]
            outputs = np.stack([part.argmax(axis=1) for part in np.split(outputs, cuts, axis=1)], axis=1)
        most = np.array([2] * self.size if self.kind == "MultiBinary" else self.choices)
        if n and ((outputs < 0) | (outputs >= most)).any():
            raise InvalidInputError(f"{place} gave the action {shown(outputs.max(0).tolist())}, must be of {self}")
        chosen: Array = outputs.astype(self.dtype).reshape(n, *self.shape) + np.array(self.start, self.dtype)
        return chosen

    def __str__(self) -> str:
        if self.kind == "Discrete":
            return f"Discrete({self.choices[0]}{f', start={self.start}' if self.start else ''})"
        return f"MultiDiscrete({list(self.choices)})" if self.choices else f"{self.kind} {list(self.shape)}"

    @property
    def settings(self) -> dict[str, Any]:
        """All of it as plain JSON values; a limit that is infinite is None."""
        limits = (
            None if limit is None else [float(x) if np.isfinite(x) else None for x in limit.ravel()]
            for limit in (self.low, self.high)
        )
        plain = {"kind": self.kind, "shape": list(self.shape), "dtype": self.dtype, "start": self.start}
        return plain | {"choices": list(self.choices)} | dict(zip(("low", "high"), limits, strict=True))


def actions_of(space: gym.Space[Any], place: str) -> Actions:
    """A space of actions that a graph can act in."""
    if isinstance(space, gym.spaces.Discrete):
        return Actions("Discrete", (), "int64", int(space.start), (int(space.n),))
    if isinstance(space, gym.spaces.MultiDiscrete) and not space.start.any():
        choices = tuple(space.nvec.ravel().tolist())
        return Actions("MultiDiscrete", tuple(space.shape), str(space.dtype), choices=choices)
    if isinstance(space, gym.spaces.MultiBinary):
        return Actions("MultiBinary", tuple(space.shape), str(space.dtype))
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Actions(
            "Box", tuple(space.shape), str(space.dtype), low=sealed(space.low.copy()), high=sealed(space.high.copy())
        )
    raise InvalidInputError(
        f"{place} is {described_space(space)}, must be Discrete, MultiDiscrete from 0, MultiBinary or a Box of floats"
    )


def space_from(settings: Mapping[str, Any]) -> gym.Space[Any]:
    """The space that ``Actions.settings`` describe; what makes no sense raises whatever Gymnasium or NumPy does."""
    kind, shape = settings["kind"], tuple(settings["shape"])
    if math.prod(shape) > 2**20 or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"the shape of actions is {shown(shape)}")
    if kind == "Discrete":
        (n,) = settings["choices"]
        return gym.spaces.Discrete(n, start=settings["start"])
    if kind == "MultiDiscrete":
        return gym.spaces.MultiDiscrete(np.array(settings["choices"]).reshape(shape), dtype=settings["dtype"])
    if kind == "MultiBinary":
        return gym.spaces.MultiBinary(shape)
    low, high = (
        np.array([endless if x is None else x for x in settings[key]], settings["dtype"]).reshape(shape)
        for key, endless in (("low", -np.inf), ("high", np.inf))
    )
    return gym.spaces.Box(low, high, dtype=settings["dtype"])
