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

from pastmaster.arrays import Array, as_array, sealed
from pastmaster.errors import InvalidInputError
from pastmaster.policies.head import limit_from_plain, plain_limit
from pastmaster.policies.onnx_graph import Tensor
from pastmaster.policies.stack import checked_states
from pastmaster.tables import counted, shown
from pastmaster.tasks.spaces import described_space

LAYOUTS = ("as_is", "channels_first", "channels_last")
WHOLE = ""  # the key of an observation that is no Dict
Shape = tuple[int, ...]


class Part(NamedTuple):
    """An observation, or what a Dict holds under a key: its shape and type, and n of Discrete(n), 0 of others."""

    shape: Shape
    dtype: str
    n: int

    def __str__(self) -> str:
        return f"Discrete({self.n})" if self.n else f"{self.dtype} {list(self.shape)}"

    def checked(self, values: Any, place: str) -> Array:
        """A batch of this part, of the shape and type that goes in."""
        array = as_array(values, place, None)
        kinds = "biu"
        if np.dtype(self.dtype).kind == "f":
            kinds = "biuf"
        if self.n and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.shape[1:] != self.shape or not array.ndim or array.dtype.kind not in kinds:
            raise InvalidInputError(
                f"{place} have shape {array.shape} and dtype {array.dtype}, must be [n, ...] of {self}"
            )
        return checked_states(array, self.n, place) if self.n else array

    def forms(self) -> list[tuple[str, Shape]]:
        """How an observation can go in, and the shape that it has then."""
        if self.n:
            numbers = [("number", ()), ("number", (1,))]
            return numbers if self.n == 1 else [*numbers, ("one_hot", (self.n,))]
        found = [("as_is", self.shape)]
        if len(self.shape) != 1:
            found.append(("as_is", (math.prod(self.shape),)))
        if len(self.shape) == 3:
            found.append(("channels_first", (self.shape[2], *self.shape[:2])))
            found.append(("channels_last", (*self.shape[1:], self.shape[0])))
        return found


class Input(NamedTuple):
    """How a part of an observation goes into a graph: the input's name, type and shape, and the form."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    form: str

    def encoded(self, part: Array, n: int) -> Array:
        """A batch [n, ...] as it goes in, row by row: [n, *shape]."""
        if self.form == "one_hot":
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
    fitting: list[tuple[str, Shape]] = []
    for lead in (1, 0, 2) if recurrent else (1, 0):  # axes of a batch; none; a batch and time
        if not fitting and tensor.shape is not None:
            wanted = [(form, (1,) * lead + shape) for form, shape in part.forms()]
            fitting = [(form, shape) for form, shape in wanted if _fits(tensor.shape, shape)]
    if layout is not None and not part.n:
        fitting = [(form, shape) for form, shape in fitting if form == layout]
    what = f"{place}: its input {shown(name)} takes {tensor}"
    if len(fitting) > 1:
        ways = " or ".join(sorted(form for form, _ in fitting))
        raise InvalidInputError(f"{what}, which an observation of {part} fits as {ways}: layout must be given")
    if not fitting or not np.can_cast(part.dtype, tensor.dtype, "same_kind"):
        given = "" if layout is None else f", for layout={layout!r}"
        raise InvalidInputError(f"{what}, must be [n, ...] for observations of {part}, with n free or 1{given}")
    form, shape = fitting[0]
    return Input(name, tensor.dtype, shape, form)


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
        actions = counted(self.size, "whole number")
        whole = tensor.dtype.kind in "iub"
        if self.kind == "Box":
            fits = not whole and size == self.size
            wanted = counted(self.size, "float")
        elif self.kind == "MultiBinary":
            fits = whole and size == self.size
            wanted = f"{actions} 0 or 1"
        else:
            fits = size == self.size and not self.start if whole else size == sum(self.choices)
            wanted = f"{counted(sum(self.choices), 'float')}, of which the largest decides"
            if not self.start:
                wanted = f"{wanted}, or {actions}, the action{'s' * (self.size != 1)}"
        if not fits:
            raise InvalidInputError(
                f"{place}: its output {shown(name)} gives {counted(size, 'number')} of type {tensor.dtype} "
                f"to an observation, must be {wanted}, for {self}"
            )

    def of_outputs(self, outputs: Array, place: str) -> Array:
        """Actions [n, ...] from outputs [n, size]."""
        actions: Array
        whole = outputs.dtype.kind in "iub"
        if not whole and np.isnan(outputs).any():
            raise InvalidInputError(f"{place} gave nan for an observation, must give numbers")
        if self.kind == "Box":
            actions = np.clip(outputs.astype(self.dtype).reshape(len(outputs), *self.shape), self.low, self.high)
            return actions
        if not whole:
            parts = np.split(outputs, np.cumsum(self.choices)[:-1], axis=1)
            outputs = np.stack([part.argmax(axis=1) for part in parts], axis=1)
        most = np.array(self.choices or (2,))
        if ((outputs < 0) | (outputs >= most)).any():
            raise InvalidInputError(f"{place} gave the action {shown(outputs.max(0).tolist())}, must be of {self}")
        actions = outputs.astype(self.dtype).reshape(len(outputs), *self.shape) + np.array(self.start, self.dtype)
        return actions

    def __str__(self) -> str:
        if self.kind == "Discrete":
            return f"Discrete({self.choices[0]}{f', start={self.start}' if self.start else ''})"
        return f"MultiDiscrete({list(self.choices)})" if self.choices else f"{self.kind} {list(self.shape)}"

    @property
    def settings(self) -> dict[str, Any]:
        """All of it as plain JSON values; a limit that is infinite is None."""
        low, high = (None if limit is None else plain_limit(limit.ravel()) for limit in (self.low, self.high))
        plain = self._asdict() | {"shape": list(self.shape), "choices": list(self.choices)}
        return plain | {"low": low, "high": high}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Actions:
        """The actions that ``settings`` gave these values."""
        given = dict(settings) | {key: tuple(settings[key]) for key in ("shape", "choices")}
        for key, endless in (("low", -np.inf), ("high", np.inf)):
            limit = limit_from_plain(settings[key], endless, given["dtype"])
            given[key] = None if limit is None else sealed(limit.reshape(given["shape"]))
        return cls(**given)


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
        limits = sealed(space.low.copy()), sealed(space.high.copy())
        return Actions("Box", tuple(space.shape), str(space.dtype), low=limits[0], high=limits[1])
    raise InvalidInputError(
        f"{place} is {described_space(space)}, must be Discrete, MultiDiscrete from 0, MultiBinary or a Box of floats"
    )
