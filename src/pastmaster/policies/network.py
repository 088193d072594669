"""A policy that is a multilayer perceptron, all of it data: settings as plain JSON values, weights as a flat array."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster.arrays import Array, as_array, sealed
from pastmaster.checks import chosen, flag, is_finite, is_number, is_whole, listed, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.policies.activations import ACTIVATIONS
from pastmaster.policies.stack import NetworkStack, Shape
from pastmaster.tables import shown

HEADS = ("argmax", "argmaxes", "clip", "tanh")
KEYS = ("sizes", "activation", "head", "start", "nvec", "low", "high", "one_hot", "normalise")
MOST_LAYERS = 100
MOST_WEIGHTS = 2**28


class NetworkPolicy:
    """A multilayer perceptron as a policy, evaluated with NumPy.

    Parameters
    ----------
    layers : sequence of pairs of arrays
        Weights [out, in] and biases [out] of each linear layer, as torch keeps them.
    activation : str
        What stands between layers: "tanh", "relu", "leaky_relu", "elu", "selu", "sigmoid", "silu", "gelu",
        "softplus", "mish" or "identity".
    head : "argmax", "argmaxes", "clip" or "tanh"
        How outputs become actions: the largest (Discrete), the largest of each part (MultiDiscrete), clipped to
        ``low`` .. ``high``, or squashed into it by tanh (Box).
    start : int
        The first action of a Discrete space.
    nvec : sequence of int
        The sizes of a MultiDiscrete space.
    low, high : array, optional
        The limits of a Box of actions.
    one_hot : bool
        Whether observations are Discrete, and encoded one-hot.
    normalise : mapping, optional
        "mean", "var", and perhaps "epsilon" (1e-8) and "clip" (10): the network then sees
        clip((observation - mean) / sqrt(var + epsilon), -clip, clip).

    Raises
    ------
    InvalidInputError
        The parts do not fit together.

    Examples
    --------
    >>> from pastmaster.policies import NetworkPolicy
    >>> policy = NetworkPolicy([([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])])
    >>> policy.act([[0.2, 0.7], [0.9, 0.1]]).tolist()
    [1, 0]
    """

    random = False
    name = ""  # what prints and pictures call it: of one that was loaded, the name of its file

    def __init__(
        self,
        layers: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
        *,
        activation: str = "tanh",
        head: str = "argmax",
        start: int = 0,
        nvec: Sequence[int] = (),
        low: npt.ArrayLike | None = None,
        high: npt.ArrayLike | None = None,
        one_hot: bool = False,
        normalise: Mapping[str, Any] | None = None,
    ) -> None:
        caller = "NetworkPolicy"
        arrays = [_checked_layer(caller, k, layer) for k, layer in enumerate(listed(layers, f"{caller}: layers"))]
        if not arrays:
            raise InvalidInputError(f"{caller}: layers is empty, must have at least one")
        sizes = [arrays[0][0].shape[1]]
        for k, (weights, _) in enumerate(arrays):
            if weights.shape[1] != sizes[-1]:
                raise InvalidInputError(
                    f"{caller}: layers[{k}] takes {weights.shape[1]} numbers, must take {sizes[-1]}"
                )
            sizes.append(weights.shape[0])
        chosen(caller, "activation", activation, ACTIVATIONS)
        limits = _checked_head(caller, head, sizes[-1], start, nvec, low, high)
        one_hot = flag(caller, "one_hot", one_hot)
        if one_hot and normalise is not None:
            raise InvalidInputError(f"{caller}: one_hot is {shown(one_hot)}, must be False with normalise")
        shape = Shape(
            tuple(sizes), activation, head, one_hot, int(start), tuple(map(int, nvec)),
            () if limits is None else limits[0].shape,
        )  # fmt: skip
        self.normalise = None if normalise is None else checked_normalisation(caller, normalise, sizes[0])
        self.stack = NetworkStack(
            shape,
            [sealed(weights.T)[None] for weights, _ in arrays],
            [biases[None] for _, biases in arrays],
            None if limits is None else [limit[None, None] for limit in limits],
            None if self.normalise is None else _normal(self.normalise),
        )

    def act(self, observations: Any) -> Array:
        """Actions [n, ...] for observations [n, ...]."""
        actions: Array = self.stack.act(as_array(observations, "act: observations", None)[None])[0]
        return actions

    def outputs(self, observations: Any) -> Array:
        """What the last layer gives [n, out], before the head: the logits or values of actions, or their mean."""
        outputs: Array = self.stack.outputs(as_array(observations, "outputs: observations", None)[None])[0]
        return outputs

    def __repr__(self) -> str:
        return f"NetworkPolicy({self.stack.shape}{', normalised' if self.normalise else ''})"

    @cached_property
    def weights(self) -> npt.NDArray[np.float32]:
        """All weights and biases in one flat array: of each layer the weights [out, in], then the biases."""
        parts = zip(self.stack.weights, self.stack.biases, strict=True)
        return sealed(np.concatenate([part for w, b in parts for part in (w[0].T.ravel(), b[0])]))

    @property
    def settings(self) -> dict[str, Any]:
        """All else, as plain JSON values; a limit that is infinite is None."""
        shape = self.stack.shape
        low, high = (None, None) if self.stack.limits is None else (_plain(limit[0, 0]) for limit in self.stack.limits)
        normalise = None
        if self.normalise is not None:
            normalise = {key: np.asarray(value).tolist() for key, value in self.normalise.items()}
        return {
            "sizes": list(shape.sizes), "activation": shape.activation, "head": shape.head, "start": shape.start,
            "nvec": list(shape.nvec), "low": low, "high": high, "one_hot": shape.one_hot, "normalise": normalise,
        }  # fmt: skip

    @classmethod
    def from_data(cls, settings: Mapping[str, Any], weights: npt.ArrayLike) -> NetworkPolicy:
        """The policy whose properties ``settings`` and ``weights`` gave these; everything is checked."""
        caller = "NetworkPolicy.from_data"
        if not isinstance(settings, Mapping) or set(settings) != set(KEYS):
            raise InvalidInputError(f"{caller}: settings is not a dict of {', '.join(KEYS)}, must be")
        sizes = settings["sizes"]
        if not isinstance(sizes, list) or not 2 <= len(sizes) <= MOST_LAYERS + 1:
            raise InvalidInputError(f"{caller}: sizes must be a list of 2 to {MOST_LAYERS + 1} numbers")
        sizes = [whole(caller, f"sizes[{k}]", size, at_least=1) for k, size in enumerate(sizes)]
        flat = as_array(weights, f"{caller}: weights", None)
        wanted = sum((m + 1) * d for m, d in pairwise(sizes))
        if flat.dtype != np.float32 or flat.shape != (wanted,) or wanted > MOST_WEIGHTS:
            raise InvalidInputError(
                f"{caller}: weights have shape {flat.shape} and dtype {flat.dtype}, "
                f"must be [{wanted}] float32 for layers of {sizes}, and at most {MOST_WEIGHTS:,}"
            )
        layers, at = [], 0
        for m, d in pairwise(sizes):
            layers.append((flat[at : at + m * d].reshape(d, m), flat[at + m * d : at + m * d + d]))
            at += m * d + d
        rest: dict[str, Any] = {key: settings[key] for key in KEYS if key != "sizes"}
        for key in ("low", "high"):
            rest[key] = _from_plain(caller, key, settings[key], sizes[-1])
        return cls(layers, **rest)


def checked_normalisation(caller: str, normalise: Any, size: int) -> dict[str, Any]:
    """mean, var [size], epsilon and clip; the last two have VecNormalize's defaults."""
    known = {"mean", "var", "epsilon", "clip"}
    if not isinstance(normalise, Mapping) or not {"mean", "var"} <= set(normalise) <= known:
        raise InvalidInputError(f"{caller}: normalise must be a dict of mean and var, and perhaps epsilon and clip")
    checked: dict[str, Any] = {}
    for key in ("mean", "var"):
        array = _numbers(caller, f"normalise[{key!r}]", normalise[key], size).astype(np.float64).ravel()
        if not np.isfinite(array).all() or (key == "var" and (array < 0).any()):
            raise InvalidInputError(f"{caller}: normalise[{key!r}] must be finite{', not below 0' * (key == 'var')}")
        checked[key] = sealed(array)
    checked["epsilon"] = within(caller, "normalise['epsilon']", normalise.get("epsilon", 1e-8), 0.0, math.inf)
    checked["clip"] = within(caller, "normalise['clip']", normalise.get("clip", 10.0), 0.0, math.inf)
    if checked["epsilon"] == 0 and not checked["var"].all():
        raise InvalidInputError(f"{caller}: normalise has var 0 and epsilon 0, must not divide by 0")
    return checked


def _normal(normalise: Mapping[str, Any]) -> list[Array]:
    """Mean, deviation and clip as a stack of one holds them."""
    deviation = np.sqrt(normalise["var"] + normalise["epsilon"])
    return [normalise["mean"][None, None], deviation[None, None], np.full((1, 1, 1), normalise["clip"])]


def _numbers(caller: str, name: str, values: Any, size: int) -> Array:
    """Numbers as an array of ``size`` entries in any shape."""
    array = np.empty(0) if values is None else as_array(values, f"{caller}: {name}", "iuf")
    if array.size != size:
        raise InvalidInputError(f"{caller}: {name} must hold {size} numbers, not {array.size}")
    return array


def _checked_layer(caller: str, k: int, layer: Any) -> tuple[Array, Array]:
    parts = listed(layer, f"{caller}: layers[{k}]", "weights [out, in] and biases [out]", most=2)
    if len(parts) != 2:
        raise InvalidInputError(f"{caller}: layers[{k}] must be weights [out, in] and biases [out]")
    with np.errstate(over="ignore"):
        weights, biases = (
            np.ascontiguousarray(as_array(part, f"{caller}: layers[{k}]", "iuf"), np.float32) for part in parts
        )
    if weights.ndim != 2 or 0 in weights.shape or biases.shape != weights.shape[:1]:
        raise InvalidInputError(
            f"{caller}: layers[{k}] has shapes {weights.shape} and {biases.shape}, must be [out, in] and [out]"
        )
    if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
        raise InvalidInputError(f"{caller}: layers[{k}] has numbers that are not finite, all must be")
    return sealed(weights), sealed(biases.copy())


def _checked_head(
    caller: str, head: Any, outputs: int, start: Any, nvec: Any, low: Any, high: Any
) -> tuple[Array, Array] | None:
    """The limits of a Box head, None of the others; errors where an argument does not fit the head."""
    chosen(caller, "head", head, HEADS)
    if not is_whole(start) or (start != 0 and head != "argmax"):
        raise InvalidInputError(
            f"{caller}: start is {shown(start)}, must be a whole number, and 0 unless head is 'argmax'"
        )
    if not isinstance(nvec, Sequence) or isinstance(nvec, str):
        raise InvalidInputError(f"{caller}: nvec is {shown(nvec)}, must be a list")
    if head != "argmaxes" and len(nvec):
        raise InvalidInputError(f"{caller}: nvec is {shown(nvec)}, must be empty unless head is 'argmaxes'")
    if head == "argmaxes" and sum(whole(caller, "nvec", n, at_least=1) for n in nvec) != outputs:
        raise InvalidInputError(f"{caller}: nvec is {shown(nvec)}, must sum to the {outputs} outputs")
    if head in ("argmax", "argmaxes"):
        if low is not None or high is not None:
            raise InvalidInputError(f"{caller}: low and high are given, must be None for head {head!r}")
        return None
    limits = [
        _numbers(caller, name, limit, outputs).astype(np.float32) for name, limit in (("low", low), ("high", high))
    ]
    if limits[0].shape != limits[1].shape or limits[0].ndim == 0 or not (limits[0] <= limits[1]).all():
        raise InvalidInputError(f"{caller}: low must be at most high, in one shape of at least one axis")
    if head == "tanh" and not np.isfinite(limits).all():
        raise InvalidInputError(f"{caller}: low and high must be finite for head 'tanh'")
    return sealed(limits[0]), sealed(limits[1])


def _plain(limit: Array) -> Any:
    """A limit as nested lists, None where infinite."""
    plain = limit.astype(object)
    plain[~np.isfinite(limit)] = None
    return plain.tolist()


def _from_plain(caller: str, name: str, values: Any, size: int) -> Array | None:
    """A limit as ``_plain`` wrote it."""
    if values is None:
        return None
    try:
        array = np.asarray(values, object)
    except Exception:  # of whatever kind: it is raised by what was given
        array = np.empty(0, object)
    if array.size != size or not all(
        entry is None or (is_number(entry) and is_finite(entry)) for entry in array.ravel()
    ):
        raise InvalidInputError(f"{caller}: {name} must hold {size} numbers or None")
    endless = -np.inf if name == "low" else np.inf
    return np.array([endless if entry is None else entry for entry in array.ravel()], np.float32).reshape(array.shape)
