"""Multilayer perceptrons evaluated with NumPy, many of one architecture at once.

    x_0 = observation (one-hot, or flat and normalised),   x_{k+1} = activation_k(x_k W_k + b_k),  action = head(x_last)

All in float32. A row's action depends on that row alone, bit for bit, in any batch or stack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pastmaster.arrays import Array, as_array
from pastmaster.errors import InvalidInputError
from pastmaster.policies._kernels import affine
from pastmaster.policies.activations import ACTIVATIONS
from pastmaster.policies.normalisation import normalised


class Shape(NamedTuple):
    """What networks must share to be evaluated together. ``nvec`` is of the head "argmaxes" only.

    ``activation`` is one between all layers, or one after each.
    """

    sizes: tuple[int, ...]
    activation: str | tuple[str, ...]
    head: str
    one_hot: bool
    start: int
    nvec: tuple[int, ...]
    box: tuple[int, ...]  # the shape of a Box action

    @property
    def activations(self) -> tuple[str, ...]:
        """The activation after each layer."""
        if isinstance(self.activation, tuple):
            return self.activation
        return (self.activation,) * (len(self.sizes) - 2) + ("identity",)

    def __str__(self) -> str:
        activation = self.activation if isinstance(self.activation, str) else "/".join(self.activation)
        return f"{' - '.join(map(str, self.sizes))}, {activation}, {self.head}"


@dataclass(frozen=True, eq=False)
class NetworkStack:
    """P networks of one shape, evaluated together; ``stacked`` makes it.

    Attributes
    ----------
    shape : Shape
        What the networks share.
    weights, biases : list of arrays [P, in, out], list of arrays [P, out]
        One of each per layer.
    limits : list of two arrays [P, 1, ...], or None
        The limits of actions of a Box.
    normal : list of three arrays, or None
        Mean [P, 1, in], deviation [P, 1, in] and clip [P, 1, 1] of the observations, in float64.
    """

    shape: Shape
    weights: list[Array]
    biases: list[Array]
    limits: list[Array] | None
    normal: list[Array] | None

    def __len__(self) -> int:
        return len(self.weights[0])

    def __repr__(self) -> str:
        return f"NetworkStack({len(self)} networks, {self.shape})"

    def act(self, observations: Any) -> Array:
        """Actions [P, n, ...] for observations [P, n, ...], network p on row p."""
        return actions_of(self.outputs(observations), self.shape, self.limits)

    def outputs(self, observations: Any) -> Array:
        """What the last layer gives [P, n, out], before the head, for observations [P, n, ...]."""
        x = as_array(observations, "act: observations", None)
        if x.ndim < 2 or len(x) != len(self):
            raise InvalidInputError(f"act: observations have shape {x.shape}, must be [{len(self)}, n, ...]")
        first, *following = (ACTIVATIONS[name] for name in self.shape.activations)
        x = first(self._first(x))
        for weights, biases, activation in zip(self.weights[1:], self.biases[1:], following, strict=True):
            x = activation(_layer(x, weights, biases))
        return x

    def _first(self, observations: Array) -> Array:
        """What the first layer gives."""
        weights = self.weights[0]
        biases = self.biases[0]
        if self.shape.one_hot:
            states = observations[:, :, 0] if observations.shape[2:] == (1,) else observations
            if states.ndim != 2:
                raise InvalidInputError(f"act: observations have shape {states.shape[1:]}, must be [n] integers")
            states = checked_states(states, self.shape.sizes[0], "act: observations")
            chosen: Array = weights[np.arange(len(self))[:, None], states] + biases[:, None]
            return chosen
        x = observations.reshape(*observations.shape[:2], math.prod(observations.shape[2:]))
        if x.shape[2] != self.shape.sizes[0] or x.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"act: observations have shape {observations.shape[1:]} and dtype {x.dtype}, "
                f"must be [n, ...] with {self.shape.sizes[0]} numbers each"
            )
        if self.normal is not None:
            x = normalised(x, *self.normal)
        return _layer(np.ascontiguousarray(x, np.float32), weights, biases)


def actions_of(outputs: Array, shape: Shape, limits: list[Array] | None) -> Array:
    """Actions [P, n, ...] as the environment takes them, from outputs [P, n, out]."""
    actions: Array
    if shape.head == "argmax":
        actions = outputs.argmax(axis=-1) + shape.start
    elif shape.head == "argmaxes":
        cuts = np.cumsum(shape.nvec)[:-1]
        actions = np.stack([part.argmax(axis=-1) for part in np.split(outputs, cuts, axis=-1)], axis=-1)
    else:
        assert limits is not None
        low, high = limits
        x = outputs.reshape(*outputs.shape[:2], *shape.box)
        if shape.head == "clip":
            actions = np.clip(x, low, high)
        else:
            actions = low + np.float32(0.5) * (np.tanh(x) + np.float32(1)) * (high - low)
    return actions


def _layer(x: Array, weights: Array, biases: Array) -> Array:
    out = np.empty((*x.shape[:2], weights.shape[2]), np.float32)
    affine(x, weights, biases, out)
    return out


def checked_states(states: Array, n: int, place: str) -> Array:
    """Discrete observations, of which none is outside 0 .. n - 1."""
    if states.size and states.dtype.kind not in "iu":
        raise InvalidInputError(f"{place} have shape {states.shape} and dtype {states.dtype}, must be [n] integers")
    if states.size and not (states.min() >= 0 and states.max() < n):
        raise InvalidInputError(f"{place} reach {states.min()} .. {states.max()}, must be in 0..{n - 1}")
    return states.astype(np.intp, copy=False)
